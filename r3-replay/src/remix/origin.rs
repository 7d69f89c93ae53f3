//! The code to begin with.

use std::path::Path;

use r3_archive::model::KernelRecord;
use r3_archive::{Archive, ReadError};
use r3_codegen::recipe::{Code, Compiler, Source};
use r3_codegen::source::files;
use r3_image::Image;

use crate::attach::forms;
use crate::code::{self, CodeMode};
use crate::names::printable;

/// Code in some form, and where it is from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The code.
    pub code: Code,
    /// The kernel's name in it.
    pub kernel: String,
    /// Where it is from, for people: `PTX compute_90 of the image`.
    pub from: String,
    /// The architecture that the code names, e.g. `sm_90a`.
    pub target: Option<String>,
}

impl Origin {
    /// Whether the code itself says for which architecture it is.
    pub fn names_target(&self) -> bool {
        let names = |bytes: &[u8]| bytes.windows(3).any(|word| word == b"sm_");
        match &self.code {
            Code::Ptx(_) => true,
            Code::Llvm(text) => names(text.as_bytes()),
            Code::Bitcode(bytes) => names(bytes),
            Code::Source(_) | Code::LtoIr(_) => false,
        }
    }
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The archive cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing that can be compiled is there.
    #[error(
        "the archive has no code of kernel {kernel} that can be compiled{what}: it has {forms}. Attach its source with \
         `r3-replay attach`, or give code with --code FILE"
    )]
    Nothing {
        /// The kernel.
        kernel: String,
        /// What of it was asked for.
        what: &'static str,
        /// What there is.
        forms: String,
    },
    /// A file cannot be read.
    #[error("--code {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file is none of the forms that are understood.
    #[error(
        "--code {path}: PTX (.ptx), LLVM bitcode (.bc) or text (.ll, .llir), CUDA C++ (.cu), or an image with PTX is expected"
    )]
    Form {
        /// The file.
        path: String,
    },
}

/// A form of code to begin with.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// PTX.
    Ptx,
    /// LLVM bitcode or text.
    Llvm,
    /// NVIDIA's LTO-IR.
    Lto,
    /// Source that the application compiled at run time.
    Source,
}

impl From {
    fn is(self, code: &Code) -> bool {
        match self {
            Self::Ptx => matches!(code, Code::Ptx(_)),
            Self::Llvm => matches!(code, Code::Bitcode(_) | Code::Llvm(_)),
            Self::Lto => matches!(code, Code::LtoIr(_)),
            Self::Source => matches!(code, Code::Source(_)),
        }
    }
}

/// What an archive has of a kernel for an architecture: the best form, or the best one of a kind.
pub fn of_archive(
    archive: &Archive,
    kernel: &KernelRecord,
    sm: u32,
    from: Option<From>,
) -> Result<Origin, OriginError> {
    let mut forms = forms::forms(archive, kernel.id, sm)?;
    let at = forms
        .iter()
        .position(|form| from.is_none_or(|from| from.is(&form.code)));
    let Some(at) = at else {
        let mut known: Vec<String> = forms.into_iter().map(|form| form.what).collect();
        if known.is_empty() {
            let module = kernel.module.and_then(|module| archive.module(module));
            known.push(match module {
                Some(module) => {
                    let image = Image::from_vec(archive.read_blob(&module.image)?);
                    code::spell_forms(&image.code_forms())
                }
                None => "no code at all".to_owned(),
            });
        }
        return Err(OriginError::Nothing {
            kernel: kernel.name.clone(),
            what: if from.is_some() { " in this form" } else { "" },
            forms: known.join(", "),
        });
    };
    let form = forms.swap_remove(at);
    Ok(Origin {
        target: match &form.code {
            Code::Ptx(text) => target(text),
            _ => None,
        },
        code: form.code,
        kernel: form.name,
        from: printable(&form.what),
    })
}

/// Code from a file.
pub fn of_file(path: &Path, kernel: &str, sm: u32) -> Result<Origin, OriginError> {
    let shown = path.display().to_string();
    let bytes = files::read(path, files::CODE).map_err(|source| OriginError::File {
        path: shown.clone(),
        source,
    })?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let other = |code| Origin {
        code,
        kernel: kernel.to_owned(),
        from: shown.clone(),
        target: None,
    };
    Ok(match extension {
        Some("bc") => other(Code::Bitcode(bytes)),
        Some("ll" | "llir") => other(Code::Llvm(text(bytes))),
        Some("cu" | "cc" | "cpp" | "cxx") => other(Code::Source(Source {
            text: text(bytes),
            // It is compiled in a process with another folder.
            name: absolute.clone(),
            headers: Vec::new(),
            name_expressions: Vec::new(),
            compiler: Compiler::Any,
            program: None,
            options: Vec::new(),
            directory: absolute.parent().map(Path::to_owned),
        })),
        _ if bytes.starts_with(b"BC\xc0\xde") => other(Code::Bitcode(bytes)),
        _ => {
            let image = Image::from_vec(bytes);
            let target = code::Target {
                sm,
                machine_code: false,
            };
            let chosen = code::choose(&image, kernel, target, CodeMode::Ptx).map_err(|_| {
                OriginError::Form {
                    path: shown.clone(),
                }
            })?;
            ptx(text(chosen.bytes), kernel, shown)
        }
    })
}

fn text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

fn ptx(text: String, kernel: &str, from: String) -> Origin {
    Origin {
        target: target(&text),
        code: Code::Ptx(text),
        kernel: kernel.to_owned(),
        from,
    }
}

/// What `.target` names: `sm_90a`.
pub fn target(ptx: &str) -> Option<String> {
    ptx.lines()
        .filter_map(|line| line.trim().strip_prefix(".target"))
        .flat_map(|rest| rest.split([',', ' ', '\t']))
        .map(str::trim)
        .find(|word| word.starts_with("sm_"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_the_architecture_among_what_the_directive_lists() {
        let of = |line: &str| target(&format!(".version 8.8\n{line}\n.address_size 64\n"));
        assert_eq!(of(".target sm_90a").as_deref(), Some("sm_90a"));
        assert_eq!(of(".target\tsm_80, debug").as_deref(), Some("sm_80"));
        assert_eq!(
            of(".target texmode_unified, sm_75").as_deref(),
            Some("sm_75")
        );
        assert_eq!(of("// .target sm_75"), None);
    }
}
