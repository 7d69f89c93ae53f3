//! Where `libr3.so`, the software driver, `r3-replay` and `r3-evolve` are, built when they are not up to date.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The preloaded library.
pub fn libr3() -> &'static Path {
    &artifacts().libr3
}

/// The replay program.
pub fn r3_replay() -> &'static Path {
    &artifacts().replay
}

/// The program that searches.
pub fn r3_evolve() -> &'static Path {
    &artifacts().evolve
}

/// Folder with the software driver, `libcuda.so.1`.
pub fn driver() -> &'static Path {
    artifacts();
    Path::new(concat!(env!("OUT_DIR"), "/driver"))
}

struct Artifacts {
    libr3: PathBuf,
    replay: PathBuf,
    evolve: PathBuf,
}

fn artifacts() -> &'static Artifacts {
    static ARTIFACTS: OnceLock<Artifacts> = OnceLock::new();
    ARTIFACTS.get_or_init(|| {
        // …/target/debug/deps/a_test-0123456789abcdef
        let test = std::env::current_exe().expect("the test program's path");
        let profile = test
            .ancestors()
            .nth(2)
            .expect("a test program lies in deps/")
            .to_owned();
        build_once(&profile);
        Artifacts {
            libr3: profile.join("libr3.so"),
            replay: profile.join("r3-replay"),
            evolve: profile.join("r3-evolve"),
        }
    })
}

/// Test runners start a process for each test: one of them builds, the others wait for it.
/// `TESTS_PREBUILT=1` uses what is there.
fn build_once(profile: &Path) {
    if std::env::var_os("TESTS_PREBUILT").is_some() {
        return;
    }
    let lock =
        File::create(profile.join("r3-tests.lock")).expect("the target directory is writable");
    lock.lock().expect("file locks work");
    let stamp = profile.join("r3-tests.built");
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_default();
    if !run.is_empty() && std::fs::read_to_string(&stamp).is_ok_and(|built| built == run) {
        return;
    }
    build(profile);
    std::fs::write(&stamp, run).expect("the target directory is writable");
}

fn build(profile: &Path) {
    let target = profile
        .parent()
        .expect("a profile lies in the target directory");
    let name = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let log = profile.join("r3-tests.log");
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .expect("a log file");
    let errors = output.try_clone().expect("a second descriptor");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "-p",
            "r3-intercept",
            "-p",
            "r3-softcuda",
            "-p",
            "r3-replay",
            "-p",
            "r3-evolve",
            "--profile",
            name,
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(output)
        .stderr(errors)
        .status()
        .expect("cargo can be started");
    assert!(
        status.success(),
        "building libr3.so, libcuda.so, r3-replay and r3-evolve failed: see {}",
        log.display()
    );
}
