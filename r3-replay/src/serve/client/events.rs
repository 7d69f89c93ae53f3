//! Events of jobs, as they come, over connections that may break.

use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::wire::{Answer, Wire};
use super::{Client, ClientError, problem};
use crate::evaluate::evaluator::Event;
use crate::serve::protocol::{EventsQuery, Line};

/// A server says at least this often that it is there, with a margin.
const SILENCE: Duration = Duration::from_secs(45);
/// How long a broken connection is tried again.
const PERSISTENCE: Duration = Duration::from_secs(10);
/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a line at most.
const LONGEST_LINE: usize = 256 << 20;

/// Which events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsFrom {
    /// The last event that is known; 0 for all.
    pub after: u64,
    /// Of jobs of this group alone.
    pub group: Option<String>,
    /// Of finished jobs alone.
    pub done: bool,
}

/// What a stream of events has next.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A job changed its state.
    Event(Box<Event>),
    /// Events that are not kept any more, of whatever job: ask for jobs by [`Client::job`].
    Missed {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
}

/// What came of waiting for the next event.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// One came.
    Update(Update),
    /// None came in that time.
    Nothing,
    /// None will come: the server is ending.
    Ended,
}

/// Events of jobs, in their order. As an iterator it waits for each, and ends when the server ends.
///
/// When the connection breaks, it is made again, and goes on after the last event. A server that was started anew
/// is an error ([`ClientError::is_other_server`]), as its jobs are others.
#[derive(Debug)]
pub struct Events {
    client: Client,
    from: EventsFrom,
    connection: Option<Connection>,
    ended: bool,
}

#[derive(Debug)]
struct Connection {
    runtime: Runtime,
    body: Incoming,
    /// What came and is no whole line yet.
    inbox: Vec<u8>,
    /// Bytes of it that have no end of a line.
    searched: usize,
    heard: Instant,
}

impl Events {
    pub(super) fn new(client: Client, from: EventsFrom) -> Self {
        Self {
            client,
            from,
            connection: None,
            ended: false,
        }
    }

    /// The last event that came, or that is known not to be of interest.
    pub fn after(&self) -> u64 {
        self.from.after
    }

    /// Waits for the next event, for so long at most.
    pub fn next_within(&mut self, limit: Duration) -> Result<Next, ClientError> {
        // Even with no time to wait, what is there is taken.
        let until = Instant::now() + limit;
        let mut broken_since: Option<Instant> = None;
        loop {
            if self.ended {
                return Ok(Next::Ended);
            }
            match self.step(until) {
                Ok(Some(Line::Event(event))) => {
                    self.from.after = event.sequence;
                    return Ok(Next::Update(Update::Event(Box::new(event))));
                }
                Ok(Some(Line::Missed { from, to })) => {
                    self.from.after = to;
                    return Ok(Next::Update(Update::Missed { from, to }));
                }
                Ok(Some(Line::Alive { sequence })) => self.from.after = sequence,
                Ok(Some(Line::End { sequence })) => {
                    self.from.after = sequence;
                    self.ended = true;
                }
                Ok(None) => return Ok(Next::Nothing),
                Err(error) => {
                    self.connection = None;
                    let since = *broken_since.get_or_insert_with(Instant::now);
                    let hopeless = matches!(
                        error,
                        ClientError::Refused(_) | ClientError::Foreign { .. } | ClientError::Own(_)
                    );
                    if hopeless || since.elapsed() >= PERSISTENCE {
                        return Err(error);
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// The next line; `None` when none came in time.
    fn step(&mut self, until: Instant) -> Result<Option<Line>, ClientError> {
        let address = self.client.address().clone();
        let broken = |reason: String| ClientError::Broken {
            address: address.clone(),
            reason,
        };
        if self.connection.is_none() {
            self.connection = Some(self.connect()?);
        }
        let Some(connection) = &mut self.connection else {
            return Ok(None);
        };
        loop {
            if let Some(line) = connection.line() {
                return serde_json::from_slice(&line).map(Some).map_err(|error| {
                    ClientError::Foreign {
                        address,
                        reason: format!("an event that is none: {error}"),
                    }
                });
            }
            if connection.inbox.len() > LONGEST_LINE {
                return Err(broken(format!("a line of more than {LONGEST_LINE} bytes")));
            }
            let silence = SILENCE.saturating_sub(connection.heard.elapsed());
            if silence.is_zero() {
                return Err(broken("the server is silent".to_owned()));
            }
            let wait = until.saturating_duration_since(Instant::now());
            match connection.more(wait.min(silence)) {
                Some(Some(Ok(bytes))) => connection.inbox.extend_from_slice(&bytes),
                Some(Some(Err(error))) => return Err(broken(error.to_string())),
                Some(None) => return Err(broken("the server closed it".to_owned())),
                None if Instant::now() >= until => return Ok(None),
                None => {}
            }
        }
    }

    fn connect(&self) -> Result<Connection, ClientError> {
        let address = self.client.address();
        let hello = self.client.hello();
        let query = EventsQuery {
            after: self.from.after,
            group: self.from.group.clone(),
            done: self.from.done,
            instance: Some(hello.instance.clone()),
            wait: None,
        };
        let path = format!("/v1/events?{}", query.encoded());
        let wire = Wire::open(address)?;
        let (runtime, response) = wire.begin(address, self.client.inner.token.as_ref(), &path)?;
        let status = response.status();
        if status != StatusCode::OK {
            let body =
                runtime.block_on(async { timeout(SILENCE, response.into_body().collect()).await });
            let body = match body {
                Ok(Ok(body)) => body.to_bytes(),
                _ => Bytes::new(),
            };
            let answer = Answer {
                status,
                retry_after: None,
                body,
            };
            return Err(ClientError::Refused(problem(address, &answer)?));
        }
        Ok(Connection {
            runtime,
            body: response.into_body(),
            inbox: Vec::new(),
            searched: 0,
            heard: Instant::now(),
        })
    }
}

impl Connection {
    /// A whole line, without its end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let unseen = self.inbox.get(self.searched..)?;
        let Some(end) = unseen.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.inbox.len();
            return None;
        };
        let mut line: Vec<u8> = self.inbox.drain(..=self.searched + end).collect();
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// What comes next; the outer `None` when nothing came in time, the inner one at the end.
    fn more(&mut self, limit: Duration) -> Option<Option<Result<Bytes, hyper::Error>>> {
        let body = &mut self.body;
        let frame = self
            .runtime
            .block_on(async { timeout(limit, body.frame()).await })
            .ok()?;
        self.heard = Instant::now();
        // Trailers are none of ours.
        Some(frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default())))
    }
}

impl Iterator for Events {
    type Item = Result<Update, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_within(SILENCE) {
                Ok(Next::Update(update)) => return Some(Ok(update)),
                Ok(Next::Nothing) => {}
                Ok(Next::Ended) => return None,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
