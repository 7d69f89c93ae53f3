//! What goes over the wire, besides the values of [`evaluate`](crate::evaluate) themselves.

use std::path::PathBuf;

use r3_archive::model::LaunchId;
use serde::{Deserialize, Serialize};

use crate::evaluate::candidate::{Candidate, CandidateId};
use crate::evaluate::engine::Prepared;
use crate::evaluate::evaluator::{ArchiveId, Event, JobId, Request, Status};
use crate::evaluate::plan::Plan;

/// The version of the protocol, which is in every path: `/v1`.
pub const PROTOCOL: u32 = 1;

/// Header with the server's instance in every answer.
pub const INSTANCE_HEADER: &str = "r3-instance";

/// Answer to `GET /v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// `r3-replay`.
    pub service: String,
    /// Version of the program.
    pub version: String,
    /// Version of the protocol.
    pub protocol: u32,
    /// This start of the server. Numbers of jobs, archives and events hold for it alone.
    pub instance: String,
    /// What it takes at most.
    pub limits: WireLimits,
}

/// What a server takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireLimits {
    /// Bytes of a request's body.
    pub body_bytes: u64,
    /// Requests of a batch.
    pub batch: u64,
    /// Connections at a time.
    pub connections: u64,
    /// Seconds that an answer may be waited for (`wait`).
    pub wait_seconds: u64,
}

/// Body of `POST /v1/archives`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    /// The archive as the server sees it; absolute.
    pub path: PathBuf,
}

/// An archive that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenArchive {
    /// Its number in this server.
    pub archive: ArchiveId,
    /// Its path.
    pub path: PathBuf,
}

/// Answer to `GET /v1/archives`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archives {
    /// Those that are open.
    pub archives: Vec<OpenArchive>,
}

/// Answer to `GET /v1/archives/ID/kernels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernels {
    /// Those with recorded launches.
    pub kernels: Vec<KernelSummary>,
}

/// A kernel of an archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelSummary {
    /// Its name, as the code has it.
    pub name: String,
    /// Its name, readable.
    pub readable: String,
    /// Its recorded launches.
    pub launches: Vec<LaunchId>,
}

/// Body of `POST /v1/describe`. The answer is a
/// [`KernelDescription`](crate::evaluate::describe::KernelDescription).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribeRequest {
    /// The archive.
    pub archive: ArchiveId,
    /// The kernel, as in a [`Request`].
    pub kernel: String,
}

/// Body of `POST /v1/prepare`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareRequest {
    /// The archive.
    pub archive: ArchiveId,
    /// The kernel, as in a [`Request`].
    pub kernel: String,
    /// Its launches; all when there are none here.
    #[serde(default)]
    pub launches: Vec<LaunchId>,
}

/// Answer to `POST /v1/prepare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareAnswer {
    /// Launch by launch.
    pub launches: Vec<Prepared>,
}

/// Body of `POST /v1/artifact`. The answer is an [`Artifact`](crate::evaluate::evaluator::Artifact).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactRequest {
    /// The archive.
    pub archive: ArchiveId,
    /// The kernel, as in a [`Request`].
    pub kernel: String,
    /// The candidate whose code it is.
    pub candidate: Candidate,
    /// Its plan: the launches decide what is specialised.
    #[serde(default)]
    pub plan: Plan,
}

/// Body of `POST /v1/jobs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// Name of what the jobs belong to, for events and for cancelling: the events of one run among those of others.
    #[serde(default)]
    pub group: Option<String>,
    /// One or more candidates.
    pub requests: Vec<Request>,
}

/// Answer to `POST /v1/jobs` when all were taken. Otherwise it is a [`Problem`](super::problem::Problem) with those that were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitAnswer {
    /// The jobs, in the order of the requests.
    pub jobs: Vec<JobId>,
}

/// Answer to `GET /v1/jobs/ID`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// What it was submitted with.
    #[serde(default)]
    pub group: Option<String>,
    /// The candidate.
    pub candidate: CandidateId,
    /// Its newest event; `None` in the moment between submission and the first.
    #[serde(default)]
    pub event: Option<Event>,
}

/// Body of `POST /v1/cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CancelRequest {
    /// Jobs.
    pub jobs: Vec<JobId>,
    /// All jobs of a group that are not done.
    pub group: Option<String>,
}

/// Answer to `POST /v1/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelAnswer {
    /// Those that were not done yet: each ends with an event, most as `cancelled`.
    pub cancelled: Vec<JobId>,
}

/// Query of `GET /v1/events`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventsQuery {
    /// The last event that the reader has; 0 for all.
    pub after: u64,
    /// Of jobs of this group alone.
    pub group: Option<String>,
    /// Events of finished jobs alone.
    pub done: bool,
    /// The server that `after` is of, so that another one is noticed.
    pub instance: Option<String>,
    /// Seconds after which the answer ends, with or without events; it ends with the first events. Without it, it goes on.
    pub wait: Option<u64>,
}

/// A line of `GET /v1/events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A job changed its state.
    Event(Event),
    /// The reader was too slow, or began too late: these events are not kept any more.
    Missed {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// Nothing happened for a while, and the server is still there. Events up to this one were sent or are of no interest.
    Alive {
        /// The newest event.
        sequence: u64,
    },
    /// No event follows in this answer: the server is ending, or `wait` is over.
    End {
        /// The newest event. The next request's `after`.
        sequence: u64,
    },
}

/// Answer to `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusAnswer {
    /// How the server is doing.
    pub server: ServerStatus,
    /// How the evaluator is doing.
    pub evaluator: Status,
}

/// How a server is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Version of the program.
    pub version: String,
    /// This start of the server.
    pub instance: String,
    /// Its process.
    pub process: u32,
    /// Connections that are open.
    pub connections: u64,
    /// Those that were refused since there were too many, since the start.
    pub refused_connections: u64,
    /// Requests without the token, or of other users, since the start.
    pub unauthorized: u64,
    /// Requests that were answered, since the start.
    pub requests: u64,
    /// The newest event.
    pub sequence: u64,
    /// The oldest event that is kept; `sequence` + 1 when none is.
    pub oldest: u64,
    /// Bytes of events that are kept.
    pub event_bytes: u64,
}

impl EventsQuery {
    /// As the query of a URL.
    pub fn encoded(&self) -> String {
        let mut text = format!("after={}", self.after);
        if let Some(group) = &self.group {
            text.push_str(&format!("&group={}", escaped(group)));
        }
        if self.done {
            text.push_str("&done=true");
        }
        if let Some(instance) = &self.instance {
            text.push_str(&format!("&instance={}", escaped(instance)));
        }
        if let Some(wait) = self.wait {
            text.push_str(&format!("&wait={wait}"));
        }
        text
    }
}

/// `text` with everything escaped that has a meaning in a URL.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
