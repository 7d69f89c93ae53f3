//! The search over source.
//!
//! ```text
//!  program ─► the unchanged source, verified ─► islands: choose parents and operator
//!                                                   │            ▲
//!                              prompt ─► model      │            │ told in the order of slots
//!                              rewrite on the tree ─┤            │
//!                                                   ▼            │
//!               novelty ─► screen ─► inner search ─► check ─► finals ─► best.r3t
//! ```
//!
//! - [`variant`], [`slot`]: what is varied, and the pieces of work of which a search consists.
//! - [`settings`]: what a user can set. `workshop`: what stays the same in a run.
//! - [`population`]: what is known: a function of what it was told. [`known`]: what is known of one variant. `ranking`: who is best.
//! - `choose`: what a slot does. `effects`: which rewrites change nothing. `rewriting`, `asking`, `rules`: how a new text is made.
//! - `search`: the loop. `work`: a slot that is open. `opening`, `working`, `telling`: its beginning, what is done with it, its end.
//! - [`check`]: a variant is checked because somebody wants to have it.
//! - `conclude`: from the population to what is claimed. [`view`]: a run, for those who look at it.
//! - [`progress`]: what somebody who watches is shown.
//!
//! # Invariants
//!
//! - What is proposed depends on the seed, the replies of models, and on outcomes, in an order that is in the store: a run that was
//!   killed goes on as if it had not been, and nothing is asked or counted twice.
//! - What fails of the machine or of a model's service is no variant's failure.
//! - Nothing is claimed that was not measured again, in a fresh process, on launches that did not decide.
//! - The best is a variant with a configuration, and both were checked together: on every launch, and with perturbed inputs.
//! - What a slot costs does not grow with the number of slots before it, beyond what is looked up by number.
//! - Nothing waits for one thing while another could be done.

pub mod check;
pub mod known;
pub mod population;
pub mod progress;
pub mod settings;
pub mod slot;
pub mod variant;
pub mod view;
pub mod workshop;

mod asking;
mod choose;
mod conclude;
mod effects;
mod opening;
mod ranking;
mod rewriting;
mod rules;
mod search;
mod show;
mod telling;
mod work;
mod working;

use crate::islands::IslandError;
use crate::program::{Program, ProgramError};
use crate::prompt::HeadError;
use crate::store::{Phase, Store, StoreError, key};
use crate::tune::clock::Clock;
use crate::tune::jobs::Jobs;
use crate::tune::{self, End, Evaluate, EvaluateError, Ground, Summary, TuneError};

pub use search::Models;
pub use settings::Settings;

use progress::Observe;
use workshop::Workshop;

/// Why a search over source stopped before its end. It can go on, but where the source itself does not do.
#[derive(Debug, thiserror::Error)]
pub enum EvolveError {
    /// What can fail in any search.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The islands.
    #[error(transparent)]
    Islands(#[from] IslandError),
    /// The source.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The prompts.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The source as given is not right.
    #[error(
        "the source as given cannot stand for the captured kernel, so that no variant of it can. What came of each compiler:\n{0}"
    )]
    Given(String),
    /// It ended before the first slot was over.
    #[error(
        "the search ended before the source as given was judged, so that nothing is known of it: give it longer with --time, or do not stop it so soon"
    )]
    Early,
    /// Models did not answer for too long.
    #[error(
        "models could not be asked for {seconds:.0} s: {reason}. No candidate was counted as failed; `r3-evolve resume` goes on when they answer, \
         with --models where address or key were wrong. `r3-evolve evolve --no-models` needs none"
    )]
    Models {
        /// For how long.
        seconds: f64,
        /// Why.
        reason: String,
    },
    /// A run that had models has none.
    #[error(
        "the run has asked models, and none is set now: name them with --models, or in the environment"
    )]
    NoModels,
    /// A slot of the store has no text.
    #[error("slot {0} of the run has no text, which is written with it: the store is damaged")]
    NoText(i64),
    /// Somebody left.
    #[error("left; what was measured is kept, and `r3-evolve resume` goes on")]
    Left,
}

impl From<StoreError> for EvolveError {
    fn from(error: StoreError) -> Self {
        Self::Tune(error.into())
    }
}

impl From<EvaluateError> for EvolveError {
    fn from(error: EvaluateError) -> Self {
        Self::Tune(error.into())
    }
}

/// A run that is to be carried to its end.
pub struct Evolve<'a> {
    /// Its database, with everything in it that describes the run.
    pub store: &'a mut Store,
    /// What is set as for `tune`.
    pub base: &'a tune::Settings,
    /// What is set for the search over source.
    pub settings: &'a Settings,
    /// The kernel and its launches.
    pub ground: &'a Ground,
    /// The source as given.
    pub given: Program,
    /// Models, when there are any.
    pub models: Option<Models<'a>>,
    /// Time.
    pub clock: &'a dyn Clock,
}

impl Evolve<'_> {
    /// Searches, measures the best ones at length, says what mattered, and writes the result.
    pub fn run(
        self,
        evaluator: &mut dyn Evaluate,
        watch: &mut dyn Observe,
    ) -> Result<Summary, EvolveError> {
        let Self {
            store,
            base,
            settings,
            ground,
            given,
            models,
            clock,
        } = self;
        let round: i64 = store.get(key::ROUND)?.unwrap_or(0);
        let ended: Option<End> = store.get(key::END)?.flatten();
        let mut jobs = Jobs::new(evaluator, clock, base.fine.retries, base.fine.outage);
        store.put(key::PHASE, &Phase::Search)?;
        store.event(clock.unix(), "phase", "search")?;
        let shop = Workshop {
            settings,
            base,
            ground,
        };
        let found = search::Search {
            store,
            shop: &shop,
            given,
            models,
            clock,
            round,
            ended,
        }
        .run(&mut jobs, watch)?;
        store.put(key::END, &Some(found.end))?;
        conclude::conclude(store, &shop, found, clock, round, &mut jobs, watch)
    }
}

/// Begins a new round when a search that has ended would go on: somebody had stopped it, or it has other limits now than it ended
/// at. Whether it does.
pub fn reopen(
    store: &Store,
    base: &tune::Settings,
    settings: &Settings,
) -> Result<bool, StoreError> {
    let Some(end) = store.get::<Option<End>>(key::END)?.flatten() else {
        return Ok(false);
    };
    let before: tune::Settings = store.need(key::SETTINGS)?;
    let was: Settings = store.need(key::EVOLVE)?;
    let changed = before.budget != base.budget || was.limits != settings.limits;
    let more = match end {
        End::Stopped => true,
        End::Time | End::Evaluations | End::Stagnation | End::Variants | End::Cost => changed,
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

/// Places of built-in rewrites in a source as it is given: name and what each would do.
#[must_use]
pub fn rewrites_of(
    given: &Program,
    kernel: &r3_replay::evaluate::describe::KernelDescription,
    tolerant: bool,
) -> Vec<(String, String)> {
    rewriting::sites_of(given, kernel, tolerant, &given.text)
        .into_iter()
        .map(|site| (site.operator, site.what))
        .collect()
}

#[cfg(test)]
mod tests;
