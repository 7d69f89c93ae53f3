//! What the machine is made of: models, endpoints, questions, attempts.

use std::sync::Arc;
use std::time::Duration;

use super::RARER;
use super::context::Context;
use crate::account::{Most, Taken};
use crate::body::Manner;
use crate::chat::{Embed, Message, Question, Request, Role, Spent, Ticket};
use crate::client::Watch;
use crate::limit::{Limit, Sent};
use crate::retry::Spread;
use crate::settings::{Part, Pauses, Price, Timeouts};
use crate::usage;

/// An outage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Since when.
    pub since: Duration,
    /// For people.
    pub reason: String,
    /// Whether it will not end by itself.
    pub needs_somebody: bool,
    /// When the service is tried next.
    pub next_try: Duration,
    /// How often it was tried.
    pub(super) tries: u32,
    /// Whether it is being tried.
    pub(super) trying: bool,
}

/// A model.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) endpoint: usize,
    pub(super) part: Part,
    pub(super) price: Price,
    pub(super) manner: Manner,
    pub(super) outage: Option<Outage>,
    /// Until then nothing is sent: the service said so.
    pub(super) pause_until: Duration,
    pub(super) faults: u32,
    pub(super) refusals: u32,
    pub(super) busy: u32,
    /// Whether its service has ever said why an answer ended.
    pub(super) says_why: bool,
    /// What the model takes, prompt and answer together, and how its tokens are.
    pub(super) context: Context,
}

/// An endpoint.
pub(super) struct Gate {
    pub(super) parallel: usize,
    pub(super) under_way: usize,
    pub(super) limit: Limit,
    pub(super) attempts: u32,
    pub(super) timeouts: Timeouts,
    pub(super) pauses: Pauses,
}

/// A question that was submitted.
pub(super) struct Job {
    pub(super) lane: usize,
    pub(super) question: Arc<Question>,
    pub(super) ready: Duration,
    pub(super) under_way: bool,
    /// Attempts that failed while the service answered others.
    pub(super) strikes: u32,
    pub(super) refusals: u32,
    /// Attempts that failed in all.
    pub(super) failed: u32,
    /// Whether it is asked for a whole answer, since nothing came of a stream.
    pub(super) whole: bool,
    /// Tokens of an answer that there is room for, as the service counts.
    pub(super) room: Option<u32>,
    /// What the attempts that count took, with the pauses between them.
    pub(super) active: Duration,
    pub(super) spent: Spent,
}

pub(super) struct Attempt {
    /// None for a small question that asks whether the service is there.
    pub(super) ticket: Option<Ticket>,
    pub(super) lane: usize,
    pub(super) question: Arc<Question>,
    pub(super) manner: Manner,
    pub(super) begun: Duration,
    pub(super) longest: Duration,
    pub(super) taken: Taken,
    /// Its number in the ledger, where there is one.
    pub(super) entry: Option<u64>,
    pub(super) sent: Sent,
    pub(super) watch: Arc<Watch>,
}

impl Lane {
    /// The service is down, or still is.
    pub(super) fn down(
        &mut self,
        now: Duration,
        reason: &str,
        needs_somebody: bool,
        after: Duration,
        pauses: &Pauses,
        spread: &mut Spread,
    ) {
        let before = self.outage.take();
        let tries = before.as_ref().map_or(0, |outage| outage.tries) + 1;
        let mut pause = pauses.after(tries, spread);
        if needs_somebody {
            pause *= RARER;
        }
        let next_try = now + pause.max(after);
        self.outage = Some(Outage {
            since: before.as_ref().map_or(now, |outage| outage.since),
            reason: reason.to_owned(),
            needs_somebody,
            next_try,
            tries,
            trying: false,
        });
    }
}

impl Lane {
    /// How a question is asked. `job` is what is known of it from before.
    pub(super) fn manner(&self, question: &Question, job: Option<&Job>) -> Manner {
        let mut manner = self.manner.clone();
        manner.stream &= !job.is_some_and(|job| job.whole);
        manner.room = match question {
            Question::Chat(request) => job
                .and_then(|job| job.room)
                .or_else(|| self.context.room(&request.messages)),
            Question::Embed(_) => None,
        };
        manner
    }
}

impl Attempt {
    /// Until when it is waited for, and what is wrong then.
    pub(super) fn deadline(&self, timeouts: &Timeouts) -> (Duration, String) {
        let whole = (
            self.longest,
            format!("no whole answer within {:.0} s", self.longest.as_secs_f64()),
        );
        let is_whole = matches!(*self.question, Question::Chat(_)) && !self.manner.streams();
        let next = match self.watch.last() {
            Some(last) => (
                last + Timeouts::duration(timeouts.between_tokens),
                format!(
                    "the answer stalled: nothing for {} s",
                    timeouts.between_tokens
                ),
            ),
            // What comes whole begins when it ends.
            None if is_whole => return (self.begun + whole.0, whole.1),
            None => (
                Timeouts::duration(timeouts.first_token),
                format!("nothing of an answer within {} s", timeouts.first_token),
            ),
        };
        let (after, reason) = if next.0 < whole.0 { next } else { whole };
        (self.begun + after, reason)
    }
}

/// About how many tokens a question's prompt is.
pub(super) fn expected(question: &Question) -> u64 {
    match question {
        Question::Chat(request) => usage::of_messages(&request.messages),
        Question::Embed(embed) => embed
            .texts
            .iter()
            .map(|text| usage::of_bytes(text.len() as u64))
            .sum(),
    }
}

/// What a question can take at most when it is asked in a manner.
pub(super) fn most(question: &Question, manner: &Manner, lane: &Lane) -> Most {
    match question {
        Question::Chat(request) => Most::new(
            usage::bound_of_messages(&request.messages),
            u64::from(manner.most_tokens(request)),
            &lane.price,
        ),
        Question::Embed(embed) => {
            let prompt = embed.texts.iter().map(|text| text.len() as u64 + 16).sum();
            Most::new(prompt, 0, &lane.price)
        }
    }
}

/// What is asked to see whether a service is there.
pub(super) fn small_question(model: &str, part: Part) -> Question {
    let model = model.to_owned();
    if part == Part::Embedding {
        return Question::Embed(Embed {
            model,
            texts: vec!["ok".to_owned()],
        });
    }
    Question::Chat(Request {
        model,
        messages: vec![Message {
            role: Role::User,
            content: "Answer with the word OK.".to_owned(),
        }],
        max_tokens: Some(16),
        temperature: None,
        seed: None,
    })
}
