//! Memory that a loop uses again and again, held in a register.

use std::collections::BTreeMap;

use tree_sitter::Node;

use super::edit::Edit;
use super::groups::is_unconditional;
use super::loops::{Loop, beginning, in_block, indent};
use super::meaning::Meaning;
use super::memory::Base;
use super::scene::Scene;
use super::types::{Type, vector};

use super::{Operator, Proposal};
use crate::tokens;

/// An element that keeps its place while a loop runs is loaded once before it, and stored once after it.
///
/// Its subscript keeps its value in the loop. It is reached in each iteration, and is written in each if at all, so that memory is
/// touched only when it was before. Nothing else that the loop reads or writes may be the same memory, and the loop ties no threads.
pub struct HoldInRegister;

impl Operator for HoldInRegister {
    fn name(&self) -> &'static str {
        "hold-in-register"
    }

    fn about(&self) -> &'static str {
        "an element that a loop loads or stores each time is loaded once before and stored once after it"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        meaning
            .counting_loops()
            .iter()
            .filter(|found| in_block(found.node))
            .flat_map(|found| held(&meaning, found))
            .collect()
    }
}

fn held<'a>(meaning: &Meaning<'a>, found: &Loop<'a>) -> Vec<Proposal> {
    if !meaning.is_local(found.body) || meaning.leaves_iteration(found.body) {
        return Vec::new();
    }
    let mut by_text: BTreeMap<(usize, u128), Vec<Node<'a>>> = BTreeMap::new();
    let mut order = Vec::new();
    crate::syntax::walk(found.body, &mut |node| {
        if node.kind() == "subscript_expression" {
            let key = tokens::fingerprint(meaning.of(node));
            let first = *order
                .iter()
                .find(|(known, _)| *known == key)
                .map_or(&node.start_byte(), |(_, at)| at);
            order.push((key, first));
            by_text.entry((first, key)).or_default().push(node);
        }
        true
    });
    by_text
        .into_values()
        .filter_map(|places| element(meaning, found, &places))
        .collect()
}

fn words(ty: &Type) -> Option<String> {
    match ty {
        Type::Named(name) if vector(name).is_some() => Some(name.clone()),
        _ => ty.spelled().map(str::to_owned),
    }
}

fn element<'a>(meaning: &Meaning<'a>, found: &Loop<'a>, places: &[Node<'a>]) -> Option<Proposal> {
    let first = *places.first()?;
    let ty = meaning.type_of(first);
    let words = words(&ty)?;
    let base = meaning.base(first);
    // A subscript that keeps its value, on a pointer or an array that does.
    if base == Base::Unknown
        || base == Base::Handed
        || !meaning.names_keep(first, found.node)
        || !meaning.is_pure(first)
    {
        return None;
    }
    let index = first.child_by_field_name("indices")?;
    let argument = first.child_by_field_name("argument")?;
    if argument.kind() != "identifier"
        || meaning.reads_memory(index.named_child(0)?)
        || index.named_child_count() != 1
    {
        return None;
    }
    if places.iter().any(|place| {
        place.parent().is_some_and(|parent| {
            matches!(
                parent.kind(),
                "pointer_expression" | "sizeof_expression" | "decltype"
            ) || parent.kind() == "subscript_expression"
                && parent.child_by_field_name("argument") == Some(*place)
        })
    }) {
        return None;
    }
    let mut inside = Vec::new();
    crate::syntax::walk(found.body, &mut |node| {
        let reaches = match node.kind() {
            "subscript_expression" => true,
            "pointer_expression" => meaning.of(node).starts_with('*'),
            "field_expression" => meaning.of(node).contains("->"),
            _ => false,
        };
        if reaches && !places.contains(&node) {
            inside.push(node);
        }
        true
    });
    let stored = places.iter().any(|place| meaning.is_written(*place));
    let meets = |node: &Node<'a>| meaning.may_meet(meaning.base(*node), base);
    let disturbed = inside
        .iter()
        .any(|node| meets(node) && (stored || meaning.is_written(*node)))
        || meaning.accesses(found.body).iter().any(|access| {
            access.subscripts.is_none()
                && (stored || access.written)
                && meaning.may_meet(access.base, base)
        });
    let span = found.body.byte_range();
    let reached = places
        .iter()
        .any(|place| is_unconditional(*place, &span) && (!stored || meaning.is_written(*place)));
    // One use alone that is only read is what a compiler does itself when it can.
    if disturbed || !reached {
        return None;
    }
    let text = meaning.scene.unit.text();
    let at = beginning(found.node);
    let blanks = indent(text, found.node.start_byte());
    let name = meaning
        .names
        .fresh(&format!("{}_held", meaning.of(argument)));
    let place = meaning.of(first);
    let runs = meaning
        .constant(found.start)
        .zip(meaning.constant(found.bound))
        .is_some_and(|(start, bound)| {
            let small = |number| (0..=i128::from(i32::MAX)).contains(&number);
            if !small(start) || !small(bound) {
                return false;
            }
            if found.up {
                start < bound
            } else {
                start > bound
            }
        });
    // As the counter has it: what is converted may be another number.
    let start = match meaning.type_of(found.start) == meaning.type_of(found.variable) {
        true => meaning.atom(found.start),
        false => format!(
            "static_cast<{}>({})",
            meaning.type_of(found.variable).spelled()?,
            meaning.of(found.start)
        ),
    };
    let condition = format!("{start} {} {}", found.comparison, meaning.atom(found.bound));
    let mut edits: Vec<Edit> = places
        .iter()
        .map(|place| Edit::replace(place.byte_range(), name.clone()))
        .collect();
    match (stored, runs) {
        (false, true) => edits.push(Edit::insert(
            at,
            format!("const {words} {name} = {place};\n{blanks}"),
        )),
        (false, false) => edits.push(Edit::insert(
            at,
            format!("const {words} {name} = {condition} ? {place} : {words}();\n{blanks}"),
        )),
        (true, true) => {
            edits.push(Edit::insert(
                at,
                format!("{words} {name} = {place};\n{blanks}"),
            ));
            edits.push(Edit::insert(
                found.node.end_byte(),
                format!("\n{blanks}{place} = {name};"),
            ));
        }
        (true, false) => {
            edits.push(Edit::insert(
                at,
                format!("if ({condition}) {{\n{blanks}{words} {name} = {place};\n{blanks}"),
            ));
            edits.push(Edit::insert(
                found.node.end_byte(),
                format!("\n{blanks}{place} = {name};\n{blanks}}}"),
            ));
        }
    }
    Some(Proposal {
        at: found.node.start_byte()..first.end_byte(),
        choice: String::new(),
        what: format!(
            "{place} in a register while the loop over {} runs",
            meaning.of(found.variable)
        ),
        edits,
        directive: None,
    })
}
