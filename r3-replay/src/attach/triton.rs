//! Triton's cache: beside each cubin lie its PTX (`.ptx`) and its LLVM IR (`.llir`).

use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_archive::model::{AttachedForm, ImageKind, KernelRecord};
use r3_codegen::source::files;

use super::given::{Given, GivenError};
use crate::names::printable;

/// Deepest folder that is looked into: the cache has one folder for each compiled kernel.
const DEPTH: usize = 4;

/// The PTX of some kernels from a cache: of the cubin that is the kernel's, byte for byte, else of the only kernel with
/// its name. Kernels that are not in the cache are left out, with a note for people.
pub fn cached(
    archive: &Archive,
    kernels: &[&KernelRecord],
    cache: &Path,
    sm: u32,
) -> Result<(Vec<Given>, Vec<String>), GivenError> {
    let mut files = Vec::new();
    collect(cache, 0, &mut files).map_err(|error| GivenError::Read {
        file: cache.display().to_string(),
        reason: error.to_string(),
    })?;
    files.sort();
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for kernel in kernels {
        let module = kernel.module.and_then(|module| archive.module(module));
        let Some(module) = module.filter(|module| module.kind == ImageKind::Cubin) else {
            continue;
        };
        let image = archive
            .read_blob(&module.image)
            .map_err(|error| GivenError::Read {
                file: archive.path().display().to_string(),
                reason: error.to_string(),
            })?;
        let named: Vec<&PathBuf> = files
            .iter()
            .filter(|file| {
                file.file_stem()
                    .is_some_and(|stem| stem == kernel.name.as_str())
            })
            .collect();
        let same = named.iter().find(|file| is(file, &image));
        let (cubin, found) = match (same, named.as_slice()) {
            (Some(same), _) => (*same, "its cubin is the captured one"),
            (None, [only]) => (
                *only,
                "the only kernel of this name in the cache; its cubin is another",
            ),
            (None, []) => {
                notes.push(format!("{}: not in the cache", printable(&kernel.name)));
                continue;
            }
            (None, several) => {
                notes.push(format!(
                    "{}: {} kernels of this name are in the cache, and none has the captured cubin",
                    printable(&kernel.name),
                    several.len()
                ));
                continue;
            }
        };
        let mut given = Given::ptx(&cubin.with_extension("ptx"), sm)?;
        given.module = Some(module.id);
        given.notes.push(found.to_owned());
        if let Ok(llvm) = files::read(&cubin.with_extension("llir"), files::CODE) {
            given.made_from.push((AttachedForm::Llvm, llvm));
        }
        all.push(given);
    }
    Ok((all, notes))
}

/// Whether a file is an image, which may have lost or got padding at its end.
fn is(file: &Path, image: &[u8]) -> bool {
    files::read(file, files::CODE).is_ok_and(|bytes| {
        let (short, long) = match bytes.len() < image.len() {
            true => (bytes.as_slice(), image),
            false => (image, bytes.as_slice()),
        };
        let rest = long.get(short.len()..).unwrap_or_default();
        !short.is_empty() && long.starts_with(short) && rest.iter().all(|byte| *byte == 0)
    })
}

/// All cubins with PTX beside them.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "cubin")
        {
            if path.with_extension("ptx").is_file() {
                files.push(path);
            }
        } else if depth < DEPTH && path.is_dir() && !path.is_symlink() {
            // A folder that cannot be entered is another's.
            let _ = collect(&path, depth + 1, files);
        }
    }
    Ok(())
}
