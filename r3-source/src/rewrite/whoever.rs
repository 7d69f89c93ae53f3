//! Whether the work for an element is the same whichever thread of whichever block does it.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::meaning::Meaning;
use super::memory::Base;
use super::names::{Binding, Declared};
use super::strided::{AXES, Strided};
use crate::syntax::walk;

/// What is looked for around some work.
#[derive(Clone, Copy)]
struct Search<'w> {
    /// Any of these.
    words: &'w [&'w str],
    /// Along this axis.
    axis: &'w str,
    /// Where the work begins.
    start: usize,
    /// Whether it is about what differs from block to block only.
    of_block: bool,
}

/// Variables that were looked into, by where they are declared, and in which of the two ways.
type Seen = BTreeSet<(usize, bool)>;

/// Whether a function of the language is only about the threads of a block.
fn is_of_block(name: &str) -> bool {
    [
        "__sync",
        "__shfl",
        "__ballot",
        "__any",
        "__all",
        "__threadfence",
    ]
    .iter()
    .any(|known| name.starts_with(known))
}

impl<'a> Meaning<'a> {
    /// Whether the work for an element depends on what does it, other than by the element's number: on one of these (`threadIdx`,
    /// `blockIdx`, …) along the axis of the elements. What stands in front of the work counts as far as that may.
    pub fn depends_on(&self, found: &Strided<'a>, words: &[&str]) -> bool {
        let search = Search {
            words,
            axis: AXES.get(found.dimension).copied().unwrap_or("x"),
            start: found.start,
            of_block: false,
        };
        let mut seen = Seen::from([(found.variable.start_byte(), false)]);
        let mut parts = found.body.iter().chain([&found.bound]);
        parts.any(|part| self.mentions(*part, &search, &mut seen))
            || self.differs_in_front(found, &search)
    }

    /// Whether threads come to the work that differ, or have done what fewer of them would not do.
    fn differs_in_front(&self, found: &Strided<'a>, search: &Search<'_>) -> bool {
        self.in_front(search).into_iter().any(|statement| {
            let (mut leaves, mut acts) = (false, false);
            walk(statement, &mut |node| {
                leaves |= matches!(node.kind(), "return_statement" | "goto_statement");
                acts |= node.kind() == "call_expression" && self.acts(node);
                true
            });
            let writes = || {
                let mut bases = self.writes(statement).into_iter();
                bases.any(|base| !matches!(base, Base::Variable(_)))
            };
            leaves && self.varies(statement, search, &mut Seen::new())
                || found.test.is_some() && (acts || writes())
        })
    }

    /// Whether a call does more than with values, and with what it is handed.
    fn acts(&self, call: Node<'a>) -> bool {
        if let Some((name, _)) = self.builtin_call(call) {
            return !super::tables::is_pure(name) && !is_of_block(name);
        }
        let function = call.child_by_field_name("function");
        let name = function.and_then(|function| match function.kind() {
            "template_function" => function.child_by_field_name("name"),
            _ => Some(function),
        });
        let functions = name.map_or(&[][..], |name| self.names.functions(self.of(name)));
        let reached: BTreeSet<usize> = functions
            .iter()
            .filter_map(|node| self.scene.unit.function(*node))
            .flat_map(|function| {
                let reached = self.scene.unit.reached(&function).into_iter();
                reached
                    .map(|one| one.span.start)
                    .chain([function.span.start])
                    .collect::<Vec<_>>()
            })
            .collect();
        let elsewhere = self.scene.unit.definitions().into_iter().any(|node| {
            let ours = self.scene.unit.function(node);
            ours.is_some_and(|function| reached.contains(&function.span.start))
                && node.child_by_field_name("body").is_some_and(|body| {
                    let mut bases = self.writes(body).into_iter();
                    bases.any(|base| matches!(base, Base::File(_) | Base::Unknown))
                })
        });
        elsewhere || self.ties_threads(call)
    }

    /// The kernel's statements in front of the work.
    fn in_front(&self, search: &Search<'_>) -> Vec<Node<'a>> {
        let mut statements = self.kernel_statements();
        statements.retain(|statement| statement.end_byte() <= search.start);
        statements
    }

    /// Whether a part of the tree mentions one of these, or has something in it that may differ in each thread unseen.
    fn varies(&self, part: Node<'a>, search: &Search<'_>, seen: &mut Seen) -> bool {
        self.ties_threads(part) || self.mentions(part, search, seen)
    }

    /// Whether a part of the tree mentions one of these, itself, in the functions that it calls, or in what its variables get.
    fn mentions(&self, part: Node<'a>, search: &Search<'_>, seen: &mut Seen) -> bool {
        let mut found = false;
        walk(part, &mut |node| {
            if node.kind() != "identifier" {
                return !found;
            }
            let text = self.of(node);
            found |= match self.names.resolve(node) {
                Binding::Unknown => {
                    let field = node
                        .parent()
                        .and_then(|parent| parent.child_by_field_name("field"));
                    search.words.contains(&text)
                        && field.is_none_or(|field| self.of(field) == search.axis)
                }
                Binding::Local(variable) | Binding::Parameter(variable, ..) => {
                    self.gets(&variable, search, seen)
                }
                _ => self.names.functions(text).iter().any(|function| {
                    let Some(function) = self.scene.unit.function(*function) else {
                        return true;
                    };
                    let reached = self.scene.unit.reached(&function).into_iter();
                    reached.chain([function]).any(|function| {
                        let body = self.scene.unit.slice(function.body.clone());
                        let tokens = crate::tokens::tokens(body);
                        tokens.iter().any(|token| search.words.contains(token))
                    })
                }),
            };
            !found
        });
        found
    }

    /// Whether anything that a variable gets in front of the work mentions one of these, or is got where one of these decides.
    fn gets(&self, variable: &Declared<'a>, search: &Search<'_>, seen: &mut Seen) -> bool {
        // What is declared in the work, gets its values there.
        let inside = variable.name.start_byte() >= search.start;
        if inside || !seen.insert((variable.name.start_byte(), search.of_block)) {
            return false;
        }
        if self.of(variable.declaration).contains("__shared__") {
            // What a block shares has no thread of its own; another block may have another one.
            let words: Vec<&str> = search
                .words
                .iter()
                .copied()
                .filter(|word| *word != "threadIdx")
                .collect();
            let of_block = Search {
                words: &words,
                of_block: true,
                ..*search
            };
            return self
                .in_front(search)
                .into_iter()
                .any(|statement| self.mentions_block(statement, &of_block, seen));
        }
        let value = variable.value();
        if value.is_some_and(|value| self.varies(value, search, seen)) {
            return true;
        }
        let body = self
            .kernel_node()
            .and_then(|kernel| kernel.child_by_field_name("body"));
        let uses = body.map_or_else(Vec::new, |body| self.uses(variable.name, body));
        uses.into_iter()
            .filter(|used| used.start_byte() < search.start && self.is_written(*used))
            .any(|used| self.is_written_by(used, search, seen))
    }

    /// Whether a write of a variable in front of the work mentions one of these, or is where one of these decides.
    fn is_written_by(&self, used: Node<'a>, search: &Search<'_>, seen: &mut Seen) -> bool {
        let mut node = used;
        let mut plain = false;
        while let Some(parent) = node.parent() {
            let varies = match parent.kind() {
                "assignment_expression" if parent.child_by_field_name("left") == Some(node) => {
                    plain = true;
                    self.varies(parent, search, seen)
                }
                "update_expression" => {
                    plain = true;
                    false
                }
                "if_statement"
                | "for_statement"
                | "while_statement"
                | "do_statement"
                | "switch_statement"
                | "conditional_expression"
                | "binary_expression"
                | "for_range_loop" => self.varies(parent, search, seen),
                "function_definition" => break,
                _ => false,
            };
            if varies {
                return true;
            }
            node = parent;
        }
        // A function has its address, or assembly does.
        !plain
    }

    /// The same of what blocks share, in which barriers are no matter.
    fn mentions_block(&self, statement: Node<'a>, search: &Search<'_>, seen: &mut Seen) -> bool {
        let mut hidden = false;
        walk(statement, &mut |node| {
            hidden |= node.kind() == "gnu_asm_expression"
                || node.kind() == "identifier" && self.is_opaque(node);
            hidden |= node.kind() == "call_expression"
                && self
                    .builtin_call(node)
                    .is_none_or(|(name, _)| !is_of_block(name))
                && self.ties_threads(node);
            !hidden
        });
        hidden || self.mentions(statement, search, seen)
    }
}
