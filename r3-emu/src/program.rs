//! Loaded code.

mod image;
mod link;
mod pressure;

pub(crate) use image::Image;
pub(crate) use link::{FUNCTION_BASE, Linked};

use crate::exec::Level;
use crate::fault::Fault;
use crate::launch::{LaunchConfig, Report, RunOptions};
use crate::memory::Memory;
use r3_ptx::source::Pos;
use r3_ptx::typed;
use std::sync::Arc;

/// One or more linked PTX modules, decoded for this device.
#[derive(Debug)]
pub struct Program {
    linked: Arc<Linked>,
    kernels: Vec<KernelInfo>,
    images: Vec<Arc<Image>>,
}

/// Index of a kernel in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelId(pub u32);

/// What a kernel needs.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelInfo {
    /// Name (mangled).
    pub name: String,
    /// Offset, size, alignment of each parameter, in bytes.
    pub params: Vec<(u32, u32, u32)>,
    /// Bytes of the parameter buffer.
    pub param_bytes: u32,
    /// Static shared memory of a block, in bytes.
    pub static_shared: u32,
    /// Local memory of a thread, in bytes.
    pub local_bytes: u32,
    /// Registers of a thread: an estimate from the virtual registers that are alive at once.
    pub registers: u32,
    /// Most threads of a block (`.maxntid`, `.reqntid`), else 1024.
    pub max_threads: u32,
    /// `.reqntid`
    pub required_block: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub cluster: Option<[u32; 3]>,
}

/// Asks for storage of a module variable.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// Name.
    pub name: &'a str,
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// In `.const`.
    pub constant: bool,
    /// `.managed`: the host uses it at the same address.
    pub managed: bool,
}

/// Why a program cannot be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A symbol that no module defines.
    #[error("{name} is declared at {pos} and defined nowhere")]
    Undefined {
        /// Symbol.
        name: String,
        /// Place of the declaration.
        pos: Pos,
    },
    /// A symbol that two modules define.
    #[error("{name} is defined twice, the second time at {pos}")]
    Duplicate {
        /// Symbol.
        name: String,
        /// Place.
        pos: Pos,
    },
    /// No memory for a variable.
    #[error("no memory for {name}: {reason}")]
    NoMemory {
        /// Variable.
        name: String,
        /// Why.
        reason: String,
    },
    /// What this device cannot have at all.
    #[error("{what} at {pos} is not supported on the CPU device")]
    Unsupported {
        /// What it is.
        what: String,
        /// Place.
        pos: Pos,
    },
}

impl Program {
    /// Links, and lays out the kernels. `place` gives an address, mapped in `memory`, to each variable in `.global` and
    /// `.const`; initial values are written there. A function is decoded when it is first called. An instruction that
    /// this device does not have is no error here but a fault when it is reached (kernels of a big module that nobody
    /// launches do no harm); so is a call of a function that no module defines.
    pub fn load(
        modules: &[&typed::Module],
        memory: &Memory,
        place: &mut dyn FnMut(&Placement<'_>) -> Result<u64, String>,
    ) -> Result<Self, LoadError> {
        let linked = Arc::new(Linked::new(modules, memory, place)?);
        let level = Level::detect();
        let mut kernels = Vec::new();
        let mut images = Vec::new();
        for kernel in linked.kernels() {
            let image = Image::new(&linked, kernel, level);
            kernels.push(image.info(&linked));
            images.push(Arc::new(image));
        }
        Ok(Self {
            linked,
            kernels,
            images,
        })
    }

    /// Finds a kernel.
    pub fn kernel(&self, name: &str) -> Option<KernelId> {
        let at = self.kernels.iter().position(|k| k.name == name)?;
        Some(KernelId(at as u32))
    }

    /// Kernels in the order of the text.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    /// What a kernel needs.
    ///
    /// # Panics
    /// When the id is of another program.
    pub fn info(&self, kernel: KernelId) -> &KernelInfo {
        &self.kernels()[kernel.0 as usize]
    }

    /// Address and size of a variable in `.global` or `.const`.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.linked.global(name)
    }

    /// Runs a kernel to its end. Several launches may run at once.
    ///
    /// # Panics
    /// When the id is of another program.
    #[allow(clippy::result_large_err)]
    pub fn launch(
        &self,
        kernel: KernelId,
        config: &LaunchConfig<'_>,
        memory: &Memory,
        options: &RunOptions<'_>,
    ) -> Result<Report, Fault> {
        let index = kernel.0 as usize;
        crate::run::launch(
            &self.linked,
            &self.images[index],
            &self.kernels[index],
            config,
            memory,
            options,
        )
    }
}
