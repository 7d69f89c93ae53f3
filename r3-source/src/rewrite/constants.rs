//! Numbers that are known before a kernel runs.

use tree_sitter::Node;

use super::facts::Known;
use super::meaning::Meaning;
use super::names::Binding;

/// The value of an integer as it is written, without a suffix.
pub fn integer(digits: &str) -> Option<i128> {
    let plain = digits.replace('\'', "").to_ascii_lowercase();
    match plain.strip_prefix("0x") {
        Some(rest) => i128::from_str_radix(rest, 16).ok(),
        None => match plain.strip_prefix("0b") {
            Some(rest) => i128::from_str_radix(rest, 2).ok(),
            None if plain.len() > 1 && plain.starts_with('0') => {
                i128::from_str_radix(&plain, 8).ok()
            }
            None => plain.parse().ok(),
        },
    }
}

/// The value of a floating-point number as it is written.
pub fn floating(text: &str) -> Option<f64> {
    let plain = text.replace('\'', "").to_ascii_lowercase();
    if plain.starts_with("0x") {
        return None;
    }
    let value: f64 = plain.trim_end_matches('f').parse().ok()?;
    // As single precision has it.
    match plain.ends_with('f') {
        true => Some(f64::from(plain.trim_end_matches('f').parse::<f32>().ok()?)),
        false => Some(value),
    }
}

const FURTHEST: u32 = 16;

impl<'a> Meaning<'a> {
    /// The value of an integer expression, where the text alone says it.
    pub fn constant(&self, node: Node<'a>) -> Option<i128> {
        self.evaluate(node, false, FURTHEST)
    }

    /// The value of an integer expression, where the text or the capture says it.
    pub fn known(&self, node: Node<'a>) -> Option<i128> {
        self.evaluate(node, true, FURTHEST)
    }

    fn evaluate(&self, node: Node<'a>, facts: bool, left: u32) -> Option<i128> {
        let left = left.checked_sub(1)?;
        let field = |name| node.child_by_field_name(name);
        let value = |node| self.evaluate(node, facts, left);
        match node.kind() {
            "number_literal" => {
                let text = self.of(node);
                match super::types::literal(text).is_integer() {
                    true => integer(text.trim_end_matches(['u', 'U', 'l', 'L', 'z', 'Z'])),
                    false => None,
                }
            }
            "parenthesized_expression" => value(node.named_child(0)?),
            "unary_expression" => match self.operator(node) {
                "-" => value(field("argument")?)?.checked_neg(),
                "+" => value(field("argument")?),
                _ => None,
            },
            "binary_expression" => {
                let (a, b) = (value(field("left")?)?, value(field("right")?)?);
                match self.operator(node) {
                    "+" => a.checked_add(b),
                    "-" => a.checked_sub(b),
                    "*" => a.checked_mul(b),
                    "/" => a.checked_div(b),
                    "%" => a.checked_rem(b),
                    "<<" => (0..=62).contains(&b).then(|| a.checked_mul(1 << b))?,
                    ">>" => (0..=62).contains(&b).then(|| a >> b),
                    _ => None,
                }
            }
            "identifier" => match self.names.resolve(node) {
                Binding::Macro => {
                    let text = self.names.macros().value(self.of(node))?;
                    let text = text.trim_start_matches('(').trim_end_matches(')').trim();
                    integer(text.trim_end_matches(['u', 'U', 'l', 'L']))
                }
                Binding::Local(variable) | Binding::File(variable) => {
                    let words = self.of(variable.declaration);
                    let fixed = words
                        .split_whitespace()
                        .take(4)
                        .any(|word| matches!(word, "const" | "constexpr"));
                    let device = ["__device__", "__constant__", "__shared__", "volatile"];
                    let plain = self.type_of_variable(&variable).is_integer();
                    (fixed && plain && !device.iter().any(|word| words.contains(word)))
                        .then(|| variable.value().and_then(value))?
                }
                Binding::Parameter(_, function, index) if facts => {
                    self.parameter(node, function, index)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The value of the kernel's parameter, if it keeps it.
    fn parameter(&self, node: Node<'a>, function: Node<'a>, index: usize) -> Option<i128> {
        if function.byte_range() != self.scene.kernel.definition {
            return None;
        }
        let Known::Integer(value) = self.scene.facts.parameter(index) else {
            return None;
        };
        let body = function.child_by_field_name("body")?;
        (!self.may_change(node, body)).then_some(i128::from(value))
    }
}
