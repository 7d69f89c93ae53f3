//! What a search over source knows: every variant with what came of it, the islands, the rungs, what was seen.
//!
//! It is told what came of slots, one after the other, and is a function of that. Nothing of it is stored: whoever goes on with a
//! run, or looks at one, tells it everything again.

use std::collections::{BTreeMap, BTreeSet};

use r3_models::choice::Chooser;
use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::{Outcome, Verdict};
use r3_source::embed;

use super::Settings;
use super::slot::{By, Closing, Ended, Opening, Proposal};
use super::variant::{IslandNumber, Operator, Variant, VariantNumber};
use crate::elites::{Described, Elite, Inserted, Novelty, Seen};
use crate::inner::Rungs;
use crate::islands::{IslandError, Islands, LocalBus, Mix, Paid};
use crate::program::Program;
use crate::space::Point;
use crate::store::{Answered, Evaluation, VariantRow};
use crate::tune::{Standing, told_of};

/// Times after which a rewrite that gave nothing new is tried only when nothing else is left.
const REPEATS: u64 = 4;

/// A variant and what is known of it.
#[derive(Clone, Debug)]
pub struct Known {
    /// What it is.
    pub row: VariantRow,
    /// Where it was made.
    pub island: IslandNumber,
    /// Points of its parents that its search begins with.
    pub start: Vec<Point>,
    /// Every configuration that was tried, in the order in which the population was told, without samples.
    pub tried: Vec<(Option<Point>, Outcome)>,
    /// The best configuration.
    pub best: Option<Standing>,
    /// What came of it.
    pub outcome: Option<Outcome>,
    /// How the variant came out.
    pub verdict: Verdict,
    /// Why it is not right.
    pub reason: Option<String>,
    /// The rung that it has reached.
    pub rung: u32,
    /// Whether it was tried on every launch and with perturbed inputs.
    pub checked: bool,
    /// What it is equal to.
    pub equal: Option<Seen>,
    /// What descriptors read.
    pub described: Described,
    /// Its place in the order in which the population was told.
    pub told: i64,
}

impl Known {
    /// Whether those knew of it who began when so many slots had been told.
    pub(super) fn told_before(&self, after: i64) -> bool {
        self.told < after
    }

    /// Text and launch.
    #[must_use]
    pub fn variant(&self) -> Variant {
        Variant {
            text: self.row.text.clone(),
            launch: self.row.launch,
        }
    }

    /// Whether it can be a parent.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.verdict.is_right() && self.best.is_some()
    }
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
pub(super) struct News<'a> {
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
    /// Who gets more evaluations.
    pub rungs: Rungs,
    /// Which model is asked.
    pub chooser: Option<Chooser>,
    /// Counts.
    pub counts: Counts,
    known: BTreeMap<VariantNumber, Known>,
    /// The best variant that was checked.
    best: Option<VariantNumber>,
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
            rungs: Rungs::new(settings.halving.clone()),
            chooser,
            counts: Counts::default(),
            known: BTreeMap::new(),
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

    /// The best variant that was checked.
    #[must_use]
    pub fn best(&self) -> Option<&Known> {
        self.get(self.best?)
    }

    /// The source as given.
    #[must_use]
    pub fn original(&self) -> Option<&Known> {
        self.get(VariantNumber(1))
    }

    /// The variant that may be the best and was not checked; the best of those.
    #[must_use]
    pub fn to_be_checked(&self) -> Option<VariantNumber> {
        let limit = self.best().and_then(|best| best.best.as_ref());
        let limit = limit.map_or(f64::INFINITY, |best| best.ratio.median);
        self.known
            .values()
            .filter(|known| known.is_right() && !known.checked && known.equal.is_none())
            .filter(|known| !self.checking.contains(&known.row.number))
            .filter_map(|known| {
                let dropped = known.outcome.as_ref()?.score?.dropped;
                let median = known.best.as_ref()?.ratio.median;
                (!dropped && median < limit).then_some((median, known.row.number))
            })
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            .map(|(_, number)| number)
    }

    /// Whether a rewrite has only ever given what compiles to code that was known.
    pub(super) fn only_repeats(&self, rewrite: &str) -> bool {
        let repeats = self.repeats.get(rewrite);
        repeats.is_some_and(|(told, known)| *told >= REPEATS && told == known)
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

    /// Takes in what came of a slot.
    pub(super) fn tell(&mut self, news: &News<'_>) -> Closing {
        let mut closing = Closing::new(news.ended.clone());
        closing.evaluations = news
            .steps
            .iter()
            .filter(|row| row.outcome.is_some())
            .count() as u64;
        self.counts.slots += 1;
        self.counts.evaluations += closing.evaluations;
        self.counts.since_better += closing.evaluations;
        match news.opening {
            Opening::Original => self.tell_original(news, &mut closing),
            Opening::Propose(proposal) => self.tell_proposal(news, proposal, &mut closing),
            Opening::Promote { promotion, .. } => {
                let number = promotion.variant;
                self.take_steps(number, news.steps);
                if let Some(known) = self.known.get_mut(&number) {
                    known.rung = promotion.rung;
                }
                let ratio = self.ratio(number);
                self.rungs.told(number, promotion.rung, ratio);
                self.offer(number, news.island);
                self.close(number, &mut closing);
            }
            Opening::Check { variant } => self.tell_check(*variant, news, &mut closing),
        }
        self.see_best(&mut closing);
        closing
    }

    fn tell_original(&mut self, news: &News<'_>, closing: &mut Closing) {
        let Some(row) = news.variants.first() else {
            return;
        };
        let number = row.number;
        self.add(row, news);
        // Of several compilers, the last one is the one that was taken.
        if let Some(last) = news.steps.iter().rev().find(|step| step.outcome.is_some()) {
            self.take_steps(number, std::slice::from_ref(last));
        }
        self.remember_code(number);
        if let Some(known) = self.known.get_mut(&number) {
            known.checked = true;
        }
        self.rungs.told(number, 0, self.ratio(number));
        if let Some(elite) = self.elite(number) {
            // Its time is a number: it was measured. So it can be an elite.
            let _ = self.islands.found(&elite);
            self.rungs.entered(number);
            self.best = Some(number);
        }
        self.close(number, closing);
    }

    fn tell_proposal(&mut self, news: &News<'_>, proposal: &Proposal, closing: &mut Closing) {
        let mut spent = 0.0;
        for (_, answer) in news.answers {
            spent += answer.as_ref().map_or(0.0, |answer| answer.spent.cost);
        }
        let cost = closing.evaluations.max(1) as f64;
        match &news.ended {
            Ended::Duplicate(_) => self.counts.duplicates += 1,
            Ended::Unusable(_) => self.counts.unusable += 1,
            Ended::NoAnswer(_) => self.counts.unanswered += 1,
            Ended::Evaluated | Ended::CutOff => {}
        }
        let mut inserted = None;
        for row in news.variants {
            let number = row.number;
            self.add(row, news);
            let steps: Vec<Evaluation> = news
                .steps
                .iter()
                .filter(|step| is_of(step, row))
                .cloned()
                .collect();
            self.take_steps(number, &steps);
            self.remember_code(number);
            let verdict = self.get(number).map(|known| known.verdict);
            match verdict {
                Some(Verdict::Unjudged | Verdict::Cancelled) | None => self.novelty.forget(number),
                Some(verdict) => {
                    self.counts.variants += 1;
                    *self.counts.verdicts.entry(verdict).or_default() += 1;
                }
            }
            self.rungs.told(number, 0, self.ratio(number));
            inserted = self.offer(number, news.island).or(inserted);
        }
        if let Some(row) = news.variants.last() {
            self.close(row.number, closing);
            if let Some(Seen::Code(_) | Seen::Text(_) | Seen::Tokens(_)) =
                self.get(row.number).and_then(|known| known.equal)
            {
                self.counts.duplicates += 1;
            }
        }
        if let By::Rewrite(name) = &proposal.by {
            let repeats = self.repeats.entry(name.clone()).or_default();
            repeats.0 += 1;
            repeats.1 += u64::from(matches!(closing.ended, Ended::Duplicate(_)));
        }
        closing.entered = inserted.as_ref().is_some_and(|one| one.entered.entered());
        // Nobody is paid for what a service did.
        if matches!(news.ended, Ended::NoAnswer(_)) {
            return;
        }
        let paid = match (&inserted, closing.ratio) {
            (Some(inserted), Some(ratio)) => Paid::of(inserted, ratio.median, cost),
            _ => Paid::nothing(cost),
        };
        if let Ok(island) = self.islands.island_mut(news.island) {
            match &proposal.by {
                By::Rewrite(name) => {
                    island.rewrites.tell(name, paid);
                    island.operators.tell(&Operator::Rewrite, paid);
                }
                By::Model(_) => island.operators.tell(&proposal.operator, paid),
            }
        }
        if let (By::Model(choice), Some(chooser)) = (&proposal.by, &mut self.chooser) {
            let right = closing.verdict == Some(Verdict::Right);
            let best = inserted.as_ref().is_some_and(|one| one.best);
            let worth = match (best, closing.entered, right) {
                (true, ..) => 1.0,
                (_, true, _) => 0.5,
                (.., true) => 0.2,
                _ => 0.0,
            };
            chooser.tell(&choice.model, worth, spent);
        }
    }

    fn tell_check(&mut self, number: VariantNumber, news: &News<'_>, closing: &mut Closing) {
        self.checking.remove(&number);
        let outcome = news.steps.first().and_then(|step| step.outcome.clone());
        if let (Some(outcome), Some(known)) = (outcome, self.known.get_mut(&number)) {
            match outcome.verdict {
                Verdict::Right => known.checked = true,
                // Says nothing of the variant: it may be checked again.
                Verdict::Unjudged | Verdict::Cancelled => {}
                verdict => {
                    known.checked = true;
                    known.verdict = verdict;
                    known.reason = outcome.reason.clone();
                    self.islands.remove(number);
                    self.rungs.left(number);
                }
            }
        }
        self.close(number, closing);
    }

    /// Whether the best is another one now.
    fn see_best(&mut self, closing: &mut Closing) {
        let time = |known: &Known| known.best.as_ref().map(|best| best.ratio.median);
        let before = self.best;
        self.best = self
            .known
            .values()
            .filter(|known| known.is_right() && known.checked)
            .filter_map(|known| Some((time(known)?, known.row.number)))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            .map(|(_, number)| number);
        if self.best != before && self.best.is_some() {
            self.counts.since_better = 0;
        }
        closing.best = self.best.is_some() && self.best == closing.variant;
    }

    fn add(&mut self, row: &VariantRow, news: &News<'_>) {
        let fingerprint = u128::from_str_radix(&row.fingerprint, 16).unwrap_or(0);
        let variant = of(row);
        let equal = self
            .novelty
            .seen(&variant, fingerprint)
            .filter(|seen| seen.number() != row.number);
        self.novelty.add(row.number, &variant, fingerprint);
        let text = region_text(&self.program, &row.text);
        if row.number == VariantNumber(1) {
            self.original_vector = row.embedding.clone().unwrap_or_default();
        }
        // Where a service made no vector of either text, the built-in one says how far they are apart.
        let distance = match &row.embedding {
            Some(vector) if !vector.is_empty() && vector.len() == self.original_vector.len() => {
                embed::distance(&self.original_vector, vector)
            }
            _ => embed::distance(&self.original, &embed::embed(&text)),
        };
        let described = Described {
            tokens: r3_source::tokens::count(&text) as u64,
            distance,
            behaviour: None,
        };
        self.known.insert(
            row.number,
            Known {
                row: row.clone(),
                island: news.island,
                start: news.start.to_vec(),
                tried: Vec::new(),
                best: None,
                outcome: None,
                verdict: Verdict::Unjudged,
                reason: None,
                rung: 0,
                checked: false,
                equal,
                described,
                told: news.place,
            },
        );
    }

    /// Outcomes of a variant, in the order of steps.
    fn take_steps(&mut self, number: VariantNumber, steps: &[Evaluation]) {
        let place = self.counts.evaluations;
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        for step in steps {
            let Some(outcome) = &step.outcome else {
                continue;
            };
            let mut outcome = outcome.clone();
            for launch in &mut outcome.launches {
                for timing in &mut launch.times {
                    timing.samples.clear();
                }
            }
            known.take(step, &outcome, place);
            known.tried.push((step.point.clone(), outcome));
        }
    }

    fn remember_code(&mut self, number: VariantNumber) {
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        // The first evaluation is the text without options of an inner search.
        let image = known
            .tried
            .first()
            .and_then(|(_, outcome)| outcome.code.as_ref())
            .map(|code| code.image.clone())
            .unwrap_or_default();
        let seen = self.novelty.code(number, &known.variant(), &image);
        known.equal = known.equal.or(seen);
    }

    fn ratio(&self, number: VariantNumber) -> Option<f64> {
        let known = self.get(number)?;
        if !known.is_right() || known.equal.is_some() {
            return None;
        }
        known.best.as_ref().map(|best| best.ratio.median)
    }

    fn elite(&self, number: VariantNumber) -> Option<Elite> {
        let known = self.get(number)?;
        let best = known.best.as_ref().filter(|_| known.is_right())?;
        // What only repeats another one is no elite beside it.
        if known.equal.is_some() {
            return None;
        }
        let code = known.outcome.as_ref()?.code.as_ref();
        Some(Elite {
            number,
            ratio: best.ratio,
            described: Described {
                behaviour: code.and_then(|code| code.behaviour.clone()),
                ..known.described.clone()
            },
        })
    }

    /// Offers a variant, or its better time, to its island.
    fn offer(&mut self, number: VariantNumber, island: IslandNumber) -> Option<Inserted> {
        let elite = self.elite(number)?;
        let home = self.get(number).map_or(island, |known| known.island);
        let inserted = self.islands.insert(home, elite).ok()?;
        if inserted.entered.entered() {
            self.rungs.entered(number);
        }
        for displaced in &inserted.displaced {
            let elsewhere = self
                .islands
                .iter()
                .any(|island| island.grid.is_elite(*displaced));
            if !elsewhere {
                self.rungs.left(*displaced);
            }
        }
        Some(inserted)
    }

    fn close(&self, number: VariantNumber, closing: &mut Closing) {
        let Some(known) = self.get(number) else {
            return;
        };
        closing.variant = Some(number);
        closing.verdict = Some(known.verdict);
        closing.reason = known.reason.clone();
        closing.ratio = known.best.as_ref().map(|best| best.ratio);
        if let (Some(seen), Ended::Evaluated) = (known.equal, &closing.ended) {
            closing.ended = Ended::Duplicate(seen);
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

impl Known {
    fn take(&mut self, step: &Evaluation, outcome: &Outcome, place: u64) {
        let first = self.tried.is_empty();
        let worse = self.verdict == Verdict::Unjudged || self.verdict == Verdict::Cancelled;
        if told_of(outcome).is_none() && !first {
            return;
        }
        let score = outcome.score.filter(|_| outcome.verdict.is_right());
        let Some(score) = score else {
            if self.best.is_none() && (first || worse) {
                self.verdict = match outcome.verdict {
                    // Right, and nobody could say how fast.
                    Verdict::Right => Verdict::CannotRun,
                    verdict => verdict,
                };
                self.reason = outcome.reason.clone();
                self.outcome = Some(outcome.clone());
            }
            return;
        };
        let worth = |dropped: bool, median: f64| (u8::from(dropped), median);
        let new = worth(score.dropped, score.ratio.median);
        let old = self
            .best
            .as_ref()
            .zip(self.outcome.as_ref())
            .map(|(best, outcome)| {
                let dropped = outcome.score.is_some_and(|score| score.dropped);
                worth(dropped, best.ratio.median)
            });
        if old.is_some_and(|old| old <= new) {
            return;
        }
        self.verdict = Verdict::Right;
        self.reason = None;
        self.best = Some(Standing {
            number: step.candidate_number,
            found: step.number,
            found_at: place,
            candidate: step.candidate.clone(),
            point: step.point.clone(),
            measured: vec![score.ratio],
            ratio: score.ratio,
            noise: score.noise,
            image: outcome
                .code
                .as_ref()
                .map_or_else(String::new, |code| code.image.clone()),
            variant: Some(self.row.number),
        });
        self.outcome = Some(outcome.clone());
    }
}

/// Whether an evaluation is one of a variant's text.
fn is_of(step: &Evaluation, row: &VariantRow) -> bool {
    matches!(&step.candidate.code, CandidateCode::Source(source) if source.text == row.text)
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
