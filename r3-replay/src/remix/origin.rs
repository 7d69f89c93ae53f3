//! The code to begin with.

use std::path::Path;

use r3_archive::model::{AttachedForm, KernelRecord, SourceRecord};
use r3_archive::{Archive, ReadError};
use r3_codegen::recipe::{Code, Compiler, Source};
use r3_image::{CodeForm, Image};

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

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The archive cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing that can be compiled is there.
    #[error(
        "the archive has no code of kernel {kernel} that can be compiled: it has {forms}. Attach its source with \
         `r3-replay attach`, or give code with --code FILE"
    )]
    Nothing {
        /// The kernel.
        kernel: String,
        /// What the image has.
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

/// What an archive has of a kernel: code that was attached, else the PTX for the architecture, else the source that was
/// compiled at run time, else LTO-IR.
pub fn of_archive(
    archive: &Archive,
    kernel: &KernelRecord,
    sm: u32,
) -> Result<Origin, OriginError> {
    if let Some(attachment) = archive.attached_to(kernel.id).last()
        && let Some(blob) = attachment.code(AttachedForm::Ptx)
    {
        let text = text(archive.read_blob(blob)?);
        return Ok(ptx(
            text,
            &kernel.name,
            format!("PTX attached from {}", printable(&attachment.file)),
        ));
    }
    let module = kernel.module.and_then(|module| archive.module(module));
    let Some(module) = module else {
        return Err(OriginError::Nothing {
            kernel: kernel.name.clone(),
            forms: "no code at all".to_owned(),
        });
    };
    let image = Image::from_vec(archive.read_blob(&module.image)?);
    let target = code::Target {
        sm,
        machine_code: false,
    };
    if let Ok(chosen) = code::choose(&image, &kernel.name, target, CodeMode::Ptx) {
        let from = format!("{} of the image", chosen.form);
        return Ok(ptx(text(chosen.bytes), &kernel.name, from));
    }
    if let Some(source) = module.source.and_then(|id| archive.source(id)) {
        return of_source(archive, source, kernel);
    }
    let lto = image
        .entries()
        .iter()
        .filter(|entry| entry.form == CodeForm::LtoIr)
        .filter_map(|entry| Some((entry.sm, entry.payload().ok()?)))
        .max_by_key(|(of, _)| *of);
    if let Some((of, bytes)) = lto {
        return Ok(Origin {
            code: Code::LtoIr(bytes.into_owned()),
            kernel: kernel.name.clone(),
            from: format!("LTO-IR lto_{of} of the image"),
            target: Some(format!("sm_{of}")),
        });
    }
    Err(OriginError::Nothing {
        kernel: kernel.name.clone(),
        forms: code::spell_forms(&image.code_forms()),
    })
}

/// Source that the application compiled with NVRTC, to be compiled with its options again.
fn of_source(
    archive: &Archive,
    record: &SourceRecord,
    kernel: &KernelRecord,
) -> Result<Origin, OriginError> {
    let headers = record
        .headers
        .iter()
        .map(|(name, blob)| Ok((name.clone(), text(archive.read_blob(blob)?))))
        .collect::<Result<Vec<_>, ReadError>>()?;
    Ok(Origin {
        code: Code::Source(Source {
            text: text(archive.read_blob(&record.text)?),
            name: record.name.clone().into(),
            headers,
            compiler: Compiler::Nvrtc,
            options: record.options.clone(),
            directory: None,
        }),
        kernel: kernel.name.clone(),
        from: format!("source of {}", printable(&record.compiler)),
        target: None,
    })
}

/// Code from a file.
pub fn of_file(path: &Path, kernel: &str, sm: u32) -> Result<Origin, OriginError> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|source| OriginError::File {
        path: shown.clone(),
        source,
    })?;
    let extension = path.extension().and_then(|extension| extension.to_str());
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
            name: path.to_owned(),
            headers: Vec::new(),
            compiler: Compiler::Any,
            options: Vec::new(),
            directory: path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .map(Path::to_owned),
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
fn target(ptx: &str) -> Option<String> {
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
