//! The queue in front of compilers and devices.
//!
//! ```text
//!  submit ──► queue by priority ──► compile worker ──► cache ──► equal code? ──► worker of a device ──► outcome
//!             (bounded: full is an error)                         yes: the same outcome
//! ```
//!
//! Threads: one for each compile worker (`compiling`), one for each device (`running`); all that they share is the `state`,
//! which decides who does what next. `kernels` keeps what is known of archives and their kernels, `equal` which outcome
//! stands for which code.

mod artifact;
mod compiling;
mod equal;
mod events;
mod kernels;
mod options;
mod running;
pub mod signals;
mod state;
mod types;

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use r3_archive::Archive;
use r3_archive::model::LaunchId;
use r3_codegen::worker::WorkerCommand;

pub use artifact::Artifact;
pub use events::Events;
pub use options::{EngineSetup, EvaluatorOptions, Workers};
pub use types::{
    ArchiveId, DeviceChoice, Event, JobId, JobState, Priority, Request, Status, SubmitError,
};

use self::compiling::Compilers;
use self::kernels::Archives;
use self::state::Shared;
use super::candidate::Candidate;
use super::describe::{DeviceDescription, KernelDescription};
use super::engine::Prepared;
use super::plan::Plan;
use super::worker::{DEVICE_WORKER, Setup, Worker};
use crate::remix;

/// Folder in that of the cache for what devices found out of launches.
const PROFILES: &str = "profiles-1";

/// Why an evaluator cannot do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluatorError {
    /// No device was given.
    #[error("there is no device to run on: name one")]
    NoDevice,
    /// A device cannot be used.
    #[error("{device}: {reason}")]
    Device {
        /// Which one.
        device: String,
        /// Why.
        reason: String,
    },
    /// Devices are of different kinds, so that code for one is none for the other.
    #[error("{one} and {other} are of different kinds: one evaluator runs on devices of one kind")]
    MixedDevices {
        /// The first one.
        one: String,
        /// Another one.
        other: String,
    },
    /// An archive cannot be opened.
    #[error("{0}")]
    Archive(String),
    /// There is no such archive.
    #[error("there is no archive {0:?}")]
    NoArchive(ArchiveId),
    /// The archive has no such kernel, or several.
    #[error("{0}")]
    Kernel(String),
    /// The code cannot be had.
    #[error("{0}")]
    Code(String),
    /// The machine failed: it may be tried again.
    #[error("{0}")]
    Machine(String),
    /// Threads or the cache could not be had.
    #[error("{0}")]
    Resources(String),
    /// It is ending.
    #[error("the evaluator is shutting down")]
    ShuttingDown,
}

/// Takes candidates, has them compiled, judged and timed, and tells what came of them. Callable from many threads.
///
/// When it is dropped, all of its processes end.
pub struct Evaluator {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads share.
struct Inner {
    device: DeviceDescription,
    archives: Archives,
    compilers: Compilers,
    shared: Shared,
}

impl Evaluator {
    /// Starts workers for the devices. Compile workers are started when they are needed.
    pub fn new(options: EvaluatorOptions) -> Result<Self, EvaluatorError> {
        if options.devices.is_empty() {
            return Err(EvaluatorError::NoDevice);
        }
        let own = |argument: &str| {
            WorkerCommand::this_program(argument)
                .map_err(|error| EvaluatorError::Resources(error.to_string()))
        };
        let (device_command, compile_command) = match &options.workers {
            Some(workers) => (workers.device.clone(), workers.compile.clone()),
            None => (own(DEVICE_WORKER)?, own(remix::WORKER)?),
        };
        let shared = Shared::new(&options);
        let opened = open_devices(&options, &device_command, &shared);
        let (device, runners) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                shared.end();
                return Err(error);
            }
        };
        let compilers = Compilers::new(compile_command, &options)?;
        let inner = Arc::new(Inner {
            archives: Archives::default(),
            device,
            compilers,
            shared,
        });
        let evaluator = Self {
            inner: inner.clone(),
            threads: Mutex::default(),
        };
        let mut threads = evaluator
            .threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for runner in runners {
            let Runner { thread, begin, .. } = runner;
            threads.push(thread);
            // Its thread waits for this.
            _ = begin.send(inner.clone());
        }
        for number in 0..inner.compilers.workers() {
            let inner = inner.clone();
            let thread = spawn(&format!("compile {number}"), move || {
                compiling::work(&inner);
            })?;
            threads.push(thread);
        }
        drop(threads);
        Ok(evaluator)
    }

    /// The devices' description. There may be several of the kind.
    pub fn device(&self) -> &DeviceDescription {
        &self.inner.device
    }

    /// Opens an archive. One that is open already keeps its number.
    pub fn open(&self, path: &Path) -> Result<ArchiveId, EvaluatorError> {
        self.inner.archives.open(path)
    }

    /// An archive that is open.
    pub fn archive(&self, archive: ArchiveId) -> Result<Arc<Archive>, EvaluatorError> {
        Ok(self.inner.archives.get(archive)?.archive.clone())
    }

    /// What there is to try for a kernel.
    pub fn describe(
        &self,
        archive: ArchiveId,
        kernel: &str,
    ) -> Result<KernelDescription, EvaluatorError> {
        let entry = self.inner.archives.get(archive)?.kernel(kernel)?;
        let subject = entry.subject(&self.inner)?;
        Ok((**subject.description()).clone())
    }

    /// Makes launches of a kernel ready, all of them when none is named, and tells what was found out.
    pub fn prepare(
        &self,
        archive: ArchiveId,
        kernel: &str,
        launches: &[LaunchId],
    ) -> Result<Vec<Prepared>, EvaluatorError> {
        let entry = self.inner.archives.get(archive)?.kernel(kernel)?;
        let all: Vec<LaunchId>;
        let launches = match launches {
            [] => {
                let subject = entry.subject(&self.inner)?;
                all = subject.launches().map(|launch| launch.id).collect();
                &all
            }
            launches => launches,
        };
        entry.prepared(&self.inner, launches)
    }

    /// Takes a candidate into the queue.
    pub fn submit(&self, request: Request) -> Result<JobId, SubmitError> {
        let archive = self
            .inner
            .archives
            .get(request.archive)
            .map_err(|_| SubmitError::NoArchive(request.archive))?;
        let entry = archive
            .kernel(&request.kernel)
            .map_err(|error| SubmitError::Kernel(error.to_string()))?;
        kernels::check_plan(&entry, &request.plan).map_err(SubmitError::Plan)?;
        self.inner.shared.submit(request, entry)
    }

    /// Cancels a job. `false` when it is over already, or unknown.
    ///
    /// One that runs is over for the caller at once; the device gets a few seconds to finish what it does.
    pub fn cancel(&self, job: JobId) -> bool {
        self.inner.shared.cancel(job)
    }

    /// How far a job is. `None` when it is unknown, or was over so long ago that it is forgotten.
    pub fn job(&self, job: JobId) -> Option<JobState> {
        self.inner.shared.job(job)
    }

    /// Events with a higher number than `after`, as they come: 0 begins with the first that is kept.
    pub fn events(&self, after: u64) -> Events {
        Events::new(self.inner.clone(), after)
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        let mut status = self.inner.shared.status();
        let (hits, misses) = self.inner.compilers.cache();
        status.cache_hits = hits;
        status.cache_misses = misses;
        status.archives = self.inner.archives.list();
        status
    }

    /// The code that a candidate is, as it is loaded, and what it was made from. It is compiled, unless the cache has it.
    pub fn artifact(
        &self,
        archive: ArchiveId,
        kernel: &str,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Artifact, EvaluatorError> {
        let entry = self.inner.archives.get(archive)?.kernel(kernel)?;
        artifact::of(&self.inner, &entry, candidate, plan)
    }

    /// The processes of all workers, for tests and for people.
    pub fn processes(&self) -> Vec<u32> {
        let mut processes = self.inner.shared.processes();
        processes.extend(self.inner.compilers.processes());
        processes
    }

    /// Cancels what waits and runs, ends all workers, and lets [`events`](Self::events) end. Returns when that is done.
    pub fn shutdown(&self) {
        self.inner.shared.end();
        self.inner.compilers.stop();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            _ = thread.join();
        }
        self.inner.shared.ended();
    }
}

impl Drop for Evaluator {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The thread of a device, which has it open and waits for the rest.
struct Runner {
    thread: JoinHandle<()>,
    begin: Sender<Arc<Inner>>,
    opened: Receiver<Result<DeviceDescription, EvaluatorError>>,
    device: DeviceChoice,
}

/// Starts the threads of devices, each of which starts its worker: at the same time, since that takes seconds on a GPU.
fn open_devices(
    options: &EvaluatorOptions,
    command: &WorkerCommand,
    shared: &Shared,
) -> Result<(DeviceDescription, Vec<Runner>), EvaluatorError> {
    let mut runners = Vec::new();
    for (number, device) in options.devices.iter().enumerate() {
        let profiles = options.cache.as_ref().map(|folder| folder.join(PROFILES));
        let setup = Setup::new(device.clone(), &options.engine, profiles);
        let worker = Worker::new(command.clone(), setup, options.silence);
        let (begin, wait) = channel();
        let (tell, opened) = channel();
        let choice = device.clone();
        let ending = shared.ending();
        let thread = spawn(&format!("device {number}"), move || {
            running::work(number, choice, worker, &ending, &tell, &wait);
        })?;
        runners.push(Runner {
            thread,
            begin,
            opened,
            device: device.clone(),
        });
    }
    let mut first: Option<(DeviceDescription, String)> = None;
    let mut failed = None;
    for runner in &runners {
        let name = runner.device.to_string();
        let opened = runner.opened.recv().unwrap_or_else(|_| {
            Err(EvaluatorError::Resources(
                "the thread of a device ended".to_owned(),
            ))
        });
        match (opened, &first) {
            (Err(error), _) => failed = failed.or(Some(error)),
            (Ok(device), None) => first = Some((device, name)),
            (Ok(device), Some((one, named))) => {
                if (device.sm, &device.name) != (one.sm, &one.name) {
                    failed = failed.or(Some(EvaluatorError::MixedDevices {
                        one: named.clone(),
                        other: name,
                    }));
                }
            }
        }
    }
    match (failed, first) {
        (None, Some((device, _))) => Ok((device, runners)),
        (failed, _) => {
            for Runner { thread, begin, .. } in runners {
                drop(begin);
                _ = thread.join();
            }
            Err(failed.unwrap_or(EvaluatorError::NoDevice))
        }
    }
}

fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, EvaluatorError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| EvaluatorError::Resources(format!("no thread could be started: {error}")))
}
