//! Whether the iterations of loops may come in another order.
//!
//! The test is conservative: a pair of accesses that may be of the same memory, one of them a write, must have the same subscripts, and
//! these must tell which iteration it is. What cannot be told apart is taken to depend.

use tree_sitter::Node;

use super::loops::{Loop, encloses};
use super::meaning::{Meaning, bare};
use super::memory::Base;
use super::names::Binding;
use super::types::Type;
use crate::syntax::walk;
use crate::tokens;

/// An access of memory.
pub struct Access<'a> {
    /// Where its memory comes from.
    pub base: Base<'a>,
    /// Its subscripts, outermost first; nothing when it is no plain element of an array or a pointer.
    pub subscripts: Option<Vec<Node<'a>>>,
    /// Whether it may be written.
    pub written: bool,
}

impl<'a> Meaning<'a> {
    /// All accesses of memory in a part of the tree.
    pub fn accesses(&self, part: Node<'a>) -> Vec<Access<'a>> {
        let mut found = Vec::new();
        walk(part, &mut |node| {
            let access = match node.kind() {
                "subscript_expression" => !is_argument_of_subscript(node),
                "pointer_expression" => self.of(node).starts_with('*'),
                "field_expression" => self.of(node).contains("->"),
                "identifier" => self.is_memory_variable(node) && !is_argument_of_subscript(node),
                _ => false,
            };
            if access {
                found.push(Access {
                    base: self.base(node),
                    subscripts: self.subscripts(node),
                    written: self.is_written(node),
                });
            }
            true
        });
        found
    }

    fn is_memory_variable(&self, node: Node<'a>) -> bool {
        match self.names.resolve(node) {
            Binding::File(_) => self.constant(node).is_none(),
            Binding::Local(variable) | Binding::Parameter(variable, ..) => {
                self.is_reference(variable.declarator)
            }
            _ => false,
        }
    }

    /// The subscripts of `a[i][j]`, where `a` is an array or a pointer by name.
    fn subscripts(&self, node: Node<'a>) -> Option<Vec<Node<'a>>> {
        let mut subscripts = Vec::new();
        let mut inner = bare(node);
        while inner.kind() == "subscript_expression" {
            let indices = inner.child_by_field_name("indices")?;
            subscripts.push(
                indices
                    .named_child(0)
                    .filter(|_| indices.named_child_count() == 1)?,
            );
            inner = bare(inner.child_by_field_name("argument")?);
        }
        subscripts.reverse();
        (inner.kind() == "identifier" && !subscripts.is_empty()).then_some(subscripts)
    }

    /// By how much an expression grows with a counter, if that is always the same: 0 when it does not depend on it.
    pub fn coefficient(&self, expression: Node<'a>, counter: Node<'a>) -> Option<i128> {
        let node = self.uncast(expression);
        if self.uses(counter, node).is_empty() {
            return Some(0);
        }
        match node.kind() {
            "identifier" => Some(1),
            "binary_expression" => {
                let (a, b) = (
                    node.child_by_field_name("left")?,
                    node.child_by_field_name("right")?,
                );
                match self.operator(node) {
                    "+" => self
                        .coefficient(a, counter)?
                        .checked_add(self.coefficient(b, counter)?),
                    "-" => self
                        .coefficient(a, counter)?
                        .checked_sub(self.coefficient(b, counter)?),
                    "*" => match (self.known(a), self.known(b)) {
                        (Some(a), _) => a.checked_mul(self.coefficient(b, counter)?),
                        (_, Some(b)) => b.checked_mul(self.coefficient(a, counter)?),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether an expression's names keep their values in a loop, but for the counters of loops in it.
    fn depends_only_on(
        &self,
        expression: Node<'a>,
        counters: &[Node<'a>],
        around: Node<'a>,
    ) -> bool {
        if self.reads_memory(expression) || !self.is_pure(expression) {
            return false;
        }
        let bindings: Vec<Binding<'a>> = counters
            .iter()
            .map(|counter| self.names.resolve(*counter))
            .collect();
        let mut only = true;
        walk(expression, &mut |node| {
            if node.kind() == "identifier" && !bindings.contains(&self.names.resolve(node)) {
                only &= self.names_keep(node, around);
            }
            only
        });
        only
    }

    /// What a part of the tree writes of the variables that are declared outside it, and what it reads and writes of memory, allows
    /// its iterations over two nested counters to be done the other way round. `sums` says whether floating-point sums may be
    /// added in another order.
    pub fn may_interchange(&self, outer: &Loop<'a>, inner: &Loop<'a>, sums: bool) -> bool {
        let body = inner.body;
        if !self.is_local(body) || self.leaves_iteration(body) || !self.keeps_scalars(body, sums) {
            return false;
        }
        let accesses = self.accesses(body);
        let counters = [outer.variable, inner.variable];
        accesses
            .iter()
            .filter(|access| access.written)
            .all(|write| {
                let tells = write.subscripts.as_ref().is_some_and(|subscripts| {
                    subscripts
                        .iter()
                        .all(|subscript| self.depends_only_on(*subscript, &counters, outer.node))
                        && self.tells_apart(subscripts, outer, inner)
                });
                accesses
                    .iter()
                    .filter(|other| self.may_meet(write.base, other.base))
                    .all(|other| {
                        tells
                            && write.base != Base::Unknown
                            && write.base == other.base
                            && self.same_subscripts(write, other)
                    })
            })
    }

    fn same_subscripts(&self, a: &Access<'a>, b: &Access<'a>) -> bool {
        match (&a.subscripts, &b.subscripts) {
            (Some(a), Some(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same_text(*a, *b))
            }
            _ => false,
        }
    }

    /// Whether two expressions are written alike.
    pub fn same_text(&self, a: Node<'a>, b: Node<'a>) -> bool {
        tokens::fingerprint(self.of(bare(a))) == tokens::fingerprint(self.of(bare(b)))
    }

    /// Whether two iterations that reach the same element differ in one counter only.
    fn tells_apart(&self, subscripts: &[Node<'a>], outer: &Loop<'a>, inner: &Loop<'a>) -> bool {
        let mut seen = (false, false);
        for subscript in subscripts {
            let (Some(a), Some(b)) = (
                self.coefficient(*subscript, outer.variable),
                self.coefficient(*subscript, inner.variable),
            ) else {
                return false;
            };
            if a != 0 && b != 0 {
                let extent = |found: &Loop<'a>| {
                    let (start, bound) = (self.known(found.start)?, self.known(found.bound)?);
                    Some((bound - start).abs() + i128::from(found.comparison.ends_with('=')))
                };
                let apart = extent(inner).is_some_and(|extent| a.abs() >= b.abs() * extent)
                    || extent(outer).is_some_and(|extent| b.abs() >= a.abs() * extent);
                if !apart {
                    return false;
                }
                seen = (true, true);
            }
            seen = (seen.0 || a != 0, seen.1 || b != 0);
        }
        seen.0 || seen.1
    }

    /// Whether all that a part writes of outer variables is added up, in a way that has no order.
    fn keeps_scalars(&self, part: Node<'a>, sums: bool) -> bool {
        let outer = self.outer_writes(part);
        outer.iter().all(|variable| {
            let added = variable.parent().is_some_and(|parent| {
                parent.kind() == "assignment_expression"
                    && self.operator(parent) == "+="
                    && parent.child_by_field_name("left") == Some(*variable)
                    && parent
                        .parent()
                        .is_some_and(|parent| parent.kind() == "expression_statement")
            });
            let ty = self.type_of(*variable);
            let orderless = ty.is_integer() || sums && ty.is_floating();
            // Nowhere else, neither read nor written.
            added && orderless && self.uses(*variable, part).len() == 1
        })
    }

    /// Where a part of the tree writes variables that are declared outside it.
    pub fn outer_writes(&self, part: Node<'a>) -> Vec<Node<'a>> {
        let span = part.byte_range();
        let mut found = Vec::new();
        walk(part, &mut |node| {
            if node.kind() == "identifier"
                && let Binding::Local(variable) | Binding::Parameter(variable, ..) =
                    self.names.resolve(node)
                && !encloses(&span, &variable.name.byte_range())
                && !matches!(self.type_of_variable(&variable), Type::Array(_))
                && self.is_written(node)
            {
                found.push(node);
            }
            true
        });
        found
    }

    /// Whether one loop's iterations can each be followed at once by those of the next loop.
    pub fn may_fuse(&self, first: &Loop<'a>, second: &Loop<'a>) -> bool {
        let bodies = [first.body, second.body];
        if bodies
            .iter()
            .any(|body| !self.is_local(*body) || self.leaves_iteration(*body))
        {
            return false;
        }
        let crosses = |from: Node<'a>, to: Node<'a>| {
            self.outer_writes(from)
                .into_iter()
                .any(|variable| !self.uses(variable, to).is_empty())
        };
        if crosses(first.body, second.body) || crosses(second.body, first.body) {
            return false;
        }
        let (a, b) = (self.accesses(first.body), self.accesses(second.body));
        a.iter().all(|one| {
            b.iter()
                .filter(|other| {
                    (one.written || other.written) && self.may_meet(one.base, other.base)
                })
                .all(|other| {
                    one.base == other.base
                        && one.base != Base::Unknown
                        && self.same_iteration(one, other, first, second)
                })
        })
    }

    /// Whether two accesses in two loops reach the same element only in the same iteration: a subscript is the same in both, and tells
    /// the iteration.
    fn same_iteration(
        &self,
        a: &Access<'a>,
        b: &Access<'a>,
        first: &Loop<'a>,
        second: &Loop<'a>,
    ) -> bool {
        let (Some(x), Some(y)) = (&a.subscripts, &b.subscripts) else {
            return false;
        };
        x.len() == y.len()
            && x.iter().zip(y).any(|(x, y)| {
                let tells = |subscript, found: &Loop<'a>| {
                    self.coefficient(subscript, found.variable)
                        .is_some_and(|coefficient| coefficient != 0)
                        && self.depends_only_on(subscript, &[found.variable], found.node)
                };
                let name = |subscript: Node<'a>, found: &Loop<'a>| {
                    let counter = self.of(found.variable);
                    tokens::tokens(self.of(bare(subscript)))
                        .into_iter()
                        .map(|token| if token == counter { "\u{0}" } else { token })
                        .collect::<Vec<_>>()
                };
                tells(*x, first) && tells(*y, second) && name(*x, first) == name(*y, second)
            })
    }
}

fn is_argument_of_subscript(node: Node<'_>) -> bool {
    let mut node = node;
    while let Some(parent) = node.parent() {
        match parent.kind() {
            "parenthesized_expression" => node = parent,
            "subscript_expression" => return parent.child_by_field_name("argument") == Some(node),
            _ => return false,
        }
    }
    false
}
