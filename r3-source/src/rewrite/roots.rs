//! Square roots and powers.
//!
//! The GPU has an instruction for `1 / sqrt(x)`; a division and a square root are tens of instructions each.

use tree_sitter::Node;

use super::constants;
use super::edit::Edit;
use super::loops::{indent, statement};
use super::meaning::{Meaning, bare};
use super::names::Binding;
use super::scene::Scene;
use super::types::Type;
use super::{Operator, Proposal, with_all};
use crate::tokens;

/// `a / sqrt(b)` becomes `a * rsqrt(b)`.
///
/// The divisor is a root, a product with roots in it, or a variable that begins as a root and keeps its value. The root is the
/// function of the language: nothing in the file has its name. Numerator, root and result are of one floating-point type that
/// the text tells. `s * sqrt(s)` in a divisor becomes three reciprocal roots when `s` has no effects.
pub struct ReciprocalRoot;

impl Operator for ReciprocalRoot {
    fn name(&self) -> &'static str {
        "rsqrt"
    }

    fn about(&self) -> &'static str {
        "a/sqrt(b) becomes a*rsqrt(b): for known floating-point types; rounds differently"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let mut found = Vec::new();
        for node in scene.nodes("binary_expression") {
            if meaning.computes(node) {
                found.extend(quotient(&meaning, node));
            }
        }
        for call in meaning.calls() {
            found.extend(root_of_reciprocal(&meaning, call));
        }
        let mut found = with_all(found, "all reciprocal square roots");
        for declaration in scene.nodes("declaration") {
            if meaning.computes(declaration) {
                found.extend(variable(&meaning, declaration));
            }
        }
        found
    }
}

/// The argument of a square root, and its type.
fn root<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Option<(Node<'a>, Type)> {
    let node = bare(node);
    let (name, arguments) = meaning.builtin_call(node)?;
    let [argument] = arguments.try_into().ok()?;
    let ty = match name {
        "sqrtf" | "__fsqrt_rn" => Type::Float,
        "__dsqrt_rn" => Type::Double,
        "sqrt" => meaning.type_of(node),
        _ => return None,
    };
    ty.is_floating().then_some((argument, ty))
}

fn reciprocal(ty: &Type) -> &'static str {
    match ty {
        Type::Double => "rsqrt",
        _ => "rsqrtf",
    }
}

/// Whether an expression is the number one.
pub fn is_one(meaning: &Meaning<'_>, node: Node<'_>) -> bool {
    let text = meaning.scene.unit.slice(bare(node).byte_range());
    bare(node).kind() == "number_literal"
        && (constants::floating(text) == Some(1.0)
            || text.trim_end_matches(['u', 'U', 'l', 'L']) == "1")
}

/// The factors of a product, from left to right.
pub fn factors<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Vec<Node<'a>> {
    let inner = bare(node);
    match meaning.binary(inner, "*") {
        Some((a, b)) => {
            let mut found = factors(meaning, a);
            found.extend(factors(meaning, b));
            found
        }
        None => vec![node],
    }
}

fn same(meaning: &Meaning<'_>, a: Node<'_>, b: Node<'_>) -> bool {
    let text =
        |node: Node<'_>| tokens::fingerprint(meaning.scene.unit.slice(bare(node).byte_range()));
    text(a) == text(b)
}

fn quotient<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Option<Proposal> {
    let (left, right) = meaning.binary(node, "/")?;
    let ty = meaning.type_of(node);
    let mut others = factors(meaning, right);
    let mut roots = Vec::new();
    others.retain(|factor| match root(meaning, *factor) {
        Some((argument, of)) if of == ty => {
            roots.push(argument);
            false
        }
        _ => true,
    });
    if roots.is_empty() || !meaning.type_of(left).is_number() {
        return None;
    }
    let name = reciprocal(&ty);
    let mut inverse = Vec::new();
    for argument in roots {
        let call = format!("{name}({})", meaning.of(argument));
        inverse.push(call.clone());
        // `s * sqrt(s)`: one over `s` is the square of what is there already.
        let twin = others
            .iter()
            .position(|factor| same(meaning, *factor, argument));
        if let Some(twin) =
            twin.filter(|_| meaning.is_pure(argument) && meaning.type_of(argument) == ty)
        {
            others.remove(twin);
            inverse.extend([call.clone(), call]);
        }
    }
    let inverse = match inverse.len() {
        1 => inverse.concat(),
        _ if is_one(meaning, left) => inverse.join(" * "),
        _ => format!("({})", inverse.join(" * ")),
    };
    // A product of whole numbers could be too large for them.
    if others
        .iter()
        .filter(|factor| meaning.type_of(**factor).is_integer())
        .count()
        > 1
    {
        return None;
    }
    let others: Vec<String> = others.iter().map(|factor| meaning.atom(*factor)).collect();
    // The root comes before the division, which must not become one of whole numbers.
    let numerator = match is_one(meaning, left) {
        true => inverse,
        false => format!("{} * {inverse}", meaning.of(left)),
    };
    let with = match others.as_slice() {
        [] => numerator,
        [other] => format!("{numerator} / {other}"),
        others => format!("{numerator} / ({})", others.join(" * ")),
    };
    Some(Proposal::replace(
        node,
        with,
        format!(
            "{} in place of the division by a square root in `{}`",
            name,
            meaning.short(node)
        ),
    ))
}

/// `sqrt(1 / x)`.
fn root_of_reciprocal<'a>(meaning: &Meaning<'a>, call: Node<'a>) -> Option<Proposal> {
    let (argument, ty) = root(meaning, call)?;
    let (left, right) = meaning.binary(bare(argument), "/")?;
    if !is_one(meaning, left) || meaning.type_of(argument) != ty {
        return None;
    }
    Some(Proposal::replace(
        call,
        format!("{}({})", reciprocal(&ty), meaning.of(right)),
        format!("{} in place of `{}`", reciprocal(&ty), meaning.short(call)),
    ))
}

/// `float d = sqrtf(e); … y / d`.
fn variable<'a>(meaning: &Meaning<'a>, declaration: Node<'a>) -> Option<Proposal> {
    let [variable] = super::names::declarations(declaration).try_into().ok()?;
    let value = variable.value()?;
    let (argument, ty) = root(meaning, value)?;
    let body = meaning.function(declaration)?.child_by_field_name("body")?;
    if statement(declaration)? != declaration
        || meaning.type_of_variable(&variable) != ty
        || !meaning.is_pure(argument)
        || meaning.may_change(variable.name, body)
        || meaning.of(declaration).contains("static")
    {
        return None;
    }
    let name = meaning.of(variable.name);
    let inverse = meaning.names.fresh(&format!("inverse_{name}"));
    let mut edits = Vec::new();
    for used in meaning.uses(variable.name, body) {
        let mut divisor = used;
        while let Some(parent) = divisor
            .parent()
            .filter(|parent| parent.kind() == "parenthesized_expression")
        {
            divisor = parent;
        }
        let Some(quotient) = divisor.parent() else {
            continue;
        };
        let Some((left, right)) = meaning.binary(quotient, "/") else {
            continue;
        };
        if right == divisor && meaning.type_of(quotient) == ty && meaning.type_of(left).is_number()
        {
            edits.push(match is_one(meaning, left) {
                true => Edit::replace(quotient.byte_range(), inverse.clone()),
                false => Edit::replace(left.end_byte()..right.end_byte(), format!(" * {inverse}")),
            });
        }
    }
    if edits.is_empty() {
        return None;
    }
    let blanks = indent(meaning.scene.unit.text(), declaration.start_byte());
    let words = ty.spelled()?;
    edits.push(Edit::insert(
        declaration.end_byte(),
        format!(
            "\n{blanks}const {words} {inverse} = {}({});",
            reciprocal(&ty),
            meaning.of(argument)
        ),
    ));
    Some(Proposal {
        at: declaration.byte_range(),
        choice: "variable".to_owned(),
        what: format!("{} in place of divisions by {name}", reciprocal(&ty)),
        edits,
        directive: None,
    })
}

/// `powf(x, 2.0f)` and the like become products and roots.
///
/// The exponent is a literal: whole numbers from 2 to 4, halves from -1.5 to 1.5, -1, -2. The base has no effects where it is
/// written more than once.
pub struct Powers;

impl Operator for Powers {
    fn name(&self) -> &'static str {
        "power"
    }

    fn about(&self) -> &'static str {
        "pow with a small constant exponent becomes products and roots; rounds differently"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let found = meaning
            .calls()
            .filter_map(|call| power(&meaning, call))
            .collect();
        with_all(found, "all powers with constant exponents")
    }
}

fn power<'a>(meaning: &Meaning<'a>, call: Node<'a>) -> Option<Proposal> {
    let (name, arguments) = meaning.builtin_call(call)?;
    let [base, exponent] = arguments.try_into().ok()?;
    if !matches!(name, "pow" | "powf" | "__powf") {
        return None;
    }
    let ty = meaning.type_of(call);
    if !ty.is_floating() || meaning.type_of(base) != ty {
        return None;
    }
    let (root, inverse, one) = match ty {
        Type::Float => ("sqrtf", "rsqrtf", "1.0f"),
        _ => ("sqrt", "rsqrt", "1.0"),
    };
    let (sign, digits) = match exponent.kind() {
        "unary_expression" if meaning.operator(exponent) == "-" => {
            (-1.0, exponent.child_by_field_name("argument")?)
        }
        _ => (1.0, bare(exponent)),
    };
    let text = meaning.of(digits);
    let value = sign
        * constants::floating(text)
            .or_else(|| constants::integer(text).map(|value| value as f64))?;
    let x = meaning.atom(base);
    let plain = meaning.of(base);
    let pure = meaning.is_pure(base);
    let with = match (value * 2.0) as i32 {
        _ if (value * 2.0).fract() != 0.0 => return None,
        1 => format!("{root}({plain})"),
        -1 => format!("{inverse}({plain})"),
        2 => format!("({plain})"),
        -2 => format!("({one} / {x})"),
        _ if !pure => return None,
        3 => format!("({x} * {root}({plain}))"),
        -3 => format!("({inverse}({plain}) * {inverse}({plain}) * {inverse}({plain}))"),
        4 => format!("({x} * {x})"),
        -4 => format!("({one} / ({x} * {x}))"),
        6 => format!("({x} * {x} * {x})"),
        8 => format!("(({x} * {x}) * ({x} * {x}))"),
        _ => return None,
    };
    Some(Proposal::replace(
        call,
        with,
        format!("products and roots in place of `{}`", meaning.short(call)),
    ))
}

/// `exp(a) * exp(b)` becomes `exp(a + b)`.
///
/// The factors are calls, or variables that begin as such a call, are used here only, and whose declarations stand before in the
/// same block with nothing in between that changes what they are computed from.
pub struct Exponentials;

impl Operator for Exponentials {
    fn name(&self) -> &'static str {
        "merge-exponentials"
    }

    fn about(&self) -> &'static str {
        "exp(a)*exp(b) becomes exp(a+b): one exponential less; rounds differently"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        scene
            .nodes("binary_expression")
            .into_iter()
            .filter(|node| meaning.computes(*node) && meaning.binary(*node, "*").is_some())
            // The outermost product.
            .filter(|node| {
                let mut parent = node.parent();
                while let Some(inner) =
                    parent.filter(|inner| inner.kind() == "parenthesized_expression")
                {
                    parent = inner.parent();
                }
                parent.is_none_or(|parent| meaning.binary(parent, "*").is_none())
            })
            .filter_map(|node| product_of_exponentials(&meaning, node))
            .collect()
    }
}

/// What an exponential is of, and the declaration that goes when it is used.
fn exponential<'a>(
    meaning: &Meaning<'a>,
    factor: Node<'a>,
) -> Option<(&'a str, Node<'a>, Option<Node<'a>>)> {
    let factor = bare(factor);
    if factor.kind() != "identifier" {
        let (name, arguments) = meaning.builtin_call(factor)?;
        let [argument] = arguments.try_into().ok()?;
        return matches!(name, "exp" | "expf" | "__expf").then_some((name, argument, None));
    }
    let Binding::Local(variable) = meaning.names.resolve(factor) else {
        return None;
    };
    let declaration = variable.declaration;
    let (name, argument, _) = exponential(
        meaning,
        variable
            .value()
            .filter(|value| bare(*value).kind() != "identifier")?,
    )?;
    let body = meaning.function(factor)?.child_by_field_name("body")?;
    let here = statement(factor)?;
    let uses = meaning.uses(factor, body).len();
    let mut between = declaration.next_named_sibling();
    while let Some(node) = between.filter(|node| *node != here) {
        if !meaning.names_keep(argument, node)
            || meaning.reads_memory(argument) && !meaning.writes(node).is_empty()
        {
            return None;
        }
        between = node.next_named_sibling();
    }
    let sound = uses == 2
        && super::names::declarations(declaration).len() == 1
        && declaration.parent() == here.parent()
        && between == Some(here)
        && matches!(here.kind(), "declaration" | "expression_statement")
        && meaning.is_pure(argument)
        && meaning.type_of_variable(&variable) == meaning.type_of(variable.value()?);
    sound.then_some((name, argument, Some(declaration)))
}

fn product_of_exponentials<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Option<Proposal> {
    let ty = meaning.type_of(node);
    if !ty.is_floating() {
        return None;
    }
    let all = factors(meaning, node);
    let mut found = Vec::new();
    let mut others = Vec::new();
    for factor in &all {
        match exponential(meaning, *factor) {
            Some(one) if meaning.type_of(*factor) == ty => found.push(one),
            _ => others.push(meaning.atom(*factor)),
        }
    }
    let (name, ..) = *found.first()?;
    if found.len() < 2 || found.iter().any(|(other, ..)| *other != name) {
        return None;
    }
    let sum: Vec<String> = found
        .iter()
        .map(|(_, argument, _)| meaning.term(*argument))
        .collect();
    let call = format!("{name}({})", sum.join(" + "));
    others.push(call);
    let mut edits = vec![Edit::replace(node.byte_range(), others.join(" * "))];
    for declaration in found.iter().filter_map(|(.., declaration)| *declaration) {
        edits.push(meaning.scene.remove_line(declaration.byte_range()));
    }
    Some(Proposal {
        at: node.byte_range(),
        choice: String::new(),
        what: format!(
            "one exponential in place of {} in `{}`",
            found.len(),
            meaning.short(node)
        ),
        edits,
        directive: None,
    })
}
