//! Where more may happen than the text says: macros, what is volatile, objects that make themselves.

use tree_sitter::Node;

use super::meaning::Meaning;
use super::names::{Binding, Declared};
use crate::syntax::walk;

impl<'a> Meaning<'a> {
    /// Whether more may happen at a node than its text says: a macro that is no number, something volatile, an object whose
    /// making is a function of the file.
    pub fn is_opaque(&self, node: Node<'a>) -> bool {
        match node.kind() {
            "identifier" | "type_identifier" if self.names.is_macro(self.of(node)) => {
                !self.names.macros().is_number(self.of(node))
            }
            // Of a header, perhaps.
            "identifier" if self.names.is_builtin(node) => node
                .parent()
                .is_some_and(|parent| parent.kind() == "expression_statement"),
            "declaration" => {
                let name = node.child_by_field_name("type").map(|ty| self.of(ty));
                name.and_then(|name| self.names.structure(name))
                    .is_some_and(|structure| self.makes_itself(structure))
            }
            _ => self.is_volatile_part(node),
        }
    }

    /// Whether a structure has constructors or a destructor of its own.
    fn makes_itself(&self, structure: Node<'a>) -> bool {
        let name = structure.child_by_field_name("name");
        let name = name.map_or("", |name| self.of(name));
        let body = structure.child_by_field_name("body");
        let mut cursor = structure.walk();
        body.is_some_and(|body| {
            body.named_children(&mut cursor).any(|member| {
                let declarator = member.child_by_field_name("declarator");
                let made = declarator
                    .filter(|declarator| declarator.kind() == "function_declarator")
                    .and_then(|declarator| declarator.child_by_field_name("declarator"))
                    .is_some_and(|own| self.of(own).trim_start_matches('~') == name);
                // `S() = default;` does nothing.
                made && !self.of(member).trim_end().ends_with("default;")
                    && member
                        .child_by_field_name("body")
                        .is_none_or(|body| body.named_child_count() > 0)
            })
        })
    }

    /// Whether a part of the tree uses macros that are no numbers.
    pub fn has_macros(&self, part: Node<'a>) -> bool {
        let mut found = false;
        walk(part, &mut |node| {
            let named = matches!(node.kind(), "identifier" | "type_identifier");
            found |= named
                && self.names.is_macro(self.of(node))
                && !self.names.macros().is_number(self.of(node));
            !found
        });
        found
    }

    /// Whether what a name stands for is declared as volatile.
    pub(super) fn names_volatile(&self, identifier: Node<'a>) -> bool {
        match self.names.resolve(identifier) {
            Binding::Local(variable)
            | Binding::Parameter(variable, ..)
            | Binding::File(variable) => self.is_volatile(&variable),
            _ => false,
        }
    }

    /// Whether a variable is declared as volatile, by a second name of such a type too, or as what something volatile gives.
    pub fn is_volatile(&self, variable: &Declared<'a>) -> bool {
        if !self.names.has_volatile() {
            return false;
        }
        let ty = variable.declaration.child_by_field_name("type");
        let words = self.of(variable.declaration);
        let deduced = ty.is_some_and(|ty| ty.kind() == "placeholder_type_specifier");
        words.contains("volatile")
            || ty.is_some_and(|ty| self.names.is_volatile(self.of(ty)))
            || deduced
                && variable.value().is_some_and(|value| {
                    let mut found = false;
                    walk(value, &mut |node| {
                        found |= self.is_volatile_part(node)
                            // A variable does not begin as itself.
                            || node.kind() == "identifier"
                                && self.of(node) != self.of(variable.name)
                                && self.names_volatile(node);
                        !found
                    });
                    found
                })
    }

    /// Whether a node of the tree says that memory is volatile: a cast to it, a field that is.
    pub fn is_volatile_part(&self, node: Node<'a>) -> bool {
        if !self.names.has_volatile() {
            return false;
        }
        match node.kind() {
            "type_qualifier" => self.of(node) == "volatile",
            "field_identifier" | "type_identifier" => self.names.is_volatile(self.of(node)),
            "identifier" => self.names_volatile(node),
            _ => false,
        }
    }

    pub(super) fn has_volatile_part(&self, part: Node<'a>) -> bool {
        let mut found = false;
        if !self.names.has_volatile() {
            return found;
        }
        walk(part, &mut |node| {
            found |= self.is_volatile_part(node);
            !found
        });
        found
    }
}
