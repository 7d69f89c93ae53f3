//! How a kernel wants to be launched, said in a comment of its text: `// r3: launch block=128 grid=1/4,same,same shared=4096`.
//!
//! What is not said is as recorded; for the grid this means at least as many threads in all. The words:
//!
//! | word | meaning |
//! |---|---|
//! | `block=128` or `block=16,16,1` | threads of a block |
//! | `grid=cover` | at least as many threads as recorded, whatever the block is (when nothing is said) |
//! | `grid=same` | as many blocks as recorded, whatever the block is |
//! | `grid=64` | so many blocks |
//! | `grid=1/4` | the recorded number of blocks, times the first by the second, rounded up |
//! | `grid=1/4,same,cover` | one for each dimension; those that are not given are `cover` |
//! | `shared=4096`, `shared=thread`, `shared=same` | bytes of dynamic shared memory; as recorded for each thread; as recorded |
//!
//! A fraction is one of blocks, not of threads: with another block there are more or fewer threads in all, which is right where the
//! text is a loop over elements, and wrong where each thread does a certain number of them. Built-in rewrites write fractions for
//! loops only, and count the block in.
//!
//! A text has one such comment for the kernel that is searched: one more is an error, unless it says the same.

use std::fmt;
use std::ops::Range;

use crate::tokens;

/// What such a comment begins with, after `//`.
const PREFIX: &str = "r3: launch";

/// How a kernel wants to be launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Directive {
    /// Threads of a block.
    pub block: Option<[u32; 3]>,
    /// Blocks of the grid, in each dimension.
    pub grid: [GridWish; 3],
    /// Dynamic shared memory.
    pub shared: SharedWish,
}

/// How many blocks a dimension of the grid gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GridWish {
    /// At least as many threads as recorded.
    #[default]
    Cover,
    /// As many blocks as recorded.
    Same,
    /// So many.
    Blocks(u32),
    /// The recorded number, times the first, divided by the second, rounded up.
    Scale(u32, u32),
}

/// How much dynamic shared memory a block gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SharedWish {
    /// As recorded.
    #[default]
    Same,
    /// In proportion to the threads of a block.
    PerThread,
    /// So many bytes.
    Bytes(u32),
}

/// Why such a comment cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveError {
    /// A word that is none of those that there are.
    #[error("line {line}: `{word}` in `// r3: launch`: {expected}")]
    Word {
        /// Line of the text, from 1.
        line: usize,
        /// The word.
        word: String,
        /// What is expected.
        expected: &'static str,
    },
    /// Two comments that say different things.
    #[error("line {line}: a second `// r3: launch` says something else than the first: leave one")]
    Second {
        /// Line of the text, from 1.
        line: usize,
    },
}

const EXPECTED: &str = "block=, grid= or shared= is expected";
const EXPECTED_BLOCK: &str = "one to three numbers from 1 to 1024 are expected, as in block=16,16";
const EXPECTED_GRID: &str = "cover, same, a number of blocks or a fraction is expected for each dimension, as in grid=1/4,same";
const EXPECTED_SHARED: &str = "same, thread or a number of bytes is expected";

/// Whether a comment (with its slashes) is one about the launch.
pub(crate) fn is_directive(comment: &str) -> bool {
    said(comment).is_some()
}

fn said(comment: &str) -> Option<&str> {
    let rest = comment
        .strip_prefix("//")?
        .trim_start()
        .strip_prefix(PREFIX)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
}

/// The directive of a text, if it has one.
pub fn read(text: &str) -> Result<Option<Directive>, DirectiveError> {
    let mut found = None;
    for (span, comment) in comments(text) {
        let line = 1 + text
            .get(..span.start)
            .unwrap_or_default()
            .matches('\n')
            .count();
        let directive = parse(comment, line)?;
        match found {
            Some(before) if before != directive => return Err(DirectiveError::Second { line }),
            _ => found = Some(directive),
        }
    }
    Ok(found)
}

/// Where the directives of a text are, each with what it says.
fn comments(text: &str) -> Vec<(Range<usize>, &str)> {
    tokens::tokens(text)
        .into_iter()
        .filter_map(|token| {
            let said = said(token)?;
            let start = (token.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
            Some((start..start + token.len(), said))
        })
        .collect()
}

/// Where the first directive of a text is: the comment without the end of its line.
#[must_use]
pub fn place(text: &str) -> Option<Range<usize>> {
    comments(text).into_iter().next().map(|(span, _)| span)
}

fn parse(said: &str, line: usize) -> Result<Directive, DirectiveError> {
    let mut directive = Directive::default();
    for word in said.split_whitespace() {
        let wrong = |expected| DirectiveError::Word {
            line,
            word: word.to_owned(),
            expected,
        };
        match word.split_once('=') {
            Some(("block", value)) => {
                directive.block = Some(block(value).ok_or_else(|| wrong(EXPECTED_BLOCK))?);
            }
            Some(("grid", value)) => {
                directive.grid = grid(value).ok_or_else(|| wrong(EXPECTED_GRID))?;
            }
            Some(("shared", value)) => {
                directive.shared = match value {
                    "same" => SharedWish::Same,
                    "thread" => SharedWish::PerThread,
                    _ => SharedWish::Bytes(value.parse().map_err(|_| wrong(EXPECTED_SHARED))?),
                };
            }
            _ => return Err(wrong(EXPECTED)),
        }
    }
    Ok(directive)
}

fn block(value: &str) -> Option<[u32; 3]> {
    let mut block = [1; 3];
    let mut places = block.iter_mut();
    for part in value.split(',') {
        *places.next()? = part.parse().ok().filter(|n| (1..=1024).contains(n))?;
    }
    Some(block)
}

fn grid(value: &str) -> Option<[GridWish; 3]> {
    let mut grid = [GridWish::default(); 3];
    let mut places = grid.iter_mut();
    let positive = |text: &str| text.parse().ok().filter(|n: &u32| *n > 0);
    for part in value.split(',') {
        *places.next()? = match (part, part.split_once('/')) {
            ("cover", _) => GridWish::Cover,
            ("same", _) => GridWish::Same,
            (_, Some((times, by))) => GridWish::Scale(positive(times)?, positive(by)?),
            (blocks, None) => GridWish::Blocks(positive(blocks)?),
        };
    }
    Some(grid)
}

/// The comment that says it.
#[must_use]
pub fn write(directive: &Directive) -> String {
    directive.to_string()
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "// {PREFIX}")?;
        if let Some([x, y, z]) = self.block {
            match (y, z) {
                (1, 1) => write!(f, " block={x}")?,
                (_, 1) => write!(f, " block={x},{y}")?,
                _ => write!(f, " block={x},{y},{z}")?,
            }
        }
        if self.grid != [GridWish::Cover; 3] {
            let [x, y, z] = self.grid;
            write!(f, " grid={x}")?;
            if (y, z) != (GridWish::Cover, GridWish::Cover) {
                write!(f, ",{y}")?;
            }
            if z != GridWish::Cover {
                write!(f, ",{z}")?;
            }
        }
        match self.shared {
            SharedWish::Same => Ok(()),
            SharedWish::PerThread => f.write_str(" shared=thread"),
            SharedWish::Bytes(bytes) => write!(f, " shared={bytes}"),
        }
    }
}

impl fmt::Display for GridWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cover => f.write_str("cover"),
            Self::Same => f.write_str("same"),
            Self::Blocks(blocks) => write!(f, "{blocks}"),
            Self::Scale(times, by) => write!(f, "{times}/{by}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Directive, DirectiveError, GridWish, SharedWish, place, read, write};

    #[test]
    fn a_directive_is_read_from_a_comment_and_from_nowhere_else() {
        let text = "const char *s = \"// r3: launch block=1\";\nvoid k() {\n    // r3: launch block=128 grid=1/4,same,7 shared=4096\n}";
        assert_eq!(
            read(text).unwrap(),
            Some(Directive {
                block: Some([128, 1, 1]),
                grid: [GridWish::Scale(1, 4), GridWish::Same, GridWish::Blocks(7)],
                shared: SharedWish::Bytes(4096),
            })
        );
        assert!(text[place(text).unwrap()].ends_with("shared=4096"));
        assert_eq!(read("// r3: launched\n// r3: evolve begin").unwrap(), None);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        for (text, message) in [
            (
                "\n// r3: launch blok=3",
                "line 2: `blok=3` in `// r3: launch`: block=, grid= or shared= is expected",
            ),
            (
                "// r3: launch block=0",
                "line 1: `block=0` in `// r3: launch`: one to three numbers from 1 to 1024 are expected, as in block=16,16",
            ),
            (
                "// r3: launch grid=1/0",
                "line 1: `grid=1/0` in `// r3: launch`: cover, same, a number of blocks or a fraction is expected for each dimension, as in grid=1/4,same",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
        let two = "// r3: launch block=32\n// r3: launch block=64";
        assert_eq!(read(two).unwrap_err(), DirectiveError::Second { line: 2 });
    }

    fn wish() -> impl Strategy<Value = GridWish> {
        prop_oneof![
            Just(GridWish::Cover),
            Just(GridWish::Same),
            (1u32..).prop_map(GridWish::Blocks),
            (1u32.., 1u32..).prop_map(|(a, b)| GridWish::Scale(a, b)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            block in prop::option::of(prop::array::uniform3(1u32..=1024)),
            grid in prop::array::uniform3(wish()),
            shared in prop_oneof![Just(SharedWish::Same), Just(SharedWish::PerThread), any::<u32>().prop_map(SharedWish::Bytes)],
        ) {
            let directive = Directive { block, grid, shared };
            prop_assert_eq!(read(&write(&directive)), Ok(Some(directive)));
        }
    }
}
