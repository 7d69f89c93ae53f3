//! The end of a slot: the population is told.

use r3_models::settings::Part;
use r3_replay::evaluate::Verdict;

use super::EvolveError;
use super::progress::Observe;
use super::search::{Run, Search, outcome_says};
use super::slot::{Ended, Opening};
use super::work::{Stage, Work};
use super::working::is_right;
use crate::store::key;
use crate::tune::jobs::Jobs;

/// Slots in a row that the machine could not judge before the search gives up.
const UNJUDGED: u64 = 5;

impl Search<'_, '_> {
    /// Tells the population what came of a slot whose turn it is. False when there is none.
    pub(super) fn tell(
        &mut self,
        run: &mut Run,
        jobs: &Jobs<'_>,
        watch: &mut dyn Observe,
    ) -> Result<bool, EvolveError> {
        let models = self.models.as_ref();
        let vectors = models.is_some_and(|models| {
            let mut all = models.settings.part(Part::Embedding);
            all.next().is_some()
        });
        let next = match run.replay_told.front() {
            // As it was before; it may have to be opened first.
            Some(slot) if run.open.contains_key(slot) => run.replay_told.pop_front(),
            Some(_) => None,
            None if self.shop.counts() => run
                .open
                .first_key_value()
                .filter(|(_, work)| work.is_ready(vectors))
                .map(|(slot, _)| *slot),
            None => run
                .open
                .iter()
                .find(|(_, work)| work.is_ready(vectors))
                .map(|(slot, _)| *slot),
        };
        let Some(slot) = next else {
            return Ok(false);
        };
        self.tell_slot(run, jobs, slot, watch)?;
        Ok(true)
    }

    pub(super) fn tell_slot(
        &mut self,
        run: &mut Run,
        jobs: &Jobs<'_>,
        slot: i64,
        watch: &mut dyn Observe,
    ) -> Result<(), EvolveError> {
        let Some(work) = run.open.get(&slot) else {
            return Ok(());
        };
        if slot > 0 && work.row.told.is_none() && work.is_unjudged() {
            run.unjudged += 1;
            if run.unjudged >= UNJUDGED {
                let reason = work.outcomes().find_map(|outcome| outcome.reason.clone());
                return Err(crate::tune::TuneError::Machine {
                    count: run.unjudged,
                    reason: reason.unwrap_or_else(|| "no reason was given".into()),
                }
                .into());
            }
        } else if work.row.told.is_none() && !work.steps.is_empty() {
            run.unjudged = 0;
        }
        let Some(work) = run.open.remove(&slot) else {
            return Ok(());
        };
        if slot == 0 {
            self.see_given(run, &work)?;
        }
        let place = run.told;
        let mut closing = run.population.tell(&work.news(place));
        run.told += 1;
        match (&work.row.closing, work.row.told) {
            (Some(before), Some(_)) => closing.migrations = before.migrations,
            _ => {
                let slots = run.population.counts.slots;
                let elapsed = self.elapsed(run, jobs);
                closing.migrations = u32::from(run.population.islands.due(slots, elapsed));
                self.store
                    .told_slot(slot, place, &closing, elapsed, self.clock.unix())?;
            }
        }
        for problem in run.population.migrate(closing.migrations) {
            watch.say(&problem);
        }
        Ok(())
    }

    /// The source as given must be right, and the compiler that made it so is kept.
    fn see_given(&mut self, run: &mut Run, work: &Work) -> Result<(), EvolveError> {
        let ways = self.given.ways();
        let right = work.steps.iter().position(is_right);
        let Some(place) = right else {
            let reasons = work.steps.iter().zip(&ways).filter_map(|(step, way)| {
                let outcome = step.outcome.as_ref()?;
                let reason = outcome.reason.as_deref().unwrap_or("no reason was given");
                Some(format!(
                    "{}: {}: {reason}",
                    crate::inner::story::compiler(way.compiler),
                    outcome.verdict.word()
                ))
            });
            let mut reasons: Vec<String> = reasons.collect();
            let cheats = |step: &crate::store::Evaluation| {
                let outcome = step.outcome.as_ref();
                outcome.is_some_and(|outcome| outcome.verdict == Verdict::Cheat)
            };
            if work.steps.iter().any(cheats) {
                reasons.push("--allow RULE lifts a rule that the application itself breaks".into());
            }
            let verdicts = work.steps.iter().filter_map(|step| step.outcome.as_ref());
            reasons.extend(advice(verdicts.map(|outcome| outcome.verdict)));
            return Err(EvolveError::Given(reasons.join("\n")));
        };
        if let Some(way) = ways.get(place) {
            run.population.program = self.given.compiled(way.clone());
            if work.row.told.is_none() {
                self.store.put(key::PROGRAM, &run.population.program)?;
            }
        }
        Ok(())
    }

    /// What is under way is not waited for. What has outcomes is told with them: they were paid for.
    pub(super) fn cut_off(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Observe,
    ) -> Result<(), EvolveError> {
        let left = jobs.cancel();
        self.store.give_up(&left)?;
        let slots: Vec<i64> = run.open.keys().copied().collect();
        for slot in slots {
            let Some(work) = run.open.get_mut(&slot) else {
                continue;
            };
            let any = work.steps.iter().any(|step| {
                let outcome = step.outcome.as_ref();
                outcome.is_some_and(outcome_says)
            });
            let tellable = match &work.row.opening {
                Opening::Original | Opening::Check { .. } => work.is_over(),
                Opening::Propose(_) | Opening::Promote { .. } => work.is_over() || any,
            };
            if !tellable {
                run.open.remove(&slot);
                continue;
            }
            if !work.is_over() {
                work.stage = Stage::Over(Ended::CutOff);
            }
            self.tell_slot(run, jobs, slot, watch)?;
        }
        Ok(())
    }
}

/// What helps against the verdicts that the source as given can have.
fn advice(verdicts: impl Iterator<Item = Verdict>) -> Option<String> {
    let verdicts: Vec<Verdict> = verdicts.collect();
    let helps = if verdicts.contains(&Verdict::Wrong) {
        "where bytes differ, the build had other options (-use_fast_math, -fmad=false, …): give its command with --compile or \
         --compile-commands; where last bits may differ, --tolerance-file says by how much"
    } else if verdicts.contains(&Verdict::NoCode) {
        "where headers, definitions or options are missing, give the build's command with --compile or --compile-commands"
    } else {
        return None;
    };
    Some(helps.to_owned())
}
