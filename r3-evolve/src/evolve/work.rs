//! A slot that is open.

use std::collections::VecDeque;

use r3_models::chat::Message;
use r3_replay::evaluate::{Outcome, Verdict};

use super::population::News;
use super::slot::{Ended, Opening};
use crate::inner::Inner;
use crate::prompt::Target;
use crate::space::Point;
use crate::store::{Answered, Evaluation, EvaluationNumber, RequestRow, SlotRow, VariantRow};

/// How far a slot is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// A model is thinking.
    Asking,
    /// Evaluations are under way.
    Measuring,
    /// It is over.
    Over(Ended),
}

/// What the store has of a slot that was opened before.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub requests: VecDeque<RequestRow>,
    pub variants: VecDeque<VariantRow>,
    pub evaluations: VecDeque<Evaluation>,
}

/// A slot that is open.
pub(super) struct Work {
    pub row: SlotRow,
    pub stage: Stage,
    /// The how manieth answer of a model is worked on.
    pub turn: i64,
    /// Questions to models, by turn: the model and what it answered.
    pub answers: Vec<(String, Option<Answered>)>,
    /// The conversation so far.
    pub conversation: Vec<Message>,
    /// What a model's answer is put into.
    pub target: Option<Target>,
    pub variants: Vec<VariantRow>,
    pub steps: Vec<Evaluation>,
    /// Steps before those of the turn that is worked on.
    pub before: usize,
    /// Upper end of the best one's interval when the slot was opened.
    pub incumbent: Option<f64>,
    /// Points that a new variant begins with.
    pub start: Vec<Point>,
    /// Evaluations that a promotion has left.
    pub left: u32,
    pub inner: Option<Inner>,
    pub stored: Stored,
}

impl Work {
    pub fn new(row: SlotRow, incumbent: Option<f64>, start: Vec<Point>, stored: Stored) -> Self {
        let left = match &row.opening {
            Opening::Promote { evaluations, .. } => *evaluations,
            _ => 0,
        };
        Self {
            row,
            stage: Stage::Measuring,
            turn: 0,
            answers: Vec::new(),
            conversation: Vec::new(),
            target: None,
            variants: Vec::new(),
            steps: Vec::new(),
            before: 0,
            incumbent,
            start,
            left,
            inner: None,
            stored,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    /// Whether the population can be told. `vectors`: a service makes vectors of texts.
    pub fn is_ready(&self, vectors: bool) -> bool {
        let whole = !vectors || self.variants.iter().all(|row| row.embedding.is_some());
        self.is_over() && whole
    }

    /// An outcome came. Whether it belongs here.
    pub fn take(&mut self, number: EvaluationNumber, outcome: Outcome) -> bool {
        let step = self.steps.iter_mut().find(|step| step.number == number);
        if let Some(step) = step {
            step.outcome = Some(outcome);
            return true;
        }
        false
    }

    /// Whether all evaluations that were asked for have an outcome.
    pub fn is_measured(&self) -> bool {
        self.steps.iter().all(|step| step.outcome.is_some())
    }

    /// Outcomes of the turn that is worked on.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        let steps = self.steps.iter().skip(self.before);
        steps.filter_map(|step| step.outcome.as_ref())
    }

    /// Whether an outcome of this turn is right.
    pub fn is_right(&self) -> bool {
        self.outcomes().any(|outcome| outcome.verdict.is_right())
    }

    /// Whether the machine judged nothing of it, so that there is nothing to be told.
    pub fn is_unjudged(&self) -> bool {
        let mut outcomes = self.steps.iter().filter_map(|step| step.outcome.as_ref());
        !self.steps.is_empty() && outcomes.all(|outcome| outcome.verdict == Verdict::Unjudged)
    }

    /// Everything that the store has, as it is: for a slot that was told.
    pub fn as_stored(&mut self, ended: Ended) {
        self.steps = self.stored.evaluations.drain(..).collect();
        self.variants = self.stored.variants.drain(..).collect();
        self.answers = self
            .stored
            .requests
            .drain(..)
            .map(|request| (request.model, request.answer))
            .collect();
        self.stage = Stage::Over(ended);
    }

    /// What the population is told.
    pub fn news(&self, place: i64) -> News<'_> {
        let ended = match &self.stage {
            Stage::Over(ended) => ended.clone(),
            Stage::Asking | Stage::Measuring => Ended::CutOff,
        };
        News {
            place,
            island: self.row.island,
            opening: &self.row.opening,
            ended,
            variants: &self.variants,
            steps: &self.steps,
            start: &self.start,
            answers: &self.answers,
        }
    }
}
