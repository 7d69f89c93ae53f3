//! Functions of the GPU's special unit, and multiplications fused with additions.

use tree_sitter::Node;

use super::edit::Edit;
use super::meaning::{Meaning, bare};
use super::scene::Scene;
use super::types::Type;
use super::{Operator, Proposal, with_all};

/// Functions in single precision and their fast forms.
const FAST: &[(&str, &str)] = &[
    ("sin", "__sinf"),
    ("cos", "__cosf"),
    ("tan", "__tanf"),
    ("exp", "__expf"),
    ("exp10", "__exp10f"),
    ("log", "__logf"),
    ("log2", "__log2f"),
    ("log10", "__log10f"),
    ("pow", "__powf"),
];

/// `sinf(x)` becomes `__sinf(x)`, and so on for exponentials, logarithms, powers and `sincosf`.
///
/// The function is that of the language in single precision: by its name (`sinf`), or by the type of its argument (`sin` of a
/// `float`). Nothing in the file has its name. Errors grow with the argument.
pub struct Fast;

impl Operator for Fast {
    fn name(&self) -> &'static str {
        "fast-intrinsics"
    }

    fn about(&self) -> &'static str {
        "sinf, cosf, expf, logf, powf, sincosf become the GPU's fast forms; less exact, most of all for large arguments"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let found = meaning
            .calls()
            .filter_map(|call| fast(&meaning, call))
            .collect();
        with_all(found, "all functions that have a fast form")
    }
}

fn fast<'a>(meaning: &Meaning<'a>, call: Node<'a>) -> Option<Proposal> {
    let (name, arguments) = meaning.builtin_call(call)?;
    let with = match name {
        "sincosf" if arguments.len() == 3 => "__sincosf",
        _ => {
            if meaning.type_of(call) != Type::Float {
                return None;
            }
            let plain = name.strip_suffix('f').unwrap_or(name);
            let (_, with) = FAST
                .iter()
                .find(|(slow, _)| *slow == name || *slow == plain)?;
            with
        }
    };
    let function = call.child_by_field_name("function")?;
    Some(Proposal::edit(
        call,
        vec![Edit::replace(function.byte_range(), with)],
        format!("{with} in place of {name} in `{}`", meaning.short(call)),
    ))
}

/// `a / b` becomes `__fdividef(a, b)`.
///
/// Both are numbers, and the result is of type `float`. For a divisor beyond 2^126 the result is 0.
pub struct FastDivision;

impl Operator for FastDivision {
    fn name(&self) -> &'static str {
        "fast-division"
    }

    fn about(&self) -> &'static str {
        "a division of floats becomes __fdividef; wrong in the last bits, and 0 for a divisor beyond 2^126"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let found = scene
            .nodes("binary_expression")
            .into_iter()
            .filter(|node| meaning.computes(*node))
            .filter_map(|node| {
                let (left, right) = meaning.binary(node, "/")?;
                // A constant divisor is for another operator.
                let float =
                    meaning.type_of(node) == Type::Float && bare(right).kind() != "number_literal";
                let between = meaning
                    .scene
                    .unit
                    .slice(left.end_byte()..right.start_byte());
                (float && between.trim() == "/").then(|| {
                    let edits = vec![
                        Edit::insert(left.start_byte(), "__fdividef("),
                        Edit::replace(left.end_byte()..right.start_byte(), ", "),
                        Edit::insert(right.end_byte(), ")"),
                    ];
                    Proposal::edit(
                        node,
                        edits,
                        format!("__fdividef in place of `{}`", meaning.short(node)),
                    )
                })
            })
            .collect();
        with_all(found, "all divisions of floats")
    }
}

/// `a * b + c` becomes `fmaf(a, b, c)`.
///
/// All three are of one floating-point type. A compiler that may fuse has done it already, though perhaps with other terms.
pub struct Fused;

impl Operator for Fused {
    fn name(&self) -> &'static str {
        "fused-multiply-add"
    }

    fn about(&self) -> &'static str {
        "a*b+c becomes fma(a,b,c): one rounding less"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let mut found: Vec<Proposal> = scene
            .nodes("binary_expression")
            .into_iter()
            .filter(|node| meaning.computes(*node))
            .filter_map(|node| fused(&meaning, node))
            .collect();
        let updates = scene
            .nodes("assignment_expression")
            .into_iter()
            .filter(|node| meaning.computes(*node))
            .filter_map(|node| fused_update(&meaning, node));
        found.extend(updates);
        with_all(found, "all products with a sum")
    }
}

fn function(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::Float => Some("fmaf"),
        Type::Double => Some("fma"),
        _ => None,
    }
}

fn product<'a>(meaning: &Meaning<'a>, node: Node<'a>, ty: &Type) -> Option<(&'a str, &'a str)> {
    let (a, b) = meaning.binary(bare(node), "*")?;
    (meaning.type_of(a) == *ty && meaning.type_of(b) == *ty).then(|| (meaning.of(a), meaning.of(b)))
}

fn fused<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Option<Proposal> {
    let ty = meaning.type_of(node);
    let name = function(&ty)?;
    let with = if let Some((left, right)) = meaning.binary(node, "+") {
        if meaning.type_of(left) != ty || meaning.type_of(right) != ty {
            return None;
        }
        match (product(meaning, left, &ty), product(meaning, right, &ty)) {
            (Some((a, b)), _) => format!("{name}({a}, {b}, {})", meaning.of(right)),
            (None, Some((a, b))) => format!("{name}({a}, {b}, {})", meaning.of(left)),
            (None, None) => return None,
        }
    } else {
        let (left, right) = meaning.binary(node, "-")?;
        if meaning.type_of(left) != ty || meaning.type_of(right) != ty {
            return None;
        }
        match product(meaning, left, &ty) {
            Some((a, b)) => format!("{name}({a}, {b}, -{})", meaning.atom(right)),
            None => {
                let (a, b) = product(meaning, right, &ty)?;
                format!("{name}(-({a}), {b}, {})", meaning.of(left))
            }
        }
    };
    Some(Proposal::replace(
        node,
        with,
        format!("{name} for `{}`", meaning.short(node)),
    ))
}

fn fused_update<'a>(meaning: &Meaning<'a>, node: Node<'a>) -> Option<Proposal> {
    let (left, right) = (
        node.child_by_field_name("left")?,
        node.child_by_field_name("right")?,
    );
    let ty = meaning.type_of(left);
    let name = function(&ty)?;
    if meaning.operator(node) != "+=" || !meaning.is_pure(left) {
        return None;
    }
    let (a, b) = product(meaning, right, &ty)?;
    let target = meaning.of(left);
    Some(Proposal::replace(
        node,
        format!("{target} = {name}({a}, {b}, {target})"),
        format!("{name} for `{}`", meaning.short(node)),
    ))
}

/// `x * 0.5` with a `float x` becomes `x * 0.5f`.
///
/// The literal has no suffix and the other side of the operator is of type `float`, so that the operation was done in double
/// precision.
pub struct SingleLiterals;

impl Operator for SingleLiterals {
    fn name(&self) -> &'static str {
        "single-precision-literals"
    }

    fn about(&self) -> &'static str {
        "literals without suffix beside a float become floats, so that the operation is not done in double precision"
    }

    fn exact(&self) -> bool {
        false
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let found = scene
            .nodes("number_literal")
            .into_iter()
            .filter(|node| meaning.computes(*node) && meaning.type_of(*node) == Type::Double)
            .filter_map(|node| {
                let mut inner = node;
                let mut parent = node.parent()?;
                while matches!(
                    parent.kind(),
                    "parenthesized_expression" | "unary_expression"
                ) {
                    inner = parent;
                    parent = parent.parent()?;
                }
                if parent.kind() != "binary_expression" {
                    return None;
                }
                let (left, right) = (
                    parent.child_by_field_name("left")?,
                    parent.child_by_field_name("right")?,
                );
                let other = if left == inner { right } else { left };
                let text = meaning.of(node);
                let fits = text.parse::<f32>().is_ok_and(|value| {
                    value.is_finite()
                        && (value != 0.0
                            || !text.contains(['1', '2', '3', '4', '5', '6', '7', '8', '9']))
                });
                (meaning.type_of(other) == Type::Float && fits).then(|| {
                    Proposal::edit(
                        node,
                        vec![Edit::insert(node.end_byte(), "f")],
                        format!(
                            "single precision for {} in `{}`",
                            meaning.of(node),
                            meaning.short(parent)
                        ),
                    )
                })
            })
            .collect();
        with_all(found, "all literals beside floats")
    }
}
