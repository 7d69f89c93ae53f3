//! Types of expressions, so far as a file tells.

use tree_sitter::Node;

use super::meaning::Meaning;
use super::names::{Binding, Declared, declarations};
use super::tables;
use crate::syntax::walk;

/// A type. What is not understood is `Unknown`, and nothing follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `bool`.
    Bool,
    /// An integer.
    Integer {
        /// Width.
        bits: u8,
        /// Whether it has a sign.
        signed: bool,
    },
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// A pointer.
    Pointer(Box<Type>),
    /// An array.
    Array(Box<Type>),
    /// A structure, or a vector of the language.
    Named(String),
    /// Not known.
    Unknown,
}

/// `int`.
pub const INT: Type = Type::Integer {
    bits: 32,
    signed: true,
};

const UNSIGNED: Type = Type::Integer {
    bits: 32,
    signed: false,
};

impl Type {
    /// `float` or `double`.
    pub fn is_floating(&self) -> bool {
        matches!(self, Self::Float | Self::Double)
    }

    /// An integer or `bool`.
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Bool)
    }

    /// A number of any kind.
    pub fn is_number(&self) -> bool {
        self.is_floating() || self.is_integer()
    }

    /// What it points to, or what its elements are.
    pub fn element(&self) -> Self {
        match self {
            Self::Pointer(inner) | Self::Array(inner) => (**inner).clone(),
            _ => Self::Unknown,
        }
    }

    /// Bytes of a number or of a vector of the language.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Bool => Some(1),
            Self::Integer { bits, .. } => Some(u64::from(*bits) / 8),
            Self::Float => Some(4),
            Self::Double | Self::Pointer(_) => Some(8),
            Self::Named(name) => {
                let (element, lanes) = vector(name)?;
                Some(element.bytes()? * lanes)
            }
            Self::Array(_) | Self::Unknown => None,
        }
    }

    /// How it is written, for the types that rewrites declare.
    pub fn spelled(&self) -> Option<&'static str> {
        Some(match self {
            Self::Float => "float",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::Integer { bits, signed } => match (bits, signed) {
                (32, true) => "int",
                (32, false) => "unsigned int",
                (64, true) => "long long",
                (64, false) => "unsigned long long",
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// What arithmetic makes of two numbers.
pub fn common(a: &Type, b: &Type) -> Type {
    match (a, b) {
        (Type::Double, other) | (other, Type::Double) if other.is_number() => Type::Double,
        (Type::Float, other) | (other, Type::Float) if other.is_number() => Type::Float,
        (a, b) if a.is_integer() && b.is_integer() => match (promoted(a), promoted(b)) {
            (Type::Integer { bits: a, signed: x }, Type::Integer { bits: b, signed: y }) => {
                let bits = a.max(b);
                let signed = match a.cmp(&b) {
                    std::cmp::Ordering::Equal => x && y,
                    std::cmp::Ordering::Greater => x,
                    std::cmp::Ordering::Less => y,
                };
                Type::Integer { bits, signed }
            }
            _ => Type::Unknown,
        },
        _ => Type::Unknown,
    }
}

fn promoted(ty: &Type) -> Type {
    match ty {
        Type::Bool => INT,
        Type::Integer { bits, .. } if *bits < 32 => INT,
        other => other.clone(),
    }
}

/// Elements and their number of a vector of the language: `float4`.
pub fn vector(name: &str) -> Option<(Type, u64)> {
    let lanes: u64 = name.get(name.len().checked_sub(1)?..)?.parse().ok()?;
    let integer = |bits, signed| Type::Integer { bits, signed };
    let element = match name.get(..name.len() - 1)? {
        "float" => Type::Float,
        "double" => Type::Double,
        "int" => INT,
        "uint" => UNSIGNED,
        "char" => integer(8, true),
        "uchar" => integer(8, false),
        "short" => integer(16, true),
        "ushort" => integer(16, false),
        "longlong" | "long" => integer(64, true),
        "ulonglong" | "ulong" => integer(64, false),
        _ => return None,
    };
    (1..=4).contains(&lanes).then_some((element, lanes))
}

/// The type that a name without declarators stands for.
pub fn named(words: &str) -> Type {
    let words: Vec<&str> = words
        .split_whitespace()
        .filter(|word| {
            !matches!(
                *word,
                "const" | "volatile" | "static" | "register" | "constexpr"
            )
        })
        .map(|word| word.strip_prefix("std::").unwrap_or(word))
        .collect();
    let integer = |bits, signed| Type::Integer { bits, signed };
    match words.as_slice() {
        ["float"] => Type::Float,
        ["double"] => Type::Double,
        ["bool"] => Type::Bool,
        ["size_t" | "uint64_t" | "uintptr_t"] => integer(64, false),
        ["ptrdiff_t" | "int64_t" | "intptr_t"] => integer(64, true),
        ["int32_t"] => INT,
        ["uint32_t" | "uint"] => UNSIGNED,
        ["int16_t"] => integer(16, true),
        ["uint16_t" | "ushort"] => integer(16, false),
        ["int8_t"] => integer(8, true),
        ["uint8_t" | "uchar"] => integer(8, false),
        words if !words.is_empty() && words.iter().all(|word| INTEGER_WORDS.contains(word)) => {
            let has = |word| words.contains(&word);
            let signed = !has("unsigned");
            match (has("char"), has("short"), has("long")) {
                (true, ..) => integer(8, signed),
                (_, true, _) => integer(16, signed),
                (.., true) => integer(64, signed),
                _ => integer(32, signed),
            }
        }
        [name] if !name.contains("::") && !name.contains('<') => Type::Named((*name).to_owned()),
        _ => Type::Unknown,
    }
}

const INTEGER_WORDS: &[&str] = &["unsigned", "signed", "int", "long", "short", "char"];

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
                if self.names.is_macro(name) || self.is_template(node, name) {
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

/// A type with the declarators around a name: the outermost comes first, and is applied first.
fn wrap(base: Type, declarators: &[&str], parameter: bool) -> Type {
    let mut ty = base;
    let arrays = declarators
        .iter()
        .filter(|kind| kind.ends_with("array_declarator"))
        .count();
    let mut seen = 0;
    for kind in declarators {
        ty = match *kind {
            "init_declarator"
            | "reference_declarator"
            | "abstract_reference_declarator"
            | "parenthesized_declarator" => ty,
            "pointer_declarator" | "abstract_pointer_declarator" => Type::Pointer(Box::new(ty)),
            "array_declarator" | "abstract_array_declarator" => {
                seen += 1;
                match parameter && seen == arrays {
                    true => Type::Pointer(Box::new(ty)),
                    false => Type::Array(Box::new(ty)),
                }
            }
            _ => return Type::Unknown,
        };
    }
    ty
}

fn promoted_number(ty: Type) -> Type {
    match ty.is_integer() {
        true => promoted(&ty),
        false if ty.is_floating() => ty,
        false => Type::Unknown,
    }
}

/// The type of a number as it is written.
pub fn literal(text: &str) -> Type {
    let lower = text.to_ascii_lowercase();
    let hexadecimal = lower.starts_with("0x");
    let floating = match hexadecimal {
        true => lower.contains('p'),
        false => lower.contains(['.', 'e']),
    };
    if floating {
        return match lower.chars().last() {
            Some('f') => Type::Float,
            Some('l') => Type::Unknown,
            _ => Type::Double,
        };
    }
    let digits = lower.trim_end_matches(['u', 'l', 'z']);
    let suffix = lower.get(digits.len()..).unwrap_or_default();
    let long = suffix.contains('l') || suffix.contains('z');
    let wide = super::constants::integer(digits).is_none_or(|value| value > i128::from(i32::MAX));
    Type::Integer {
        bits: if long || wide { 64 } else { 32 },
        signed: !suffix.contains('u'),
    }
}
