//! The loop of a search over source: slots are opened, worked on, and told to the population.
//!
//! What a slot does depends on what was told before it was opened, and on nothing else. Slots are opened in their order, as soon as
//! fewer than [`Settings::window`](super::Settings::window) are open. On a device that counts they are told in their order too, so
//! that a search is a function of its seed, of replies and of outcomes. On a device that measures a slot is told as soon as it is
//! over, and the order is stored.
//!
//! A run that goes on does all of it again. What the store has of a slot (its opening, replies, variants, outcomes) is taken from
//! there; what is missing is asked again. Nothing here waits for one thing: replies and outcomes are looked for in turn.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use r3_models::account::Totals;
use r3_models::chat::{Answer, Ask, Failure, Finished, State, Ticket};
use r3_models::choice::Chooser;
use r3_replay::evaluate::Outcome;

use super::EvolveError;
use super::asking::Asking;
use super::population::Population;
use super::progress::{Load, Observe};
use super::rewriting::Rewriting;
use super::slot::SCREEN;
use super::variant::VariantNumber;
use super::work::{Stored, Work};
use super::workshop::Workshop;
use crate::program::Program;
use crate::store::{Answered, EvaluationNumber, Phase, SlotRow, Store, key};
use crate::tune::End;
use crate::tune::clock::Clock;
use crate::tune::jobs::Jobs;

/// How long one look for outcomes takes at most.
const LOOK: Duration = Duration::from_millis(50);
/// Seconds between two looks at how busy the evaluator is.
pub(super) const STATUS: f64 = 1.0;

/// A search and what it needs.
pub(super) struct Search<'a, 'm> {
    pub store: &'a mut Store,
    pub shop: &'a Workshop<'a>,
    pub given: Program,
    pub models: Option<Models<'m>>,
    pub clock: &'a dyn Clock,
    pub round: i64,
    /// Why the search of this round ended, if it has: then it is only gone through again, for its results.
    pub ended: Option<End>,
}

/// Who is asked.
pub struct Models<'a> {
    /// They.
    pub ask: &'a mut dyn Ask,
    /// How they are set.
    pub settings: &'a r3_models::settings::Settings,
}

/// What a question is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// An answer of a slot's turn.
    Answer(i64, i64),
    /// The vector of a slot's variant.
    Vector(i64, VariantNumber),
}

/// Where a search is.
pub(super) struct Run {
    pub population: Population,
    pub rewriting: Rewriting,
    pub asking: Asking,
    /// Slots that are in the store and have not been opened again.
    pub replay: VecDeque<(SlotRow, Stored)>,
    /// Slots that were told before, in order.
    pub replay_told: VecDeque<i64>,
    pub open: BTreeMap<i64, Work>,
    pub next: i64,
    pub told: i64,
    /// How many slots had been told when there was nothing to be tried.
    pub barren: Option<i64>,
    pub tickets: HashMap<Ticket, Awaited>,
    /// What vectors of texts took.
    pub embedded: Totals,
    pub jobs: HashMap<EvaluationNumber, i64>,
    pub unjudged: u64,
    /// Models may cost no more.
    pub spent: bool,
    pub end: Option<End>,
    pub started: f64,
    pub elapsed_before: f64,
    /// Seconds in which models could not be asked.
    pub paused: f64,
    pub down_since: Option<f64>,
    pub down: Option<String>,
    /// When there was last something for the devices to do.
    pub busy_at: f64,
    pub load: Load,
    pub waited: f64,
    pub looked: f64,
    pub before: (u64, u64),
}

/// What a search found.
pub(super) struct Found {
    pub population: Population,
    pub end: End,
}

impl Search<'_, '_> {
    /// Searches to the end of the budget.
    pub fn run(
        mut self,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Observe,
    ) -> Result<Found, EvolveError> {
        let mut run = self.begin()?;
        loop {
            if watch.leave() {
                return Err(EvolveError::Left);
            }
            // In this order, one step at a time: what a slot knows must not depend on how fast anything is.
            loop {
                self.see_ends(&mut run, jobs, watch);
                if !self.open(&mut run, jobs, watch)? && !self.tell(&mut run, jobs, watch)? {
                    break;
                }
            }
            if run.replay.is_empty() && run.replay_told.is_empty() {
                if self.ended.is_some() || (run.open.is_empty() && run.end.is_some()) {
                    break;
                }
                if run.open.is_empty() && run.barren == Some(run.told) {
                    let left = self.left(&run, None);
                    run.end = Some(if left.evaluations < SCREEN {
                        End::Evaluations
                    } else if !left.variants {
                        End::Variants
                    } else {
                        End::Exhausted
                    });
                    break;
                }
                if matches!(run.end, Some(End::Stopped | End::Time)) {
                    self.cut_off(&mut run, jobs, watch)?;
                    break;
                }
            }
            self.look(&mut run, jobs, watch)?;
            self.see_models(&mut run, watch)?;
            self.show(&mut run, jobs, watch);
        }
        if run.told == 0 {
            // Not even the first baseline is known, and nothing may be said of anything.
            return Err(EvolveError::Early);
        }
        Ok(Found {
            end: run.end.unwrap_or(End::Exhausted),
            population: run.population,
        })
    }

    fn begin(&mut self) -> Result<Run, EvolveError> {
        let settings = self.shop.settings;
        let mut replay: VecDeque<(SlotRow, Stored)> = self
            .store
            .slots()?
            .into_iter()
            .map(|row| (row, Stored::default()))
            .collect();
        let mut told: Vec<(i64, i64)> = replay
            .iter()
            .filter_map(|(row, _)| Some((row.told?, row.slot)))
            .collect();
        told.sort_unstable();
        let place: HashMap<i64, usize> = replay
            .iter()
            .enumerate()
            .map(|(place, (row, _))| (row.slot, place))
            .collect();
        let of = |slot: i64| place.get(&slot).copied();
        for request in self.store.requests()? {
            if let Some((_, stored)) = of(request.slot).and_then(|place| replay.get_mut(place)) {
                stored.requests.push_back(request);
            }
        }
        for variant in self.store.variants()? {
            if let Some((_, stored)) = of(variant.slot).and_then(|place| replay.get_mut(place)) {
                stored.variants.push_back(variant);
            }
        }
        let mut rows = self.store.evaluations(Some(Phase::Search))?;
        rows.sort_by_key(|row| row.of);
        for mut row in rows {
            let slot = row.of.and_then(|place| of(place.slot));
            let Some((slot, stored)) = slot.and_then(|place| replay.get_mut(place)) else {
                continue;
            };
            let unjudged = |outcome: &Outcome| !outcome_says(outcome);
            if slot.told.is_none() && row.outcome.as_ref().is_some_and(unjudged) {
                // The machine may be well again.
                row.outcome = None;
            }
            stored.evaluations.push_back(row);
        }
        let before = replay.iter().fold(
            (0, 0),
            |(evaluations, variants), (row, stored)| match &row.closing {
                Some(closing) => (
                    evaluations + closing.evaluations,
                    variants + stored.variants.len() as u64,
                ),
                None => (evaluations, variants),
            },
        );
        let chooser = self
            .models
            .as_ref()
            .map(|models| Chooser::new(models.settings, self.shop.base.seed));
        let population = Population::new(
            self.given.clone(),
            settings,
            self.shop.counts(),
            self.shop.base.seed,
            chooser,
        )?;
        Ok(Run {
            population,
            rewriting: Rewriting::default(),
            asking: Asking::new(
                settings.models.prompt_bytes,
                self.models.as_ref().map(|models| models.settings),
            ),
            replay,
            replay_told: told.into_iter().map(|(_, slot)| slot).collect(),
            open: BTreeMap::new(),
            next: 0,
            told: 0,
            barren: None,
            tickets: HashMap::new(),
            embedded: self.store.get(key::EMBEDDED)?.unwrap_or_default(),
            jobs: HashMap::new(),
            unjudged: 0,
            spent: false,
            end: self.ended,
            started: self.clock.now(),
            elapsed_before: self.store.get(key::ELAPSED)?.unwrap_or(0.0),
            paused: 0.0,
            down_since: None,
            down: None,
            busy_at: self.clock.now(),
            load: Load::default(),
            waited: 0.0,
            looked: f64::NEG_INFINITY,
            before,
        })
    }

    pub(super) fn elapsed(&self, run: &Run, jobs: &Jobs<'_>) -> f64 {
        let now = self.clock.now();
        let down = run.down_since.map_or(0.0, |since| now - since);
        run.elapsed_before + (now - run.started - jobs.paused - run.paused - down).max(0.0)
    }

    /// Whether the search is to end.
    fn see_ends(&self, run: &mut Run, jobs: &Jobs<'_>, watch: &dyn Observe) {
        if run.end.is_some() || !run.replay.is_empty() || !run.replay_told.is_empty() {
            return;
        }
        let budget = &self.shop.base.budget;
        let counts = &run.population.counts;
        let variants = self.shop.settings.limits.variants;
        run.end = if watch.stop() {
            Some(End::Stopped)
        } else if budget
            .evaluations
            .is_some_and(|most| counts.evaluations >= most)
        {
            Some(End::Evaluations)
        } else if variants.is_some_and(|most| counts.variants >= most) {
            Some(End::Variants)
        } else if budget
            .stagnation
            .is_some_and(|most| counts.since_better >= most)
        {
            Some(End::Stagnation)
        } else if run.spent {
            Some(End::Cost)
        } else if budget
            .seconds
            .is_some_and(|most| self.elapsed(run, jobs) >= most)
        {
            Some(End::Time)
        } else {
            None
        };
    }

    /// Looks for outcomes and replies.
    pub(super) fn look(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Observe,
    ) -> Result<(), EvolveError> {
        let mut changed = Vec::new();
        // What is there already is taken without waiting.
        let mut outcomes = jobs.step(Duration::ZERO, watch)?;
        self.take_replies(run, Duration::ZERO, &mut changed)?;
        if !jobs.is_empty() {
            run.busy_at = self.clock.now();
        }
        if outcomes.is_empty() && changed.is_empty() {
            let since = self.clock.now();
            if jobs.is_empty() && !run.tickets.is_empty() {
                self.take_replies(run, LOOK, &mut changed)?;
            } else {
                outcomes = jobs.step(LOOK, watch)?;
            }
            run.waited += self.clock.now() - since;
        }
        for (number, outcome) in outcomes {
            self.store.done(number, &outcome, self.clock.unix())?;
            let Some(slot) = run.jobs.remove(&number) else {
                continue;
            };
            if let Some(work) = run.open.get_mut(&slot)
                && work.take(number, outcome)
            {
                changed.push(slot);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        for slot in changed {
            self.advance(run, jobs, slot, watch)?;
        }
        Ok(())
    }

    fn take_replies(
        &mut self,
        run: &mut Run,
        limit: Duration,
        changed: &mut Vec<i64>,
    ) -> Result<(), EvolveError> {
        let Some(models) = &mut self.models else {
            return Ok(());
        };
        for finished in models.ask.finished(limit) {
            let Finished {
                ticket,
                spent,
                outcome,
                model,
            } = finished;
            let (slot, turn) = match run.tickets.remove(&ticket) {
                Some(Awaited::Answer(slot, turn)) => (slot, turn),
                Some(Awaited::Vector(slot, number)) => {
                    let vector = match outcome {
                        Ok(Answer::Vectors(vectors)) => vectors.into_iter().next(),
                        Ok(Answer::Reply(_)) | Err(_) => None,
                    };
                    let vector = vector.unwrap_or_default();
                    run.embedded.add(&model, &spent);
                    self.store.embedded(number, &vector, &run.embedded)?;
                    let work = run.open.get_mut(&slot);
                    let row = work
                        .and_then(|work| work.variants.iter_mut().find(|row| row.number == number));
                    if let Some(row) = row {
                        row.embedding = Some(vector);
                    }
                    changed.push(slot);
                    continue;
                }
                None => continue,
            };
            let reply = match outcome {
                Ok(Answer::Reply(reply)) => Ok(reply),
                Ok(Answer::Vectors(_)) => Err(Failure::Exhausted {
                    model,
                    attempts: 1,
                    message: "vectors came in place of text".into(),
                }),
                Err(failure) => Err(failure),
            };
            let answered = Answered { reply, spent };
            self.store
                .answered(slot, turn, &answered, self.clock.unix())?;
            let answer = run
                .open
                .get_mut(&slot)
                .and_then(|work| work.answers.last_mut());
            if let Some((_, answer)) = answer {
                *answer = Some(answered);
                changed.push(slot);
            }
        }
        Ok(())
    }

    /// Whether models can be asked. While they cannot, no time is counted and, on a device that measures, nothing new begins.
    fn see_models(&mut self, run: &mut Run, watch: &mut dyn Observe) -> Result<(), EvolveError> {
        let Some(models) = &self.models else {
            return Ok(());
        };
        let now = self.clock.now();
        match (models.ask.state(), run.down_since) {
            (State::Down { reason, .. }, None) => {
                watch.say(&format!(
                    "models cannot be asked ({reason}); the search waits for them"
                ));
                self.store.event(self.clock.unix(), "outage", &reason)?;
                run.down_since = Some(now);
                run.down = Some(reason);
            }
            (State::Down { reason, .. }, Some(since)) => {
                let most = self.shop.settings.models.outage;
                if now - since >= most {
                    return Err(EvolveError::Models {
                        seconds: now - since,
                        reason,
                    });
                }
            }
            (State::Up, Some(since)) => {
                watch.say("models can be asked again");
                self.store
                    .event(self.clock.unix(), "back", "models answer")?;
                run.paused += now - since;
                run.down_since = None;
                run.down = None;
            }
            (State::Up, None) => {}
        }
        Ok(())
    }
}

/// Whether an outcome says something of its candidate.
pub(super) fn outcome_says(outcome: &Outcome) -> bool {
    use r3_replay::evaluate::Verdict::{Cancelled, Unjudged};
    !matches!(outcome.verdict, Unjudged | Cancelled)
}
