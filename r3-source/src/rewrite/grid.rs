//! Which thread does which element.
//!
//! A kernel of the form "my element is number `i`; if there is one, do it" is the same as a loop over elements with a stride of all
//! threads, and then right for any grid.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::edit::Edit;
use super::loops::indent;
use super::meaning::{Meaning, bare};
use super::names::{Binding, Declared, declarations};
use super::scene::Scene;
use super::types::Type;
use super::{Operator, Proposal};
use crate::directive::GridWish;
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

const AXES: [&str; 3] = ["x", "y", "z"];

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

    /// Whether something ties the threads of a block or a warp together: barriers, shuffles, votes, assembly, calls of what is not
    /// known.
    pub fn ties_threads(&self, part: Node<'a>) -> bool {
        let mut ties = false;
        walk(part, &mut |node| {
            ties |= match node.kind() {
                "call_expression" => match self.builtin_call(node) {
                    Some((name, _)) => {
                        !super::tables::is_pure(name)
                            && !name.starts_with("atomic")
                            && name != "sincosf"
                            && name != "__sincosf"
                    }
                    None => match node.child_by_field_name("function") {
                        Some(function) => match function.kind() {
                            "primitive_type" => false,
                            "template_function" => {
                                let name = function.child_by_field_name("name");
                                name.is_none_or(|name| {
                                    !super::tables::CASTS.contains(&self.of(name))
                                        && !self.is_quiet(self.of(name))
                                })
                            }
                            "identifier" => !self.is_quiet(self.of(function)),
                            _ => true,
                        },
                        None => true,
                    },
                },
                "gnu_asm_expression" | "lambda_expression" | "goto_statement"
                | "labeled_statement" => true,
                _ => false,
            };
            !ties
        });
        ties
    }

    /// Whether a function of the file, with all that it reaches, ties no threads.
    fn is_quiet(&self, name: &str) -> bool {
        let functions = self.names.functions(name);
        let mut all = Vec::new();
        for node in functions {
            let Some(function) = self.scene.unit.function(*node) else {
                return false;
            };
            all.extend(self.scene.unit.reached(&function));
            all.push(function);
        }
        let tying = [
            "__sync",
            "__shfl",
            "__ballot",
            "__any",
            "__all",
            "__match",
            "__reduce",
            "asm",
            "__activemask",
            "bar",
        ];
        !functions.is_empty()
            && all.iter().all(|function| {
                let text = self.scene.unit.slice(function.body.clone());
                crate::tokens::tokens(text)
                    .iter()
                    .all(|token| !tying.iter().any(|word| token.starts_with(word)))
            })
    }

    /// The kernel's work by elements, where it has that form.
    pub fn strided(&self) -> Vec<Strided<'a>> {
        let Some(body) = self
            .kernel_node()
            .and_then(|kernel| kernel.child_by_field_name("body"))
        else {
            return Vec::new();
        };
        if body.has_error() {
            return Vec::new();
        }
        let mut cursor = body.walk();
        let statements: Vec<Node<'a>> = body
            .named_children(&mut cursor)
            .filter(|child| child.kind() != "comment")
            .collect();
        let mut found: Vec<Strided<'a>> = (0..statements.len())
            .filter_map(|at| self.guarded(&statements, at))
            .collect();
        for statement in &statements {
            found.extend(self.strided_loop(*statement));
        }
        found
    }

    /// `int i = …; if (i < n) { … }` at the end of the kernel, or `int i = …; if (i >= n) return; …`.
    fn guarded(&self, statements: &[Node<'a>], at: usize) -> Option<Strided<'a>> {
        let (declaration, rest) = statements.get(at..)?.split_first()?;
        let (test, after) = rest.split_first()?;
        if declaration.kind() != "declaration"
            || test.kind() != "if_statement"
            || test.child_by_field_name("alternative").is_some()
        {
            return None;
        }
        let [variable] = declarations(*declaration).try_into().ok()?;
        let index = variable.value()?;
        let dimension = self.linear_index(index)?;
        let condition = test.child_by_field_name("condition")?;
        let condition = bare(
            condition
                .child_by_field_name("value")
                .filter(|_| condition.named_child_count() == 1)?,
        );
        let consequence = test.child_by_field_name("consequence")?;
        let name = self.of(variable.name);
        let compares = |less: &str, more: &str| {
            let straight = self
                .binary(condition, less)
                .filter(|(a, _)| self.of(*a) == name)
                .map(|(_, b)| b);
            straight.or_else(|| {
                self.binary(condition, more)
                    .filter(|(_, b)| self.of(*b) == name)
                    .map(|(a, _)| a)
            })
        };
        let (bound, body) = match compares("<", ">") {
            Some(bound) if after.is_empty() => (bound, vec![consequence]),
            Some(_) => return None,
            None => {
                let bound = compares(">=", "<=")?;
                let leaves = match consequence.kind() {
                    "compound_statement" if consequence.named_child_count() == 1 => {
                        consequence.named_child(0)?
                    }
                    _ => consequence,
                };
                let plain = leaves.kind() == "return_statement"
                    && leaves.named_child_count() == 0
                    && !after.is_empty();
                (bound, plain.then(|| after.to_vec())?)
            }
        };
        let found = Strided {
            start: declaration.start_byte(),
            end: statements.last()?.end_byte(),
            variable: variable.name,
            words: self.type_words(*declaration)?,
            index,
            bound,
            dimension,
            body,
            test: Some(*test),
        };
        self.is_sound(&found).then_some(found)
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

    /// Whether the work for an element depends on what does it, other than by the element's number: on one of these (`threadIdx`,
    /// `blockIdx`, …) along the axis of the elements.
    pub fn depends_on(&self, found: &Strided<'a>, words: &[&str]) -> bool {
        let axis = AXES.get(found.dimension).copied().unwrap_or("x");
        let mut seen = BTreeSet::from([found.variable.start_byte()]);
        let parts = found.body.iter().chain([&found.bound]);
        parts
            .into_iter()
            .any(|part| self.mentions(*part, words, axis, &mut seen))
    }

    /// Whether a part of the tree mentions one of these, itself, in the functions that it calls, or in what its variables get.
    fn mentions(
        &self,
        part: Node<'a>,
        words: &[&str],
        axis: &str,
        seen: &mut BTreeSet<usize>,
    ) -> bool {
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
                    words.contains(&text) && field.is_none_or(|field| self.of(field) == axis)
                }
                Binding::Local(variable) => self.gets(&variable, words, axis, seen),
                _ => self.names.functions(text).iter().any(|function| {
                    let Some(function) = self.scene.unit.function(*function) else {
                        return true;
                    };
                    let reached = self.scene.unit.reached(&function).into_iter();
                    reached.chain([function]).any(|function| {
                        let body = self.scene.unit.slice(function.body.clone());
                        let tokens = crate::tokens::tokens(body);
                        tokens.iter().any(|token| words.contains(token))
                    })
                }),
            };
            !found
        });
        found
    }

    /// Whether anything that a variable gets mentions one of these.
    fn gets(
        &self,
        variable: &Declared<'a>,
        words: &[&str],
        axis: &str,
        seen: &mut BTreeSet<usize>,
    ) -> bool {
        if !seen.insert(variable.name.start_byte()) {
            return false;
        }
        let body = self
            .kernel_node()
            .and_then(|kernel| kernel.child_by_field_name("body"));
        let uses = body.map_or_else(Vec::new, |body| self.uses(variable.name, body));
        let assigned = uses.into_iter().filter_map(|used| {
            let mut node = used;
            while let Some(parent) = node.parent() {
                if parent.kind() == "assignment_expression" {
                    let left = parent.child_by_field_name("left") == Some(node);
                    return left.then(|| parent.child_by_field_name("right")).flatten();
                }
                node = parent;
            }
            None
        });
        // What a block shares has no thread of its own.
        let shared = self.of(variable.declaration).contains("__shared__");
        let values: Vec<Node<'a>> = variable.value().into_iter().chain(assigned).collect();
        !shared
            && values
                .into_iter()
                .any(|value| self.mentions(value, words, axis, seen))
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

/// "If my element is there, do it" becomes a loop over elements with a stride of all threads; and asks for fewer blocks.
///
/// The counter is `blockIdx.x * blockDim.x + threadIdx.x` and keeps its value; its bound does too. The work is the rest of the
/// kernel, ties no threads together, returns nowhere, and asks for no number of a block. The counter does not leave its type when it passes the end, as the capture
/// says.
pub struct GridStride;

impl Operator for GridStride {
    fn name(&self) -> &'static str {
        "grid-stride"
    }

    fn about(&self) -> &'static str {
        "one element for each thread becomes a loop with a stride of all threads, with fewer blocks and the loop written out"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        meaning
            .strided()
            .iter()
            .filter(|found| found.test.is_some())
            .filter(|found| !meaning.depends_on(found, &["blockIdx", "gridDim"]))
            .flat_map(|found| ways(&meaning, found))
            .collect()
    }
}

/// Choices: part of the blocks, and how often the loop is written out.
const WAYS: &[(&str, u32, u32)] = &[
    ("same", 1, 1),
    ("1/2", 2, 1),
    ("1/4", 4, 1),
    ("1/8", 8, 1),
    ("1/2 unrolled", 2, 2),
    ("1/4 unrolled", 4, 4),
];

fn ways<'a>(meaning: &Meaning<'a>, found: &Strided<'a>) -> Vec<Proposal> {
    let Some(test) = found.test else {
        return Vec::new();
    };
    let text = meaning.scene.unit.text();
    let name = meaning.of(found.variable);
    let blanks = indent(text, found.start);
    let head = format!(
        "for ({} {name} = {}; {name} < {}; {name} += {})",
        found.words,
        meaning.of(found.index),
        meaning.term(found.bound),
        found.stride()
    );
    let block = match found.body.as_slice() {
        [only] if only.kind() == "compound_statement" => Some(*only),
        _ => None,
    };
    WAYS.iter()
        .map(|(choice, parts, unroll)| {
            let pragma = match unroll {
                1 => String::new(),
                count => format!("#pragma unroll {count}\n{blanks}"),
            };
            let edits = match block {
                Some(block) if meaning.of(test).ends_with(meaning.of(block)) => {
                    vec![Edit::replace(found.start..block.start_byte(), format!("{pragma}{head} "))]
                }
                _ => {
                    let first = found.body.first().map_or(found.end, |first| first.start_byte());
                    vec![
                        Edit::replace(found.start..first, format!("{pragma}{head} {{\n{blanks}")),
                        Edit::insert(found.end, format!("\n{blanks}}}")),
                    ]
                }
            };
            let directive = (*parts > 1).then(|| {
                let mut directive = meaning.scene.directive();
                if let Some(wish) = directive.grid.get_mut(found.dimension) {
                    *wish = GridWish::Scale(1, *parts);
                }
                directive
            });
            Proposal {
                at: found.start..test.end_byte(),
                choice: (*choice).to_owned(),
                what: match (parts, unroll) {
                    (1, _) => format!("a loop over elements {name} with a stride of all threads"),
                    (_, 1) => format!("a loop over elements {name} with a stride of all threads, 1/{parts} of the blocks"),
                    _ => format!("a loop over elements {name}, written out {unroll} times, 1/{parts} of the blocks"),
                },
                edits,
                directive,
            }
        })
        .collect()
}
