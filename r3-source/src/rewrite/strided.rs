//! Which thread does which element.

use tree_sitter::Node;

use super::meaning::{Meaning, bare};
use super::memory::Base;
use super::names::{Binding, declarations};
use super::types::Type;
use crate::syntax::walk;

/// The largest number up to which a counter can go past its end by a stride without leaving its type.
const LARGEST: i128 = 1 << 30;

/// Work that each thread does for its elements.
#[derive(Clone, Debug)]
pub struct Strided<'a> {
    /// First byte of what is the work, with the declaration of the counter.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
    /// The counter in its declaration.
    pub variable: Node<'a>,
    /// Its type as it is written, without `const`.
    pub words: String,
    /// The number of the first element.
    pub index: Node<'a>,
    /// How many elements there are.
    pub bound: Node<'a>,
    /// Dimension of the grid, 0 for x.
    pub dimension: usize,
    /// Statements of the body, in order; one block or several statements.
    pub body: Vec<Node<'a>>,
    /// The test in front of the body, which goes when it becomes a loop; nothing when it is a loop already.
    pub test: Option<Node<'a>>,
}

pub(super) const AXES: [&str; 3] = ["x", "y", "z"];

impl<'a> Meaning<'a> {
    /// The dimension of `blockIdx.x * blockDim.x + threadIdx.x`, in any order and with casts.
    pub fn linear_index(&self, node: Node<'a>) -> Option<usize> {
        let (a, b) = self.binary(self.uncast(node), "+")?;
        AXES.iter().position(|axis| {
            [(a, b), (b, a)].into_iter().any(|(thread, product)| {
                self.is_geometry(thread, "threadIdx", axis)
                    && self.is_product(product, "blockIdx", "blockDim", axis)
            })
        })
    }

    /// Whether an expression is the number of all threads along an axis.
    fn is_stride(&self, node: Node<'a>, axis: &str) -> bool {
        if self.is_product(node, "blockDim", "gridDim", axis) {
            return true;
        }
        // A variable that begins so and keeps its value.
        let inner = bare(node);
        let Binding::Local(variable) = (match inner.kind() {
            "identifier" => self.names.resolve(inner),
            _ => return false,
        }) else {
            return false;
        };
        let body = self
            .function(inner)
            .and_then(|function| function.child_by_field_name("body"));
        variable
            .value()
            .is_some_and(|value| self.is_product(value, "blockDim", "gridDim", axis))
            && body.is_some_and(|body| !self.may_change(inner, body))
    }

    /// Whether an expression is the number of all threads along any axis.
    pub fn is_thread_count(&self, node: Node<'a>) -> bool {
        AXES.iter()
            .any(|axis| self.is_product(node, "blockDim", "gridDim", axis))
    }

    fn is_product(&self, node: Node<'a>, one: &str, other: &str, axis: &str) -> bool {
        self.binary(self.uncast(node), "*").is_some_and(|(a, b)| {
            [(a, b), (b, a)]
                .into_iter()
                .any(|(a, b)| self.is_geometry(a, one, axis) && self.is_geometry(b, other, axis))
        })
    }

    fn is_geometry(&self, node: Node<'a>, name: &str, axis: &str) -> bool {
        let node = self.uncast(node);
        let (Some(argument), Some(field)) = (
            node.child_by_field_name("argument"),
            node.child_by_field_name("field"),
        ) else {
            return false;
        };
        node.kind() == "field_expression"
            && argument.kind() == "identifier"
            && self.of(argument) == name
            && self.names.is_builtin(argument)
            && self.of(field) == axis
    }

    /// What casts to integers and parentheses stand around.
    pub fn uncast(&self, node: Node<'a>) -> Node<'a> {
        let mut node = bare(node);
        while let Some(inner) = self.cast_of(node) {
            // A narrower one makes another number of it.
            if !matches!(self.type_of(node), Type::Integer { bits: 32.., .. }) {
                break;
            }
            node = bare(inner);
        }
        node
    }

    /// The integer that a cast to another integer is of.
    pub fn cast_of(&self, node: Node<'a>) -> Option<Node<'a>> {
        let inner = match node.kind() {
            "cast_expression" => node.child_by_field_name("value")?,
            "call_expression" => {
                node.child_by_field_name("function").filter(|function| {
                    matches!(function.kind(), "template_function" | "primitive_type")
                })?;
                node.child_by_field_name("arguments")?.named_child(0)?
            }
            _ => return None,
        };
        (self.type_of(node).is_integer() && self.type_of(inner).is_integer()).then_some(inner)
    }

    /// The kernel's work by elements, where it has that form.
    pub fn strided(&self) -> Vec<Strided<'a>> {
        let statements = self.kernel_statements();
        let mut found: Vec<Strided<'a>> = (0..statements.len())
            .filter_map(|at| self.guarded(&statements, at))
            .collect();
        for statement in &statements {
            found.extend(self.strided_loop(*statement));
        }
        found
    }

    /// The statements of the kernel, where all of them could be parsed.
    pub fn kernel_statements(&self) -> Vec<Node<'a>> {
        let body = self
            .kernel_node()
            .and_then(|kernel| kernel.child_by_field_name("body"));
        let Some(body) = body.filter(|body| !body.has_error()) else {
            return Vec::new();
        };
        let mut cursor = body.walk();
        body.named_children(&mut cursor)
            .filter(|child| child.kind() != "comment")
            .collect()
    }

    /// `int i = …; if (i < n) { … }` at the end of the kernel, or `int i = …; if (i >= n) return; …`.
    fn guarded(&self, statements: &[Node<'a>], at: usize) -> Option<Strided<'a>> {
        let [found] = self.guards(statements, at, 1)?.try_into().ok()?;
        Some(found)
    }

    /// The same with a number for each of so many axes: `int x = …; int y = …; if (x < w && y < h) { … }`, or
    /// `if (x >= w || y >= h) return; …`. One for each, in the order of their declarations, with the same body and test.
    pub fn guards(
        &self,
        statements: &[Node<'a>],
        at: usize,
        axes: usize,
    ) -> Option<Vec<Strided<'a>>> {
        let (declared, rest) = statements.get(at..)?.split_at_checked(axes)?;
        let (test, after) = rest.split_first()?;
        if declared.iter().any(|one| one.kind() != "declaration")
            || test.kind() != "if_statement"
            || test.child_by_field_name("alternative").is_some()
        {
            return None;
        }
        let condition = test.child_by_field_name("condition")?;
        let condition = condition
            .child_by_field_name("value")
            .filter(|_| condition.named_child_count() == 1)?;
        let consequence = test.child_by_field_name("consequence")?;
        let inside = self.joined(condition, "&&");
        let outside = self.joined(condition, "||");
        let compared = |parts: &[Node<'a>], name: &str, less: &str, more: &str| {
            let bounds = parts.iter().filter_map(|part| {
                let straight = self
                    .binary(*part, less)
                    .filter(|(a, _)| self.of(*a) == name)
                    .map(|(_, b)| b);
                straight.or_else(|| {
                    self.binary(*part, more)
                        .filter(|(_, b)| self.of(*b) == name)
                        .map(|(a, _)| a)
                })
            });
            let [bound] = bounds.collect::<Vec<_>>().try_into().ok()?;
            Some(bound)
        };
        let leaves = || {
            let leaves = match consequence.kind() {
                "compound_statement" if consequence.named_child_count() == 1 => {
                    consequence.named_child(0)?
                }
                _ => consequence,
            };
            let plain = leaves.kind() == "return_statement"
                && leaves.named_child_count() == 0
                && !after.is_empty();
            plain.then(|| after.to_vec())
        };
        let mut found = Vec::new();
        for declaration in declared {
            let [variable] = declarations(*declaration).try_into().ok()?;
            let index = variable.value()?;
            let name = self.of(variable.name);
            let (bound, body) = match compared(&inside, name, "<", ">") {
                Some(bound) if after.is_empty() && inside.len() == axes => {
                    (bound, vec![consequence])
                }
                Some(_) => return None,
                None if outside.len() == axes => (compared(&outside, name, ">=", "<=")?, leaves()?),
                None => return None,
            };
            found.push(Strided {
                start: declared.first()?.start_byte(),
                end: statements.last()?.end_byte(),
                variable: variable.name,
                words: self.type_words(*declaration)?,
                index,
                bound,
                dimension: self.linear_index(index)?,
                body,
                test: Some(*test),
            });
        }
        let apart = (0..AXES.len()).all(|axis| {
            let of_axis = found.iter().filter(|one| one.dimension == axis);
            of_axis.count() <= 1
        });
        let sound = found
            .iter()
            .all(|one| self.is_sound(one) && self.covers(one) && !self.carries(one));
        (apart && sound).then_some(found)
    }

    /// The parts of a chain of `&&` or `||`.
    fn joined(&self, node: Node<'a>, operator: &str) -> Vec<Node<'a>> {
        let node = bare(node);
        match self.binary(node, operator) {
            Some((a, b)) => {
                let mut parts = self.joined(a, operator);
                parts.extend(self.joined(b, operator));
                parts
            }
            None => vec![node],
        }
    }

    /// Whether the captured launch has a thread for each element: a loop does them all, also those that no thread was there for.
    fn covers(&self, found: &Strided<'a>) -> bool {
        let of = |sizes: Option<[u32; 3]>| sizes?.get(found.dimension).copied().map(i128::from);
        let facts = self.scene.facts;
        of(facts.block)
            .zip(of(facts.grid))
            .zip(self.known(found.bound))
            .is_some_and(|((threads, blocks), bound)| bound <= threads * blocks)
    }

    /// Whether the work for one element may leave something in a variable that the work for a thread's next element finds.
    fn carries(&self, found: &Strided<'a>) -> bool {
        let start = found.body.first().map_or(0, |part| part.start_byte());
        let end = found.body.last().map_or(start, |part| part.end_byte());
        let outside = |name: Node<'a>| name.start_byte() < start || name.end_byte() > end;
        found.body.iter().any(|part| {
            let mut carries = self.writes(*part).into_iter().any(|base| match base {
                Base::Variable(name) => outside(name),
                _ => false,
            });
            walk(*part, &mut |node| {
                if node.kind() == "identifier"
                    && let Binding::Local(variable) | Binding::Parameter(variable, ..) =
                        self.names.resolve(node)
                    && outside(variable.name)
                {
                    carries |= self.is_written(node);
                }
                !carries
            });
            carries
        })
    }

    /// `for (int i = …; i < n; i += blockDim.x * gridDim.x) { … }`.
    fn strided_loop(&self, statement: Node<'a>) -> Option<Strided<'a>> {
        let found = self.counting(statement)?;
        let dimension = self.linear_index(found.start)?;
        if found.comparison != "<" || !self.is_stride(found.step?, AXES.get(dimension)?) {
            return None;
        }
        let declaration = statement.child_by_field_name("initializer")?;
        let found = Strided {
            start: found.beginning(),
            end: statement.end_byte(),
            variable: found.variable,
            words: self.type_words(declaration)?,
            index: found.start,
            bound: found.bound,
            dimension,
            body: vec![found.body],
            test: None,
        };
        self.is_sound(&found).then_some(found)
    }

    /// The type in a declaration of one plain variable, without `const`.
    fn type_words(&self, declaration: Node<'a>) -> Option<String> {
        let ty = declaration.child_by_field_name("type")?;
        let [variable] = declarations(declaration).try_into().ok()?;
        let plain = variable
            .declarator
            .child_by_field_name("declarator")
            .is_some_and(|inner| inner == variable.name);
        let words = self.of(declaration);
        let simple = !words.contains("volatile")
            && !words.contains("static")
            && !words.contains("__shared__");
        let ty = match ty.kind() {
            "placeholder_type_specifier" => self.type_of_variable(&variable).spelled()?.to_owned(),
            _ => self.of(ty).to_owned(),
        };
        (plain
            && simple
            && matches!(
                self.type_of_variable(&variable),
                Type::Integer { bits: 32.., .. }
            ))
        .then_some(ty)
    }

    fn is_sound(&self, found: &Strided<'a>) -> bool {
        let Some(body) = self
            .kernel_node()
            .and_then(|kernel| kernel.child_by_field_name("body"))
        else {
            return false;
        };
        let declared_before = self.declared_before(found.bound, found.start);
        let quiet = found.body.iter().all(|part| {
            let mut quiet = !self.ties_threads(*part);
            walk(*part, &mut |node| {
                quiet &= match node.kind() {
                    "return_statement" => false,
                    "declaration" => {
                        !self.of(node).contains("__shared__")
                            && !self.of(node).starts_with("static")
                    }
                    kind => {
                        !kind.starts_with("preproc_")
                            || matches!(kind, "preproc_call" | "preproc_directive" | "preproc_arg")
                    }
                };
                quiet
            });
            quiet && !self.may_change(found.variable, *part)
        });
        quiet
            && self.is_pure(found.bound)
            && self.is_invariant(found.bound, body)
            && declared_before
            && self.goes_past_safely(found, 1)
            && !self.address_taken(found.variable)
    }

    /// Whether the names of an expression are declared before a place.
    fn declared_before(&self, expression: Node<'a>, place: usize) -> bool {
        let mut before = true;
        walk(expression, &mut |node| {
            if node.kind() == "identifier"
                && let Binding::Local(variable) = self.names.resolve(node)
            {
                before &= variable.name.start_byte() < place;
            }
            before
        });
        before
    }

    /// Whether the counter can pass the end by so many strides: it has 64 bits, or the capture says that all is small.
    pub fn goes_past_safely(&self, found: &Strided<'a>, times: u32) -> bool {
        if matches!(self.type_of(found.variable), Type::Integer { bits: 64, .. }) {
            return true;
        }
        let threads = match (self.scene.facts.grid, self.scene.facts.threads()) {
            (Some(grid), Some(threads)) => {
                grid.iter()
                    .map(|blocks| i128::from(*blocks))
                    .product::<i128>()
                    * i128::from(threads)
            }
            _ => return false,
        };
        threads * i128::from(times) <= LARGEST
            && self
                .known(found.bound)
                .is_some_and(|bound| bound <= LARGEST)
    }
}

impl<'a> Strided<'a> {
    /// The step from one of a thread's elements to its next.
    pub fn stride(&self) -> String {
        let axis = AXES.get(self.dimension).copied().unwrap_or("x");
        format!("blockDim.{axis} * gridDim.{axis}")
    }
}
