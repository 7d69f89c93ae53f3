//! Every launch is seen, by whichever entry point it comes (interception.md, section 4, cases 18 to 26).

use r3_archive::model::{ImageKind, LayoutSource};
use r3_tests::{Bed, OldDriver, recorded_by_kernel, same_with_r3, seen_by_kernel};

fn counts<N: Copy>(pairs: &[(&str, N)]) -> Vec<(String, N)> {
    pairs
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

const DIRECT: &[(&str, usize)] = &[
    ("_Z5scaleIfEvPT_S0_i", 1),
    ("add_constants", 1),
    ("by_value", 1),
    ("count", 1),
    ("saxpy", 1),
    ("walk", 1),
];

/// Cases 18, 20, 25: kernel parameters, one buffer, no arguments; each launch once.
#[test]
fn each_entry_point_is_recorded_once() {
    let (bed, _) = same_with_r3("direct", &[], |program| program);
    let archive = bed.archive();
    assert_eq!(recorded_by_kernel(&archive), counts(DIRECT));
    let entry_point = |name: &str| {
        let kernel = archive
            .kernels()
            .iter()
            .find(|kernel| kernel.name == name)
            .expect(name);
        let launch = archive
            .launches()
            .iter()
            .find(|launch| launch.kernel == kernel.id)
            .expect(name);
        launch.entry_point.clone()
    };
    assert_eq!(entry_point("saxpy"), "cuLaunchKernel");
    assert_eq!(entry_point("_Z5scaleIfEvPT_S0_i"), "cuLaunchKernelEx");
    assert_eq!(entry_point("add_constants"), "cuLaunchCooperativeKernel");
    assert_eq!(archive.process_stats().launches, 6);
    bed.verify();
}

/// Case 20: no entry point is forgotten, those of the first versions included. What cannot be
/// recorded is counted, and named.
#[test]
fn every_entry_point_that_there_ever_was_is_counted() {
    let (bed, _) = same_with_r3("legacy", &[], |program| program);
    let archive = bed.archive();
    let stats = archive.process_stats();
    assert_eq!((stats.launches, archive.launches().len()), (11, 7));
    let mut grids: Vec<_> = archive
        .launches()
        .iter()
        .map(|launch| launch.grid[0])
        .collect();
    grids.sort_unstable();
    assert_eq!(grids, [1, 4, 5, 6, 7, 8, 9]);
    for name in [
        "cuLaunch",
        "cuLaunchGrid",
        "cuLaunchGridAsync",
        "cuLaunchCooperativeKernelMultiDevice",
    ] {
        let message = format!("launches by {name} are not recorded");
        assert!(
            stats.messages.contains(&message),
            "{message}: {:?}",
            stats.messages
        );
    }
    bed.verify();
}

/// Code compiled at run time keeps its source, headers, options and names.
#[test]
fn the_source_of_code_compiled_at_run_time_is_kept() {
    for mode in [&[][..], &["looked_up"]] {
        let (bed, _) = same_with_r3("compiled", mode, |program| program);
        let archive = bed.archive();
        let [source] = archive.sources() else {
            panic!("{mode:?}: {:?}", archive.sources())
        };
        let text = archive.read_blob(&source.text).expect("readable");
        assert_eq!(text, b"#include <scale.h>\n// as given to the compiler\n");
        assert_eq!(source.name, "scale.cu");
        assert_eq!(
            source.options,
            ["-std=c++17", "--gpu-architecture=compute_75"]
        );
        assert_eq!(source.headers.len(), 1);
        assert_eq!(source.headers[0].0, "scale.h");
        let names = [("scale<float>".to_owned(), "_Z5scaleIfEvPT_S0_i".to_owned())];
        assert_eq!(source.name_expressions, names);
        assert_eq!(archive.modules()[0].source, Some(source.id));
        bed.verify();
    }
}

/// A kernel handle of a library launched as a function, as CUDA's runtime does.
#[test]
fn kernels_of_libraries_are_recorded() {
    let (bed, _) = same_with_r3("direct", &["library"], |program| program);
    let archive = bed.archive();
    assert_eq!(recorded_by_kernel(&archive), counts(DIRECT));
    assert_eq!(
        archive
            .modules()
            .iter()
            .map(|m| m.loaded_by.as_str())
            .collect::<Vec<_>>(),
        ["cuLibraryLoadData"]
    );
    assert_eq!(archive.modules()[0].kind, ImageKind::Ptx);
    bed.verify();
}

/// Case 26: code in a fat binary.
#[test]
fn kernels_of_fat_binaries_are_recorded() {
    let (bed, _) = same_with_r3("direct", &["fatbin"], |program| program);
    let archive = bed.archive();
    assert_eq!(recorded_by_kernel(&archive), counts(DIRECT));
    assert_eq!(archive.modules()[0].kind, ImageKind::Fatbin);
    bed.verify();
}

/// Parameter bytes arrive as the program gave them, whatever way it chose.
#[test]
fn arguments_are_kept_byte_for_byte() {
    let (bed, _) = same_with_r3("direct", &[], |program| {
        program.env("SOFTCUDA_ARENA", "0x200000000000")
    });
    let archive = bed.archive();
    let launch_of = |name: &str| {
        let kernel = archive
            .kernels()
            .iter()
            .find(|kernel| kernel.name == name)
            .expect(name);
        archive
            .launches()
            .iter()
            .find(|launch| launch.kernel == kernel.id)
            .expect(name)
    };
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    };
    let saxpy = launch_of("saxpy");
    let kernel = archive.kernel(saxpy.kernel).expect("saxpy");
    let layout: Vec<_> = kernel
        .params
        .iter()
        .map(|param| (param.offset, param.size))
        .collect();
    assert_eq!(layout, [(0, 8), (8, 8), (16, 4), (20, 4)]);
    assert_eq!(saxpy.params.len(), 24);
    assert_eq!(
        f32::from_le_bytes(saxpy.params[16..20].try_into().expect("4 bytes")),
        2.0
    );
    assert_eq!(
        i32::from_le_bytes(saxpy.params[20..24].try_into().expect("4 bytes")),
        300
    );
    // One buffer: the structure's pointers are found inside it.
    let by_value = launch_of("by_value");
    assert_eq!(by_value.params[24], 3);
    let pointers: Vec<_> = by_value
        .pointers
        .iter()
        .map(|pointer| pointer.offset)
        .collect();
    assert_eq!(pointers, [0, 16]);
    assert_eq!(by_value.pointers[0].address, word(&by_value.params, 0));
    assert_eq!(word(&saxpy.params, 0), word(&by_value.params, 0));
    // No arguments.
    assert!(launch_of("count").params.is_empty());
}

/// A driver before CUDA 12.4 does not tell parameter layouts: they come from the code.
#[test]
fn an_old_driver_leaves_the_layout_to_the_code() {
    let old = OldDriver::without(&[
        "cuFuncGetParamInfo",
        "cuKernelGetParamInfo",
        "cuFuncGetName",
        "cuKernelGetName",
        "cuFuncGetModule",
    ]);
    for mode in [&[][..], &["library"], &["fatbin"]] {
        let (bed, _) = same_with_r3("direct", mode, |program| program.on(&old));
        let archive = bed.archive();
        assert_eq!(recorded_by_kernel(&archive), counts(DIRECT), "{mode:?}");
        for kernel in archive.kernels() {
            assert_eq!(kernel.layout, LayoutSource::Ptx, "{}", kernel.name);
        }
        bed.verify();
    }
}

/// Cases 20, 25: the twins for the per-thread default stream, from several threads.
#[test]
fn launches_of_many_threads_are_all_counted() {
    let (bed, _) = same_with_r3("per_thread", &["8", "40"], |program| program);
    let archive = bed.archive();
    assert_eq!(seen_by_kernel(&archive), counts(&[("saxpy", 320)]));
    assert_eq!(archive.process_stats().launches, 320);
    // Occurrences 1, 2, 3, 10 and 100 of one shape.
    let mut occurrences: Vec<_> = archive
        .launches()
        .iter()
        .map(|launch| launch.occurrence)
        .collect();
    occurrences.sort_unstable();
    assert_eq!(occurrences, [1, 2, 3, 10, 100]);
    assert!(
        archive
            .launches()
            .iter()
            .all(|launch| launch.entry_point == "cuLaunchKernel_ptsz")
    );
    bed.verify();
}

/// The same on streams of their own, each piece of work delayed at random: a snapshot that did not
/// wait for the launches before it, or that the launch did not wait for, would not verify.
#[test]
fn snapshots_are_ordered_with_the_streams_work() {
    // Launches with some before them that are not recorded, so that nothing has waited for those.
    let seventh: Vec<_> = (1..=25).map(|n| (7 * n).to_string()).collect();
    let (bed, _) = same_with_r3("per_thread", &["6", "30", "streams"], |program| {
        program
            .env("SOFTCUDA_DELAY_US", "1500")
            .env("R3_LAUNCHES", seventh.join(","))
    });
    assert_eq!(bed.archive().launches().len(), 25);
    bed.verify();
}

/// Pointers inside structures inside memory: what a list reaches is in the snapshot.
#[test]
fn memory_that_only_memory_points_to_is_recorded() {
    let bed = Bed::new();
    bed.recorded("direct").env("R3_KERNEL", "^walk$").run();
    let archive = bed.archive();
    let launch = &archive.launches()[0];
    // Five nodes and the result, and the module's variables beside them.
    let small = launch
        .before
        .regions
        .iter()
        .filter(|region| region.len == 16)
        .count();
    assert!(small >= 5, "{:?}", launch.before.regions);
    bed.verify();
}

/// The other settings of the snapshot's reach.
#[test]
fn the_reach_of_a_snapshot_can_be_set() {
    let regions = |scope: &str| {
        let bed = Bed::new();
        let run = bed
            .recorded("direct")
            .env("R3_KERNEL", "^saxpy$")
            .env("R3_SNAPSHOT", scope)
            .run();
        let archive = bed.archive();
        assert_eq!(archive.launches().len(), 1, "{run}");
        archive.launches()[0].before.regions.len()
    };
    assert_eq!(regions("args"), regions("reachable"));
    let bed = Bed::new();
    bed.recorded("direct")
        .env("R3_KERNEL", "^walk$")
        .env("R3_SNAPSHOT", "args")
        .run();
    let args = bed.archive().launches()[0].before.regions.len();
    let bed = Bed::new();
    bed.recorded("direct")
        .env("R3_KERNEL", "^walk$")
        .env("R3_SNAPSHOT", "all")
        .run();
    let all = bed.archive().launches()[0].before.regions.len();
    assert!(all > args, "{all} > {args}");
}

/// A variable's value before the launch is kept, and the launch's effect on it.
#[test]
fn variables_of_the_module_are_recorded() {
    use r3_archive::model::RegionOwner;
    let (bed, _) = same_with_r3("direct", &[], |program| program);
    let archive = bed.archive();
    let kernel = archive
        .kernels()
        .iter()
        .find(|kernel| kernel.name == "count")
        .expect("count");
    let launch = archive
        .launches()
        .iter()
        .find(|launch| launch.kernel == kernel.id)
        .expect("count");
    let region = launch
        .before
        .regions
        .iter()
        .position(
            |region| matches!(&region.owner, RegionOwner::Global { name, .. } if name == "counter"),
        )
        .expect("the variable is in the snapshot");
    assert_eq!(
        archive
            .region_before(launch, region, 0..4)
            .expect("readable"),
        [0, 0, 0, 0]
    );
    assert_eq!(
        archive
            .region_after(launch, region, 0..4)
            .expect("readable"),
        [1, 0, 0, 0]
    );
}
