//! A number of children, shared by many threads.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::child::{Child, Outcome};
use super::environment::{self, Environment};
use super::frame;
use super::protocol::{Made, Task};
use super::verdict;
use crate::recipe::{Failure, FailureKind, Product, Recipe, Source, Stage};
use crate::source::Compiled;

/// The file of the process that reads this.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How to start a child: a program that calls [`serve`](super::serve) when it is started so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program. A relative path with a folder in it is from the folder in which the pool is made.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl WorkerCommand {
    /// This program itself, started with one argument: the same file, even when another was put in its place meanwhile.
    pub fn this_program(argument: &str) -> io::Result<WorkerCommand> {
        let program = PathBuf::from(THIS_PROGRAM);
        std::fs::read_link(&program)?;
        Ok(WorkerCommand {
            program,
            arguments: vec![argument.into()],
        })
    }
}

/// What a recipe may cost, and when children are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Recipes that are compiled at the same time. Twice as many children are kept when recipes differ in LLVM's options.
    pub workers: usize,
    /// Time for a recipe, from the moment in which a child gets it.
    pub time: Duration,
    /// Time for each stage of it.
    pub stage_time: Option<Duration>,
    /// Bytes of memory for a child, beyond what it has when it starts. Each program that it starts may have as much.
    pub memory: u64,
    /// A child is replaced after so many recipes.
    pub jobs: u32,
    /// A child is replaced when it occupies so many bytes of memory between two recipes.
    pub resident: u64,
}

impl Default for Limits {
    /// One worker for each CPU, a minute for each stage and three for all, 4 GiB.
    fn default() -> Self {
        Limits {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            time: Duration::from_secs(180),
            stage_time: Some(Duration::from_secs(60)),
            memory: 4 << 30,
            jobs: 1000,
            resident: 1 << 30,
        }
    }
}

/// Worker processes. They are started when they are needed, used again, and ended when the pool is dropped.
#[derive(Debug)]
pub struct Pool {
    command: WorkerCommand,
    environment: Environment,
    limits: Limits,
    state: Mutex<State>,
    slot_free: Condvar,
    starter: Mutex<Option<Starter>>,
}

#[derive(Debug, Default)]
struct State {
    /// Recipes that are being compiled.
    busy: usize,
    /// Children that wait, the one that was used last at the end.
    idle: Vec<Child>,
    /// All children that there are.
    processes: Vec<u32>,
    /// Children that were started so far.
    started: u64,
    /// Nothing is compiled any more.
    stopped: bool,
}

impl Pool {
    /// A pool without any child yet. Its children get the environment of this moment.
    pub fn new(mut command: WorkerCommand, limits: Limits) -> Pool {
        // A child has another working directory.
        if command.program.components().count() > 1
            && let Ok(program) = std::path::absolute(&command.program)
        {
            command.program = program;
        }
        Pool {
            command,
            environment: environment::inherited(&[]),
            limits,
            state: Mutex::default(),
            slot_free: Condvar::new(),
            starter: Mutex::default(),
        }
    }

    /// How its children are started.
    pub fn command(&self) -> &WorkerCommand {
        &self.command
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Children that were started since the pool was made: more than are used at a time means that some were replaced.
    pub fn started(&self) -> u64 {
        self.state().started
    }

    /// The processes of all children that there are now.
    pub fn processes(&self) -> Vec<u32> {
        self.state().processes.clone()
    }

    /// Compiles a recipe in a child. Waits until one is free. Callable from many threads.
    pub fn compile(&self, recipe: &Recipe) -> Result<Product, Failure> {
        let task = Task::Recipe(Box::new(recipe.clone()));
        match self.make(&task, &recipe.llvm_options)? {
            Made::Product(product) => Ok(product),
            Made::Compiled(_) => Err(unasked()),
        }
    }

    /// Has a source compiled by its compiler, in a child: see [`source::compile`](crate::source::compile). Relative paths
    /// in it are not from this process's folder.
    pub fn compile_source(&self, source: &Source, target: &str) -> Result<Compiled, Failure> {
        let task = Task::Source(Box::new(source.clone()), target.to_owned());
        match self.make(&task, &[])? {
            Made::Compiled(compiled) => Ok(compiled),
            Made::Product(_) => Err(unasked()),
        }
    }

    /// Has something made by a child with these options of LLVM.
    fn make(&self, task: &Task, options: &[String]) -> Result<Made, Failure> {
        let whole = frame::encode(task).map_err(|error| {
            verdict::of_worker(FailureKind::Refused, error.to_string(), String::new())
        })?;
        let _slot = self.slot()?;
        loop {
            let mut child = self.child(options)?;
            // A child that was started while all were ended was not among them.
            if self.state().stopped {
                self.discard(child);
                return Err(stopped());
            }
            let is_new = child.jobs == 0;
            let outcome = child.converse(&whole, &self.limits);
            let failure = match outcome {
                Outcome::Answer(answer) => {
                    let log = if answer.result.is_err() {
                        child.log()
                    } else {
                        String::new()
                    };
                    let worn = child.jobs >= self.limits.jobs;
                    let worn = worn || answer.retire || answer.resident > self.limits.resident;
                    self.keep(child, !worn);
                    return answer.result.map_err(|failure| with_log(failure, log));
                }
                // It died while it waited: this recipe has nothing to do with that.
                Outcome::Ended(None) if !is_new => {
                    self.discard(child);
                    continue;
                }
                Outcome::Ended(stage) => {
                    let (status, log) = child.end(true);
                    let stage = stage.unwrap_or(Stage::Worker);
                    verdict::of_end(stage, status, self.limits.memory, log)
                }
                Outcome::Timeout(stage, limit, of) => {
                    let (_, log) = child.end(false);
                    verdict::of_timeout(stage, limit, of, log)
                }
                Outcome::Garbled(stage, error) => {
                    let (_, log) = child.end(false);
                    let message = format!("the worker's answer: {error}");
                    Failure {
                        stage,
                        ..verdict::of_worker(FailureKind::Crash, message, log)
                    }
                }
            };
            self.discard(child);
            return Err(match self.state().stopped {
                true => stopped(),
                false => failure,
            });
        }
    }

    /// Ends all children at once. What is being compiled, what waits and what is asked for later fails as stopped.
    pub fn stop(&self) {
        let idle = {
            let mut state = self.state();
            state.stopped = true;
            for &process in &state.processes {
                if let Ok(group) = libc::pid_t::try_from(process) {
                    // SAFETY: takes numbers. A child leads a group of its own, and is listed until it is waited for, so that
                    // the number is nobody else's.
                    unsafe { libc::kill(-group, libc::SIGKILL) };
                }
            }
            std::mem::take(&mut state.idle)
        };
        self.slot_free.notify_all();
        for child in idle {
            self.discard(child);
        }
    }

    /// A child with these options: one that waits, else a new one.
    fn child(&self, options: &[String]) -> Result<Child, Failure> {
        let mut old = Vec::new();
        let mut found = None;
        {
            let mut state = self.state();
            while let Some(at) = state
                .idle
                .iter()
                .rposition(|child| child.options == options)
            {
                let mut child = state.idle.remove(at);
                if child.is_alive() {
                    found = Some(child);
                    break;
                }
                old.push(child);
            }
            if found.is_none() {
                let keep = (2 * self.limits.workers.max(1)).saturating_sub(state.busy);
                let extra = state.idle.len().saturating_sub(keep);
                old.extend(state.idle.drain(..extra));
            }
        }
        for child in old {
            self.discard(child);
        }
        match found {
            Some(child) => Ok(child),
            None => self.start(options.to_vec()),
        }
    }

    fn start(&self, options: Vec<String>) -> Result<Child, Failure> {
        let child = self.ask_starter(options).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                    FailureKind::MissingTool
                }
                _ => FailureKind::Crash,
            };
            let message = match self.command.program.to_str() {
                Some(THIS_PROGRAM) => format!("no worker process could be started: {error}"),
                _ => {
                    let program = self.command.program.display();
                    format!("{program} could not be started as a worker: {error}")
                }
            };
            verdict::of_worker(kind, message, String::new())
        })?;
        let mut state = self.state();
        state.processes.push(child.id());
        state.started += 1;
        Ok(child)
    }

    fn ask_starter(&self, options: Vec<String>) -> io::Result<Child> {
        let orders = {
            let mut starter = lock(&self.starter);
            match &*starter {
                Some(starter) => starter.orders.clone(),
                None => {
                    let (command, environment) = (self.command.clone(), self.environment.clone());
                    let new = Starter::new(command, environment, self.limits.memory)?;
                    starter.insert(new).orders.clone()
                }
            }
        };
        let (reply, answer) = channel();
        let gone = || io::Error::other("the thread that starts workers is gone");
        orders.send((options, reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// Has a child wait for the next recipe, unless it is not to be used again or the pool was stopped meanwhile.
    fn keep(&self, child: Child, usable: bool) {
        let mut state = self.state();
        if usable && !state.stopped {
            state.idle.push(child);
        } else {
            drop(state);
            self.discard(child);
        }
    }

    /// Ends a child for good.
    fn discard(&self, child: Child) {
        let id = child.id();
        // Off the list first: when it is waited for, its number may become another's.
        self.state().processes.retain(|&process| process != id);
        drop(child);
    }

    /// Waits until fewer recipes than there may be are being compiled.
    fn slot(&self) -> Result<Slot<'_>, Failure> {
        let most = self.limits.workers.max(1);
        let mut state = self.state();
        while state.busy >= most && !state.stopped {
            state = self
                .slot_free
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return Err(stopped());
        }
        state.busy += 1;
        Ok(Slot { pool: self })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // First the children, then the thread that started them: when that ends, what is left ends, too.
        self.state().idle.clear();
        drop(lock(&self.starter).take());
    }
}

/// The right to have a recipe compiled.
struct Slot<'a> {
    pool: &'a Pool,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.pool.state().busy -= 1;
        self.pool.slot_free.notify_one();
    }
}

type Order = (Vec<String>, Sender<io::Result<Child>>);

/// A thread that starts children and lives as long as the pool: a child's `PR_SET_PDEATHSIG` fires when the *thread*
/// that started it ends, and callers' threads come and go.
#[derive(Debug)]
struct Starter {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    fn new(command: WorkerCommand, environment: Environment, memory: u64) -> io::Result<Starter> {
        let (orders, inbox) = channel::<Order>();
        let thread = std::thread::Builder::new()
            .name("r3-workers".into())
            .spawn(move || {
                for (options, reply) in inbox {
                    // A caller that is gone drops the child with the reply, and that ends it.
                    _ = reply.send(Child::start(&command, &environment, memory, options));
                }
            })?;
        Ok(Starter {
            orders,
            thread: Some(thread),
        })
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        let (closed, _) = channel();
        self.orders = closed;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// What is not compiled because nothing is any more.
fn stopped() -> Failure {
    let message = "compilation was stopped".to_owned();
    verdict::of_worker(FailureKind::Crash, message, String::new())
}

/// An answer to something else than what was asked.
fn unasked() -> Failure {
    let message = "the worker answered something else than what it was asked".to_owned();
    verdict::of_worker(FailureKind::Crash, message, String::new())
}

/// The child's own log, or what was printed in it.
fn with_log(mut failure: Failure, printed: String) -> Failure {
    if failure.log.is_empty() {
        failure.log = printed;
    }
    failure
}

/// A panic of another thread leaves these values whole: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
