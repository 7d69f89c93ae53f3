//! Between which numbers an integer lies, and what it leaves when it is divided.
//!
//! What is known of a launch (numbers of blocks and threads, values of arguments) makes bounds for what is computed from it. A search
//! also tries other blocks for the same work, down to a warp: bounds hold for these as well.

use tree_sitter::Node;

use super::meaning::{Meaning, bare};
use super::names::Binding;
use super::types::Type;
use super::{loops::encloses, tables};

/// Least and greatest value.
pub type Interval = (i128, i128);

/// The largest block.
const BLOCK: i128 = 1024;

/// The smallest block that is tried.
const WARP: i128 = 32;

const FURTHEST: u32 = 24;

/// What fits an `int`.
pub fn fits_int((low, high): Interval) -> bool {
    low >= i128::from(i32::MIN) && high <= i128::from(i32::MAX)
}

impl<'a> Meaning<'a> {
    /// Between which numbers an integer expression lies, where that is known.
    pub fn interval(&self, node: Node<'a>) -> Option<Interval> {
        self.within(node, FURTHEST)
    }

    /// What its type makes of the number that an expression is: it can be any of the type when that number is none of them.
    fn within(&self, node: Node<'a>, left: u32) -> Option<Interval> {
        let (low, high) = self.unbounded(node, left)?;
        let Type::Integer { bits, signed } = self.type_of(bare(node)) else {
            return Some((low, high));
        };
        let values = 1i128.checked_shl(u32::from(bits))?;
        let (least, most) = match signed {
            true => (-values / 2, values / 2 - 1),
            false => (0, values - 1),
        };
        Some(match least <= low && high <= most {
            true => (low, high),
            false => (least, most),
        })
    }

    fn unbounded(&self, node: Node<'a>, left: u32) -> Option<Interval> {
        let left = left.checked_sub(1)?;
        let node = bare(node);
        if let Some(value) = self.known(node) {
            return Some((value, value));
        }
        if self.linear_index(node).is_some() {
            return self.threads().map(|threads| (0, 2 * threads + BLOCK));
        }
        if self.is_thread_count(node) {
            return self.threads().map(|threads| (1, 2 * threads + BLOCK));
        }
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "field_expression" => self.geometry(node),
            "identifier" => self.variable(node, left),
            "unary_expression" if self.operator(node) == "-" => {
                let (low, high) = self.within(field("argument")?, left)?;
                Some((-high, -low))
            }
            "cast_expression" | "call_expression" => {
                if let Some(inner) = self.cast_of(node) {
                    return self.within(inner, left);
                }
                let (name, arguments) = self.builtin_call(node)?;
                let [a, b] = arguments.try_into().ok()?;
                let ((a, b), (c, d)) = (self.within(a, left)?, self.within(b, left)?);
                match name {
                    "min" => Some((a.min(c), b.min(d))),
                    "max" => Some((a.max(c), b.max(d))),
                    _ => None,
                }
            }
            "conditional_expression" => {
                let (a, b) = self.within(field("consequence")?, left)?;
                let (c, d) = self.within(field("alternative")?, left)?;
                Some((a.min(c), b.max(d)))
            }
            "binary_expression" => self.combined(node, left),
            _ => None,
        }
    }

    fn combined(&self, node: Node<'a>, left: u32) -> Option<Interval> {
        let (x, y) = (
            node.child_by_field_name("left")?,
            node.child_by_field_name("right")?,
        );
        let operator = self.operator(node);
        let second = self.within(y, left);
        if operator == "%" {
            // What the first is does not matter, as long as it is not negative.
            let (_, most) = second.filter(|(least, _)| *least > 0)?;
            let low = match self.within(x, left) {
                Some((low, _)) if low >= 0 => 0,
                Some(_) => 1 - most,
                None => match self.type_of(x) {
                    Type::Integer { signed: false, .. } => 0,
                    _ => 1 - most,
                },
            };
            return Some((low, most - 1));
        }
        if operator == "&" {
            let (low, high) = second?;
            return (low >= 0).then_some((0, high));
        }
        let ((a, b), (c, d)) = (self.within(x, left)?, second?);
        match operator {
            "+" => Some((a.checked_add(c)?, b.checked_add(d)?)),
            "-" => Some((a.checked_sub(d)?, b.checked_sub(c)?)),
            "*" => hull([
                a.checked_mul(c)?,
                a.checked_mul(d)?,
                b.checked_mul(c)?,
                b.checked_mul(d)?,
            ]),
            "/" if c > 0 => hull([a / c, a / d, b / c, b / d]),
            ">>" if a >= 0 && c >= 0 && d < 63 => Some((a >> d, b >> c)),
            "<<" if a >= 0 && c >= 0 && d < 63 => {
                Some((a.checked_mul(1 << c)?, b.checked_mul(1 << d)?))
            }
            _ => None,
        }
    }

    /// All threads of a launch.
    fn threads(&self) -> Option<i128> {
        let threads = i128::from(self.scene.facts.threads()?);
        let grid = self.scene.facts.grid?;
        Some(
            grid.iter()
                .map(|blocks| i128::from(*blocks))
                .product::<i128>()
                * threads,
        )
    }

    fn geometry(&self, node: Node<'a>) -> Option<Interval> {
        let argument = node.child_by_field_name("argument")?;
        if argument.kind() != "identifier"
            || !self.names.is_builtin(argument)
            || !tables::GEOMETRY.contains(&self.of(argument))
        {
            return None;
        }
        let axis = ["x", "y", "z"].iter().position(|axis| {
            node.child_by_field_name("field")
                .is_some_and(|field| self.of(field) == *axis)
        })?;
        let blocks = || {
            let blocks = i128::from(*self.scene.facts.grid?.get(axis)?);
            let threads = i128::from(*self.scene.facts.block?.get(axis)?);
            Some((blocks * threads).div_euclid(WARP).max(blocks) + 1)
        };
        match self.of(argument) {
            "threadIdx" => Some((0, BLOCK - 1)),
            "blockDim" => Some((1, BLOCK)),
            "blockIdx" => Some((0, blocks()?)),
            _ => Some((1, blocks()?)),
        }
    }

    fn variable(&self, node: Node<'a>, left: u32) -> Option<Interval> {
        let Binding::Local(variable) = self.names.resolve(node) else {
            return None;
        };
        if !self.type_of_variable(&variable).is_integer() || self.address_taken(node) {
            return None;
        }
        let value = variable.value()?;
        let around = variable.declaration.parent()?;
        if around.kind() == "for_statement"
            && around.child_by_field_name("initializer") == Some(variable.declaration)
        {
            let found = self.counting(around)?;
            let inside = encloses(&found.body.byte_range(), &node.byte_range());
            let (start, bound) = (
                self.within(found.start, left)?,
                self.within(found.bound, left)?,
            );
            let (least, most) = match found.step {
                Some(step) => self.within(step, left)?,
                None => (1, 1),
            };
            if least <= 0 {
                return None;
            }
            // In its head the counter goes past its end, by a step.
            let past = if inside { 0 } else { most };
            return Some(match (found.up, found.comparison) {
                (true, "<") => (start.0, (bound.1 - 1 + past).max(start.1)),
                (true, _) => (start.0, (bound.1 + past).max(start.1)),
                (false, ">") => ((bound.0 + 1 - past).min(start.0), start.1),
                (false, _) => ((bound.0 - past).min(start.0), start.1),
            });
        }
        let body = self.function(node)?.child_by_field_name("body")?;
        match self.may_change(node, body) {
            true => None,
            false => self.within(value, left),
        }
    }
}

fn hull(values: [i128; 4]) -> Option<Interval> {
    Some((*values.iter().min()?, *values.iter().max()?))
}

impl<'a> Meaning<'a> {
    /// What an integer expression leaves when it is divided by a number, where the text or the capture says it.
    pub fn residue(&self, node: Node<'a>, modulus: i128) -> Option<i128> {
        self.residue_within(node, modulus, 16)
    }

    fn residue_within(&self, node: Node<'a>, modulus: i128, left: u32) -> Option<i128> {
        let left = left.checked_sub(1)?;
        let node = self.uncast(node);
        if let Some(value) = self.known(node) {
            return Some(value.rem_euclid(modulus));
        }
        match node.kind() {
            "binary_expression" => {
                let (a, b) = (
                    node.child_by_field_name("left")?,
                    node.child_by_field_name("right")?,
                );
                let (x, y) = (
                    self.residue_within(a, modulus, left),
                    self.residue_within(b, modulus, left),
                );
                match self.operator(node) {
                    "*" if x == Some(0) && self.type_of(b).is_integer()
                        || y == Some(0) && self.type_of(a).is_integer() =>
                    {
                        Some(0)
                    }
                    "*" => Some((x? * y?).rem_euclid(modulus)),
                    "+" => Some((x? + y?).rem_euclid(modulus)),
                    "-" => Some((x? - y?).rem_euclid(modulus)),
                    _ => None,
                }
            }
            "identifier" => match self.names.resolve(node) {
                Binding::Local(variable) => {
                    let body = self.function(node)?.child_by_field_name("body")?;
                    let keeps = !self.may_change(node, body)
                        && self.type_of_variable(&variable).is_integer();
                    self.residue_within(variable.value().filter(|_| keeps)?, modulus, left)
                }
                _ => None,
            },
            _ => None,
        }
    }
}
