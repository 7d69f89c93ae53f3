//! Questions, answers, and who can be asked.
//!
//! Whoever searches sees one thing of all this: [`Ask`]. A question is submitted and gets a ticket; some time later the ticket comes
//! back with an answer, or with a failure that belongs to the question. What fails of the service does not come back: the question
//! waits until the service is there again, and meanwhile [`Ask::state`] says what is wrong.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::account::{Cap, Totals};

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What never changes.
    System,
    /// What is asked.
    User,
    /// What was answered.
    Assistant,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: String,
}

/// A conversation that a model is to go on with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The model, by its name in the settings.
    pub model: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Tokens of the answer at most; the model's own setting where none is given.
    pub max_tokens: Option<u32>,
    /// How freely it answers; the model's own setting where none is given.
    pub temperature: Option<f64>,
    /// Seed, for services that take one.
    pub seed: Option<u64>,
}

/// Texts whose vectors are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embed {
    /// The model, by its name in the settings.
    pub model: String,
    /// The texts.
    pub texts: Vec<String>,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// Go on with a conversation.
    Chat(Request),
    /// Vectors of texts.
    Embed(Embed),
}

impl Question {
    /// The model that is asked, by its name in the settings.
    pub fn model(&self) -> &str {
        match self {
            Self::Chat(request) => &request.model,
            Self::Embed(embed) => &embed.model,
        }
    }
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Of these, so many were served from the service's cache.
    pub cached: u64,
    /// Tokens of the answer, thoughts included.
    pub completion: u64,
    /// Whether R3 estimated them from the bytes, as the service did not say.
    pub estimated: bool,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was complete.
    Stop,
    /// It was cut off at the number of tokens.
    Length,
    /// The service did not want to answer.
    Filtered,
    /// Something else, or nothing was said.
    Other,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What was answered.
    pub text: String,
    /// What the model thought before, where the service shows it. Not part of the answer.
    pub thoughts: String,
    /// Why it ended.
    pub finish: Finish,
    /// What the answer took; attempts that failed are in [`Spent`] alone.
    pub usage: Usage,
    /// The name under which the service answered: it may have sent a request on.
    pub served_by: Option<String>,
    /// Seconds from sending the attempt that succeeded to its last byte.
    pub seconds: f64,
    /// Seconds until the first token, where the answer was streamed.
    pub first_token: Option<f64>,
    /// Attempts that failed before.
    pub retries: u32,
}

/// What a question gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The conversation goes on with this.
    Reply(Reply),
    /// A vector for each text, in their order.
    Vectors(Vec<Vec<f32>>),
}

/// Why a question has no answer. What fails of a service is not here: see [`State`].
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum Failure {
    /// No such model in the settings.
    #[error("no model of the settings is called {name:?}; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The question was not sent: it could have passed a budget.
    #[error("not sent: it could pass the budget of {cap}")]
    Budget {
        /// Which one.
        cap: Cap,
    },
    /// The question was not sent: it could not be written down.
    #[error("not sent, since what is sent cannot be written down: {message}")]
    Ledger {
        /// What is wrong with the file.
        message: String,
    },
    /// Longer than what the model can take.
    #[error(
        "longer than what {model} can take: {message}. Name its `context` (tokens) in the models' file, or by R3_MODEL_CONTEXT, and \
         prompts are made short enough; or start its server with a longer one"
    )]
    TooLong {
        /// The model.
        model: String,
        /// What the service said.
        message: String,
    },
    /// The service does not take this question, now or later.
    #[error("{model} refuses the question (HTTP {status}): {message}")]
    Refused {
        /// The model.
        model: String,
        /// Status of HTTP.
        status: u16,
        /// What the service said.
        message: String,
    },
    /// Nothing usable came back after all attempts, while the service answered other questions.
    #[error("no usable answer of {model} in {attempts} attempts: {message}")]
    Exhausted {
        /// The model.
        model: String,
        /// How often it was tried.
        attempts: u32,
        /// What was wrong last.
        message: String,
    },
}

/// What a question took in all, attempts that failed included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// HTTP requests.
    pub requests: u64,
    /// Of these, so many failed.
    pub failed: u64,
    /// Tokens. Those of attempts that failed are estimated: the service may charge them.
    pub usage: Usage,
    /// US dollars, by the prices in the settings; 0 where none are given.
    pub cost: f64,
    /// Seconds in which a request was under way.
    pub seconds: f64,
}

impl Usage {
    /// Both together. One estimate makes the sum an estimate.
    pub fn add(&mut self, other: &Self) {
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.cached = self.cached.saturating_add(other.cached);
        self.completion = self.completion.saturating_add(other.completion);
        self.estimated |= other.estimated;
    }

    /// Share of the prompt's tokens that the service's cache served; `None` without a prompt.
    pub fn cached_share(&self) -> Option<f64> {
        (self.prompt > 0).then(|| self.cached as f64 / self.prompt as f64)
    }
}

impl Spent {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.failed = self.failed.saturating_add(other.failed);
        self.usage.add(&other.usage);
        self.cost += other.cost;
        self.seconds += other.seconds;
    }
}

/// A question that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// A ticket comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Which.
    pub ticket: Ticket,
    /// The model that was asked.
    pub model: String,
    /// What it took.
    pub spent: Spent,
    /// The answer.
    pub outcome: Result<Answer, Failure>,
}

/// Whether a service can be used.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It answers, or has not been asked yet.
    Up,
    /// It does not answer. Questions wait; it is tried again from time to time.
    Down {
        /// Since when.
        since: SystemTime,
        /// What is wrong, for people.
        reason: String,
        /// Whether somebody has to do something: a key is refused, a quota is used up, a model is not there.
        needs_somebody: bool,
        /// When it is tried next.
        next_try: SystemTime,
    },
}

impl State {
    /// Whether it can be used.
    pub fn is_up(&self) -> bool {
        *self == Self::Up
    }
}

/// Somebody who can be asked.
pub trait Ask: Send {
    /// Puts a question; comes back at once.
    fn submit(&mut self, question: Question) -> Ticket;

    /// What has finished since the last call. Waits up to `wait` for the first of them.
    fn finished(&mut self, wait: Duration) -> Vec<Finished>;

    /// Questions that were submitted and have not come back.
    fn open(&self) -> usize;

    /// Requests that are with a service at this moment: how busy the models are.
    fn under_way(&self) -> usize;

    /// Whether one of the services can be used. Down when none of those that are waited for can.
    fn state(&self) -> State;

    /// Whether the service of a model can be used.
    fn state_of(&self, model: &str) -> State;

    /// What was spent so far, what was given at the start included.
    fn totals(&self) -> Totals;

    /// Calls `wake` whenever something has finished or a state has changed, from any thread: for those who wait for more than models.
    fn wake_by(&mut self, wake: Box<dyn Fn() + Send + Sync>);
}
