//! The best source of a run as a file, with a comment that says how to compile and to launch it.

use std::fmt::Write;

use r3_replay::evaluate::Candidate;
use r3_replay::remix::pairs::Ratio;

use super::flags::nvcc_flags;
use crate::evolve::variant::VariantNumber;
use crate::result::text::ratio;
use crate::tune::Summary;
use crate::tune::summary::{SourceFound, gain};

/// The best of a run, as it was claimed or not.
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

/// A variant in a configuration.
pub struct SourceFile<'a> {
    /// What is said of it, line by line.
    pub said: Vec<String>,
    /// Name of the file as it was given.
    pub name: &'a str,
    /// The compiler.
    pub compiler: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The configuration.
    pub candidate: &'a Candidate,
    /// Threads of a block of the recorded launches.
    pub block: [u32; 3],
    /// Architecture that it was measured on, e.g. 90; 0 where there is none.
    pub sm: u32,
    /// Whether best.r3t has the code that was measured.
    pub kept: bool,
}

/// The file of the best.
#[must_use]
pub fn source(best: &BestSource<'_>) -> String {
    let BestSource { summary, found, .. } = best;
    let mut said = vec![
        first(found.variant, &found.name, &summary.device),
        format!("Kernel: {}", summary.readable),
    ];
    if let Some(one) = &summary.best {
        said.push(time(&one.ratio));
    }
    if let Some(given) = summary.finals.as_ref().and_then(|finals| finals.given) {
        said.push(format!(
            "The source as it was given takes {} of that time, as it is.",
            ratio(&given)
        ));
    }
    let claim = if summary.claim {
        "Claimed"
    } else {
        "Nothing is claimed"
    };
    said.push(format!("{claim}: {}.", summary.reason));
    SourceFile {
        said,
        name: &found.name,
        compiler: &found.compiler,
        text: best.text,
        candidate: best.candidate,
        block: best.block,
        sm: best.sm,
        kept: true,
    }
    .text()
}

/// What is said first of a variant.
#[must_use]
pub fn first(variant: VariantNumber, name: &str, device: &str) -> String {
    format!(
        "Variant {} of {name}, found by r3-evolve {} on {device}.",
        variant.0,
        env!("CARGO_PKG_VERSION"),
    )
}

/// What is said of a time.
#[must_use]
pub fn time(found: &Ratio) -> String {
    format!(
        "It takes {} of the captured binary's time: {}.",
        ratio(found),
        gain(found.median)
    )
}

impl SourceFile<'_> {
    /// The file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let mut line = |text: &str| {
            let _ = writeln!(out, "{}", format!("// {}", comment(text)).trim_end());
        };
        for said in &self.said {
            line(said);
        }
        let flags = nvcc_flags(self.candidate, self.block);
        let mut command = vec!["nvcc".to_owned()];
        if self.sm > 0 {
            command.push(format!("-arch=sm_{}", self.sm));
        }
        command.extend(flags.flags);
        command.push(format!("-c {}", self.name));
        line("");
        line(&format!("It was compiled by {}. With nvcc:", self.compiler));
        line(&format!("    {}", command.join(" ")));
        let steps = flags
            .source
            .iter()
            // The source is this one.
            .filter(|text| !text.starts_with("the source is another one"));
        let mut steps = steps.peekable();
        if steps.peek().is_some() {
            line("To be as fast, it also needs:");
            for step in steps {
                line(&format!("    {step}"));
            }
        }
        if !flags.not_possible.is_empty() {
            line(if self.kept {
                "What was measured also had what nvcc cannot do; best.r3t has that code:"
            } else {
                "What was measured also had what nvcc cannot do:"
            });
            for what in &flags.not_possible {
                line(&format!("    {what}"));
            }
        }
        out.push('\n');
        if self.text.contains("\r\n") {
            out = out.replace('\n', "\r\n");
        }
        out.push_str(self.text);
        out
    }
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
