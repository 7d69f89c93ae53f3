//! The search: proposals go out in batches, outcomes come back in any order, the strategy is told in the order of proposals.
//!
//! What a strategy proposes depends on its seed and on what it was asked and told, in order. Both are kept independent of how
//! fast anything is: a batch of `batch` points is asked for when all but `depth` − 1 batches are told of, and outcomes are told in
//! the order of proposals. So a run that was killed goes on by doing the same again: batches that are in the store are asked
//! of the strategy again and must come out the same, outcomes that are in the store are told again, and what was under way
//! is evaluated.
//!
//! On a device that measures, one slow compilation must not hold up everything: when nothing else can be done, outcomes are told
//! out of turn. Their order is in the store, and repeated as it was.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use r3_replay::evaluate::outcome::Unit;
use r3_replay::evaluate::{Outcome, Plan, Verdict};

use super::clock::Clock;
use super::jobs::Jobs;
use super::progress::{Best, Progress, Watch};
use super::standing::Standings;
use super::{Choice, Settings, TuneError};
use crate::space::{Point, Space};
use crate::store::{Evaluation, EvaluationNumber, NewEvaluation, Phase, Reason, State, Store, key};
use crate::strategy::Strategy;

/// How long one look for outcomes takes at most.
const LOOK: Duration = Duration::from_millis(100);
/// Batches that propose nothing new before the search gives up.
const NOTHING_NEW: u64 = 32;
/// Candidates in a row that the machine could not judge before the search gives up.
const UNJUDGED: u64 = 5;
/// Seconds between two looks at how busy the evaluator is.
const STATUS: f64 = 1.0;

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its time is over.
    Time,
    /// It had its evaluations.
    Evaluations,
    /// Nothing better was found for long enough.
    Stagnation,
    /// The space has no more points.
    Exhausted,
    /// Somebody stopped it.
    Stopped,
    /// It had its variants.
    Variants,
    /// Models cost what they may.
    Cost,
}

/// A search and what it needs.
pub(super) struct Search<'a> {
    pub store: &'a mut Store,
    pub space: &'a Space,
    pub settings: &'a Settings,
    pub choice: &'a Choice,
    pub strategy: Box<dyn Strategy>,
    pub clock: &'a dyn Clock,
    /// Whether the device counts instead of measuring.
    pub counts: bool,
    pub round: i64,
    /// Why the search of this round ended, if it has: then it is only gone through again, for its results.
    pub ended: Option<End>,
    /// Whether points that are in the store and that the strategy proposes otherwise are taken as they are.
    pub forced: bool,
}

/// Where a search is.
struct Run {
    standings: Standings,
    /// Batches that are in the store and have not been asked for again.
    replay: VecDeque<Vec<Evaluation>>,
    /// Places of outcomes that were told before, in order.
    replay_told: VecDeque<EvaluationNumber>,
    /// Proposals that the strategy was not told of, in order.
    open: BTreeMap<EvaluationNumber, Evaluation>,
    asked: u64,
    batches: i64,
    told: i64,
    again_at: u64,
    /// Candidates in a row that this process could not have judged.
    unjudged: u64,
    exhausted: bool,
    end: Option<End>,
    started: f64,
    elapsed_before: f64,
    before: u64,
    looked: f64,
    busy: (f64, f64),
}

impl Search<'_> {
    /// Searches to the end of the budget.
    pub fn run(
        mut self,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Watch,
    ) -> Result<(Standings, End), TuneError> {
        let mut run = self.begin()?;
        loop {
            if watch.leave() {
                return Err(TuneError::Left);
            }
            // In this order, one step at a time: what a strategy is asked and told must not depend on how fast anything is.
            loop {
                self.see_ends(&mut run, jobs, watch);
                if self.may_ask(&run) {
                    self.ask(&mut run, jobs)?;
                } else if !self.tell(&mut run, jobs)? {
                    break;
                }
            }
            if run.replay.is_empty() && run.replay_told.is_empty() {
                let over = run.end.is_some() || run.exhausted;
                if (run.open.is_empty() && over) || self.ended.is_some() {
                    break;
                }
                if matches!(run.end, Some(End::Stopped | End::Time)) {
                    self.give_up(&mut run, jobs)?;
                    break;
                }
            }
            for (evaluation, outcome) in jobs.step(LOOK, watch)? {
                self.store.done(evaluation, &outcome, self.clock.unix())?;
                if let Some(open) = run.open.get_mut(&evaluation) {
                    open.state = State::Done;
                    open.outcome = Some(outcome);
                }
            }
            self.show(&mut run, jobs, watch);
        }
        let end = run.end.unwrap_or(End::Exhausted);
        Ok((run.standings, end))
    }

    fn begin(&mut self) -> Result<Run, TuneError> {
        let rows = self.store.evaluations(Some(Phase::Search))?;
        let mut told: Vec<(i64, EvaluationNumber)> = rows
            .iter()
            .filter_map(|row| Some((row.told?, row.number)))
            .collect();
        told.sort_unstable();
        let before = told.len() as u64;
        let mut replay: VecDeque<Vec<Evaluation>> = VecDeque::new();
        for mut row in rows {
            let unjudged = |outcome: &Outcome| outcome.verdict == Verdict::Unjudged;
            if row.told.is_none() && row.outcome.as_ref().is_some_and(unjudged) {
                // The machine may be well again.
                row.outcome = None;
            }
            match replay.back_mut() {
                Some(batch) if batch.first().is_some_and(|first| first.batch == row.batch) => {
                    batch.push(row);
                }
                _ => replay.push_back(vec![row]),
            }
        }
        Ok(Run {
            standings: Standings::default(),
            replay,
            replay_told: told.into_iter().map(|(_, number)| number).collect(),
            open: BTreeMap::new(),
            asked: 0,
            batches: 0,
            told: 0,
            again_at: self.settings.fine.again_every,
            unjudged: 0,
            exhausted: false,
            end: self.ended,
            started: self.clock.now(),
            elapsed_before: self.store.get(key::ELAPSED)?.unwrap_or(0.0),
            before,
            looked: f64::NEG_INFINITY,
            busy: (0.0, 0.0),
        })
    }

    fn elapsed(&self, run: &Run, jobs: &Jobs<'_>) -> f64 {
        run.elapsed_before + (self.clock.now() - run.started - jobs.paused).max(0.0)
    }

    /// Whether the search is to end.
    fn see_ends(&self, run: &mut Run, jobs: &Jobs<'_>, watch: &dyn Watch) {
        if run.end.is_some() || !run.replay.is_empty() {
            return;
        }
        let budget = &self.settings.budget;
        run.end = if watch.stop() {
            Some(End::Stopped)
        } else if budget
            .evaluations
            .is_some_and(|most| run.asked >= most && run.open.is_empty())
        {
            Some(End::Evaluations)
        } else if budget
            .stagnation
            .is_some_and(|most| run.standings.since_better >= most)
        {
            Some(End::Stagnation)
        } else if budget
            .seconds
            .is_some_and(|most| self.elapsed(run, jobs) >= most)
        {
            Some(End::Time)
        } else if run.standings.repeated_in_a_row >= NOTHING_NEW * self.settings.fine.batch as u64 {
            Some(End::Exhausted)
        } else {
            None
        };
    }

    fn may_ask(&self, run: &Run) -> bool {
        let fine = &self.settings.fine;
        let room = run.open.len() <= fine.batch * (fine.depth.max(1) - 1);
        if !run.replay.is_empty() {
            return room;
        }
        let left = self
            .settings
            .budget
            .evaluations
            .is_none_or(|most| run.asked < most);
        room && left && run.end.is_none() && !run.exhausted
    }

    /// The next batch: of the strategy, or what was its answer before.
    fn ask(&mut self, run: &mut Run, jobs: &mut Jobs<'_>) -> Result<(), TuneError> {
        let batch = run.batches;
        let known = run.replay.pop_front();
        let again = self.again(run);
        let fine = &self.settings.fine;
        let wanted = match &known {
            // A batch may have been shorter, as the budget was.
            Some(rows) => rows
                .iter()
                .filter(|row| row.reason == Reason::Proposed)
                .count(),
            None => {
                let left = self
                    .settings
                    .budget
                    .evaluations
                    .map_or(u64::MAX, |most| most.saturating_sub(run.asked));
                fine.batch.min(usize::try_from(left).unwrap_or(usize::MAX))
            }
        };
        let points = self.strategy.ask(wanted);
        let rows = match known {
            Some(rows) => {
                self.compare(&rows, &points)?;
                rows
            }
            None => {
                run.exhausted = points.is_empty();
                self.propose(run, batch, again, points)?
            }
        };
        run.batches += 1;
        for row in rows {
            run.asked += u64::from(row.reason == Reason::Proposed);
            if self.ended.is_some() && row.told.is_none() {
                // It was given up, and the search does not go on.
                continue;
            }
            if row.same_as.is_none() && row.outcome.is_none() {
                jobs.add(&row, 0);
            }
            run.open.insert(row.number, row);
        }
        Ok(())
    }

    /// The best candidate once more, when it is time for that.
    fn again(&self, run: &mut Run) -> Option<NewEvaluation> {
        let every = self.settings.fine.again_every;
        if self.counts || every == 0 || run.standings.told < run.again_at {
            return None;
        }
        run.again_at = run.standings.told + every;
        let best = run.standings.best()?;
        Some(NewEvaluation {
            candidate: best.candidate.clone(),
            point: best.point.clone(),
            plan: Plan {
                again: true,
                ..self.plan(None)
            },
            reason: Reason::Again,
            parent: None,
        })
    }

    fn plan(&self, incumbent: Option<f64>) -> Plan {
        super::search_plan(self.settings, self.choice, incumbent)
    }

    fn propose(
        &mut self,
        run: &Run,
        batch: i64,
        again: Option<NewEvaluation>,
        points: Vec<Point>,
    ) -> Result<Vec<Evaluation>, TuneError> {
        let incumbent = run.standings.best().map(|best| best.ratio.high);
        let plan = self.plan(incumbent);
        let mut new: Vec<NewEvaluation> = again.into_iter().collect();
        for point in points {
            new.push(NewEvaluation {
                candidate: self.space.candidate(&point)?,
                point: Some(point),
                plan: plan.clone(),
                reason: Reason::Proposed,
                parent: None,
            });
        }
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let at = self.clock.unix();
        let numbers = self.store.ask(Phase::Search, self.round, batch, at, &new)?;
        Ok(self.store.rows(&numbers)?)
    }

    /// A batch that is in the store must be what the strategy proposes again.
    fn compare(&self, rows: &[Evaluation], points: &[Point]) -> Result<(), TuneError> {
        let before: Vec<_> = rows
            .iter()
            .filter(|row| row.reason == Reason::Proposed)
            .collect();
        let same = before.len() == points.len()
            && before
                .iter()
                .zip(points)
                .all(|(row, point)| row.point.as_ref() == Some(point));
        if same || self.forced {
            return Ok(());
        }
        let number = before.first().map_or(0, |row| row.number.0);
        Err(TuneError::OtherProposals(number))
    }

    /// Tells the strategy of the next outcome. False when it is not there yet.
    fn tell(&mut self, run: &mut Run, jobs: &Jobs<'_>) -> Result<bool, TuneError> {
        let next = match run.replay_told.front() {
            // As it was before; its batch may have to be asked for first.
            Some(number) if run.open.contains_key(number) => run.replay_told.pop_front(),
            Some(_) => None,
            None => self.next(run, jobs),
        };
        let Some((number, row)) = next.and_then(|number| Some((number, run.open.remove(&number)?)))
        else {
            return Ok(false);
        };
        let Some(outcome) = self.outcome(&row)? else {
            return Err(TuneError::Contradiction(number.0));
        };
        let again = row.reason == Reason::Again;
        let told = run.standings.take(&row, &outcome, again);
        // In a run that was made to go on with another space, old points may be none of it.
        if let (Some(told), Some(point)) = (told, &row.point)
            && self.space.has(point)
        {
            self.strategy.tell(point, told);
        }
        let place = run.told;
        run.told += 1;
        if row.told.is_some() {
            return Ok(true);
        }
        let elapsed = self.elapsed(run, jobs);
        self.store.told(number, place, elapsed)?;
        run.unjudged = match outcome.verdict {
            Verdict::Unjudged => run.unjudged + 1,
            _ => 0,
        };
        if run.unjudged >= UNJUDGED {
            return Err(TuneError::Machine {
                count: UNJUDGED,
                reason: outcome
                    .reason
                    .unwrap_or_else(|| "no reason was given".into()),
            });
        }
        Ok(true)
    }

    /// The outcome of an evaluation, its own or that of the one that it shares.
    fn outcome(&self, row: &Evaluation) -> Result<Option<Outcome>, TuneError> {
        if let Some(outcome) = &row.outcome {
            return Ok(Some(outcome.clone()));
        }
        let Some(other) = row.same_as else {
            return Ok(None);
        };
        let others = self.store.rows(&[other])?;
        Ok(others.into_iter().next().and_then(|row| row.outcome))
    }

    /// Whose turn it is to be told.
    fn next(&self, run: &Run, jobs: &Jobs<'_>) -> Option<EvaluationNumber> {
        let ready = |row: &Evaluation| match row.same_as {
            // Told after the one that it shares.
            Some(other) => !run.open.contains_key(&other),
            None => row.outcome.is_some(),
        };
        let (first, row) = run.open.first_key_value()?;
        if ready(row) {
            return Some(*first);
        }
        if self.counts || self.may_ask(run) {
            return None;
        }
        // Out of turn, when little is left to do meanwhile.
        let idle = jobs.len() <= self.settings.fine.batch;
        let mut rows = run.open.iter();
        rows.find(|(_, row)| idle && ready(row))
            .map(|(number, _)| *number)
    }

    /// What is under way is not waited for. What is done is told.
    fn give_up(&mut self, run: &mut Run, jobs: &mut Jobs<'_>) -> Result<(), TuneError> {
        let left = jobs.cancel();
        self.store.give_up(&left)?;
        run.open.retain(|number, _| !left.contains(number));
        let ready: Vec<EvaluationNumber> = run
            .open
            .iter()
            .filter(|(_, row)| row.outcome.is_some())
            .map(|(number, _)| *number)
            .collect();
        for number in ready {
            run.replay_told.push_back(number);
        }
        while self.tell(run, jobs)? {}
        // Those that share the outcome of one that was given up.
        let rest: Vec<_> = run.open.keys().copied().collect();
        self.store.give_up(&rest)?;
        run.open.clear();
        Ok(())
    }

    fn show(&self, run: &mut Run, jobs: &mut Jobs<'_>, watch: &mut dyn Watch) {
        let now = self.clock.now();
        if now - run.looked >= STATUS {
            run.looked = now;
            if let Some(status) = jobs.status() {
                run.busy = (status.compilers_busy, status.devices_busy);
                let _ = self.store.put(key::LOAD, &run.busy);
            }
        }
        let here = (now - run.started - jobs.paused).max(1e-9);
        let rate = run.standings.told.saturating_sub(run.before) as f64 / here;
        let budget = &self.settings.budget;
        let by_count = budget
            .evaluations
            .filter(|_| rate > 0.0)
            .map(|most| most.saturating_sub(run.standings.told) as f64 / rate);
        let by_time = budget
            .seconds
            .map(|most| (most - self.elapsed(run, jobs)).max(0.0));
        let left = match (by_count, by_time) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        watch.progress(&Progress {
            phase: Phase::Search,
            done: run.standings.told,
            of: budget.evaluations,
            under_way: jobs.len() as u64,
            failed: failures(&run.standings),
            best: run.standings.best().map(|best| Best {
                ratio: best.ratio,
                knobs: best
                    .point
                    .as_ref()
                    .map_or_else(Vec::new, |point| self.space.knobs(point)),
                found_at: best.found_at,
            }),
            rate,
            left,
            compilers: run.busy.0,
            devices: run.busy.1,
        });
    }
}

/// Evaluations by verdict, without the right ones.
pub(super) fn failures(standings: &Standings) -> Vec<(&'static str, u64)> {
    standings
        .verdicts
        .iter()
        .filter(|(verdict, _)| **verdict != Verdict::Right)
        .map(|(verdict, count)| (verdict.word(), *count))
        .collect()
}

/// Whether an outcome was counted and not measured.
pub(super) fn counted(outcome: &Outcome) -> bool {
    let mut times = outcome.launches.iter().flat_map(|launch| &launch.times);
    times.any(|timing| timing.unit == Unit::Cost)
}
