//! What somebody who watches is shown.

use super::population::Population;
use super::progress::{BestSoFar, Dashboard, Load, Observe};
use super::search::{Run, STATUS, Search};
use super::slot::{By, Opening};
use super::variant::VariantNumber;
use crate::store::{Phase, key};
use crate::tune::jobs::Jobs;

impl Search<'_, '_> {
    /// Shows how it is doing.
    pub(super) fn show(&mut self, run: &mut Run, jobs: &mut Jobs<'_>, watch: &mut dyn Observe) {
        let now = self.clock.now();
        let here = (now - run.started).max(1e-9);
        if now - run.looked >= STATUS {
            run.looked = now;
            if let Some(status) = jobs.status() {
                run.load.compilers = status.compilers_busy;
                run.load.devices = status.devices_busy;
                let _ = self
                    .store
                    .put(key::LOAD, &(run.load.compilers, run.load.devices));
            }
            let _ = self.store.put(key::BUSY, &run.load);
        }
        let asking = run.open.values().filter(|work| {
            matches!(&work.row.opening, Opening::Propose(one) if matches!(one.by, By::Model(_)))
        });
        run.load = Load {
            search: (1.0 - run.waited / here).clamp(0.0, 1.0),
            models: self.models.as_ref().map(|models| {
                let most: usize = models
                    .settings
                    .endpoints
                    .iter()
                    .map(|endpoint| endpoint.parallel)
                    .sum();
                models.ask.under_way() as f64 / most.max(1) as f64
            }),
            ..run.load
        };
        let counts = run.population.counts.clone();
        let per_minute = |count: u64, before: u64| {
            60.0 * count.saturating_sub(before) as f64 / (here - run.paused).max(1e-9)
        };
        let limits = &self.shop.settings.limits;
        let budget = &self.shop.base.budget;
        let evaluations_per_minute = per_minute(counts.evaluations, run.before.0);
        let variants_per_minute = per_minute(counts.variants, run.before.1);
        let by_count = |most: Option<u64>, done: u64, rate: f64| {
            let most = most.filter(|_| rate > 0.0)?;
            Some(60.0 * most.saturating_sub(done) as f64 / rate)
        };
        let left = [
            by_count(
                budget.evaluations,
                counts.evaluations,
                evaluations_per_minute,
            ),
            by_count(limits.variants, counts.variants, variants_per_minute),
            budget
                .seconds
                .map(|most| (most - self.elapsed(run, jobs)).max(0.0)),
        ];
        watch.dashboard(&Dashboard {
            phase: Phase::Search,
            open: run.open.len() as u64,
            asking: asking.count() as u64,
            under_way: jobs.len() as u64,
            of_variants: limits.variants,
            of_evaluations: budget.evaluations,
            islands: run
                .population
                .islands
                .iter()
                .map(|island| (island.grid.filled(), island.grid.size()))
                .collect(),
            source: run
                .population
                .original()
                .and_then(|known| Some(known.tried.first()?.1.score?.ratio)),
            best: best(&run.population),
            variants_per_minute,
            evaluations_per_minute,
            left: left.into_iter().flatten().reduce(f64::min),
            load: run.load,
            spent: self.models.as_ref().map(|models| models.ask.totals().all()),
            paused: run.down.clone(),
            counts,
        });
    }
}

fn best(population: &Population) -> Option<BestSoFar> {
    let known = population.best()?;
    Some(BestSoFar {
        variant: known.row.number,
        ratio: known.checked.as_ref()?.ratio,
        what: known.row.lineage.what.clone(),
        steps: steps(population, known.row.number),
    })
}

/// How many changes a variant is away from the source as given.
fn steps(population: &Population, mut number: VariantNumber) -> usize {
    let mut steps = 0;
    while let Some(parent) = population
        .get(number)
        .and_then(|known| known.row.lineage.parents.first().copied())
    {
        // Numbers of parents are smaller.
        if parent >= number {
            break;
        }
        steps += 1;
        number = parent;
    }
    steps
}
