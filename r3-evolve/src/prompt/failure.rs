//! What went wrong with a variant, in words for a model.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use r3_codegen::recipe::{Failure, FailureKind, Stage};
use r3_replay::evaluate::outcome::{LaunchOutcome, Outcome, Role, Verdict};

use super::text::{bounded, fenced, one_line};

/// Messages of a compiler that are shown.
const MOST_MESSAGES: usize = 8;

/// Bytes of a log that are shown where no messages can be told apart in it.
const MOST_LOG: usize = 2 * 1024;

/// What a model is told of an outcome that is not right. `file` is the variant's whole text: lines that a compiler names are quoted
/// from it. `None` when the outcome is right, or says nothing about the variant (cancelled, machine failed).
pub fn tell(outcome: &Outcome, file: &str) -> Option<String> {
    let reason = outcome.reason.as_deref().unwrap_or_default();
    let with_reason = |text: &str| match reason {
        "" => text.to_owned(),
        reason => format!(
            "{text}\n\n{}",
            fenced(&bounded(&without_paths(reason), MOST_LOG), "")
        ),
    };
    match outcome.verdict {
        Verdict::Right
        | Verdict::Cancelled
        | Verdict::CannotRun
        | Verdict::Unjudged
        | Verdict::Guarded => None,
        Verdict::NoCode => Some(match &outcome.failure {
            Some(failure) => no_code(failure, file),
            None => with_reason("It does not compile."),
        }),
        Verdict::Wrong => Some(wrong(outcome)),
        Verdict::Refused => Some(with_reason(
            "It compiles, and cannot be launched: it wants more threads, registers or shared memory than there are, or the driver \
             refused it.",
        )),
        Verdict::Timeout => Some(with_reason(
            "It did not come to an end in the time that it had, which is many times that of the captured binary. Look for loops whose \
             end is never reached, and for barriers that not all threads of a block reach.",
        )),
        Verdict::Fault => Some(with_reason(
            "It stopped with a fault: an address out of bounds, a misaligned wide access, or a trap. Check each index at the borders, \
             and that addresses of vector types are multiples of their size.",
        )),
        Verdict::Cheat => Some(with_reason(
            "It was refused, since it does what no variant may do, whatever its results are:",
        )),
        Verdict::Implausible => Some(with_reason(
            "It was faster than the device can move the bytes that must be moved. A variant must do all of the work in each launch.",
        )),
    }
}

fn wrong(outcome: &Outcome) -> String {
    let failed: Vec<&LaunchOutcome> = outcome
        .launches
        .iter()
        .filter(|launch| launch.verdict != Verdict::Right)
        .collect();
    let mut text = String::from("It compiles and runs, and its results are wrong");
    let right = outcome.launches.len().saturating_sub(failed.len());
    if right > 0 && !failed.is_empty() {
        let _ = write!(
            text,
            " on {} of {} launches",
            failed.len(),
            outcome.launches.len()
        );
    }
    text.push_str(".\n");
    for launch in failed.iter().take(3) {
        let role = match launch.role {
            Role::Tuned => "a recorded launch",
            Role::HeldOut => "a launch that was held out, with other sizes or inputs",
            Role::Perturbed => {
                "a recorded launch with other floating-point inputs: values may have been taken for constants"
            }
        };
        let _ = write!(text, "- On {role}");
        if let Some(worst) = &launch.worst {
            let _ = write!(
                text,
                ", {} elements are out. The worst is in {}, at byte {}: expected {}, got {}",
                worst.out,
                one_line(&worst.buffer, 120),
                worst.offset,
                one_line(&worst.expected, 80),
                one_line(&worst.actual, 80)
            );
        }
        text.push_str(".\n");
    }
    let told = failed.iter().any(|launch| launch.worst.is_some());
    if let (false, Some(reason)) = (told, outcome.reason.as_deref()) {
        text.push_str(&fenced(&bounded(&without_paths(reason), MOST_LOG), ""));
    }
    text
}

fn no_code(failure: &Failure, file: &str) -> String {
    let what = match (failure.kind, failure.stage) {
        (FailureKind::Timeout, _) => {
            return "Compiling it took longer than allowed. Unroll less, and write fewer instances of templates.".to_owned();
        }
        (FailureKind::Memory, _) => {
            return "Compiling it took more memory than allowed. Unroll less, and write fewer instances of templates.".to_owned();
        }
        (FailureKind::Crash, _) => "A compiler broke down over it. Write it in another way.",
        (FailureKind::MissingTool, _) => "It could not be compiled.",
        (FailureKind::Refused, Stage::Source) => "It does not compile.",
        (FailureKind::Refused, Stage::Assemble) => {
            "It compiles to PTX, which the assembler refuses."
        }
        (FailureKind::Refused, _) => "It compiles, and cannot be processed further.",
    };
    let mut text = format!("{what}\n");
    let log = if failure.log.trim().is_empty() {
        failure.message.clone()
    } else {
        format!("{}\n{}", failure.message, failure.log)
    };
    let messages = messages(&log);
    if messages.is_empty() {
        text.push('\n');
        text.push_str(&fenced(&bounded(&without_paths(&log), MOST_LOG), ""));
        return text;
    }
    let lines: Vec<&str> = file.lines().collect();
    let quotes = failure.stage == Stage::Source;
    for message in messages.iter().take(MOST_MESSAGES) {
        match message
            .line
            .filter(|_| quotes)
            .and_then(|line| lines.get(line.checked_sub(1)?))
        {
            Some(line) => {
                let _ = writeln!(text, "- `{}`: {}", one_line(line, 160), message.text);
            }
            None => {
                let _ = writeln!(text, "- {}", message.text);
            }
        }
    }
    if messages.len() > MOST_MESSAGES {
        let _ = writeln!(text, "- and {} more", messages.len() - MOST_MESSAGES);
    }
    text
}

/// A message of a compiler or assembler.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    line: Option<usize>,
    text: String,
}

/// The errors in a log, each once: of nvcc and NVRTC (`k.cu(12): error: …`), clang (`k.cu:12:5: error: …`) and ptxas
/// (`ptxas error   : …`).
fn messages(log: &str) -> Vec<Message> {
    let mut seen = BTreeSet::new();
    let mut messages = Vec::new();
    for line in log.lines() {
        let Some((before, text)) = error_in(line) else {
            continue;
        };
        let message = Message {
            line: line_number(before),
            text: one_line(&without_paths(text), 300),
        };
        let count = message.text.contains("detected in the compilation")
            || message.text.ends_with("generated.");
        if !count && !message.text.is_empty() && seen.insert((message.line, message.text.clone())) {
            messages.push(message);
        }
    }
    messages
}

/// What stands before and behind the word `error` of a message.
fn error_in(line: &str) -> Option<(&str, &str)> {
    const WORDS: &[&str] = &[
        "fatal error:",
        "catastrophic error:",
        "error:",
        "error   :",
        "error :",
    ];
    let (at, word) = WORDS
        .iter()
        .filter_map(|word| Some((line.find(word)?, *word)))
        .min_by_key(|(at, _)| *at)?;
    Some((line.get(..at)?, line.get(at + word.len()..)?.trim())).or(None)
}

/// The line that is named before a message: `k.cu(12):` or `k.cu:12:5:`.
fn line_number(before: &str) -> Option<usize> {
    let before = before.trim().trim_end_matches(':');
    if let Some((_, number)) = before
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once('('))
    {
        return number.split(',').next()?.trim().parse().ok();
    }
    let mut numbers = before
        .rsplit(':')
        .take_while(|part| part.trim().parse::<usize>().is_ok());
    let last = numbers.next()?;
    numbers.next().unwrap_or(last).trim().parse().ok()
}

/// The text with names of files in place of their paths: where things lie on this machine is nobody's business.
fn without_paths(text: &str) -> String {
    /// Characters that end a path in messages.
    const ENDS: &[char] = &[
        ' ', '\t', '\n', '"', '\'', '`', '(', ')', '<', '>', ',', ';', ':', '=',
    ];
    let mut short = String::with_capacity(text.len());
    for word in text.split_inclusive(ENDS) {
        // `/usr/include/x.h`, `-I/usr/include`, `../../x.h`; not `a/b`, which is a division.
        let path = word.starts_with(['/', '.', '-', '~', '@']) && word.matches('/').count() > 1
            || word.starts_with("/")
                && word.len() > 2
                && !word.starts_with("//")
                && !word.starts_with("/*");
        short.push_str(if path {
            word.rsplit('/').next().unwrap_or(word)
        } else {
            word
        });
    }
    short
}
