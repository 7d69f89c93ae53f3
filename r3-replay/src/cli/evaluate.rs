//! `evaluate`: candidates from a file, outcomes to standard output.

mod candidates;
mod print;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use serde::Serialize;

use self::candidates::{Line, base_plan};
use super::evaluator::EvaluatorArgs;
use super::output::Output;
use super::{DIFFERENT, FAILED, Failure, NOT_HERE, OK, select};
use crate::evaluate::evaluator::signals::Terminations;
use crate::evaluate::evaluator::{
    ArchiveId, Evaluator, JobId, JobState, Priority, Request, Status, SubmitError,
};
use crate::evaluate::outcome::{Outcome, Verdict};
use crate::names::readable;

/// Compile, judge and time candidates for a captured kernel.
///
/// A candidate is code, how it is compiled and how it is launched, as JSON: `{"code": {"captured": {}}, "build": {"bounds":
/// {"maxnreg": 64}}, "launch": {"block": [128, 1, 1]}}`; what is left out is as in the original. Each is right when every
/// byte of every recorded launch is, under poison and with canaries; what is right is raced against the original. Without
/// --candidates the original itself is the candidate, which must come out right and no faster.
///
/// Exit code: 0 when every candidate is right; 1 when one is not: wrong, refused, does not compile, faults, hangs, cheats;
/// 2 when something could not be judged since the machine failed, or was interrupted; 3 when nothing is wrong, but this kind
/// of device cannot judge something. Ctrl-C ends it with what is done so far.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    /// The kernel: its name, or a regular expression that one name matches. May be left out when there is only one.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    /// Candidates, one on a line: `-` reads standard input as it comes. A line is a candidate, or `{"candidate": …,
    /// "label": "…", "plan": {…}}`, where the plan says what differs from --plan.
    #[arg(long, value_name = "FILE")]
    candidates: Option<PathBuf>,

    /// How thoroughly.
    #[arg(long, value_enum, default_value_t, conflicts_with = "plan_file")]
    plan: PlanKind,

    /// The same in detail, as JSON or TOML (`.toml`): launches, pairs, cold caches, perturbed inputs.
    #[arg(long, value_name = "FILE")]
    plan_file: Option<PathBuf>,

    #[command(flatten)]
    evaluator: EvaluatorArgs,

    /// Print outcomes as JSON, one on a line as they come, and a summary on the last.
    #[arg(long)]
    json: bool,
}

/// Plans by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PlanKind {
    /// Right or not, without times.
    Judge,
    /// Raced, as in a search: up to 32 pairs with the original.
    #[default]
    Search,
    /// For what is to be claimed: a fresh process, compiled twice, perturbed inputs, 100 pairs with warm and cold caches.
    Final,
}

/// How often is looked for candidates that come in, and for Ctrl-C.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let plan = base_plan(args.plan, args.plan_file.as_deref())?;
    let archive = select::open(&args.file)?;
    let kernel = match &args.kernel {
        Some(kernel) => kernel.clone(),
        None => only_kernel(&archive)?,
    };
    drop(archive);
    let options = args.evaluator.options(std::slice::from_ref(&args.file))?;
    // Before other threads are there.
    let terminations = Terminations::block()
        .map_err(|error| Failure::Message(format!("signals cannot be waited for: {error}")))?;
    let lines = candidates::read(args.candidates.as_deref(), plan)?;
    let evaluator = Evaluator::new(options).map_err(Failure::new)?;
    let id = evaluator.open(&args.file).map_err(Failure::new)?;
    // A kernel that is not there, or cannot run here, is told before anything else.
    let description = evaluator.describe(id, &kernel).map_err(Failure::new)?;
    let mut session = Session {
        evaluator: &evaluator,
        archive: id,
        kernel: description.name.clone(),
        labels: HashMap::new(),
        json: args.json,
        started: Instant::now(),
        tally: Tally::default(),
    };
    if !args.json {
        print::header(out, &readable(&description.name), &description.device)?;
    }
    let interrupted = session.run(&lines, &terminations, out)?;
    let summary = session.summary(interrupted);
    evaluator.shutdown();
    if args.json {
        out.json_line(&Last { summary: &summary })?;
    } else {
        print::summary(out, &summary)?;
    }
    Ok(summary.exit_code())
}

/// The kernel, when there is only one with recorded launches.
fn only_kernel(archive: &r3_archive::Archive) -> Result<String, Failure> {
    let mut names: Vec<&str> = archive
        .kernels()
        .iter()
        .filter(|kernel| archive.launch_heads().iter().any(|l| l.kernel == kernel.id))
        .map(|kernel| kernel.name.as_str())
        .collect();
    names.sort_unstable();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::Message(format!(
            "{} has no launches",
            archive.path().display()
        ))),
        several => {
            let names: Vec<String> = several.iter().map(|name| readable(name)).collect();
            Err(Failure::Message(format!(
                "{} has several kernels; name one with --kernel: {}",
                archive.path().display(),
                names.join(", ")
            )))
        }
    }
}

struct Session<'e> {
    evaluator: &'e Evaluator,
    archive: ArchiveId,
    kernel: String,
    labels: HashMap<JobId, String>,
    json: bool,
    started: Instant,
    tally: Tally,
}

/// What came of all candidates so far.
#[derive(Debug, Default)]
struct Tally {
    verdicts: BTreeMap<String, u64>,
    /// Memory of workers and devices after each candidate.
    memory: Vec<Memory>,
    worst: Exit,
}

/// The kinds of results that exit codes tell apart, in the order of their weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Exit {
    #[default]
    Right,
    NotHere,
    NotRight,
    Unjudged,
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Memory {
    worker: u64,
    device: u64,
}

/// An outcome, as it is printed.
#[derive(Serialize)]
struct Told<'o> {
    label: &'o str,
    outcome: &'o Outcome,
}

/// The last line.
#[derive(Serialize)]
struct Last<'s> {
    summary: &'s Summary,
}

/// What came of all.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Candidates that are over.
    candidates: u64,
    seconds: f64,
    per_second: f64,
    verdicts: BTreeMap<String, u64>,
    interrupted: bool,
    status: Status,
    memory: Growth,
    #[serde(skip)]
    worst: Exit,
}

/// Memory after the first tenth of the candidates, and after the last.
#[derive(Debug, Default, Serialize)]
struct Growth {
    early: Memory,
    late: Memory,
}

impl Summary {
    fn exit_code(&self) -> u8 {
        if self.interrupted {
            return FAILED;
        }
        match self.worst {
            Exit::Right => OK,
            Exit::NotHere => NOT_HERE,
            Exit::NotRight => DIFFERENT,
            Exit::Unjudged => FAILED,
        }
    }
}

fn exit_of(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Right => Exit::Right,
        Verdict::CannotRun => Exit::NotHere,
        Verdict::Unjudged | Verdict::Cancelled => Exit::Unjudged,
        Verdict::Wrong
        | Verdict::NoCode
        | Verdict::Refused
        | Verdict::Timeout
        | Verdict::Fault
        | Verdict::Cheat
        | Verdict::Implausible
        | Verdict::Guarded => Exit::NotRight,
    }
}

impl Session<'_> {
    /// Submits what comes and prints what is done. Whether it was interrupted.
    fn run(
        &mut self,
        lines: &Receiver<Result<Line, Failure>>,
        terminations: &Terminations,
        out: &mut Output,
    ) -> Result<bool, Failure> {
        let mut events = self.evaluator.events(0);
        let mut next: Option<Line> = None;
        let mut open = true;
        let mut failed = None;
        loop {
            while open {
                let line = match next.take() {
                    Some(line) => line,
                    None => match lines.try_recv() {
                        Ok(Ok(line)) => line,
                        Ok(Err(failure)) => {
                            // What was submitted before it is still done.
                            failed = Some(failure);
                            open = false;
                            break;
                        }
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => {
                            open = false;
                            break;
                        }
                    },
                };
                if let Some(full) = self.submit(line)? {
                    next = Some(full);
                    break;
                }
            }
            if terminations.wait(Some(Duration::ZERO)) {
                // The rest is cancelled, and what is done was printed.
                self.evaluator.shutdown();
                return Ok(true);
            }
            if !open && next.is_none() && self.labels.is_empty() {
                return failed.map_or(Ok(false), Err);
            }
            let Some(event) = events.next_within(LOOK) else {
                out.flush()?;
                continue;
            };
            if let JobState::Done(outcome) = event.state {
                let label = self.labels.remove(&event.job).unwrap_or_default();
                self.done(&label, &outcome, out)?;
            }
        }
    }

    /// Submits a candidate; hands it back when the queue is full.
    fn submit(&mut self, line: Line) -> Result<Option<Line>, Failure> {
        let request = Request {
            archive: self.archive,
            kernel: self.kernel.clone(),
            candidate: line.candidate.clone(),
            plan: line.plan.clone(),
            priority: Priority(0),
        };
        match self.evaluator.submit(request) {
            Ok(job) => {
                self.labels.insert(job, line.label);
                Ok(None)
            }
            Err(SubmitError::Full { .. }) => Ok(Some(line)),
            Err(error) => Err(Failure::Message(format!("{}: {error}", line.label))),
        }
    }

    fn done(&mut self, label: &str, outcome: &Outcome, out: &mut Output) -> Result<(), Failure> {
        let verdict = outcome.verdict;
        let word = serde_json::to_value(verdict).map_err(Failure::new)?;
        let word = word.as_str().unwrap_or_default().to_owned();
        *self.tally.verdicts.entry(word).or_default() += 1;
        self.tally.worst = self.tally.worst.max(exit_of(verdict));
        let status = self.evaluator.status();
        self.tally.memory.push(Memory {
            worker: status.worker_memory,
            device: status.device_memory,
        });
        if self.json {
            out.json_line(&Told { label, outcome })
        } else {
            print::outcome(out, label, outcome)
        }
    }

    fn summary(&self, interrupted: bool) -> Summary {
        let candidates = self.tally.memory.len();
        let seconds = self.started.elapsed().as_secs_f64();
        let memory = &self.tally.memory;
        Summary {
            candidates: candidates as u64,
            seconds,
            per_second: candidates as f64 / seconds.max(1e-9),
            verdicts: self.tally.verdicts.clone(),
            interrupted,
            status: self.evaluator.status(),
            memory: Growth {
                early: memory.get(candidates / 10).copied().unwrap_or_default(),
                late: memory.last().copied().unwrap_or_default(),
            },
            worst: self.tally.worst,
        }
    }
}
