//! The tree of a file.
//!
//! In flows a file's text; out flow its functions with their parameters, and the tree itself for those who look closer.
//! Preprocessor lines are nodes like others and nothing is expanded: a macro's use looks like a name or a call.
//!
//! A tree is never deeper than [`DEEPEST`], so that those who follow it down need no stack of their own.

mod outline;

use std::ops::Range;
use std::sync::OnceLock;

use outline::Outline;
use tree_sitter::Node;

/// The deepest tree that is taken. Compilers have such a limit too.
pub const DEEPEST: usize = 400;

/// The longest text that is taken, in bytes.
pub const LONGEST: usize = 8 << 20;

/// A file's text and its tree.
#[derive(Clone, Debug)]
pub struct Unit {
    text: String,
    tree: tree_sitter::Tree,
    /// Its functions, and which calls which: made when it is first asked for.
    outline: OnceLock<Outline>,
}

/// Why a text has no tree, or a tree no such kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The parser gave up: the text is too long or too deep.
    #[error("the text cannot be parsed as CUDA C++")]
    Unparsable,
    /// No kernel with a body has the name.
    #[error("the text has no kernel {name} with a body; {}", kernels(.found))]
    NoKernel {
        /// The name that was looked for.
        name: String,
        /// The kernels that are there.
        found: Vec<String>,
    },
    /// More than one kernel has the name.
    #[error("the text has {count} kernels named {name}; rename all but one")]
    SeveralKernels {
        /// The name that was looked for.
        name: String,
        /// How many there are.
        count: usize,
    },
}

fn kernels(found: &[String]) -> String {
    match found {
        [] => "it has none at all".to_owned(),
        names => format!("it has {}", names.join(", ")),
    }
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its declaration without the name: `const float *__restrict__`.
    pub ty: String,
    /// The declaration, in bytes.
    pub span: Range<usize>,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without what qualifies it.
    pub name: String,
    /// Whether it is `__global__`.
    pub kernel: bool,
    /// Whether it is `__device__`.
    pub device: bool,
    /// Whether it is `__host__`, or has no such word at all.
    pub host: bool,
    /// The whole definition, template header and `extern "C"` included, in bytes.
    pub span: Range<usize>,
    /// The definition itself: from its first word to the closing brace.
    pub definition: Range<usize>,
    /// Its body with the braces.
    pub body: Range<usize>,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
}

impl Unit {
    /// Parses a file.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > LONGEST {
            return Err(SyntaxError::Unparsable);
        }
        let mut parser = tree_sitter::Parser::new();
        parser
            .set_language(&tree_sitter_cuda::LANGUAGE.into())
            .map_err(|_| SyntaxError::Unparsable)?;
        let tree = parser.parse(text, None).ok_or(SyntaxError::Unparsable)?;
        if depth(&tree) > DEEPEST {
            return Err(SyntaxError::Unparsable);
        }
        Ok(Self {
            text: text.to_owned(),
            tree,
            outline: OnceLock::new(),
        })
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &tree_sitter::Tree {
        &self.tree
    }

    /// The text of a part; empty when it is not one.
    #[must_use]
    pub fn slice(&self, span: Range<usize>) -> &str {
        self.text.get(span).unwrap_or_default()
    }

    /// The text of a node.
    #[must_use]
    pub fn of(&self, node: Node<'_>) -> &str {
        self.slice(node.byte_range())
    }

    /// How many places the parser could make nothing of.
    #[must_use]
    pub fn errors(&self) -> usize {
        let mut count = 0;
        walk(self.tree.root_node(), &mut |node| {
            count += usize::from(node.is_error() || node.is_missing());
            node.has_error()
        });
        count
    }

    /// All functions with a body, in the order of the text.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        self.outline().functions().to_vec()
    }

    fn outline(&self) -> &Outline {
        self.outline.get_or_init(|| Outline::of(self))
    }

    /// The kernel of a name: plain (`step`), qualified (`physics::step`), or as compilers mangle it (`_Z4stepPKfi`).
    pub fn kernel(&self, name: &str) -> Result<Function, SyntaxError> {
        let plain = base_name(name);
        let kernels: Vec<Function> = self
            .functions()
            .into_iter()
            .filter(|function| function.kernel)
            .collect();
        let mut named = kernels.iter().filter(|kernel| kernel.name == plain);
        match (named.next(), named.count()) {
            (Some(kernel), 0) => Ok(kernel.clone()),
            (Some(_), more) => Err(SyntaxError::SeveralKernels {
                name: plain.to_owned(),
                count: more + 1,
            }),
            (None, _) => Err(SyntaxError::NoKernel {
                name: plain.to_owned(),
                found: kernels.into_iter().map(|kernel| kernel.name).collect(),
            }),
        }
    }

    /// The functions of the file that a function calls, directly or through others, by name: in the order of the text,
    /// without itself. Overloads are all taken.
    #[must_use]
    pub fn reached(&self, from: &Function) -> Vec<Function> {
        self.outline().reached(self, from)
    }

    /// Whether a function calls itself, directly or through others of the file.
    pub(crate) fn reaches_itself(&self, function: &Function) -> bool {
        self.outline().reaches_itself(self, function)
    }

    /// All `function_definition` nodes that define a function.
    pub(crate) fn definitions(&self) -> Vec<Node<'_>> {
        let mut found = Vec::new();
        walk(self.tree.root_node(), &mut |node| {
            if node.kind() == "function_definition" {
                found.push(node);
            }
            true
        });
        found
    }

    pub(crate) fn function(&self, node: Node<'_>) -> Option<Function> {
        let body = node
            .child_by_field_name("body")
            .filter(|body| body.kind() == "compound_statement")?;
        let declarator = function_declarator(node.child_by_field_name("declarator")?)?;
        let name = last_name(declarator.child_by_field_name("declarator")?)?;
        let mut cursor = node.walk();
        let words: Vec<&str> = node
            .children(&mut cursor)
            .take_while(|child| child.start_byte() < declarator.start_byte())
            .map(|child| self.of(child))
            .collect();
        let says = |word: &str| words.contains(&word);
        let (kernel, device) = (says("__global__"), says("__device__"));
        let mut outer = node;
        while let Some(parent) = outer.parent() {
            match parent.kind() {
                "template_declaration" => outer = parent,
                "linkage_specification" if parent.child_by_field_name("body") == Some(outer) => {
                    outer = parent;
                }
                _ => break,
            }
        }
        let list = declarator.child_by_field_name("parameters")?;
        let mut cursor = list.walk();
        let parameters = list
            .named_children(&mut cursor)
            .filter(|child| child.kind().ends_with("parameter_declaration"))
            .map(|child| self.parameter(child))
            .collect();
        Some(Function {
            name: self.of(name).to_owned(),
            kernel,
            device,
            host: says("__host__") || !(kernel || device),
            span: outer.byte_range(),
            definition: node.byte_range(),
            body: body.byte_range(),
            parameters,
        })
    }

    fn parameter(&self, node: Node<'_>) -> Parameter {
        let span = node.byte_range();
        let end = node
            .child_by_field_name("default_value")
            .map_or(span.end, |value| value.start_byte());
        let name = node.child_by_field_name("declarator").and_then(declared);
        let (name, ty) = match name {
            Some(name) => (
                self.of(name).to_owned(),
                format!(
                    "{}{}",
                    self.slice(span.start..name.start_byte()),
                    self.slice(name.end_byte()..end)
                ),
            ),
            None => (String::new(), self.slice(span.start..end).to_owned()),
        };
        let ty = ty.trim().trim_end_matches('=').trim_end();
        Parameter {
            name,
            ty: ty.split_whitespace().collect::<Vec<_>>().join(" "),
            span,
        }
    }
}

/// The identifier that a declarator declares.
pub(crate) fn declared(declarator: Node<'_>) -> Option<Node<'_>> {
    let mut node = declarator;
    loop {
        node = match node.kind() {
            "identifier" | "field_identifier" | "type_identifier" => return Some(node),
            _ => node
                .child_by_field_name("declarator")
                .or_else(|| inner(node))?,
        };
    }
}

/// What stands in a declarator that has no field for it.
fn inner(node: Node<'_>) -> Option<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).find(|child| {
        child.kind() == "identifier"
            || child.kind() == "field_identifier"
            || child.kind().ends_with("_declarator")
    })
}

fn function_declarator(declarator: Node<'_>) -> Option<Node<'_>> {
    let mut node = declarator;
    loop {
        node = match node.kind() {
            "function_declarator" => return Some(node),
            _ => node
                .child_by_field_name("declarator")
                .or_else(|| inner(node))?,
        };
    }
}

/// The last name of `a::b::c` or of `c<int>`.
fn last_name(node: Node<'_>) -> Option<Node<'_>> {
    let mut node = node;
    loop {
        node = match node.kind() {
            "identifier" | "field_identifier" => return Some(node),
            _ => node.child_by_field_name("name")?,
        };
    }
}

/// Goes through a tree from the top, in the order of the text; `visit` says whether what is below is looked at.
pub(crate) fn walk<'t>(root: Node<'t>, visit: &mut dyn FnMut(Node<'t>) -> bool) {
    let mut cursor = root.walk();
    loop {
        if visit(cursor.node()) && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

fn depth(tree: &tree_sitter::Tree) -> usize {
    let mut cursor = tree.walk();
    let (mut depth, mut deepest) = (0, 0);
    loop {
        if cursor.goto_first_child() {
            depth += 1;
            deepest = deepest.max(depth);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return deepest;
            }
            depth -= 1;
        }
    }
}

/// The plain name in a qualified or mangled one; what is neither comes back as it is.
#[must_use]
pub fn base_name(name: &str) -> &str {
    if let Some(mangled) = name.strip_prefix("_Z") {
        return mangled_name(mangled).unwrap_or(name);
    }
    let plain = name.split(['<', '(']).next().unwrap_or(name);
    plain.rsplit("::").next().unwrap_or(plain).trim()
}

/// The last source name before template arguments and parameters: `N7physics4stepIfEEv…` → `step`.
fn mangled_name(mangled: &str) -> Option<&str> {
    let mut rest = mangled;
    let nested = rest.starts_with('N');
    if nested {
        rest = rest.get(1..)?.trim_start_matches(['K', 'V', 'r']);
    } else {
        // A name with internal linkage.
        rest = rest.strip_prefix('L').unwrap_or(rest);
    }
    let mut last = None;
    loop {
        rest = rest.strip_prefix('L').filter(|_| nested).unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return last;
        }
        let length: usize = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        last = Some(rest.get(..length)?);
        rest = rest.get(length..)?;
        if !nested {
            return last;
        }
    }
}

#[cfg(test)]
mod tests;
