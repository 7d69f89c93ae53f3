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
//! - `search`: proposals, outcomes, budgets. `jobs`: what is under way, and outages. `standing`: who is best.
//! - `finals`, `held_out`, [`statistics`]: what may be claimed. `ablation`: what mattered.
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

mod ablation;
mod finals;
mod held_out;
mod jobs;
mod search;
mod standing;

use std::path::PathBuf;

use r3_archive::model::LaunchId;
use r3_replay::evaluate::Plan;
use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::evaluate::engine::Prepared;
use r3_replay::evaluate::plan::Regime;

pub use ablation::Mattered;
pub use environment::{ArchiveFile, Environment};
pub use evaluate::{Artifact, Ask, Evaluate, EvaluateError};
pub use finals::{Finalist, Finals, HeldOutResult};
pub use launches::{Choice, ChoiceError};
pub use search::End;
pub use settings::Settings;
pub use standing::told_of;
pub use summary::{BestFound, Summary, Utilisation};

use crate::space::{CandidateError, Space};
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
        "{count} candidates in a row could not be judged: {reason}. No candidate was counted as failed; the run can go on with --resume when the machine is well"
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

        store.put(key::PHASE, &Phase::Final)?;
        store.event(clock.unix(), "phase", "final")?;
        let faster = standings.faster();
        let mut finals = finals::Final {
            store,
            settings,
            choice: &ground.choice,
            prepared: &ground.prepared,
            clock,
            counts,
            round,
            hurry: end == End::Stopped,
            original: space.candidate(&space.original())?,
        }
        .run(&faster, &mut jobs, watch)?;
        let standing = |number| faster.iter().find(|one| one.number == number).copied();
        let floor = finals.floor;
        let mut code = None;
        // The best, as long as launches that did not decide do not speak against it.
        while let Some(finalist) = finals
            .winner
            .and_then(|place| finals.finalists.get_mut(place))
        {
            let Some(standing) = standing(finalist.number) else {
                break;
            };
            let rows = store.rows(&[finalist.evaluation])?;
            let Some(row) = rows.into_iter().next() else {
                break;
            };
            let artifact = jobs.artifact(&standing.candidate, &row.plan, watch)?;
            held_out::HeldOutTimes {
                store,
                clock,
                round,
            }
            .run(
                finalist,
                &standing.candidate,
                &row.plan,
                &artifact,
                &mut jobs,
                watch,
            )?;
            finalist.refused = finalist.fails_elsewhere(floor);
            if finalist.refused.is_none() {
                code = Some((row, artifact));
                break;
            }
            finals.choose();
        }

        store.put(key::PHASE, &Phase::Ablation)?;
        store.event(clock.unix(), "phase", "ablation")?;
        let winner = finals.winner.and_then(|place| finals.finalists.get(place));
        let won = winner.and_then(|winner| {
            let standing = standing(winner.number)?;
            Some((winner.clone(), standing, winner.ratio?))
        });
        let mut mattered = Vec::new();
        if let Some((winner, standing, ratio)) = &won
            && fine.ablation
            && end != End::Stopped
            && let Some(point) = &standing.point
        {
            mattered = ablation::Ablation {
                store,
                space,
                settings,
                choice: &ground.choice,
                clock,
                round,
            }
            .run(winner.number, point, ratio.median, &mut jobs, watch)?;
        }
        let load: (f64, f64) = store.get(key::LOAD)?.unwrap_or_default();
        let mut summary = summary(
            settings,
            space,
            ground,
            &standings,
            end,
            finals,
            mattered,
            Utilisation {
                compile: load.0,
                device: load.1,
            },
        );
        summary.seconds = store.get(key::ELAPSED)?.unwrap_or(0.0);
        if jobs.outages > 0 {
            summary.notes.push(format!(
                "the evaluator was gone {}, for {:.0} s in all; that time does not count",
                if jobs.outages == 1 {
                    "once".to_owned()
                } else {
                    format!("{} times", jobs.outages)
                },
                jobs.paused
            ));
        }
        let path = store.folder().join(BEST);
        match &code {
            Some((row, artifact)) => {
                let at = clock.unix();
                crate::result::write(&path, store, ground, row, artifact, &summary, at)?;
            }
            // What an earlier round found and this one does not confirm is not left as its result.
            None => {
                let _ = std::fs::remove_file(&path);
            }
        }
        store.put(key::SUMMARY, &summary)?;
        store.put(key::PHASE, &Phase::Done)?;
        store.event(clock.unix(), "phase", "done")?;
        Ok(summary)
    }
}

#[allow(
    clippy::too_many_arguments,
    reason = "all of a run comes together here, once"
)]
fn summary(
    settings: &Settings,
    space: &Space,
    ground: &Ground,
    standings: &standing::Standings,
    end: End,
    finals: Finals,
    mattered: Vec<Mattered>,
    utilisation: Utilisation,
) -> Summary {
    let winner = finals.winner.and_then(|place| finals.finalists.get(place));
    // Without a winner: what came nearest.
    let nearest = winner.or_else(|| {
        let right = finals.finalists.iter().filter(|one| one.verdict.is_right());
        right.min_by(|a, b| {
            let median = |one: &Finalist| one.ratio.map_or(f64::INFINITY, |ratio| ratio.median);
            median(a).total_cmp(&median(b))
        })
    });
    let standing = match nearest {
        Some(finalist) => standings
            .faster()
            .into_iter()
            .find(|one| one.number == finalist.number),
        None => standings.best(),
    };
    let best = standing.map(|standing| BestFound {
        candidate: standing.candidate.id().to_string(),
        number: standing.number.0,
        ratio: nearest
            .and_then(|finalist| finalist.ratio)
            .unwrap_or(standing.ratio),
        noise: standing.noise,
        knobs: standing.point.as_ref().map_or_else(Vec::new, |point| {
            let knobs = space.knobs(point);
            knobs
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect()
        }),
        found_at: standing.found_at,
    });
    let reason = match (winner, nearest) {
        (Some(winner), _) => claimed(winner, &finals),
        (None, Some(nearest)) => format!(
            "no gain found: of the best {}, the nearest to one was not claimed since {}",
            finals.finalists.len(),
            nearest.refused.as_deref().unwrap_or("another was better")
        ),
        (None, None) if standings.right() == 0 => {
            "no gain found: nothing was right, not even the original".into()
        }
        (None, None) if finals.finalists.is_empty() => {
            "no gain found: nothing was faster than the original".into()
        }
        (None, None) => format!(
            "no gain found: none of the best {} was right when it was measured at length",
            finals.finalists.len()
        ),
    };
    let original = original_time(&ground.choice, &ground.prepared);
    Summary {
        kernel: ground.kernel.name.clone(),
        readable: ground.kernel.readable.clone(),
        device: ground.kernel.device.name.clone(),
        unit: if ground.kernel.device.counts {
            "cost"
        } else {
            "nanoseconds"
        }
        .to_owned(),
        strategy: settings.strategy.word().to_owned(),
        seed: settings.seed,
        evaluations: standings.told,
        repeated: standings.repeated,
        seconds: 0.0,
        end,
        verdicts: standings
            .verdicts
            .iter()
            .map(|(verdict, count)| (verdict.word().to_owned(), *count))
            .collect(),
        held_out: nearest.map_or_else(Vec::new, |finalist| finalist.held_out.clone()),
        claim: winner.is_some(),
        reason,
        original_ns: original,
        best_ns: best.as_ref().map(|best| best.ratio.median * original),
        best,
        utilisation,
        finals: (!finals.finalists.is_empty()).then_some(finals),
        mattered,
        notes: ground.choice.notes.clone(),
    }
}

/// What a claim stands on.
fn claimed(winner: &Finalist, finals: &Finals) -> String {
    let guarded = winner
        .held_out
        .iter()
        .filter(|one| one.verdict == r3_replay::evaluate::Verdict::Guarded)
        .count();
    let mut text = format!(
        "measured again in a fresh process among the best {}; right on every launch",
        finals.finalists.len()
    );
    match (winner.held_out.len(), guarded) {
        (0, _) => text.push_str(", of which none was held out"),
        (all, 0) => text.push_str(&format!(", {all} of them held out")),
        (all, guarded) => text.push_str(&format!(
            ", {all} of them held out, on {guarded} of which the original would run, as guards exclude them"
        )),
    }
    text
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
        End::Time | End::Evaluations => left && before.budget != *budget,
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
mod tests;

#[cfg(test)]
pub(crate) use tests::bed::kernel_for_tests;
