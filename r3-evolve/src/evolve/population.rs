//! What a search over source knows: every variant with what came of it, the islands, the rungs, what was seen.
//!
//! It is told what came of slots, one after the other, and is a function of that. Nothing of it is stored: whoever goes on with a
//! run, or looks at one, tells it everything again.

use std::collections::{BTreeMap, BTreeSet};

use r3_models::choice::Chooser;
use r3_replay::evaluate::Verdict;
use r3_source::embed;

use super::Settings;
use super::effects::{Change, Effects};
pub use super::known::Known;
use super::ranking::Ranking;
use super::slot::{Ended, Opening};
use super::variant::{IslandNumber, Operator, Variant, VariantNumber};
use crate::elites::Novelty;
use crate::inner::Rungs;
use crate::islands::{IslandError, Islands, LocalBus, Mix};
use crate::program::Program;
use crate::space::Point;
use crate::store::{Answered, CandidateNumber, Evaluation, VariantRow};
use crate::tune::Standing;

mod told;

/// Times after which a rewrite that gave nothing new is tried only when nothing else is left.
const REPEATS: u64 = 4;

/// Whether a rewrite that was told of so often, and gave what was known so often, only repeats.
fn is_idle((told, known): (u64, u64)) -> bool {
    told >= REPEATS && told == known
}

/// How many of what there was.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Slots that were told.
    pub slots: u64,
    /// Evaluations that have an outcome.
    pub evaluations: u64,
    /// Variants that were evaluated, the source as given left out.
    pub variants: u64,
    /// Variants by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Proposals whose text was known.
    pub duplicates: u64,
    /// Proposals of models that were no text to compile.
    pub unusable: u64,
    /// Proposals to which a service gave no answer.
    pub unanswered: u64,
    /// Evaluations since the best became better.
    pub since_better: u64,
}

/// What came of a slot, before the population knows it.
pub(in crate::evolve) struct News<'a> {
    /// Its place in the order in which slots are told.
    pub place: i64,
    pub island: IslandNumber,
    pub opening: &'a Opening,
    pub ended: Ended,
    pub variants: &'a [VariantRow],
    pub steps: &'a [Evaluation],
    pub start: &'a [Point],
    /// Questions to models and what they took.
    pub answers: &'a [(String, Option<Answered>)],
}

/// What a choice changes.
pub(super) struct Choices {
    rungs: Rungs,
    mixes: Vec<(IslandNumber, Mix<Operator>, Mix<String>)>,
}

/// The population.
pub struct Population {
    /// The source that all of it comes from.
    pub program: Program,
    /// Islands.
    pub islands: Islands,
    /// What was seen.
    pub novelty: Novelty,
    /// Rewrites: how often each was told of, and how often its text compiled to code that was known.
    repeats: BTreeMap<String, (u64, u64)>,
    /// How often one of those that had only repeated gave something new.
    surprises: u64,
    /// Which changes left the machine code as it was.
    effects: Effects,
    /// Who gets more evaluations.
    pub rungs: Rungs,
    /// Which model is asked.
    pub chooser: Option<Chooser>,
    /// Counts.
    pub counts: Counts,
    known: BTreeMap<VariantNumber, Known>,
    /// Variants that can be parents.
    right: Ranking,
    /// Variants whose best configuration was not checked.
    unchecked: Ranking,
    /// Variants by their best configuration that was checked.
    checked: Ranking,
    /// The best variant, and its configuration: both were checked together.
    best: Option<(VariantNumber, CandidateNumber)>,
    /// Variants whose check is under way.
    checking: BTreeSet<VariantNumber>,
    /// The built-in vector of the source as given.
    original: Vec<f32>,
    /// A service's; empty where there is none.
    original_vector: Vec<f32>,
}

impl Population {
    /// Nothing was told yet.
    pub fn new(
        program: Program,
        settings: &Settings,
        counts: bool,
        seed: u64,
        chooser: Option<Chooser>,
    ) -> Result<Self, IslandError> {
        let bus = Box::new(LocalBus::new(settings.islands.count));
        let original = embed::embed(&region_text(&program, &program.text));
        Ok(Self {
            islands: Islands::new(&settings.islands, counts, seed, bus)?,
            novelty: Novelty::new(),
            repeats: BTreeMap::new(),
            surprises: 0,
            effects: Effects::default(),
            rungs: Rungs::new(settings.halving.clone()),
            chooser,
            counts: Counts::default(),
            known: BTreeMap::new(),
            right: Ranking::default(),
            unchecked: Ranking::default(),
            checked: Ranking::default(),
            best: None,
            checking: BTreeSet::new(),
            original,
            original_vector: Vec::new(),
            program,
        })
    }

    /// A variant.
    #[must_use]
    pub fn get(&self, number: VariantNumber) -> Option<&Known> {
        self.known.get(&number)
    }

    /// All variants, by number.
    pub fn variants(&self) -> impl Iterator<Item = &Known> {
        self.known.values()
    }

    /// Those that can be parents, the best first.
    pub fn right(&self) -> impl Iterator<Item = VariantNumber> {
        self.right.iter().map(|(_, number)| number)
    }

    /// The variant with the best configuration that was checked.
    #[must_use]
    pub fn best(&self) -> Option<&Known> {
        self.get(self.best?.0)
    }

    /// The best variant's best configuration that was checked. It may have a better one that was not.
    #[must_use]
    pub fn best_checked(&self) -> Option<&Standing> {
        self.best()?.checked.as_ref()
    }

    /// The source as given.
    #[must_use]
    pub fn original(&self) -> Option<&Known> {
        self.get(VariantNumber(1))
    }

    /// The variant whose best configuration may be the best of all and was not checked; the best of those.
    #[must_use]
    pub fn to_be_checked(&self) -> Option<VariantNumber> {
        let limit = self.best_checked();
        let limit = limit.map_or(f64::INFINITY, |best| best.ratio.median);
        self.unchecked
            .iter()
            .take_while(|(median, _)| *median < limit)
            .map(|(_, number)| number)
            .find(|number| !self.checking.contains(number))
    }

    /// Whether a rewrite has only ever given what compiles to code that was known.
    pub(super) fn only_repeats(&self, rewrite: &str) -> bool {
        let repeats = self.repeats.get(rewrite);
        repeats.is_some_and(|repeats| is_idle(*repeats))
    }

    /// Whether a change is expected to leave the machine code as it is.
    pub(super) fn expects_nothing(&self, change: Change) -> bool {
        self.effects.expects_nothing(change)
    }

    /// How often something new came of what was not expected to give it.
    pub(super) fn surprises(&self) -> u64 {
        self.surprises + self.effects.surprises()
    }

    /// A slot was opened: what it takes is taken.
    pub(super) fn opened(&mut self, opening: &Opening, island: IslandNumber) {
        match opening {
            Opening::Check { variant } => {
                self.checking.insert(*variant);
            }
            Opening::Propose(_) => {
                if let Ok(island) = self.islands.island_mut(island) {
                    island.opened();
                }
            }
            Opening::Original | Opening::Promote { .. } => {}
        }
    }

    /// What a choice changes.
    pub(super) fn choices(&self) -> Choices {
        let mixes = self.islands.iter().map(|island| {
            (
                island.number,
                island.operators.clone(),
                island.rewrites.clone(),
            )
        });
        Choices {
            rungs: self.rungs.clone(),
            mixes: mixes.collect(),
        }
    }

    /// As if a choice had not been made.
    pub(super) fn restore(&mut self, choices: Choices) {
        self.rungs = choices.rungs;
        for (number, operators, rewrites) in choices.mixes {
            if let Ok(island) = self.islands.island_mut(number) {
                island.operators = operators;
                island.rewrites = rewrites;
            }
        }
    }

    /// Rounds of migration, as many as are said.
    pub(super) fn migrate(&mut self, rounds: u32) -> Vec<String> {
        let mut problems = Vec::new();
        for _ in 0..rounds {
            let known = &self.known;
            let texts = |number: VariantNumber| {
                let known = known.get(&number)?;
                let point = known.best.as_ref().and_then(|best| best.point.clone());
                Some((known.variant(), point))
            };
            let (moved, errors) = self.islands.migrate(&texts);
            for one in moved {
                if one
                    .inserted
                    .is_some_and(|inserted| inserted.entered.entered())
                {
                    self.rungs.entered(one.number);
                }
            }
            problems.extend(errors.iter().map(ToString::to_string));
        }
        problems
    }
}

/// Text and launch of a row.
pub(super) fn of(row: &VariantRow) -> Variant {
    Variant {
        text: row.text.clone(),
        launch: row.launch,
    }
}

/// What of a text may be changed; all of it where that cannot be said.
pub(super) fn region_text(program: &Program, text: &str) -> String {
    program.regions(text).map_or_else(
        |_| text.to_owned(),
        |regions| regions.texts(text).collect::<Vec<_>>().join("\n"),
    )
}
