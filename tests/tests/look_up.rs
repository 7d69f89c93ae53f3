//! How programs reach the driver (interception.md, section 4, cases 1 to 17).

use std::process::Command;

use r3_tests::{Bed, End, driver, libr3, programs, recorded_by_kernel, same_with_r3};

fn plugin() -> String {
    programs()
        .join("libplugin.so")
        .to_string_lossy()
        .into_owned()
}

fn saxpys(bed: &Bed) -> usize {
    recorded_by_kernel(&bed.archive())
        .iter()
        .map(|(_, launches)| launches)
        .sum()
}

/// What `lookups` prints without and with R3. The one difference that is allowed: when a name that
/// R3 exports is missing, the text of `dlerror` says so of R3's library and not of the program.
fn lookups(mode: &str) -> (Bed, String, String) {
    let bed = Bed::new();
    let expected = bed.bare("lookups").args(&[mode, &plugin()]).run();
    let run = bed.recorded("lookups").args(&[mode, &plugin()]).run();
    assert_eq!((run.end, run.stderr.as_str()), (End::Exit(0), ""), "{run}");
    let program = programs().join("lookups");
    let said = format!("{}: undefined symbol", libr3().display());
    let meant = format!("{}: undefined symbol", program.display());
    (bed, expected.stdout, run.stdout.replace(&said, &meant))
}

/// Cases 1, 2, 3, 4, 5, 6: the answer to a look-up, `dlerror` and `errno` are those of libc.
#[test]
fn a_look_up_answers_as_without_r3() {
    let (bed, expected, found) = lookups("");
    assert_eq!(found, expected);
    assert!(bed.files().is_empty());
}

/// Cases 1, 5, 6: the same when a driver is loaded.
#[test]
fn a_look_up_answers_as_without_r3_beside_a_driver() {
    let (bed, expected, found) = lookups("cuda");
    assert_eq!(found, expected);
    assert!(bed.files().is_empty());
}

/// Case 5: a look-up allocates nothing, so that a program's own `malloc` can make one.
#[test]
fn a_look_up_allocates_nothing() {
    let (bed, run) = same_with_r3("allocator", &["cuda"], |program| program);
    assert!(
        run.stdout
            .contains("0 calls in 2000 look-ups of the driver's"),
        "{run}"
    );
    assert!(bed.files().is_empty());
}

/// Case 11: programs reach the driver through `dlopen` and `dlsym`.
#[test]
fn a_driver_opened_by_name_is_recorded() {
    let (bed, _) = same_with_r3("dlopened", &[], |program| program);
    assert_eq!(
        recorded_by_kernel(&bed.archive()),
        [("saxpy".to_owned(), 3)]
    );
    bed.verify();
}

/// `dlvsym` with a version that the driver does not have fails as before.
#[test]
fn a_versioned_look_up_fails_as_before() {
    let (bed, _) = same_with_r3("dlopened", &["versioned"], |program| program);
    assert_eq!(saxpys(&bed), 3);
}

#[test]
fn a_driver_that_is_closed_and_opened_again_is_recorded() {
    let (bed, _) = same_with_r3("dlopened", &["again"], |program| program);
    // The second time the module is another one, with launches 1 and 2 of its kernel or with
    // launches 4 and 5 of the one before: the first three are there in any case.
    assert!(saxpys(&bed) >= 3);
}

/// Cases 13, 14: the look-up of the look-up function, and no place for the status.
#[test]
fn everything_behind_the_look_up_function_is_recorded() {
    let (bed, _) = same_with_r3("proc_address", &[], |program| program);
    assert_eq!(saxpys(&bed), 3);
    bed.verify();
}

/// Case 13, in the form of CUDA 11.
#[test]
fn everything_behind_the_first_form_of_the_look_up_function_is_recorded() {
    let (bed, _) = same_with_r3("proc_address", &["v1"], |program| {
        program.env("SOFTCUDA_DRIVER_VERSION", "11080")
    });
    assert_eq!(saxpys(&bed), 3);
}

/// Case 15: what the driver refuses at a version stays refused, whatever it is called.
#[test]
fn an_older_driver_keeps_refusing_what_it_lacks() {
    for version in ["12000", "12080", "13000", "13040"] {
        same_with_r3("proc_address", &[], |program| {
            program.env("SOFTCUDA_DRIVER_VERSION", version)
        });
    }
}

/// Case 7: the directory of a library is not lost, since `dlopen` is not touched.
#[test]
fn libraries_in_every_scope_are_recorded() {
    for scope in ["local", "global"] {
        let (bed, _) = same_with_r3("plugin", &[scope, &plugin()], |program| program);
        assert_eq!(saxpys(&bed), 2, "{scope}");
    }
    let exports = nm(&["-D", "--defined-only"]);
    for name in ["dlopen", "dlmopen", "dlclose"] {
        assert!(
            !exports.iter().any(|export| export == name),
            "{name} is interposed"
        );
    }
}

/// Case 8: a library that is opened past the preloaded ones cannot be recorded, which is said.
#[test]
fn a_library_that_goes_past_r3_is_named_in_a_message() {
    for scope in ["deepbind", "namespace"] {
        let bed = Bed::new();
        let run = bed
            .recorded("plugin")
            .on_layer()
            .args(&[scope, &plugin()])
            .run();
        assert_eq!(
            (run.end, run.stdout.as_str()),
            (End::Exit(0), "saxpy x 2 = 163200.0\n"),
            "{run}"
        );
        assert!(bed.archive_paths().is_empty());
        if scope == "deepbind" {
            assert!(run.stderr.contains("nothing is recorded"), "{run}");
        }
    }
}

/// Cases 2, 3, 4, 9: what the library needs and which names of libc it uses.
#[test]
fn the_library_needs_nothing_unusual() {
    let output = Command::new("readelf")
        .args(["-d", "-W"])
        .arg(libr3())
        .output()
        .expect("readelf");
    let dynamic = String::from_utf8_lossy(&output.stdout).into_owned();
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    let allowed = [
        "libc.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "ld-linux-x86-64.so.2",
    ];
    assert!(
        needed.iter().all(|name| allowed.contains(name)),
        "{needed:?}"
    );
    for name in nm(&["-D", "--undefined-only"]) {
        let private = [
            "_dl_sym",
            "__libc_dlsym",
            "__libc_dlopen_mode",
            "GLIBC_PRIVATE",
        ];
        assert!(!private.iter().any(|word| name.contains(word)), "{name}");
        // Looked up through itself it would meet its own hook.
        assert!(
            name.split('@').next() != Some("dlsym"),
            "{name} is imported"
        );
    }
}

/// Case 1: only exact names are hooked.
#[test]
fn the_library_exports_hooks_and_nothing_else() {
    for name in nm(&["-D", "--defined-only"]) {
        let hook =
            name.starts_with("cu") && name.as_bytes().get(2).is_some_and(u8::is_ascii_uppercase);
        let expected = hook
            || name.starts_with("nvrtc")
            || ["dlsym", "dlvsym", "InitializeInjection"].contains(&name.as_str());
        assert!(expected, "{name} is exported");
        assert!(
            !name.starts_with("cudbg") && !name.starts_with("cuda"),
            "{name}"
        );
    }
}

fn nm(arguments: &[&str]) -> Vec<String> {
    let output = Command::new("nm")
        .args(arguments)
        .arg(libr3())
        .output()
        .expect("nm");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(str::to_owned)
        .collect()
}

/// Case 10: a program of another kind runs on; the loader's message is its own.
#[test]
fn a_missing_library_only_makes_the_loader_complain() {
    let bed = Bed::new();
    let run = bed
        .bare("plain")
        .env("LD_PRELOAD", "/nonexistent/libr3.so")
        .run();
    assert_eq!(run.end, End::Exit(0));
}

/// Cases 16, 17: look-ups that the driver makes while it starts, under its own lock. (The layer
/// makes them in every `cuInit`; a hook that starts something there would wait for itself.)
#[test]
fn look_ups_of_the_driver_itself_are_answered() {
    let (bed, _) = same_with_r3("direct", &["library"], |program| program.on_layer());
    assert_eq!(bed.archive().launches().len(), 6);
}

/// Case 12 is no case here: R3 adds a library and replaces none. A driver in an unusual place is the
/// nearest to it.
#[test]
fn a_driver_in_another_directory_is_found() {
    let bed = Bed::new();
    let folder = bed.path().join("driver in here");
    std::fs::create_dir(&folder).expect("a directory");
    std::fs::copy(driver().join("libcuda.so.1"), folder.join("libcuda.so.1")).expect("a copy");
    let run = bed
        .recorded("dlopened")
        .env("LD_LIBRARY_PATH", &folder)
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    let archive = bed.archive();
    assert!(
        archive.process().driver_path.contains("driver in here"),
        "{:?}",
        archive.process()
    );
}
