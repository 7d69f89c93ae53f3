//! What is answered when something is wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evaluate::evaluator::JobId;

/// Body of every answer that is no success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of problem, for programs.
    pub code: Code,
    /// What is wrong, for people and language models.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// For a batch: the jobs that were taken before the problem, those of the first requests of the batch. Nothing after was.
    #[serde(default)]
    pub jobs: Vec<JobId>,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request cannot be read.
    BadRequest,
    /// The token is missing or wrong.
    Unauthorized,
    /// There is no such endpoint.
    NoEndpoint,
    /// The endpoint has other methods.
    Method,
    /// The request did not arrive in time.
    Slow,
    /// The request is too large.
    TooLarge,
    /// No such archive is open.
    NoArchive,
    /// The archive cannot be opened.
    Archive,
    /// No such kernel, or several.
    Kernel,
    /// The plan cannot be followed.
    Plan,
    /// The code cannot be had.
    Code,
    /// No such job.
    NoJob,
    /// The job's outcome is not kept any more.
    JobGone,
    /// The sequence number is of another server, which listened here before.
    OtherServer,
    /// The queue is full.
    QueueFull,
    /// There are too many connections or long requests.
    Busy,
    /// The server is ending.
    ShuttingDown,
    /// The device or the machine failed.
    Failed,
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

/// The table of problems: kind, HTTP status, what to do.
pub(super) const PROBLEMS: &[(Code, u16, &str)] = &[
    (
        Code::BadRequest,
        400,
        "Compare the request with docs/serve.md.",
    ),
    (
        Code::Unauthorized,
        401,
        "Send `Authorization: Bearer TOKEN` with the server's token.",
    ),
    (
        Code::NoEndpoint,
        404,
        "`GET /v1` answers here; docs/serve.md lists the endpoints.",
    ),
    (
        Code::Method,
        405,
        "The header `Allow` and docs/serve.md say which method it is.",
    ),
    (Code::Slow, 408, "Send the request without pauses."),
    (
        Code::TooLarge,
        413,
        "Send smaller batches; `GET /v1` says the limits.",
    ),
    (
        Code::NoArchive,
        404,
        "Open it with `POST /v1/archives`; `GET /v1/archives` lists those that are open.",
    ),
    (
        Code::Archive,
        422,
        "Give the path of a complete archive as the server sees it; `r3-replay fsck` says what is wrong with one.",
    ),
    (
        Code::Kernel,
        422,
        "`GET /v1/archives/ID/kernels` lists the names.",
    ),
    (Code::Plan, 422, "Change the plan."),
    (
        Code::Code,
        422,
        "`message` has what the compiler or the archive says: change the candidate.",
    ),
    (
        Code::NoJob,
        404,
        "Numbers of jobs are in the answer to `POST /v1/jobs`; they begin anew with each server.",
    ),
    (
        Code::JobGone,
        410,
        "Read events as they come, or give the server more --history.",
    ),
    (
        Code::OtherServer,
        410,
        "Submit again what was not done, and read events from 0: a new server knows nothing of the old one's jobs.",
    ),
    (
        Code::QueueFull,
        429,
        "Send the rest of the batch again after `Retry-After` seconds, or when events say that jobs are done.",
    ),
    (
        Code::Busy,
        503,
        "Try again after `Retry-After` seconds, or close connections that are not used.",
    ),
    (Code::ShuttingDown, 503, "Start another server."),
    (
        Code::Failed,
        500,
        "`message` says what failed; the same request may work again later.",
    ),
];

impl Code {
    /// HTTP status.
    pub fn status(self) -> u16 {
        PROBLEMS
            .iter()
            .find(|(code, ..)| *code == self)
            .map_or(500, |(_, status, _)| *status)
    }

    fn help(self) -> &'static str {
        PROBLEMS
            .iter()
            .find(|(code, ..)| *code == self)
            .map_or("", |(.., help)| help)
    }
}

impl Problem {
    /// A problem of a kind.
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            help: code.help().to_owned(),
            jobs: Vec::new(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if !self.help.is_empty() {
            write!(f, ". {}", self.help)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_a_later_version_is_unknown_and_not_an_error() {
        let text = r#"{"code": "invented_later", "message": "m", "help": "h"}"#;
        let problem: Problem = serde_json::from_str(text).unwrap();
        assert_eq!(problem.code, Code::Unknown);
    }
}
