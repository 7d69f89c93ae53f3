//! Types of expressions, so far as a file tells.

use tree_sitter::Node;

use super::meaning::Meaning;
use super::names::{Binding, Declared, declarations};
use super::tables;
use super::types::{
    INT, Type, UNSIGNED, common, literal, named, promoted, promoted_number, vector, wrap,
};
use crate::syntax::walk;

/// How far types are followed from one declaration to another.
const FURTHEST: u32 = 24;

impl<'a> Meaning<'a> {
    /// The type of an expression; of a reference, that of what it refers to.
    pub fn type_of(&self, expression: Node<'a>) -> Type {
        self.typed(expression, FURTHEST)
    }

    fn typed(&self, node: Node<'a>, left: u32) -> Type {
        let Some(left) = left.checked_sub(1) else {
            return Type::Unknown;
        };
        let field = |name| node.child_by_field_name(name);
        let typed =
            |child: Option<Node<'a>>| child.map_or(Type::Unknown, |child| self.typed(child, left));
        match node.kind() {
            "number_literal" => literal(self.of(node)),
            "true" | "false" => Type::Bool,
            "char_literal" => Type::Integer {
                bits: 8,
                signed: true,
            },
            "identifier" => match self.names.resolve(node) {
                Binding::Local(variable)
                | Binding::Parameter(variable, ..)
                | Binding::File(variable) => self.declared(&variable, left),
                _ => Type::Unknown,
            },
            "parenthesized_expression" => typed(node.named_child(0)),
            "field_expression" => self.field(node, left),
            "subscript_expression" => match node
                .child_by_field_name("indices")
                .is_some_and(|indices| indices.named_child_count() == 1)
            {
                true => typed(field("argument")).element(),
                false => Type::Unknown,
            },
            "pointer_expression" => {
                let inner = typed(field("argument"));
                match self.of(node).starts_with('*') {
                    true => inner.element(),
                    false if inner == Type::Unknown => inner,
                    false => Type::Pointer(Box::new(inner)),
                }
            }
            "cast_expression" | "compound_literal_expression" => {
                field("type").map_or(Type::Unknown, |ty| self.descriptor(ty, left))
            }
            "call_expression" => self.call(node, left),
            "unary_expression" => match field("operator").map(|operator| self.of(operator)) {
                Some("!") => Type::Bool,
                Some("-" | "+" | "~") => promoted_number(typed(field("argument"))),
                _ => Type::Unknown,
            },
            "update_expression" => typed(field("argument")),
            "assignment_expression" => typed(field("left")),
            "comma_expression" => typed(field("right")),
            "conditional_expression" => {
                let (a, b) = (typed(field("consequence")), typed(field("alternative")));
                match a == b {
                    true => a,
                    false => common(&a, &b),
                }
            }
            "binary_expression" => {
                let (a, b) = (typed(field("left")), typed(field("right")));
                match field("operator").map(|operator| self.of(operator)) {
                    Some("<" | ">" | "<=" | ">=" | "==" | "!=" | "&&" | "||") => Type::Bool,
                    Some("<<" | ">>") if a.is_integer() => promoted(&a),
                    Some("+" | "-") => match (&a, &b) {
                        (Type::Pointer(_), offset) if offset.is_integer() => a,
                        (Type::Array(inner), offset) if offset.is_integer() => {
                            Type::Pointer(inner.clone())
                        }
                        (offset, Type::Pointer(_)) if offset.is_integer() => b,
                        _ => common(&a, &b),
                    },
                    Some(_) => common(&a, &b),
                    None => Type::Unknown,
                }
            }
            "sizeof_expression" => Type::Integer {
                bits: 64,
                signed: false,
            },
            _ => Type::Unknown,
        }
    }

    fn field(&self, node: Node<'a>, left: u32) -> Type {
        let (Some(argument), Some(name)) = (
            node.child_by_field_name("argument"),
            node.child_by_field_name("field"),
        ) else {
            return Type::Unknown;
        };
        if argument.kind() == "identifier"
            && self.names.is_builtin(argument)
            && tables::GEOMETRY.contains(&self.of(argument))
        {
            return UNSIGNED;
        }
        let structure = match self.typed(argument, left) {
            Type::Named(name) => name,
            Type::Pointer(inner) => match *inner {
                Type::Named(name) => name,
                _ => return Type::Unknown,
            },
            _ => return Type::Unknown,
        };
        self.member(&structure, self.of(name), left)
    }

    fn member(&self, structure: &str, name: &str, left: u32) -> Type {
        let Some(node) = self.names.structure(structure) else {
            return match vector(structure) {
                Some((element, _)) if matches!(name, "x" | "y" | "z" | "w") => element,
                _ => Type::Unknown,
            };
        };
        self.fields(node)
            .into_iter()
            .find(|variable| self.of(variable.name) == name)
            .map_or(Type::Unknown, |variable| self.declared(&variable, left))
    }

    /// The fields of a structure, in order.
    pub fn fields(&self, structure: Node<'a>) -> Vec<Declared<'a>> {
        let Some(body) = structure.child_by_field_name("body") else {
            return Vec::new();
        };
        let mut cursor = body.walk();
        body.named_children(&mut cursor)
            .filter(|child| child.kind() == "field_declaration")
            .flat_map(declarations)
            .collect()
    }

    /// The type of a variable; of a reference, that of what it refers to.
    pub fn type_of_variable(&self, variable: &Declared<'a>) -> Type {
        self.declared(variable, FURTHEST)
    }

    fn declared(&self, variable: &Declared<'a>, left: u32) -> Type {
        let Some(ty) = variable.declaration.child_by_field_name("type") else {
            return Type::Unknown;
        };
        if variable.declarator.kind() == "structured_binding_declarator"
            || variable.declaration.kind() == "for_range_loop"
        {
            return Type::Unknown;
        }
        if ty.kind() == "placeholder_type_specifier" {
            let plain = variable.declarator.kind() == "init_declarator"
                && variable
                    .declarator
                    .child_by_field_name("declarator")
                    .is_some_and(|inner| {
                        inner.kind() == "identifier" || inner.kind() == "reference_declarator"
                    });
            return match (plain, variable.value()) {
                (true, Some(value)) if value.kind() != "initializer_list" => {
                    match self.typed(value, left) {
                        Type::Array(inner) => Type::Pointer(inner),
                        other => other,
                    }
                }
                _ => Type::Unknown,
            };
        }
        let base = self.specified(ty, left);
        let mut node = variable.declarator;
        let mut wrappers = Vec::new();
        while node != variable.name {
            wrappers.push(node.kind());
            let inner = node.child_by_field_name("declarator").or_else(|| {
                let mut cursor = node.walk();
                node.named_children(&mut cursor).find(|child| {
                    child.kind() != "type_qualifier" && child.end_byte() >= variable.name.end_byte()
                })
            });
            match inner {
                Some(inner) => node = inner,
                None => return Type::Unknown,
            }
        }
        wrap(
            base,
            &wrappers,
            variable
                .declaration
                .kind()
                .ends_with("parameter_declaration"),
        )
    }

    /// A type as it stands in casts and template arguments.
    pub fn descriptor(&self, node: Node<'a>, left: u32) -> Type {
        if node.kind() != "type_descriptor" {
            return self.specified(node, left);
        }
        let Some(ty) = node.child_by_field_name("type") else {
            return Type::Unknown;
        };
        let mut wrappers = Vec::new();
        let mut inner = node.child_by_field_name("declarator");
        while let Some(declarator) = inner {
            wrappers.push(declarator.kind());
            inner = declarator.child_by_field_name("declarator");
        }
        wrap(self.specified(ty, left), &wrappers, false)
    }

    fn specified(&self, node: Node<'a>, left: u32) -> Type {
        let Some(left) = left.checked_sub(1) else {
            return Type::Unknown;
        };
        match node.kind() {
            "primitive_type" | "sized_type_specifier" | "qualified_identifier" => {
                named(self.of(node))
            }
            "struct_specifier" | "class_specifier" => node
                .child_by_field_name("name")
                .map_or(Type::Unknown, |name| Type::Named(self.of(name).to_owned())),
            "type_identifier" => {
                let name = self.of(node);
                let unclear = self.names.is_macro(name) || self.names.is_ambiguous(name);
                if unclear || self.is_template(node, name) {
                    return Type::Unknown;
                }
                match self.names.alias(name) {
                    None => named(name),
                    Some(alias) if alias.kind() == "alias_declaration" => alias
                        .child_by_field_name("type")
                        .map_or(Type::Unknown, |ty| self.descriptor(ty, left)),
                    Some(alias) => match alias.child_by_field_name("declarator") {
                        Some(declarator) if declarator.kind() == "type_identifier" => alias
                            .child_by_field_name("type")
                            .map_or(Type::Unknown, |ty| self.specified(ty, left)),
                        _ => Type::Unknown,
                    },
                }
            }
            _ => Type::Unknown,
        }
    }

    /// Whether a type's name is a parameter of a template around it.
    fn is_template(&self, node: Node<'a>, name: &str) -> bool {
        let mut parent = node.parent();
        while let Some(node) = parent {
            if node.kind() == "template_declaration"
                && let Some(list) = node.child_by_field_name("parameters")
            {
                let mut found = false;
                walk(list, &mut |child| {
                    found |= child.kind() == "type_identifier" && self.of(child) == name;
                    true
                });
                if found {
                    return true;
                }
            }
            parent = node.parent();
        }
        false
    }

    fn call(&self, node: Node<'a>, left: u32) -> Type {
        let (Some(function), Some(arguments)) = (
            node.child_by_field_name("function"),
            node.child_by_field_name("arguments"),
        ) else {
            return Type::Unknown;
        };
        match function.kind() {
            "primitive_type" => named(self.of(function)),
            "template_function" => {
                let cast = function
                    .child_by_field_name("name")
                    .is_some_and(|name| tables::CASTS.contains(&self.of(name)));
                let ty = function
                    .child_by_field_name("arguments")
                    .and_then(|list| list.named_child(0));
                match (cast, ty) {
                    (true, Some(ty)) => self.descriptor(ty, left),
                    _ => Type::Unknown,
                }
            }
            "identifier" => match self.names.resolve(function) {
                Binding::Function => {
                    let mut types = self
                        .names
                        .functions(self.of(function))
                        .iter()
                        .map(|function| self.returned(*function, left));
                    let first = types.next().unwrap_or(Type::Unknown);
                    match types.all(|ty| ty == first) {
                        true => first,
                        false => Type::Unknown,
                    }
                }
                Binding::Unknown => self.builtin(self.of(function), arguments, left),
                _ => Type::Unknown,
            },
            "qualified_identifier" => match self.of(function).strip_prefix("std::") {
                Some(name) => self.builtin(name, arguments, left),
                None => Type::Unknown,
            },
            _ => Type::Unknown,
        }
    }

    fn builtin(&self, name: &str, arguments: Node<'a>, left: u32) -> Type {
        if let Some(vector) = name
            .strip_prefix("make_")
            .filter(|name| vector(name).is_some())
        {
            return Type::Named(vector.to_owned());
        }
        let mut cursor = arguments.walk();
        let types: Vec<Type> = arguments
            .named_children(&mut cursor)
            .map(|argument| self.typed(argument, left))
            .collect();
        match tables::result(name) {
            Some(tables::Result::Float) => Type::Float,
            Some(tables::Result::Double) => Type::Double,
            Some(tables::Result::Int) => INT,
            Some(tables::Result::Unsigned) => UNSIGNED,
            // Overloads: that of the widest argument; integers are taken as `double`.
            Some(tables::Result::Overloaded) => {
                match types.iter().all(Type::is_number) && !types.is_empty() {
                    true if types.iter().any(|ty| !matches!(ty, Type::Float)) => Type::Double,
                    true => Type::Float,
                    false => Type::Unknown,
                }
            }
            Some(tables::Result::Same) => match types.split_first() {
                Some((first, others)) => others.iter().fold(first.clone(), |a, b| match a == *b {
                    true => a,
                    false => common(&a, b),
                }),
                None => Type::Unknown,
            },
            Some(tables::Result::Pointee) => types.first().map_or(Type::Unknown, Type::element),
            None => Type::Unknown,
        }
    }

    fn returned(&self, function: Node<'a>, left: u32) -> Type {
        let (Some(ty), Some(declarator)) = (
            function.child_by_field_name("type"),
            function.child_by_field_name("declarator"),
        ) else {
            return Type::Unknown;
        };
        match declarator.kind() {
            "function_declarator" => self.specified(ty, left),
            "pointer_declarator" => Type::Pointer(Box::new(self.specified(ty, left))),
            "reference_declarator" => self.specified(ty, left),
            _ => Type::Unknown,
        }
    }
}
