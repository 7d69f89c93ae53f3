//! What is wrong with a module, and where.

use std::fmt;

use crate::check::CheckError;
use crate::isa::MnemonicError;
use crate::source::Pos;

/// One error in PTX text.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Where.
    pub pos: Pos,
    /// What.
    pub kind: ErrorKind,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ErrorKind {
    /// The text does not follow the grammar.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// What the grammar allows here.
        expected: Box<str>,
        /// What the text has.
        found: Box<str>,
    },
    /// The instruction or one of its modifiers is unknown.
    #[error(transparent)]
    Mnemonic(#[from] MnemonicError),
    /// Names, types or forms do not fit.
    #[error(transparent)]
    Check(Box<CheckError>),
    /// A literal or a constant expression has no value.
    #[error("{what}: {why}")]
    Value {
        /// The literal, or what kind of expression.
        what: Box<str>,
        /// Why it has no value.
        why: &'static str,
    },
    /// Braces or parentheses lie too deep inside each other.
    #[error("{what} nested more than {limit} deep; write it flatter")]
    TooDeep {
        /// What is nested.
        what: &'static str,
        /// The most that is read.
        limit: u32,
    },
    /// More of something than a tree can hold.
    #[error("more than {limit} {what} in one module; split it")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The most that is read.
        limit: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pos, self.kind)
    }
}

impl std::error::Error for Error {}

/// All errors that were found, in the order of the text. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// The errors.
    pub list: Vec<Error>,
    /// Reading stopped at the last one: there may be more.
    pub stopped: bool,
}

impl Errors {
    /// Reading stops after so many.
    pub const MOST: usize = 20;

    /// The first error.
    pub fn first(&self) -> Option<&Error> {
        self.list.first()
    }

    /// Each error with its line of the text and a caret below the place.
    pub fn render(&self, text: &str) -> String {
        let mut out = String::new();
        // Errors are in the order of the text, so one walk over its lines serves all.
        let mut lines = text.split('\n');
        let mut next = 1u32;
        let mut line = "";
        for error in &self.list {
            if error.pos.line < next.saturating_sub(1) {
                (lines, next) = (text.split('\n'), 1);
            }
            while next <= error.pos.line {
                let Some(found) = lines.next() else { break };
                (line, next) = (found, next + 1);
            }
            render_one(&mut out, error, line);
        }
        if self.stopped {
            out.push_str("stopped here: there may be more errors\n");
        }
        out
    }
}

/// Lines longer than this are cut around the place.
const WIDTH: usize = 160;

fn render_one(out: &mut String, error: &Error, line: &str) {
    use fmt::Write;
    let line = line.trim_end_matches('\r');
    let column = (error.pos.column as usize)
        .saturating_sub(1)
        .min(line.len());
    let from = floor_boundary(line, column.saturating_sub(WIDTH / 2));
    let to = floor_boundary(line, (from + WIDTH).min(line.len()));
    let shown = line.get(from..to).unwrap_or_default();
    let before = line.get(from..column).unwrap_or_default();
    // Tabs stay tabs below each other, so that the caret stands right whatever their width.
    let indent: String = before
        .chars()
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let number = error.pos.line.to_string();
    let gutter = " ".repeat(number.len());
    _ = writeln!(out, "{error}");
    _ = writeln!(out, " {gutter} |");
    _ = writeln!(out, " {number} | {shown}");
    _ = writeln!(out, " {gutter} | {indent}^");
}

fn floor_boundary(line: &str, mut at: usize) -> usize {
    while !line.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.list.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.stopped {
            f.write_str("\nstopped here: there may be more errors")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
