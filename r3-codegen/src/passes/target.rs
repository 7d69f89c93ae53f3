//! Processors, versions of PTX, and the target machine.

use std::sync::OnceLock;

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};

use super::{PassError, options, report};

/// LLVM's name for CUDA's devices.
pub const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Version of LLVM that the tables here were read from.
const LLVM: &str = "22";

/// Newest version of PTX that LLVM writes.
pub const NEWEST_PTX: (u16, u16) = (9, 0);

/// Processors that LLVM knows, each with the first version of PTX that may name it.
const CPUS: &[(&str, (u16, u16))] = &[
    ("sm_20", (3, 2)),
    ("sm_21", (3, 2)),
    ("sm_30", (3, 2)),
    ("sm_32", (4, 0)),
    ("sm_35", (3, 2)),
    ("sm_37", (4, 1)),
    ("sm_50", (4, 0)),
    ("sm_52", (4, 1)),
    ("sm_53", (4, 2)),
    ("sm_60", (5, 0)),
    ("sm_61", (5, 0)),
    ("sm_62", (5, 0)),
    ("sm_70", (6, 0)),
    ("sm_72", (6, 1)),
    ("sm_75", (6, 3)),
    ("sm_80", (7, 0)),
    ("sm_86", (7, 1)),
    ("sm_87", (7, 4)),
    ("sm_88", (9, 0)),
    ("sm_89", (7, 8)),
    ("sm_90", (7, 8)),
    ("sm_90a", (8, 0)),
    ("sm_100", (8, 6)),
    ("sm_100a", (8, 6)),
    ("sm_100f", (8, 8)),
    ("sm_101", (8, 6)),
    ("sm_101a", (8, 6)),
    ("sm_101f", (8, 8)),
    ("sm_103", (8, 8)),
    ("sm_103a", (8, 8)),
    ("sm_103f", (8, 8)),
    ("sm_110", (9, 0)),
    ("sm_110a", (9, 0)),
    ("sm_110f", (9, 0)),
    ("sm_120", (8, 7)),
    ("sm_120a", (8, 7)),
    ("sm_120f", (8, 8)),
    ("sm_121", (8, 8)),
    ("sm_121a", (8, 8)),
    ("sm_121f", (8, 8)),
];

/// Versions of PTX that LLVM can write.
const VERSIONS: &[(u16, u16)] = &[
    (3, 2),
    (4, 0),
    (4, 1),
    (4, 2),
    (4, 3),
    (5, 0),
    (6, 0),
    (6, 1),
    (6, 2),
    (6, 3),
    (6, 4),
    (6, 5),
    (7, 0),
    (7, 1),
    (7, 2),
    (7, 3),
    (7, 4),
    (7, 5),
    (7, 6),
    (7, 7),
    (7, 8),
    (8, 0),
    (8, 1),
    (8, 2),
    (8, 3),
    (8, 4),
    (8, 5),
    (8, 6),
    (8, 7),
    (8, 8),
    NEWEST_PTX,
];

/// Makes LLVM ready: options (none beyond those that are always set, unless [`set_options`](super::set_options) came
/// first), the target, and reports of fatal errors. Any number of calls, from any thread.
///
/// # Errors
/// When LLVM's options cannot be set.
pub fn initialise() -> Result<(), PassError> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    if options::set_for_process().is_none() {
        options::set(&[]).or_else(|error| match error {
            // Another thread was quicker.
            PassError::OtherOptions { .. } => Ok(()),
            other => Err(other),
        })?;
    }
    DONE.get_or_init(|| {
        report::catch_fatal_errors();
        Target::initialize_nvptx(&InitializationConfig::default());
        Ok(())
    })
    .clone()
    .map_err(|reason| PassError::NoTarget { reason })
}

/// Version of the LLVM that is linked.
pub fn llvm_version() -> (u32, u32, u32) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: writes three numbers.
    unsafe { llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    (major, minor, patch)
}

/// The first version of PTX that may name a target.
///
/// # Errors
/// When LLVM does not know the target.
pub fn least_ptx_version(cpu: &str) -> Result<(u16, u16), PassError> {
    CPUS.iter()
        .find(|(name, _)| *name == cpu)
        .map(|&(_, version)| version)
        .ok_or_else(|| PassError::UnknownCpu {
            cpu: cpu.to_owned(),
            llvm: LLVM,
            known: CPUS
                .iter()
                .map(|&(name, _)| name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

/// The version that LLVM shall write for a target: at least `wanted`, as far as LLVM goes, and what the target needs.
/// Versions between two that LLVM knows become the next one.
///
/// # Errors
/// When LLVM does not know the target.
pub fn ptx_version_for(cpu: &str, wanted: (u16, u16)) -> Result<(u16, u16), PassError> {
    let least = least_ptx_version(cpu)?.max(wanted);
    Ok(VERSIONS
        .iter()
        .copied()
        .find(|version| *version >= least)
        .unwrap_or(NEWEST_PTX))
}

/// A target machine for a processor, a version of PTX and a code-generation level from 0 to 3.
///
/// # Errors
/// When LLVM does not know the processor, cannot write the version, or was built without the target.
pub fn machine(cpu: &str, ptx_version: (u16, u16), level: u8) -> Result<TargetMachine, PassError> {
    initialise()?;
    let least = least_ptx_version(cpu)?;
    if ptx_version < least || !VERSIONS.contains(&ptx_version) {
        return Err(PassError::PtxVersion {
            asked: ptx_version,
            cpu: cpu.to_owned(),
            least,
            newest: NEWEST_PTX,
        });
    }
    let level = match level {
        0 => OptimizationLevel::None,
        1 => OptimizationLevel::Less,
        2 => OptimizationLevel::Default,
        3 => OptimizationLevel::Aggressive,
        level => return Err(PassError::Level { level }),
    };
    create(cpu, ptx_version, level)
}

/// Makes the machine of checked parts.
fn create(
    cpu: &str,
    (major, minor): (u16, u16),
    level: OptimizationLevel,
) -> Result<TargetMachine, PassError> {
    let triple = TargetTriple::create(TRIPLE);
    let target = Target::from_triple(&triple).map_err(|reason| PassError::NoTarget {
        reason: reason.to_string(),
    })?;
    target
        .create_target_machine(
            &triple,
            cpu,
            &format!("+ptx{major}{minor}"),
            level,
            RelocMode::Default,
            CodeModel::Default,
        )
        .ok_or_else(|| PassError::NoTarget {
            reason: "no target machine could be made".to_owned(),
        })
}

/// The data layout of every module: that of all target machines here, with 32-bit pointers into shared (3), constant (4)
/// and local memory (5).
///
/// # Errors
/// When LLVM cannot be made ready.
pub fn data_layout() -> Result<&'static str, PassError> {
    static LAYOUT: OnceLock<String> = OnceLock::new();
    if let Some(layout) = LAYOUT.get() {
        return Ok(layout);
    }
    initialise()?;
    let machine = create("sm_90", (7, 8), OptimizationLevel::None)?;
    let layout = machine
        .get_target_data()
        .get_data_layout()
        .as_str()
        .to_string_lossy()
        .into_owned();
    Ok(LAYOUT.get_or_init(|| layout))
}

/// Gives a module the target and the data layout of a machine. Before lifting into it: pointers have their sizes by it.
pub fn prepare(module: &Module, machine: &TargetMachine) {
    module.set_triple(&TargetTriple::create(TRIPLE));
    module.set_data_layout(&machine.get_target_data().get_data_layout());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_versions_are_those_at_which_llvm_does_not_end_the_process() {
        for &(cpu, version) in CPUS {
            let machine = machine(cpu, version, 0).expect(cpu);
            assert_eq!(machine.get_cpu().to_string(), cpu);
        }
    }
}
