//! Loops that count.

use std::ops::Range;

use tree_sitter::Node;

use super::meaning::Meaning;
use super::names::declarations;
use super::types::Type;

/// `for (int i = start; i < bound; i += step)`, where nothing but the head changes `i`, and nothing changes the bound.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'a> {
    /// The whole statement.
    pub node: Node<'a>,
    /// The counter in its declaration.
    pub variable: Node<'a>,
    /// Where it begins.
    pub start: Node<'a>,
    /// `<` or `<=`; `>` or `>=` when it counts down.
    pub comparison: &'a str,
    /// What it is compared with.
    pub bound: Node<'a>,
    /// What is added each time; nothing for 1.
    pub step: Option<Node<'a>>,
    /// Whether it counts up.
    pub up: bool,
    /// What is repeated.
    pub body: Node<'a>,
}

/// Whether a statement is one of a block's, so that others can stand beside it.
pub(super) fn in_block(statement: Node<'_>) -> bool {
    let parent = statement.parent();
    parent.is_some_and(|parent| parent.kind() == "compound_statement")
}

impl<'a> Meaning<'a> {
    /// A statement as a loop that counts.
    pub fn counting(&self, node: Node<'a>) -> Option<Loop<'a>> {
        if node.kind() != "for_statement" || node.has_error() {
            return None;
        }
        let initializer = node
            .child_by_field_name("initializer")
            .filter(|initializer| initializer.kind() == "declaration")?;
        let [variable] = declarations(initializer).try_into().ok()?;
        let start = variable.value()?;
        let condition = node.child_by_field_name("condition")?;
        let comparison = ["<", "<=", ">", ">="]
            .into_iter()
            .find(|comparison| self.binary(condition, comparison).is_some())?;
        let (counter, bound) = self.binary(condition, comparison)?;
        let (step, up) = self.step(node.child_by_field_name("update")?, variable.name)?;
        let body = node.child_by_field_name("body")?;
        let found = Loop {
            node,
            variable: variable.name,
            start,
            comparison,
            bound,
            step,
            up,
            body,
        };
        let sound = self.of(counter) == self.of(variable.name)
            && comparison.starts_with('<') == up
            && variable.declarator.kind() == "init_declarator"
            && matches!(
                self.type_of_variable(&variable),
                Type::Integer { bits: 32.., .. }
            )
            && !self.of(initializer).contains("volatile")
            && !self.may_change(variable.name, body)
            && [Some(start), Some(bound), step]
                .into_iter()
                .flatten()
                .all(|part| self.is_pure(part))
            && [Some(bound), step]
                .into_iter()
                .flatten()
                .all(|part| self.is_invariant(part, node));
        sound.then_some(found)
    }

    fn step(&self, update: Node<'a>, variable: Node<'a>) -> Option<(Option<Node<'a>>, bool)> {
        let name = self.of(variable);
        match update.kind() {
            "update_expression" if self.of(update.child_by_field_name("argument")?) == name => {
                match self.of(update).contains("++") {
                    true => Some((None, true)),
                    false => Some((None, false)),
                }
            }
            "assignment_expression" if self.of(update.child_by_field_name("left")?) == name => {
                let right = update.child_by_field_name("right")?;
                match self.operator(update) {
                    "+=" => Some((Some(right), true)),
                    "-=" => Some((Some(right), false)),
                    "=" => {
                        let (a, b) = self.binary(right, "+")?;
                        (self.of(a) == name).then_some((Some(b), true))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether an expression keeps its value while a loop (or any part of the tree) runs: none of its names is written there
    /// and it reads no memory.
    pub fn is_invariant(&self, expression: Node<'a>, part: Node<'a>) -> bool {
        !self.reads_memory(expression) && self.names_keep(expression, part)
    }

    /// Whether no name of an expression is declared or written in a part of the tree.
    pub fn names_keep(&self, expression: Node<'a>, part: Node<'a>) -> bool {
        let inside = part.byte_range();
        let mut keep = true;
        crate::syntax::walk(expression, &mut |node| {
            if node.kind() == "identifier" {
                use super::names::Binding::{Local, Parameter};
                if let Local(variable) | Parameter(variable, ..) = self.names.resolve(node) {
                    keep &= !encloses(&inside, &variable.name.byte_range())
                        && !self.may_change(node, part);
                    // What has its address may be written by anything.
                    keep &= !self.address_taken(node);
                }
            }
            keep
        });
        keep
    }

    /// Whether the address of the variable at a use is taken anywhere in its function.
    pub fn address_taken(&self, used: Node<'a>) -> bool {
        let Some(body) = self
            .function(used)
            .and_then(|function| function.child_by_field_name("body"))
        else {
            return true;
        };
        if self.names.macros().may_write(self.of(used)) && self.has_macros(body) {
            return true;
        }
        self.uses(used, body).into_iter().any(|used| {
            if self.captured(used, body) {
                return true;
            }
            let mut node = used;
            while let Some(parent) = node.parent() {
                match parent.kind() {
                    "parenthesized_expression" | "field_expression" => node = parent,
                    "pointer_expression" => return self.of(parent).starts_with('&'),
                    "init_declarator" => {
                        return parent
                            .child_by_field_name("declarator")
                            .is_some_and(|declarator| self.is_reference(declarator));
                    }
                    "lambda_capture_specifier" => return true,
                    _ => return false,
                }
            }
            false
        })
    }

    /// Whether a use is one in a lambda by reference to what is outside it: whoever calls it may write that.
    fn captured(&self, used: Node<'a>, body: Node<'a>) -> bool {
        let mut node = used.parent();
        while let Some(inner) = node.filter(|inner| *inner != body) {
            if inner.kind() == "lambda_expression" {
                let captures = inner.child_by_field_name("captures");
                return captures.is_none_or(|captures| self.of(captures).contains('&'));
            }
            node = inner.parent();
        }
        false
    }

    /// All loops that count, in what may be changed, outer ones first.
    pub fn counting_loops(&self) -> Vec<Loop<'a>> {
        self.scene
            .nodes("for_statement")
            .into_iter()
            .filter(|node| self.on_device(*node))
            .filter_map(|node| self.counting(node))
            .collect()
    }

    /// How often a loop runs, where the text and the capture say it.
    pub fn trips(&self, found: &Loop<'a>) -> Option<i128> {
        let (start, bound) = (self.known(found.start)?, self.known(found.bound)?);
        let step = match found.step {
            Some(step) => self.known(step).filter(|step| *step > 0)?,
            None => 1,
        };
        let span = match found.up {
            true => bound - start,
            false => start - bound,
        };
        let span = if found.comparison.ends_with('=') {
            span + 1
        } else {
            span
        };
        Some(match span <= 0 {
            true => 0,
            false => (span + step - 1) / step,
        })
    }
}

impl<'a> Loop<'a> {
    /// Where the loop begins with the pragmas that belong to it.
    pub fn beginning(&self) -> usize {
        beginning(self.node)
    }
}

/// Where a statement begins, with the pragmas that belong to it.
pub fn beginning(node: Node<'_>) -> usize {
    let mut first = node;
    while let Some(before) = first
        .prev_named_sibling()
        .filter(|before| before.kind() == "preproc_call")
    {
        first = before;
    }
    first.start_byte()
}

/// Whether a part contains another.
pub fn encloses(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The statement in a block that a node belongs to: a child of `{}` or of a `case`.
pub fn statement(node: Node<'_>) -> Option<Node<'_>> {
    let mut node = node;
    loop {
        let parent = node.parent()?;
        match parent.kind() {
            "compound_statement" => return Some(node),
            "function_definition" | "translation_unit" | "lambda_expression" => return None,
            _ => node = parent,
        }
    }
}

/// The blanks before the first thing on a line.
pub fn indent(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let rest = before.get(line..).unwrap_or_default();
    let blanks = rest.len() - rest.trim_start().len();
    rest.get(..blanks).unwrap_or_default()
}

/// Whether nothing but blanks stands before a place on its line.
pub fn first_on_line(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    before.get(line..).unwrap_or_default().trim().is_empty()
}
