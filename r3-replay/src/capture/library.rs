//! Where the capture library is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File name of the library.
const NAME: &str = "libr3.so";

/// Why there is no library to preload.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It is in none of the usual places.
    #[error(
        "libr3.so was not found; looked for {}. Name it by --library or R3_LIBRARY",
        tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NotFound {
        /// The places.
        tried: Vec<PathBuf>,
    },
    /// It is not where the user says.
    #[error("{}: there is no such file", .0.display())]
    Missing(PathBuf),
    /// Its path cannot be written in `LD_PRELOAD`.
    #[error(
        "{}: LD_PRELOAD separates its entries by colons and spaces, so the library's path must have neither",
        .0.display()
    )]
    Separator(PathBuf),
}

/// Finds the library: where `given` says, else beside the program, then in `../lib` and `../lib64`
/// from there.
pub fn find(given: Option<&Path>, program: &Path) -> Result<PathBuf, LibraryError> {
    let found = match given {
        Some(path) if path.is_file() => path.to_owned(),
        Some(path) => return Err(LibraryError::Missing(path.to_owned())),
        None => {
            let folder = program.parent().unwrap_or(Path::new("."));
            let tried: Vec<PathBuf> = [folder.join(NAME)]
                .into_iter()
                .chain(["lib", "lib64"].map(|lib| folder.join("..").join(lib).join(NAME)))
                .collect();
            match tried.iter().find(|path| path.is_file()) {
                Some(path) => path.clone(),
                None => return Err(LibraryError::NotFound { tried }),
            }
        }
    };
    // The program may change its directory before it starts others.
    let path = found.canonicalize().unwrap_or(found);
    if path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b": ".contains(byte))
    {
        return Err(LibraryError::Separator(path));
    }
    Ok(path)
}

/// `LD_PRELOAD` with the library appended to what it holds already.
pub fn preload(existing: Option<OsString>, library: &Path) -> OsString {
    let mut value = existing.unwrap_or_default();
    let entries = value.as_bytes().split(|byte| b": ".contains(byte));
    if entries
        .into_iter()
        .any(|entry| entry == library.as_os_str().as_bytes())
    {
        return value;
    }
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn the_package_layout_and_the_build_folder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let program = root.join("bin/r3-replay");
        assert!(
            matches!(find(None, &program), Err(LibraryError::NotFound { tried }) if tried.len() == 3)
        );
        touch(&root.join("lib/libr3.so"));
        std::fs::create_dir_all(root.join("bin")).unwrap();
        assert_eq!(find(None, &program), Ok(root.join("lib/libr3.so")));
        touch(&root.join("bin/libr3.so"));
        assert_eq!(find(None, &program), Ok(root.join("bin/libr3.so")));
    }

    #[test]
    fn a_path_that_ld_preload_cannot_hold_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("with space/libr3.so");
        touch(&path);
        assert!(matches!(
            find(Some(&path), Path::new("x")),
            Err(LibraryError::Separator(_))
        ));
    }

    #[test]
    fn a_wrong_library_is_named() {
        let path = Path::new("/nonexistent/libr3.so");
        assert_eq!(
            find(Some(path), Path::new("x")),
            Err(LibraryError::Missing(path.to_owned()))
        );
    }

    #[test]
    fn ld_preload_keeps_its_entries_and_gets_the_library_once() {
        let library = Path::new("/opt/r3/lib/libr3.so");
        assert_eq!(preload(None, library), "/opt/r3/lib/libr3.so");
        let both = preload(Some("/usr/lib/libjemalloc.so".into()), library);
        assert_eq!(both, "/usr/lib/libjemalloc.so:/opt/r3/lib/libr3.so");
        assert_eq!(preload(Some(both.clone()), library), both);
    }
}
