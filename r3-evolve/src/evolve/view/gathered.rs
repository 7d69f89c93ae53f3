//! What of a store is shown, put together.

use std::collections::HashMap;

use r3_replay::evaluate::{Outcome, Verdict};

use super::{Better, Checked, EvaluationView, Integrity, IslandView, RequestView, VariantView};
use crate::elites::{Described, GridView};
use crate::evolve::population::{Known, News, Population};
use crate::evolve::slot::Ended;
use crate::evolve::variant::{IslandNumber, VariantNumber};
use crate::evolve::workshop::Workshop;
use crate::prompt;
use crate::store::{
    CandidateNumber, Evaluation, Reason, RequestRow, SlotRow, Store, StoreError, VariantRow,
};
use crate::tune::Standing;

/// What a store has, by slot.
pub(super) struct Rows {
    pub slots: Vec<SlotRow>,
    pub variants: HashMap<i64, Vec<VariantRow>>,
    pub requests: HashMap<i64, Vec<RequestRow>>,
    pub evaluations: HashMap<i64, Vec<Evaluation>>,
    /// Those that no slot asked for: finals and what comes after them.
    pub other: Vec<Evaluation>,
}

impl Rows {
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        let mut rows = Self {
            slots: store.slots()?,
            variants: HashMap::new(),
            requests: HashMap::new(),
            evaluations: HashMap::new(),
            other: Vec::new(),
        };
        for row in store.variants()? {
            rows.variants.entry(row.slot).or_default().push(row);
        }
        for row in store.requests()? {
            rows.requests.entry(row.slot).or_default().push(row);
        }
        let mut evaluations = store.evaluations(None)?;
        evaluations.sort_by_key(|row| (row.of, row.number));
        for row in evaluations {
            match row.of {
                Some(of) => rows.evaluations.entry(of.slot).or_default().push(row),
                None => rows.other.push(row),
            }
        }
        Ok(rows)
    }
}

/// Tells a population what the store says that it was told. How its best became better.
pub(super) fn tell_again(population: &mut Population, rows: &Rows, began_at: f64) -> Vec<Better> {
    let mut told: Vec<&SlotRow> = rows.slots.iter().filter(|row| row.told.is_some()).collect();
    told.sort_by_key(|row| row.told);
    for row in &rows.slots {
        population.opened(&row.opening, row.island);
    }
    let mut timeline: Vec<Better> = Vec::new();
    for row in told {
        let Some(closing) = &row.closing else {
            continue;
        };
        let variants = rows.variants.get(&row.slot).map_or(&[][..], Vec::as_slice);
        let steps = rows
            .evaluations
            .get(&row.slot)
            .map_or(&[][..], Vec::as_slice);
        let answers: Vec<_> = rows
            .requests
            .get(&row.slot)
            .into_iter()
            .flatten()
            .map(|request| (request.model.clone(), request.answer.clone()))
            .collect();
        let ended = match &closing.ended {
            Ended::Duplicate(_) if !variants.is_empty() => Ended::Evaluated,
            ended => ended.clone(),
        };
        population.tell(&News {
            place: row.told.unwrap_or(0),
            island: row.island,
            opening: &row.opening,
            ended,
            variants,
            steps,
            start: &[],
            answers: &answers,
        });
        population.migrate(closing.migrations);
        let best = population.best();
        if let Some((known, best)) = best.and_then(|known| Some((known, known.checked.as_ref()?)))
            && timeline
                .last()
                .is_none_or(|last| best.ratio.median < last.ratio.median)
        {
            timeline.push(Better {
                seconds: row.told_at.map_or(0.0, |at| (at - began_at).max(0.0)),
                evaluations: population.counts.evaluations,
                variants: population.counts.variants,
                variant: known.row.number,
                ratio: best.ratio,
            });
        }
    }
    timeline
}

pub(super) fn request_view(request: &RequestRow, island: IslandNumber) -> RequestView {
    let reply = request.answer.as_ref().map(|answered| &answered.reply);
    RequestView {
        slot: request.slot,
        turn: request.turn,
        island,
        model: request.model.clone(),
        bytes: prompt::bytes(&request.messages) as u64,
        shared: request.shared,
        asked_at: request.asked_at,
        done_at: request.done_at,
        spent: request.answer.as_ref().map(|answered| answered.spent),
        finish: reply.and_then(|reply| Some(reply.as_ref().ok()?.finish)),
        failure: reply.and_then(|reply| Some(reply.as_ref().err()?.to_string())),
    }
}

pub(super) fn islands(population: &Population) -> Vec<IslandView> {
    let occupancy = population.islands.occupancy();
    population
        .islands
        .iter()
        .zip(occupancy)
        .map(|(island, occupancy)| IslandView {
            occupancy,
            grid: GridView::of(&island.grid),
            operators: island.operators.shares(),
            rewrites: island.rewrites.shares(),
        })
        .collect()
}

/// All variants, those that nobody knows the outcome of too. `claimed`: the candidate that a gain is claimed of, which the finals have
/// checked, whether or not the search came to it.
pub(super) fn variants(
    population: &Population,
    shop: &Workshop<'_>,
    rows: &Rows,
    claimed: Option<CandidateNumber>,
) -> Vec<VariantView> {
    let mut evaluations: HashMap<VariantNumber, Vec<&Evaluation>> = HashMap::new();
    let all = rows.evaluations.values().flatten().chain(&rows.other);
    for row in all {
        if let Some(number) = row.variant {
            evaluations.entry(number).or_default().push(row);
        }
    }
    let checks = checks(&rows.other);
    let mut views: Vec<VariantView> = rows
        .variants
        .values()
        .flatten()
        .map(|row| {
            let known = population.get(row.number);
            let space = shop.space(&crate::evolve::population::of(row)).ok();
            let knobs = |point: Option<&crate::space::Point>| {
                let knobs = space.as_ref().zip(point);
                knobs.map_or_else(Vec::new, |(space, point)| {
                    let knobs = space.knobs(point);
                    knobs
                        .into_iter()
                        .map(|(name, value)| format!("{name}={value}"))
                        .collect()
                })
            };
            let is_best = population
                .best()
                .is_some_and(|best| best.row.number == row.number);
            let best = known.and_then(|known| match &known.checked {
                Some(checked) if is_best => Some(checked),
                _ => known.best.as_ref(),
            });
            let outside = best.and_then(|best| checks.get(&(row.number, best.number)));
            let integrity = known.map_or(Integrity::NotRight, |known| {
                let by_finals = best
                    .map(|best| best.number)
                    .filter(|one| Some(*one) == claimed);
                let by_finals = by_finals.map(|_| Verdict::Right);
                let outside = outside.map(|outcome| outcome.verdict);
                integrity(known, best, outside.or(by_finals))
            });
            let checked_with = known
                .and_then(|known| known.checked.as_ref())
                .filter(|checked| best.is_some_and(|best| best.number != checked.number))
                .map(|checked| Checked {
                    candidate: checked.number.0,
                    knobs: knobs(checked.point.as_ref()),
                    ratio: checked.ratio,
                });
            let cell = known.and_then(|known| {
                let grid = &population.islands.island(known.island).ok()?.grid;
                Some((grid.cell_of(row.number)?, grid.is_elite(row.number)))
            });
            let failed = outside.filter(|_| integrity == Integrity::Refused);
            let mut of: Vec<&Evaluation> = evaluations.remove(&row.number).unwrap_or_default();
            of.sort_by_key(|row| row.number);
            VariantView {
                number: row.number,
                lineage: row.lineage.clone(),
                slot: row.slot,
                turn: row.turn,
                text: row.text.clone(),
                launch: row.launch,
                verdict: failed.map_or(known.map(|known| known.verdict), |one| Some(one.verdict)),
                reason: failed.map_or_else(
                    || known.and_then(|known| known.reason.clone()),
                    |one| one.reason.clone(),
                ),
                ratio: best.map(|best| best.ratio),
                noise: best.map(|best| best.noise),
                knobs: knobs(best.and_then(|best| best.point.as_ref())),
                candidate: best.map(|best| best.number.0),
                outcome: known.and_then(|known| outcome_of(known, best)),
                checked: matches!(integrity, Integrity::Checked | Integrity::Refused),
                integrity,
                checked_with,
                equal: known.and_then(|known| known.equal),
                rung: known.map_or(0, |known| known.rung),
                described: known.map_or_else(Described::default, |known| known.described.clone()),
                cell,
                evaluations: of
                    .into_iter()
                    .map(|row| EvaluationView {
                        number: row.number.0,
                        candidate: row.candidate_number.0,
                        reason: row.reason,
                        phase: row.phase,
                        knobs: knobs(row.point.as_ref()),
                        verdict: row.outcome.as_ref().map(|outcome| outcome.verdict),
                        ratio: row.outcome.as_ref().and_then(|one| Some(one.score?.ratio)),
                        pairs: row.outcome.as_ref().and_then(|one| Some(one.score?.pairs)),
                        why: row.outcome.as_ref().and_then(|one| one.reason.clone()),
                        plan: row.plan.clone(),
                        cost: row
                            .outcome
                            .as_ref()
                            .map_or((0.0, 0.0), |one| (one.cost.compile, one.cost.device)),
                    })
                    .collect(),
                made_at: row.made_at,
            }
        })
        .collect();
    views.sort_by_key(|view| view.number);
    views
}

/// The last outcome of checks that no slot asked for, by variant and configuration: somebody wanted to know.
fn checks(rows: &[Evaluation]) -> HashMap<(VariantNumber, CandidateNumber), &Outcome> {
    rows.iter()
        .filter(|row| row.reason == Reason::Check)
        .filter_map(|row| {
            let outcome = row.outcome.as_ref();
            let outcome = outcome.filter(|outcome| crate::evolve::search::outcome_says(outcome))?;
            Some(((row.variant?, row.candidate_number), outcome))
        })
        .collect()
}

/// How far a variant can be relied on in a configuration. `outside`: what a check or the finals said, which no slot asked for.
fn integrity(known: &Known, of: Option<&Standing>, outside: Option<Verdict>) -> Integrity {
    let number = |one: Option<&Standing>| one.map(|one| one.number);
    match outside {
        _ if known.is_refused() => Integrity::Refused,
        _ if !known.is_right() => Integrity::NotRight,
        Some(Verdict::Right) => Integrity::Checked,
        Some(_) => Integrity::Refused,
        None if known.checked.is_some() && number(of) == number(known.checked.as_ref()) => {
            Integrity::Checked
        }
        None if known.checked.is_some() => Integrity::CheckedOtherwise,
        None => Integrity::Screened,
    }
}

/// The outcome of a configuration.
fn outcome_of(known: &Known, of: Option<&Standing>) -> Option<Outcome> {
    let best = known.best.as_ref().map(|best| best.number);
    match of {
        Some(of) if best != Some(of.number) => known.outcome_of(of.number).cloned(),
        _ => known.outcome.clone(),
    }
}
