//! The code that a candidate is, to be kept.

use r3_codegen::recipe::{Emit, Guard, Recipe, Route};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::compiling::{self, Effort};
use super::kernels::KernelEntry;
use super::{EvaluatorError, Inner};
use crate::code::Form;
use crate::evaluate::candidate::{
    Candidate, CandidateId, LaunchChange, base64_bytes, base64_bytes_or_none,
};
use crate::evaluate::plan::Plan;

/// A candidate's code as it is loaded, and what it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// The candidate.
    pub candidate: CandidateId,
    /// The kernel's name in the code.
    pub name: String,
    /// Hash of `bytes`, as outcomes have it. Not of the recorded code: a device loads the part of it that it can run.
    pub image: String,
    /// What `bytes` are.
    pub form: Form,
    /// What is loaded. For the recorded code: the image that the application loaded.
    #[serde(with = "base64_bytes")]
    pub bytes: Vec<u8>,
    /// The cubin.
    #[serde(with = "base64_bytes_or_none")]
    pub cubin: Option<Vec<u8>>,
    /// The PTX that the cubin was made from.
    pub ptx: Option<String>,
    /// The LLVM IR that the PTX was made from, for what went through LLVM.
    pub llvm: Option<String>,
    /// Under which conditions it may stand for the original.
    pub guards: Vec<Guard>,
    /// How it is launched.
    pub change: LaunchChange,
    /// The assembler, with its version.
    pub assembler: Option<String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Compiles a candidate again, or takes it from the cache.
pub(super) fn of(
    inner: &Inner,
    entry: &KernelEntry,
    candidate: &Candidate,
    plan: &Plan,
) -> Result<Artifact, EvaluatorError> {
    let (subject, plan) = compiling::subject_and_plan(inner, entry, plan)?;
    let mut effort = Effort::default();
    let code = compiling::make(inner, &subject, candidate, &plan, &mut effort)
        .map_err(|not_made| EvaluatorError::Code(not_made.reason()))?;
    let mut artifact = Artifact {
        candidate: candidate.id(),
        name: subject.kernel().name.clone(),
        image: String::new(),
        form: Form::Unknown,
        bytes: Vec::new(),
        cubin: None,
        ptx: None,
        llvm: None,
        guards: code.guards,
        change: candidate.launch,
        assembler: None,
        notes: code.notes,
    };
    match code.image {
        Some(image) => {
            artifact.name = image.name;
            artifact.form = image.form;
            artifact.bytes = image.bytes;
        }
        None => {
            let module = subject.kernel().module;
            let module = module.and_then(|id| entry.opened.module(id));
            let blob = module.ok_or_else(|| {
                EvaluatorError::Code("the archive has no code of the kernel".to_owned())
            })?;
            artifact.bytes = entry
                .opened
                .read_blob(&blob.image)
                .map_err(|error| EvaluatorError::Archive(error.to_string()))?;
        }
    }
    if let Form::Sass(_) = artifact.form {
        artifact.cubin = Some(artifact.bytes.clone());
    }
    if let Some((recipe, product)) = code.compiled {
        artifact.ptx = Some(product.ptx);
        artifact.assembler = product.cubin.map(|cubin| cubin.assembler);
        artifact.llvm = llvm(inner, &recipe)?;
    }
    artifact.image = format!("{:032x}", xxh3_128(&artifact.bytes));
    Ok(artifact)
}

/// The LLVM IR of what goes through LLVM: compiled once more, since nobody needs it of most candidates.
fn llvm(inner: &Inner, recipe: &Recipe) -> Result<Option<String>, EvaluatorError> {
    use r3_codegen::recipe::Code;
    let text = recipe.route == Route::Text
        && matches!(recipe.code, Code::Ptx(_) | Code::Source(_) | Code::LtoIr(_));
    if text {
        return Ok(None);
    }
    let mut recipe = recipe.clone();
    recipe.emit = Emit {
        llvm: true,
        cubin: false,
    };
    let product = inner.compilers.compile(&recipe, &mut Effort::default());
    product
        .map(|product| product.llvm)
        .map_err(|failure| EvaluatorError::Code(failure.to_string()))
}
