//! What operators look at.

use std::ops::Range;

use tree_sitter::Node;

use super::edit::Edit;
use super::facts::Facts;
use crate::directive::{self, Directive, GridWish};
use crate::syntax::{Function, Unit, walk};

/// A file, its kernel, and what may be changed.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The file.
    pub unit: &'a Unit,
    /// The kernel.
    pub kernel: &'a Function,
    /// The parts of the file that may be changed, in bytes.
    pub spans: &'a [Range<usize>],
    /// What is known of its launches.
    pub facts: &'a Facts,
}

impl<'a> Scene<'a> {
    /// Whether a part of the text may be changed.
    #[must_use]
    pub fn contains(&self, part: &Range<usize>) -> bool {
        self.spans
            .iter()
            .any(|span| span.start <= part.start && part.end <= span.end)
    }

    /// The text of a node.
    pub(crate) fn of(&self, node: Node<'_>) -> &'a str {
        self.unit.slice(node.byte_range())
    }

    /// All nodes that lie in what may be changed and in a function with a body, in the order of the text. Nothing in it is
    /// broken: what the parser could make nothing of is left out.
    pub(crate) fn nodes(&self, kind: &str) -> Vec<Node<'a>> {
        let mut found = Vec::new();
        walk(self.unit.tree().root_node(), &mut |node| {
            if node.kind() == kind && self.contains(&node.byte_range()) && !node.has_error() {
                found.push(node);
            }
            true
        });
        found
    }

    /// How the kernel wants to be launched so far.
    pub(crate) fn directive(&self) -> Directive {
        directive::read(self.unit.text())
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// The wish for a part of the threads along a dimension. `Scale` counts recorded blocks: where the text wishes a block of another
    /// size, that size counts too; nothing when the recorded one is not known then.
    pub(crate) fn part_of_grid(&self, dimension: usize, parts: u32) -> Option<Directive> {
        let mut directive = self.directive();
        let (mut times, mut by) = (1, u64::from(parts));
        if let Some(block) = directive.block {
            let at = |sizes: [u32; 3]| sizes.get(dimension).copied().map(u64::from);
            times = at(self.facts.block?)?;
            by *= at(block)?;
        }
        let (mut divisor, mut rest) = (times, by);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let lowest = |number: u64| u32::try_from(number.checked_div(divisor)?).ok();
        *directive.grid.get_mut(dimension)? = GridWish::Scale(lowest(times)?, lowest(by)?);
        Some(directive)
    }

    /// The comment that says how the kernel is launched: in place of the one that is there, or at the top of its body.
    pub(crate) fn say(&self, directive: &Directive) -> Edit {
        let words = directive::write(directive);
        match directive::place(self.unit.text()) {
            Some(place) => Edit::replace(place, words),
            None => Edit::insert(self.kernel.body.start + 1, format!("\n    {words}")),
        }
    }

    /// A statement taken away, with its line where nothing else stands on it.
    pub(crate) fn remove_line(&self, part: Range<usize>) -> Edit {
        let text = self.unit.text();
        let before = text.get(..part.start).unwrap_or_default();
        let blanks = before.len() - before.trim_end_matches([' ', '\t']).len();
        let after = text.get(part.end..).unwrap_or_default();
        match before.trim_end_matches([' ', '\t']).ends_with('\n') && after.starts_with('\n') {
            true => Edit::replace(part.start - blanks..part.end + 1, ""),
            false => Edit::replace(part, ""),
        }
    }
}
