//! Results in words.

use r3_replay::evaluate::outcome::{Behaviour, Role, Timing, Unit, Worst};
use r3_replay::evaluate::{Outcome, Verdict};

use super::data::{Times, Unanswered};
use crate::evolve::variant::Operator;
use crate::result::text::time;

/// A step after which the time is less: intervals are apart, by more than what the same code differs by.
pub const GAINED: &str = "gained";
/// A step after which the time is more.
pub const WORSE: &str = "worse";
/// A step of which nothing can be told from noise.
pub const NO_DIFFERENCE: &str = "no difference seen";
/// A step with a variant at one end that has no time.
pub const NOT_MEASURED: &str = "not measured";

/// What a verdict means, for somebody who does not know the words.
#[must_use]
pub fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Right => "every byte is right on every launch",
        Verdict::Wrong => "results are not those of the captured binary",
        Verdict::NoCode => "it does not compile",
        Verdict::Refused => "it cannot be launched",
        Verdict::Timeout => "it ran past its time limit",
        Verdict::Fault => "it stopped with an error",
        Verdict::Cheat => "it does what a kernel's code may not do",
        Verdict::Implausible => "it is faster than memory can be moved, and is set aside",
        Verdict::Guarded => "it stands for none of the launches",
        Verdict::Cancelled => "it was given up when the search ended",
        Verdict::CannotRun => "this device cannot judge it",
        Verdict::Unjudged => "the machine failed, not the candidate",
    }
}

/// Why an outcome is not right, in a sentence. `None` when it is right.
#[must_use]
pub fn wrong(outcome: &Outcome) -> Option<String> {
    if outcome.verdict.is_right() {
        return None;
    }
    let mut text = meaning(outcome.verdict).to_owned();
    let said = outcome.reason.clone().or_else(|| {
        let failure = outcome.failure.as_ref()?;
        Some(failure.to_string())
    });
    if let Some(said) = said {
        text = format!("{text}: {said}");
    }
    let worst = outcome
        .launches
        .iter()
        .find_map(|launch| Some((launch, launch.worst.as_ref()?)));
    // What is said above may have the place already.
    if let Some((launch, worst)) = worst
        && !text.contains(&worst.expected)
    {
        text = format!(
            "{text}; launch {} ({}): {}",
            launch.launch,
            role(launch.role),
            place(worst)
        );
    }
    Some(text)
}

/// Where results differ most.
#[must_use]
pub fn place(worst: &Worst) -> String {
    let elements = if worst.out == 1 {
        "element is"
    } else {
        "elements are"
    };
    format!(
        "{}, byte {}: {} instead of {}; {} {elements} out of tolerance",
        worst.buffer, worst.offset, worst.actual, worst.expected, worst.out
    )
}

/// Why a launch was run.
#[must_use]
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Tuned => "tuned",
        Role::HeldOut => "held out",
        Role::Perturbed => "perturbed inputs",
    }
}

/// An operator.
#[must_use]
pub fn operator(operator: Operator) -> &'static str {
    match operator {
        Operator::Original => "original",
        Operator::Improve => "improve",
        Operator::Explore => "explore",
        Operator::Crossover => "crossover",
        Operator::Simplify => "simplify",
        Operator::Repair => "repair",
        Operator::Rewrite => "rewrite",
    }
}

/// A ratio with its interval: `0.712 (0.705 to 0.718)`; one that was counted has none.
#[must_use]
pub fn times(of: &Times) -> String {
    if of.low == of.high {
        format!("{:.4}", of.median)
    } else {
        format!("{:.3} ({:.3} to {:.3})", of.median, of.low, of.high)
    }
}

/// A part of a whole: `43 %`.
#[must_use]
pub fn share(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// Factor by which something is faster than what it is compared with: `1.42 times as fast`.
#[must_use]
pub fn speed(ratio: f64) -> String {
    format!("{:.2} times as fast", 1.0 / ratio.max(1e-9))
}

/// Seconds: `12 s`, `3:07 min`, `1:02 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// US dollars: `$ 0.0012`, `$ 3.40`.
#[must_use]
pub fn dollars(cost: f64) -> String {
    if cost > 0.0 && cost < 0.1 {
        format!("$ {cost:.4}")
    } else {
        format!("$ {cost:.2}")
    }
}

/// A count: `1 variant`, `7 variants`, `2 launches`, `3 questions to a model`.
#[must_use]
pub fn count(count: u64, of: &str) -> String {
    if count == 1 {
        return format!("1 {of}");
    }
    let (noun, rest) = match of.split_once(' ') {
        Some((noun, rest)) => (noun, format!(" {rest}")),
        None => (of, String::new()),
    };
    let end = if noun.ends_with("ch") { "es" } else { "s" };
    format!("{count} {noun}{end}{rest}")
}

/// What is under way: `2 slots, 1 evaluation`.
#[must_use]
pub fn open(of: &[(String, u64)]) -> String {
    let parts: Vec<String> = of.iter().map(|(what, many)| count(*many, what)).collect();
    parts.join(", ")
}

/// Requests of which the run has no answer, and what they can have taken.
#[must_use]
pub fn unanswered(of: &Unanswered) -> String {
    let (have, they) = if of.requests == 1 {
        ("has", "it was under way when the run ended, or still is")
    } else {
        (
            "have",
            "they were under way when the run ended, or still are",
        )
    };
    format!(
        "{} to {} {have} no answer ({they}): up to {} tokens in, {} out and {} are not counted",
        count(of.requests, "request"),
        of.model,
        of.prompt,
        of.completion,
        dollars(of.cost)
    )
}

/// A timing's two times: the captured binary's and the candidate's.
#[must_use]
pub fn took(timing: &Timing) -> (String, String) {
    let unit = match timing.unit {
        Unit::Nanoseconds => "nanoseconds",
        Unit::Cost => "cost",
    };
    (time(timing.original, unit), time(timing.candidate, unit))
}

/// What code is like: what, and how much.
#[must_use]
pub fn behaviour(code: &Behaviour) -> Vec<(String, String)> {
    let mut rows: Vec<(&str, String)> = Vec::new();
    if let Some(registers) = code.registers {
        rows.push(("registers of a thread", registers.to_string()));
    }
    if let Some(spilled) = code.spilled {
        rows.push(("bytes that a thread spills", spilled.to_string()));
    }
    rows.push(("bytes of local memory of a thread", code.local.to_string()));
    rows.push((
        "bytes of shared memory of a block",
        match code.dynamic_shared {
            0 => code.static_shared.to_string(),
            dynamic => format!("{} and {dynamic} dynamic", code.static_shared),
        },
    ));
    if let Some(occupancy) = code.occupancy {
        rows.push(("occupancy", share(occupancy)));
    }
    rows.push((
        "widest load and store, in bytes",
        format!("{} and {}", code.widest_load, code.widest_store),
    ));
    let mut kinds: Vec<(&str, u32)> = code.mix.kinds().into_iter().collect();
    kinds.retain(|(_, count)| *count > 0);
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if !kinds.is_empty() {
        rows.push(("instructions of the PTX", kinds.join(", ")));
    }
    rows.into_iter()
        .map(|(what, much)| (what.to_owned(), much))
        .collect()
}

#[cfg(test)]
mod tests {
    use r3_replay::evaluate::candidate::CandidateId;

    use super::*;

    #[test]
    fn a_failure_says_what_it_means_and_what_was_seen() {
        let mut outcome = Outcome::without_run(CandidateId(1), Verdict::Cheat, "it reads a clock");
        assert_eq!(
            wrong(&outcome).unwrap(),
            "it does what a kernel's code may not do: it reads a clock"
        );
        outcome.verdict = Verdict::Right;
        assert_eq!(wrong(&outcome), None);
    }

    #[test]
    fn times_and_money_are_short() {
        assert_eq!(duration(59.6), "1:00 min");
        assert_eq!(
            (dollars(0.0123), dollars(3.4)),
            ("$ 0.0123".into(), "$ 3.40".into())
        );
        assert_eq!(
            (count(1, "cell"), count(0, "cell")),
            ("1 cell".into(), "0 cells".into())
        );
        assert_eq!(count(4, "launch"), "4 launches");
        assert_eq!(count(2, "question to a model"), "2 questions to a model");
    }
}
