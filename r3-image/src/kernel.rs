//! What is known of a kernel or a variable, whichever code form it was read from.

use crate::entry::CodeForm;

/// Offset and size of one kernel parameter in the parameter buffer, in bytes.
///
/// The buffer is not padded at its end: copy parameters by their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// Offset in the parameter buffer.
    pub offset: u32,
    /// Size.
    pub size: u32,
}

/// A kernel: an entry function of an image.
///
/// What the code form cannot tell is `None`: PTX has no register count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Name as given to the driver (mangled).
    pub name: String,
    /// Parameters in order. Empty, too, when they are not known.
    pub params: Vec<Param>,
    /// `params` is what the code declares. `false` when that could not be understood.
    pub params_known: bool,
    /// Registers per thread.
    pub registers: Option<u32>,
    /// Statically allocated shared memory per block, in bytes, without what the system reserves.
    pub static_shared: Option<u32>,
    /// Stack per thread, in bytes, with that of the functions it calls where known.
    pub local_bytes: Option<u32>,
    /// User constants (`__constant__`) of the kernel's module, in bytes.
    pub const_bytes: Option<u32>,
    /// Most threads in a block that the code allows, where it states a bound.
    pub max_threads: Option<u32>,
    /// `.reqntid`: the only block that may be launched.
    pub required_block: Option<[u32; 3]>,
    /// `.maxntid`, of `__launch_bounds__`.
    pub max_block: Option<[u32; 3]>,
    /// `.minnctapersm`: resident blocks per multiprocessor that the compiler was asked for.
    pub min_blocks: Option<u32>,
    /// `.maxnreg`: cap on registers that the compiler was given.
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`: blocks in a cluster, of `__cluster_dims__`.
    pub cluster_dims: Option<[u32; 3]>,
    /// `.maxclusterrank`: most blocks in a cluster.
    pub max_cluster_rank: Option<u32>,
    /// The kernel must be launched with a cluster (`.explicitcluster`).
    pub explicit_cluster: bool,
    /// External functions that the kernel or what it calls may use, e.g. `vprintf`.
    pub externs: Vec<String>,
    /// The code form from which this was read.
    pub from: CodeForm,
}

impl KernelInfo {
    /// A kernel of which only the name is known.
    pub(crate) fn named(name: String, from: CodeForm) -> Self {
        Self {
            name,
            params: Vec::new(),
            params_known: false,
            registers: None,
            static_shared: None,
            local_bytes: None,
            const_bytes: None,
            max_threads: None,
            required_block: None,
            max_block: None,
            min_blocks: None,
            max_registers: None,
            cluster_dims: None,
            max_cluster_rank: None,
            explicit_cluster: false,
            externs: Vec::new(),
            from,
        }
    }

    /// Length of the parameter buffer: the end of the last parameter, without padding.
    pub fn params_len(&self) -> u32 {
        params_len(&self.params)
    }

    /// The kernel prints to the device's `printf` buffer.
    pub fn uses_printf(&self) -> bool {
        self.has_extern(&["vprintf"])
    }

    /// The kernel uses the device heap, whose content cannot be saved.
    pub fn uses_heap(&self) -> bool {
        self.has_extern(&["malloc", "free"])
    }

    /// The kernel contains an assertion.
    pub fn uses_assert(&self) -> bool {
        self.has_extern(&["__assertfail", "__assert_fail"])
    }

    /// The kernel launches kernels of its own (CUDA dynamic parallelism).
    pub fn launches_kernels(&self) -> bool {
        self.externs.iter().any(|name| {
            name.starts_with("cudaLaunchDevice")
                || name.starts_with("__cudaLaunchDevice")
                || name.starts_with("cudaGetParameterBuffer")
                || name.starts_with("cudaGraphLaunch")
                || name.starts_with("__cudaCDP2Launch")
                || name.starts_with("__cudaCDP2GetParameterBuffer")
        })
    }

    fn has_extern(&self, names: &[&str]) -> bool {
        self.externs
            .iter()
            .any(|name| names.contains(&name.as_str()))
    }
}

/// Where a module variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// `__device__`.
    Global,
    /// `__constant__`.
    Constant,
    /// `__managed__`.
    Managed,
}

/// A module variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name as given to the driver (mangled).
    pub name: String,
    /// Size in bytes; 0 when the image does not tell it.
    pub size: u64,
    /// Where it lives.
    pub space: Space,
    /// It has an initial value other than zeros.
    pub initialised: bool,
}

/// The end of the last parameter.
pub(crate) fn params_len(params: &[Param]) -> u32 {
    params
        .iter()
        .map(|p| p.offset.saturating_add(p.size))
        .max()
        .unwrap_or(0)
}

/// Names that compilers make up for strings and the like. The driver does not look them up.
pub(crate) fn is_compiler_made(name: &[u8]) -> bool {
    name.starts_with(b"$str") || name.starts_with(b"__unnamed_")
}

/// Threads in a block of these dimensions.
pub(crate) fn threads(block: [u32; 3]) -> u32 {
    block.into_iter().fold(1, u32::saturating_mul)
}
