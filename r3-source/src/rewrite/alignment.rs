//! Structures that are loaded in fewer pieces.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::edit::Edit;
use super::facts::Known;
use super::meaning::Meaning;
use super::names::Declared;
use super::scene::Scene;
use super::types::{Type, vector};
use super::{Operator, Proposal};
use crate::syntax::walk;

/// `struct Complex { float re, im; };` becomes `struct alignas(8) Complex { … };`, so that it is loaded at once.
///
/// The size of the structure, and of all that contain it, is a multiple of the alignment already, and so is where it lies in them: no
/// byte changes its place. The capture says that the kernel's pointers to them are aligned so. None of them is a kernel's argument by
/// value or a variable of the file, is pointed to from elsewhere, or comes out of a cast.
pub struct AlignStructure;

impl Operator for AlignStructure {
    fn name(&self) -> &'static str {
        "align-structure"
    }

    fn about(&self) -> &'static str {
        "alignas(8) or alignas(16) on a structure whose size and places are multiples of it, as are the captured pointers"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let mut found = Vec::new();
        for node in scene.nodes("struct_specifier") {
            for alignment in [8, 16] {
                found.extend(aligned(&meaning, node, alignment));
            }
        }
        found
    }
}

/// Size and alignment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Layout {
    size: u64,
    alignment: u64,
}

const FURTHEST: u32 = 12;

fn aligned<'a>(meaning: &Meaning<'a>, node: Node<'a>, alignment: u64) -> Option<Proposal> {
    let name = meaning.of(node.child_by_field_name("name")?);
    if meaning.names.structure(name) != Some(node) || alignas(meaning, node).is_some() {
        return None;
    }
    let own = layout(meaning, node, FURTHEST)?;
    if own.alignment >= alignment || own.size % alignment != 0 {
        return None;
    }
    // What contains it, directly and through others.
    let mut affected: BTreeSet<&str> = BTreeSet::from([name]);
    loop {
        let before = affected.len();
        for (outer, structure) in meaning.names.structures() {
            if meaning
                .fields(*structure)
                .iter()
                .any(|field| holds(meaning, field, &affected))
            {
                affected.insert(outer);
            }
        }
        if affected.len() == before {
            break;
        }
    }
    for outer in affected.iter().filter(|outer| **outer != name) {
        let structure = meaning.names.structure(outer)?;
        if layout(meaning, structure, FURTHEST)?.size % alignment != 0 {
            return None;
        }
        let mut offset = 0;
        for field in meaning.fields(structure) {
            let own = field_layout(meaning, &field, FURTHEST)?;
            offset = round_up(offset, own.alignment);
            if holds(meaning, &field, &affected) && offset % alignment != 0 {
                return None;
            }
            offset += own.size;
        }
    }
    let mut pointers = 0;
    for (index, parameter) in scene_parameters(meaning)?.iter().enumerate() {
        match meaning.type_of_variable(parameter) {
            Type::Named(ty) if affected.contains(ty.as_str()) => return None,
            Type::Pointer(inner) => match *inner {
                Type::Named(ty) if affected.contains(ty.as_str()) => {
                    let Known::Pointer {
                        alignment: known, ..
                    } = meaning.scene.facts.parameter(index)
                    else {
                        return None;
                    };
                    if known == 0 || known % alignment != 0 {
                        return None;
                    }
                    pointers += 1;
                }
                Type::Named(_) | Type::Float | Type::Double | Type::Integer { .. } | Type::Bool => {
                }
                _ => return None,
            },
            Type::Unknown => return None,
            _ => {}
        }
    }
    if pointers == 0 || !is_kept_inside(meaning, &affected) {
        return None;
    }
    Some(Proposal {
        at: node.byte_range(),
        choice: alignment.to_string(),
        what: format!("{name} aligned to {alignment} bytes"),
        edits: vec![Edit::insert(
            node.start_byte() + "struct".len(),
            format!(" alignas({alignment})"),
        )],
        directive: None,
    })
}

fn scene_parameters<'a>(meaning: &Meaning<'a>) -> Option<Vec<Declared<'a>>> {
    let list = super::names::parameter_list(meaning.kernel_node()?)?;
    let mut cursor = list.walk();
    list.named_children(&mut cursor)
        .filter(|child| child.kind().ends_with("parameter_declaration"))
        .map(|declaration| {
            let declarator = declaration.child_by_field_name("declarator")?;
            Some(Declared {
                name: crate::syntax::declared(declarator)?,
                declarator,
                declaration,
            })
        })
        .collect()
}

/// Whether a field is one of these structures, or an array of them.
fn holds<'a>(meaning: &Meaning<'a>, field: &Declared<'a>, structures: &BTreeSet<&str>) -> bool {
    let mut ty = meaning.type_of_variable(field);
    while let Type::Array(inner) = ty {
        ty = *inner;
    }
    matches!(ty, Type::Named(name) if structures.contains(name.as_str()))
}

/// Whether nothing but the kernel's parameters leads to these structures from outside: no casts, no pointers in structures, no
/// variables of the file.
fn is_kept_inside(meaning: &Meaning<'_>, structures: &BTreeSet<&str>) -> bool {
    let mut kept = true;
    walk(meaning.scene.unit.tree().root_node(), &mut |node| {
        let text = meaning.scene.unit.slice(node.byte_range());
        let names_one = || {
            crate::tokens::tokens(text)
                .iter()
                .any(|token| structures.contains(token))
        };
        match node.kind() {
            "cast_expression" => {
                kept &= !node
                    .child_by_field_name("type")
                    .is_some_and(|ty| names(meaning, ty, structures))
            }
            "template_function" => {
                let cast = text.starts_with("reinterpret_cast") || text.starts_with("static_cast");
                kept &= !(cast && text.contains('*') && names_one());
            }
            "field_declaration" => {
                kept &=
                    !(text.contains('*') || text.contains('&')) || !names_one() || is_function(node)
            }
            "declaration" => {
                let file = text.contains("__device__")
                    || text.contains("__constant__")
                    || text.contains("extern")
                    || text.contains("__managed__");
                kept &= !(file && names_one());
            }
            "preproc_arg" => kept &= !names_one(),
            _ => {}
        }
        kept
    });
    kept
}

fn names(meaning: &Meaning<'_>, node: Node<'_>, structures: &BTreeSet<&str>) -> bool {
    let text = meaning.scene.unit.slice(node.byte_range());
    crate::tokens::tokens(text)
        .iter()
        .any(|token| structures.contains(token))
}

fn is_function(node: Node<'_>) -> bool {
    let mut function = false;
    walk(node, &mut |inner| {
        function |= inner.kind() == "function_declarator";
        !function
    });
    function
}

fn round_up(offset: u64, alignment: u64) -> u64 {
    offset.div_ceil(alignment.max(1)) * alignment.max(1)
}

/// What `alignas` says on a structure.
fn alignas<'a>(meaning: &Meaning<'a>, structure: Node<'a>) -> Option<u64> {
    let mut cursor = structure.walk();
    let qualifier = structure.children(&mut cursor).find(|child| {
        child.kind() == "alignas_qualifier"
            || child.kind().contains("attribute")
            || child.kind() == "ms_declspec_modifier"
    })?;
    match qualifier.kind() {
        "alignas_qualifier" => meaning
            .constant(qualifier.named_child(0)?)
            .and_then(|value| u64::try_from(value).ok())
            .or(Some(0)),
        _ => Some(0),
    }
}

fn layout<'a>(meaning: &Meaning<'a>, structure: Node<'a>, left: u32) -> Option<Layout> {
    let left = left.checked_sub(1)?;
    let body = structure.child_by_field_name("body")?;
    if structure.has_error() || structure.kind() != "struct_specifier" {
        return None;
    }
    let mut cursor = structure.walk();
    let derived = structure
        .children(&mut cursor)
        .any(|child| child.kind() == "base_class_clause");
    let mut cursor = body.walk();
    let plain = body.named_children(&mut cursor).all(|child| {
        let text = meaning.of(child);
        match child.kind() {
            "field_declaration" => {
                let mut cursor = child.walk();
                let bits = child
                    .named_children(&mut cursor)
                    .any(|part| part.kind() == "bitfield_clause");
                !bits
                    && !text.contains("static")
                    && !text.contains("virtual")
                    && !text.contains("alignas")
            }
            "function_definition" => !text.contains("virtual"),
            "comment" => true,
            _ => false,
        }
    });
    if derived || !plain || parent_is_template(structure) {
        return None;
    }
    let (mut size, mut alignment) = (0, 1);
    for field in meaning.fields(structure) {
        if field.declarator.kind() == "function_declarator" {
            continue;
        }
        let own = field_layout(meaning, &field, left)?;
        size = round_up(size, own.alignment) + own.size;
        alignment = alignment.max(own.alignment);
    }
    if let Some(said) = alignas(meaning, structure) {
        if said == 0 || !said.is_power_of_two() {
            return None;
        }
        alignment = alignment.max(said);
    }
    (size > 0).then_some(Layout {
        size: round_up(size, alignment),
        alignment,
    })
}

fn parent_is_template(node: Node<'_>) -> bool {
    node.parent()
        .is_some_and(|parent| parent.kind() == "template_declaration")
}

fn field_layout<'a>(meaning: &Meaning<'a>, field: &Declared<'a>, left: u32) -> Option<Layout> {
    let left = left.checked_sub(1)?;
    let mut ty = meaning.type_of_variable(field);
    let mut count: u64 = 1;
    let mut declarator = field.declarator;
    while let Type::Array(inner) = ty {
        ty = *inner;
        let length = meaning.constant(declarator.child_by_field_name("size")?)?;
        count = count.checked_mul(u64::try_from(length).ok()?)?;
        declarator = declarator.child_by_field_name("declarator")?;
    }
    let one = match &ty {
        Type::Named(name) => match meaning.names.structure(name) {
            Some(structure) => layout(meaning, structure, left)?,
            None => {
                let (element, lanes) = vector(name)?;
                let bytes = element.bytes()?;
                Layout {
                    size: bytes * lanes,
                    alignment: if lanes == 3 {
                        bytes
                    } else {
                        (bytes * lanes).min(16)
                    },
                }
            }
        },
        Type::Pointer(_) if meaning.is_reference(field.declarator) => return None,
        other => {
            let bytes = other.bytes()?;
            Layout {
                size: bytes,
                alignment: bytes,
            }
        }
    };
    Some(Layout {
        size: one.size.checked_mul(count)?,
        alignment: one.alignment,
    })
}
