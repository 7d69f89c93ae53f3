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

use r3_models::chat::{Answer, Ask, Failure, Finished, Question, Request, Ticket};
use r3_models::choice::Idle;
use r3_replay::evaluate::Outcome;
use r3_source::tokens;
use xxhash_rust::xxh3::xxh3_64;

use super::EvolveError;
use super::asking::Asking;
use super::choose::{Chosen, Inputs, choose};
use super::population::{Population, of};
use super::progress::{Load, Observe};
use super::rewriting::Rewriting;
use super::slot::{By, Ended, Opening, island_of, number_of};
use super::variant::{Lineage, Operator, Variant, VariantNumber};
use super::work::{Stage, Stored, Work};
use super::workshop::Workshop;
use crate::program::Program;
use crate::prompt::{self, failure, reply};
use crate::store::{
    Answered, Evaluation, EvaluationNumber, NewEvaluation, NewVariant, Reason, RequestRow, SlotRow,
    Store, VariantRow, key,
};
use crate::tune::End;
use crate::tune::clock::Clock;
use crate::tune::jobs::Jobs;

/// How long one look for outcomes takes at most.
const LOOK: Duration = Duration::from_millis(50);
/// Slots in a row that the machine could not judge before the search gives up.
const UNJUDGED: u64 = 5;
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

/// Where a search is.
pub(super) struct Run {
    pub population: Population,
    rewriting: Rewriting,
    asking: Asking,
    /// Slots that are in the store and have not been opened again.
    replay: VecDeque<(SlotRow, Stored)>,
    /// Slots that were told before, in order.
    replay_told: VecDeque<i64>,
    pub open: BTreeMap<i64, Work>,
    next: i64,
    told: i64,
    /// How many slots had been told when there was nothing to be tried.
    barren: Option<i64>,
    tickets: HashMap<Ticket, (i64, i64)>,
    jobs: HashMap<EvaluationNumber, i64>,
    unjudged: u64,
    /// Models may cost no more.
    spent: bool,
    pub end: Option<End>,
    pub started: f64,
    elapsed_before: f64,
    /// Seconds in which models could not be asked.
    pub paused: f64,
    down_since: Option<f64>,
    pub down: Option<String>,
    /// When there was last something for the devices to do.
    busy_at: f64,
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
                    run.end = Some(End::Exhausted);
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
        let mut rows = self.store.evaluations(Some(crate::store::Phase::Search))?;
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
        let chooser = self
            .models
            .as_ref()
            .map(|models| r3_models::choice::Chooser::new(models.settings, self.shop.base.seed));
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
            asking: Asking::new(),
            replay,
            replay_told: told.into_iter().map(|(_, slot)| slot).collect(),
            open: BTreeMap::new(),
            next: 0,
            told: 0,
            barren: None,
            tickets: HashMap::new(),
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
            before: (0, 0),
        })
    }

    pub fn elapsed(&self, run: &Run, jobs: &Jobs<'_>) -> f64 {
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

    /// Opens the next slot. False when it is not its time.
    fn open(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Observe,
    ) -> Result<bool, EvolveError> {
        let window = self.shop.settings.window();
        if i64::try_from(run.open.len()).unwrap_or(i64::MAX) >= window {
            return Ok(false);
        }
        // The source as given comes first.
        if run.next > 0 && run.told == 0 {
            return Ok(false);
        }
        let replayed = match run.replay.front() {
            Some((row, _)) if row.after != run.told => return Ok(false),
            Some(_) => run.replay.pop_front(),
            None => None,
        };
        if replayed.is_none() {
            let measures = !self.shop.counts();
            let paused = run.down.is_some() && measures;
            if run.end.is_some() || run.barren == Some(run.told) || paused {
                return Ok(false);
            }
        }
        let slot = run.next;
        let island = island_of(slot, self.shop.settings.islands.count);
        let chosen = if slot == 0 {
            Some(Chosen {
                opening: Opening::Original,
                made: None,
            })
        } else {
            let inputs = self.inputs(run, slot, replayed.as_ref().map(|(row, _)| row));
            choose(
                &mut run.population,
                &mut run.rewriting,
                self.shop,
                slot,
                island,
                &inputs,
            )
            .map(|chosen| (chosen, inputs))
            .map(|(chosen, _)| chosen)
        };
        let stored = replayed.is_some();
        let (row, made, stored_parts) = match (replayed, chosen) {
            // What is in the store is what was done.
            (Some((row, parts)), chosen) => (row, chosen.and_then(|chosen| chosen.made), parts),
            (None, None) => {
                run.barren = Some(run.told);
                return Ok(false);
            }
            (None, Some(chosen)) => {
                let asked = matches!(&chosen.opening, Opening::Propose(one) if matches!(one.by, By::Model(_)));
                let row = SlotRow {
                    slot,
                    island,
                    after: run.told,
                    models: asked || self.may_ask(run),
                    opening: chosen.opening,
                    opened_at: self.clock.unix(),
                    told: None,
                    told_at: None,
                    closing: None,
                };
                (row, chosen.made, Stored::default())
            }
        };
        run.next += 1;
        run.population.opened(&row.opening, island);
        let best = run.population.best().and_then(|best| best.best.as_ref());
        let incumbent = best.map(|best| best.ratio.high);
        let start = start_points(&run.population, &row.opening);
        let mut work = Work::new(row, incumbent, start, stored_parts);
        self.begin_work(run, jobs, &mut work, made, stored)?;
        run.open.insert(slot, work);
        self.advance(run, jobs, slot, watch)?;
        Ok(true)
    }

    /// What does not follow from the population.
    fn inputs(&self, run: &Run, slot: i64, stored: Option<&SlotRow>) -> Inputs {
        let Some(models) = &self.models else {
            return Inputs {
                asked: None,
                ..self.left(run, stored)
            };
        };
        let chooser = run.population.chooser.as_ref();
        let island = run
            .population
            .islands
            .island(island_of(slot, self.shop.settings.islands.count))
            .ok();
        let choose = |idle: bool, any: bool| {
            chooser?.choose(idle, slot.unsigned_abs(), &|model| {
                let here = island.is_none_or(|island| island.asks(model));
                here && (any || models.ask.state_of(model).is_up())
            })
        };
        let asked = match stored {
            Some(row) => match &row.opening {
                Opening::Propose(proposal) => match &proposal.by {
                    By::Model(choice) => Some(choice.clone()),
                    By::Rewrite(_) if row.models => choose(false, true),
                    By::Rewrite(_) => None,
                },
                _ if row.models => choose(false, true),
                _ => None,
            },
            None if self.may_ask(run) => {
                let idle = self.clock.now() - run.busy_at;
                let idle = Idle((idle > 0.0).then(|| Duration::from_secs_f64(idle)));
                // Where a service is out the question waits; only who else could answer is looked for.
                let idle = chooser.is_some_and(|chooser| chooser.is_idle(idle));
                choose(idle, false).or_else(|| choose(idle, true))
            }
            None => None,
        };
        Inputs {
            asked,
            ..self.left(run, stored)
        }
    }

    /// Whether a model may be asked, as far as that follows from what is open.
    fn may_ask(&self, run: &Run) -> bool {
        if self.models.is_none() || run.spent {
            return false;
        }
        let asking = run
            .open
            .values()
            .filter(|work| {
                matches!(&work.row.opening, Opening::Propose(one) if matches!(one.by, By::Model(_)))
            })
            .count();
        let share = self.shop.settings.models.share;
        let most = (self.shop.settings.window() as f64 * share).ceil();
        (asking as f64) < most
    }

    /// What is left of budgets when everything that is open takes what it may.
    fn left(&self, run: &Run, stored: Option<&SlotRow>) -> Inputs {
        let repairs = self.shop.settings.models.repairs;
        let counts = &run.population.counts;
        let reserved: u64 = run
            .open
            .values()
            .map(|work| work.row.opening.reserve(repairs))
            .sum();
        let proposals = run
            .open
            .values()
            .filter(|work| matches!(work.row.opening, Opening::Propose(_)))
            .count() as u64;
        let evaluations = self.shop.base.budget.evaluations.map_or(u64::MAX, |most| {
            most.saturating_sub(counts.evaluations + reserved)
        });
        let variants = self
            .shop
            .settings
            .limits
            .variants
            .is_none_or(|most| counts.variants + proposals < most);
        Inputs {
            asked: None,
            evaluations: if stored.is_some() {
                u64::MAX
            } else {
                evaluations
            },
            variants: variants || stored.is_some(),
        }
    }

    /// The beginning of a slot's work.
    fn begin_work(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        made: Option<super::rewriting::Made>,
        stored: bool,
    ) -> Result<(), EvolveError> {
        let told = work.row.closing.clone().filter(|_| work.row.told.is_some());
        let opening = work.row.opening.clone();
        if let Some(closing) = told {
            return self.as_told(run, work, &opening, closing.ended);
        }
        match &opening {
            Opening::Propose(proposal) => match &proposal.by {
                By::Rewrite(_) => self.begin_rewrite(run, jobs, work, made, stored)?,
                By::Model(choice) => {
                    let question = run.asking.question(
                        &run.population,
                        self.shop,
                        work.row.slot,
                        work.row.island,
                        proposal,
                    )?;
                    if !stored {
                        self.store
                            .open_slot(&work.row, None, &[], None, self.round)?;
                    }
                    work.stage = Stage::Asking;
                    match question {
                        Some((messages, target, shared)) => {
                            work.target = Some(target);
                            self.ask_model(run, work, &choice.model, messages, shared)?;
                        }
                        None => {
                            let why = "the parent's text has no part that may be changed";
                            work.stage = Stage::Over(Ended::Unusable(why.to_owned()));
                        }
                    }
                }
            },
            Opening::Original => {
                let ways = self.given.ways();
                let first = ways.first().cloned().unwrap_or_default();
                let program = self.given.compiled(first);
                let variant = program.original();
                let lineage = Lineage {
                    operator: Operator::Original,
                    parents: Vec::new(),
                    island: work.row.island,
                    by: String::new(),
                    what: "the source as given".to_owned(),
                };
                let new =
                    self.new_variant(work, variant, lineage, vec![self.given_source(&program)]);
                self.make(run, jobs, work, new, stored)?;
            }
            Opening::Check { variant } => {
                let best = run.population.get(*variant);
                let candidate = best.and_then(|known| known.best.as_ref());
                let evaluations = candidate.map_or_else(Vec::new, |best| {
                    vec![NewEvaluation {
                        candidate: best.candidate.clone(),
                        point: best.point.clone(),
                        plan: self.shop.check_plan(),
                        reason: Reason::Check,
                        parent: None,
                    }]
                });
                self.begin_steps(run, jobs, work, *variant, evaluations, stored)?;
            }
            Opening::Promote { promotion, .. } => {
                let evaluations = self.next_batch(run, work)?;
                let variant = promotion.variant;
                self.begin_steps(run, jobs, work, variant, evaluations, stored)?;
            }
        }
        Ok(())
    }

    /// A slot that was told is as the store has it. What its beginning changed is changed again.
    fn as_told(
        &mut self,
        run: &mut Run,
        work: &mut Work,
        opening: &Opening,
        ended: Ended,
    ) -> Result<(), EvolveError> {
        if let Opening::Propose(proposal) = opening {
            match &proposal.by {
                By::Rewrite(_) => {
                    if let Some(row) = work.stored.variants.front() {
                        let variant = of(row);
                        let fingerprint = tokens::fingerprint(&variant.text);
                        run.population
                            .novelty
                            .add(row.number, &variant, fingerprint);
                    }
                }
                By::Model(_) => {
                    let (slot, island) = (work.row.slot, work.row.island);
                    run.asking
                        .question(&run.population, self.shop, slot, island, proposal)?;
                }
            }
        }
        // What was a duplicate by its code had been evaluated.
        let ended = match ended {
            Ended::Duplicate(_) if !work.stored.variants.is_empty() => Ended::Evaluated,
            ended => ended,
        };
        work.as_stored(ended);
        Ok(())
    }

    fn begin_rewrite(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        made: Option<super::rewriting::Made>,
        stored: bool,
    ) -> Result<(), EvolveError> {
        let opening = work.row.opening.clone();
        let Opening::Propose(proposal) = &opening else {
            return Ok(());
        };
        let (variant, lineage) = match (work.stored.variants.front(), made) {
            (Some(row), _) => (of(row), row.lineage.clone()),
            (None, Some(made)) => (
                made.variant,
                Lineage {
                    operator: Operator::Rewrite,
                    parents: proposal.parents.clone(),
                    island: work.row.island,
                    by: made.by,
                    what: made.what,
                },
            ),
            // Its text is written with the slot.
            (None, None) => return Err(EvolveError::NoText(work.row.slot)),
        };
        let number = number_of(work.row.slot, 0, self.shop.settings.models.repairs);
        let fingerprint = tokens::fingerprint(&variant.text);
        run.population.novelty.add(number, &variant, fingerprint);
        let screen = self.shop.screen(
            &run.population.program,
            &variant,
            &work.start,
            self.seed_of(number),
            work.incumbent,
        );
        let screen = match screen {
            Ok(screen) => screen,
            Err(error) => {
                if !stored {
                    self.store
                        .open_slot(&work.row, None, &[], None, self.round)?;
                }
                work.stage = Stage::Over(Ended::Unusable(error.to_string()));
                return Ok(());
            }
        };
        let new = self.new_variant(work, variant, lineage, screen);
        self.make(run, jobs, work, new, stored)
    }

    /// Evaluations of a variant that is known.
    #[allow(
        clippy::too_many_arguments,
        reason = "what is known of a slot where it begins"
    )]
    fn begin_steps(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        variant: VariantNumber,
        evaluations: Vec<NewEvaluation>,
        stored: bool,
    ) -> Result<(), EvolveError> {
        let rows = if stored {
            take(&mut work.stored.evaluations, evaluations.len())
        } else {
            let numbers =
                self.store
                    .open_slot(&work.row, None, &evaluations, Some(variant), self.round)?;
            self.store.rows(&numbers)?
        };
        self.add_steps(run, jobs, work, rows);
        Ok(())
    }

    /// A variant that came up in a slot.
    fn new_variant(
        &self,
        work: &Work,
        variant: Variant,
        lineage: Lineage,
        evaluations: Vec<NewEvaluation>,
    ) -> NewVariant {
        NewVariant {
            row: VariantRow {
                number: number_of(work.row.slot, work.turn, self.shop.settings.models.repairs),
                slot: work.row.slot,
                turn: work.turn,
                fingerprint: format!("{:032x}", tokens::fingerprint(&variant.text)),
                text: variant.text,
                launch: variant.launch,
                lineage,
                made_at: self.clock.unix(),
            },
            evaluations: (work.steps.len() as i64, evaluations),
        }
    }

    /// Stores a variant with its first evaluations, or takes both from the store.
    fn make(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        new: NewVariant,
        stored: bool,
    ) -> Result<(), EvolveError> {
        work.before = work.steps.len();
        let count = new.evaluations.1.len();
        let rows = match work.stored.variants.pop_front() {
            Some(row) => {
                work.variants.push(row);
                take(&mut work.stored.evaluations, count)
            }
            None => {
                let numbers = if !stored {
                    self.store
                        .open_slot(&work.row, Some(&new), &[], None, self.round)?
                } else {
                    self.store.make_variant(&new, self.round)?
                };
                work.variants.push(new.row);
                self.store.rows(&numbers)?
            }
        };
        work.stage = Stage::Measuring;
        self.add_steps(run, jobs, work, rows);
        Ok(())
    }

    fn add_steps(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        rows: Vec<Evaluation>,
    ) {
        for row in rows {
            if row.outcome.is_none() {
                run.jobs.insert(row.number, work.row.slot);
                jobs.add(&row, 0);
            }
            work.steps.push(row);
        }
    }

    /// The next evaluations of a promotion.
    fn next_batch(
        &mut self,
        run: &mut Run,
        work: &mut Work,
    ) -> Result<Vec<NewEvaluation>, EvolveError> {
        let Opening::Promote { promotion, .. } = &work.row.opening else {
            return Ok(Vec::new());
        };
        if work.inner.is_none() {
            let Some(known) = run.population.get(promotion.variant) else {
                return Ok(Vec::new());
            };
            let seed = self.seed_of(promotion.variant);
            let program = &run.population.program;
            let Ok(mut inner) = self
                .shop
                .inner(program, &known.variant(), &known.start, seed)
            else {
                return Ok(Vec::new());
            };
            for (point, outcome) in &known.tried {
                if let Some(point) = point {
                    inner.tell(point, outcome);
                }
            }
            work.inner = Some(inner);
        }
        let Some(inner) = &mut work.inner else {
            return Ok(Vec::new());
        };
        for step in work.steps.iter().skip(work.before) {
            if let (Some(point), Some(outcome)) = (&step.point, &step.outcome) {
                inner.tell(point, outcome);
            }
        }
        work.before = work.steps.len();
        let count = crate::inner::BATCH.min(usize::try_from(work.left).unwrap_or(usize::MAX));
        if count == 0 {
            return Ok(Vec::new());
        }
        let points = inner.ask(count).map_err(crate::tune::TuneError::from)?;
        let asked = u32::try_from(points.len()).unwrap_or(u32::MAX);
        work.left = if asked == 0 {
            0
        } else {
            work.left.saturating_sub(asked)
        };
        Ok(self.shop.proposed(points, work.incumbent))
    }

    fn seed_of(&self, number: VariantNumber) -> u64 {
        let mut bytes = self.shop.base.seed.to_le_bytes().to_vec();
        bytes.extend(number.0.to_le_bytes());
        xxh3_64(&bytes)
    }

    /// The source as given, by one compiler.
    fn given_source(&self, program: &Program) -> NewEvaluation {
        NewEvaluation {
            candidate: program.candidate(&program.original()),
            point: self
                .shop
                .space(&program.original())
                .ok()
                .map(|space| space.original()),
            plan: self.shop.given_plan(),
            reason: Reason::Given,
            parent: None,
        }
    }

    /// Puts a question, or takes what the store has of it.
    fn ask_model(
        &mut self,
        run: &mut Run,
        work: &mut Work,
        model: &str,
        messages: Vec<r3_models::chat::Message>,
        shared: u64,
    ) -> Result<(), EvolveError> {
        work.stage = Stage::Asking;
        let (messages, answer) = match work.stored.requests.pop_front() {
            Some(request) => (request.messages, request.answer),
            None => {
                self.store.ask_model(&RequestRow {
                    slot: work.row.slot,
                    turn: work.turn,
                    model: model.to_owned(),
                    messages: messages.clone(),
                    shared,
                    asked_at: self.clock.unix(),
                    done_at: None,
                    answer: None,
                })?;
                (messages, None)
            }
        };
        work.conversation = messages;
        if answer.is_none() && self.ended.is_none() {
            let Some(models) = &mut self.models else {
                return Err(EvolveError::NoModels);
            };
            let ticket = models.ask.submit(Question::Chat(Request {
                model: model.to_owned(),
                messages: work.conversation.clone(),
                max_tokens: None,
                temperature: None,
                seed: Some(
                    self.shop
                        .base
                        .seed
                        .wrapping_add(work.row.slot.unsigned_abs()),
                ),
            }));
            run.tickets.insert(ticket, (work.row.slot, work.turn));
        }
        work.answers.push((model.to_owned(), answer));
        Ok(())
    }

    /// Does with a slot what can be done with what has come.
    fn advance(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        slot: i64,
        watch: &mut dyn Observe,
    ) -> Result<(), EvolveError> {
        let Some(mut work) = run.open.remove(&slot) else {
            return Ok(());
        };
        let result = self.go_on(run, jobs, &mut work, watch);
        run.open.insert(slot, work);
        result
    }

    fn go_on(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        _watch: &mut dyn Observe,
    ) -> Result<(), EvolveError> {
        loop {
            match &work.stage {
                Stage::Over(_) => return Ok(()),
                Stage::Asking => {
                    let Some((_, Some(answered))) = work.answers.last() else {
                        return Ok(());
                    };
                    let answered = answered.clone();
                    self.take_answer(run, jobs, work, answered)?;
                }
                Stage::Measuring => {
                    if !work.is_measured() {
                        return Ok(());
                    }
                    self.measured(run, jobs, work)?;
                }
            }
        }
    }

    /// All that was asked for has an outcome.
    fn measured(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
    ) -> Result<(), EvolveError> {
        let over = Stage::Over(Ended::Evaluated);
        match work.row.opening.clone() {
            Opening::Original => {
                let ways = self.given.ways();
                if work.is_unjudged() || work.steps.iter().any(is_right) {
                    work.stage = over;
                    return Ok(());
                }
                let Some(way) = ways.get(work.steps.len()) else {
                    work.stage = over;
                    return Ok(());
                };
                let program = self.given.compiled(way.clone());
                let more = vec![self.given_source(&program)];
                self.ask_more(run, jobs, work, VariantNumber(1), more)
            }
            Opening::Check { .. } => {
                work.stage = over;
                Ok(())
            }
            Opening::Promote { promotion, .. } => {
                let more = self.next_batch(run, work)?;
                if more.is_empty() {
                    work.stage = over;
                    return Ok(());
                }
                self.ask_more(run, jobs, work, promotion.variant, more)
            }
            Opening::Propose(proposal) => {
                let model = match &proposal.by {
                    By::Model(choice) => choice.model.clone(),
                    By::Rewrite(_) => {
                        work.stage = over;
                        return Ok(());
                    }
                };
                if work.is_right() {
                    work.stage = over;
                    return Ok(());
                }
                let text = work.variants.last().map(|row| row.text.clone());
                let wrong = text.as_ref().and_then(|text| {
                    let mut outcomes = work.outcomes();
                    outcomes.find_map(|outcome| failure::tell(outcome, text))
                });
                match wrong {
                    Some(wrong) => {
                        // The next answer is about the text that was wrong.
                        if let Some(text) = &text {
                            let program = &run.population.program;
                            work.target =
                                super::asking::target(program, text).or(work.target.take());
                        }
                        self.repair(run, work, &model, &wrong, Ended::Evaluated)
                    }
                    None => {
                        work.stage = over;
                        Ok(())
                    }
                }
            }
        }
    }

    fn ask_more(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        variant: VariantNumber,
        more: Vec<NewEvaluation>,
    ) -> Result<(), EvolveError> {
        let first = work.steps.len() as i64;
        let stored = take(&mut work.stored.evaluations, more.len());
        let rows = if stored.is_empty() {
            let at = self.clock.unix();
            let numbers =
                self.store
                    .ask_more(work.row.slot, first, &more, Some(variant), self.round, at)?;
            self.store.rows(&numbers)?
        } else {
            stored
        };
        self.add_steps(run, jobs, work, rows);
        Ok(())
    }

    /// A model has answered.
    fn take_answer(
        &mut self,
        run: &mut Run,
        jobs: &mut Jobs<'_>,
        work: &mut Work,
        answered: Answered,
    ) -> Result<(), EvolveError> {
        let Opening::Propose(proposal) = work.row.opening.clone() else {
            return Ok(());
        };
        let By::Model(choice) = &proposal.by else {
            return Ok(());
        };
        let answer = match answered.reply {
            Ok(reply) => reply,
            Err(failure) => {
                run.spent |= matches!(failure, Failure::Budget { .. });
                // What came of the turns before counts.
                work.stage = Stage::Over(if work.variants.is_empty() {
                    Ended::NoAnswer(failure.to_string())
                } else {
                    Ended::Evaluated
                });
                return Ok(());
            }
        };
        let Some(target) = &work.target else {
            return Ok(());
        };
        let edit = match reply::take(&answer.text, answer.finish, target) {
            Ok(edit) => edit,
            Err(unusable) => {
                let wrong = unusable.to_string();
                let end = Ended::Unusable(wrong.clone());
                return self.repair(run, work, &choice.model, &wrong, end);
            }
        };
        let variant = match self.shop.variant(edit.text) {
            Ok(variant) => variant,
            Err(error) => {
                let wrong = error.to_string();
                let end = Ended::Unusable(wrong.clone());
                return self.repair(run, work, &choice.model, &wrong, end);
            }
        };
        let fingerprint = tokens::fingerprint(&variant.text);
        let number = number_of(work.row.slot, work.turn, self.shop.settings.models.repairs);
        // What others found while this slot was open is not known to it: when that came depends on time.
        let own = work.variants.iter().any(|row| of(row) == variant);
        let seen = run
            .population
            .novelty
            .seen(&variant, fingerprint)
            .filter(|seen| self.was_known(run, work, seen.number()));
        if let Some(seen) = seen {
            work.stage = Stage::Over(Ended::Duplicate(seen));
            return Ok(());
        }
        if own {
            work.stage = Stage::Over(Ended::Evaluated);
            return Ok(());
        }
        let screen = self.shop.screen(
            &run.population.program,
            &variant,
            &work.start,
            self.seed_of(number),
            work.incumbent,
        );
        let screen = match screen {
            Ok(screen) => screen,
            Err(error) => {
                let wrong = error.to_string();
                let end = Ended::Unusable(wrong.clone());
                return self.repair(run, work, &choice.model, &wrong, end);
            }
        };
        let before = work.variants.last().map(|row| row.number);
        let lineage = Lineage {
            operator: if before.is_some() {
                Operator::Repair
            } else {
                proposal.operator
            },
            parents: before
                .into_iter()
                .chain(proposal.parents.iter().copied())
                .collect(),
            island: work.row.island,
            by: choice.model.clone(),
            what: edit.what,
        };
        let new = self.new_variant(work, variant, lineage, screen);
        self.make(run, jobs, work, new, true)
    }

    /// Whether a variant was known when a slot was opened.
    fn was_known(&self, run: &Run, work: &Work, number: VariantNumber) -> bool {
        // The text of a rewrite is known as soon as its slot is opened, and later numbers are later slots'.
        let before = number < number_of(work.row.slot, 0, self.shop.settings.models.repairs);
        match run.population.get(number) {
            Some(known) if known.row.lineage.operator == Operator::Rewrite => before,
            Some(known) => known.told_before(work.row.after),
            None => before,
        }
    }

    /// Tells the model what was wrong, or gives up.
    fn repair(
        &mut self,
        run: &mut Run,
        work: &mut Work,
        model: &str,
        wrong: &str,
        end: Ended,
    ) -> Result<(), EvolveError> {
        let answer = work
            .answers
            .last()
            .and_then(|(_, answered)| answered.as_ref()?.reply.as_ref().ok())
            .map(|reply| reply.text.clone());
        let repairs = i64::from(self.shop.settings.models.repairs);
        let (Some(answer), true) = (answer, work.turn < repairs && !run.spent) else {
            work.stage = Stage::Over(if work.variants.is_empty() {
                end
            } else {
                Ended::Evaluated
            });
            return Ok(());
        };
        let budget = self.shop.settings.models.prompt_bytes;
        let messages = prompt::repair(&work.conversation, &answer, wrong, budget);
        let shared = prompt::shared_prefix(&work.conversation, &messages) as u64;
        work.turn += 1;
        work.before = work.steps.len();
        self.ask_model(run, work, model, messages, shared)
    }

    /// Tells the population what came of a slot whose turn it is. False when there is none.
    fn tell(
        &mut self,
        run: &mut Run,
        jobs: &Jobs<'_>,
        watch: &mut dyn Observe,
    ) -> Result<bool, EvolveError> {
        let next = match run.replay_told.front() {
            // As it was before; it may have to be opened first.
            Some(slot) if run.open.contains_key(slot) => run.replay_told.pop_front(),
            Some(_) => None,
            None if self.shop.counts() => run
                .open
                .first_key_value()
                .filter(|(_, work)| work.is_over())
                .map(|(slot, _)| *slot),
            None => run
                .open
                .iter()
                .find(|(_, work)| work.is_over())
                .map(|(slot, _)| *slot),
        };
        let Some(slot) = next else {
            return Ok(false);
        };
        self.tell_slot(run, jobs, slot, watch)?;
        Ok(true)
    }

    fn tell_slot(
        &mut self,
        run: &mut Run,
        jobs: &Jobs<'_>,
        slot: i64,
        watch: &mut dyn Observe,
    ) -> Result<(), EvolveError> {
        let Some(work) = run.open.get(&slot) else {
            return Ok(());
        };
        if work.row.told.is_none() && work.is_unjudged() {
            run.unjudged += 1;
            if run.unjudged >= UNJUDGED || slot == 0 {
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
            return Err(EvolveError::Given(reasons.collect::<Vec<_>>().join("\n")));
        };
        if let Some(way) = ways.get(place) {
            run.population.program = self.given.compiled(way.clone());
            if work.row.told.is_none() {
                self.store.put(key::PROGRAM, &run.population.program)?;
            }
        }
        Ok(())
    }

    /// Looks for outcomes and replies.
    fn look(
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
            let Some((slot, turn)) = run.tickets.remove(&ticket) else {
                continue;
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
            (r3_models::chat::State::Down { reason, .. }, None) => {
                watch.say(&format!(
                    "models cannot be asked ({reason}); the search waits for them"
                ));
                self.store.event(self.clock.unix(), "outage", &reason)?;
                run.down_since = Some(now);
                run.down = Some(reason);
            }
            (r3_models::chat::State::Down { reason, .. }, Some(since)) => {
                let most = self.shop.settings.models.outage;
                if now - since >= most {
                    return Err(EvolveError::Models {
                        seconds: now - since,
                        reason,
                    });
                }
            }
            (r3_models::chat::State::Up, Some(since)) => {
                watch.say("models can be asked again");
                self.store
                    .event(self.clock.unix(), "back", "models answer")?;
                run.paused += now - since;
                run.down_since = None;
                run.down = None;
            }
            (r3_models::chat::State::Up, None) => {}
        }
        Ok(())
    }

    /// What is under way is not waited for. What has outcomes is told with them: they were paid for.
    fn cut_off(
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

/// Whether an outcome says something of its candidate.
pub(super) fn outcome_says(outcome: &Outcome) -> bool {
    use r3_replay::evaluate::Verdict::{Cancelled, Unjudged};
    !matches!(outcome.verdict, Unjudged | Cancelled)
}

fn is_right(step: &Evaluation) -> bool {
    let outcome = step.outcome.as_ref();
    outcome.is_some_and(|outcome| outcome.verdict.is_right() && outcome.score.is_some())
}

/// The first of a line, as many as are wanted.
fn take(rows: &mut VecDeque<Evaluation>, count: usize) -> Vec<Evaluation> {
    let count = count.min(rows.len());
    rows.drain(..count).collect()
}

/// Points of parents, the first one's best first.
fn start_points(population: &Population, opening: &Opening) -> Vec<crate::space::Point> {
    let Opening::Propose(proposal) = opening else {
        return Vec::new();
    };
    proposal
        .parents
        .iter()
        .filter_map(|number| {
            let best = population.get(*number)?.best.as_ref()?;
            best.point.clone()
        })
        .collect()
}
