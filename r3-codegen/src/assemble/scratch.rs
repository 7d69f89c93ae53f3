//! Private temporary folders.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How the names of these folders begin.
const PREFIX: &str = "r3-compile-";

/// A folder that only this user can enter, removed when this is dropped.
///
/// In a worker it lies in the worker's own, which the parent removes even when the worker was killed.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new folder in the system's one for temporary files.
    pub fn new() -> io::Result<Scratch> {
        let mut template = std::env::temp_dir();
        template.push(format!("{PREFIX}XXXXXX"));
        let template = CString::new(template.into_os_string().into_vec())?;
        let template = template.into_raw();
        // SAFETY: the string is ours, writable and terminated; `mkdtemp` changes letters in place.
        let (made, path) = unsafe {
            let made = !libc::mkdtemp(template).is_null();
            let error = io::Error::last_os_error();
            (
                if made { Ok(()) } else { Err(error) },
                CString::from_raw(template),
            )
        };
        made?;
        let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
        Ok(Scratch { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folder that a worker was given as its `TMPDIR`: its parent is gone and cannot.
pub(crate) fn remove_inherited() {
    let folder = std::env::temp_dir();
    let is_ours = folder
        .file_name()
        .is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
    if is_ours {
        _ = std::fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_goes_with_all_that_is_in_it() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        std::fs::create_dir(scratch.file("inner")).unwrap();
        std::fs::write(scratch.file("inner/file"), "x").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(scratch);
        assert!(!path.exists());
    }
}
