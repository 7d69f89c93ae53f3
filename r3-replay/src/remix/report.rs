//! What came of it all, as values that are printed, and written as JSON.

use r3_archive::model::LaunchId;
use r3_codegen::recipe::{Failure, Guard, Product, Recipe, Resources};
use serde::{Deserialize, Serialize};

use super::compiler::Compiled;
use super::facts;
use super::pairs::Pairs;
use super::trial::{Run, Used, Verdict};
use crate::verify::LaunchReport;

/// A kernel and all that was made of it.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// Its name, readable.
    pub kernel: String,
    /// Its name, as the code has it.
    pub name: String,
    /// The code to begin with.
    pub from: String,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was made of it.
    pub candidates: Vec<CandidateReport>,
}

/// One recipe and what it gave.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateReport {
    /// What tells it from the others: `-O3`, `random 7`.
    pub candidate: String,
    /// Its pass pipeline, as text.
    pub passes: String,
    /// Time of each stage, in milliseconds.
    pub stages: Vec<(String, f64)>,
    /// Time from asking to answer, in milliseconds.
    pub wall_milliseconds: f64,
    /// Under which conditions the code may stand for the original.
    pub guards: Vec<GuardReport>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Which assembler made the cubin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembler: Option<String>,
    /// What the kernel's cubin uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What the recorded machine code uses, where there is some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Used>,
    /// Why there is no code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The launches that it was tried on.
    pub launches: Vec<TrialReport>,
}

/// A condition.
#[derive(Clone, Debug, Serialize)]
pub struct GuardReport {
    /// For people.
    pub text: String,
    /// For programs.
    pub guard: Guard,
}

/// A launch with one candidate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialReport {
    /// The kernel's name, as the code has it.
    pub name: String,
    /// The candidate.
    pub candidate: String,
    /// The launch.
    pub launch: LaunchId,
    /// How it came out.
    pub verdict: Verdict,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The original against what was recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub original: Option<Side>,
    /// The other code against what was recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remixed: Option<Side>,
    /// Times of both, in pairs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pairs: Option<Pairs>,
}

/// One code on a launch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Side {
    /// The comparison with what was recorded.
    pub report: LaunchReport,
    /// What it cost, on a device that counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<u64>,
    /// What the loaded code uses, on a device that says it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used: Option<Used>,
}

impl Side {
    /// Of a run.
    pub fn new(run: &Run) -> Self {
        Self {
            report: run.report.clone(),
            cost: run.cost,
            used: run.used,
        }
    }
}

impl TrialReport {
    /// A launch that was not run.
    pub fn without_run(
        name: &str,
        candidate: &str,
        launch: LaunchId,
        verdict: Verdict,
        reason: String,
    ) -> Self {
        Self {
            name: name.to_owned(),
            candidate: candidate.to_owned(),
            launch,
            verdict,
            reason: Some(reason),
            original: None,
            remixed: None,
            pairs: None,
        }
    }

    /// Time, or cost, of the other code as a part of the original's.
    pub fn ratio(&self) -> Option<f64> {
        if let Some(pairs) = &self.pairs {
            return Some(pairs.ratio.median);
        }
        let cost = |side: &Option<Side>| side.as_ref()?.cost.filter(|cost| *cost > 0);
        Some(cost(&self.remixed)? as f64 / cost(&self.original)? as f64)
    }
}

impl CandidateReport {
    /// Of a compilation.
    pub fn new(candidate: &str, kernel: &str, recipe: &Recipe, compiled: &Compiled) -> Self {
        let mut report = Self {
            candidate: candidate.to_owned(),
            passes: r3_codegen::passes::pipeline_text(&recipe.pipeline).unwrap_or_default(),
            stages: Vec::new(),
            wall_milliseconds: compiled.wall.as_secs_f64() * 1e3,
            guards: Vec::new(),
            notes: Vec::new(),
            assembler: None,
            resources: None,
            recorded: None,
            failure: None,
            launches: Vec::new(),
        };
        match &compiled.result {
            Ok(product) => report.add(kernel, product),
            Err(failure) => report.failure = Some(failure.clone()),
        }
        report
    }

    fn add(&mut self, kernel: &str, product: &Product) {
        self.stages = product
            .timings
            .iter()
            .map(|(stage, time)| {
                (
                    format!("{stage:?}").to_lowercase(),
                    time.as_secs_f64() * 1e3,
                )
            })
            .collect();
        self.guards = product
            .guards
            .iter()
            .map(|guard| GuardReport {
                text: facts::spell(guard),
                guard: guard.clone(),
            })
            .collect();
        self.notes.clone_from(&product.notes);
        if let Some(cubin) = &product.cubin {
            self.assembler = Some(cubin.assembler.clone());
            let mut kernels = cubin.kernels.iter();
            self.resources = kernels
                .find(|resources| resources.kernel == kernel)
                .cloned();
        }
    }
}
