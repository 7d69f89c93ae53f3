//! What is made of an answer.
//!
//! ```text
//!  answer ─► without reasoning ─► prose · blocks · edits ─► the block that is meant ─► what of it belongs into the region ─┐
//!                                                     └───► edits, each found once ────────────────────────────────────────┴─► checks
//! ```
//!
//! Models write prose around code, show the old code beside the new one, forget fences, repeat the whole file, rename the kernel, or
//! stop in the middle. What is meant is taken where it is certain: the last complete definition of the kernel that is not the
//! parent's; where it is not, the answer is [`Unusable`], with words that tell the model what to do. Parts are never filled in.
//!
//! The result differs from the parent's file inside the regions only, has the kernel with its parameters, and all its brackets.

mod blocks;
mod edits;
mod find;
mod items;
mod merge;
mod preprocessor;
mod tokens;
mod unusable;

use r3_models::chat::Finish;
use r3_source::syntax::{Function, Unit};

use super::target::Target;
use super::text::one_line;
use blocks::Parts;

pub use blocks::has_edit_marks;
pub use tokens::Unbalanced;
pub use unusable::Unusable;

/// Characters that are shown of what was done, or of an answer without code.
const MOST_SAID: usize = 200;

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The whole file with its new regions.
    pub text: String,
    /// What was done, in a line, in the model's words; the form of the answer when it says nothing.
    pub what: String,
    /// How the answer was read, where that was not plain: `a main function was left out`.
    pub notes: Vec<String>,
}

/// Reads an answer to a question about `target`.
pub fn take(answer: &str, finish: Finish, target: &Target) -> Result<Edit, Unusable> {
    let answer = plain(answer);
    if answer.trim().is_empty() {
        return Err(match finish {
            Finish::Filtered => Unusable::Refused {
                said: "the service filtered it".to_owned(),
            },
            Finish::Length => Unusable::OnlyReasoning,
            Finish::Stop | Finish::Other => Unusable::Empty,
        });
    }
    let answer = blocks::without_reasoning(&answer, finish).ok_or(Unusable::OnlyReasoning)?;
    if answer.trim().is_empty() {
        return Err(Unusable::OnlyReasoning);
    }
    let windows = target.file.contains("\r\n");
    let unix = with_unix_lines(target);
    // Where the source itself has lines like those of edits, edits cannot be told from it; then they were not offered.
    let mut parts = blocks::parts(answer, !has_edit_marks(&target.file));
    let mut notes = Vec::new();
    let mut form = "definitions".to_owned();
    let new = match find::code(&mut parts, answer, finish, &unix, &mut notes)? {
        find::Code::Regions(new) => new,
        find::Code::Edits(_) if finish == Finish::Length => {
            return Err(Unusable::Truncated {
                where_: "among edits, which only count together".to_owned(),
            });
        }
        find::Code::Edits(list) => {
            form = format!("{} edits", list.len());
            let texts: Vec<String> = unix.texts().iter().map(|text| (*text).to_owned()).collect();
            edits::apply(&list, &texts, &unix.around())?
        }
    };
    let mut new: Vec<String> = new
        .iter()
        .zip(unix.texts())
        .map(|(new, old)| with_end_of(&items::without_marks(new), old))
        .collect();
    check(&new, &unix)?;
    if windows {
        for text in &mut new {
            *text = text.replace('\n', "\r\n");
        }
    }
    Ok(Edit {
        text: target.with(&new),
        what: Some(said(&parts))
            .filter(|said| !said.is_empty())
            .unwrap_or(form),
        notes,
    })
}

/// The same with `\n` as line ends.
fn with_unix_lines(target: &Target) -> Target {
    let mut file = String::with_capacity(target.file.len());
    let mut regions = Vec::new();
    let texts = target.texts();
    for (index, around) in target.around().iter().enumerate() {
        file.push_str(&unix(around));
        if let Some(text) = texts.get(index) {
            let start = file.len();
            file.push_str(&unix(text));
            regions.push(start..file.len());
        }
    }
    Target {
        file,
        kernel: target.kernel.clone(),
        regions,
    }
}

/// The text, ending with its line exactly when the old one did.
fn with_end_of(new: &str, old: &str) -> String {
    let new = new.trim_end();
    if old.ends_with('\n') && !new.is_empty() {
        format!("{new}\n")
    } else {
        new.to_owned()
    }
}

/// The answer without the reasoning before it, as it is quoted to the model.
pub(super) fn without_reasoning(answer: &str) -> &str {
    blocks::without_reasoning(answer, Finish::Stop).unwrap_or_default()
}

/// The answer with `\n` as line ends, and blanks that are blanks.
fn plain(answer: &str) -> String {
    answer
        .replace("\r\n", "\n")
        .chars()
        .filter(|c| !matches!(c, '\0' | '\u{feff}' | '\u{200b}'..='\u{200d}' | '\u{2060}'))
        .map(|c| match c {
            '\u{a0}' | '\u{202f}' | '\u{2007}' => ' ',
            '\r' => '\n',
            other => other,
        })
        .collect()
}

fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Whether the file with new regions can be a variant.
fn check(new: &[String], target: &Target) -> Result<(), Unusable> {
    for (new, old) in new.iter().zip(target.texts()) {
        if let Some(line) = left_out(new, old) {
            return Err(Unusable::LeftOut {
                line: one_line(line, MOST_SAID),
            });
        }
        if let Some(line) = preprocessor::brought_in(new, &target.file) {
            return Err(Unusable::Preprocessor {
                line: one_line(&line, MOST_SAID),
            });
        }
        // A region may itself be one side of brackets only: then this is left to the compiler.
        if tokens::balance(old).is_ok()
            && let Err(what) = tokens::balance(new)
        {
            return Err(unbalanced(what, new));
        }
    }
    let file = target.with(new);
    let marked = |file: &str| {
        r3_source::region::Regions::of_marks(file)
            .map(|regions| regions.map(|regions| regions.spans().len()))
            .ok()
    };
    if marked(&file) != marked(&target.file) {
        return Err(Unusable::Marks);
    }
    if r3_source::tokens::fingerprint(&file) == r3_source::tokens::fingerprint(&target.file) {
        return Err(Unusable::Unchanged);
    }
    r3_source::directive::read(&file).map_err(|error| Unusable::Directive {
        error: error.to_string(),
    })?;
    signature(&file, target)
}

fn unbalanced(what: Unbalanced, text: &str) -> Unusable {
    let line = match what {
        Unbalanced::Open { line, .. } | Unbalanced::Closes { line } => {
            text.lines().nth(line.saturating_sub(1))
        }
        Unbalanced::Comment => None,
    };
    Unusable::Unbalanced {
        what,
        text: one_line(line.unwrap_or_default(), 80),
    }
}

/// The kernel is there as often as it was, with the parameters that it had.
fn signature(file: &str, target: &Target) -> Result<(), Unusable> {
    let before = kernels(&target.file, &target.kernel);
    let after = kernels(file, &target.kernel);
    // A source in which the kernel cannot be seen (its definition comes from a macro) is the compiler's matter.
    if before.is_empty() {
        return Ok(());
    }
    if after.is_empty() {
        return Err(Unusable::NoKernel {
            kernel: target.kernel.clone(),
            found: Vec::new(),
        });
    }
    if after.len() > before.len() {
        return Err(Unusable::SeveralKernels {
            kernel: target.kernel.clone(),
            count: after.len(),
        });
    }
    for expected in &before {
        if !after
            .iter()
            .any(|actual| items::types(actual) == items::types(expected))
        {
            return Err(Unusable::Signature {
                kernel: target.kernel.clone(),
                expected: listed(expected),
                actual: after.first().map(listed).unwrap_or_default(),
            });
        }
    }
    Ok(())
}

fn listed(function: &Function) -> String {
    let types: Vec<String> = function
        .parameters
        .iter()
        .map(|parameter| one_line(&parameter.ty, 80))
        .collect();
    types.join(", ")
}

fn kernels(file: &str, name: &str) -> Vec<Function> {
    Unit::parse(file).map_or_else(
        |_| Vec::new(),
        |unit| {
            unit.functions()
                .into_iter()
                .filter(|function| function.kernel && function.name == name)
                .collect()
        },
    )
}

/// A line that stands for lines that were not written, and that the parent has not.
fn left_out<'t>(new: &'t str, old: &str) -> Option<&'t str> {
    const WITH_DOTS: &[&str] = &[
        "unchanged",
        "same",
        "rest",
        "existing",
        "remain",
        "omitted",
        "before",
        "previous",
        "original",
        "as above",
        "your ",
        "code",
        "here",
        "implementation",
        "continue",
        "similar",
        "repeat",
        "other ",
        "etc",
    ];
    const ALONE: &[&str] = &[
        "omitted for brevity",
        "rest of the code",
        "rest of the kernel",
        "rest of kernel",
        "rest of the function",
    ];
    new.lines().find(|line| {
        let line = line.trim();
        let comment = line
            .strip_prefix("//")
            .or_else(|| line.strip_prefix("/*"))
            .map(|comment| comment.trim_matches(['/', '*', ' ']))
            .or_else(|| Some(line).filter(|line| line.starts_with("...") || line.starts_with('…')));
        let Some(comment) = comment else { return false };
        let words = comment.to_lowercase();
        let dots = words.contains("...") || words.contains('…');
        let nothing_else = dots && words.chars().all(|c| matches!(c, '.' | '…' | ' '));
        let placeholder = nothing_else
            || (dots && WITH_DOTS.iter().any(|phrase| words.contains(phrase)))
            || ALONE.iter().any(|phrase| words.starts_with(phrase));
        placeholder && !old.lines().any(|old| old.trim() == line)
    })
}

/// What the model says that it did.
fn said(parts: &Parts) -> String {
    const LABELS: &[&str] = &[
        "idea:",
        "what:",
        "change:",
        "changes:",
        "summary:",
        "optimization:",
        "optimisation:",
    ];
    let line = |line: &str| {
        line.trim_matches(['#', '*', '>', '-', ' ', '\t', '_'])
            .replace("**", "")
    };
    let lines: Vec<String> = parts
        .prose
        .lines()
        .map(line)
        .filter(|line| !line.is_empty())
        .collect();
    let labelled = lines.iter().find_map(|line| {
        let label = LABELS.iter().find(|label| {
            line.get(..label.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(label))
        })?;
        line.get(label.len()..)
            .map(str::trim)
            .filter(|rest| !rest.is_empty())
    });
    let plain = || {
        lines
            .iter()
            .map(String::as_str)
            .find(|line| !line.ends_with(':') && line.split_whitespace().count() > 3)
    };
    one_line(labelled.or_else(plain).unwrap_or_default(), MOST_SAID)
}

#[cfg(test)]
mod tests;
