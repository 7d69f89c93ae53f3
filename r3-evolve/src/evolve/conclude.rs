//! From a population to what is claimed.

use super::population::Population;
use super::progress::Observe;
use super::search::Found;
use super::workshop::Workshop;
use super::{EvolveError, search};
use crate::inner::story::Stories;
use crate::store::{Phase, Store};
use crate::tune::clock::Clock;
use crate::tune::jobs::Jobs;
use crate::tune::{Conclude, Standing, Standings, Summary};
use r3_replay::evaluate::Candidate;

/// Measures the best ones at length, says what mattered, and writes the result.
pub(super) fn conclude(
    store: &mut Store,
    shop: &Workshop<'_>,
    found: Found,
    clock: &dyn Clock,
    round: i64,
    jobs: &mut Jobs<'_>,
    watch: &mut dyn Observe,
) -> Result<Summary, EvolveError> {
    let population = &found.population;
    let standings = standings(store, population)?;
    let program = &population.program;
    // As it is: what was found for its knobs is part of what the search found.
    let given = Some(program.candidate(&program.original()));
    let options = shop.options();
    let configure = |store: &Store, standing: &Standing| {
        Stories {
            program,
            kernel: &shop.ground.kernel,
            options: &options,
        }
        .configured(store, standing)
    };
    let summary = Conclude {
        store,
        settings: shop.base,
        ground: shop.ground,
        clock,
        round,
        end: found.end,
        strategy: "evolve",
        standings: &standings,
        original: Candidate::default(),
        given,
        configure: &configure,
    }
    .run(jobs, watch)?;
    Ok(summary)
}

/// Everything that was evaluated, of variants that nothing speaks against, in the order in which it was told.
fn standings(store: &Store, population: &Population) -> Result<Standings, EvolveError> {
    let mut standings = Standings::default();
    let places: std::collections::HashMap<i64, i64> = store
        .slots()?
        .into_iter()
        .filter_map(|row| Some((row.slot, row.told?)))
        .collect();
    let mut rows = store.evaluations(Some(Phase::Search))?;
    rows.retain(|row| row.of.is_some_and(|of| places.contains_key(&of.slot)));
    rows.sort_by_key(|row| {
        let of = row.of;
        of.map(|of| (places.get(&of.slot).copied(), of.step))
    });
    for row in &rows {
        let refused = row.variant.is_some_and(|number| {
            population
                .get(number)
                .is_some_and(|known| known.speaks_against(row.candidate_number))
        });
        let Some(outcome) = row.outcome.as_ref().filter(|outcome| {
            search::outcome_says(outcome) && !(refused && outcome.verdict.is_right())
        }) else {
            continue;
        };
        // A check is not timed, and says of no time that it is not there.
        if row.reason != crate::store::Reason::Check {
            standings.take(row, outcome, false);
        }
    }
    Ok(standings)
}
