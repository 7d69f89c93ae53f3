//! Source that the application compiled at run time, which is in the archive.

use r3_archive::Archive;
use r3_archive::model::{KernelRecord, ModuleId};
use r3_codegen::recipe::{Code, Source};

use super::forms::{Origin, forms};

/// A module's source, ready to be compiled as the application did it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The module.
    pub module: ModuleId,
    /// Its source.
    pub source: Source,
}

/// The sources of some kernels' modules, each once, where the image has no PTX of the kernel.
pub fn recorded(
    archive: &Archive,
    kernels: &[&KernelRecord],
    sm: u32,
) -> Result<Vec<Recorded>, r3_archive::ReadError> {
    let mut found: Vec<Recorded> = Vec::new();
    for kernel in kernels {
        let Some(module) = kernel.module else {
            continue;
        };
        if found.iter().any(|known| known.module == module) {
            continue;
        }
        let forms = forms(archive, kernel.id, sm)?;
        let of_image = |code: &Code| matches!(code, Code::Ptx(_));
        if forms
            .iter()
            .any(|form| form.origin == Origin::Image && of_image(&form.code))
        {
            continue;
        }
        found.extend(forms.into_iter().find_map(|form| match form.code {
            Code::Source(source) if form.origin == Origin::Recorded => {
                Some(Recorded { module, source })
            }
            _ => None,
        }));
    }
    Ok(found)
}
