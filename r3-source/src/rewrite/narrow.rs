//! Indices in 32 bits.

use tree_sitter::Node;

use super::edit::Edit;
use super::meaning::{Meaning, bare};
use super::names::declarations;
use super::ranges::fits_int;
use super::scene::Scene;
use super::types::Type;
use super::{Operator, Proposal, with_all};
use crate::syntax::walk;

/// `static_cast<size_t>(i) * d + j` becomes `i * d + j`, and `size_t k` becomes `int k`.
///
/// Every number on the way fits an `int`, as follows from the text, the arguments and the launches of the capture (also for smaller
/// blocks with the same threads in all). A cast is an index's or an offset's. A variable is one whose values are known to fit, and that
/// only goes into sums, products, comparisons and indices.
pub struct NarrowIntegers;

impl Operator for NarrowIntegers {
    fn name(&self) -> &'static str {
        "narrow-integers"
    }

    fn about(&self) -> &'static str {
        "64-bit index arithmetic in 32 bits, where the capture's sizes fit"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let mut found = Vec::new();
        let mut casts = scene.nodes("cast_expression");
        casts.extend(scene.nodes("call_expression"));
        casts.sort_by_key(|node| node.start_byte());
        let mut seen = Vec::new();
        for cast in casts.into_iter().filter(|cast| meaning.in_kernel(*cast)) {
            let whole = sum_around(&meaning, cast);
            if wide_cast(&meaning, cast).is_some() && !seen.contains(&whole.byte_range()) {
                seen.push(whole.byte_range());
                found.extend(without_casts(&meaning, whole));
            }
        }
        for declaration in scene
            .nodes("declaration")
            .into_iter()
            .filter(|node| meaning.in_kernel(*node))
        {
            found.extend(narrower(&meaning, declaration));
        }
        with_all(found, "all 64-bit indices")
    }
}

fn is_wide(ty: &Type) -> bool {
    matches!(ty, Type::Integer { bits: 64, .. })
}

/// What a cast to 64 bits is of.
fn wide_cast<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Option<Node<'a>> {
    let value = match node.kind() {
        "cast_expression" => node.child_by_field_name("value")?,
        "call_expression" => {
            let function = node.child_by_field_name("function")?;
            let cast = function.kind() == "template_function"
                && meaning.of(function).starts_with("static_cast")
                || function.kind() == "primitive_type";
            let arguments = node.child_by_field_name("arguments").filter(|_| cast)?;
            (arguments.named_child_count() == 1).then(|| arguments.named_child(0))??
        }
        _ => return None,
    };
    (is_wide(&meaning.type_of(node)) && matches!(meaning.type_of(value), Type::Integer { .. }))
        .then_some(value)
}

/// The whole sum or product of integers that a node belongs to.
fn sum_around<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Node<'a> {
    let mut whole = node;
    while let Some(parent) = whole.parent() {
        let goes_on = match parent.kind() {
            "parenthesized_expression" => true,
            "binary_expression" => {
                matches!(meaning.operator(parent), "+" | "-" | "*" | "/" | "%")
                    && meaning.type_of(parent).is_integer()
            }
            _ => false,
        };
        if !goes_on {
            break;
        }
        whole = parent;
    }
    whole
}

/// Whether every number in an integer expression fits an `int`; with anything unsigned in it, none is negative.
fn all_fit<'a>(meaning: &Meaning<'a>, whole: Node<'a>) -> bool {
    let (mut fit, mut unsigned, mut negative) = (true, false, false);
    walk(whole, &mut |node| {
        let counts = matches!(
            node.kind(),
            "binary_expression"
                | "unary_expression"
                | "identifier"
                | "number_literal"
                | "cast_expression"
                | "field_expression"
                | "call_expression"
        );
        if counts
            && node
                .parent()
                .is_none_or(|parent| parent.kind() != "field_expression")
        {
            let in_call = node.kind() == "identifier"
                && node.parent().is_some_and(|parent| {
                    matches!(parent.kind(), "call_expression" | "template_function")
                });
            if !in_call {
                match meaning.interval(node) {
                    Some(interval) => {
                        fit &= fits_int(interval);
                        negative |= interval.0 < 0;
                    }
                    None => fit = false,
                }
                unsigned |= matches!(meaning.type_of(node), Type::Integer { signed: false, .. });
            }
        }
        fit && !matches!(
            node.kind(),
            "field_expression" | "template_argument_list" | "type_descriptor"
        )
    });
    fit && !(unsigned && negative)
}

/// Whether a value's width does not matter where it stands: an index, an offset of a pointer, the value of an integer.
fn is_index<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> bool {
    let Some(parent) = node.parent() else {
        return false;
    };
    match parent.kind() {
        "subscript_argument_list" => parent.named_child_count() == 1,
        "binary_expression" => matches!(meaning.type_of(parent), Type::Pointer(_)),
        "init_declarator" => parent
            .parent()
            .filter(|declaration| {
                declaration
                    .child_by_field_name("type")
                    .is_some_and(|ty| ty.kind() != "placeholder_type_specifier")
            })
            .is_some_and(|declaration| {
                declarations(declaration)
                    .iter()
                    .filter(|variable| variable.declarator == parent)
                    .all(|variable| {
                        meaning.type_of_variable(variable).is_integer()
                            && !meaning.is_reference(variable.declarator)
                    })
            }),
        "assignment_expression" => {
            parent.child_by_field_name("right") == Some(node)
                && matches!(meaning.operator(parent), "=" | "+=" | "-=")
                && parent
                    .child_by_field_name("left")
                    .is_some_and(|left| meaning.type_of(left).is_integer())
        }
        _ => false,
    }
}

fn without_casts<'a>(meaning: &Meaning<'a>, whole: Node<'a>) -> Option<Proposal> {
    if !is_index(meaning, whole) || !all_fit(meaning, whole) {
        return None;
    }
    let mut casts = Vec::new();
    walk(whole, &mut |node| {
        if let Some(value) = wide_cast(meaning, node) {
            casts.push((node, value));
            return false;
        }
        true
    });
    let edits = casts
        .iter()
        .map(|(cast, value)| Edit::replace(cast.byte_range(), meaning.atom(bare(*value))))
        .collect();
    Some(Proposal::edit(
        whole,
        edits,
        format!("32 bits for `{}`", meaning.short(whole)),
    ))
}

fn narrower<'a>(meaning: &Meaning<'a>, declaration: Node<'a>) -> Option<Proposal> {
    let [variable] = declarations(declaration).try_into().ok()?;
    let ty = declaration.child_by_field_name("type")?;
    let plain = variable.declarator.child_by_field_name("declarator")? == variable.name;
    let value = variable.value()?;
    let words = meaning.of(declaration);
    if !plain
        || !is_wide(&meaning.type_of_variable(&variable))
        || ty.kind() == "placeholder_type_specifier"
        || words.contains("constexpr")
        || words.contains("__shared__")
        || words.contains("volatile")
        || !fits_int(meaning.interval(value)?)
    {
        return None;
    }
    let body = meaning.function(declaration)?.child_by_field_name("body")?;
    for used in meaning
        .uses(variable.name, body)
        .into_iter()
        .filter(|used| *used != variable.name)
    {
        // Its values fit, also in a loop's head, and so does all that is computed from it.
        if !fits_int(meaning.interval(used)?) || !goes_on_as_number(meaning, used) {
            return None;
        }
        let whole = sum_around(meaning, used);
        if !all_fit(meaning, whole) {
            return None;
        }
    }
    Some(Proposal::edit(
        declaration,
        vec![Edit::replace(ty.byte_range(), "int")],
        format!("{} in 32 bits", meaning.of(variable.name)),
    ))
}

/// Whether a number of 64 bits that fits an `int` compares as an `int` would: no negative number becomes a large one, neither before
/// nor then.
fn compares_alike<'a>(meaning: &Meaning<'a>, number: Node<'a>, comparison: Node<'a>) -> bool {
    let sides = ["left", "right"].map(|side| comparison.child_by_field_name(side));
    let Some(other) = sides.into_iter().flatten().find(|side| *side != number) else {
        return false;
    };
    let may_be_negative = |node| meaning.interval(node).is_none_or(|(low, _)| low < 0);
    let unsigned = matches!(meaning.type_of(number), Type::Integer { signed: false, .. });
    match meaning.type_of(other) {
        Type::Bool | Type::Float | Type::Double => true,
        Type::Integer { signed: true, .. } => !unsigned || !may_be_negative(other),
        Type::Integer { signed: false, .. } => !may_be_negative(number),
        _ => !may_be_negative(number) && !may_be_negative(other),
    }
}

/// Whether a variable is used as a number here, whose type does not matter.
fn goes_on_as_number<'a>(meaning: &Meaning<'a>, used: Node<'a>) -> bool {
    let whole = sum_around(meaning, used);
    let Some(parent) = whole.parent() else {
        return false;
    };
    if is_index(meaning, whole) {
        return true;
    }
    match parent.kind() {
        "binary_expression" => {
            matches!(
                meaning.operator(parent),
                "<" | "<=" | ">" | ">=" | "==" | "!="
            ) && compares_alike(meaning, whole, parent)
        }
        // The head of its loop.
        "update_expression" => true,
        "assignment_expression" => {
            whole == used
                && parent.child_by_field_name("left") == Some(used)
                && matches!(meaning.operator(parent), "+=" | "-=")
        }
        "cast_expression" => meaning.type_of(parent).is_number(),
        _ => false,
    }
}
