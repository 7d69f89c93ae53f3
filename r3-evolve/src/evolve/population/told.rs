//! What a population learns of a slot.

use r3_replay::evaluate::Verdict;
use r3_replay::evaluate::candidate::CandidateCode;
use r3_source::embed;

use super::{Known, News, Population, is_idle, of, region_text};
use crate::elites::{Described, Elite, Inserted, Seen};
use crate::evolve::effects::Change;
use crate::evolve::slot::{By, Closing, Ended, Opening, Proposal};
use crate::evolve::variant::{IslandNumber, Operator, VariantNumber};
use crate::islands::Paid;
use crate::store::{Evaluation, VariantRow};
use crate::tune::Standing;

impl Population {
    /// Takes in what came of a slot.
    pub(in crate::evolve) fn tell(&mut self, news: &News<'_>) -> Closing {
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
        let mut steps = news.steps.iter().rev();
        let last = steps.find_map(|step| Some((step, step.outcome.as_ref()?)));
        if let Some((last, _)) = last {
            self.take_steps(number, std::slice::from_ref(last));
        }
        self.remember_code(number);
        // It is tried on every launch and with perturbed inputs at once.
        if let (Some(known), Some((step, outcome))) = (self.known.get_mut(&number), last) {
            known.check(step.candidate_number, outcome);
        }
        self.rank(number);
        self.rungs.told(number, 0, self.ratio(number));
        if let Some(elite) = self.elite(number) {
            // Its time is a number: it was measured. So it can be an elite.
            let _ = self.islands.found(&elite);
            self.rungs.entered(number);
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
            let known = matches!(closing.ended, Ended::Duplicate(_));
            let repeats = self.repeats.entry(name.clone()).or_default();
            self.surprises += u64::from(is_idle(*repeats) && !known);
            repeats.0 += 1;
            repeats.1 += u64::from(known);
            self.see_effect(proposal, name, closing);
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

    /// Remembers whether a rewrite changed its parent's machine code.
    fn see_effect(&mut self, proposal: &Proposal, name: &str, closing: &Closing) {
        let unknown = [None, Some(Verdict::Unjudged), Some(Verdict::Cancelled)];
        let Some(known) = closing.variant.and_then(|number| self.get(number)) else {
            return;
        };
        if unknown.contains(&closing.verdict) {
            return;
        }
        let parent = proposal.parents.first().copied();
        let nothing = matches!(known.equal, Some(Seen::Code(other)) if Some(other) == parent);
        let anywhere = Change::anywhere(name, &known.row.lineage.what);
        let here = proposal.site.as_deref();
        let here = here.and_then(|site| u128::from_str_radix(site, 16).ok());
        self.effects.tell(here, anywhere, nothing);
    }

    fn tell_check(&mut self, number: VariantNumber, news: &News<'_>, closing: &mut Closing) {
        self.checking.remove(&number);
        let step = news.steps.first();
        let came = step.and_then(|step| Some((step.candidate_number, step.outcome.as_ref()?)));
        if let (Some((candidate, outcome)), Some(known)) = (came, self.known.get_mut(&number))
            && known.check(candidate, outcome)
        {
            let refused = known.is_refused();
            self.rank(number);
            if refused {
                self.islands.remove(number);
                self.rungs.left(number);
            } else {
                // Where a configuration was left out, its time is that of the next best.
                self.offer(number, news.island);
            }
        }
        self.close(number, closing);
    }

    /// Whether the best is another one now.
    fn see_best(&mut self, closing: &mut Closing) {
        let before = self.best;
        self.best = self.checked.iter().next().and_then(|(_, number)| {
            let checked = self.get(number)?.checked.as_ref()?;
            Some((number, checked.number))
        });
        if self.best != before && self.best.is_some() {
            self.counts.since_better = 0;
        }
        let best = self.best.map(|(number, _)| number);
        closing.best = best.is_some() && best == closing.variant;
    }

    /// Puts a variant in its places, after something of it has changed.
    fn rank(&mut self, number: VariantNumber) {
        let Some(known) = self.known.get(&number) else {
            return;
        };
        let right = known.is_right();
        let time = |one: &Option<Standing>| one.as_ref().map(|one| one.ratio.median);
        let parent = right && known.equal.is_none();
        self.right.set(number, time(&known.best).filter(|_| parent));
        self.unchecked.set(number, known.unchecked());
        self.checked
            .set(number, time(&known.checked).filter(|_| right));
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
        let (start, place) = (news.start.to_vec(), news.place);
        let known = Known::new(row.clone(), news.island, start, equal, described, place);
        self.known.insert(row.number, known);
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
            known.take(step, outcome, place);
        }
        self.rank(number);
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
        self.rank(number);
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
}

/// Whether an evaluation is one of a variant's text.
fn is_of(step: &Evaluation, row: &VariantRow) -> bool {
    matches!(&step.candidate.code, CandidateCode::Source(source) if source.text == row.text)
}
