//! Where libdevice may be.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Its name since CUDA 9.
const NAME: &str = "libdevice.10.bc";

/// Places in a folder of CUDA.
const INSIDE: &[&str] = &[
    "nvvm/libdevice",
    // Wheels of CUDA 13 and 12.
    "nvidia/cu13/nvvm/libdevice",
    "nvidia/cuda_nvcc/nvvm/libdevice",
    // Triton brings its own.
    "triton/backends/nvidia/lib",
];

/// Finds libdevice: `R3_LIBDEVICE` (a file or its folder), `CUDA_HOME`, `CUDA_PATH`, beside `nvcc` in `PATH`,
/// `/usr/local/cuda` and `/usr/local/cuda-*` (newest first), and the packages of a Python environment
/// (`VIRTUAL_ENV`, `CONDA_PREFIX`, `PYTHONPATH`).
///
/// # Errors
/// The places that were tried. A file that `R3_LIBDEVICE` names is not replaced by another.
pub fn find() -> Result<PathBuf, Vec<String>> {
    let mut tried = Vec::new();
    if let Some(named) = set("R3_LIBDEVICE") {
        let file = if named.is_dir() {
            named.join(NAME)
        } else {
            named
        };
        if file.is_file() {
            return Ok(file);
        }
        tried.push(format!("as {} (R3_LIBDEVICE)", file.display()));
        return Err(tried);
    }
    for (folder, why) in places() {
        if let Some(file) = look_in(&folder) {
            return Ok(file);
        }
        tried.push(format!("in {} ({why})", folder.display()));
    }
    tried.extend(
        ["R3_LIBDEVICE", "CUDA_HOME", "CUDA_PATH"]
            .into_iter()
            .filter(|name| set(name).is_none())
            .map(|name| format!("by {name}, which is not set")),
    );
    Err(tried)
}

/// A variable of the environment that says something.
fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Folders to look in, in order, each with the reason.
fn places() -> Vec<(PathBuf, &'static str)> {
    let mut all = Vec::new();
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        all.extend(set(name).map(|folder| (folder, name)));
    }
    for folder in env::var_os("PATH")
        .iter()
        .flat_map(env::split_paths)
        .filter(|folder| folder.join("nvcc").is_file())
    {
        // nvcc may be a link into the folder that has the rest.
        let real = std::fs::canonicalize(folder.join("nvcc")).ok();
        let real = real
            .as_deref()
            .and_then(Path::parent)
            .and_then(Path::parent);
        all.extend(real.map(|folder| (folder.to_owned(), "beside nvcc in PATH")));
        all.extend(
            folder
                .parent()
                .map(|folder| (folder.to_owned(), "beside nvcc in PATH")),
        );
    }
    all.extend(
        versions("/usr/local", "cuda")
            .into_iter()
            .map(|folder| (folder, "usual place")),
    );
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(prefix) = set(name) else {
            continue;
        };
        all.push((prefix.clone(), name));
        all.extend(
            versions(prefix.join("lib"), "python3")
                .into_iter()
                .map(|folder| (folder.join("site-packages"), name)),
        );
    }
    all.extend(
        env::var_os("PYTHONPATH")
            .iter()
            .flat_map(env::split_paths)
            .map(|folder| (folder, "PYTHONPATH")),
    );
    all
}

/// Folders whose name begins with a text, the newest version first.
fn versions(folder: impl AsRef<Path>, begin: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .and_then(OsStr::to_str)
                .is_some_and(|name| name.starts_with(begin))
        })
        .collect();
    found.sort_by_cached_key(|path| std::cmp::Reverse(numbers(path)));
    found
}

/// Numbers in a folder's name: `cuda-12.10` comes after `cuda-12.9`, `cuda` itself after all.
fn numbers(path: &Path) -> (bool, Vec<u64>) {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let numbers: Vec<u64> = name
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    (numbers.is_empty(), numbers)
}

/// The file in a folder of CUDA or of Python packages.
fn look_in(folder: &Path) -> Option<PathBuf> {
    INSIDE
        .iter()
        .map(|inside| folder.join(inside).join(NAME))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let folder = tempfile::tempdir().expect("folder");
        for name in ["cuda-12.9", "cuda-12.10", "cuda-9", "cuda", "other"] {
            std::fs::create_dir(folder.path().join(name)).expect("folder");
        }
        let names: Vec<String> = versions(folder.path(), "cuda")
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        assert_eq!(names, ["cuda", "cuda-12.10", "cuda-12.9", "cuda-9"]);
    }

    #[test]
    fn it_is_found_in_a_toolkit_and_in_a_wheel() {
        let folder = tempfile::tempdir().expect("folder");
        for inside in INSIDE {
            let place = folder.path().join(inside.replace('/', "-")).join(inside);
            std::fs::create_dir_all(&place).expect("folder");
            std::fs::write(place.join(NAME), b"").expect("file");
            let root = folder.path().join(inside.replace('/', "-"));
            assert_eq!(look_in(&root), Some(place.join(NAME)));
        }
        assert_eq!(look_in(&folder.path().join("nothing")), None);
    }
}
