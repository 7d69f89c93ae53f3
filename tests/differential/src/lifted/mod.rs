//! Cases compiled anew: lifted to LLVM IR, through a pass pipeline, written as PTX again. What they compute must be what
//! they computed before.
//!
//! [`try_case`] runs a case as it is and with each [`Variant`] of its code on one device, and compares. [`children`] does
//! that for all cases in several processes, since a fault of a kernel leaves a CUDA context unusable.

pub mod children;

use r3_codegen::passes::random_pipeline;
use r3_codegen::recipe::{Code, Failure, FailureKind, Pipeline, Preset, Product, Recipe};
use r3_replay::device::Device;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::compare;
use crate::device::run;
use crate::known;
use crate::record::{Entry, Recorded, identity};

/// A pipeline with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `O3`, `random 7`.
    pub name: String,
    /// The pipeline.
    pub pipeline: Pipeline,
}

impl Variant {
    /// One of LLVM's own.
    pub fn preset(preset: Preset) -> Self {
        Self {
            name: format!("{preset:?}"),
            pipeline: Pipeline::Preset(preset),
        }
    }

    /// The random pipeline of a seed.
    pub fn random(seed: u64) -> Self {
        Self {
            name: format!("random {seed}"),
            pipeline: Pipeline::Text(random_pipeline(seed)),
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        let presets = [
            Preset::O0,
            Preset::O1,
            Preset::O2,
            Preset::O3,
            Preset::Os,
            Preset::Oz,
        ];
        let known = presets.map(Self::preset);
        known
            .into_iter()
            .find(|variant| variant.name == name)
            .or_else(|| {
                let seed = name.strip_prefix("random ")?.parse().ok()?;
                Some(Self::random(seed))
            })
    }
}

/// What a case's code becomes.
pub fn recipe(case: &Case, variant: &Variant) -> Recipe {
    Recipe {
        pipeline: variant.pipeline.clone(),
        ..Recipe::new(Code::Ptx(case.ptx.clone()))
    }
}

/// How a variant came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The same bytes.
    Same,
    /// Other bits where the ISA leaves them open, within its bound.
    Within,
    /// Other NaNs.
    Nans,
    /// A defect of an assembler is known here: one of the two is wrong because of it.
    Known(String),
    /// The compiler was stopped by its limits.
    Stopped(String),
    /// Not compiled, not run, or other results.
    Failed(String),
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Its name.
    pub name: String,
    /// Why it could not be run as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it gave, as it is, what was recorded; `None` when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_recorded: Option<bool>,
    /// Each variant, and how it came out.
    pub variants: Vec<(String, Outcome)>,
    /// A kernel left the device unusable: nothing more can be run in this process.
    #[serde(default)]
    pub lost: bool,
}

/// Runs a case as it is and with each variant of its code.
pub fn try_case(
    device: &mut dyn Device,
    case: &Case,
    variants: &[Variant],
    recorded: Option<&Entry>,
    compile: &dyn Fn(&Recipe) -> Result<Product, Failure>,
) -> Tried {
    let mut tried = Tried {
        name: case.name.clone(),
        error: None,
        as_recorded: None,
        variants: Vec::new(),
        lost: false,
    };
    let own = match run(device, case) {
        Ok(own) => own,
        Err(error) => {
            tried.error = Some(error.to_string());
            tried.lost = true;
            return tried;
        }
    };
    tried.as_recorded = recorded.map(|entry| {
        // What assemblers are known to do wrong, a GPU does as it was recorded.
        let verdict = match device.runs_machine_code() {
            true => compare::differences(case, &Ok(own.clone()), entry),
            false => compare::compare(case, &Ok(own.clone()), entry),
        };
        verdict.failure.is_none()
    });
    let results = own.iter().map(|bytes| Recorded::whole(bytes));
    let truth = Entry {
        name: case.name.clone(),
        case: identity(case),
        results: results.collect(),
        error: None,
    };
    for variant in variants {
        let outcome = match compile(&recipe(case, variant)) {
            Err(failure) => match failure.kind {
                FailureKind::Timeout | FailureKind::Memory => Outcome::Stopped(failure.to_string()),
                _ => Outcome::Failed(failure.to_string()),
            },
            Ok(product) => {
                let other = Case {
                    ptx: product.ptx,
                    ..case.clone()
                };
                match run(device, &other) {
                    Ok(results) => judge(case, &own, results, &truth),
                    Err(error) => {
                        // On a GPU, whatever it was may have left the context unusable.
                        tried.lost = device.runs_machine_code();
                        Outcome::Failed(error.to_string())
                    }
                }
            }
        };
        tried.variants.push((variant.name.clone(), outcome));
        if tried.lost {
            break;
        }
    }
    tried
}

fn judge(case: &Case, own: &[Vec<u8>], other: Vec<Vec<u8>>, truth: &Entry) -> Outcome {
    if own == other.as_slice() {
        return Outcome::Same;
    }
    if only_nans(case, own, &other) {
        return Outcome::Nans;
    }
    let verdict = compare::differences(case, &Ok(other), truth);
    match (verdict.failure, known::defect(&case.name)) {
        (None, _) => Outcome::Within,
        (Some(_), Some(why)) => Outcome::Known(why.to_owned()),
        (Some(failure), None) => Outcome::Failed(failure),
    }
}

/// Whether floating-point results differ in the bits of NaNs alone. PTX does not say which NaN `neg` and `abs` give, and an
/// assembler chooses by what stands around them.
fn only_nans(case: &Case, own: &[Vec<u8>], other: &[Vec<u8>]) -> bool {
    let results = case
        .buffers
        .iter()
        .filter_map(|buffer| buffer.result.as_ref());
    results
        .zip(own.iter().zip(other))
        .all(|(result, (own, other))| {
            let bytes = result.element.bytes();
            own.chunks(bytes)
                .zip(other.chunks(bytes))
                .filter(|(own, other)| own != other)
                .all(|(own, other)| {
                    let pairs = result.element.values(own).into_iter();
                    let pairs: Vec<_> = pairs.zip(result.element.values(other)).collect();
                    let same = |(a, b): &(f64, f64)| {
                        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                    };
                    !pairs.is_empty() && pairs.iter().all(same)
                })
        })
}

/// A random program without the instructions whose NaNs PTX leaves open: what follows works on their bits. `neg` becomes a
/// subtraction, which gives the one NaN that PTX names.
pub fn without_open_nans(case: &Case) -> Option<Case> {
    let zero = |ty: &str| match ty {
        "f64" => "0d8000000000000000",
        _ => "0f80000000",
    };
    let line = |line: &str| {
        let at = line.find("neg.")?;
        let (guard, rest) = line.split_at(at);
        let (mnemonic, operands) = rest.split_once(' ')?;
        let modifiers = mnemonic.strip_prefix("neg.")?;
        let ty = modifiers.rsplit('.').next()?;
        let (to, from) = operands.split_once(", ")?;
        matches!(ty, "f32" | "f64")
            .then(|| format!("{guard}sub.rn.{modifiers} {to}, {}, {from}", zero(ty)))
    };
    let mut changed = false;
    let text: String = case
        .ptx
        .lines()
        .map(|old| {
            let new = line(old);
            changed |= new.is_some();
            new.unwrap_or_else(|| old.to_owned()) + "\n"
        })
        .collect();
    changed.then(|| Case {
        ptx: text,
        ..case.clone()
    })
}

/// The command that shows a difference again.
pub fn reproducer(case: &str, variant: &str, device: &str) -> String {
    let programs = match case.split_once('/') {
        Some(("random", seed)) => format!(" --random {seed}"),
        Some(("small", seed)) => format!(" --random 0 --small {seed}"),
        _ => String::new(),
    };
    format!(
        "r3-ptx-differential lifted --device {device} --only '{case}'{programs} --pipeline '{variant}' --show"
    )
}
