//! The child: reads recipes and sources, compiles them, answers.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::frame;
use super::isolate::{self, end_group, exit, limit, resident, statm, wait_for_end};
use super::protocol::{Answer, Made, Message, Setup, Task};
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
    let outcome = isolate::cut_off().and_then(|(input, output)| work(input, output, compile));
    if let Err(error) = outcome {
        eprintln!("worker: {error}");
        exit(1);
    }
    exit(0)
}

fn work<C>(mut input: File, mut output: File, compile: C) -> io::Result<()>
where
    C: Fn(&Recipe, &dyn Fn(Stage)) -> Result<Product, Failure> + Send + 'static,
{
    let Some(setup) = frame::read::<Setup>(&mut input)? else {
        return Ok(());
    };
    // One thread compiles: arenas for others would only reserve addresses, which are limited.
    #[cfg(target_env = "gnu")]
    // SAFETY: takes numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
    let watched = [input.as_raw_fd(), isolate::terminations()?];
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
    while let Some(task) = frame::read::<Task>(input)? {
        let stage = Cell::new(Stage::Worker);
        let out = RefCell::new(&mut *output);
        let enter = |next: Stage| {
            stage.set(next);
            // A parent that does not listen any more has hung up: the other thread ends this process.
            _ = frame::write(&mut **out.borrow_mut(), &Message::Enter(next));
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
        let whole = frame::encode(&answer).or_else(|error| {
            // Too long to be sent.
            frame::encode(&Message::Answer(Box::new(Answer {
                result: Err(failure(Stage::Worker, format!("the answer: {error}"))),
                resident: resident(),
                retire: false,
            })))
        })?;
        io::Write::write_all(output, &whole)?;
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
