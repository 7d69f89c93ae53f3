//! Shared memory whose rows do not fall into the same banks.

use super::edit::Edit;
use super::meaning::Meaning;
use super::names::declarations;
use super::scene::Scene;
use super::{Operator, Proposal};

/// Shared memory of a block that every device has, in bytes.
const SHARED: i128 = 48 << 10;

/// `__shared__ float tile[16][16]` becomes `__shared__ float tile[16][16 + 1]`.
///
/// The array has two dimensions or three and is used by full subscripts only, so that nothing sees where its rows are: its address
/// is not taken, it goes to no function, and nobody asks for its size. Where its size is known, it fits a block's shared memory
/// afterwards.
pub struct SharedPadding;

impl Operator for SharedPadding {
    fn name(&self) -> &'static str {
        "pad-shared-memory"
    }

    fn about(&self) -> &'static str {
        "one element more in each row of a shared array with several dimensions, against bank conflicts"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let mut found = Vec::new();
        for declaration in scene.nodes("declaration") {
            let words = meaning.of(declaration);
            if !words.contains("__shared__")
                || words.contains("extern")
                || words.contains("volatile")
                || !meaning.on_device(declaration)
            {
                continue;
            }
            for variable in declarations(declaration) {
                found.extend(padded(&meaning, &variable));
            }
        }
        super::with_all(found, "all shared arrays")
    }
}

fn padded<'a>(meaning: &Meaning<'a>, variable: &super::names::Declared<'a>) -> Option<Proposal> {
    // The outermost declarator has the last dimension.
    let outer = variable.declarator;
    let last = outer.child_by_field_name("size")?;
    let mut dimensions = vec![last];
    let mut node = outer.child_by_field_name("declarator")?;
    while node.kind() == "array_declarator" {
        dimensions.push(node.child_by_field_name("size")?);
        node = node.child_by_field_name("declarator")?;
    }
    if outer.kind() != "array_declarator"
        || node != variable.name
        || !(2..=3).contains(&dimensions.len())
    {
        return None;
    }
    let body = meaning.function(outer)?.child_by_field_name("body")?;
    // What a macro does with it is not seen.
    if meaning.names.macros().mention(meaning.of(variable.name)) && meaning.has_macros(body) {
        return None;
    }
    for used in meaning.uses(variable.name, body) {
        if used == variable.name {
            continue;
        }
        let mut element = used;
        for _ in &dimensions {
            element = element.parent().filter(|parent| {
                parent.kind() == "subscript_expression"
                    && parent.child_by_field_name("argument") == Some(element)
            })?;
        }
        let mut parent = element.parent()?;
        while matches!(
            parent.kind(),
            "parenthesized_expression" | "field_expression"
        ) {
            parent = parent.parent()?;
        }
        let address = parent.kind() == "pointer_expression";
        let handed = parent.kind() == "argument_list" && meaning.is_written(element);
        if address || handed || parent.kind() == "sizeof_expression" {
            return None;
        }
    }
    let mut bytes = element_bytes(meaning, variable);
    for (position, dimension) in dimensions.iter().enumerate() {
        let length = meaning
            .constant(*dimension)
            .map(|length| length + i128::from(position == 0));
        bytes = bytes
            .zip(length)
            .and_then(|(bytes, length)| bytes.checked_mul(length));
    }
    if bytes.is_some_and(|bytes| bytes > SHARED) {
        return None;
    }
    let edits = vec![match last.kind() {
        "number_literal" | "identifier" | "parenthesized_expression" => {
            Edit::insert(last.end_byte(), " + 1")
        }
        _ => Edit::replace(last.byte_range(), format!("({}) + 1", meaning.of(last))),
    }];
    Some(Proposal::edit(
        outer,
        edits,
        format!(
            "one element more in each row of {}",
            meaning.of(variable.name)
        ),
    ))
}

fn element_bytes<'a>(meaning: &Meaning<'a>, variable: &super::names::Declared<'a>) -> Option<i128> {
    let mut ty = meaning.type_of_variable(variable);
    while let super::types::Type::Array(inner) = ty {
        ty = *inner;
    }
    ty.bytes().map(i128::from)
}
