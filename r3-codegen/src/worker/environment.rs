//! What a child sees of the parent's environment.

use std::ffi::OsString;
use std::path::Path;

/// Variables that a child gets, if they are set: they say where tools are and what nvcc adds to its options. All others
/// are dropped: `LD_PRELOAD` and `LD_AUDIT` bring foreign code, and some hold secrets.
pub const ENVIRONMENT: &[&str] = &[
    // Programs and libraries.
    "PATH",
    "LD_LIBRARY_PATH",
    "HOME",
    // Where toolkits lie.
    "CUDA_HOME",
    "CUDA_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "R3_TOOLS",
    // Single tools.
    "R3_NVJITLINK",
    "R3_PTXAS",
    "R3_NVDISASM",
    "R3_CUOBJDUMP",
    "R3_NVCC",
    "R3_NVRTC",
    "R3_CLANG",
    "R3_LIBDEVICE",
    // Host compilers, and what nvcc adds to its options.
    "CCBIN",
    "NVCC_CCBIN",
    "CUDAHOSTCXX",
    "CUDACXX",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
];

/// Names and values.
pub(super) type Environment = Vec<(&'static str, OsString)>;

/// The variables of [`ENVIRONMENT`], and more of these names, as they are now. A child has another working directory: R3's own
/// become absolute.
pub fn inherited(more: &[&'static str]) -> Vec<(&'static str, OsString)> {
    let here = std::env::current_dir().ok();
    let mut kept = Vec::new();
    for &name in ENVIRONMENT.iter().chain(more) {
        let Some(mut value) = std::env::var_os(name) else {
            continue;
        };
        let path = Path::new(&value);
        if let Some(here) = &here
            && name.starts_with("R3_")
            && path.is_relative()
            && path.components().count() > 1
        {
            value = here.join(path).into_os_string();
        }
        kept.push((name, value));
    }
    kept.push(("LC_ALL", "C".into()));
    kept
}
