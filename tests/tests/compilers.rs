//! Several copies of the run-time compiler in one process.

use std::os::unix::fs::symlink;
use std::path::Path;

use r3_tests::{Bed, End, Program, driver, library_path, programs};

/// The copies under the names by which programs ask for them.
fn with_copies(folder: &Path, program: Program) -> Program {
    for (name, library) in [
        ("libnvrtc.so.11.2", "libnvrtc_eleven.so"),
        ("libnvrtc.so.12", "libnvrtc_twelve.so"),
    ] {
        symlink(programs().join(library), folder.join(name)).expect("a link can be made");
    }
    let mut path = folder.as_os_str().to_owned();
    path.push(":");
    path.push(library_path(driver()));
    program.env("LD_LIBRARY_PATH", path)
}

fn same_copies(mode: &str) {
    let bare = Bed::new();
    let expected = with_copies(bare.path(), bare.bare("two_compilers"))
        .args(&[mode])
        .run();
    assert!(
        expected.stdout.contains("libnvrtc_user_twelve.so: 1"),
        "{expected}"
    );
    let bed = Bed::new();
    let run = with_copies(bed.path(), bed.recorded("two_compilers"))
        .args(&[mode])
        .run();
    assert_eq!(run.stdout, expected.stdout, "{mode}");
    assert_eq!((run.end, run.stderr.as_str()), (End::Exit(0), ""), "{mode}");
}

/// Each library gets the copy that it is linked to.
#[test]
fn every_caller_gets_its_own_copy_of_the_compiler() {
    same_copies("local");
}

/// But for a copy that is open to all, which the dynamic linker prefers.
#[test]
fn a_copy_that_is_open_to_all_is_everybodys() {
    same_copies("global");
    same_copies("first");
}
