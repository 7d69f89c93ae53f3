//! Images whose bytes can be had only at the moment of the load, or that are too large to keep.

use r3_tests::{Bed, End, recorded_by_kernel, same_with_r3};

/// One buffer for two images, and for something else afterwards.
#[test]
fn an_image_in_a_buffer_of_the_program_is_recorded_as_it_was_loaded() {
    let (bed, _) = same_with_r3("images", &["overwritten"], |program| program);
    let archive = bed.archive();
    let mut ends: Vec<String> = archive
        .modules()
        .iter()
        .map(|module| {
            let text = archive.read_blob(&module.image).expect("readable");
            let text = String::from_utf8_lossy(&text);
            let text = text.trim_end_matches(['\0', '\n']);
            text.rsplit('\n').next().unwrap_or_default().to_owned()
        })
        .collect();
    ends.sort();
    assert_eq!(ends, ["// the first", "// the second"]);
    assert_eq!(
        archive.launches().len(),
        6,
        "three of each image's kernel: {:?}",
        recorded_by_kernel(&archive)
    );
    bed.verify();
}

/// What is in a pipe can be read once, and that is the driver's.
#[test]
fn an_image_from_a_pipe_is_left_to_the_driver() {
    let (bed, _) = same_with_r3("images", &["fifo"], |program| program);
    for path in bed.archive_paths() {
        r3_tests::open(&path);
    }
}

/// A launch is recorded with its image or not at all.
#[test]
fn an_image_that_does_not_fit_costs_its_launches() {
    let expected = Bed::new().bare("images").args(&["large"]).run();
    for budget in ["256K", "1M", "2M", "64M"] {
        let bed = Bed::new();
        let run = bed
            .recorded("images")
            .args(&["large"])
            .env("R3_BUDGET", budget)
            .run();
        assert_eq!(
            (run.end, &run.stdout),
            (End::Exit(0), &expected.stdout),
            "{run}"
        );
        assert!(
            run.stderr.lines().all(|line| line.starts_with("r3: ")),
            "{run}"
        );
        let fits = budget == "64M";
        assert_eq!(run.stderr.is_empty(), fits, "{budget}: {run}");
        let archive = bed.archive();
        assert!(
            archive.salvaged().is_none(),
            "{budget}: {:?}",
            archive.salvaged()
        );
        assert_eq!(
            archive.launches().len(),
            if fits { 3 } else { 0 },
            "{budget}"
        );
        let fsck = bed
            .replay(&["fsck", &bed.archive_paths()[0].to_string_lossy()])
            .run();
        assert_eq!(fsck.end, End::Exit(0), "{budget}: {fsck}");
    }
}
