//! A whole run as JSON.

use r3_replay::evaluate::candidate::LaunchChange;
use r3_replay::evaluate::{Candidate, Outcome, Plan};
use serde::Serialize;

use crate::evolve::variant::{Lineage, VariantNumber};
use crate::space::Point;
use crate::store::{Happened, Phase, Reason, State, Store, StoreError, key};
use crate::tune::{Choice, Environment, Settings, Summary};

/// A run.
#[derive(Debug, Serialize)]
pub struct Exported {
    /// Version of this form.
    pub format: u32,
    /// What was set.
    pub settings: Settings,
    /// What results depend on.
    pub environment: Environment,
    /// Which launches did what.
    pub launches: Choice,
    /// The space, as TOML.
    pub space: String,
    /// How far it is.
    pub phase: Phase,
    /// Seconds of searching.
    pub seconds: f64,
    /// Variants, in a search over source.
    pub variants: Vec<ExportedVariant>,
    /// Every evaluation, with every sample.
    pub evaluations: Vec<ExportedEvaluation>,
    /// What happened.
    pub events: Vec<Happened>,
    /// What was found, once it is known.
    pub summary: Option<Summary>,
}

/// An evaluation.
#[derive(Debug, Serialize)]
pub struct ExportedEvaluation {
    /// Its number.
    pub evaluation: i64,
    /// Its candidate's number.
    pub candidate_number: i64,
    /// The candidate.
    pub candidate: Candidate,
    /// Its hash.
    pub candidate_id: String,
    /// Where it is in the space.
    pub point: Option<Point>,
    /// The variant that it is of, in a search over source.
    pub variant: Option<VariantNumber>,
    /// What it is part of.
    pub phase: Phase,
    /// How often the search had ended before.
    pub round: i64,
    /// Those of one batch were asked for at once.
    pub batch: i64,
    /// Why.
    pub reason: Reason,
    /// How thoroughly.
    pub plan: Plan,
    /// The evaluation whose outcome it shares.
    pub same_as: Option<i64>,
    /// How far it is.
    pub state: State,
    /// What came of it.
    pub outcome: Option<Outcome>,
    /// Its place in the order in which the strategy was told.
    pub told: Option<i64>,
    /// When it was asked for, in seconds since the Unix epoch.
    pub asked_at: f64,
    /// When the outcome came.
    pub done_at: Option<f64>,
}

/// A variant of a source.
#[derive(Debug, Serialize)]
pub struct ExportedVariant {
    /// Its number.
    pub variant: VariantNumber,
    /// Text of the whole file.
    pub text: String,
    /// How it wants to be launched.
    pub launch: LaunchChange,
    /// Where it comes from.
    pub lineage: Lineage,
}

/// A whole run.
pub fn json(store: &Store) -> Result<Exported, StoreError> {
    let mut evaluations = Vec::new();
    for mut row in store.evaluations(None)? {
        if let Some(outcome) = &mut row.outcome {
            store.with_samples(row.number, outcome)?;
        }
        evaluations.push(ExportedEvaluation {
            evaluation: row.number.0,
            candidate_number: row.candidate_number.0,
            candidate_id: row.candidate.id().to_string(),
            candidate: row.candidate,
            point: row.point,
            variant: row.variant,
            phase: row.phase,
            round: row.round,
            batch: row.batch,
            reason: row.reason,
            plan: row.plan,
            same_as: row.same_as.map(|other| other.0),
            state: row.state,
            outcome: row.outcome,
            told: row.told,
            asked_at: row.asked_at,
            done_at: row.done_at,
        });
    }
    Ok(Exported {
        format: 1,
        settings: store.need(key::SETTINGS)?,
        environment: store.need(key::ENVIRONMENT)?,
        launches: store.need(key::LAUNCHES)?,
        space: store.text(key::SPACE)?.unwrap_or_default(),
        phase: store.get(key::PHASE)?.unwrap_or(Phase::Search),
        seconds: store.get(key::ELAPSED)?.unwrap_or(0.0),
        variants: store
            .variants()?
            .into_iter()
            .map(|row| ExportedVariant {
                variant: row.number,
                text: row.text,
                launch: row.launch,
                lineage: row.lineage,
            })
            .collect(),
        evaluations,
        events: store.events()?,
        summary: store.get(key::SUMMARY)?,
    })
}
