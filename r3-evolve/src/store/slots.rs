//! Slots of a search over source, what models were asked in them, and the variants that came of it.

use r3_models::account::Totals;
use r3_models::chat::{Failure, Message, Reply, Spent};
use r3_replay::evaluate::candidate::LaunchChange;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::write::{candidate_number, json};
use super::{EvaluationNumber, NewEvaluation, Phase, State, Store, StoreError, key};
use crate::evolve::slot::{Closing, Opening};
use crate::evolve::variant::{IslandNumber, Lineage, VariantNumber};

/// Which of a slot's evaluations one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfSlot {
    /// The slot.
    pub slot: i64,
    /// Its place in the slot, from 0.
    pub step: i64,
}

/// A slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotRow {
    /// Its number, from 0.
    pub slot: i64,
    /// Whose it is.
    pub island: IslandNumber,
    /// How many slots had been told when it was opened: what it knew.
    pub after: i64,
    /// Whether models could be asked when it was opened.
    pub models: bool,
    /// What is done in it.
    pub opening: Opening,
    /// When it was opened, in seconds since the Unix epoch.
    pub opened_at: f64,
    /// Its place in the order in which slots were told.
    pub told: Option<i64>,
    /// When that was.
    pub told_at: Option<f64>,
    /// What came of it.
    pub closing: Option<Closing>,
}

/// A question to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRow {
    /// The slot.
    pub slot: i64,
    /// The how manieth of the slot, from 0.
    pub turn: i64,
    /// The model, by its name in the settings.
    pub model: String,
    /// What was asked.
    pub messages: Vec<Message>,
    /// Bytes from the beginning that the question before on the same island had, too.
    pub shared: u64,
    /// When it was asked.
    pub asked_at: f64,
    /// When the answer came.
    pub done_at: Option<f64>,
    /// The answer.
    pub answer: Option<Answered>,
}

/// What came of a question to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The reply, or why there will be none.
    pub reply: Result<Reply, Failure>,
    /// What it took, attempts that failed included.
    pub spent: Spent,
}

/// A variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantRow {
    /// Its number.
    pub number: VariantNumber,
    /// The slot in which it came up.
    pub slot: i64,
    /// After which turn of the slot.
    pub turn: i64,
    /// Text of the whole file.
    pub text: String,
    /// Hash of its tokens, hexadecimal.
    pub fingerprint: String,
    /// How it wants to be launched.
    pub launch: LaunchChange,
    /// Where it comes from.
    pub lineage: Lineage,
    /// When it came up.
    pub made_at: f64,
    /// Its vector, where a service makes them; empty when it did not.
    pub embedding: Option<Vec<f32>>,
}

/// A variant that came up, with the evaluations that it begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct NewVariant {
    /// What it is.
    pub row: VariantRow,
    /// Its evaluations, and the step of the first.
    pub evaluations: (i64, Vec<NewEvaluation>),
}

fn parsed<T: DeserializeOwned>(row: &Row<'_>, place: usize) -> rusqlite::Result<T> {
    let text: String = row.get(place)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(
            place,
            rusqlite::types::Type::Text,
            Box::new(error),
        )
    })
}

fn parsed_if_any<T: DeserializeOwned>(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<T>> {
    match row.get_ref(place)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => parsed(row, place).map(Some),
    }
}

impl Store {
    /// A slot is opened, with the variant and the evaluations that it begins with.
    pub fn open_slot(
        &mut self,
        slot: &SlotRow,
        variant: Option<&NewVariant>,
        evaluations: &[NewEvaluation],
        of: Option<VariantNumber>,
        round: i64,
    ) -> Result<Vec<EvaluationNumber>, StoreError> {
        self.all(|all| {
            all.prepare(
                "INSERT INTO slots (slot, island, after, models, opening, opened_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                slot.slot,
                slot.island.0,
                slot.after,
                slot.models,
                json(&slot.opening)?,
                slot.opened_at,
            ])?;
            if let Some(new) = variant {
                return made(all, new, round);
            }
            steps(all, slot.slot, 0, evaluations, of, round, slot.opened_at)
        })
    }

    /// A variant came up in a slot that is open.
    pub fn make_variant(
        &mut self,
        new: &NewVariant,
        round: i64,
    ) -> Result<Vec<EvaluationNumber>, StoreError> {
        self.all(|all| made(all, new, round))
    }

    /// A slot asks for more evaluations, of which the first is its step `first`.
    pub fn ask_more(
        &mut self,
        slot: i64,
        first: i64,
        evaluations: &[NewEvaluation],
        of: Option<VariantNumber>,
        round: i64,
        at: f64,
    ) -> Result<Vec<EvaluationNumber>, StoreError> {
        self.all(|all| steps(all, slot, first, evaluations, of, round, at))
    }

    /// A model is asked.
    pub fn ask_model(&mut self, request: &RequestRow) -> Result<(), StoreError> {
        self.all(|all| {
            all.prepare(
                "INSERT INTO requests (slot, turn, model, messages, shared, asked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                request.slot,
                request.turn,
                request.model,
                json(&request.messages)?,
                request.shared.cast_signed(),
                request.asked_at,
            ])
            .map(drop)
        })
    }

    /// A model answered, or will not.
    pub fn answered(
        &mut self,
        slot: i64,
        turn: i64,
        answer: &Answered,
        at: f64,
    ) -> Result<(), StoreError> {
        self.all(|all| {
            all.prepare(
                "UPDATE requests SET done_at = ?3, answer = ?4 WHERE slot = ?1 AND turn = ?2",
            )?
            .execute(params![slot, turn, at, json(answer)?])
            .map(drop)
        })
    }

    /// A service made the vector of a variant's text, or did not: then it is empty. `totals` is what all vectors took so far.
    pub fn embedded(
        &mut self,
        variant: VariantNumber,
        vector: &[f32],
        totals: &Totals,
    ) -> Result<(), StoreError> {
        self.all(|all| {
            all.prepare("UPDATE variants SET embedding = ?2 WHERE variant = ?1")?
                .execute(params![variant.0, json(&vector)?])?;
            all.prepare(
                "INSERT INTO run VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
            )?
            .execute(params![key::EMBEDDED, json(totals)?])
            .map(drop)
        })
    }

    /// The population was told what came of a slot.
    pub fn told_slot(
        &mut self,
        slot: i64,
        place: i64,
        closing: &Closing,
        elapsed: f64,
        at: f64,
    ) -> Result<(), StoreError> {
        self.all(|all| {
            all.prepare("UPDATE slots SET told = ?2, told_at = ?3, closing = ?4 WHERE slot = ?1")?
                .execute(params![slot, place, at, json(closing)?])?;
            all.prepare(
                "INSERT INTO run VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
            )?
            .execute(params![key::ELAPSED, elapsed.to_string()])
            .map(drop)
        })
    }

    /// All slots, in order.
    pub fn slots(&self) -> Result<Vec<SlotRow>, StoreError> {
        self.list(
            "SELECT slot, island, after, models, opening, opened_at, told, told_at, closing FROM slots ORDER BY slot",
            |row| {
                Ok(SlotRow {
                    slot: row.get(0)?,
                    island: IslandNumber(row.get(1)?),
                    after: row.get(2)?,
                    models: row.get(3)?,
                    opening: parsed(row, 4)?,
                    opened_at: row.get(5)?,
                    told: row.get(6)?,
                    told_at: row.get(7)?,
                    closing: parsed_if_any(row, 8)?,
                })
            },
        )
    }

    /// All questions to models, by slot and turn.
    pub fn requests(&self) -> Result<Vec<RequestRow>, StoreError> {
        self.list(
            "SELECT slot, turn, model, messages, shared, asked_at, done_at, answer FROM requests ORDER BY slot, turn",
            |row| {
                Ok(RequestRow {
                    slot: row.get(0)?,
                    turn: row.get(1)?,
                    model: row.get(2)?,
                    messages: parsed(row, 3)?,
                    shared: row.get::<_, i64>(4)?.cast_unsigned(),
                    asked_at: row.get(5)?,
                    done_at: row.get(6)?,
                    answer: parsed_if_any(row, 7)?,
                })
            },
        )
    }

    /// All variants, by slot and turn.
    pub fn variants(&self) -> Result<Vec<VariantRow>, StoreError> {
        self.list(
            "SELECT variant, slot, turn, text, fingerprint, launch, lineage, made_at, embedding FROM variants ORDER BY slot, turn",
            variant,
        )
    }

    /// A variant.
    pub fn variant(&self, number: VariantNumber) -> Result<Option<VariantRow>, StoreError> {
        if self.version == 1 {
            return Ok(None);
        }
        self.db
            .prepare(
                "SELECT variant, slot, turn, text, fingerprint, launch, lineage, made_at, embedding FROM variants WHERE variant = ?1",
            )
            .and_then(|mut statement| statement.query_row([number.0], variant).optional())
            .map_err(|source| self.database(source))
    }

    /// Rows of a table that runs of version 1 have not.
    fn list<T>(
        &self,
        sql: &str,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        if self.version == 1 {
            return Ok(Vec::new());
        }
        let read = || {
            let mut statement = self.db.prepare(sql)?;
            statement
                .query_map([], row)?
                .collect::<rusqlite::Result<Vec<T>>>()
        };
        read().map_err(|source| match source {
            rusqlite::Error::FromSqlConversionFailure(place, _, why) => self.damaged(format!(
                "a row of the search over source, column {place}: {why}"
            )),
            source => self.database(source),
        })
    }
}

fn variant(row: &Row<'_>) -> rusqlite::Result<VariantRow> {
    Ok(VariantRow {
        number: VariantNumber(row.get(0)?),
        slot: row.get(1)?,
        turn: row.get(2)?,
        text: row.get(3)?,
        fingerprint: row.get(4)?,
        launch: parsed(row, 5)?,
        lineage: parsed(row, 6)?,
        made_at: row.get(7)?,
        embedding: parsed_if_any(row, 8)?,
    })
}

fn made(
    all: &Transaction<'_>,
    new: &NewVariant,
    round: i64,
) -> rusqlite::Result<Vec<EvaluationNumber>> {
    let row = &new.row;
    all.prepare("INSERT INTO variants VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL)")?
        .execute(params![
            row.number.0,
            row.slot,
            row.turn,
            row.text,
            row.fingerprint,
            json(&row.launch)?,
            json(&row.lineage)?,
            row.made_at,
        ])?;
    let (first, evaluations) = &new.evaluations;
    steps(
        all,
        row.slot,
        *first,
        evaluations,
        Some(row.number),
        round,
        row.made_at,
    )
}

/// Evaluations of a slot. Each is measured on its own: which one of two slots would be first depends on time.
fn steps(
    all: &Transaction<'_>,
    slot: i64,
    first: i64,
    evaluations: &[NewEvaluation],
    of: Option<VariantNumber>,
    round: i64,
    at: f64,
) -> rusqlite::Result<Vec<EvaluationNumber>> {
    let mut numbers = Vec::with_capacity(evaluations.len());
    for (step, new) in (first..).zip(evaluations) {
        let candidate = candidate_number(all, new, of)?;
        all.prepare(
            "INSERT INTO evaluations (candidate, phase, round, batch, reason, point, plan, state, asked_at, slot, step) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?4, ?10)",
        )?
        .execute(params![
            candidate,
            Phase::Search.word(),
            round,
            slot,
            new.reason.word(),
            new.point.as_ref().map(json).transpose()?,
            json(&new.plan)?,
            State::Asked.word(),
            at,
            step,
        ])?;
        numbers.push(EvaluationNumber(all.last_insert_rowid()));
    }
    Ok(numbers)
}
