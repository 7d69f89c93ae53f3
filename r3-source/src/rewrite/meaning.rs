//! A scene with the meaning of its names: what operators ask.

use std::collections::HashMap;
use std::ops::Range;

use tree_sitter::Node;

use super::names::Names;
use super::scene::Scene;

/// A scene with the meaning of its names.
pub struct Meaning<'a> {
    /// The scene.
    pub scene: Scene<'a>,
    /// Its names.
    pub names: Names<'a>,
    /// The definitions of the kernel and of the functions that it reaches, with whether they are for the device.
    reached: HashMap<Range<usize>, bool>,
}

impl<'a> Meaning<'a> {
    /// Calls in what may be changed that compute something on the device.
    pub fn calls(&self) -> impl Iterator<Item = Node<'a>> {
        let calls = self.scene.nodes("call_expression").into_iter();
        calls.filter(|call| self.computes(*call))
    }

    /// Reads a scene.
    pub fn new(scene: &Scene<'a>) -> Self {
        Self {
            scene: *scene,
            names: Names::new(scene),
            reached: scene
                .unit
                .reached(scene.kernel)
                .into_iter()
                .chain([scene.kernel.clone()])
                .map(|function| {
                    let on_device = function.kernel || function.device;
                    (function.definition, on_device)
                })
                .collect(),
        }
    }

    /// The text of a node.
    pub fn of(&self, node: Node<'a>) -> &'a str {
        self.scene.of(node)
    }

    /// The function definition around a node.
    pub fn function(&self, node: Node<'a>) -> Option<Node<'a>> {
        let mut parent = node.parent();
        while let Some(node) = parent {
            if node.kind() == "function_definition" {
                return Some(node);
            }
            if node.kind() == "lambda_expression" {
                return None;
            }
            parent = node.parent();
        }
        None
    }

    /// Whether a node is in the kernel itself.
    pub fn in_kernel(&self, node: Node<'a>) -> bool {
        self.function(node)
            .is_some_and(|function| function.byte_range() == self.scene.kernel.definition)
    }

    /// Whether a node is in the kernel, or in a function of the device that the kernel reaches.
    pub fn on_device(&self, node: Node<'a>) -> bool {
        let function = self.function(node);
        function.is_some_and(|node| self.reached.get(&node.byte_range()) == Some(&true))
    }

    /// Whether a definition is the kernel's, or of a function that the kernel reaches.
    pub fn is_reached(&self, definition: Node<'a>) -> bool {
        self.reached.contains_key(&definition.byte_range())
    }

    /// Whether a node is where device code computes: not in a constant of the language, which must be one for the compiler.
    pub fn computes(&self, node: Node<'a>) -> bool {
        let mut parent = Some(node);
        while let Some(inner) = parent {
            let constant = match inner.kind() {
                "template_argument_list"
                | "static_assert_declaration"
                | "array_declarator"
                | "launch_bounds" => true,
                "declaration" => self.of(inner).contains("constexpr"),
                "function_definition" => break,
                kind => {
                    kind.starts_with("preproc_") && kind != "preproc_if" && kind != "preproc_ifdef"
                }
            };
            if constant {
                return false;
            }
            parent = inner.parent();
        }
        self.on_device(node)
    }

    /// Text of an expression that can stand as a term of a sum.
    pub fn term(&self, node: Node<'a>) -> String {
        match node.kind() {
            "conditional_expression" | "assignment_expression" | "comma_expression" => {
                format!("({})", self.of(node))
            }
            "binary_expression" if !matches!(self.operator(node), "*" | "/" | "%" | "+") => {
                format!("({})", self.of(node))
            }
            _ => self.of(node).to_owned(),
        }
    }

    /// Text of an expression for a line of prose.
    pub fn short(&self, node: Node<'a>) -> String {
        let words = self
            .of(node)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        match words.char_indices().nth(60) {
            Some((at, _)) => format!("{}…", words.get(..at).unwrap_or_default()),
            None => words,
        }
    }

    /// The operator of a binary, unary or assignment expression.
    pub fn operator(&self, node: Node<'a>) -> &'a str {
        node.child_by_field_name("operator")
            .map_or("", |operator| self.of(operator))
    }

    /// The sides of a binary expression with an operator.
    pub fn binary(&self, node: Node<'a>, operator: &str) -> Option<(Node<'a>, Node<'a>)> {
        if node.kind() != "binary_expression" || self.operator(node) != operator {
            return None;
        }
        Some((
            node.child_by_field_name("left")?,
            node.child_by_field_name("right")?,
        ))
    }

    /// Name and arguments of a call of a function of the language: nothing in the file has its name.
    pub fn builtin_call(&self, node: Node<'a>) -> Option<(&'a str, Vec<Node<'a>>)> {
        if node.kind() != "call_expression" {
            return None;
        }
        let function = node.child_by_field_name("function")?;
        let name = match function.kind() {
            "identifier" if self.names.is_builtin(function) => self.of(function),
            "qualified_identifier" => self.of(function).strip_prefix("std::")?,
            _ => return None,
        };
        let arguments = node.child_by_field_name("arguments")?;
        let mut cursor = arguments.walk();
        let arguments = arguments
            .named_children(&mut cursor)
            .filter(|argument| argument.kind() != "comment")
            .collect();
        Some((name, arguments))
    }

    /// Text of an expression that can stand before `.`, `[`, or as any operand.
    pub fn atom(&self, node: Node<'a>) -> String {
        match ATOMS.contains(&node.kind()) {
            true => self.of(node).to_owned(),
            false => format!("({})", self.of(node)),
        }
    }
}

const ATOMS: &[&str] = &[
    "identifier",
    "number_literal",
    "parenthesized_expression",
    "call_expression",
    "subscript_expression",
    "field_expression",
];

/// What parentheses stand around.
pub fn bare(node: Node<'_>) -> Node<'_> {
    let mut node = node;
    while node.kind() == "parenthesized_expression"
        && node.named_child_count() == 1
        && let Some(inner) = node.named_child(0)
    {
        node = inner;
    }
    node
}
