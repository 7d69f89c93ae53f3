//! C programs on the software driver, linked as programs are: `-lcuda`, found by `LD_LIBRARY_PATH`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with the driver under its proper name, and one compiled program.
struct Bed {
    folder: TempDir,
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The library lies beside the tests: cargo makes all forms of a library before them.
fn driver() -> PathBuf {
    let test = std::env::current_exe().expect("the test's path");
    test.with_file_name("libcuda.so")
}

impl Bed {
    fn new(program: &str) -> Self {
        let folder = TempDir::with_prefix("softcuda-").expect("a temporary directory");
        let library = folder.path().join("libcuda.so.1");
        std::os::unix::fs::symlink(driver(), &library).expect("a link");
        let compiled = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args([
                "-std=gnu11",
                "-O1",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pthread",
                "-o",
            ])
            .arg(folder.path().join("program"))
            .arg(here().join("programs").join(format!("{program}.c")))
            .arg(&library)
            .output()
            .expect("a C compiler");
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        Self { folder }
    }

    fn run(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
        Command::new(self.folder.path().join("program"))
            .args(arguments)
            .env_clear()
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("KERNELS", here().join("kernels.ptx"))
            .envs(settings.iter().copied())
            .current_dir(self.folder.path())
            .output()
            .expect("the program starts")
    }

    /// Runs it to a good end; its output.
    fn says(&self, arguments: &[&str], settings: &[(&str, &str)]) -> (String, String) {
        let output = self.run(arguments, settings);
        let (stdout, stderr) = texts(&output);
        assert!(
            output.status.success(),
            "{arguments:?} {:?}\n{stdout}{stderr}",
            output.status
        );
        (stdout, stderr)
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn streams_keep_their_order_and_wait_where_they_must() {
    let bed = Bed::new("streams");
    assert_eq!(bed.says(&[], &[]).0, "in order\n");
    assert_eq!(
        bed.says(&[], &[("SOFTCUDA_DELAY_US", "3000")]).0,
        "in order\n"
    );
}

#[test]
fn graphs_are_captured_made_changed_and_launched() {
    assert_eq!(Bed::new("graphs").says(&[], &[]).0, "graphs run\n");
}

#[test]
fn graphs_keep_their_memory_their_order_and_their_objects() {
    let bed = Bed::new("graph_memory");
    assert_eq!(bed.says(&[], &[]).0, "graphs keep their memory\n");
}

#[test]
fn wrong_calls_get_their_code_and_leave_the_context_whole() {
    let (stdout, stderr) = Bed::new("wrong").says(&[], &[]);
    assert_eq!(stdout, "the context works on\n");
    // What is said is one line each, and names the call.
    insta::assert_snapshot!(stderr, @"
    softcuda: cuMemAlloc_v2 was called in a host function or callback of a stream, where the driver may not be called: call it in another thread
    softcuda: cuModuleLoadData: the PTX is refused: 6:1: unknown instruction `foo`
    ");
}

#[test]
fn ends_come_while_others_work() {
    let bed = Bed::new("ending");
    // Kernels that run on do not hold up the end of a process.
    assert_eq!(bed.run(&["exit"], &[]).status.code(), Some(3));
    assert_eq!(bed.run(&["waiting"], &[]).status.code(), Some(4));
    for (mode, says) in [
        ("stream", "came back\n"),
        ("context", "came back\n"),
        ("fork", "2\n"),
        ("module", "in order\n"),
    ] {
        let (stdout, stderr) = bed.says(&[mode], &[]);
        assert_eq!((stdout.as_str(), stderr.as_str()), (says, ""), "{mode}");
    }
}

#[test]
fn random_work_of_threads_over_streams_keeps_its_order() {
    let bed = Bed::new("stress");
    for seed in ["1", "2", "3"] {
        assert_eq!(bed.says(&[seed], &[]).0, "as expected\n", "{seed}");
    }
    let slowly = [("SOFTCUDA_DELAY_US", "300")];
    assert_eq!(bed.says(&["4"], &slowly).0, "as expected\n");
}

#[test]
fn memory_of_each_family_is_seen_by_host_and_kernels_as_it_should() {
    let (stdout, _) = Bed::new("memory").says(&[], &[]);
    insta::assert_snapshot!(stdout, @"
    1132323211111111765411111111111176541111
    18 19 20 0 26 27 28 0 34 35 36 0 
    ");
}

#[test]
fn code_is_loaded_linked_launched_and_refused() {
    let (stdout, _) = Bed::new("code").says(&[], &[]);
    insta::assert_snapshot!(stdout, @"
    linked: 1010
    grid met: 12 12
    sums: 8128 24512 40896 51214
    blocks with 60000 bytes: 3
    managed: 42
    before
    block 0 of 2: text 1.50
    block 1 of 2: text 1.50
    after
    met: 820 820
    ");
}

#[test]
fn a_fault_is_told_once_and_stays_with_its_context() {
    let bed = Bed::new("faults");
    let cases = [
        ("out_of_bounds", "CUDA_ERROR_ILLEGAL_ADDRESS", "store_at"),
        ("freed", "CUDA_ERROR_ILLEGAL_ADDRESS", "store_at"),
        ("misaligned", "CUDA_ERROR_MISALIGNED_ADDRESS", "store_at"),
        ("assert", "CUDA_ERROR_ASSERT", "n < 3"),
        ("trap", "CUDA_ERROR_LAUNCH_FAILED", "traps"),
    ];
    for (mode, error, place) in cases {
        let (stdout, stderr) = bed.says(&[mode], &[]);
        assert_eq!(stdout, format!("{error}\na new context works\n"), "{mode}");
        assert_eq!(stderr.matches("softcuda: ").count(), 1, "{mode}: {stderr}");
        assert!(stderr.contains(place), "{mode}: {stderr}");
    }
}

#[test]
fn the_host_cannot_follow_a_device_pointer() {
    use std::os::unix::process::ExitStatusExt;
    let output = Bed::new("faults").run(&["host_reads_device_memory"], &[]);
    assert_eq!(output.status.signal(), Some(11));
}

#[test]
fn forked_children_cannot_use_it_and_missing_entry_points_are_named_once() {
    let (stdout, stderr) = Bed::new("process").says(&[], &[]);
    assert_eq!(stdout, "all right\n");
    assert_eq!(stderr, "softcuda: cuGLInit is not supported\n");
}

#[test]
fn devices_are_apart_until_access_is_enabled() {
    let bed = Bed::new("peers");
    let settings = [("SOFTCUDA_DEVICES", "2"), ("SOFTCUDA_GPU", "A100")];
    assert_eq!(
        bed.says(&["enabled"], &settings).0,
        "2, NVIDIA A100-SXM4-80GB (software)\n0\n2\n"
    );
    let (stdout, _) = bed.says(&[], &settings);
    assert_eq!(stdout, "2, NVIDIA A100-SXM4-80GB (software)\n700\n1\n");
}

/// Every name of the driver's API can be linked with and found by `dlsym`.
#[test]
fn every_entry_point_is_exported() {
    // SAFETY: the library runs no code of its own when it is loaded.
    let library = unsafe {
        libc::dlopen(
            c_path(&driver()).as_ptr(),
            libc::RTLD_NOW | libc::RTLD_LOCAL,
        )
    };
    assert!(!library.is_null());
    let table =
        std::fs::read_to_string(here().with_file_name("entry_points.txt")).expect("the table");
    let names: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("cu"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.len() > 600);
    for name in names {
        let name = std::ffi::CString::new(name).expect("a name");
        // SAFETY: a handle of dlopen, and a string.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
    }
}

fn c_path(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path")
}
