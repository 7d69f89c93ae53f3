//! Elements that lie beside each other, which can be loaded and stored together.

use std::collections::BTreeMap;

use tree_sitter::Node;

use super::facts::Known;
use super::loops::encloses;
use super::meaning::{Meaning, bare};
use super::memory::Base;
use super::names::Binding;
use super::types::Type;
use crate::syntax::walk;
use crate::tokens;

/// Bytes of a vector.
const BYTES: u64 = 16;

/// Elements of one pointer at one offset from the counter.
pub struct Group<'a> {
    /// Number of the kernel's parameter that leads to them.
    pub parameter: usize,
    /// All places where the element is.
    pub places: Vec<Node<'a>>,
    /// Its type.
    pub element: Type,
    /// Whether it is written.
    pub stored: bool,
    /// Whether what is in memory is needed.
    pub loaded: bool,
}

/// A loop whose body is done for groups of elements.
pub struct Body<'a> {
    /// The counter in its declaration.
    pub counter: Node<'a>,
    /// Its statements, in order.
    pub parts: Vec<Node<'a>>,
}

impl<'a> Body<'a> {
    /// Where it is.
    pub fn span(&self) -> std::ops::Range<usize> {
        let start = self.parts.first().map_or(0, |part| part.start_byte());
        start..self.parts.last().map_or(start, |part| part.end_byte())
    }
}

/// The consecutive elements of a body, and how many of them make a group.
pub fn groups<'a>(meaning: &Meaning<'a>, body: &Body<'a>) -> Option<(Vec<Group<'a>>, u32)> {
    if body.parts.iter().any(|part| part.has_error()) {
        return None;
    }
    let mut elements: Vec<Node<'a>> = Vec::new();
    for part in &body.parts {
        walk(*part, &mut |node| {
            if node.kind() == "subscript_expression" {
                elements.push(node);
            }
            true
        });
    }
    // By pointer and offset.
    let mut by_place: BTreeMap<(usize, u128), Group<'a>> = BTreeMap::new();
    for element in &elements {
        let Base::Parameter(parameter) = meaning.base(*element) else {
            continue;
        };
        let ty = meaning.type_of(*element);
        let direct = element
            .child_by_field_name("argument")
            .is_some_and(|argument| {
                argument.kind() == "identifier"
                    && matches!(meaning.names.resolve(argument), Binding::Parameter(..))
            });
        if !direct || lanes_of(&ty).is_none() || !is_consecutive(meaning, *element, body, &ty) {
            continue;
        }
        let key = (parameter, tokens::fingerprint(meaning.of(*element)));
        by_place
            .entry(key)
            .or_insert_with(|| Group {
                parameter,
                places: Vec::new(),
                element: ty,
                stored: false,
                loaded: false,
            })
            .places
            .push(*element);
    }
    // Two offsets of one pointer overlap; only the plain case of one is taken when it is stored.
    let mut groups: Vec<Group<'a>> = by_place.into_values().collect();
    groups.retain_mut(|group| is_sound(meaning, group, &elements, body));
    let lanes = groups
        .iter()
        .filter_map(|group| lanes_of(&group.element))
        .min()?;
    Some((groups, lanes))
}

/// How many elements make a vector.
fn lanes_of(ty: &Type) -> Option<u32> {
    match ty {
        Type::Float | Type::Integer { bits: 32, .. } => Some(4),
        Type::Double | Type::Integer { bits: 64, .. } => Some(2),
        _ => None,
    }
}

/// The vector of the language with so many of them.
pub fn vector_name(ty: &Type, lanes: u32) -> Option<String> {
    let name = match ty {
        Type::Float => "float",
        Type::Double => "double",
        Type::Integer {
            bits: 32,
            signed: true,
        } => "int",
        Type::Integer {
            bits: 32,
            signed: false,
        } => "uint",
        Type::Integer {
            bits: 64,
            signed: true,
        } => "longlong",
        Type::Integer {
            bits: 64,
            signed: false,
        } => "ulonglong",
        _ => return None,
    };
    Some(format!("{name}{lanes}"))
}

/// Whether an element is at the counter plus something that is a multiple of a group, on a pointer that is aligned.
fn is_consecutive<'a>(
    meaning: &Meaning<'a>,
    element: Node<'a>,
    body: &Body<'a>,
    ty: &Type,
) -> bool {
    let Some(index) = element
        .child_by_field_name("indices")
        .filter(|indices| indices.named_child_count() == 1)
        .and_then(|indices| indices.named_child(0))
    else {
        return false;
    };
    let Some(lanes) = lanes_of(ty) else {
        return false;
    };
    let counter = meaning.names.resolve(body.counter);
    let (mut counters, mut sound) = (0, true);
    for term in terms(meaning, index) {
        let inner = meaning.uncast(term);
        if inner.kind() == "identifier" && meaning.names.resolve(inner) == counter {
            counters += 1;
        } else {
            // The largest group there is: what divides by it divides by smaller ones.
            sound &= meaning.residue(term, 4) == Some(0)
                || lanes == 2 && meaning.residue(term, 2) == Some(0);
            sound &= body
                .parts
                .iter()
                .all(|part| meaning.is_invariant(term, *part))
                && meaning.is_pure(term);
        }
    }
    let Base::Parameter(parameter) = meaning.base(element) else {
        return false;
    };
    let aligned = matches!(
        meaning.scene.facts.parameter(parameter),
        Known::Pointer { alignment, .. } if alignment % BYTES == 0 && alignment > 0
    );
    counters == 1 && sound && aligned
}

/// The terms of a sum. A difference is one term.
fn terms<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Vec<Node<'a>> {
    match meaning.binary(bare(node), "+") {
        Some((a, b)) => {
            let mut found = terms(meaning, a);
            found.extend(terms(meaning, b));
            found
        }
        None => vec![node],
    }
}

fn is_sound<'a>(
    meaning: &Meaning<'a>,
    group: &mut Group<'a>,
    elements: &[Node<'a>],
    body: &Body<'a>,
) -> bool {
    let span = body.span();
    for place in &group.places {
        group.stored |= meaning.is_written(*place);
        // Its address goes somewhere.
        if place.parent().is_some_and(|parent| {
            matches!(
                parent.kind(),
                "pointer_expression" | "sizeof_expression" | "decltype"
            )
        }) {
            return false;
        }
    }
    if !group
        .places
        .iter()
        .any(|place| is_unconditional(*place, &span))
    {
        return false;
    }
    let ours = |node: &Node<'a>| group.places.contains(node);
    let base = Base::Parameter(group.parameter);
    // All other memory that is written must be elsewhere.
    for part in &body.parts {
        let mut targets = meaning.written(*part);
        targets.retain(|target| !ours(target));
        if targets
            .into_iter()
            .filter(|target| target.kind() != "identifier" || meaning.reads_memory(*target))
            .any(|target| meaning.may_meet(meaning.base(target), base))
        {
            return false;
        }
        let mut meets = false;
        walk(*part, &mut |node| {
            if node.kind() == "call_expression" && !meaning.is_pure(node) {
                meets |= meaning
                    .call_writes(node)
                    .into_iter()
                    .any(|write| meaning.may_meet(write, base));
                if group.stored {
                    // What it reads is not known.
                    meets |= meaning.builtin_call(node).is_none_or(|(name, _)| {
                        !super::tables::is_pure(name) && !name.starts_with("atomic")
                    });
                }
            }
            !meets
        });
        if meets {
            return false;
        }
    }
    if group.stored {
        let read_elsewhere = elements
            .iter()
            .filter(|element| !ours(element))
            .any(|element| meaning.may_meet(meaning.base(*element), base));
        let mut pointers = false;
        for part in &body.parts {
            walk(*part, &mut |node| {
                let dereferences = node.kind() == "pointer_expression"
                    && meaning.of(node).starts_with('*')
                    || node.kind() == "field_expression" && meaning.of(node).contains("->");
                pointers |= dereferences && meaning.may_meet(meaning.base(node), base);
                true
            });
        }
        if read_elsewhere || pointers {
            return false;
        }
        let first = group.places.first().copied();
        group.loaded =
            !first.is_some_and(|first| is_plain_store(meaning, first, &span, &group.places));
    } else {
        group.loaded = true;
    }
    true
}

/// Whether the first place of an element is a store of it whose value does not need it, done each time.
fn is_plain_store<'a>(
    meaning: &Meaning<'a>,
    place: Node<'a>,
    span: &std::ops::Range<usize>,
    places: &[Node<'a>],
) -> bool {
    let Some(parent) = place.parent() else {
        return false;
    };
    let value = parent.child_by_field_name("right");
    parent.kind() == "assignment_expression"
        && meaning.operator(parent) == "="
        && parent.child_by_field_name("left") == Some(place)
        && parent
            .parent()
            .is_some_and(|parent| parent.kind() == "expression_statement")
        && is_unconditional(place, span)
        && value.is_some_and(|value| {
            places
                .iter()
                .all(|other| !encloses(&value.byte_range(), &other.byte_range()))
        })
}

/// Whether a place in a body is reached each time.
pub fn is_unconditional(node: Node<'_>, body: &std::ops::Range<usize>) -> bool {
    let mut below = node;
    while let Some(parent) = below.parent() {
        let outside = !encloses(body, &parent.byte_range());
        match parent.kind() {
            "compound_statement" | "expression_statement" | "declaration" | "init_declarator" => {}
            _ if outside => return true,
            "if_statement"
            | "conditional_expression"
            | "for_statement"
            | "while_statement"
            | "do_statement"
            | "switch_statement"
            | "case_statement"
            | "lambda_expression"
            | "for_range_loop"
            | "sizeof_expression" => return false,
            "binary_expression" => {
                let operator = parent
                    .child_by_field_name("operator")
                    .map(|operator| operator.kind());
                if matches!(operator, Some("&&" | "||" | "and" | "or"))
                    && parent.child_by_field_name("right") == Some(below)
                {
                    return false;
                }
            }
            _ => {}
        }
        if outside {
            return true;
        }
        below = parent;
    }
    true
}
