//! What is done with a slot when something has come: outcomes, or a model's answer.

use std::collections::VecDeque;

use r3_models::chat::{Embed, Failure, Message, Question, Request};
use r3_models::settings::Part;
use r3_source::tokens;
use xxhash_rust::xxh3::xxh3_64;

use super::EvolveError;
use super::population::{of, region_text};
use super::progress::Observe;
use super::search::{Awaited, Run, Search};
use super::slot::{By, Ended, Opening, number_of};
use super::variant::{Lineage, Operator, Variant, VariantNumber};
use super::work::{Stage, Work};
use crate::program::Program;
use crate::prompt::{self, failure, reply};
use crate::store::{
    Answered, Evaluation, NewEvaluation, NewVariant, Reason, RequestRow, VariantRow,
};
use crate::tune::jobs::Jobs;

impl Search<'_, '_> {
    /// A variant that came up in a slot.
    pub(super) fn new_variant(
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
                embedding: None,
            },
            evaluations: (work.steps.len() as i64, evaluations),
        }
    }

    /// Stores a variant with its first evaluations, or takes both from the store.
    pub(super) fn make(
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
        self.ask_vector(run, work);
        Ok(())
    }

    /// Asks for the vector of the last variant, where a service makes them.
    fn ask_vector(&mut self, run: &mut Run, work: &Work) {
        let Some(models) = &mut self.models else {
            return;
        };
        let model = models.settings.part(Part::Embedding).next();
        let missing = work.variants.last().filter(|row| row.embedding.is_none());
        if let (Some(model), Some(row)) = (model, missing) {
            let text = region_text(&run.population.program, &row.text);
            let ticket = models.ask.submit(Question::Embed(Embed {
                model: model.name.clone(),
                texts: vec![text],
            }));
            run.tickets
                .insert(ticket, Awaited::Vector(work.row.slot, row.number));
        }
    }

    pub(super) fn add_steps(
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
    pub(super) fn next_batch(
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

    pub(super) fn seed_of(&self, number: VariantNumber) -> u64 {
        let mut bytes = self.shop.base.seed.to_le_bytes().to_vec();
        bytes.extend(number.0.to_le_bytes());
        xxh3_64(&bytes)
    }

    /// The source as given, by one compiler.
    pub(super) fn given_source(&self, program: &Program) -> NewEvaluation {
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
    pub(super) fn ask_model(
        &mut self,
        run: &mut Run,
        work: &mut Work,
        model: &str,
        messages: Vec<Message>,
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
            run.tickets
                .insert(ticket, Awaited::Answer(work.row.slot, work.turn));
        }
        work.answers.push((model.to_owned(), answer));
        Ok(())
    }

    /// Does with a slot what can be done with what has come.
    pub(super) fn advance(
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
                // A compiler that is not here says nothing of the source: the next one is tried.
                if work.steps.iter().any(is_right) {
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
        let budget = run.asking.budget(model);
        let messages = prompt::repair(&work.conversation, &answer, wrong, budget);
        let shared = prompt::shared_prefix(&work.conversation, &messages) as u64;
        work.turn += 1;
        work.before = work.steps.len();
        self.ask_model(run, work, model, messages, shared)
    }
}

/// The first of a line, as many as are wanted.
pub(super) fn take(rows: &mut VecDeque<Evaluation>, count: usize) -> Vec<Evaluation> {
    let count = count.min(rows.len());
    rows.drain(..count).collect()
}

/// Whether an evaluation is right and was timed.
pub(super) fn is_right(step: &Evaluation) -> bool {
    let outcome = step.outcome.as_ref();
    outcome.is_some_and(|outcome| outcome.verdict.is_right() && outcome.score.is_some())
}
