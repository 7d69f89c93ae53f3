//! PTX to a cubin, and what it uses.
//!
//! By NVIDIA's tools, wherever they are found ([`find`]): `ptxas`, a program, or nvJitLink, a library. Nothing of them is
//! part of this project. Where neither is found the answer is a
//! [`MissingTool`](crate::recipe::FailureKind::MissingTool) that names where they were looked for. A last resort is left to
//! who has a GPU: its driver assembles PTX, too, when it loads a module (`cuModuleLoadData` with options). `r3-replay` does
//! that with the PTX of a [`Product`](crate::recipe::Product); no cubin comes out of it.
//!
//! Both tools take options in the spelling of `ptxas`. They do not make the same code: nvJitLink assembles each module
//! as one that may be linked with others (`ptxas -c`), and has for instance arrays of a thread in memory that `ptxas` keeps
//! in registers. Of 86 kernels in 40 modules of public libraries, 15 got other registers or another stack, with the tools
//! of CUDA 13.0. nvcc's cubins are those of a plain `ptxas`: it is the first choice, so that times can be compared with the
//! original's. nvJitLink takes a third of the time for small modules (15 against 50 ms), since no program is started:
//! [`AssemblerKind`](crate::recipe::AssemblerKind) chooses.

pub mod find;

pub mod scratch;

pub mod tool;

mod options;

mod arch;
pub use arch::arch_for;

pub mod nvjitlink;

mod ptxas;

mod resources;

mod sass;
pub use sass::{count_instructions, disassemble};

use nvjitlink::{Linked, Refusal};

use crate::recipe::{Assembler, AssemblerKind, Cubin, Failure, FailureKind, Stage};

/// PTX to a cubin. `target` is the architecture that its `.target` names; the assembler's own wins.
///
/// A target that the assembler does not know any more (`sm_52` since CUDA 13) is raised to the next that it knows, unless
/// the architecture is asked for.
pub fn assemble(ptx: &str, target: &str, assembler: &Assembler) -> Result<Cubin, Failure> {
    let options = options::joined(&assembler.options)?;
    let linked = match &assembler.arch {
        Some(arch) => by_kind(assembler.kind, ptx, &arch::checked(arch)?, &options)
            .map_err(Refusal::failure)?,
        None => {
            let mut arch = arch::checked(target)?;
            loop {
                match by_kind(assembler.kind, ptx, &arch, &options) {
                    Ok(linked) => break linked,
                    Err(Refusal::Architecture(failure)) => match arch::above(&arch) {
                        Some(next) => arch = next,
                        None => return Err(failure),
                    },
                    Err(Refusal::Other(failure)) => return Err(failure),
                }
            }
        }
    };
    Ok(Cubin {
        kernels: resources::read(&linked.bytes, &linked.log),
        bytes: linked.bytes,
        assembler: linked.assembler,
    })
}

fn by_kind(
    kind: AssemblerKind,
    ptx: &str,
    arch: &str,
    options: &[String],
) -> Result<Linked, Refusal> {
    match kind {
        AssemblerKind::NvJitLink => nvjitlink::assemble(ptx, arch, options),
        AssemblerKind::Ptxas => ptxas::assemble(ptx, arch, options),
        AssemblerKind::Any => {
            let Err(program) = ptxas::present() else {
                return ptxas::assemble(ptx, arch, options);
            };
            let Err(library) = nvjitlink::present() else {
                return nvjitlink::assemble(ptx, arch, options);
            };
            Err(Refusal::Other(Failure {
                stage: Stage::Assemble,
                kind: FailureKind::MissingTool,
                message: format!("{}; {}", program.message, library.message),
                log: String::new(),
            }))
        }
    }
}
