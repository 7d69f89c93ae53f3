//! The search for a faster form of a kernel, from its description to a claim.
//!
//! ```text
//! describe ─► launches ─► space ─► search ⇄ evaluator ─► finals ─► ablation ─► summary, best.r3t
//!                                    │                      │          │
//!                                    └──────── store ───────┴──────────┘
//! ```
//!
//! - [`evaluate`], [`client`]: the evaluator as a search sees it, and the real one.
//! - [`settings`], [`environment`]: what a run is, and what its results depend on.
//! - [`launches`]: which recorded launches decide, and which only check.
//! - `search`: proposals, outcomes, budgets. `jobs`: what is under way, and outages. [`standing`]: who is best.
//! - `finals`, `held_out`, [`statistics`]: what may be claimed. `ablation`: what mattered. `conclude`: these in their order, for
//!   this search and for the one over source.
//! - [`summary`]: what was found. [`progress`]: what somebody who watches is shown.
//!
//! # Invariants
//!
//! - What a strategy is asked and told, in order, depends on its seed and on outcomes alone, not on time. So a run that was killed
//!   goes on as if it had not been.
//! - What fails of the machine is no candidate's failure, and is never told to a strategy.
//! - Nothing is claimed that was not measured again, in a fresh process, on launches that did not decide.

pub mod client;

pub mod evaluate;

pub mod environment;

pub mod settings;

pub mod launches;

pub mod statistics;

pub mod clock;

pub mod progress;

pub mod summary;

pub mod standing;

mod ablation;
pub(crate) mod conclude;
mod finals;
mod held_out;
pub(crate) mod jobs;
mod search;

use std::path::PathBuf;

use r3_archive::model::LaunchId;
use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::evaluate::engine::Prepared;
use r3_replay::evaluate::plan::Regime;
use r3_replay::evaluate::{Candidate, Plan};

pub use ablation::Mattered;
pub use environment::{ArchiveFile, Environment};
pub use evaluate::{Artifact, Ask, Evaluate, EvaluateError};
pub use finals::{Finalist, Finals, HeldOutResult};
pub use launches::{Choice, ChoiceError};
pub use search::End;
pub use settings::Settings;
pub use standing::{Standing, Standings, told_of};
pub use summary::{BestFound, Summary, Utilisation};

pub(crate) use conclude::{Conclude, Configured};
pub(crate) use finals::evaluate as evaluate_rows;

use crate::space::{CandidateError, OptionError, Space};
use crate::store::{Phase, Reason, Store, StoreError, key};
use clock::Clock;
use jobs::Jobs;
use progress::Watch;

/// Name of the result in a run's folder.
pub const BEST: &str = "best.r3t";

/// Why a run stopped before its end. It can go on.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The evaluator.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// The launches.
    #[error(transparent)]
    Launches(#[from] ChoiceError),
    /// A point of the space is no candidate.
    #[error("the space has a point that is no candidate: {0}")]
    Point(#[from] CandidateError),
    /// What is wanted of a space means nothing.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// Something changed since the run began.
    #[error("the run cannot go on: {}. Begin another run, or say --force when old and new results may stand side by side", .0.join("; "))]
    Changed(Vec<String>),
    /// The strategy proposes something else than it did.
    #[error(
        "evaluation {0} of the run is not what the strategy proposes now, so that the run cannot be continued as it was. Begin another run, or say --force"
    )]
    OtherProposals(i64),
    /// The store says that the strategy was told of something that has no outcome.
    #[error(
        "evaluation {0} of the run has no outcome, and the strategy was told of it: the store is damaged"
    )]
    Contradiction(i64),
    /// The machine fails, and no candidate does.
    #[error(
        "{count} candidates in a row could not be judged: {reason}. No candidate was counted as failed; `r3-evolve tune --resume` or `r3-evolve resume` goes on when the machine is well"
    )]
    Machine {
        /// How many.
        count: u64,
        /// What was said.
        reason: String,
    },
    /// The original itself does not do here.
    #[error("the original cannot be used as a baseline: {0}")]
    Baseline(String),
    /// Somebody left.
    #[error("left; what was measured is kept, and --resume goes on")]
    Left,
    /// The result cannot be written.
    #[error("{}: {reason}", path.display())]
    Result {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// How candidates are judged and timed while a search runs.
pub(crate) fn search_plan(settings: &Settings, choice: &Choice, incumbent: Option<f64>) -> Plan {
    let fine = &settings.fine;
    Plan {
        launches: choice.tuned.clone(),
        held_out: choice.gate.clone(),
        screen: fine.screen,
        drop_ratio: fine.drop_ratio,
        least_pairs: fine.least_pairs,
        most_pairs: fine.most_pairs.max(fine.least_pairs),
        incumbent,
        regime: settings.regime.unwrap_or(Regime::Warm),
        allowed: settings.allowed.clone(),
        ..Plan::default()
    }
}

/// How a candidate is judged that may be the best: on every launch, held out or not, and with perturbed inputs. It is not timed.
#[must_use]
pub fn check_plan(settings: &Settings, choice: &Choice) -> Plan {
    Plan {
        launches: choice.tuned.clone(),
        held_out: choice.held_out.clone(),
        perturbed: settings.fine.perturbed.max(1),
        time: false,
        again: true,
        allowed: settings.allowed.clone(),
        ..Plan::default()
    }
}

/// The original's time over the launches that decide, each counting as often as the application does it.
#[must_use]
pub fn original_time(choice: &Choice, prepared: &[Prepared]) -> f64 {
    let time = |launch: LaunchId| {
        let found = prepared.iter().find(|one| one.launch == launch);
        found.map_or(0.0, |one| one.original)
    };
    let weights: f64 = choice.tuned.iter().map(|one| one.weight).sum();
    let sum: f64 = choice
        .tuned
        .iter()
        .map(|one| one.weight * time(one.launch))
        .sum();
    if weights > 0.0 { sum / weights } else { 0.0 }
}

/// What is known before anything is proposed.
#[derive(Clone, Debug, PartialEq)]
pub struct Ground {
    /// The kernel.
    pub kernel: KernelDescription,
    /// Its launches, as the evaluator found them.
    pub prepared: Vec<Prepared>,
    /// Which of them do what.
    pub choice: Choice,
}

/// Launches that are made ready, at most.
const MOST_LAUNCHES: usize = 64;

/// Asks the evaluator about the kernel and makes its launches ready.
pub fn ground(evaluator: &mut dyn Evaluate, settings: &Settings) -> Result<Ground, TuneError> {
    let mut kernel = evaluator.describe()?;
    let recorded = kernel.launches.len();
    if recorded > MOST_LAUNCHES {
        let chosen = launches::representatives(&kernel.launches, MOST_LAUNCHES);
        kernel
            .launches
            .retain(|launch| chosen.contains(&launch.launch));
    }
    let all: Vec<LaunchId> = kernel.launches.iter().map(|launch| launch.launch).collect();
    let prepared = evaluator.prepare(&all)?;
    let reason = |launch: LaunchId| {
        let found = prepared.iter().find(|one| one.launch == launch);
        found.and_then(|one| one.unusable.clone())
    };
    let known = |launch: LaunchId| prepared.iter().any(|one| one.launch == launch);
    let (usable, unusable): (Vec<_>, Vec<_>) = kernel
        .launches
        .iter()
        .cloned()
        .partition(|launch| known(launch.launch) && reason(launch.launch).is_none());
    let reasons = || {
        let each = unusable.iter().map(|launch| {
            let reason = reason(launch.launch).unwrap_or_else(|| "it was not made ready".into());
            (launch.launch, reason)
        });
        launches::told_once(each)
    };
    if usable.is_empty() {
        return Err(ChoiceError::Nothing(reasons()).into());
    }
    let limits = launches::Limits {
        tuned: settings.fine.launches,
        gate: settings.fine.gate,
    };
    let mut choice = launches::choose(&usable, &settings.held_out, limits)?;
    if recorded > MOST_LAUNCHES {
        choice.notes.push(format!(
            "{MOST_LAUNCHES} of {recorded} recorded launches are used: those of the shapes that stand for most"
        ));
    }
    choice.notes.extend(
        reasons()
            .into_iter()
            .map(|reason| format!("not used: {reason}")),
    );
    for launch in &usable {
        let caveats = launch.caveats.iter();
        choice
            .notes
            .extend(caveats.map(|caveat| format!("launch {}: {caveat}", launch.launch)));
    }
    Ok(Ground {
        kernel,
        prepared,
        choice,
    })
}

/// A run that is to be carried to its end.
pub struct Tune<'a> {
    /// Its database, with settings, environment, space and launches in it.
    pub store: &'a mut Store,
    /// What is set.
    pub settings: &'a Settings,
    /// The space.
    pub space: &'a Space,
    /// The kernel and its launches.
    pub ground: &'a Ground,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Whether old points that do not come out again are taken as they are.
    pub forced: bool,
}

impl Tune<'_> {
    /// Searches, measures the best ones at length, says what mattered, and writes the result.
    pub fn run(
        self,
        evaluator: &mut dyn Evaluate,
        watch: &mut dyn Watch,
    ) -> Result<Summary, TuneError> {
        let Self {
            store,
            settings,
            space,
            ground,
            clock,
            forced,
        } = self;
        let counts = ground.kernel.device.counts;
        let fine = &settings.fine;
        let round: i64 = store.get(key::ROUND)?.unwrap_or(0);
        let ended: Option<End> = store.get(key::END)?.flatten();
        let mut jobs = Jobs::new(evaluator, clock, fine.retries, fine.outage);
        store.put(key::PHASE, &Phase::Search)?;
        store.event(clock.unix(), "phase", "search")?;
        let search = search::Search {
            store,
            space,
            settings,
            choice: &ground.choice,
            strategy: crate::strategy::build(settings.strategy, space, settings.seed),
            clock,
            counts,
            round,
            ended,
            forced,
        };
        let (standings, end) = search.run(&mut jobs, watch)?;
        store.put(key::END, &end)?;

        let configure = |_: &Store, standing: &Standing| {
            Ok(Configured {
                point: standing.point.clone(),
                space: space.clone(),
                base: Candidate::default(),
                story: None,
            })
        };
        Conclude {
            store,
            settings,
            ground,
            clock,
            round,
            end,
            strategy: settings.strategy.word(),
            standings: &standings,
            original: space.candidate(&space.original())?,
            given: None,
            configure: &configure,
        }
        .run(&mut jobs, watch)
    }
}

/// How far a run is that is in a store, for those who look at it.
pub fn reached(store: &Store) -> Result<(Phase, Option<Summary>), StoreError> {
    let phase = store.get(key::PHASE)?.unwrap_or(Phase::Search);
    Ok((phase, store.get(key::SUMMARY)?))
}

/// Begins a new round when a search that has ended would go on: somebody had stopped it, or `settings` have other limits than
/// it ended at. Whether it does.
pub fn reopen(store: &Store, settings: &Settings) -> Result<bool, TuneError> {
    let Some(end) = store.get::<Option<End>>(key::END)?.flatten() else {
        return Ok(false);
    };
    let told = store
        .evaluations(Some(Phase::Search))?
        .iter()
        .filter(|row| row.told.is_some() && row.reason == Reason::Proposed)
        .count() as u64;
    let elapsed: f64 = store.get(key::ELAPSED)?.unwrap_or(0.0);
    let before: Settings = store.need(key::SETTINGS)?;
    let budget = &settings.budget;
    let left = budget.evaluations.is_none_or(|most| told < most)
        && budget.seconds.is_none_or(|most| elapsed < most);
    let more = match end {
        End::Stopped => left,
        End::Time | End::Evaluations | End::Variants | End::Cost => {
            left && before.budget != *budget
        }
        End::Stagnation => left && before.budget.stagnation != budget.stagnation,
        End::Exhausted => false,
    };
    if more {
        let round: i64 = store.get(key::ROUND)?.unwrap_or(0);
        store.put(key::ROUND, &(round + 1))?;
        store.put(key::END, &None::<End>)?;
        store.put(key::PHASE, &Phase::Search)?;
    }
    Ok(more)
}

#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
pub(crate) use tests::bed::kernel_for_tests;
