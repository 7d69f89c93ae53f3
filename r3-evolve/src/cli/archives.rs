//! Kernels by the name that a user gives.

use std::path::Path;

use r3_archive::Archive;

use super::Failure;

/// A run's folder when none is named: beside nothing else, named after archive and kernel.
pub fn folder(archive: &Path, kernel: &str) -> String {
    let archive = archive
        .file_stem()
        .map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned());
    let kernel: String = kernel
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .take(48)
        .collect();
    format!("{archive}-{}.run", kernel.trim_matches('-'))
}

/// The kernels of an archive that were recorded, for somebody who named none.
pub fn kernels(archive: &Path) -> Result<Vec<String>, Failure> {
    let archive = Archive::open(archive).map_err(Failure::new)?;
    let mut names: Vec<String> = archive
        .launch_heads()
        .iter()
        .filter_map(|launch| Some(archive.kernel(launch.kernel)?.name.clone()))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}
