//! T4, the results format that auto-tuners share: version 1.0.0 of its schema.
//!
//! An entry is an evaluation of the search that has an outcome. What the schema asks for is said as it is:
//!
//! - `invalidity` is `timeout`, `compile`, `runtime`, `correctness`, `constraints` or `correct`: see [`invalidity`].
//! - `correctness` is 1 where every recorded byte was compared and is right, and 0 where it was not, or could not be.
//! - `times.compilation_time` is what compiling took in this run, 0 when the code was there already; `times.runtimes` are all timed
//!   runs of the candidate on launches that count. Times are in milliseconds. On a device that counts there are none; the count
//!   is among the measurements.
//! - Candidates that the machine could not judge are left out: they say nothing of their configuration.

use std::collections::BTreeSet;

use r3_codegen::recipe::{FailureKind, Stage};
use r3_replay::evaluate::outcome::{Role, Unit};
use r3_replay::evaluate::{Outcome, Verdict};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::space::{Space, Value};
use crate::store::{Phase, Reason, Store, StoreError, key};

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct T4 {
    /// Version of the schema.
    pub schema_version: &'static str,
    /// What the whole file has in common.
    pub metadata: Json,
    /// Evaluations.
    pub results: Vec<Entry>,
}

/// An evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// When the outcome came, as RFC 3339 has it.
    pub timestamp: String,
    /// Every parameter of the space; those that mean nothing for this point have the original's value.
    pub configuration: Map<String, Json>,
    /// What is to be small.
    pub objectives: Vec<&'static str>,
    /// Where time went.
    pub times: Times,
    /// What kind of failure, or `correct`.
    pub invalidity: &'static str,
    /// 1 or 0.
    pub correctness: f64,
    /// What was measured.
    pub measurements: Vec<Measurement>,
}

/// Where time went, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Compiling.
    pub compilation_time: f64,
    /// Timed runs of the candidate.
    pub runtimes: Vec<f64>,
    /// Waiting for compilers and devices.
    pub framework: f64,
    /// Proposing: not measured apart, and small.
    pub search_algorithm: f64,
    /// In the device's worker, without kernels: restoring and comparing.
    pub validation: f64,
}

/// A number with its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// What.
    pub name: &'static str,
    /// How much.
    pub value: f64,
    /// In what; empty for ratios.
    pub unit: &'static str,
}

/// A run as T4.
pub fn t4(store: &Store, space: &Space) -> Result<T4, StoreError> {
    let settings: crate::tune::Settings = store.need(key::SETTINGS)?;
    let environment: crate::tune::Environment = store.need(key::ENVIRONMENT)?;
    let mut results = Vec::new();
    let rows = store.evaluations(Some(Phase::Search))?;
    // Variants of a source have parameters that the space of the kernel does not have: all entries have all of them.
    let more: BTreeSet<String> = rows
        .iter()
        .filter_map(|row| row.point.as_ref())
        .flat_map(|point| point.0.keys())
        .filter(|name| space.parameter(name).is_none())
        .cloned()
        .collect();
    let variants = rows.iter().any(|row| row.variant.is_some());
    for mut row in rows {
        if row.reason != Reason::Proposed || row.same_as.is_some() {
            continue;
        }
        let Some(mut outcome) = row.outcome.take() else {
            continue;
        };
        let Some(invalidity) = invalidity(&outcome) else {
            continue;
        };
        store.with_samples(row.number, &mut outcome)?;
        let mut configuration = Map::new();
        for parameter in &space.parameters {
            let of_point = row
                .point
                .as_ref()
                .and_then(|point| point.get(&parameter.name));
            let value = of_point
                .cloned()
                .unwrap_or_else(|| parameter.domain.default_value());
            configuration.insert(parameter.name.clone(), scalar(&value));
        }
        for name in &more {
            let of_point = row.point.as_ref().and_then(|point| point.get(name));
            let value = of_point.map_or_else(|| json!("as given"), scalar);
            configuration.insert(name.clone(), value);
        }
        if variants {
            let number = row.variant.map_or(0, |variant| variant.0);
            configuration.insert("variant".to_owned(), json!(number));
        }
        results.push(Entry {
            timestamp: timestamp(row.done_at.unwrap_or(row.asked_at)),
            configuration,
            objectives: vec!["ratio"],
            times: times(&outcome),
            invalidity,
            correctness: if outcome.verdict.is_right() { 1.0 } else { 0.0 },
            measurements: measurements(&outcome),
        });
    }
    Ok(T4 {
        schema_version: "1.0.0",
        metadata: json!({
            "timeunit": "milliseconds",
            "tool": format!("r3-evolve {}", environment.r3),
            "kernel": environment.kernel,
            "device": environment.device.name,
            "strategy": if variants { "evolve" } else { settings.strategy.word() },
            "seed": settings.seed,
        }),
        results,
    })
}

/// What T4 calls a verdict. `None` for those that say nothing of a candidate.
fn invalidity(outcome: &Outcome) -> Option<&'static str> {
    Some(match outcome.verdict {
        Verdict::Right => "correct",
        Verdict::Wrong | Verdict::Cheat | Verdict::Implausible => "correctness",
        Verdict::NoCode => match &outcome.failure {
            Some(failure) if failure.kind == FailureKind::Timeout => "timeout",
            // Asked for something that is not there, as a constant that differs from launch to launch.
            Some(failure) if failure.stage == Stage::Specialise => "constraints",
            _ => "compile",
        },
        Verdict::Refused | Verdict::Guarded => "constraints",
        Verdict::Timeout => "timeout",
        Verdict::Fault => "runtime",
        Verdict::Cancelled | Verdict::CannotRun | Verdict::Unjudged => return None,
    })
}

/// A value that is no list: tools take configurations of scalars.
fn scalar(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(text),
        Value::Number(number) => json!(number),
        Value::List(list) => json!(list.join(",")),
    }
}

fn times(outcome: &Outcome) -> Times {
    let cost = &outcome.cost;
    let counted = outcome
        .launches
        .iter()
        .filter(|launch| launch.role == Role::Tuned)
        .flat_map(|launch| &launch.times)
        .filter(|timing| timing.unit == Unit::Nanoseconds);
    Times {
        compilation_time: cost.compile,
        runtimes: counted
            .flat_map(|timing| &timing.samples)
            .map(|sample| sample.candidate / 1e6)
            .collect(),
        framework: cost.queued + cost.waiting,
        search_algorithm: 0.0,
        validation: (cost.device - cost.kernels).max(0.0),
    }
}

fn measurements(outcome: &Outcome) -> Vec<Measurement> {
    let mut all = Vec::new();
    if let Some(score) = &outcome.score {
        let ratio = [
            ("ratio", score.ratio.median),
            ("ratio_low", score.ratio.low),
            ("ratio_high", score.ratio.high),
        ];
        all.extend(ratio.map(|(name, value)| Measurement {
            name,
            value,
            unit: "",
        }));
    }
    let tuned = outcome
        .launches
        .iter()
        .filter(|launch| launch.role == Role::Tuned);
    for timing in tuned.flat_map(|launch| &launch.times) {
        let (name, value, unit) = match timing.unit {
            Unit::Nanoseconds => ("time", timing.candidate / 1e6, "ms"),
            Unit::Cost => ("cost", timing.candidate, "weighted warp instructions"),
        };
        all.push(Measurement { name, value, unit });
    }
    if let Some(used) = outcome
        .code
        .as_ref()
        .and_then(|code| code.resources.as_ref())
    {
        all.push(Measurement {
            name: "registers",
            value: f64::from(used.registers),
            unit: "",
        });
    }
    all
}

/// Seconds since the Unix epoch as RFC 3339 has them, in UTC.
fn timestamp(unix: f64) -> String {
    let seconds = unix.max(0.0) as u64;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // The civil date of a day number, in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let millis = ((unix.max(0.0) - seconds as f64) * 1e3) as u64;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        assert_eq!(timestamp(0.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_399.5), "2000-02-28T23:59:59.500Z");
        assert_eq!(timestamp(951_868_800.0), "2000-03-01T00:00:00.000Z");
        assert_eq!(timestamp(1_709_164_800.0), "2024-02-29T00:00:00.000Z");
        assert_eq!(timestamp(4_102_444_799.0), "2099-12-31T23:59:59.000Z");
    }
}
