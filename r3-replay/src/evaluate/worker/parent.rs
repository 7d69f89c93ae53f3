//! The evaluator's side of a device's worker: starting it, giving it orders, telling how it ended.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use r3_codegen::worker::{Process, WorkerCommand, frame, inherited};
use serde::Serialize;

use super::protocol::{Answer, Made, Order, Said, Setup, Trouble};
use crate::evaluate::describe::DeviceDescription;
use crate::names;

/// Variables that a device's worker sees beside those of [`r3_codegen::worker::ENVIRONMENT`]: they say which GPUs there are
/// and how the driver treats them.
const ENVIRONMENT: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_CACHE_PATH",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_MODULE_LOADING",
    "XDG_RUNTIME_DIR",
    "RAYON_NUM_THREADS",
];

/// How often the other side looks whether it should give up.
const LOOK: Duration = Duration::from_millis(100);

/// How a worker ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// What it ran did not end within its limit.
    Passed {
        /// The limit.
        limit: Duration,
        /// What was running.
        what: String,
    },
    /// It said nothing for so long.
    Silent {
        /// How long.
        limit: Duration,
        /// What it did last.
        what: String,
    },
    /// The process ended, by itself or by a signal.
    Died {
        /// How.
        how: String,
        /// The signal that ended it.
        signal: Option<i32>,
        /// The end of its log.
        log: String,
    },
    /// It was not started.
    NotStarted(String),
    /// It was ended since nobody waits for the answer.
    Interrupted,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { limit, what } => {
                write!(f, "{what} did not end within {}", seconds(*limit))
            }
            Self::Silent { limit, what } => write!(
                f,
                "the device's worker said nothing for {} ({what})",
                seconds(*limit)
            ),
            Self::Died { how, log, .. } => {
                write!(f, "the device's worker {how}")?;
                match log.lines().next_back() {
                    Some(line) => write!(f, ": {line}"),
                    None => Ok(()),
                }
            }
            Self::NotStarted(reason) => write!(f, "{reason}"),
            Self::Interrupted => f.write_str("it was interrupted"),
        }
    }
}

fn seconds(limit: Duration) -> String {
    format!("{:.1} s", limit.as_secs_f64())
}

/// A worker of one device. Its process is started when it is needed. The thread that uses it has to live as long.
#[derive(Debug)]
pub struct Worker {
    command: WorkerCommand,
    environment: Vec<(&'static str, OsString)>,
    setup: Setup,
    silence: Duration,
    process: Option<Process>,
    device: Option<DeviceDescription>,
    /// Processes that were started.
    started: u64,
    /// Host and device memory at the last answer.
    memory: (u64, u64),
}

impl Worker {
    /// Without a process yet. One that says nothing for `silence` while it has an order is ended.
    pub fn new(command: WorkerCommand, setup: Setup, silence: Duration) -> Self {
        Self {
            command,
            environment: inherited(ENVIRONMENT),
            setup,
            silence,
            process: None,
            device: None,
            started: 0,
            memory: (0, 0),
        }
    }

    /// What it was told at its start. What is changed holds from the next start on.
    pub fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    /// Whether there is a process, and it has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_alive)
    }

    /// Its process.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Processes that were started so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Bytes of host memory and of device memory at the last answer.
    pub fn memory(&self) -> (u64, u64) {
        self.memory
    }

    /// Ends the process, if there is one. The next order gets a fresh one.
    pub fn end(&mut self) {
        self.process = None;
    }

    /// The device, with a process that has it open. `give_up` is asked now and then.
    pub fn open(&mut self, give_up: &dyn Fn() -> bool) -> Result<DeviceDescription, Ended> {
        if self.is_alive()
            && let Some(device) = &self.device
        {
            return Ok(device.clone());
        }
        self.end();
        let process = Process::start(&self.command, &self.environment).map_err(|error| {
            Ended::NotStarted(format!(
                "no worker process could be started for the device: {error}"
            ))
        })?;
        self.process = Some(process);
        self.started += 1;
        let frame = self.encode(&self.setup)?;
        let answer = self.converse(&frame, give_up)?;
        match answer.result {
            Ok(Made::Device(device)) => {
                self.device = Some((*device).clone());
                Ok(*device)
            }
            Ok(_) => Err(self.unasked()),
            Err(trouble) => {
                self.end();
                Err(Ended::NotStarted(trouble.to_string()))
            }
        }
    }

    /// Has an order done. After an [`Ended`], and after [`Trouble::Lost`], the process is gone.
    pub fn order(&mut self, order: &Order, give_up: &dyn Fn() -> bool) -> Result<Answer, Ended> {
        let frame = self.encode(order)?;
        self.open(give_up)?;
        let answer = self.converse(&frame, give_up)?;
        if matches!(answer.result, Err(Trouble::Lost(_))) {
            self.end();
        }
        Ok(answer)
    }

    fn encode(&self, value: &impl Serialize) -> Result<Vec<u8>, Ended> {
        frame::encode(value).map_err(|error| Ended::NotStarted(error.to_string()))
    }

    fn converse(&mut self, frame: &[u8], give_up: &dyn Fn() -> bool) -> Result<Answer, Ended> {
        let setup = self.encode(&self.setup)?;
        let Some(process) = self.process.as_mut() else {
            return Err(Ended::NotStarted("there is no worker process".to_owned()));
        };
        process.clear_log();
        let mut rest = frame.to_vec();
        let mut heard = Instant::now();
        let mut what = "starting".to_owned();
        // A process that starts over gets its setup again, and answers it.
        let mut skip = 0;
        let ended = loop {
            if give_up() {
                break Ended::Interrupted;
            }
            if heard.elapsed() >= self.silence {
                break Ended::Silent {
                    limit: self.silence,
                    what,
                };
            }
            if let Err(error) = process.wait_for_events(!rest.is_empty(), LOOK) {
                break garbled(&error);
            }
            process.drain_log();
            if !rest.is_empty() {
                match process.send(&rest) {
                    Ok(sent) => {
                        rest.drain(..sent);
                    }
                    // What it said before is still there to be read.
                    Err(_) => rest.clear(),
                }
            }
            let open = process.receive();
            let said = loop {
                match process.message::<Said>() {
                    Ok(Some(Said::Beat(now))) => {
                        heard = Instant::now();
                        what = now;
                    }
                    Ok(Some(Said::StartingOver)) => {
                        heard = Instant::now();
                        rest = setup.clone();
                        rest.extend_from_slice(frame);
                        skip = 1;
                    }
                    Ok(Some(Said::Answer(answer))) if skip > 0 => {
                        heard = Instant::now();
                        skip -= 1;
                        if let Err(trouble) = answer.result {
                            break Some(Err(Ended::NotStarted(trouble.to_string())));
                        }
                    }
                    Ok(Some(Said::Answer(answer))) => break Some(Ok(answer)),
                    Ok(Some(Said::Passed { limit, what })) => {
                        break Some(Err(Ended::Passed { limit, what }));
                    }
                    Ok(None) => break None,
                    Err(error) => break Some(Err(garbled(&error))),
                }
            };
            match said {
                Some(Ok(answer)) => {
                    self.memory = (answer.resident, answer.device_memory);
                    return Ok(*answer);
                }
                Some(Err(ended)) => break ended,
                None if !open => {
                    let (status, log) = process.end(true);
                    break Ended::Died {
                        how: describe(status),
                        signal: status.signal(),
                        log,
                    };
                }
                None => {}
            }
        };
        self.end();
        Err(ended)
    }

    fn unasked(&mut self) -> Ended {
        self.end();
        Ended::Died {
            how: "answered something else than what it was asked".to_owned(),
            signal: None,
            log: String::new(),
        }
    }
}

fn garbled(error: &io::Error) -> Ended {
    Ended::Died {
        how: format!("said what cannot be understood: {error}"),
        signal: None,
        log: String::new(),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(libc::SIGKILL), _) => {
            "was killed (SIGKILL): by somebody, or by the kernel for want of memory".to_owned()
        }
        (Some(signal), _) => format!("died of {}", names::signal(signal)),
        (None, Some(code)) => format!("ended with exit code {code} and without an answer"),
        (None, None) => "ended without an answer".to_owned(),
    }
}
