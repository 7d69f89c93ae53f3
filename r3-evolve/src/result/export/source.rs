//! The best source of a run as a file, with a comment that says how to compile and to launch it.

use std::fmt::Write;

use r3_replay::evaluate::Candidate;

use super::flags::nvcc_flags;
use crate::result::text::ratio;
use crate::tune::Summary;
use crate::tune::summary::{SourceFound, gain};

/// What the file is made of.
pub struct BestSource<'a> {
    /// What the run found.
    pub summary: &'a Summary,
    /// The source.
    pub found: &'a SourceFound,
    /// Its text.
    pub text: &'a str,
    /// The best configuration.
    pub candidate: &'a Candidate,
    /// Threads of a block of the recorded launches.
    pub block: [u32; 3],
    /// Architecture that it was measured on, e.g. 90; 0 where there is none.
    pub sm: u32,
}

/// The file.
#[must_use]
pub fn source(best: &BestSource<'_>) -> String {
    let mut out = String::new();
    let BestSource { summary, found, .. } = best;
    // Writing to a string does not fail.
    let mut line = |text: String| {
        let _ = writeln!(out, "{}", format!("// {}", comment(&text)).trim_end());
    };
    line(format!(
        "Variant {} of {}, found by r3-evolve {} on {}.",
        found.variant.0,
        found.name,
        env!("CARGO_PKG_VERSION"),
        summary.device
    ));
    line(format!("Kernel: {}", summary.readable));
    if let Some(one) = &summary.best {
        line(format!(
            "It takes {} of the captured binary's time: {}.",
            ratio(&one.ratio),
            gain(one.ratio.median)
        ));
    }
    if let Some(given) = summary.finals.as_ref().and_then(|finals| finals.given) {
        line(format!(
            "The source as it was given takes {} of that time, as it is.",
            ratio(&given)
        ));
    }
    let claim = if summary.claim {
        "Claimed"
    } else {
        "Nothing is claimed"
    };
    line(format!("{claim}: {}.", summary.reason));
    let flags = nvcc_flags(best.candidate, best.block);
    let mut command = vec!["nvcc".to_owned()];
    if best.sm > 0 {
        command.push(format!("-arch=sm_{}", best.sm));
    }
    command.extend(flags.flags);
    command.push(format!("-c {}", found.name));
    line(String::new());
    line(format!("It was compiled by {}. With nvcc:", found.compiler));
    line(format!("    {}", command.join(" ")));
    let steps = flags
        .source
        .iter()
        // The source is this one.
        .filter(|text| !text.starts_with("the source is another one"));
    let mut steps = steps.peekable();
    if steps.peek().is_some() {
        line("To be as fast, it also needs:".to_owned());
        for step in steps {
            line(format!("    {step}"));
        }
    }
    if !flags.not_possible.is_empty() {
        line("What was measured also had what nvcc cannot do; best.r3t has that code:".to_owned());
        for what in &flags.not_possible {
            line(format!("    {what}"));
        }
    }
    out.push('\n');
    if best.text.contains("\r\n") {
        out = out.replace('\n', "\r\n");
    }
    out.push_str(best.text);
    out
}

/// A text that ends with its line: no break in it, and no backslash at its end.
fn comment(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    while line.ends_with(char::is_whitespace) {
        line.pop();
    }
    if line.ends_with('\\') || line.ends_with("??/") {
        line.push('.');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_ends_with_its_line() {
        assert_eq!(comment("a\nb"), "a b");
        assert_eq!(comment("-I C:\\x\\ "), "-I C:\\x\\.");
        assert_eq!(comment("what ??/"), "what ??/.");
    }
}
