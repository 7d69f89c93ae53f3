//! Other builds of the stand-in driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A stand-in driver of its own, removed at the end.
pub struct StandIn {
    folder: TempDir,
}

impl StandIn {
    /// One that lacks these functions, as an older driver does: they are not exported, and not found
    /// by `cuGetProcAddress`.
    pub fn hiding(names: &[&str]) -> Self {
        let folder = TempDir::with_prefix("r3-stand-in-").expect("a temporary directory");
        let map = folder.path().join("stand-in.map");
        let local = names.join("; ");
        // An exact name is stronger than a pattern.
        fs::write(&map, format!("{{ global: cu*; local: {local}; *; }};\n")).expect("writable");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("stand-in");
        let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread"])
            .args(["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"])
            .arg(format!("-Wl,--version-script={}", map.display()))
            .arg(format!("-DSTANDIN_HIDDEN=\"{}\"", names.join(",")))
            .arg("-o")
            .arg(folder.path().join("libcuda.so.1"))
            .args(sources(&source))
            .arg("-lm")
            .status()
            .expect("the C compiler that built the tests");
        assert!(status.success(), "the stand-in driver does not compile");
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the stand-in's sources");
    let paths = entries.map(|entry| entry.expect("a readable directory").path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect()
}
