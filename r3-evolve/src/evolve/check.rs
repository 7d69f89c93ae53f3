//! A check outside of the search: somebody wants to have a variant that was only screened.
//!
//! It is no slot's, so that a search that goes on does not know of it and stays what it would have been; those who look at the run do.

use r3_replay::evaluate::Outcome;

use super::search::outcome_says;
use crate::store::{Evaluation, NewEvaluation, Phase, Reason, Store, key};
use crate::tune::clock::Clock;
use crate::tune::evaluate::Evaluate;
use crate::tune::jobs::Jobs;
use crate::tune::progress::Watch;
use crate::tune::{self, Ground, TuneError, check_plan, evaluate_rows};

/// Tries a configuration on every launch, held out or not, and with perturbed inputs, and stores what came of it.
pub fn check(
    store: &mut Store,
    base: &tune::Settings,
    ground: &Ground,
    found: &Evaluation,
    clock: &dyn Clock,
    evaluator: &mut dyn Evaluate,
    watch: &mut dyn Watch,
) -> Result<Outcome, TuneError> {
    let new = NewEvaluation {
        candidate: found.candidate.clone(),
        point: found.point.clone(),
        plan: check_plan(base, &ground.choice),
        reason: Reason::Check,
        parent: None,
    };
    let mut rows = match left(store, found)? {
        Some(row) => vec![row],
        None => {
            let round: i64 = store.get(key::ROUND)?.unwrap_or(0);
            let numbers = store.ask(Phase::Search, round, 0, clock.unix(), &[new])?;
            store.rows(&numbers)?
        }
    };
    let mut jobs = Jobs::new(evaluator, clock, base.fine.retries, base.fine.outage);
    evaluate_rows(store, &mut rows, clock, &mut jobs, watch)?;
    let outcome = rows.pop().and_then(|row| row.outcome);
    match outcome {
        Some(outcome) if outcome_says(&outcome) => Ok(outcome),
        outcome => Err(TuneError::Machine {
            count: 1,
            reason: outcome
                .and_then(|outcome| outcome.reason)
                .unwrap_or_else(|| "no reason was given".into()),
        }),
    }
}

/// The same check, where somebody who asked for it left before it had an outcome: it is not under way for ever.
fn left(store: &Store, found: &Evaluation) -> Result<Option<Evaluation>, TuneError> {
    let Some(variant) = found.variant else {
        return Ok(None);
    };
    let rows = store.evaluations_of(variant)?;
    Ok(rows.into_iter().find(|row| {
        row.reason == Reason::Check
            && row.of.is_none()
            && row.candidate_number == found.candidate_number
            && row.outcome.is_none()
    }))
}
