//! The evaluator from another program: [`Client`] has its methods, over a socket.
//!
//! Calls block. A client may be shared between threads: calls at the same time take connections of their own, so that a
//! `prepare` that takes minutes does not hold up a `submit`. Events come by [`Client::events`], which survives a connection that
//! breaks: it goes on with the event after the last one.

mod events;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::{Method, StatusCode};
use r3_archive::model::LaunchId;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use events::{Events, EventsFrom, Next, Update};

use super::address::Address;
use super::problem::{Code, Problem};
use super::protocol::{
    Archives, ArtifactRequest, CancelAnswer, CancelRequest, DescribeRequest, Hello, JobReport,
    KernelSummary, Kernels, OpenArchive, OpenRequest, PROTOCOL, PrepareAnswer, PrepareRequest,
    StatusAnswer, SubmitAnswer, SubmitRequest,
};
use super::token::Token;
use crate::evaluate::describe::KernelDescription;
use crate::evaluate::engine::Prepared;
use crate::evaluate::evaluator::{ArchiveId, Artifact, JobId, Request};
use wire::{Answer, Wire};

/// How long an answer to a short question may take.
const SHORT: Duration = Duration::from_secs(60);
/// How long one may take that waits for a device.
const LONG: Duration = Duration::from_secs(3600);
/// Connections that are kept for the next call.
const IDLE: usize = 4;

/// A server, as its clients see it. Clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: Address,
    token: Option<Token>,
    hello: Hello,
    idle: Mutex<Vec<Wire>>,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error("{address}: no connection: {source}. `r3-replay serve` starts a server")]
    Connect {
        /// The server.
        address: Address,
        /// Why.
        source: std::io::Error,
    },
    /// The connection broke. A request may have arrived, or not.
    #[error("{address}: the connection broke: {reason}")]
    Broken {
        /// The server.
        address: Address,
        /// How.
        reason: String,
    },
    /// No answer came.
    #[error("{address}: no answer within {} s", limit.as_secs())]
    Late {
        /// The server.
        address: Address,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The server says what is wrong.
    #[error("{0}")]
    Refused(Problem),
    /// What answers is no server of R3, or one of another version.
    #[error(
        "{address}: what answers is no evaluator that this version understands: {reason}. Use `r3-replay serve` of the same version"
    )]
    Foreign {
        /// The server.
        address: Address,
        /// What was not understood.
        reason: String,
    },
    /// This process can open no connection.
    #[error("a connection cannot be prepared: {0}")]
    Own(std::io::Error),
}

impl ClientError {
    /// Whether a server that was started anew answers: it knows nothing of earlier jobs.
    pub fn is_other_server(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.code == Code::OtherServer)
    }

    /// Whether nobody answers, or not any more: the server may come back.
    pub fn is_gone(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. } | Self::Broken { .. } | Self::Late { .. }
        )
    }
}

/// How much of a batch was taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submitted {
    /// Jobs of the first requests, in their order.
    pub jobs: Vec<JobId>,
    /// Why it is not all of them, when it is not: the queue is full (try the rest again after [`retry_after`](Self::retry_after)), or the next
    /// request is refused.
    pub problem: Option<Problem>,
    /// When a full queue is worth another try.
    pub retry_after: Option<Duration>,
}

impl Submitted {
    /// Whether the rest may be taken later as it is.
    pub fn is_full(&self) -> bool {
        self.problem
            .as_ref()
            .is_some_and(|problem| problem.code == Code::QueueFull)
    }
}

impl Client {
    /// Connects, and makes sure that it is a server that this version understands.
    pub fn connect(address: Address, token: Option<Token>) -> Result<Self, ClientError> {
        let mut wire = Wire::open(&address)?;
        let answer = wire.call(
            &address,
            token.as_ref(),
            Method::GET,
            "/v1",
            Vec::new(),
            SHORT,
        )?;
        let hello: Hello = understood(&address, &answer)?;
        if hello.service != "r3-replay" || hello.protocol != PROTOCOL {
            return Err(ClientError::Foreign {
                address,
                reason: format!("it is {} with protocol {}", hello.service, hello.protocol),
            });
        }
        Ok(Self {
            inner: Arc::new(Inner {
                address,
                token,
                hello,
                idle: Mutex::new(vec![wire]),
            }),
        })
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// What the server said about itself.
    pub fn hello(&self) -> &Hello {
        &self.inner.hello
    }

    /// Opens an archive, or finds the one that is open. Relative paths are this process's.
    pub fn open(&self, path: &Path) -> Result<OpenArchive, ClientError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        self.post("/v1/archives", &OpenRequest { path }, LONG)
    }

    /// The archives that are open.
    pub fn archives(&self) -> Result<Vec<OpenArchive>, ClientError> {
        let answer: Archives = self.get("/v1/archives", SHORT)?;
        Ok(answer.archives)
    }

    /// The kernels of an archive that have recorded launches.
    pub fn kernels(&self, archive: ArchiveId) -> Result<Vec<KernelSummary>, ClientError> {
        let answer: Kernels = self.get(&format!("/v1/archives/{}/kernels", archive.0), SHORT)?;
        Ok(answer.kernels)
    }

    /// What there is to try for a kernel.
    pub fn describe(
        &self,
        archive: ArchiveId,
        kernel: &str,
    ) -> Result<KernelDescription, ClientError> {
        let kernel = kernel.to_owned();
        self.post("/v1/describe", &DescribeRequest { archive, kernel }, LONG)
    }

    /// Makes launches of a kernel ready on all devices, all of them when none is named.
    pub fn prepare(
        &self,
        archive: ArchiveId,
        kernel: &str,
        launches: &[LaunchId],
    ) -> Result<Vec<Prepared>, ClientError> {
        let request = PrepareRequest {
            archive,
            kernel: kernel.to_owned(),
            launches: launches.to_vec(),
        };
        let answer: PrepareAnswer = self.post("/v1/prepare", &request, LONG)?;
        Ok(answer.launches)
    }

    /// Submits candidates, as many of them as the queue has room for. `group` is a name for the events and for cancelling.
    ///
    /// What is not taken whole is no error: the answer says which jobs there are, and why there are no more. More candidates than a
    /// server takes at a time are sent in several batches.
    pub fn submit(
        &self,
        requests: &[Request],
        group: Option<&str>,
    ) -> Result<Submitted, ClientError> {
        let largest = usize::try_from(self.inner.hello.limits.batch).unwrap_or(usize::MAX);
        let mut all = Submitted::default();
        // None is a batch too: the server says what is wrong with it.
        let mut rest = requests;
        loop {
            let (batch, later) = rest.split_at(rest.len().min(largest.max(1)));
            let sent = self.submit_batch(batch, group);
            match sent {
                Ok(submitted) => {
                    all.jobs.extend(submitted.jobs);
                    all.problem = submitted.problem;
                    all.retry_after = submitted.retry_after;
                }
                // Jobs that there are must not be lost with an error.
                Err(ClientError::Refused(problem)) if !all.jobs.is_empty() => {
                    all.problem = Some(problem);
                }
                Err(error) => return Err(error),
            }
            if later.is_empty() || all.problem.is_some() {
                return Ok(all);
            }
            rest = later;
        }
    }

    fn submit_batch(
        &self,
        requests: &[Request],
        group: Option<&str>,
    ) -> Result<Submitted, ClientError> {
        let request = SubmitRequest {
            group: group.map(str::to_owned),
            requests: requests.to_vec(),
        };
        let answer = self.call(Method::POST, "/v1/jobs", encoded(&request)?, SHORT)?;
        if answer.status.is_success() {
            let taken: SubmitAnswer = understood(&self.inner.address, &answer)?;
            return Ok(Submitted {
                jobs: taken.jobs,
                ..Submitted::default()
            });
        }
        let problem = problem(&self.inner.address, &answer)?;
        if problem.jobs.is_empty() && problem.code != Code::QueueFull {
            return Err(ClientError::Refused(problem));
        }
        Ok(Submitted {
            jobs: problem.jobs.clone(),
            retry_after: answer.retry_after,
            problem: Some(problem),
        })
    }

    /// How far a job is. With `wait`, the answer comes when it is done, or after that time.
    pub fn job(&self, job: JobId, wait: Option<Duration>) -> Result<JobReport, ClientError> {
        let wait = wait.unwrap_or_default();
        let path = match wait.as_secs() {
            0 => format!("/v1/jobs/{}", job.0),
            seconds => format!("/v1/jobs/{}?wait={seconds}", job.0),
        };
        self.get(&path, SHORT + wait)
    }

    /// Cancels jobs. Returns those that were not done yet.
    pub fn cancel(&self, jobs: &[JobId]) -> Result<Vec<JobId>, ClientError> {
        let request = CancelRequest {
            jobs: jobs.to_vec(),
            group: None,
        };
        let answer: CancelAnswer = self.post("/v1/cancel", &request, SHORT)?;
        Ok(answer.cancelled)
    }

    /// Cancels all jobs of a group that are not done.
    pub fn cancel_group(&self, group: &str) -> Result<Vec<JobId>, ClientError> {
        let request = CancelRequest {
            jobs: Vec::new(),
            group: Some(group.to_owned()),
        };
        let answer: CancelAnswer = self.post("/v1/cancel", &request, SHORT)?;
        Ok(answer.cancelled)
    }

    /// The code that a candidate is, as it is loaded, and what it was made from.
    pub fn artifact(&self, wanted: &ArtifactRequest) -> Result<Artifact, ClientError> {
        self.post("/v1/artifact", wanted, LONG)
    }

    /// Events of jobs, over a connection of their own.
    pub fn events(&self, from: EventsFrom) -> Events {
        Events::new(self.clone(), from)
    }

    /// How the server and its evaluator are doing.
    pub fn status(&self) -> Result<StatusAnswer, ClientError> {
        self.get("/v1/status", SHORT)
    }

    /// The same in the text format of Prometheus.
    pub fn metrics(&self) -> Result<String, ClientError> {
        let answer = self.call(Method::GET, "/v1/metrics", Vec::new(), SHORT)?;
        if !answer.status.is_success() {
            return Err(ClientError::Refused(problem(&self.inner.address, &answer)?));
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// Asks the server to end. It has taken note when this returns; running jobs end as cancelled.
    pub fn shutdown(&self) -> Result<(), ClientError> {
        let answer = self.call(Method::POST, "/v1/shutdown", Vec::new(), SHORT)?;
        if !answer.status.is_success() {
            return Err(ClientError::Refused(problem(&self.inner.address, &answer)?));
        }
        Ok(())
    }

    fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, ClientError> {
        let answer = self.call(Method::GET, path, Vec::new(), limit)?;
        understood(&self.inner.address, &answer)
    }

    fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let answer = self.call(Method::POST, path, encoded(body)?, limit)?;
        understood(&self.inner.address, &answer)
    }

    fn call(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Answer, ClientError> {
        let Inner {
            address,
            token,
            hello,
            ..
        } = &*self.inner;
        // The server would close the connection in the middle of it.
        if body.len() as u64 > hello.limits.body_bytes {
            return Err(ClientError::Refused(Problem::new(
                Code::TooLarge,
                format!(
                    "a request of {} bytes: the server takes {} at most",
                    body.len(),
                    hello.limits.body_bytes
                ),
            )));
        }
        let mut wire = match self.idle().pop() {
            Some(wire) => wire,
            None => Wire::open(address)?,
        };
        let answer = wire.call(address, token.as_ref(), method, path, body, limit)?;
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(wire);
        }
        Ok(answer)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Wire>> {
        self.inner
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(value).map_err(|error| ClientError::Own(error.into()))
}

/// The value of an answer that is a success.
fn understood<T: DeserializeOwned>(address: &Address, answer: &Answer) -> Result<T, ClientError> {
    if !answer.status.is_success() {
        return Err(ClientError::Refused(problem(address, answer)?));
    }
    serde_json::from_slice(&answer.body).map_err(|error| foreign(address, answer.status, &error))
}

/// The problem of one that is not.
fn problem(address: &Address, answer: &Answer) -> Result<Problem, ClientError> {
    serde_json::from_slice(&answer.body).map_err(|error| foreign(address, answer.status, &error))
}

fn foreign(address: &Address, status: StatusCode, error: &serde_json::Error) -> ClientError {
    ClientError::Foreign {
        address: address.clone(),
        reason: format!("an answer with status {status}: {error}"),
    }
}
