//! What expressions and statements do besides having a value.

use tree_sitter::Node;

use super::meaning::{Meaning, bare};
use super::names::Binding;
use super::tables;
use crate::syntax::walk;

/// Nodes that only compute.
const COMPUTING: &[&str] = &[
    "identifier",
    "field_identifier",
    "number_literal",
    "char_literal",
    "character",
    "true",
    "false",
    "parenthesized_expression",
    "binary_expression",
    "unary_expression",
    "conditional_expression",
    "cast_expression",
    "type_descriptor",
    "type_qualifier",
    "primitive_type",
    "type_identifier",
    "sized_type_specifier",
    "abstract_pointer_declarator",
    "field_expression",
    "subscript_expression",
    "subscript_argument_list",
    "pointer_expression",
    "call_expression",
    "argument_list",
    "template_function",
    "template_argument_list",
    "qualified_identifier",
    "namespace_identifier",
    "comment",
];

impl<'a> Meaning<'a> {
    /// Whether an expression has no effect, and evaluating it twice gives the same twice as long as nothing is written in
    /// between. Whatever could be a macro, a function with effects or something volatile is not.
    pub fn is_pure(&self, expression: Node<'a>) -> bool {
        let mut pure = !expression.has_error();
        walk(expression, &mut |node| {
            if !node.is_named() {
                return pure;
            }
            pure &= COMPUTING.contains(&node.kind()) && !self.is_volatile_part(node);
            match node.kind() {
                "identifier" => pure &= self.is_plain(node),
                "call_expression" => pure &= self.is_pure_call(node),
                "binary_expression" | "unary_expression" => {
                    // With operands of a structure, an operator is a function.
                    let mut cursor = node.walk();
                    pure &= node.named_children(&mut cursor).all(|operand| {
                        !matches!(self.type_of(operand), super::types::Type::Named(_))
                    });
                }
                _ => {}
            }
            pure
        });
        pure
    }

    /// Whether a name is one whose reading does nothing: no macro with a body of its own, nothing volatile.
    fn is_plain(&self, identifier: Node<'a>) -> bool {
        match self.names.resolve(identifier) {
            Binding::Local(variable)
            | Binding::Parameter(variable, ..)
            | Binding::File(variable) => !self.is_volatile(&variable),
            Binding::Function | Binding::Template => true,
            Binding::Macro => self.constant(identifier).is_some(),
            Binding::Unknown => {
                let name = self.of(identifier);
                tables::GEOMETRY.contains(&name)
                    || tables::is_pure(name)
                    || tables::CASTS.contains(&name)
                    || matches!(name, "warpSize" | "INFINITY" | "NAN")
                    || matches!(
                        identifier.parent().map(|parent| parent.kind()),
                        Some("qualified_identifier" | "template_function")
                    )
            }
        }
    }

    fn is_pure_call(&self, call: Node<'a>) -> bool {
        let Some(function) = call.child_by_field_name("function") else {
            return false;
        };
        match function.kind() {
            "primitive_type" => true,
            "template_function" => function
                .child_by_field_name("name")
                .is_some_and(|name| tables::CASTS.contains(&self.of(name))),
            _ => self
                .builtin_call(call)
                .is_some_and(|(name, _)| tables::is_pure(name)),
        }
    }

    /// Whether an expression reads memory that others may write: through pointers, in arrays, or a variable of the file.
    pub fn reads_memory(&self, expression: Node<'a>) -> bool {
        let mut reads = false;
        walk(expression, &mut |node| {
            reads |= match node.kind() {
                "subscript_expression" => true,
                "pointer_expression" => self.of(node).starts_with('*'),
                "field_expression" => self.of(node).contains("->"),
                "identifier" => match self.names.resolve(node) {
                    Binding::File(_) => self.constant(node).is_none(),
                    Binding::Local(variable) | Binding::Parameter(variable, ..) => {
                        self.is_reference(variable.declarator)
                            || self.of(variable.declaration).contains("__shared__")
                            || self.of(variable.declaration).starts_with("static")
                    }
                    _ => false,
                },
                _ => false,
            };
            !reads
        });
        reads
    }

    /// Whether a declarator is one of a reference.
    pub fn is_reference(&self, declarator: Node<'a>) -> bool {
        let mut node = Some(declarator);
        while let Some(inner) = node {
            if inner.kind() == "reference_declarator" {
                return true;
            }
            node = inner.child_by_field_name("declarator").or_else(|| {
                (inner.kind() == "parenthesized_declarator")
                    .then(|| inner.named_child(0))
                    .flatten()
            });
        }
        false
    }

    /// All uses of the variable that an identifier stands for, within a part of the tree.
    pub fn uses(&self, identifier: Node<'a>, within: Node<'a>) -> Vec<Node<'a>> {
        let (name, binding) = (self.of(identifier), self.names.resolve(identifier));
        let mut found = Vec::new();
        walk(within, &mut |node| {
            if node.kind() == "identifier"
                && self.of(node) == name
                && self.names.resolve(node) == binding
            {
                found.push(node);
            }
            true
        });
        found
    }

    /// Whether the variable that an identifier stands for may change its value within a part of the tree. Its declaration is
    /// no change. Whatever has its address, or a reference to it, may change it.
    pub fn may_change(&self, identifier: Node<'a>, within: Node<'a>) -> bool {
        self.names.macros().may_write(self.of(identifier)) && self.has_macros(within)
            || self
                .uses(identifier, within)
                .into_iter()
                .any(|used| self.is_written(used))
    }

    /// Whether the variable at a use is written there, or may be: assigned, counted up, its address taken, handed to a function
    /// that could take a reference.
    pub fn is_written(&self, used: Node<'a>) -> bool {
        let mut node = used;
        loop {
            let Some(parent) = node.parent() else {
                return false;
            };
            match parent.kind() {
                "parenthesized_expression" => {}
                // A member of a structure, an element of an array: a part of the variable. What a pointer points to is not.
                "field_expression" if parent.child_by_field_name("argument") == Some(node) => {
                    if self.of(parent).contains("->") {
                        return false;
                    }
                    // A member function of it.
                    let called = parent.parent().is_some_and(|call| {
                        call.kind() == "call_expression"
                            && call.child_by_field_name("function") == Some(parent)
                    });
                    if called {
                        return true;
                    }
                }
                "subscript_expression" => {
                    let array = parent.child_by_field_name("argument") == Some(node)
                        && matches!(self.type_of(node), super::types::Type::Array(_));
                    if !array {
                        return false;
                    }
                }
                "assignment_expression" => return parent.child_by_field_name("left") == Some(node),
                "update_expression" => return true,
                "pointer_expression" => return self.of(parent).starts_with('&'),
                "argument_list" => return self.argument_may_be_written(parent, node),
                "init_declarator" => {
                    // A reference to it, or what an array decays to.
                    let holds = parent.child_by_field_name("value") == Some(node);
                    let reference = parent
                        .child_by_field_name("declarator")
                        .is_some_and(|declarator| self.is_reference(declarator));
                    let array = matches!(self.type_of(node), super::types::Type::Array(_));
                    return holds && (reference || array);
                }
                "gnu_asm_output_operand"
                | "gnu_asm_input_operand"
                | "lambda_capture_specifier"
                | "for_range_loop" => {
                    return true;
                }
                "binary_expression" => {
                    // `stream << x`; and arrays that decay.
                    return matches!(self.type_of(node), super::types::Type::Array(_));
                }
                _ => return false,
            }
            node = parent;
        }
    }

    fn argument_may_be_written(&self, list: Node<'a>, argument: Node<'a>) -> bool {
        let Some(call) = list
            .parent()
            .filter(|call| call.kind() == "call_expression")
        else {
            return list
                .parent()
                .is_none_or(|parent| parent.kind() != "init_declarator");
        };
        if self.is_pure_call(call) {
            return false;
        }
        let Some(function) = call.child_by_field_name("function") else {
            return true;
        };
        let plain = match function.kind() {
            "template_function" => function.child_by_field_name("name"),
            _ => Some(function),
        };
        let Some(plain) = plain.filter(|plain| plain.kind() == "identifier") else {
            return true;
        };
        let mut cursor = list.walk();
        let Some(index) = list
            .named_children(&mut cursor)
            .position(|child| child == argument)
        else {
            return true;
        };
        match self.names.resolve(plain) {
            // Values are handed over; a reference that is not constant may be written, and so may an array's elements.
            Binding::Function => self.names.functions(self.of(plain)).iter().any(|function| {
                self.scene
                    .unit
                    .function(*function)
                    .and_then(|function| function.parameters.get(index).cloned())
                    .is_none_or(|parameter| {
                        let words = parameter.ty;
                        (words.contains('&') || words.contains('*') || words.contains('['))
                            && !words.contains("const")
                            && (words.contains('&')
                                || matches!(self.type_of(argument), super::types::Type::Array(_)))
                    })
            }),
            // Functions of the language take values, but for arrays.
            Binding::Unknown => {
                matches!(
                    self.type_of(argument),
                    super::types::Type::Array(_) | super::types::Type::Unknown
                ) || !self.of(plain).starts_with("__") && !self.of(plain).starts_with("atomic")
            }
            _ => true,
        }
    }

    /// Whether a part of the tree has anything that ties threads together or leaves its place: barriers, shuffles, atomics,
    /// assembly, calls of unknown functions, macros, what is volatile; `return`, `goto`, and what belongs to the preprocessor.
    pub fn is_local(&self, part: Node<'a>) -> bool {
        let mut local = !part.has_error();
        walk(part, &mut |node| {
            local &= !self.is_opaque(node);
            local &= match node.kind() {
                "call_expression" => self.is_pure_call(node),
                // A pragma; its words say nothing more.
                "preproc_call" => {
                    local &= is_unroll(self.of(node));
                    return false;
                }
                kind => !kind.starts_with("preproc_") && !LEAVING.contains(&kind),
            };
            local
        });
        local
    }

    /// Whether a loop's body ends an iteration early, but for loops inside it.
    pub fn leaves_iteration(&self, body: Node<'a>) -> bool {
        let mut leaves = false;
        walk(body, &mut |node| {
            leaves |= matches!(node.kind(), "break_statement" | "continue_statement");
            !leaves
        });
        leaves
    }

    /// Everything that is written in a part of the tree, as it is written: the left sides of assignments, what is counted.
    pub fn written(&self, part: Node<'a>) -> Vec<Node<'a>> {
        let mut found = Vec::new();
        walk(part, &mut |node| {
            let target = match node.kind() {
                "assignment_expression" => node.child_by_field_name("left"),
                "update_expression" => node.child_by_field_name("argument"),
                _ => None,
            };
            found.extend(target.map(bare));
            true
        });
        found
    }
}

const LEAVING: &[&str] = &[
    "return_statement",
    "goto_statement",
    "labeled_statement",
    "gnu_asm_expression",
    "lambda_expression",
    "new_expression",
    "delete_expression",
    "throw_statement",
    "try_statement",
    "co_await_expression",
    "co_return_statement",
    "co_yield_statement",
    "switch_statement",
];

fn is_unroll(line: &str) -> bool {
    line.trim_start()
        .strip_prefix("#pragma")
        .is_some_and(|rest| rest.trim_start().starts_with("unroll"))
        || !line.contains('#')
}
