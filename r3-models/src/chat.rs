//! A request, a reply, and who can be asked.

use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: String,
}

/// A question for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The model, by the name that the endpoint has for it.
    pub model: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Tokens of the answer at most.
    pub max_tokens: u32,
    /// How freely it answers.
    pub temperature: f64,
    /// Seed, for services that take one.
    pub seed: Option<u64>,
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Of these, so many were served from the service's cache.
    pub cached: u64,
    /// Tokens of the answer.
    pub completion: u64,
    /// Whether the service said so, or R3 estimated it from the bytes.
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
    /// Why it ended.
    pub finish: Finish,
    /// What it took.
    pub usage: Usage,
    /// Its price in US dollars, by the prices in the settings; 0 where none are given.
    pub cost: f64,
    /// Seconds from sending to the last byte, retries and pauses left out.
    pub seconds: f64,
    /// How often it was tried again.
    pub retries: u32,
}
