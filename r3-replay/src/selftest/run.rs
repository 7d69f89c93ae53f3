//! All cases through an evaluator.

use std::collections::HashMap;
use std::path::Path;

use r3_codegen::recipe::{FailureKind, Stage};
use serde::Serialize;

use super::archive;
use super::corpus::{Case, Kind, TARGETS, TOLERANCES, Where, cases};
use crate::compare::{ToleranceError, Tolerances};
use crate::evaluate::evaluator::{
    Evaluator, EvaluatorError, JobId, JobState, Priority, Request, SubmitError,
};
use crate::evaluate::outcome::{Outcome, Verdict};
use crate::evaluate::plan::{Plan, Weighted};
use crate::evaluate::rules::Allowed;

/// What came of a case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// The kernel that it stands for.
    pub kernel: &'static str,
    /// Row of the table in docs/integrity.md, for an exploit.
    pub row: Option<u8>,
    /// The verdict on it.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
    /// Whether that is as it must be.
    pub ok: bool,
}

/// Exploits and how many were caught.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Exploits {
    /// How many were tried.
    pub count: usize,
    /// How many were caught.
    pub caught: usize,
}

/// Harmless rewrites and how many passed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Harmless {
    /// How many were tried.
    pub count: usize,
    /// How many passed.
    pub passed: usize,
}

/// What came of all cases.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The device.
    pub device: String,
    /// Exploits.
    pub exploits: Exploits,
    /// Harmless rewrites.
    pub harmless: Harmless,
    /// Cases that show nothing on this kind of device.
    pub left_out: Vec<&'static str>,
    /// Cases for which no compiler of CUDA C++ is here.
    pub not_compiled: Vec<&'static str>,
    /// Every case.
    pub cases: Vec<CaseReport>,
}

impl Report {
    /// Whether every exploit was caught and no harmless rewrite was refused.
    pub fn ok(&self) -> bool {
        !self.cases.is_empty() && self.cases.iter().all(|case| case.ok)
    }
}

/// Why the self-test could not run.
#[derive(Debug, thiserror::Error)]
pub enum SelftestError {
    /// The archive cannot be made.
    #[error("the archive of the self-test cannot be written: {0}")]
    Archive(#[from] r3_archive::WriteError),
    /// The evaluator refused.
    #[error(transparent)]
    Evaluator(#[from] EvaluatorError),
    /// A candidate was not taken.
    #[error("{case}: {source}")]
    Submit {
        /// Its name.
        case: &'static str,
        /// Why.
        source: SubmitError,
    },
    /// The tolerances cannot be used.
    #[error(transparent)]
    Tolerances(#[from] ToleranceError),
    /// The evaluator ended before all cases were done.
    #[error("the evaluator ended after {done} of {all} cases")]
    Ended {
        /// Cases that were done.
        done: usize,
        /// Cases.
        all: usize,
    },
}

/// The tolerances that the evaluator must have.
///
/// # Errors
/// When they do not read: a mistake of this program.
pub fn tolerances() -> Result<Tolerances, SelftestError> {
    Ok(Tolerances::parse(TOLERANCES, Path::new("tolerances.toml"))?)
}

/// Writes the archive of the self-test.
///
/// # Errors
/// When the file cannot be written.
pub fn write_archive(path: &Path) -> Result<(), SelftestError> {
    Ok(archive::write(path, TARGETS, (9, 0))?)
}

/// Runs all cases that show something on the evaluator's device, on an archive of [`write_archive`]. `told` hears of each
/// as it is done.
///
/// # Errors
/// When the evaluator does not work at all.
pub fn run(
    evaluator: &Evaluator,
    path: &Path,
    told: &mut dyn FnMut(&CaseReport),
) -> Result<Report, SelftestError> {
    let archive = evaluator.open(path)?;
    let counts = evaluator.device().counts;
    let mut report = Report {
        device: evaluator.device().name.clone(),
        ..Report::default()
    };
    let events = evaluator.events(0);
    let mut waiting: HashMap<JobId, Case> = HashMap::new();
    for (at, case) in cases().into_iter().enumerate() {
        if case.place == Where::Gpu && counts {
            report.left_out.push(case.name);
            continue;
        }
        let request = Request {
            archive,
            kernel: case.target.to_owned(),
            candidate: case.candidate.clone(),
            plan: plan(&case),
            // One after the other, as they are written.
            priority: Priority(-i32::try_from(at).unwrap_or(i32::MAX)),
        };
        let job = evaluator
            .submit(request)
            .map_err(|source| SelftestError::Submit {
                case: case.name,
                source,
            })?;
        waiting.insert(job, case);
    }
    let all = waiting.len();
    for event in events {
        let JobState::Done(outcome) = event.state else {
            continue;
        };
        let Some(case) = waiting.remove(&event.job) else {
            continue;
        };
        if is_missing_compiler(&outcome) {
            report.not_compiled.push(case.name);
        } else {
            let found = judged(&case, &outcome);
            told(&found);
            report.add(found);
        }
        if waiting.is_empty() {
            break;
        }
    }
    if !waiting.is_empty() {
        return Err(SelftestError::Ended {
            done: all - waiting.len(),
            all,
        });
    }
    Ok(report)
}

/// Every safeguard of a search: launches that are held out, perturbed inputs, verification around timed runs.
fn plan(case: &Case) -> Plan {
    let (tuned, held_out) = archive::launches(case.target).unzip();
    let by_results = matches!(case.kind, Kind::Exploit { rule: None, .. });
    Plan {
        launches: tuned
            .unwrap_or_default()
            .into_iter()
            .map(|launch| Weighted {
                launch,
                weight: 1.0,
            })
            .collect(),
        held_out: held_out.into_iter().collect(),
        perturbed: 2,
        screen: 0,
        least_pairs: 4,
        most_pairs: 4,
        allowed: match by_results {
            true => Allowed::everything(),
            false => Allowed::default(),
        },
        ..Plan::default()
    }
}

/// Source, and nothing that compiles it.
fn is_missing_compiler(outcome: &Outcome) -> bool {
    outcome.failure.as_ref().is_some_and(|failure| {
        failure.kind == FailureKind::MissingTool && failure.stage == Stage::Source
    })
}

fn judged(case: &Case, outcome: &Outcome) -> CaseReport {
    let (row, ok) = match case.kind {
        Kind::Exploit {
            row,
            verdicts,
            rule,
        } => {
            let said = outcome.reason.as_deref().unwrap_or_default();
            let named =
                rule.is_none_or(|rule| said.starts_with(&format!("rule `{}`", rule.words().name)));
            (Some(row), named && verdicts.contains(&outcome.verdict))
        }
        Kind::Harmless => (None, outcome.verdict.is_right()),
    };
    let failure = outcome.failure.as_ref();
    CaseReport {
        name: case.name,
        what: case.what,
        kernel: case.target,
        row,
        verdict: outcome.verdict,
        reason: outcome
            .reason
            .clone()
            .or_else(|| failure.map(ToString::to_string)),
        ok,
    }
}

impl Report {
    fn add(&mut self, case: CaseReport) {
        if case.row.is_some() {
            self.exploits.count += 1;
            self.exploits.caught += usize::from(case.ok);
        } else {
            self.harmless.count += 1;
            self.harmless.passed += usize::from(case.ok);
        }
        self.cases.push(case);
    }
}
