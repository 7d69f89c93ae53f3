//! Why a launch could not be replayed.

use r3_archive::ReadError;
use r3_archive::model::{KernelId, LaunchId, ModuleId};

use crate::code::CodeError;
use crate::device::{AddressRange, BlockRange, DeviceError};
use crate::restore::segments::Malformed;
use crate::restore::space::SpaceError;

/// A launch that could not be replayed, and why.
#[derive(Debug, thiserror::Error)]
#[error("launch {launch} ({kernel}): {cause}")]
pub struct ReplayError {
    /// The launch.
    pub launch: LaunchId,
    /// Its kernel, readable.
    pub kernel: String,
    /// Why.
    #[source]
    pub cause: Box<Cause>,
}

/// Why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The launch cannot be read from the archive.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kernel's record is not in the archive.
    #[error("the archive has no kernel {0}")]
    NoKernel(KernelId),
    /// The kernel's code is not in the archive.
    #[error(
        "the archive has no code for this kernel: its module was loaded before the capture began, \
         or in a way that was not seen"
    )]
    NoCode,
    /// The module's record is not in the archive.
    #[error("the archive has no module {0}")]
    NoModule(ModuleId),
    /// No code that may run.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The module has no such kernel.
    #[error("the code of module {module} has no kernel of this name")]
    KernelNotFound {
        /// The module.
        module: ModuleId,
    },
    /// The launch contradicts itself.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// An address is in use.
    #[error(
        "{allocation} was at {range}, which lies in {wanted}, and {occupant}{}. \
         --addr remap puts memory elsewhere and rewrites pointers to it",
        if *.started_over > 0 { ", in this layout of the process as in others" } else { "" }
    )]
    Collision {
        /// The allocation, for people.
        allocation: String,
        /// Where it was.
        range: AddressRange,
        /// The reservation that failed.
        wanted: AddressRange,
        /// What is there.
        occupant: String,
        /// How often the process was started over already.
        started_over: u32,
    },
    /// Memory could not be put in place.
    #[error(transparent)]
    Space(SpaceError),
    /// A variable is smaller than recorded.
    #[error("variable {name} has {found} bytes in this code, and {recorded} were recorded")]
    VariableLength {
        /// The variable.
        name: String,
        /// Its length now.
        found: u64,
        /// Its length then.
        recorded: u64,
    },
    /// A variable is missing.
    #[error("this code has no variable {name}, which the launch changed")]
    NoVariable {
        /// The variable.
        name: String,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The grid has none of the blocks that were asked for.
    #[error("--blocks {wanted}: the grid has {have} blocks, 0 to {}", have.saturating_sub(1))]
    NoSuchBlocks {
        /// What was asked for.
        wanted: BlockRange,
        /// How many there are.
        have: u64,
    },
    /// The device is unusable since an earlier launch failed.
    #[error("not run: launch {0} left the GPU context unusable")]
    ContextLost(LaunchId),
}

impl Cause {
    /// Whether it is the kind of device that cannot run the launch: nothing is wrong with the launch.
    pub fn cannot_run_here(&self) -> bool {
        matches!(
            self,
            Self::Device(DeviceError::CannotRun(_))
                | Self::Code(CodeError::NoPtx { .. } | CodeError::NoMachineCode)
        )
    }
}
