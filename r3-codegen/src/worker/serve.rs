//! The child: reads recipes and sources, compiles them, answers.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::protocol::{self, Answer, Made, Message, Setup, Task};
use crate::assemble::scratch;
use crate::compile;
use crate::recipe::{Failure, FailureKind, Product, Recipe, Stage};
use crate::source;

/// Stack of the thread that compiles. LLVM goes deep into nested types and expressions.
const STACK: usize = 64 << 20;

/// Makes this process a worker: reads recipes from standard input until that ends and writes answers to standard output.
///
/// To be called before anything else: it closes all other descriptors, limits memory, and never returns.
pub fn serve() -> ! {
    serve_with(compile::compile_reporting)
}

/// As [`serve`], with another function in place of [`compile`](compile::compile). It is given the recipe and a function
/// to call with each stage that it enters.
pub fn serve_with<C>(compile: C) -> !
where
    C: Fn(&Recipe, &dyn Fn(Stage)) -> Result<Product, Failure> + Send + 'static,
{
    let outcome = prepare().and_then(|(input, output)| work(input, output, compile));
    if let Err(error) = outcome {
        eprintln!("worker: {error}");
        exit(1);
    }
    exit(0)
}

/// Cuts this process off from what it inherited. Returns the two ends of the connection.
fn prepare() -> io::Result<(File, File)> {
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        return Err(io::Error::other(
            "this is a worker process: its input are recipes of a program that started it",
        ));
    }
    close_others();
    let input = File::from(away(libc::STDIN_FILENO)?);
    let output = File::from(away(libc::STDOUT_FILENO)?);
    let nothing = File::open("/dev/null")?;
    // From here on a `printf` in LLVM or in an assembler's library is part of the log.
    replace(nothing.as_raw_fd(), libc::STDIN_FILENO)?;
    replace(libc::STDERR_FILENO, libc::STDOUT_FILENO)?;

    // SAFETY: none of these calls takes memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        // One thread compiles: arenas for others would only reserve addresses, which are limited.
        #[cfg(target_env = "gnu")]
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    // No core dumps: too little for a file, and for the system the sign to start no program with it either.
    limit(libc::RLIMIT_CORE, 1);
    Ok((input, output))
}

fn work<C>(mut input: File, mut output: File, compile: C) -> io::Result<()>
where
    C: Fn(&Recipe, &dyn Fn(Stage)) -> Result<Product, Failure> + Send + 'static,
{
    let Some(setup) = protocol::read::<Setup>(&mut input)? else {
        return Ok(());
    };
    let watched = [input.as_raw_fd(), terminations()?];
    std::thread::Builder::new()
        .name("compile".into())
        .stack_size(STACK)
        .spawn(move || {
            limit_memory(setup.memory);
            let outcome = answer_all(&mut input, &mut output, compile);
            if let Err(error) = &outcome {
                eprintln!("worker: {error}");
            }
            exit(outcome.is_err().into())
        })
        .map_err(|error| io::Error::other(format!("no thread could be started: {error}")))?;
    wait_for_end(watched);
    end_group()
}

fn answer_all<C>(input: &mut File, output: &mut File, compile: C) -> io::Result<()>
where
    C: Fn(&Recipe, &dyn Fn(Stage)) -> Result<Product, Failure>,
{
    let mut options: Option<Vec<String>> = None;
    while let Some(task) = protocol::read::<Task>(input)? {
        let stage = Cell::new(Stage::Worker);
        let out = RefCell::new(&mut *output);
        let enter = |next: Stage| {
            stage.set(next);
            // A parent that does not listen any more has hung up: the other thread ends this process.
            _ = protocol::write(&mut **out.borrow_mut(), &Message::Enter(next));
        };
        enter(Stage::Worker);

        let other_options = match &task {
            Task::Recipe(recipe) => {
                let first = options.get_or_insert_with(|| recipe.llvm_options.clone());
                (*first != recipe.llvm_options).then(|| {
                    format!(
                        "LLVM's options are global to a process: this one has {first:?}, the recipe wants {:?}",
                        recipe.llvm_options
                    )
                })
            }
            Task::Source(..) => None,
        };
        let make = || match &task {
            Task::Recipe(recipe) => compile(recipe, &enter).map(Made::Product),
            Task::Source(source, target) => {
                enter(Stage::Source);
                source::compile(source, target).map(Made::Compiled)
            }
        };
        let (result, retire) = match other_options {
            Some(message) => (Err(failure(Stage::Worker, message)), true),
            None => match catch_unwind(AssertUnwindSafe(make)) {
                Ok(result) => (result, false),
                Err(panic) => {
                    let message = format!("panic: {}", text_of(&*panic));
                    (Err(failure(stage.get(), message)), true)
                }
            },
        };
        let answer = Answer {
            result,
            resident: resident(),
            retire,
        };
        let answer = Message::Answer(Box::new(answer));
        let frame = protocol::encode(&answer).or_else(|error| {
            // Too long to be sent.
            protocol::encode(&Message::Answer(Box::new(Answer {
                result: Err(failure(Stage::Worker, format!("the answer: {error}"))),
                resident: resident(),
                retire: false,
            })))
        })?;
        io::Write::write_all(output, &frame)?;
    }
    Ok(())
}

fn failure(stage: Stage, message: String) -> Failure {
    Failure {
        stage,
        kind: FailureKind::Crash,
        message,
        log: String::new(),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Bytes of memory that this process occupies.
fn resident() -> u64 {
    statm(1)
}

/// A number of `/proc/self/statm`, in bytes: 0 is the address space, 1 what is resident, 5 data.
fn statm(position: usize) -> u64 {
    // SAFETY: takes a number, returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages
        .and_then(|text| text.split_whitespace().nth(position)?.parse::<u64>().ok())
        .unwrap_or(0)
        .saturating_mul(u64::try_from(page).unwrap_or(4096))
}

/// Lets this process have `bytes` more than it has now.
///
/// The limit on data counts what is really used; that on addresses also stops what is only reserved, and holds on
/// kernels that do not count data. Libraries that are loaded later (an assembler's has 100 MB) need addresses as well.
fn limit_memory(bytes: u64) {
    const LIBRARIES: u64 = 1 << 30;
    limit(libc::RLIMIT_DATA, statm(5).saturating_add(bytes));
    limit(
        libc::RLIMIT_AS,
        statm(0).saturating_add(bytes).saturating_add(LIBRARIES),
    );
}

fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a structure that lives here. What fails leaves the old limit.
    unsafe {
        if libc::getrlimit(resource, &mut now) == 0 {
            let bytes = now.rlim_max.min(bytes);
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: bytes,
            };
            libc::setrlimit(resource, &limit);
        }
    }
}

/// Closes all descriptors but the standard ones.
fn close_others() {
    // SAFETY: nothing in this process uses other descriptors yet: `serve` is called first.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) == 0 {
            return;
        }
        // Linux before 5.9.
        let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|&fd| fd > 2)
            .collect();
        for fd in open {
            libc::close(fd);
        }
    }
}

/// A copy of a descriptor above the standard ones, which programs that this process starts do not get.
fn away(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers; the new descriptor is owned by nobody else.
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) {
            -1 => Err(io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}

fn replace(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers. Nothing owns the standard descriptors.
    match unsafe { libc::dup2(from, to) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A descriptor that becomes readable when this process is asked to end: by the system, when its parent is gone, or by
/// somebody. The signal is blocked in all threads, which inherit this one's mask; programs that they start get none.
fn terminations() -> io::Result<RawFd> {
    // SAFETY: all zeros are a value of this set, which lives here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(fd),
        }
    }
}

/// Returns when the other end of the connection is closed, or this process is asked to end.
fn wait_for_end([connection, signals]: [RawFd; 2]) {
    let mut watched = [(connection, 0), (signals, libc::POLLIN)].map(|(fd, events)| libc::pollfd {
        fd,
        events,
        revents: 0,
    });
    // SAFETY: the structures live here, and there are two.
    while unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) } <= 0 {}
}

/// Ends this process and every program that it started.
fn end_group() -> ! {
    scratch::remove_inherited();
    // SAFETY: takes numbers. In a group of somebody else only this process ends.
    unsafe {
        if libc::getpgrp() == libc::getpid() {
            libc::kill(0, libc::SIGKILL);
        }
    }
    exit(0)
}

/// Ends this process without the destructors of LLVM's and assemblers' globals, which other threads may still use.
fn exit(code: i32) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(code) }
}
