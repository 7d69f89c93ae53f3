//! CUDA C++ of a candidate: what its compiler is asked, and which kernel of the answer is meant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use r3_archive::model::ParamLayout;
use r3_codegen::recipe::{Code, Compiler, Source};
use r3_codegen::source::options::{Dialect, Options};
use r3_codegen::source::{Compiled, find};
use r3_image::{Image, KernelInfo};
use r3_source::device_part::device_part;
use r3_source::syntax::Unit;

use super::{Refusal, Subject, origins};
use crate::attach::names;
use crate::evaluate::candidate::SourceCode;
use crate::names::{qualified, readable};
use crate::remix::origin::{self, Origin};

/// Where CUDA C++ of a candidate seems to be, for messages.
const SOURCE_NAME: &str = "candidate.cu";

/// Most kernels that a message names.
const NAMES_SHOWN: usize = 8;

/// Most parameters that a message lists.
const PARAMETERS_SHOWN: usize = 40;

impl Subject {
    /// What the compiler of a candidate's source is asked, and for which target.
    pub fn asked_of_compiler(&self, given: &SourceCode) -> Result<(Source, String), Refusal> {
        let source = source(given)?;
        let dialect = match given.compiler {
            Compiler::Clang => Dialect::Clang,
            Compiler::Nvrtc => Dialect::Nvrtc,
            Compiler::Any | Compiler::Nvcc => Dialect::Nvcc,
        };
        let target = Options::read(&given.options, dialect).target(self.sm());
        Ok((source, target))
    }

    /// The code that a compiler made of a candidate's source, with the kernel that stands for the captured one.
    pub(super) fn origin_of_source(
        &self,
        given: &SourceCode,
        compiled: &Compiled,
    ) -> Result<Arc<Origin>, Refusal> {
        let image = match &compiled.code {
            Code::Ptx(text) => Some(Image::parse(text.as_bytes())),
            _ => None,
        };
        let kernel = match &given.kernel {
            Some(name) => said(name, &compiled.kernels)?,
            None => self.meant(&compiled.kernels, image.as_ref())?,
        };
        if let Some(info) = image.as_ref().and_then(|image| image.kernel(&kernel)) {
            origins::fits(&self.archive, &self.kernel, &info)?;
        }
        Ok(Arc::new(Origin {
            target: match &compiled.code {
                Code::Ptx(text) => origin::target(text),
                _ => None,
            },
            code: compiled.code.clone(),
            kernel,
            from: format!("the candidate's source, compiled by {}", compiled.compiler),
        }))
    }

    /// The kernel of some code that is the captured one: by its name, by what is left of it without what compilers make up,
    /// or by its qualified name with other parameter types, such as a `const` more.
    fn meant(&self, kernels: &[String], image: Option<&Image>) -> Result<String, Refusal> {
        let captured = &self.kernel.name;
        if kernels.contains(captured) {
            return Ok(captured.clone());
        }
        let fits = |name: &&String| {
            let info = image.and_then(|image| image.kernel(name));
            info.is_none_or(|info| origins::fits(&self.archive, &self.kernel, &info).is_ok())
        };
        let plain = names::plain(captured);
        let names_of = |name: &str| qualified(&readable(name)).to_owned();
        let wanted = names_of(captured);
        let alike: [&dyn Fn(&&String) -> bool; 2] =
            [&|name| names::plain(name) == plain, &|name| {
                names_of(name) == wanted
            }];
        for is in alike {
            let found: Vec<&String> = kernels.iter().filter(is).collect();
            let fitting: Vec<&String> = found.iter().copied().filter(fits).collect();
            match (found.as_slice(), fitting.as_slice()) {
                ([only], _) | (_, [only]) => return Ok((*only).clone()),
                ([], _) => {}
                (several, _) => {
                    let names: Vec<String> = several.iter().map(|name| readable(name)).collect();
                    return Err(Refusal::no_code(format!(
                        "the source has several kernels that may stand for {}: {}. Say which with \"kernel\"",
                        readable(captured),
                        names.join(", ")
                    )));
                }
            }
        }
        Err(Refusal::no_code(without_kernel(captured, kernels)))
    }
}

/// The kernel that somebody names: as compilers do it, or as C++ does it without parameters.
fn said(name: &str, kernels: &[String]) -> Result<String, Refusal> {
    if kernels.iter().any(|kernel| kernel == name) {
        return Ok(name.to_owned());
    }
    let is = |kernel: &&String| {
        let readable = readable(kernel);
        qualified(&readable) == name || names::base(&readable) == name
    };
    let found: Vec<&String> = kernels.iter().filter(is).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Refusal::no_code(without_kernel(name, kernels))),
        several => Err(Refusal::no_code(format!(
            "`{name}` is more than one kernel of the source: {}",
            several
                .iter()
                .map(|name| readable(name))
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

/// A candidate's source as a compiler is given it.
pub(super) fn source(given: &SourceCode) -> Result<Source, Refusal> {
    let program = given.program.as_ref().map(PathBuf::from);
    if let Some(program) = &program {
        let kind = find::kind(program);
        let agrees = given.compiler == Compiler::Any || kind == Some(given.compiler);
        if kind.is_none() || !agrees {
            return Err(Refusal::refused(format!(
                "the compiler {} is {}: a file called nvcc, clang or libnvrtc is expected",
                program.display(),
                match kind {
                    Some(_) => "another than \"compiler\" says",
                    None => "none that is known",
                }
            )));
        }
    }
    if let Some(directory) = &given.directory
        && !Path::new(directory).is_absolute()
    {
        return Err(Refusal::refused(format!(
            "the folder {directory} of the source is no absolute path"
        )));
    }
    // What cannot be parsed is left to the compiler to complain of.
    let cut = match given.device_part {
        true => Unit::parse(&given.text).ok(),
        false => None,
    };
    Ok(Source {
        text: cut.map_or_else(|| given.text.clone(), |unit| device_part(&unit)),
        name: PathBuf::from(match given.name.as_str() {
            "" => SOURCE_NAME,
            name => name,
        }),
        headers: given.headers.clone(),
        name_expressions: given.instances.clone(),
        compiler: given.compiler,
        program,
        options: given.options.clone(),
        directory: given.directory.as_ref().map(PathBuf::from),
    })
}

fn without_kernel(wanted: &str, kernels: &[String]) -> String {
    let wanted = readable(wanted);
    let mut text = match kernels.len() {
        0 => format!("the source has no kernel, and {wanted} is looked for"),
        _ => {
            let shown = kernels.iter().take(NAMES_SHOWN);
            let names: Vec<String> = shown.map(|name| readable(name)).collect();
            let more = match kernels.len().saturating_sub(NAMES_SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "the source has no kernel {wanted}: it has {}{more}",
                names.join(", ")
            )
        }
    };
    if wanted.contains('<') {
        text.push_str(
            ". An instance of a template must be named (\"instances\") or used by the file's host code",
        );
    }
    text
}

/// Where parameters lie here and as captured, side by side.
pub(super) fn layouts(code: &KernelInfo, captured: &[ParamLayout]) -> String {
    let spell = |param: Option<(u32, u32)>| match param {
        Some((offset, size)) => format!("{size} bytes at {offset}"),
        None => "none".to_owned(),
    };
    let rows = code.params.len().max(captured.len());
    let mut text = format!("{:>9}  {:<20}  {}", "parameter", "here", "captured");
    for index in 0..rows.min(PARAMETERS_SHOWN) {
        let here = code.params.get(index).map(|p| (p.offset, p.size));
        let there = captured.get(index).map(|p| (p.offset, p.size));
        let mark = if here == there { "" } else { "  <" };
        text.push_str(&format!(
            "\n{index:>9}  {:<20}  {}{mark}",
            spell(here),
            spell(there)
        ));
    }
    if rows > PARAMETERS_SHOWN {
        text.push_str(&format!("\nand {} more", rows - PARAMETERS_SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compilers_are_run_and_folders_are_absolute() {
        let refused = |given: SourceCode| source(&given).unwrap_err().reason;
        let given = SourceCode {
            program: Some("/bin/sh".to_owned()),
            ..SourceCode::default()
        };
        assert!(refused(given).contains("/bin/sh is none that is known"));
        let given = SourceCode {
            program: Some("/usr/bin/clang++-22".to_owned()),
            compiler: Compiler::Nvcc,
            ..SourceCode::default()
        };
        assert!(refused(given).contains("another than \"compiler\" says"));
        let given = SourceCode {
            directory: Some("here".to_owned()),
            ..SourceCode::default()
        };
        assert!(refused(given).contains("no absolute path"));
    }
}
