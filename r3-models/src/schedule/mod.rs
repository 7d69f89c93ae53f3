//! What is sent when: a machine that is told the time and what came back, and says what to do. It has no clock, threads or network.
//!
//! ```text
//!  submit ─► waiting ──(service up, room, limits, budget)──► under way ──► back
//!              ▲  ▲                                             │
//!              │  └────── pause ◄── broken once, busy ──────────┤
//!              └── outage over ◄── broken twice, unreachable ◄──┘
//! ```
//!
//! - There is one layer of retries, this one. A question that fails while its model answers others is tried `attempts` times.
//! - Two faults of a model's service with no answer between them are an outage, as is a service that cannot be reached. Questions then
//!   wait. A small question is sent in their place from time to time; its answer ends the outage. So a question that a service breaks on
//!   is told apart from a service that is broken: the small one is answered.
//! - A model is up or down, not an endpoint: keys, quotas and overload are often a model's own.
//! - A budget or a limit lets a request through before it is sent, by what it can come to at most.

mod back;
mod context;
mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::account::{Account, No, Totals};
use crate::body::Manner;
use crate::chat::{Failure, Finished, Question, Spent, Ticket, Usage};
use crate::client::{Lost, Watch};
use crate::fault::Fault;
use crate::ledger::Ledger;
use crate::limit::Limit;
use crate::retry::Spread;
use crate::settings::{Part, Settings, Timeouts};
use crate::usage;
use context::Context;
use parts::{Attempt, Gate, Job, Lane, expected, most, small_question};

pub use parts::Outage;

/// Faults with no answer between them that are an outage.
const FAULTS: u32 = 2;

/// Refusals with no answer between them after which the settings are suspected, and not the questions.
const REFUSALS: u32 = 3;

/// A pause that a service wants, from which on it counts as down: it is shown to people then.
const LONG_PAUSE: Duration = Duration::from_secs(60);

/// How much rarer a service is tried that needs somebody.
const RARER: u32 = 5;

/// An attempt that is to be made, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(u64);

/// What to do.
#[derive(Clone, Debug)]
pub enum Order {
    /// Send this and tell what comes back.
    Send(Sending),
    /// Nothing before this time, or before something comes.
    Wait(Option<Duration>),
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Sending {
    /// By which its return is told.
    pub attempt: AttemptId,
    /// The endpoint, by its place in the settings.
    pub endpoint: usize,
    /// What is asked.
    pub question: Arc<Question>,
    /// How.
    pub manner: Manner,
    /// Where its progress is seen.
    pub watch: Arc<Watch>,
}

/// The machine.
pub struct Schedule {
    lanes: Vec<Lane>,
    gates: Vec<Gate>,
    jobs: BTreeMap<Ticket, Job>,
    under_way: BTreeMap<AttemptId, Attempt>,
    account: Account,
    ledger: Option<Ledger>,
    finished: Vec<Finished>,
    spread: Spread,
    next_ticket: u64,
    next_attempt: u64,
    changes: u64,
}

impl Schedule {
    /// For the models of some settings, which were checked.
    pub fn new(settings: &Settings, spent: Totals, seed: u64) -> Self {
        let gates = settings.endpoints.iter().map(|endpoint| Gate {
            parallel: endpoint.parallel,
            under_way: 0,
            limit: Limit::new(
                endpoint.requests_per_minute.map(u64::from),
                endpoint.tokens_per_minute,
            ),
            attempts: endpoint.attempts,
            timeouts: endpoint.timeouts,
            pauses: endpoint.pauses,
        });
        let lanes = settings.models.iter().map(|model| {
            let endpoint = settings.endpoint_of(model).unwrap_or(0);
            Lane {
                name: model.name.clone(),
                endpoint,
                part: model.part,
                price: model.price.unwrap_or_default(),
                manner: Manner {
                    id: model.id.clone().unwrap_or_else(|| model.name.clone()),
                    max_tokens: model.max_tokens,
                    temperature: model.temperature,
                    stream: settings.endpoints.get(endpoint).is_some_and(|e| e.stream),
                    room: None,
                    extra: crate::body::json_of(&model.extra),
                    quirks: Default::default(),
                },
                says_why: false,
                context: Context::new(model.context),
                outage: None,
                pause_until: Duration::ZERO,
                faults: 0,
                refusals: 0,
                busy: 0,
            }
        });
        Self {
            gates: gates.collect(),
            lanes: lanes.collect(),
            jobs: BTreeMap::new(),
            under_way: BTreeMap::new(),
            account: Account::new(settings.budget, spent),
            ledger: None,
            finished: Vec::new(),
            spread: Spread::new(seed),
            next_ticket: 0,
            next_attempt: 0,
            changes: 0,
        }
    }

    /// Writes down what is sent.
    pub fn keep(&mut self, ledger: Ledger) {
        self.ledger = Some(ledger);
    }

    /// Takes a question.
    pub fn submit(&mut self, now: Duration, question: Question) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let Some(lane) = self
            .lanes
            .iter()
            .position(|lane| lane.name == question.model())
        else {
            let known: Vec<&str> = self.lanes.iter().map(|lane| lane.name.as_str()).collect();
            let name = question.model().to_owned();
            let known = known.join(", ");
            self.finished.push(Finished {
                ticket,
                model: name.clone(),
                spent: Spent::default(),
                outcome: Err(Failure::Unknown { name, known }),
            });
            self.changes += 1;
            return ticket;
        };
        let job = Job {
            lane,
            question: Arc::new(question),
            ready: now,
            under_way: false,
            strikes: 0,
            refusals: 0,
            failed: 0,
            whole: false,
            room: None,
            active: Duration::ZERO,
            spent: Spent::default(),
        };
        self.jobs.insert(ticket, job);
        ticket
    }

    /// What to do now.
    pub fn next(&mut self, now: Duration) -> Order {
        let mut wake = Wake(None);
        self.give_up_stalled(now, &mut wake);
        if let Some(sending) = self.try_again(now, &mut wake) {
            return Order::Send(sending);
        }
        // Vectors before conversations: they take little, and what waits for one is complete but for it. Where an endpoint answers one
        // question at a time, conversations would hold it for minutes.
        let mut waiting: Vec<(bool, Ticket)> = self
            .jobs
            .iter()
            .filter(|(_, job)| !job.under_way)
            .map(|(ticket, job)| (matches!(*job.question, Question::Chat(_)), *ticket))
            .collect();
        waiting.sort_unstable();
        for (_, ticket) in waiting {
            if let Some(sending) = self.send_job(now, ticket, &mut wake) {
                return Order::Send(sending);
            }
        }
        Order::Wait(wake.0)
    }

    /// Attempts without progress for too long are over, whatever their connection does.
    fn give_up_stalled(&mut self, now: Duration, wake: &mut Wake) {
        let mut stalled = Vec::new();
        for (id, attempt) in &self.under_way {
            let Some(timeouts) = self
                .lanes
                .get(attempt.lane)
                .and_then(|lane| self.gates.get(lane.endpoint))
            else {
                continue;
            };
            let (until, reason) = attempt.deadline(&timeouts.timeouts);
            if until <= now {
                stalled.push((*id, reason));
            } else {
                wake.at(until);
            }
        }
        for (id, reason) in stalled {
            let Some(attempt) = self.under_way.get(&id) else {
                continue;
            };
            attempt.watch.abandon();
            let usage = Usage {
                prompt: expected(&attempt.question),
                cached: 0,
                completion: usage::of_bytes(attempt.watch.received()),
                estimated: true,
            };
            let fault = Fault::broken(reason);
            self.back(now, id, Err(Lost { fault, usage }));
        }
    }

    /// A small question to a service that is down.
    fn try_again(&mut self, now: Duration, wake: &mut Wake) -> Option<Sending> {
        for index in 0..self.lanes.len() {
            let lane = self.lanes.get_mut(index)?;
            let Some(outage) = lane.outage.as_mut().filter(|outage| !outage.trying) else {
                continue;
            };
            if outage.next_try > now {
                wake.at(outage.next_try);
                continue;
            }
            outage.trying = true;
            let question = Arc::new(small_question(&lane.name, lane.part));
            match self.start(now, None, index, question, Duration::MAX) {
                Ok(sending) => return Some(sending),
                // Without a budget for it nobody learns whether the service is back.
                Err(Held::Never(failure)) => self.give_up_on(now, index, &failure),
                Err(held) => {
                    if let Some(outage) = self.lanes.get_mut(index).and_then(|l| l.outage.as_mut())
                    {
                        outage.trying = false;
                    }
                    if let Held::Until(time) = held {
                        wake.at(time);
                    }
                }
            }
        }
        None
    }

    fn give_up_on(&mut self, now: Duration, index: usize, failure: &Failure) {
        if let Some(lane) = self.lanes.get_mut(index)
            && let Some(gate) = self.gates.get(lane.endpoint)
            && let Some(outage) = lane.outage.as_mut()
        {
            outage.trying = false;
            outage.next_try = now + Timeouts::duration(gate.pauses.most);
        }
        let waiting: Vec<Ticket> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.lane == index && !job.under_way)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in waiting {
            self.finish(ticket, Err(failure.clone()));
        }
    }

    fn send_job(&mut self, now: Duration, ticket: Ticket, wake: &mut Wake) -> Option<Sending> {
        let job = self.jobs.get(&ticket)?;
        let lane = self.lanes.get(job.lane)?;
        let gate = self.gates.get(lane.endpoint)?;
        let ready = job.ready.max(lane.pause_until);
        if lane.outage.is_some() {
            // A question that could never be sent need not wait for the end of an outage to hear it.
            let never = matches!(
                self.account.would(most(
                    &job.question,
                    &lane.manner(&job.question, Some(job)),
                    lane
                )),
                Err(No::Never(_))
            );
            if !never {
                return None;
            }
        } else if ready > now {
            wake.at(ready);
            return None;
        } else if gate.under_way >= gate.parallel {
            return None;
        }
        let left = Timeouts::duration(gate.timeouts.question).saturating_sub(job.active);
        let (index, question) = (job.lane, Arc::clone(&job.question));
        match self.start(now, Some(ticket), index, question, left) {
            Ok(sending) => {
                if let Some(job) = self.jobs.get_mut(&ticket) {
                    job.under_way = true;
                }
                Some(sending)
            }
            Err(Held::Never(failure)) => {
                self.finish(ticket, Err(failure));
                None
            }
            Err(Held::Until(time)) => {
                wake.at(time);
                None
            }
            Err(Held::ForOthers) => None,
        }
    }

    fn start(
        &mut self,
        now: Duration,
        ticket: Option<Ticket>,
        index: usize,
        question: Arc<Question>,
        left: Duration,
    ) -> Result<Sending, Held> {
        let Some(lane) = self.lanes.get(index) else {
            return Err(Held::ForOthers);
        };
        let job = ticket.and_then(|ticket| self.jobs.get(&ticket));
        debug_assert_eq!(job.is_some(), ticket.is_some());
        let manner = lane.manner(&question, job);
        let Some(gate) = self.gates.get_mut(lane.endpoint) else {
            return Err(Held::ForOthers);
        };
        let most = most(&question, &manner, lane);
        let taken = self.account.take(most).map_err(|no| match no {
            No::Never(cap) => Held::Never(Failure::Budget { cap }),
            No::NotYet => Held::ForOthers,
        })?;
        let expected = expected(&question) + (most.tokens().saturating_sub(most.prompt()));
        let sent = match gate.limit.take(now, expected) {
            Ok(sent) => sent,
            Err(time) => {
                self.account.release(taken);
                return Err(Held::Until(time));
            }
        };
        let entry = match self
            .ledger
            .as_mut()
            .map(|ledger| ledger.sent(&lane.name, &most))
        {
            None => None,
            Some(Ok(entry)) => Some(entry),
            Some(Err(error)) => {
                // What cannot be written down is not sent: nobody would know of it.
                self.account.release(taken);
                return Err(Held::Never(Failure::Ledger {
                    message: error.to_string(),
                }));
            }
        };
        gate.under_way += 1;
        let attempt = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        let watch = Arc::new(Watch::default());
        let sending = Sending {
            attempt,
            endpoint: lane.endpoint,
            question: Arc::clone(&question),
            manner: manner.clone(),
            watch: Arc::clone(&watch),
        };
        let longest = Timeouts::duration(gate.timeouts.attempt)
            .min(left)
            .max(Duration::from_secs(1));
        let attempt = Attempt {
            ticket,
            lane: index,
            question,
            manner,
            begun: now,
            longest,
            taken,
            entry,
            sent,
            watch,
        };
        self.under_way.insert(sending.attempt, attempt);
        Ok(sending)
    }

    /// What has finished since the last call.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Whether something has finished.
    #[cfg(test)]
    pub fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Questions that have not come back.
    pub fn open(&self) -> usize {
        self.jobs.len() + self.finished.len()
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// What was spent.
    pub fn totals(&self) -> &Totals {
        self.account.totals()
    }

    /// A number that grows with everything that somebody may wait for.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The outage of a model's service.
    pub fn outage_of(&self, model: &str) -> Option<&Outage> {
        self.lanes
            .iter()
            .find(|lane| lane.name == model)?
            .outage
            .as_ref()
    }

    /// The outage of all services that are waited for; where nothing waits, of all that hold conversations. The one that is tried next.
    pub fn outage(&self) -> Option<&Outage> {
        let is_waited_for = |index: usize| self.jobs.values().any(|job| job.lane == index);
        let any_waits = !self.jobs.is_empty();
        let lanes = self.lanes.iter().enumerate().filter(|(index, lane)| {
            if any_waits {
                is_waited_for(*index)
            } else {
                lane.part != Part::Embedding
            }
        });
        let outages: Option<Vec<&Outage>> = lanes.map(|(_, lane)| lane.outage.as_ref()).collect();
        outages?.into_iter().min_by_key(|outage| outage.next_try)
    }

    /// Nobody waits any longer.
    pub fn close(&mut self) {
        for attempt in self.under_way.values() {
            attempt.watch.abandon();
        }
    }
}

/// Why a request does not start.
enum Held {
    Never(Failure),
    Until(Duration),
    ForOthers,
}

/// The earliest of some times.
struct Wake(Option<Duration>);

impl Wake {
    fn at(&mut self, time: Duration) {
        self.0 = Some(self.0.map_or(time, |earliest| earliest.min(time)));
    }
}

#[cfg(test)]
mod tests;
