//! Writing: each function is one transaction.

use r3_replay::evaluate::Outcome;
use r3_replay::evaluate::candidate::CandidateCode;
use rusqlite::{OptionalExtension, Transaction, params};

use super::{
    CandidateNumber, EvaluationNumber, NewEvaluation, Phase, Reason, State, Store, StoreError, key,
};
use crate::evolve::variant::VariantNumber;

/// A word of a value that is an enum without fields.
pub(super) fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

impl Store {
    pub(super) fn all<T>(
        &mut self,
        what: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.before_transaction()?;
        let path = self.path.clone();
        let run = || {
            let all = self.db.transaction()?;
            let value = what(&all)?;
            all.commit()?;
            Ok(value)
        };
        run().map_err(|source| StoreError::Database { path, source })
    }

    /// Sets a value of the table `run` as it is.
    pub fn put_text(&self, key: &str, text: &str) -> Result<(), StoreError> {
        self.before_transaction()?;
        self.db
            .prepare("INSERT INTO run VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2")
            .and_then(|mut statement| statement.execute([key, text]))
            .map(drop)
            .map_err(|source| self.database(source))
    }

    /// Asks for evaluations, all or none. One whose candidate and plan an earlier one of the same phase and round has shares
    /// that one's outcome.
    pub fn ask(
        &mut self,
        phase: Phase,
        round: i64,
        batch: i64,
        at: f64,
        new: &[NewEvaluation],
    ) -> Result<Vec<EvaluationNumber>, StoreError> {
        self.all(|all| {
            new.iter()
                .map(|new| one(all, phase, round, batch, at, new))
                .collect()
        })
    }

    /// An evaluation has an outcome.
    pub fn done(
        &mut self,
        evaluation: EvaluationNumber,
        outcome: &Outcome,
        at: f64,
    ) -> Result<(), StoreError> {
        let score = outcome.score.map(|score| score.ratio);
        let mut short = outcome.clone();
        for timing in short
            .launches
            .iter_mut()
            .flat_map(|launch| &mut launch.times)
        {
            timing.samples.clear();
        }
        self.all(|all| {
            all.prepare(
                "UPDATE evaluations SET state = ?2, done_at = ?3, verdict = ?4, ratio = ?5, low = ?6, high = ?7, image = ?8, \
                 outcome = ?9 WHERE evaluation = ?1",
            )?
            .execute(params![
                evaluation.0,
                State::Done.word(),
                at,
                word(&outcome.verdict),
                score.map(|ratio| ratio.median),
                score.map(|ratio| ratio.low),
                score.map(|ratio| ratio.high),
                outcome.code.as_ref().map(|code| &code.image),
                json(&short)?,
            ])?;
            let mut insert = all.prepare(
                "INSERT OR REPLACE INTO samples VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            for launch in &outcome.launches {
                let role = word(&launch.role);
                for timing in &launch.times {
                    let regime = word(&timing.regime);
                    for (place, sample) in timing.samples.iter().enumerate() {
                        insert.execute(params![
                            evaluation.0,
                            launch.launch.0.cast_signed(),
                            role,
                            regime,
                            place as i64,
                            sample.original,
                            sample.candidate,
                            sample.candidate_first,
                            sample.sm_clock_mhz,
                        ])?;
                    }
                }
            }
            Ok(())
        })
    }

    /// The strategy was told of an evaluation, or it is certain that there is nothing to tell.
    pub fn told(
        &mut self,
        evaluation: EvaluationNumber,
        place: i64,
        elapsed: f64,
    ) -> Result<(), StoreError> {
        self.all(|all| {
            all.prepare("UPDATE evaluations SET told = ?2 WHERE evaluation = ?1")?
                .execute(params![evaluation.0, place])?;
            all.prepare(
                "INSERT INTO run VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
            )?
            .execute(params![key::ELAPSED, elapsed.to_string()])
            .map(drop)
        })
    }

    /// Evaluations without an outcome are given up.
    pub fn give_up(&mut self, evaluations: &[EvaluationNumber]) -> Result<(), StoreError> {
        self.all(|all| {
            let mut update =
                all.prepare("UPDATE evaluations SET state = ?2 WHERE evaluation = ?1")?;
            for evaluation in evaluations {
                update.execute(params![evaluation.0, State::Cancelled.word()])?;
            }
            Ok(())
        })
    }

    /// Something happened.
    pub fn event(&self, at: f64, kind: &str, text: &str) -> Result<(), StoreError> {
        self.before_transaction()?;
        self.db
            .prepare("INSERT INTO events (at, kind, text) VALUES (?1, ?2, ?3)")
            .and_then(|mut statement| statement.execute(params![at, kind, text]))
            .map(drop)
            .map_err(|source| self.database(source))
    }
}

fn one(
    all: &Transaction<'_>,
    phase: Phase,
    round: i64,
    batch: i64,
    at: f64,
    new: &NewEvaluation,
) -> rusqlite::Result<EvaluationNumber> {
    let point = new.point.as_ref().map(json).transpose()?;
    let candidate = candidate_number(all, new, None)?;
    if let Some((CandidateNumber(parent), role)) = &new.parent
        && *parent != candidate
    {
        all.prepare("INSERT OR IGNORE INTO parents VALUES (?1, ?2, ?3)")?
            .execute(params![candidate, parent, role])?;
    }
    // What is measured again is measured.
    let shares = matches!(new.reason, Reason::Proposed | Reason::Ablation);
    let same_as: Option<i64> = if !shares {
        None
    } else {
        all.prepare(
            "SELECT MIN(evaluation) FROM evaluations WHERE candidate = ?1 AND phase = ?2 AND round = ?3 AND same_as IS NULL \
             AND reason = ?4",
        )?
        .query_row(
            params![candidate, phase.word(), round, new.reason.word()],
            |row| row.get(0),
        )?
    };
    all.prepare(
        "INSERT INTO evaluations (candidate, phase, round, batch, reason, point, plan, same_as, state, asked_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        candidate,
        phase.word(),
        round,
        batch,
        new.reason.word(),
        point,
        json(&new.plan)?,
        same_as,
        State::Asked.word(),
        at,
    ])?;
    Ok(EvaluationNumber(all.last_insert_rowid()))
}

/// Number of a candidate, a new one if it has none.
pub(super) fn candidate_number(
    all: &Transaction<'_>,
    new: &NewEvaluation,
    variant: Option<VariantNumber>,
) -> rusqlite::Result<i64> {
    let id = new.candidate.id().to_string();
    let known: Option<i64> = all
        .prepare("SELECT number FROM candidates WHERE id = ?1")?
        .query_row([&id], |row| row.get(0))
        .optional()?;
    if let Some(number) = known {
        return Ok(number);
    }
    let point = new.point.as_ref().map(json).transpose()?;
    let mut candidate = new.candidate.clone();
    if let (Some(_), CandidateCode::Source(source)) = (variant, &mut candidate.code) {
        // It is in the table of variants.
        source.text.clear();
    }
    all.prepare("INSERT INTO candidates (id, candidate, point, variant) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            id,
            json(&candidate)?,
            point,
            variant.map(|number| number.0)
        ])?;
    Ok(all.last_insert_rowid())
}
