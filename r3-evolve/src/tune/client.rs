//! The real evaluator: `r3-replay serve`, started for this run or already there.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use r3_archive::model::LaunchId;
use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::evaluate::engine::Prepared;
use r3_replay::evaluate::evaluator::{ArchiveId, JobId, JobState, Request, Status};
use r3_replay::evaluate::{Candidate, Outcome, Plan};
use r3_replay::serve::address::Address;
use r3_replay::serve::child::{ChildOptions, ServerChild};
use r3_replay::serve::client::{Client, ClientError, Events, EventsFrom, Next, Update};
use r3_replay::serve::problem::Code;
use r3_replay::serve::protocol::ArtifactRequest;
use r3_replay::serve::token::Token;

use super::evaluate::{Artifact, Ask, Evaluate, EvaluateError};

/// Where the evaluator is.
#[derive(Clone, Debug)]
pub enum Place {
    /// A server of this run's own.
    Own(ChildOptions),
    /// One that is there.
    There(Address, Option<Token>),
}

/// A server that judges candidates for one kernel.
pub struct Server {
    place: Place,
    archive: PathBuf,
    kernel: String,
    group: String,
    child: Option<ServerChild>,
    link: Option<Link>,
}

/// A connection and what is owed over it.
struct Link {
    client: Client,
    archive: ArchiveId,
    events: Events,
    running: HashSet<JobId>,
    arrived: VecDeque<(JobId, Outcome)>,
}

impl Server {
    /// Starts or finds a server, and opens the archive there. `group` is a name for this run's jobs that no other run has.
    pub fn new(
        place: Place,
        archive: PathBuf,
        kernel: String,
        group: String,
    ) -> Result<Self, EvaluateError> {
        let mut server = Self {
            place,
            archive,
            kernel,
            group,
            child: None,
            link: None,
        };
        server.connect()?;
        Ok(server)
    }

    /// What compiles, with versions: the server, and the assembler that it finds.
    pub fn tools(&mut self, compilable: bool) -> Result<Vec<String>, EvaluateError> {
        let kernel = self.kernel.clone();
        let link = self.link()?;
        let mut tools = vec![format!("r3-replay {}", link.client.hello().version)];
        if compilable {
            let found = link.client.artifact(&ArtifactRequest {
                archive: link.archive,
                kernel,
                candidate: Candidate {
                    code: CandidateCode::Captured { from: None },
                    ..Candidate::default()
                },
                plan: Plan::default(),
            });
            // A kernel that does not compile anew as it is may in another way.
            tools.extend(found.ok().and_then(|artifact| artifact.assembler));
        }
        Ok(tools)
    }

    fn connect(&mut self) -> Result<(), EvaluateError> {
        self.link = None;
        let client = match &self.place {
            Place::There(address, token) => {
                Client::connect(address.clone(), token.clone()).map_err(failure)?
            }
            Place::Own(options) => {
                let alive = self
                    .child
                    .as_mut()
                    .is_some_and(|child| child.has_ended().is_none());
                if !alive {
                    self.child = None;
                }
                let child = match self.child.take() {
                    Some(child) => child,
                    None => ServerChild::start(options)
                        .map_err(|error| EvaluateError::Gone(error.to_string()))?,
                };
                self.child.insert(child).client().clone()
            }
        };
        let open = client.open(&self.archive).map_err(failure);
        let open = self.explained(open)?;
        let events = client.events(EventsFrom {
            after: 0,
            group: Some(self.group.clone()),
            done: true,
        });
        self.link = Some(Link {
            client,
            archive: open.archive,
            events,
            running: HashSet::new(),
            arrived: VecDeque::new(),
        });
        Ok(())
    }

    fn link(&mut self) -> Result<&mut Link, EvaluateError> {
        self.link
            .as_mut()
            .ok_or_else(|| EvaluateError::Gone("there is no connection to the evaluator".into()))
    }

    /// What is done over the connection. Where a server of one's own is gone, how it ended is told in the place of how the connection
    /// did.
    fn over<T>(
        &mut self,
        ask: impl FnOnce(&mut Link, &str) -> Result<T, EvaluateError>,
    ) -> Result<T, EvaluateError> {
        let kernel = self.kernel.clone();
        let done = self.link().and_then(|link| ask(link, &kernel));
        self.explained(done)
    }

    fn explained<T>(&mut self, done: Result<T, EvaluateError>) -> Result<T, EvaluateError> {
        match (done, &mut self.child) {
            (Err(EvaluateError::Gone(reason)), Some(child)) => {
                Err(EvaluateError::Gone(match child.ending(FAREWELL) {
                    Some(ending) => format!("the server ended {ending}"),
                    None => reason,
                }))
            }
            (done, _) => done,
        }
    }
}

/// How long a server of one's own may take to end when its connections are gone.
const FAREWELL: Duration = Duration::from_secs(1);

impl Link {
    fn submit(&mut self, ask: &Ask, kernel: &str, group: &str) -> Result<JobId, EvaluateError> {
        let request = Request {
            archive: self.archive,
            kernel: kernel.to_owned(),
            candidate: ask.candidate.clone(),
            plan: ask.plan.clone(),
            priority: ask.priority,
        };
        let submitted = self
            .client
            .submit(&[request], Some(group))
            .map_err(failure)?;
        match (submitted.jobs.first(), &submitted.problem) {
            (Some(job), _) => {
                self.running.insert(*job);
                Ok(*job)
            }
            (None, Some(_)) if submitted.is_full() => Err(EvaluateError::Full),
            (None, Some(problem)) => Err(EvaluateError::Refused(problem.to_string())),
            (None, None) => Err(EvaluateError::Refused(
                "the evaluator took a request and gave it no number".into(),
            )),
        }
    }

    fn finished(&mut self, limit: Duration) -> Result<Vec<(JobId, Outcome)>, EvaluateError> {
        let until = Instant::now() + limit;
        loop {
            // Waits for the first, and takes what has come with it.
            let wait = if self.arrived.is_empty() {
                until.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            match self.events.next_within(wait).map_err(failure)? {
                Next::Update(update) => self.take(update)?,
                Next::Nothing => break,
                Next::Ended => {
                    return Err(EvaluateError::Gone("the evaluator is ending".into()));
                }
            }
        }
        Ok(self.arrived.drain(..).collect())
    }

    fn take(&mut self, update: Update) -> Result<(), EvaluateError> {
        match update {
            Update::Event(event) => {
                if let JobState::Done(outcome) = event.state
                    && self.running.remove(&event.job)
                {
                    self.arrived.push_back((event.job, *outcome));
                }
                Ok(())
            }
            // Whose events are missing is not known: all are asked for.
            Update::Missed { .. } => {
                let running: Vec<JobId> = self.running.iter().copied().collect();
                for job in running {
                    let report = self.client.job(job, None).map_err(failure)?;
                    if let Some(event) = report.event
                        && let JobState::Done(outcome) = event.state
                    {
                        self.running.remove(&job);
                        self.arrived.push_back((job, *outcome));
                    }
                }
                Ok(())
            }
        }
    }
}

impl Evaluate for Server {
    fn describe(&mut self) -> Result<KernelDescription, EvaluateError> {
        self.over(|link, kernel| link.client.describe(link.archive, kernel).map_err(failure))
    }

    fn prepare(&mut self, launches: &[LaunchId]) -> Result<Vec<Prepared>, EvaluateError> {
        self.over(|link, kernel| {
            link.client
                .prepare(link.archive, kernel, launches)
                .map_err(failure)
        })
    }

    fn submit(&mut self, ask: &Ask) -> Result<JobId, EvaluateError> {
        let group = self.group.clone();
        self.over(|link, kernel| link.submit(ask, kernel, &group))
    }

    fn cancel(&mut self, jobs: &[JobId]) -> Result<(), EvaluateError> {
        self.over(|link, _| {
            for job in jobs {
                link.running.remove(job);
            }
            link.client.cancel(jobs).map(drop).map_err(failure)
        })
    }

    fn finished(&mut self, limit: Duration) -> Result<Vec<(JobId, Outcome)>, EvaluateError> {
        let done = self.over(|link, _| link.finished(limit));
        if matches!(done, Err(EvaluateError::Gone(_))) {
            self.link = None;
        }
        done
    }

    fn status(&mut self) -> Result<Status, EvaluateError> {
        self.over(|link, _| Ok(link.client.status().map_err(failure)?.evaluator))
    }

    fn artifact(&mut self, candidate: &Candidate, plan: &Plan) -> Result<Artifact, EvaluateError> {
        let found = self.over(|link, kernel| {
            let request = ArtifactRequest {
                archive: link.archive,
                kernel: kernel.to_owned(),
                candidate: candidate.clone(),
                plan: plan.clone(),
            };
            link.client.artifact(&request).map_err(failure)
        })?;
        Ok(Artifact {
            name: found.name,
            image: found.image,
            cubin: found.cubin,
            ptx: found.ptx,
            llvm: found.llvm,
            guards: found.guards,
        })
    }

    fn again(&mut self) -> Result<(), EvaluateError> {
        self.connect()
    }
}

/// A failure of a call: told apart by whether another server could do better.
fn failure(error: ClientError) -> EvaluateError {
    if error.is_gone() || error.is_other_server() {
        return EvaluateError::Gone(error.to_string());
    }
    EvaluateError::Refused(match error {
        // The message lists the kernels. The rest of it is for those who speak with the server themselves.
        ClientError::Refused(problem) if problem.code == Code::Kernel => problem.message,
        error => error.to_string(),
    })
}
