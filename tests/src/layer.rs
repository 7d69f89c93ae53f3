//! Drivers that lack functions.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

/// A driver that is older than some functions: they are not exported, and not found by
/// `cuGetProcAddress`. Removed at the end.
pub struct OldDriver {
    folder: TempDir,
    hidden: String,
}

impl OldDriver {
    /// One that lacks these functions: a copy of the layer, in whose table of symbols they have other
    /// names.
    pub fn without(names: &[&str]) -> Self {
        let folder = TempDir::with_prefix("r3-driver-").expect("a temporary directory");
        let layer = crate::programs().join("layer/libcuda.so.1");
        let mut library = fs::read(layer).expect("the layer");
        for name in names {
            // Names in a string table have a NUL on both sides.
            let whole = format!("\0{name}\0");
            let places: Vec<_> = library
                .windows(whole.len())
                .enumerate()
                .filter(|(_, bytes)| *bytes == whole.as_bytes())
                .map(|(at, _)| at)
                .collect();
            assert!(!places.is_empty(), "{name} is no entry point");
            // The table of exported symbols comes before the layer's own list.
            let at = places[0] + 1;
            library[at..at + 2].copy_from_slice(b"no");
        }
        fs::write(folder.path().join("libcuda.so.1"), library).expect("writable");
        symlink(crate::driver(), folder.path().join("driver")).expect("a link can be made");
        Self {
            folder,
            hidden: names.join(","),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn hidden(&self) -> &OsStr {
        OsStr::new(&self.hidden)
    }
}
