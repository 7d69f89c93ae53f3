//! PTX to a cubin, and what it uses.
//!
//! By NVIDIA's tools, wherever they are found ([`find`]): `ptxas`, a program, or nvJitLink, a library. Nothing of them is
//! part of this project. Where neither is found the answer is a
//! [`MissingTool`](FailureKind::MissingTool) that names where they were looked for. A last resort is left to
//! who has a GPU: its driver assembles PTX, too, when it loads a module (`cuModuleLoadData` with options). `r3-replay` does
//! that with the PTX of a [`Product`](crate::recipe::Product); no cubin comes out of it.
//!
//! Both tools take options in the spelling of `ptxas`. They do not make the same code: nvJitLink assembles each module
//! as one that may be linked with others (`ptxas -c`), and has for instance arrays of a thread in memory that `ptxas` keeps
//! in registers. Of 86 kernels in 40 modules of public libraries, 15 got other registers or another stack, with the tools
//! of CUDA 13.0. nvcc's cubins are those of a plain `ptxas`: it is the first choice, so that times can be compared with the
//! original's. nvJitLink takes a third of the time for small modules (15 against 50 ms), since no program is started:
//! [`AssemblerKind`] chooses.

pub mod find;

pub mod scratch;

pub mod tool;

mod options;

mod quote;

mod arch;
pub use arch::arch_for;

pub mod nvjitlink;

mod ptxas;

mod resources;

mod sass;
pub use sass::{count_instructions, disassemble};

use crate::recipe::{Assembler, AssemblerKind, Cubin, Failure, FailureKind};

/// PTX to a cubin. `target` is the architecture that its `.target` names; the assembler's own wins.
///
/// An assembler that is too old for the PTX or its target is passed over when there is another one. A target that none
/// knows any more (`sm_52` since CUDA 13) is raised to the next that one knows, unless the architecture is asked for.
pub fn assemble(ptx: &str, target: &str, assembler: &Assembler) -> Result<Cubin, Failure> {
    let options = options::joined(&assembler.options)?;
    let asked = assembler.arch.as_deref();
    let mut arch = arch::checked(asked.unwrap_or(target))?;
    let mut first = None;
    let linked = loop {
        let refusal = match by_kind(assembler.kind, ptx, &arch, &options) {
            Ok(linked) => break linked,
            Err(refusal) => refusal,
        };
        let above = match &refusal {
            Refusal::Architecture(_) if asked.is_none() => arch::above(&arch),
            _ => None,
        };
        // What is wrong with the target itself says more than what is wrong with one above.
        let failure = first.get_or_insert(refusal.failure());
        match above {
            Some(above) => arch = above,
            None => return Err(quote::lines(failure.clone(), ptx)),
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
        AssemblerKind::Any => match ptxas::present() {
            Ok(_) => match ptxas::assemble(ptx, arch, options) {
                Err(refusal) if refusal.is_of_age() && nvjitlink::present().is_ok() => {
                    nvjitlink::assemble(ptx, arch, options).map_err(|_| refusal)
                }
                outcome => outcome,
            },
            Err(program) => match nvjitlink::present() {
                Ok(()) => nvjitlink::assemble(ptx, arch, options),
                Err(library) => Err(Refusal::Other(Failure {
                    message: format!("{}; {}", program.message, library.message),
                    ..program
                })),
            },
        },
    }
}

/// A cubin, and what its assembler said of it.
struct Linked {
    bytes: Vec<u8>,
    log: String,
    assembler: String,
}

/// Why an assembler gave nothing.
enum Refusal {
    /// It does not know the architecture: too old for it, or too new.
    Architecture(Failure),
    /// It does not know the version of the PTX: too old.
    Version(Failure),
    /// Anything else.
    Other(Failure),
}

impl Refusal {
    /// What an assembler's words mean.
    fn of(failure: Failure) -> Refusal {
        if failure.kind != FailureKind::Refused {
            Refusal::Other(failure)
        } else if failure.log.contains("is not defined for option 'gpu-name'") {
            Refusal::Architecture(failure)
        } else if failure.log.contains("Unsupported .version") {
            Refusal::Version(failure)
        } else {
            Refusal::Other(failure)
        }
    }

    /// Another version of the assembler may do better.
    fn is_of_age(&self) -> bool {
        !matches!(self, Refusal::Other(_))
    }

    fn failure(self) -> Failure {
        match self {
            Refusal::Architecture(failure)
            | Refusal::Version(failure)
            | Refusal::Other(failure) => failure,
        }
    }
}
