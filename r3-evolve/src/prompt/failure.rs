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
        (FailureKind::MissingTool | FailureKind::Machine, _) => "It could not be compiled.",
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
        let comment = word.starts_with("//") || word.starts_with("/*");
        let begins = word.starts_with(['/', '.', '-', '~', '@']);
        let several = word.matches('/').count() > 1;
        let path = !comment && begins && (several || (word.starts_with('/') && word.len() > 2));
        short.push_str(if path {
            word.rsplit('/').next().unwrap_or(word)
        } else {
            word
        });
    }
    short
}

#[cfg(test)]
mod tests {
    use r3_archive::model::LaunchId;
    use r3_replay::evaluate::candidate::Candidate;
    use r3_replay::evaluate::outcome::Worst;

    use super::*;

    const FILE: &str = "// r3: evolve begin\n__global__ void k(float *x, int n) {\n    float y = 0;\n    x[i] = z;\n    __syncwarps();\n}\n// r3: evolve end\n";

    fn outcome(verdict: Verdict, reason: &str) -> Outcome {
        Outcome::without_run(Candidate::default().id(), verdict, reason)
    }

    fn not_compiled(stage: Stage, kind: FailureKind, log: &str) -> String {
        let failure = Failure {
            stage,
            kind,
            message: String::new(),
            log: log.to_owned(),
        };
        let outcome = Outcome {
            failure: Some(failure),
            ..outcome(Verdict::NoCode, "")
        };
        tell(&outcome, FILE).unwrap()
    }

    #[test]
    fn compilers_messages_are_told_with_the_lines_that_they_are_about() {
        let nvrtc = "/home/u/cache/k.cu(4): error: identifier \"i\" is undefined\n      x[i] = z;\n        ^\n\n/home/u/cache/k.cu(4): error: \
                     identifier \"z\" is undefined\n      x[i] = z;\n             ^\n\nk.cu(3): warning #177-D: variable \"y\" was declared but never \
                     referenced\n\n2 errors detected in the compilation of \"/home/u/cache/k.cu\".\n";
        assert_eq!(
            not_compiled(Stage::Source, FailureKind::Refused, nvrtc),
            "It does not compile.\n- `x[i] = z;`: identifier \"i\" is undefined\n- `x[i] = z;`: identifier \"z\" is undefined\n"
        );
        let clang = "In file included from <built-in>:1:\n/opt/x/k.cu:5:5: error: use of undeclared identifier '__syncwarps'; did you mean \
                     '__syncwarp'?\n    5 |     __syncwarps();\n/opt/llvm/include/__clang_cuda.h:88:9: note: '__syncwarp' declared here\n1 error \
                     generated when compiling for sm_90.\n";
        assert_eq!(
            not_compiled(Stage::Source, FailureKind::Refused, clang),
            "It does not compile.\n- `__syncwarps();`: use of undeclared identifier '__syncwarps'; did you mean '__syncwarp'?\n"
        );
        let ptxas = "ptxas error   : Entry function '_Z1kPfi' uses too much shared data (0x12000 bytes, 0xc000 max)\n";
        assert_eq!(
            not_compiled(Stage::Assemble, FailureKind::Refused, ptxas),
            "It compiles to PTX, which the assembler refuses.\n- Entry function '_Z1kPfi' uses too much shared data (0x12000 bytes, 0xc000 max)\n"
        );
    }

    #[test]
    fn long_logs_are_cut_and_paths_of_the_machine_are_nobody_s_business() {
        let many: String = (0..500)
            .map(|line| format!("/home/user/x/k.cu({line}): error: number {line}\n"))
            .collect();
        let told = not_compiled(Stage::Source, FailureKind::Refused, &many);
        assert!(told.contains("and 492 more"), "{told}");
        let odd = "cc1: /home/user/secret/file.h: what is `-I/home/user/include`\n".repeat(500);
        let told = not_compiled(Stage::Source, FailureKind::Refused, &odd);
        assert!(told.len() < 3 * 1024, "{}", told.len());
        for text in [
            told,
            not_compiled(
                Stage::Source,
                FailureKind::Refused,
                "x.cu(3): error: cannot open \"/home/user/secret/file.h\"\n",
            ),
        ] {
            assert!(
                !text.contains("/home") && !text.contains("secret") && text.contains("file.h"),
                "{text}"
            );
        }
        let reason = tell(&outcome(Verdict::Refused, "see (/home/user/a/b.log)"), FILE).unwrap();
        assert!(!reason.contains("/home"), "{reason}");
    }

    #[test]
    fn divisions_are_no_paths() {
        assert_eq!(
            without_paths("x = a/b/c; // y\ny = 1 / 2;"),
            "x = a/b/c; // y\ny = 1 / 2;"
        );
    }

    #[test]
    fn a_mismatch_says_where_how_much_and_on_what() {
        let launch = |launch, role, verdict, worst| LaunchOutcome {
            launch: LaunchId(launch),
            role,
            verdict,
            worst,
            times: Vec::new(),
        };
        let worst = Worst {
            buffer: "argument 1 `out`".to_owned(),
            offset: 4096,
            expected: "1.5".to_owned(),
            actual: "NaN".to_owned(),
            out: 512,
        };
        let outcome = Outcome {
            launches: vec![
                launch(1, Role::Tuned, Verdict::Right, None),
                launch(2, Role::HeldOut, Verdict::Wrong, Some(worst)),
            ],
            ..outcome(Verdict::Wrong, "something")
        };
        assert_eq!(
            tell(&outcome, FILE).unwrap(),
            "It compiles and runs, and its results are wrong on 1 of 2 launches.\n- On a launch that was held out, with other sizes or \
             inputs, 512 elements are out. The worst is in argument 1 'out', at byte 4096: expected 1.5, got NaN.\n"
        );
    }

    #[test]
    fn a_cheat_is_told_its_rule_and_what_is_not_the_variants_fault_is_not_told() {
        let told = tell(
            &outcome(Verdict::Cheat, "rule `heap`: it calls malloc"),
            FILE,
        )
        .unwrap();
        assert!(told.contains("rule `heap`"), "{told}");
        for verdict in [
            Verdict::Right,
            Verdict::Cancelled,
            Verdict::Unjudged,
            Verdict::CannotRun,
        ] {
            assert_eq!(tell(&outcome(verdict, "x"), FILE), None);
        }
        for verdict in [
            Verdict::Timeout,
            Verdict::Fault,
            Verdict::Refused,
            Verdict::Implausible,
            Verdict::Wrong,
            Verdict::NoCode,
        ] {
            assert!(
                tell(&outcome(verdict, ""), FILE).is_some_and(|told| told.len() > 15),
                "{verdict:?}"
            );
        }
    }
}
