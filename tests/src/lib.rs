//! A place to run programs in: on the software driver, with and without R3.
//!
//! Tests start real processes. What they start is a program of `programs/` (compiled by `build.rs`) on the
//! `libcuda.so.1` of `r3-softcuda`, which runs its kernels; with it, preloaded, the `libr3.so` of this
//! workspace. Where a driver has to misbehave, the layer of `layer/` lies in between. A [`Bed`] is the
//! working directory of such processes and holds the archives that they leave.
//!
//! Most tests are of one form: what a program prints, its exit status and what it leaves behind are
//! the same with R3 as without ([`same_with_r3`]), and the archive holds what it should.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use r3_archive::Archive;
use tempfile::TempDir;

pub mod models;

mod artifacts;
mod layer;
mod process;

pub use artifacts::{driver, libr3, r3_evolve, r3_replay};
pub use layer::OldDriver;
pub use process::{End, Program, Run, Running};

/// Folder with the compiled programs and their libraries.
pub fn programs() -> &'static Path {
    Path::new(env!("OUT_DIR"))
}

/// Where the loader looks for libraries: for the driver in this folder.
pub fn library_path(driver: &Path) -> OsString {
    let mut path = driver.as_os_str().to_owned();
    path.push(":");
    path.push(programs());
    path
}

/// An empty working directory, removed at the end.
pub struct Bed {
    folder: TempDir,
}

impl Default for Bed {
    fn default() -> Self {
        Self::new()
    }
}

impl Bed {
    /// Makes the directory.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("r3-bed-").expect("a temporary directory");
        Self { folder }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A program on the software driver, without R3.
    pub fn bare(&self, name: &str) -> Program {
        Program::new(&programs().join(name), self.path())
    }

    /// The same with R3 preloaded.
    pub fn recorded(&self, name: &str) -> Program {
        self.bare(name).env("LD_PRELOAD", libr3())
    }

    /// `r3-replay` on the software driver.
    pub fn replay(&self, arguments: &[&str]) -> Program {
        Program::new(r3_replay(), self.path()).args(arguments)
    }

    /// `r3-evolve`, which finds the same `r3-replay` beside it.
    pub fn evolve(&self, arguments: &[&str]) -> Program {
        Program::new(r3_evolve(), self.path()).args(arguments)
    }

    /// Files in the directory whose name ends in `.r3`, sorted.
    pub fn archive_paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = self
            .files()
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "r3"))
            .collect();
        paths.sort();
        paths
    }

    /// All files in the directory, its sub-directories included.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a readable directory") {
                let path = entry.expect("a readable directory").path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    files.push(path)
                }
            }
        }
        files
    }

    /// The only archive in the directory.
    pub fn archive(&self) -> Archive {
        match self.archive_paths().as_slice() {
            [path] => open(path),
            paths => panic!("expected one archive, found {paths:?}"),
        }
    }

    /// Runs `r3-replay verify` on the only archive and expects every launch to be the same.
    pub fn verify(&self) -> Run {
        let paths = self.archive_paths();
        let [path] = paths.as_slice() else {
            panic!("expected one archive, found {paths:?}")
        };
        let run = self.replay(&["verify", &path.to_string_lossy()]).run();
        assert_eq!(run.end, End::Exit(0), "{run}");
        run
    }
}

/// Opens an archive that must be readable.
pub fn open(path: &Path) -> Archive {
    Archive::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program without and with R3, each in a bed of its own, and expects the same output, the
/// same messages and the same end. `set` makes further settings for both.
pub fn same_with_r3(
    name: &str,
    arguments: &[&str],
    set: impl Fn(Program) -> Program,
) -> (Bed, Run) {
    let bare = Bed::new();
    let bed = Bed::new();
    let expected = set(bare.bare(name)).args(arguments).run();
    let run = set(bed.recorded(name)).args(arguments).run();
    assert_eq!(
        run.stdout, expected.stdout,
        "standard output of {name} {arguments:?}: {run}"
    );
    assert_eq!(
        run.stderr, expected.stderr,
        "messages of {name} {arguments:?}: {run}"
    );
    assert_eq!(run.end, expected.end, "end of {name} {arguments:?}: {run}");
    (bed, run)
}

/// Names of the kernels of an archive with the number of recorded launches, by name.
pub fn recorded_by_kernel(archive: &Archive) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for launch in archive.launches() {
        let kernel = archive
            .kernel(launch.kernel)
            .expect("a launch's kernel is in the archive");
        *counts.entry(kernel.name.clone()).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Launches that were seen, by kernel name.
pub fn seen_by_kernel(archive: &Archive) -> Vec<(String, u64)> {
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for stats in archive.kernel_stats() {
        let kernel = archive
            .kernel(stats.kernel)
            .expect("a statistic's kernel is in the archive");
        let launches: u64 = stats.shapes.iter().map(|shape| shape.launches).sum();
        *counts.entry(kernel.name.clone()).or_default() += launches;
    }
    counts.into_iter().collect()
}
