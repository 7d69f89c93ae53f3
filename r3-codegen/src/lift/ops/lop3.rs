//! The tables of `lop3` as formulas of and, or, xor and not.
//!
//! A table of two operations or less becomes these: LLVM can then see through them, and an assembler makes one instruction of
//! them again. More than two would rely on it too much.

use std::sync::LazyLock;

use inkwell::values::IntValue;

use crate::error::LiftError;
use crate::lift::function::Lifter;

/// How a table is made of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    /// 0, or all ones.
    Constant(bool),
    /// One of the inputs.
    Input(usize),
    /// The complement of a table.
    Not(u8),
    /// Two tables.
    And(u8, u8),
    /// Two tables.
    Or(u8, u8),
    /// Two tables.
    Xor(u8, u8),
}

/// The tables of the inputs, as the ISA gives them.
const INPUTS: [u8; 3] = [0xf0, 0xcc, 0xaa];

/// Binary operations at most.
const MOST: usize = 2;

/// The formula of each table that has one.
static FORMULAS: LazyLock<[Option<Formula>; 256]> = LazyLock::new(|| {
    let mut formulas = [None; 256];
    // Tables by the number of operations that they need.
    let mut levels: Vec<Vec<u8>> = vec![Vec::new()];
    add(&mut formulas, &mut levels[0], 0, Formula::Constant(false));
    add(&mut formulas, &mut levels[0], 0xff, Formula::Constant(true));
    for (i, &table) in INPUTS.iter().enumerate() {
        add(&mut formulas, &mut levels[0], table, Formula::Input(i));
    }
    for count in 1..=MOST {
        let mut level = Vec::new();
        for left in 0..count {
            for &a in &levels[left] {
                for &b in &levels[count - 1 - left] {
                    add(&mut formulas, &mut level, a & b, Formula::And(a, b));
                    add(&mut formulas, &mut level, a | b, Formula::Or(a, b));
                    add(&mut formulas, &mut level, a ^ b, Formula::Xor(a, b));
                }
            }
        }
        levels.push(level);
    }
    formulas
});

/// Notes a formula, and that of the complement, where the table has none yet.
fn add(formulas: &mut [Option<Formula>; 256], level: &mut Vec<u8>, table: u8, formula: Formula) {
    for (table, formula) in [(table, formula), (!table, Formula::Not(table))] {
        let place = &mut formulas[usize::from(table)];
        if place.is_none() {
            *place = Some(formula);
            level.push(table);
        }
    }
}

/// The formula of a table, where it needs few operations.
pub(super) fn formula(table: u8) -> Option<Formula> {
    FORMULAS[usize::from(table)]
}

/// Builds a formula.
pub(super) fn build<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    formula: Formula,
    inputs: [IntValue<'ctx>; 3],
) -> Result<IntValue<'ctx>, LiftError> {
    let [a, ..] = inputs;
    let ty = a.get_type();
    let part = |table: u8| match FORMULAS[usize::from(table)] {
        Some(formula) => build(lifter, formula, inputs),
        // Parts come from the same search.
        None => Ok(ty.const_zero()),
    };
    match formula {
        Formula::Constant(false) => Ok(ty.const_zero()),
        Formula::Constant(true) => Ok(ty.const_all_ones()),
        Formula::Input(i) => Ok(inputs.get(i).copied().unwrap_or(a)),
        Formula::Not(x) => {
            let x = part(x)?;
            lifter.build(|b| b.build_not(x, ""))
        }
        Formula::And(x, y) => {
            let (x, y) = (part(x)?, part(y)?);
            lifter.build(|b| b.build_and(x, y, ""))
        }
        Formula::Or(x, y) => {
            let (x, y) = (part(x)?, part(y)?);
            lifter.build(|b| b.build_or(x, y, ""))
        }
        Formula::Xor(x, y) => {
            let (x, y) = (part(x)?, part(y)?);
            lifter.build(|b| b.build_xor(x, y, ""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(table: u8) -> u8 {
        match FORMULAS[usize::from(table)].expect("a part") {
            Formula::Constant(ones) => u8::from(ones).wrapping_neg(),
            Formula::Input(i) => INPUTS[i],
            Formula::Not(x) => !evaluate(x),
            Formula::And(x, y) => evaluate(x) & evaluate(y),
            Formula::Or(x, y) => evaluate(x) | evaluate(y),
            Formula::Xor(x, y) => evaluate(x) ^ evaluate(y),
        }
    }

    #[test]
    fn each_formula_computes_its_table() {
        let found: Vec<u8> = (0..=255).filter(|&t| formula(t).is_some()).collect();
        for &table in &found {
            assert_eq!(evaluate(table), table);
        }
        // What compilers write: a^b^c, (a&b)|c, a&b&c, a|b|c, (a^b)&c, (a&~b)|c.
        for table in [0x96, 0xea, 0x80, 0xfe, 0x28, 0xba] {
            assert!(found.contains(&table), "{table:#x}");
        }
        // A majority takes more.
        assert!(!found.contains(&0xe8));
    }
}
