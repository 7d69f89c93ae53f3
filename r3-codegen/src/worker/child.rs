//! The parent's side of one child: a process that compiles, talked with under time limits.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::environment::Environment;
use super::frame;
use super::pool::{Limits, WorkerCommand};
use super::process::Process;
use super::protocol::{Answer, Message, Setup};
use crate::recipe::Stage;

/// A worker process.
#[derive(Debug)]
pub(super) struct Child {
    process: Process,
    /// Recipes that it was given.
    pub(super) jobs: u32,
    /// LLVM's options in it, which are those of its first recipe.
    pub(super) options: Vec<String>,
}

/// What came of a conversation.
pub(super) enum Outcome {
    /// An answer.
    Answer(Box<Answer>),
    /// The child closed the connection while it was in this stage; `None`: before it had the recipe.
    Ended(Option<Stage>),
    /// A limit was exceeded: that of a recipe or that of a stage.
    Timeout(Stage, Duration, &'static str),
    /// It said what cannot be understood.
    Garbled(Stage, io::Error),
}

impl Child {
    /// Starts a child. The calling thread has to live as long as the child, which ends with it.
    pub(super) fn start(
        command: &WorkerCommand,
        environment: &Environment,
        memory: u64,
        options: Vec<String>,
    ) -> io::Result<Child> {
        let process = Process::start(command, environment)?;
        // A few bytes: they fit into the empty connection.
        process.send(&frame::encode(&Setup { memory })?)?;
        Ok(Child {
            process,
            jobs: 0,
            options,
        })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// It has not ended.
    pub(super) fn is_alive(&mut self) -> bool {
        self.process.is_alive()
    }

    /// Ends it, if it has not ended, and everything that it started. Returns how it ended and the end of its log.
    pub(super) fn end(&mut self, patience: bool) -> (ExitStatus, String) {
        self.process.end(patience)
    }

    /// The end of its log.
    pub(super) fn log(&mut self) -> String {
        self.process.log()
    }

    /// Sends a recipe and waits for the answer.
    pub(super) fn converse(&mut self, recipe: &[u8], limits: &Limits) -> Outcome {
        self.jobs += 1;
        self.process.clear_log();
        let began = Instant::now();
        let mut stage = None;
        let mut entered = began;
        let mut rest = recipe;
        loop {
            let now = stage.unwrap_or(Stage::Worker);
            let mut left = limits.time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Outcome::Timeout(now, limits.time, "recipe");
            }
            if let Some(limit) = limits.stage_time {
                let of_stage = limit.saturating_sub(entered.elapsed());
                if of_stage.is_zero() {
                    return Outcome::Timeout(now, limit, "stage");
                }
                left = left.min(of_stage);
            }
            if let Err(error) = self.process.wait_for_events(!rest.is_empty(), left) {
                return Outcome::Garbled(now, error);
            }
            self.process.drain_log();
            if !rest.is_empty() {
                match self.process.send(rest) {
                    Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                    // What it said before is still there to be read.
                    Err(_) => rest = &[],
                }
            }
            let open = self.process.receive();
            loop {
                match self.process.message::<Message>() {
                    Ok(Some(Message::Enter(next))) => {
                        stage = Some(next);
                        entered = Instant::now();
                    }
                    Ok(Some(Message::Answer(answer))) => {
                        self.process.clear_inbox();
                        self.process.drain_log();
                        return Outcome::Answer(answer);
                    }
                    Ok(None) => break,
                    Err(error) => return Outcome::Garbled(stage.unwrap_or(Stage::Worker), error),
                }
            }
            if !open {
                return Outcome::Ended(stage);
            }
        }
    }
}
