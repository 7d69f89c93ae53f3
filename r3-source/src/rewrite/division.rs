//! Divisions.

use tree_sitter::Node;

use super::constants;
use super::edit::Edit;
use super::loops::{beginning, indent, statement};
use super::meaning::{Meaning, bare};
use super::names::Binding;
use super::roots::is_one;
use super::scene::Scene;
use super::types::Type;
use super::{Operator, Proposal, with_all};
use crate::tokens;

/// `x / 2.0f` becomes `x * 0.5f`.
///
/// The divisor is a literal power of two whose reciprocal is a normal number of the result's type, so that both round alike.
pub struct PowerOfTwo;

impl Operator for PowerOfTwo {
    fn name(&self) -> &'static str {
        "divide-by-power-of-two"
    }

    fn about(&self) -> &'static str {
        "a floating-point division by a power of two becomes a multiplication; gives the same numbers"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let found = quotients(&meaning)
            .filter_map(|(node, left, right, ty)| {
                let value = number(&meaning, right)?;
                let limit = if ty == Type::Float { 126 } else { 1022 };
                let exponent = value.abs().log2();
                let exact = exponent.fract() == 0.0
                    && exponent.abs() <= f64::from(limit)
                    && (exponent as i32).abs() <= limit
                    && 2f64.powi(exponent as i32) == value.abs();
                exact.then(|| {
                    let suffix = if ty == Type::Float { "f" } else { "" };
                    Proposal::edit(
                        node,
                        vec![Edit::replace(
                            left.end_byte()..right.end_byte(),
                            format!(" * {:?}{suffix}", 1.0 / value),
                        )],
                        format!(
                            "a multiplication in place of the division in `{}`",
                            meaning.short(node)
                        ),
                    )
                })
            })
            .collect();
        with_all(found, "all divisions by powers of two")
    }
}

/// `x / 3.0f` becomes `x * (1.0f / 3.0f)`.
///
/// The divisor is a literal that is not zero, or a constant of the text. The reciprocal is computed by the compiler.
pub struct Constant;

impl Operator for Constant {
    fn name(&self) -> &'static str {
        "divide-by-constant"
    }

    fn about(&self) -> &'static str {
        "a floating-point division by a constant becomes a multiplication by its reciprocal; rounds differently"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let found = quotients(&meaning)
            .filter_map(|(node, left, right, ty)| {
                let fixed = number(&meaning, right).is_some_and(|value| value != 0.0)
                    || is_named_constant(&meaning, right);
                let sound = fixed && !is_one(&meaning, left) && meaning.type_of(right).is_number();
                sound.then(|| {
                    let with = format!(" * ({} / {})", one(&ty), meaning.atom(right));
                    Proposal::edit(
                        node,
                        vec![Edit::replace(left.end_byte()..right.end_byte(), with)],
                        format!(
                            "a multiplication in place of the division in `{}`",
                            meaning.short(node)
                        ),
                    )
                })
            })
            .collect();
        with_all(found, "all divisions by constants")
    }
}

fn one(ty: &Type) -> &'static str {
    match ty {
        Type::Double => "1.0",
        _ => "1.0f",
    }
}

/// All floating-point divisions with their sides and type.
fn quotients<'m, 'a>(
    meaning: &'m Meaning<'a>,
) -> impl Iterator<Item = (Node<'a>, Node<'a>, Node<'a>, Type)> + 'm {
    meaning
        .scene
        .nodes("binary_expression")
        .into_iter()
        .filter(|node| meaning.computes(*node))
        .filter_map(|node| {
            let (left, right) = meaning.binary(node, "/")?;
            let ty = meaning.type_of(node);
            ty.is_floating().then_some((node, left, right, ty))
        })
}

/// The value of a literal with its sign.
fn number(meaning: &Meaning<'_>, node: Node<'_>) -> Option<f64> {
    let node = bare(node);
    let unit = meaning.scene.unit;
    let text = unit.slice(node.byte_range());
    match node.kind() {
        "number_literal" => constants::floating(text)
            .filter(|_| super::types::literal(text).is_floating())
            .or_else(|| {
                constants::integer(text.trim_end_matches(['u', 'U', 'l', 'L']))
                    .map(|value| value as f64)
            }),
        "unary_expression" if text.starts_with('-') => {
            Some(-number(meaning, node.child_by_field_name("argument")?)?)
        }
        _ => None,
    }
}

/// Whether a name stands for a constant that is not zero.
fn is_named_constant<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> bool {
    let node = bare(node);
    if node.kind() != "identifier" {
        return false;
    }
    match meaning.names.resolve(node) {
        Binding::Local(variable) | Binding::File(variable) => {
            let words = meaning.of(variable.declaration);
            let fixed = words
                .split_whitespace()
                .take(4)
                .any(|word| word == "constexpr" || word == "const");
            fixed
                && !["__device__", "__constant__", "__shared__", "volatile"]
                    .iter()
                    .any(|word| words.contains(word))
                && variable
                    .value()
                    .and_then(|value| number(meaning, value))
                    .is_some_and(|value| value != 0.0)
        }
        _ => false,
    }
}

/// Divisions by one value become multiplications by its reciprocal, which is computed once.
///
/// The divisor is a parameter or a variable that keeps its value from its declaration on and divides at least twice, or in a loop;
/// or an expression without memory and effects whose names keep their values in a loop. It is of a floating-point type, or of a
/// whole one in a floating-point division.
pub struct SharedDivisor;

impl Operator for SharedDivisor {
    fn name(&self) -> &'static str {
        "invert-divisor"
    }

    fn about(&self) -> &'static str {
        "divisions by one value become multiplications by its reciprocal, which is computed once; rounds differently"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let mut found: Vec<Proposal> = Vec::new();
        let mut seen = Vec::new();
        for (node, _, right, ty) in quotients(&meaning) {
            let Some(place) = place(&meaning, right) else {
                continue;
            };
            let key = (
                place.at,
                tokens::fingerprint(meaning.of(bare(right))),
                ty.clone(),
            );
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            found.extend(shared(&meaning, node, right, &ty, place));
        }
        found
    }
}

/// Where the reciprocal is computed, and where it may be used.
struct Place<'a> {
    at: usize,
    before: String,
    after: String,
    within: Node<'a>,
    often: bool,
}

fn place<'a>(meaning: &Meaning<'a>, divisor: Node<'a>) -> Option<Place<'a>> {
    let inner = bare(divisor);
    let text = meaning.scene.unit.text();
    if inner.kind() == "number_literal"
        || !meaning.is_pure(inner)
        || meaning.reads_memory(inner)
        || !meaning.type_of(inner).is_number()
    {
        return None;
    }
    if inner.kind() == "identifier" && !is_named_constant(meaning, inner) {
        let body = meaning.function(inner)?.child_by_field_name("body")?;
        if meaning.may_change(inner, body) || meaning.address_taken(inner) {
            return None;
        }
        return match meaning.names.resolve(inner) {
            Binding::Parameter(..) => {
                let first = body.named_child(0)?;
                Some(Place {
                    at: body.start_byte() + 1,
                    before: format!("\n{}", indent(text, first.start_byte())),
                    after: String::new(),
                    within: body,
                    often: false,
                })
            }
            Binding::Local(variable)
                if statement(variable.declaration)? == variable.declaration
                    && variable.value().is_some() =>
            {
                Some(Place {
                    at: variable.declaration.end_byte(),
                    before: format!("\n{}", indent(text, variable.declaration.start_byte())),
                    after: String::new(),
                    within: variable.declaration.parent()?,
                    often: false,
                })
            }
            _ => None,
        };
    }
    // The outermost loop in which it keeps its value.
    let mut outermost = None;
    let mut parent = inner.parent();
    while let Some(node) = parent.filter(|node| node.kind() != "function_definition") {
        let repeats = matches!(
            node.kind(),
            "for_statement" | "while_statement" | "do_statement"
        );
        if repeats && !is_named_constant(meaning, inner) {
            let whole = statement(node)?;
            match meaning.is_invariant(inner, whole) {
                true => outermost = Some(whole),
                false => break,
            }
        }
        parent = node.parent();
    }
    let whole = outermost?;
    let at = beginning(whole);
    Some(Place {
        at,
        before: String::new(),
        after: format!("\n{}", indent(text, at)),
        within: whole,
        often: true,
    })
}

fn shared<'a>(
    meaning: &Meaning<'a>,
    node: Node<'a>,
    divisor: Node<'a>,
    ty: &Type,
    place: Place<'a>,
) -> Option<Proposal> {
    let inner = bare(divisor);
    let wanted = tokens::fingerprint(meaning.of(inner));
    let binding = (inner.kind() == "identifier").then(|| meaning.names.resolve(inner));
    let like = match inner.kind() {
        "identifier" => format!("inverse_{}", meaning.of(inner)),
        _ => "inverse".to_owned(),
    };
    let inverse = meaning.names.fresh(&like);
    let inside = place.within.byte_range();
    let mut edits = Vec::new();
    let mut often = place.often;
    for (other, left, right, of) in quotients(meaning) {
        let right_inner = bare(right);
        let same = of == *ty
            && super::loops::encloses(&inside, &other.byte_range())
            && other.start_byte() >= place.at
            && tokens::fingerprint(meaning.of(right_inner)) == wanted
            && match binding {
                Some(binding) => meaning.names.resolve(right_inner) == binding,
                None => meaning.is_invariant(right_inner, place.within),
            };
        if !same {
            continue;
        }
        often |= in_loop(other, place.within);
        edits.push(match is_one(meaning, left) {
            true => Edit::replace(other.byte_range(), inverse.clone()),
            false => Edit::replace(left.end_byte()..right.end_byte(), format!(" * {inverse}")),
        });
    }
    if edits.len() < 2 && !often {
        return None;
    }
    let count = edits.len();
    let declaration = format!(
        "{}const {} {inverse} = {} / {};{}",
        place.before,
        ty.spelled()?,
        one(ty),
        meaning.atom(inner),
        place.after
    );
    edits.insert(0, Edit::insert(place.at, declaration));
    Some(Proposal {
        at: node.byte_range(),
        choice: String::new(),
        what: match count {
            1 => format!(
                "a reciprocal of `{}` outside the loop",
                meaning.short(inner)
            ),
            _ => format!(
                "one reciprocal of `{}` in place of {count} divisions",
                meaning.short(inner)
            ),
        },
        edits,
        directive: None,
    })
}

/// Whether a loop stands between a node and what is around it.
fn in_loop(node: Node<'_>, around: Node<'_>) -> bool {
    let mut parent = node.parent();
    while let Some(inner) = parent.filter(|inner| *inner != around) {
        if matches!(
            inner.kind(),
            "for_statement" | "while_statement" | "do_statement"
        ) {
            return true;
        }
        parent = inner.parent();
    }
    false
}
