//! What was compiled, to a file or to standard output.

use std::path::Path;

use r3_codegen::recipe::Product;

use super::super::Failure;
use super::super::output::Output;
use super::super::private_file::PrivateFile;

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EmitKind {
    /// LLVM IR after the passes.
    Llvm,
    /// PTX.
    Ptx,
    /// Machine code as text.
    Sass,
    /// Machine code.
    Cubin,
}

impl EmitKind {
    /// Whether an assembler is needed.
    pub fn needs_cubin(self) -> bool {
        matches!(self, Self::Sass | Self::Cubin)
    }
}

/// Writes a product; `None` and `-` are standard output.
pub fn write(
    kind: EmitKind,
    product: &Product,
    kernel: &str,
    path: Option<&Path>,
    out: &mut Output,
) -> Result<(), Failure> {
    let no_cubin = || {
        let notes = product.notes.join("; ");
        Failure::Message(format!("--emit: there is no machine code: {notes}"))
    };
    let bytes = match kind {
        EmitKind::Ptx => product.ptx.clone().into_bytes(),
        EmitKind::Llvm => product
            .llvm
            .clone()
            .ok_or_else(|| Failure::Message("--emit llvm: there is no LLVM IR".to_owned()))?
            .into_bytes(),
        EmitKind::Cubin => product.cubin.as_ref().ok_or_else(no_cubin)?.bytes.clone(),
        EmitKind::Sass => {
            let cubin = product.cubin.as_ref().ok_or_else(no_cubin)?;
            r3_codegen::assemble::disassemble(&cubin.bytes, Some(kernel))
                .map_err(Failure::new)?
                .into_bytes()
        }
    };
    match path.filter(|path| *path != Path::new("-")) {
        None => out.bytes(&bytes),
        Some(path) => {
            let mut file = PrivateFile::create(path)?;
            file.write(&bytes)?;
            file.finish()
        }
    }
}
