//! The code that a candidate begins with.

use std::sync::{Arc, PoisonError};

use r3_archive::Archive;
use r3_archive::model::KernelRecord;
use r3_codegen::recipe::Code;
use r3_image::{Image, KernelInfo};

use super::{Refusal, Subject, sources};
use crate::attach::matching::{self, Unfit};
use crate::evaluate::candidate::CandidateCode;
use crate::evaluate::outcome::Verdict;
use crate::remix::origin::{self, From, Origin};

/// Which form of the archive.
pub(super) type Key = Option<From>;

impl Subject {
    pub(super) fn origin(&self, code: &CandidateCode) -> Result<Arc<Origin>, Refusal> {
        let given = |code: Code, what: &str| Origin {
            target: match &code {
                Code::Ptx(text) => origin::target(text),
                _ => None,
            },
            code,
            kernel: self.kernel.name.clone(),
            from: what.to_owned(),
        };
        let origin = match code {
            CandidateCode::Captured { from } => return self.captured(*from),
            CandidateCode::Ptx(text) => {
                let parsed = Image::parse(text.as_bytes());
                if let Some(info) = parsed.kernel(&self.kernel.name) {
                    fits(&self.archive, &self.kernel, &info)?;
                }
                given(Code::Ptx(text.clone()), "the candidate's PTX")
            }
            CandidateCode::Llvm(text) => given(Code::Llvm(text.clone()), "the candidate's LLVM IR"),
            CandidateCode::Bitcode(bytes) => {
                given(Code::Bitcode(bytes.clone()), "the candidate's bitcode")
            }
            CandidateCode::Source(source) => {
                let code = Code::Source(sources::source(source)?);
                let mut origin = given(code, "the candidate's source");
                if let Some(kernel) = &source.kernel {
                    origin.kernel.clone_from(kernel);
                }
                origin
            }
            CandidateCode::Recorded | CandidateCode::Cubin(_) => {
                return Err(Refusal::refused("this code is not compiled"));
            }
        };
        Ok(Arc::new(origin))
    }

    /// A form of the archive: found once.
    fn captured(&self, from: Key) -> Result<Arc<Origin>, Refusal> {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let found = origins.entry(from).or_insert_with(|| {
            origin::of_archive(&self.archive, &self.kernel, self.sm(), from)
                .map(Arc::new)
                .map_err(|error| error.to_string())
        });
        found.clone().map_err(Refusal::no_code)
    }
}

/// Code must take the parameters as the captured launches have them.
pub(super) fn fits(
    archive: &Archive,
    kernel: &KernelRecord,
    info: &KernelInfo,
) -> Result<(), Refusal> {
    match matching::fits(archive, kernel, info) {
        Ok(()) | Err(Unfit::Unknown) => Ok(()),
        Err(unfit) => Err(Refusal {
            verdict: Verdict::NoCode,
            reason: match unfit {
                Unfit::Count { .. } | Unfit::Param { .. } => format!(
                    "the code is of another kernel with this name: {unfit}\n{}",
                    sources::layouts(info, &kernel.params)
                ),
                _ => format!("the code is of another kernel with this name: {unfit}"),
            },
        }),
    }
}
