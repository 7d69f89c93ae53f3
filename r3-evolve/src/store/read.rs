//! Reading.

use std::collections::HashMap;

use r3_archive::model::LaunchId;
use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::outcome::{Role, Sample};
use r3_replay::evaluate::plan::Regime;
use r3_replay::evaluate::{Candidate, Outcome};
use rusqlite::{OptionalExtension, Row, params};

use super::{
    CandidateNumber, Evaluation, EvaluationNumber, Happened, OfSlot, Phase, Reason, State, Store,
    StoreError,
};
use crate::evolve::variant::VariantNumber;

/// Samples by launch, role and regime.
type Samples = HashMap<(u64, String, String), Vec<Sample>>;

/// Columns and tables of evaluations, by the version of the tables.
fn select(version: i32) -> String {
    let common = "e.evaluation, e.candidate, c.candidate, e.point, e.phase, e.round, e.batch, e.reason, e.plan, e.same_as, \
                  e.state, e.outcome, e.told, e.asked_at, e.done_at";
    let joined = "FROM evaluations e JOIN candidates c ON c.number = e.candidate";
    if version == 1 {
        format!("SELECT {common}, NULL, NULL, NULL, NULL {joined}")
    } else {
        format!(
            "SELECT {common}, c.variant, e.slot, e.step, v.text {joined} LEFT JOIN variants v ON v.variant = c.variant"
        )
    }
}

/// A row as it is read, before its JSON is.
struct Raw {
    evaluation: i64,
    candidate_number: i64,
    candidate: String,
    point: Option<String>,
    phase: String,
    round: i64,
    batch: i64,
    reason: String,
    plan: String,
    same_as: Option<i64>,
    state: String,
    outcome: Option<String>,
    told: Option<i64>,
    asked_at: f64,
    done_at: Option<f64>,
    variant: Option<i64>,
    slot: Option<i64>,
    step: Option<i64>,
    text: Option<String>,
}

impl Raw {
    fn new(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            evaluation: row.get(0)?,
            candidate_number: row.get(1)?,
            candidate: row.get(2)?,
            point: row.get(3)?,
            phase: row.get(4)?,
            round: row.get(5)?,
            batch: row.get(6)?,
            reason: row.get(7)?,
            plan: row.get(8)?,
            same_as: row.get(9)?,
            state: row.get(10)?,
            outcome: row.get(11)?,
            told: row.get(12)?,
            asked_at: row.get(13)?,
            done_at: row.get(14)?,
            variant: row.get(15)?,
            slot: row.get(16)?,
            step: row.get(17)?,
            text: row.get(18)?,
        })
    }
}

impl Store {
    /// A value of the table `run` as it is.
    pub fn text(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.db
            .prepare("SELECT value FROM run WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(|source| self.database(source))
    }

    /// Evaluations of a phase, in the order in which they were asked for; all phases when none is named.
    pub fn evaluations(&self, phase: Option<Phase>) -> Result<Vec<Evaluation>, StoreError> {
        let sql = format!(
            "{} WHERE ?1 IS NULL OR e.phase = ?1 ORDER BY e.evaluation",
            select(self.version)
        );
        let read = || {
            let mut statement = self.db.prepare(&sql)?;
            let rows = statement.query_map([phase.map(Phase::word)], Raw::new)?;
            rows.collect::<rusqlite::Result<Vec<Raw>>>()
        };
        let rows = read().map_err(|source| self.database(source))?;
        rows.into_iter()
            .map(|raw| self.evaluation_of(raw))
            .collect()
    }

    /// Evaluations of a variant in the search, in the order in which they were asked for.
    pub fn evaluations_of(&self, variant: VariantNumber) -> Result<Vec<Evaluation>, StoreError> {
        if self.version == 1 {
            return Ok(Vec::new());
        }
        let sql = format!(
            "{} WHERE c.variant = ?1 AND e.phase = ?2 ORDER BY e.evaluation",
            select(self.version)
        );
        let read = || {
            let mut statement = self.db.prepare(&sql)?;
            let rows = statement.query_map(params![variant.0, Phase::Search.word()], Raw::new)?;
            rows.collect::<rusqlite::Result<Vec<Raw>>>()
        };
        let rows = read().map_err(|source| self.database(source))?;
        rows.into_iter()
            .map(|raw| self.evaluation_of(raw))
            .collect()
    }

    /// Some evaluations, in this order.
    pub fn rows(&self, numbers: &[EvaluationNumber]) -> Result<Vec<Evaluation>, StoreError> {
        let sql = format!("{} WHERE e.evaluation = ?1", select(self.version));
        let mut rows = Vec::with_capacity(numbers.len());
        for number in numbers {
            let raw = self
                .db
                .prepare(&sql)
                .and_then(|mut statement| statement.query_row([number.0], Raw::new))
                .map_err(|source| self.database(source))?;
            rows.push(self.evaluation_of(raw)?);
        }
        Ok(rows)
    }

    fn evaluation_of(&self, raw: Raw) -> Result<Evaluation, StoreError> {
        let number = raw.evaluation;
        let wrong = |what: &str, why: &dyn std::fmt::Display| {
            self.damaged(format!("evaluation {number}: {what}: {why}"))
        };
        let unknown = |what: &str, word: &str| wrong(what, &format!("`{word}` is unknown"));
        let mut candidate: Candidate =
            serde_json::from_str(&raw.candidate).map_err(|e| wrong("candidate", &e))?;
        // The text of a variant is kept once.
        if let (Some(text), CandidateCode::Source(source)) = (raw.text, &mut candidate.code) {
            source.text = text;
        }
        Ok(Evaluation {
            number: EvaluationNumber(number),
            candidate_number: CandidateNumber(raw.candidate_number),
            candidate,
            point: raw
                .point
                .map(|text| serde_json::from_str(&text))
                .transpose()
                .map_err(|e| wrong("point", &e))?,
            phase: Phase::from_word(&raw.phase).ok_or_else(|| unknown("phase", &raw.phase))?,
            round: raw.round,
            batch: raw.batch,
            reason: Reason::from_word(&raw.reason).ok_or_else(|| unknown("reason", &raw.reason))?,
            plan: serde_json::from_str(&raw.plan).map_err(|e| wrong("plan", &e))?,
            same_as: raw.same_as.map(EvaluationNumber),
            state: State::from_word(&raw.state).ok_or_else(|| unknown("state", &raw.state))?,
            outcome: raw
                .outcome
                .map(|text| serde_json::from_str(&text))
                .transpose()
                .map_err(|e| wrong("outcome", &e))?,
            told: raw.told,
            asked_at: raw.asked_at,
            done_at: raw.done_at,
            variant: raw.variant.map(VariantNumber),
            of: raw
                .slot
                .zip(raw.step)
                .map(|(slot, step)| OfSlot { slot, step }),
        })
    }

    /// Puts the samples of an evaluation into its outcome.
    pub fn with_samples(
        &self,
        evaluation: EvaluationNumber,
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        let mut samples = self.samples(evaluation)?;
        for launch in &mut outcome.launches {
            let role = role_word(launch.role);
            for timing in &mut launch.times {
                let regime = regime_word(timing.regime);
                let key = (launch.launch.0, role.to_owned(), regime.to_owned());
                timing.samples = samples.remove(&key).unwrap_or_default();
            }
        }
        Ok(())
    }

    fn samples(&self, evaluation: EvaluationNumber) -> Result<Samples, StoreError> {
        let read = || {
            let mut statement = self.db.prepare(
                "SELECT launch, role, regime, original, candidate, candidate_first, sm_clock_mhz FROM samples \
                 WHERE evaluation = ?1 ORDER BY launch, role, regime, place",
            )?;
            let rows = statement.query_map(params![evaluation.0], |row| {
                let launch = LaunchId(row.get::<_, i64>(0)?.cast_unsigned());
                let sample = Sample {
                    original: row.get(3)?,
                    candidate: row.get(4)?,
                    candidate_first: row.get(5)?,
                    sm_clock_mhz: row.get(6)?,
                };
                Ok(((launch.0, row.get(1)?, row.get(2)?), sample))
            })?;
            let mut samples = Samples::new();
            for row in rows {
                let (key, sample) = row?;
                samples.entry(key).or_default().push(sample);
            }
            Ok(samples)
        };
        read().map_err(|source| self.database(source))
    }

    /// How many samples there are.
    pub fn count_samples(&self) -> Result<u64, StoreError> {
        self.db
            .query_row("SELECT COUNT(*) FROM samples", [], |row| {
                row.get::<_, i64>(0)
            })
            .map(|count| count.unsigned_abs())
            .map_err(|source| self.database(source))
    }

    /// What happened, oldest first.
    pub fn events(&self) -> Result<Vec<Happened>, StoreError> {
        let read = || {
            let mut statement = self
                .db
                .prepare("SELECT at, kind, text FROM events ORDER BY event")?;
            let rows = statement.query_map([], |row| {
                Ok(Happened {
                    at: row.get(0)?,
                    kind: row.get(1)?,
                    text: row.get(2)?,
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<Happened>>>()
        };
        read().map_err(|source| self.database(source))
    }
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Tuned => "tuned",
        Role::HeldOut => "held_out",
        Role::Perturbed => "perturbed",
    }
}

fn regime_word(regime: Regime) -> &'static str {
    match regime {
        Regime::Warm => "warm",
        Regime::Cold => "cold",
        Regime::Both => "both",
    }
}
