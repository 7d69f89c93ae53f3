//! An attempt is back: what follows from it.

use std::time::Duration;

use super::parts::Attempt;
use super::{AttemptId, FAULTS, LONG_PAUSE, REFUSALS, Schedule};
use crate::chat::{Answer, Failure, Finished, Question, Reply, Spent, Ticket};
use crate::client::{Back, Lost};
use crate::fault::Fault;
use crate::settings::Timeouts;

/// Some servers end the answer to one question when another one comes, as if it were complete.
const CUT_OFF: &str = "the answer was cut off: it ended without the reason that this service gives otherwise; a server that answers one \
    question at a time wants `parallel = 1` of its endpoint";

impl Schedule {
    /// An attempt is back. One that was given up before is not heard.
    pub fn back(&mut self, now: Duration, id: AttemptId, result: Result<Back, Lost>) {
        let Some(attempt) = self.under_way.remove(&id) else {
            return;
        };
        let Some(lane) = self.lanes.get_mut(attempt.lane) else {
            return;
        };
        let result = match result {
            Ok(Back::Whole(whole)) if !whole.said_why && lane.says_why => Err(Lost {
                fault: Fault::broken(CUT_OFF.to_owned()),
                usage: whole.usage,
            }),
            result => result,
        };
        if let Ok(Back::Whole(whole)) = &result {
            lane.says_why |= whole.said_why;
        }
        let took = now.saturating_sub(attempt.begun);
        let usage = match &result {
            Ok(Back::Whole(whole)) => whole.usage,
            Ok(Back::Vectors(_, usage)) => *usage,
            Err(lost) => lost.usage,
        };
        let spent = Spent {
            requests: 1,
            failed: u64::from(result.is_err()),
            usage,
            cost: lane.price.of(&usage),
            seconds: took.as_secs_f64(),
        };
        self.account.settle(attempt.taken, &lane.name, &spent);
        if let (Some(ledger), Some(entry)) = (self.ledger.as_mut(), attempt.entry) {
            // Where this cannot be written it counts as lost, at its most.
            let _ = ledger.back(entry, &spent);
        }
        if let Question::Chat(request) = &*attempt.question {
            lane.context.learn(&request.messages, &usage);
        }
        if let Some(gate) = self.gates.get_mut(lane.endpoint) {
            gate.under_way = gate.under_way.saturating_sub(1);
            gate.limit
                .correct(attempt.sent, usage.prompt + usage.completion);
        }
        if let Some(job) = attempt.ticket.and_then(|ticket| self.jobs.get_mut(&ticket)) {
            job.under_way = false;
            job.spent.add(&spent);
            job.failed += u32::from(result.is_err());
        }
        match result {
            Ok(back) => self.answered(attempt, back, took),
            Err(lost) => self.failed(now, attempt, lost.fault, took),
        }
    }

    fn answered(&mut self, attempt: Attempt, back: Back, took: Duration) {
        if let Some(lane) = self.lanes.get_mut(attempt.lane) {
            lane.faults = 0;
            lane.refusals = 0;
            lane.busy = 0;
            lane.pause_until = Duration::ZERO;
            if lane.outage.take().is_some() {
                self.changes += 1;
            }
        }
        let Some(ticket) = attempt.ticket else {
            return;
        };
        let retries = self.jobs.get(&ticket).map_or(0, |job| job.failed);
        let answer = match back {
            Back::Whole(whole) => Answer::Reply(Reply {
                text: whole.text,
                thoughts: whole.thoughts,
                finish: whole.finish,
                usage: whole.usage,
                served_by: whole.served_by,
                seconds: took.as_secs_f64(),
                first_token: attempt
                    .watch
                    .first()
                    .filter(|_| attempt.manner.streams())
                    .map(|first| first.as_secs_f64()),
                retries,
            }),
            Back::Vectors(vectors, _) => Answer::Vectors(vectors),
        };
        self.finish(ticket, Ok(answer));
    }

    fn failed(&mut self, now: Duration, attempt: Attempt, fault: Fault, took: Duration) {
        let Some(lane) = self.lanes.get_mut(attempt.lane) else {
            return;
        };
        let Some(gate) = self.gates.get(lane.endpoint) else {
            return;
        };
        // What the service does not know is said otherwise, at once; what was sent before that was found out as well.
        let fault = match fault {
            Fault::Unwanted {
                quirk,
                status,
                message,
            } => match &*attempt.question {
                Question::Chat(request) if attempt.manner.can_do_without(quirk, request) => {
                    lane.manner.quirks.insert(quirk);
                    if let (None, Some(outage)) = (attempt.ticket, lane.outage.as_mut()) {
                        outage.trying = false;
                    }
                    return;
                }
                _ => Fault::Refused { status, message },
            },
            fault => fault,
        };
        let model = lane.name.clone();
        let Some(ticket) = attempt.ticket else {
            // The small question found the service as it was.
            let needs = matches!(
                fault,
                Fault::Somebody { .. } | Fault::Refused { .. } | Fault::TooLong { .. }
            );
            let after = match &fault {
                Fault::Busy { after, .. } => after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            lane.down(
                now,
                fault.message(),
                needs,
                after,
                &gate.pauses,
                &mut self.spread,
            );
            self.changes += 1;
            return;
        };
        let Some(job) = self.jobs.get_mut(&ticket) else {
            return;
        };
        job.whole |= matches!(fault, Fault::Silent { .. });
        let is_of_service = !matches!(fault, Fault::Refused { .. } | Fault::TooLong { .. });
        if lane.outage.is_some() && is_of_service {
            // Known already. The question waits.
            return;
        }
        match fault {
            Fault::TooLong { lengths, message } => {
                let room = match &*attempt.question {
                    Question::Chat(request) => {
                        let sent = attempt.manner.most_tokens(request);
                        lane.context.too_long(&lengths, &request.messages, sent)
                    }
                    Question::Embed(_) => None,
                };
                match room {
                    // It is asked again at once.
                    Some(room) => job.room = Some(room),
                    None => self.finish(ticket, Err(Failure::TooLong { model, message })),
                }
            }
            Fault::Refused { status, message } => {
                lane.refusals += 1;
                job.refusals += 1;
                let is_suspect = lane.refusals >= REFUSALS && lane.outage.is_none();
                if !is_suspect || job.refusals > 1 {
                    let failure = Failure::Refused {
                        model,
                        status,
                        message,
                    };
                    self.finish(ticket, Err(failure));
                } else {
                    // Nothing but refusals: what is asked of every question may be wrong.
                    lane.down(
                        now,
                        &message,
                        true,
                        Duration::ZERO,
                        &gate.pauses,
                        &mut self.spread,
                    );
                    self.changes += 1;
                }
            }
            Fault::Busy { after, message } => {
                lane.busy += 1;
                let pause = gate.pauses.after(lane.busy, &mut self.spread);
                let pause = after.map_or(pause, |after| pause.max(after));
                lane.pause_until = lane.pause_until.max(now + pause);
                if pause >= LONG_PAUSE || lane.busy > gate.attempts {
                    lane.down(now, &message, false, pause, &gate.pauses, &mut self.spread);
                    self.changes += 1;
                }
            }
            Fault::Unreachable { message } => {
                lane.down(
                    now,
                    &message,
                    false,
                    Duration::ZERO,
                    &gate.pauses,
                    &mut self.spread,
                );
                self.changes += 1;
            }
            Fault::Somebody { message } => {
                lane.down(
                    now,
                    &message,
                    true,
                    Duration::ZERO,
                    &gate.pauses,
                    &mut self.spread,
                );
                self.changes += 1;
            }
            Fault::Broken { message }
            | Fault::Silent { message }
            | Fault::Unwanted { message, .. } => {
                lane.faults += 1;
                if lane.faults >= FAULTS {
                    lane.down(
                        now,
                        &message,
                        false,
                        Duration::ZERO,
                        &gate.pauses,
                        &mut self.spread,
                    );
                    self.changes += 1;
                    return;
                }
                job.strikes += 1;
                let pause = gate.pauses.after(job.strikes, &mut self.spread);
                job.active += took + pause;
                job.ready = now + pause;
                let is_over = job.active >= Timeouts::duration(gate.timeouts.question);
                if job.strikes >= gate.attempts || is_over {
                    let attempts = job.failed;
                    let failure = Failure::Exhausted {
                        model,
                        attempts,
                        message,
                    };
                    self.finish(ticket, Err(failure));
                }
            }
        }
    }

    pub(super) fn finish(&mut self, ticket: Ticket, outcome: Result<Answer, Failure>) {
        let Some(job) = self.jobs.remove(&ticket) else {
            return;
        };
        self.changes += 1;
        self.finished.push(Finished {
            ticket,
            model: job.question.model().to_owned(),
            spent: job.spent,
            outcome,
        });
    }
}
