//! Why an answer is of no use, in words for whoever wrote it.

use super::tokens::Unbalanced;

/// Why an answer is of no use. The message is made for a model: it says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There is nothing.
    #[error(
        "The answer was empty. Answer with complete definitions in one fenced block, or with SEARCH/REPLACE edits."
    )]
    Empty,
    /// It ended within the reasoning before it.
    #[error(
        "The answer ended before any code: all of its room went into reasoning. Think less, and answer with the code."
    )]
    OnlyReasoning,
    /// The service or the model refused.
    #[error("The answer was refused: {said}")]
    Refused {
        /// Its beginning.
        said: String,
    },
    /// There is no code in it.
    #[error(
        "There is no code in the answer, which begins with: {said} Answer with complete definitions in one fenced block, or with \
         SEARCH/REPLACE edits."
    )]
    NoCode {
        /// Its beginning.
        said: String,
    },
    /// It was cut off.
    #[error(
        "The answer was cut off at its greatest length {where_}, so that nothing of it was used. Answer with less text: \
         SEARCH/REPLACE edits of the lines that change, and no explanation."
    )]
    Truncated {
        /// Where: `within a block of code`.
        where_: String,
    },
    /// Brackets are missing.
    #[error("The code is not complete: {}.", unbalanced(.what, .text))]
    Unbalanced {
        /// What.
        what: Unbalanced,
        /// The line.
        text: String,
    },
    /// Code was left out.
    #[error(
        "The code has a placeholder in place of lines: `{line}`. Nothing is filled in for it: write every line, or use \
         SEARCH/REPLACE edits."
    )]
    LeftOut {
        /// The line.
        line: String,
    },
    /// An edit has not the form.
    #[error(
        "{what}. An edit is: a line `<<<<<<< SEARCH`, lines that are there, a line `=======`, the new lines, a line `>>>>>>> REPLACE`."
    )]
    BrokenEdit {
        /// What is wrong.
        what: String,
    },
    /// An edit has nothing to look for.
    #[error(
        "Edit {number} has no text behind `<<<<<<< SEARCH`. Give the lines behind which or in place of which the new ones go."
    )]
    EmptySearch {
        /// Number of the edit, from 1.
        number: usize,
    },
    /// What an edit looks for is not there.
    #[error(
        "The SEARCH text of edit {number} (`{line}` …) is not there.{} Copy whole lines exactly.",
        most_like(.nearest)
    )]
    SearchMissing {
        /// Number of the edit, from 1.
        number: usize,
        /// Its first line.
        line: String,
        /// The lines of the parent that are most like it.
        nearest: Option<String>,
    },
    /// What an edit looks for is there more than once.
    #[error(
        "The SEARCH text of edit {number} (`{line}` …) is there {} times, beginning on lines {} of the region. Add lines \
         before or behind it until it is there once.",
        .at.len(),
        numbers(.at)
    )]
    SearchAmbiguous {
        /// Number of the edit, from 1.
        number: usize,
        /// Its first line.
        line: String,
        /// Lines where it is, from 1, in the region.
        at: Vec<usize>,
    },
    /// What an edit looks for may not be changed.
    #[error(
        "The SEARCH text of edit {number} (`{line}` …) lies outside of the region: that part of the file must stay as it is."
    )]
    SearchOutside {
        /// Number of the edit, from 1.
        number: usize,
        /// Its first line.
        line: String,
    },
    /// Two edits are about the same lines.
    #[error("Edits {first} and {second} change the same lines. Join them into one.")]
    Overlap {
        /// Number of one, from 1.
        first: usize,
        /// Number of the other.
        second: usize,
    },
    /// The kernel is missing.
    #[error("The code has no definition of the kernel `{kernel}`{}. Keep its name and give its whole definition.", names(.found))]
    NoKernel {
        /// The kernel.
        kernel: String,
        /// Kernels that are there.
        found: Vec<String>,
    },
    /// The kernel is there more than once.
    #[error("The code defines the kernel `{kernel}` {count} times. Give one definition.")]
    SeveralKernels {
        /// The kernel.
        kernel: String,
        /// How often.
        count: usize,
    },
    /// Its parameters are others.
    #[error(
        "The parameters of `{kernel}` are not those of the captured kernel. They must stay ({expected}), in number, order and type; \
         the answer has ({actual}). Only `const` and `__restrict__` may be added to pointers; other types can be had inside by casts."
    )]
    Signature {
        /// The kernel.
        kernel: String,
        /// Types of the parameters.
        expected: String,
        /// Types in the answer.
        actual: String,
    },
    /// Something outside of the region was changed.
    #[error(
        "`{name}` is defined in the part of the file that must stay as it is, and the answer has another definition of it. Give the \
         new one another name, and use that in the region."
    )]
    Outside {
        /// Its name.
        name: String,
    },
    /// A directive, or something like one, that a variant may not bring in.
    #[error(
        "The line `{line}` may not be brought in: a variant has the headers that the file has and no others, and of directives only \
         #define, #undef, #if and its kin, and #pragma unroll."
    )]
    Preprocessor {
        /// The line.
        line: String,
    },
    /// It would mark regions anew.
    #[error(
        "The code has `// r3: evolve …` amid it. Leave these comments out: they are no part of a region."
    )]
    Marks,
    /// Not every region can be told.
    #[error(
        "The file has {regions} regions: begin each block of code with the line `// region K`, where K is the region's number."
    )]
    Regions {
        /// How many.
        regions: usize,
    },
    /// How the kernel wants to be launched cannot be read.
    #[error("The comment `// r3: launch` cannot be read: {error}")]
    Directive {
        /// Why.
        error: String,
    },
    /// Nothing is other than in the parent.
    #[error(
        "The code is what was there before, but for blanks and comments. Change what it does, not how it looks."
    )]
    Unchanged,
}

fn unbalanced(what: &Unbalanced, text: &str) -> String {
    match what {
        Unbalanced::Open { count: 1, line } => {
            format!("the bracket that line {line} opens (`{text}`) is not closed")
        }
        Unbalanced::Open { count, line } => {
            format!(
                "{count} brackets are not closed, the last of them opened on line {line} (`{text}`)"
            )
        }
        Unbalanced::Closes { line } => {
            format!("a bracket on line {line} (`{text}`) closes none that is open")
        }
        Unbalanced::Comment => "it ends within a comment".to_owned(),
    }
}

fn most_like(nearest: &Option<String>) -> String {
    match nearest {
        Some(lines) => format!(
            " The lines most like it are:\n{}",
            crate::prompt::text::fenced(lines, "cuda")
        ),
        None => String::new(),
    }
}

fn numbers(at: &[usize]) -> String {
    let mut shown: Vec<String> = at.iter().take(5).map(usize::to_string).collect();
    if at.len() > 5 {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

fn names(found: &[String]) -> String {
    match found {
        [] => String::new(),
        names => format!("; it defines `{}`", names.join("`, `")),
    }
}
