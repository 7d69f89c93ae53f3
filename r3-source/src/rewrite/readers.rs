//! Whether a pointer is only read through.

use tree_sitter::Node;

use super::meaning::Meaning;
use super::memory::FURTHEST;
use super::names::Binding;
use super::types::Type;

impl<'a> Meaning<'a> {
    /// Whether the kernel only reads through its pointer of a number: every use leads to a load, or to something that is
    /// constant by its type.
    pub fn only_reads(&self, parameter: usize) -> bool {
        let Some((identifier, body)) = self.parameter_uses(parameter) else {
            return false;
        };
        if self.names.macros().mention(self.of(identifier)) && self.has_macros(body) {
            return false;
        }
        self.uses(identifier, body)
            .into_iter()
            .all(|used| self.reads_only(used, FURTHEST))
    }

    fn parameter_uses(&self, parameter: usize) -> Option<(Node<'a>, Node<'a>)> {
        let kernel = self.kernel_node()?;
        let list = super::names::parameter_list(kernel)?;
        let mut cursor = list.walk();
        let declaration = list
            .named_children(&mut cursor)
            .filter(|child| child.kind().ends_with("parameter_declaration"))
            .nth(parameter)?;
        let name = crate::syntax::declared(declaration.child_by_field_name("declarator")?)?;
        Some((name, kernel.child_by_field_name("body")?))
    }

    /// Whether nothing is written through a pointer at a place where it is used.
    pub(super) fn reads_only(&self, pointer: Node<'a>, left: u32) -> bool {
        let (Some(left), Some(parent)) = (left.checked_sub(1), pointer.parent()) else {
            return false;
        };
        let is = |field| parent.child_by_field_name(field) == Some(pointer);
        match parent.kind() {
            "parenthesized_expression" => self.reads_only(parent, left),
            "subscript_expression" if is("argument") => self.element_read(parent, left),
            "field_expression" => self.element_read(parent, left),
            "pointer_expression" if self.of(parent).starts_with('*') => {
                self.element_read(parent, left)
            }
            "binary_expression" => match self.operator(parent) {
                "+" | "-" => self.reads_only(parent, left),
                "==" | "!=" | "<" | ">" | "<=" | ">=" | "&&" | "||" => true,
                _ => false,
            },
            "unary_expression" | "condition_clause" => true,
            "conditional_expression" => is("condition") || self.reads_only(parent, left),
            "update_expression" => matches!(
                parent.parent().map(|parent| parent.kind()),
                Some("expression_statement" | "for_statement" | "comma_expression")
            ),
            "assignment_expression" if is("left") => {
                matches!(self.operator(parent), "+=" | "-=")
                    && parent
                        .parent()
                        .is_some_and(|parent| parent.kind() != "argument_list")
            }
            "cast_expression" => self.of(parent).contains("const") && self.reads_only(parent, left),
            "init_declarator" => {
                let Some(name) = parent
                    .child_by_field_name("declarator")
                    .and_then(crate::syntax::declared)
                else {
                    return false;
                };
                let constant = parent.parent().is_some_and(|declaration| {
                    self.of(declaration).trim_start().starts_with("const ")
                });
                let within = self
                    .function(parent)
                    .and_then(|function| function.child_by_field_name("body"));
                constant
                    || within.is_some_and(|body| {
                        self.uses(name, body)
                            .into_iter()
                            .filter(|used| *used != name)
                            .all(|used| self.reads_only(used, left))
                    })
            }
            "argument_list" => {
                let Some(call) = parent
                    .parent()
                    .filter(|call| call.kind() == "call_expression")
                else {
                    return false;
                };
                let Some(function) = call.child_by_field_name("function") else {
                    return false;
                };
                if function.kind() == "template_function" && self.is_cast(function) {
                    return self.of(function).contains("const ") && self.reads_only(call, left);
                }
                if self
                    .builtin_call(call)
                    .is_some_and(|(name, _)| super::tables::is_pure(name))
                {
                    return true;
                }
                let plain = match function.kind() {
                    "template_function" => function.child_by_field_name("name"),
                    _ => Some(function),
                };
                let mut cursor = parent.walk();
                let index = parent
                    .named_children(&mut cursor)
                    .position(|child| child == pointer);
                let (Some(plain), Some(index)) =
                    (plain.filter(|plain| plain.kind() == "identifier"), index)
                else {
                    return false;
                };
                self.names.resolve(plain) == Binding::Function
                    && self.names.functions(self.of(plain)).iter().all(|function| {
                        self.scene
                            .unit
                            .function(*function)
                            .and_then(|function| function.parameters.get(index).cloned())
                            .is_some_and(|parameter| {
                                parameter.ty.starts_with("const ")
                                    || parameter.ty.contains(" const *")
                            })
                    })
            }
            _ => false,
        }
    }

    /// Whether an element is only read where it stands; its address may go where it is only read.
    fn element_read(&self, element: Node<'a>, left: u32) -> bool {
        let mut node = element;
        while let Some(parent) = node.parent() {
            match parent.kind() {
                "parenthesized_expression" => {}
                "field_expression"
                    if matches!(self.type_of(node), Type::Pointer(_) | Type::Unknown) =>
                {
                    return true;
                }
                "field_expression" => {}
                // An array in a structure: its elements.
                "subscript_expression" if parent.child_by_field_name("argument") == Some(node) => {}
                "pointer_expression" if self.of(parent).starts_with('&') => {
                    return self.reads_only(parent, left);
                }
                _ => return !self.is_written(node),
            }
            node = parent;
        }
        false
    }
}
