//! What of a file a kernel uses on the device: functions, types, and operators of those types.

use std::collections::BTreeSet;
use std::ops::Range;

use tree_sitter::Node;

use crate::syntax::{Function, Unit, walk};

/// A definition that a kernel may use.
struct Item<'u> {
    /// With its template header, and for a type its semicolon.
    span: Range<usize>,
    node: Node<'u>,
    kind: Kind<'u>,
}

enum Kind<'u> {
    Function(String),
    /// With the types that it takes.
    Operator(BTreeSet<&'u str>),
    Type(&'u str),
}

/// Where a kernel's definition and those that it uses are, in any order. Other kernels, and what is for the host alone,
/// are not among them.
pub(super) fn of(unit: &Unit, kernel: &Function) -> Vec<Range<usize>> {
    let mut left = items(unit);
    let mut spans = vec![kernel.span.clone()];
    let mut words = BTreeSet::new();
    let mut types = BTreeSet::new();
    let node = unit
        .definitions()
        .into_iter()
        .find(|node| node.byte_range() == kernel.definition);
    words.extend(node.into_iter().flat_map(|node| names(unit, node)));
    loop {
        let before = left.len();
        let (used, unused): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|item| match &item.kind {
                Kind::Function(name) => words.contains(name.as_str()),
                Kind::Type(name) => words.contains(name),
                Kind::Operator(of) => !of.is_disjoint(&types),
            });
        left = unused;
        for item in used {
            words.extend(names(unit, item.node));
            if let Kind::Type(name) = item.kind {
                types.insert(name);
            }
            spans.push(item.span);
        }
        if left.len() == before {
            return spans;
        }
    }
}

/// Functions and types of the file, but for kernels and functions of the host.
fn items(unit: &Unit) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    walk(unit.tree().root_node(), &mut |node| match node.kind() {
        "function_definition" => {
            items.extend(function(unit, node));
            false
        }
        "struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier" => {
            items.extend(named_type(unit, node));
            false
        }
        "declaration" | "field_declaration_list" | "parameter_list" => false,
        _ => true,
    });
    items
}

fn function<'u>(unit: &'u Unit, node: Node<'u>) -> Option<Item<'u>> {
    let body = node.child_by_field_name("body")?;
    let outer = outermost(node);
    let head = unit.slice(outer.start_byte()..body.start_byte());
    let says = |word: &str| {
        head.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .any(|part| part == word)
    };
    let on_device =
        says("__device__") || says("constexpr") || (says("template") && !says("__host__"));
    if says("__global__") || !on_device {
        return None;
    }
    let span = outer.byte_range();
    if let Some(function) = unit.function(node) {
        return Some(Item {
            span,
            node,
            kind: Kind::Function(function.name),
        });
    }
    let mut of = BTreeSet::new();
    let mut operator = false;
    walk(node.child_by_field_name("declarator")?, &mut |part| {
        operator |= part.kind() == "operator_name";
        if part.kind() == "type_identifier" {
            of.insert(unit.of(part));
        }
        true
    });
    operator.then_some(Item {
        span,
        node,
        kind: Kind::Operator(of),
    })
}

fn named_type<'u>(unit: &'u Unit, node: Node<'u>) -> Option<Item<'u>> {
    node.child_by_field_name("body")?;
    let outer = outermost(node);
    // `typedef struct { … } Name;` has its name behind it.
    let named = match outer.kind() {
        "type_definition" => outer.child_by_field_name("declarator"),
        _ => node.child_by_field_name("name"),
    };
    let name = named.filter(|name| name.kind() == "type_identifier")?;
    let mut span = outer.byte_range();
    let after = unit.slice(span.end..unit.text().len());
    let blank = after.len() - after.trim_start().len();
    if after.trim_start().starts_with(';') {
        span.end += blank + 1;
    }
    Some(Item {
        span,
        node: outer,
        kind: Kind::Type(unit.of(name)),
    })
}

/// The node with its template header, linkage or `typedef`.
fn outermost(node: Node<'_>) -> Node<'_> {
    let mut outer = node;
    while let Some(parent) = outer.parent() {
        let holds = match parent.kind() {
            "template_declaration" | "type_definition" => true,
            "linkage_specification" => parent.child_by_field_name("body") == Some(outer),
            _ => false,
        };
        if !holds {
            break;
        }
        outer = parent;
    }
    outer
}

/// Names of functions and types in a definition.
fn names<'u>(unit: &'u Unit, node: Node<'u>) -> BTreeSet<&'u str> {
    let mut names = BTreeSet::new();
    walk(node, &mut |part| {
        if matches!(
            part.kind(),
            "identifier" | "type_identifier" | "namespace_identifier"
        ) {
            names.insert(unit.of(part));
        }
        true
    });
    names
}
