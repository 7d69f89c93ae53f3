//! A run of a search over source as plain data, for those who look at it: `status`, `report`, `show`.
//!
//! Everything is read from the store, also while the run goes on. Grids, mixes and standings are not in it: the population is told
//! again what the store says that it was told.

use std::collections::BTreeMap;

use r3_models::account::Totals;
use r3_models::chat::{Finish, Spent};
use r3_models::ledger::{self, Book, Lost};
use r3_replay::evaluate::candidate::LaunchChange;
use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::evaluate::{Outcome, Plan, Verdict};
use r3_replay::remix::pairs::Ratio;
use serde::Serialize;

use super::Settings;
use super::population::{Counts, Population};
use super::progress::Load;
use super::slot::{Closing, Ended, Opening};
use super::variant::{IslandNumber, Lineage, Operator, VariantNumber};
use super::workshop::Workshop;
use crate::elites::{Cell, Described, GridView, Seen};
use crate::islands::Occupancy;
use crate::program::Program;
use crate::store::{CandidateNumber, Happened, Phase, Reason, Store, StoreError, key};
use crate::tune::{self, Choice, Environment, Ground, Summary};

mod gathered;

use gathered::{Rows, islands, request_view, tell_again, variants};

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct RunView {
    /// What is set as for `tune`.
    pub base: tune::Settings,
    /// What is set for the search over source.
    pub settings: Settings,
    /// What its results depend on.
    pub environment: Environment,
    /// The kernel.
    pub kernel: KernelDescription,
    /// Its launches.
    pub launches: Choice,
    /// The source, with the compiler that was chosen.
    pub program: Program,
    /// How far it is.
    pub phase: Phase,
    /// What was found, at the end.
    pub summary: Option<Summary>,
    /// Seconds of searching so far, pauses left out.
    pub elapsed: f64,
    /// When it began, in seconds since the Unix epoch.
    pub began_at: f64,
    /// What there was.
    pub counts: Counts,
    /// Where the time goes.
    pub load: Load,
    /// The source as given against the captured binary, as it was measured first.
    pub source: Option<Ratio>,
    /// The variant with the best configuration that was checked. Its view has that configuration.
    pub best: Option<VariantNumber>,
    /// Variants, by number.
    pub variants: Vec<VariantView>,
    /// How the best became better, in the order in which it was told.
    pub timeline: Vec<Better>,
    /// Islands.
    pub islands: Vec<IslandView>,
    /// Slots, in their order.
    pub slots: Vec<SlotView>,
    /// Questions to models.
    pub requests: Vec<RequestView>,
    /// What models took, by name.
    pub models: Totals,
    /// Requests that were sent and of which the run has no answer, by model, with what they can have taken at most. None of it is in
    /// `models`.
    pub unanswered: BTreeMap<String, Lost>,
    /// What became of each model's answers, by name.
    pub answers: BTreeMap<String, Answers>,
    /// What became of each operator's proposals.
    pub operators: BTreeMap<Operator, Answers>,
    /// What became of each rewrite's proposals, by name.
    pub rewrites: BTreeMap<String, Answers>,
    /// What happened, oldest first.
    pub events: Vec<Happened>,
}

/// A variant.
#[derive(Clone, Debug, Serialize)]
pub struct VariantView {
    /// Its number.
    pub number: VariantNumber,
    /// Where it comes from.
    pub lineage: Lineage,
    /// The slot in which it came up, and after which turn of it.
    pub slot: i64,
    /// See `slot`.
    pub turn: i64,
    /// Text of the whole file.
    pub text: String,
    /// How it wants to be launched.
    pub launch: LaunchChange,
    /// How it came out; `None` as long as nobody knows.
    pub verdict: Option<Verdict>,
    /// Why it is not right.
    pub reason: Option<String>,
    /// Its time as a part of the captured binary's, with its best configuration.
    pub ratio: Option<Ratio>,
    /// No ratio nearer to 1 than this is a difference.
    pub noise: Option<f64>,
    /// The best configuration: what differs from the text as it is, `block=128x1x1`.
    pub knobs: Vec<String>,
    /// Number of the candidate that it is in that configuration.
    pub candidate: Option<i64>,
    /// The outcome of that configuration, without samples.
    pub outcome: Option<Outcome>,
    /// Whether it was tried on every launch and with perturbed inputs in that configuration, or failed such a check in any.
    pub checked: bool,
    /// How far it can be relied on.
    pub integrity: Integrity,
    /// The best configuration that passed a check, where that is another one.
    pub checked_with: Option<Checked>,
    /// What it is equal to.
    pub equal: Option<Seen>,
    /// The rung that it has reached.
    pub rung: u32,
    /// What descriptors read.
    pub described: Described,
    /// The cell of its island's grid in which it lies, and whether it is that cell's elite.
    pub cell: Option<(Cell, bool)>,
    /// Everything that was evaluated of it, in order.
    pub evaluations: Vec<EvaluationView>,
    /// When it came up, in seconds since the Unix epoch.
    pub made_at: f64,
}

/// How far a variant can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Integrity {
    /// Nothing of it is right.
    NotRight,
    /// It was right on the launches that decide. It was not tried on all held-out launches, and not with perturbed inputs.
    Screened,
    /// The same, and it passed a check in another configuration.
    CheckedOtherwise,
    /// It was right on every launch, held out or not, and with perturbed inputs, in its best configuration.
    Checked,
    /// It failed that check.
    Refused,
}

impl Integrity {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NotRight => "nothing of it is right",
            Self::Screened => {
                "screened on the launches that decide: not on all held-out launches, and not with perturbed inputs"
            }
            Self::CheckedOtherwise => {
                "screened on the launches that decide, in this configuration; checked in another one"
            }
            Self::Checked => "on every launch, held out or not, and with perturbed inputs",
            Self::Refused => {
                "it failed on every launch, held out or not, and with perturbed inputs"
            }
        }
    }
}

/// A configuration that passed a check.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Number of the candidate.
    pub candidate: i64,
    /// What differs from the text as it is.
    pub knobs: Vec<String>,
    /// Its time as a part of the captured binary's.
    pub ratio: Ratio,
}

/// An evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationView {
    /// Its number.
    pub number: i64,
    /// Its candidate's.
    pub candidate: i64,
    /// Why.
    pub reason: Reason,
    /// What it is part of.
    pub phase: Phase,
    /// What differs from the text as it is.
    pub knobs: Vec<String>,
    /// How it came out; `None` while it is under way.
    pub verdict: Option<Verdict>,
    /// Its time as a part of the captured binary's.
    pub ratio: Option<Ratio>,
    /// Pairs that this stands on.
    pub pairs: Option<u32>,
    /// Why it is not right.
    pub why: Option<String>,
    /// How thoroughly.
    pub plan: Plan,
    /// Milliseconds of compiling, and on the device.
    pub cost: (f64, f64),
}

/// The best became better.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Better {
    /// Seconds since the run began, pauses in it.
    pub seconds: f64,
    /// Evaluations that had an outcome then.
    pub evaluations: u64,
    /// Variants that had been evaluated.
    pub variants: u64,
    /// The variant.
    pub variant: VariantNumber,
    /// Its time.
    pub ratio: Ratio,
}

/// An island.
#[derive(Clone, Debug, Serialize)]
pub struct IslandView {
    /// What is on it.
    pub occupancy: Occupancy,
    /// Its grid.
    pub grid: GridView,
    /// Operators and their shares of its proposals.
    pub operators: Vec<(Operator, f64)>,
    /// Rewrites and their shares of its rewrites.
    pub rewrites: Vec<(String, f64)>,
}

/// A slot.
#[derive(Clone, Debug, Serialize)]
pub struct SlotView {
    /// Its number.
    pub slot: i64,
    /// Its island.
    pub island: IslandNumber,
    /// What it does.
    pub opening: Opening,
    /// What came of it.
    pub closing: Option<Closing>,
    /// When it was opened, in seconds since the Unix epoch.
    pub opened_at: f64,
    /// When the population was told.
    pub told_at: Option<f64>,
}

/// A question to a model.
#[derive(Clone, Debug, Serialize)]
pub struct RequestView {
    /// The slot.
    pub slot: i64,
    /// The how manieth of the slot.
    pub turn: i64,
    /// Its island.
    pub island: IslandNumber,
    /// The model.
    pub model: String,
    /// Bytes of the prompt.
    pub bytes: u64,
    /// Bytes from the beginning that the prompt before on the same island, or the turn before, had too.
    pub shared: u64,
    /// When it was asked.
    pub asked_at: f64,
    /// When the answer came.
    pub done_at: Option<f64>,
    /// What it took.
    pub spent: Option<Spent>,
    /// Why the answer ended.
    pub finish: Option<Finish>,
    /// Why there is no answer.
    pub failure: Option<String>,
}

/// What became of proposals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answers {
    /// Proposals that are over.
    pub proposals: u64,
    /// Those whose variant is right.
    pub right: u64,
    /// Those whose variant came into a cell.
    pub entered: u64,
    /// Those whose variant was the best of the run once.
    pub best: u64,
    /// Those whose text was known.
    pub duplicates: u64,
    /// Those that were no text to compile.
    pub unusable: u64,
    /// Those without an answer.
    pub unanswered: u64,
    /// Variants that are not right, by verdict.
    pub failed: BTreeMap<Verdict, u64>,
    /// Evaluations.
    pub evaluations: u64,
}

impl Answers {
    /// `best`: the variant was the best of the run once.
    fn add(&mut self, closing: &Closing, best: bool) {
        self.proposals += 1;
        self.evaluations += closing.evaluations;
        match &closing.ended {
            Ended::Duplicate(_) => self.duplicates += 1,
            Ended::Unusable(_) => self.unusable += 1,
            Ended::NoAnswer(_) => self.unanswered += 1,
            Ended::Evaluated | Ended::CutOff => match closing.verdict {
                Some(Verdict::Right) => self.right += 1,
                Some(verdict) => *self.failed.entry(verdict).or_default() += 1,
                None => {}
            },
        }
        self.entered += u64::from(closing.entered);
        self.best += u64::from(best);
    }
}

/// Whether a run is one of a search over source.
pub fn is_evolve(store: &Store) -> Result<bool, StoreError> {
    let over_source = store.text(key::EVOLVE)?.is_some();
    if !over_source && store.text(key::SETTINGS)?.is_none() {
        return Err(StoreError::Empty(store.folder().to_owned()));
    }
    Ok(over_source)
}

impl RunView {
    /// Of a store of a search over source.
    pub fn of(store: &Store) -> Result<Self, StoreError> {
        let base: tune::Settings = store.need(key::SETTINGS)?;
        let settings: Settings = store.need(key::EVOLVE)?;
        let kernel: KernelDescription = store.need(key::KERNEL)?;
        let program: Program = store.need(key::PROGRAM)?;
        let ground = Ground {
            kernel: kernel.clone(),
            prepared: store.need(key::PREPARED)?,
            choice: store.need(key::LAUNCHES)?,
        };
        let shop = Workshop {
            settings: &settings,
            base: &base,
            ground: &ground,
        };
        let rows = Rows::read(store)?;
        let counts = kernel.device.counts;
        let mut population = Population::new(program.clone(), &settings, counts, base.seed, None)
            .map_err(|error| store.damaged(error))?;
        let began_at = rows.slots.first().map_or(0.0, |row| row.opened_at);
        let timeline = tell_again(&mut population, &rows, began_at);

        let mut models: Totals = store.get(key::EMBEDDED)?.unwrap_or_default();
        let mut requests = Vec::new();
        for row in &rows.slots {
            for request in rows.requests.get(&row.slot).into_iter().flatten() {
                if let Some(answered) = &request.answer {
                    models.add(&request.model, &answered.spent);
                }
                requests.push(request_view(request, row.island));
            }
        }
        let ledger = store.folder().join(ledger::FILE);
        let book = Book::read(&ledger).map_err(|error| store.damaged(error))?;
        let summary: Option<Summary> = store.get(key::SUMMARY)?;
        let claimed = summary.as_ref().filter(|one| one.claim);
        let claimed = claimed.and_then(|one| Some(CandidateNumber(one.best.as_ref()?.number)));
        let mut view = Self {
            unanswered: book.not_in(&models, true),
            environment: store.need(key::ENVIRONMENT)?,
            launches: ground.choice.clone(),
            phase: store.get(key::PHASE)?.unwrap_or(Phase::Search),
            elapsed: store.get(key::ELAPSED)?.unwrap_or(0.0),
            began_at,
            counts: population.counts.clone(),
            load: store.get(key::BUSY)?.unwrap_or_default(),
            source: population
                .original()
                .and_then(|known| Some(known.tried.first()?.1.score?.ratio)),
            best: population.best().map(|known| known.row.number),
            variants: variants(&population, &shop, &rows, claimed),
            summary,
            timeline,
            islands: islands(&population),
            slots: Vec::new(),
            requests,
            models,
            answers: BTreeMap::new(),
            operators: BTreeMap::new(),
            rewrites: BTreeMap::new(),
            events: store.events()?,
            kernel,
            program,
            base,
            settings,
        };
        for row in rows.slots {
            if let (Opening::Propose(proposal), Some(closing)) = (&row.opening, &row.closing) {
                let best = closing
                    .variant
                    .is_some_and(|number| view.timeline.iter().any(|one| one.variant == number));
                view.operators
                    .entry(proposal.operator)
                    .or_default()
                    .add(closing, best);
                let by = match &proposal.by {
                    super::slot::By::Rewrite(name) => view.rewrites.entry(name.clone()),
                    super::slot::By::Model(choice) => view.answers.entry(choice.model.clone()),
                };
                by.or_default().add(closing, best);
            }
            view.slots.push(SlotView {
                slot: row.slot,
                island: row.island,
                opening: row.opening,
                closing: row.closing,
                opened_at: row.opened_at,
                told_at: row.told_at,
            });
        }
        Ok(view)
    }

    /// A variant by its number.
    #[must_use]
    pub fn variant(&self, number: VariantNumber) -> Option<&VariantView> {
        let place = self
            .variants
            .binary_search_by_key(&number, |one| one.number);
        self.variants.get(place.ok()?)
    }

    /// The variant that a gain is claimed of.
    #[must_use]
    pub fn claimed(&self) -> Option<VariantNumber> {
        let summary = self.summary.as_ref().filter(|one| one.claim)?;
        summary.best.as_ref()?.variant
    }

    /// Part of the prompts' bytes that the prompt before had, too: what a cache of prefixes could serve.
    #[must_use]
    pub fn shared(&self) -> Option<f64> {
        let bytes: u64 = self.requests.iter().map(|one| one.bytes).sum();
        let shared: u64 = self.requests.iter().map(|one| one.shared).sum();
        (bytes > 0).then(|| shared as f64 / bytes as f64)
    }
}
