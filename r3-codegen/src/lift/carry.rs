//! Chains of additions and products that hand a carry on.
//!
//! A chain whose instructions follow each other becomes one piece of assembly: the assembler makes of it what it made of
//! the original. Where something stands between them, or a guard, the carry is a value of its own: additions and
//! subtractions with overflow. A subtraction hands on a borrow, which an addition takes as a carry.

use inkwell::types::BasicTypeEnum;
use inkwell::values::IntValue;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::{Instruction, Operand};

use super::asm::{Assembly, Weight};
use super::function::Lifter;
use super::globals::effects;
use super::ssa::carry_register;
use crate::error::LiftError;

/// Whether an instruction takes a carry, whether it makes one.
fn direction(lifter: &Lifter<'_, '_>, instruction: &Instruction) -> (bool, bool) {
    let effects = effects(instruction.form);
    let mnemonic = lifter.module.mnemonics.get(instruction.mnemonic.0 as usize);
    let cc = mnemonic.is_some_and(|mnemonic| mnemonic.has(Word::Cc));
    (effects.carry_in, effects.carry_out && cc)
}

/// A chain at the beginning of these instructions, as one piece of assembly. Returns how many instructions it took: 0 when
/// the carry must be a value.
pub(super) fn chain<'m>(
    lifter: &mut Lifter<'_, 'm>,
    rest: &'m [Instruction],
) -> Result<usize, LiftError> {
    let len = length(lifter, rest);
    if len < 2 {
        return Ok(0);
    }
    let chain = rest.get(..len).unwrap_or_default();
    // What a later instruction of the chain writes again is no output of an earlier one: each has a register of its own.
    let mut last_write: Vec<(u32, usize)> = Vec::new();
    for (i, instruction) in chain.iter().enumerate() {
        match lifter.body.operands(instruction).first() {
            Some(Operand::Register(register)) => match last_write
                .iter_mut()
                .find(|(known, _)| *known == register.0)
            {
                Some((_, at)) => *at = i,
                None => last_write.push((register.0, i)),
            },
            Some(Operand::Sink) => {}
            _ => return Ok(0),
        }
    }
    // `$n` of each instruction's result, or a register declared inside.
    let mut assembly = Assembly::new(last_write.len(), true);
    let mut held: Vec<(u32, String)> = Vec::new();
    let mut outputs = 0;
    for (i, instruction) in chain.iter().enumerate() {
        lifter.instruction = instruction;
        let module = lifter.module;
        let Some(mnemonic) = module.mnemonics.get(instruction.mnemonic.0 as usize) else {
            return Ok(0);
        };
        let body = lifter.body;
        let operands = body.operands(instruction);
        let ty = mnemonic.ty().unwrap_or(ScalarType::U32);
        let mut line = std::mem::take(&mut assembly.text);
        // Sources first: the chain's own results by name.
        let mut sources: Vec<String> = Vec::with_capacity(3);
        for operand in operands.get(1..).unwrap_or_default() {
            if let Operand::Register(register) = operand
                && let Some((_, name)) = held.iter().rev().find(|(known, _)| *known == register.0)
            {
                sources.push(name.clone());
                continue;
            }
            assembly.text.clear();
            let value = lifter.value(operand, ty)?;
            assembly.input(lifter, value, untyped(ty))?;
            sources.push(std::mem::take(&mut assembly.text));
        }
        let result = match operands.first() {
            Some(Operand::Register(register)) => {
                let is_last = last_write
                    .iter()
                    .any(|(known, at)| *known == register.0 && *at == i);
                let name = if is_last {
                    assembly.text.clear();
                    assembly.output(lifter, *register);
                    outputs += 1;
                    std::mem::take(&mut assembly.text)
                } else {
                    line.insert_str(0, &format!(".reg .b{} t{i}; ", ty.bits()));
                    format!("t{i}")
                };
                held.push((register.0, name.clone()));
                name
            }
            _ => {
                line.insert_str(0, &format!(".reg .b{} t{i}; ", ty.bits()));
                format!("t{i}")
            }
        };
        if i > 0 {
            line.push(' ');
        }
        line.push_str(mnemonic.text());
        line.push(' ');
        line.push_str(&result);
        for source in &sources {
            line.push_str(", ");
            line.push_str(source);
        }
        line.push(';');
        assembly.text = line;
        lifter.globals.natively += 1;
    }
    debug_assert_eq!(outputs, last_write.len(), "each register is one output");
    assembly.text.insert_str(0, "{ ");
    assembly.text.push_str(" }");
    assembly.finish(lifter, Weight::Pure, false)?;
    Ok(len)
}

fn untyped(ty: ScalarType) -> ScalarType {
    match ty.bits() {
        64 => ScalarType::B64,
        _ => ScalarType::B32,
    }
}

/// Longer chains are none of a compiler's: each operand of assembly is searched for among all others.
const MOST: usize = 256;

/// How many instructions at the beginning are a chain that nobody enters or leaves with a carry; 0 when there is none.
fn length(lifter: &Lifter<'_, '_>, rest: &[Instruction]) -> usize {
    let mut len = 0;
    for instruction in rest {
        let (takes, makes) = direction(lifter, instruction);
        let begins = len == 0 && makes && !takes;
        let follows = len > 0 && takes;
        if instruction.guard.is_some() || !(begins || follows) {
            break;
        }
        if len == MOST {
            return 0;
        }
        len += 1;
        if !makes {
            return len;
        }
    }
    if len == 0 {
        return 0;
    }
    // The last makes a carry: does anyone take it?
    for instruction in rest.get(len..).unwrap_or_default() {
        let (takes, makes) = direction(lifter, instruction);
        if takes {
            return 0;
        }
        if makes && instruction.guard.is_none() {
            break;
        }
    }
    len
}

/// One instruction, with the carry as a value. `false`: it neither takes nor makes one.
pub(super) fn single<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    operands: &[Operand],
) -> Result<bool, LiftError> {
    let (takes, makes) = direction(lifter, lifter.instruction);
    let (Some(destination), Some(ty)) = (operands.first(), mnemonic.ty()) else {
        return Ok(false);
    };
    if !takes && !makes {
        return Ok(false);
    }
    let bits = ty.bits();
    let int = lifter.globals.types.int(lifter.context, bits);
    let carry = carry_register(lifter.body);
    let mut sources = Vec::with_capacity(3);
    for operand in operands.get(1..).unwrap_or_default() {
        sources.push(lifter.integer(operand, bits)?);
    }
    let (name, a, b) = match (mnemonic.opcode(), sources.as_slice()) {
        (Opcode::Add | Opcode::Addc, &[a, b]) => (ADD, a, b),
        (Opcode::Sub | Opcode::Subc, &[a, b]) => (SUBTRACT, a, b),
        (Opcode::Mad | Opcode::Madc, &[a, b, c]) => {
            let product = product(lifter, mnemonic, a, b)?;
            (ADD, product, c)
        }
        _ => return Ok(false),
    };
    let flag = match takes {
        true => {
            let flag = lifter.slot(carry)?.into_int_value();
            Some(lifter.build(|b| b.build_int_z_extend(flag, int, ""))?)
        }
        false => None,
    };
    let step = |lifter: &mut Lifter<'ctx, '_>, a, b| match makes {
        true => overflowing(lifter, name, int.into(), a, b),
        false => {
            let value = lifter.build(|builder| match name {
                ADD => builder.build_int_add(a, b, ""),
                _ => builder.build_int_sub(a, b, ""),
            })?;
            Ok((value, lifter.globals.types.i1.const_zero()))
        }
    };
    let (mut value, mut out) = step(lifter, a, b)?;
    if let Some(flag) = flag {
        let (with, second) = step(lifter, value, flag)?;
        value = with;
        if makes {
            out = lifter.build(|b| b.build_or(out, second, ""))?;
        }
    }
    lifter.set(destination, value.into(), ty)?;
    if makes {
        lifter.set_slot(carry, out.into())?;
    }
    Ok(true)
}

/// Additions that tell of their carry.
const ADD: &str = "llvm.uadd.with.overflow";
/// Subtractions that tell of their borrow.
const SUBTRACT: &str = "llvm.usub.with.overflow";

fn overflowing<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    name: &str,
    ty: BasicTypeEnum<'ctx>,
    a: IntValue<'ctx>,
    b: IntValue<'ctx>,
) -> Result<(IntValue<'ctx>, IntValue<'ctx>), LiftError> {
    let Some(pair) = lifter.intrinsic(name, &[ty], &[a.into(), b.into()])? else {
        return Err(lifter.inexpressible(format!("LLVM has no `{name}`")));
    };
    let pair = pair.into_struct_value();
    let value = lifter.build(|b| b.build_extract_value(pair, 0, ""))?;
    let flag = lifter.build(|b| b.build_extract_value(pair, 1, ""))?;
    Ok((value.into_int_value(), flag.into_int_value()))
}

/// The half of a product that is added to.
fn product<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    a: IntValue<'ctx>,
    b: IntValue<'ctx>,
) -> Result<IntValue<'ctx>, LiftError> {
    if !mnemonic.has(Word::Hi) {
        return lifter.build(|builder| builder.build_int_mul(a, b, ""));
    }
    let narrow = a.get_type();
    let bits = narrow.get_bit_width();
    let wide = lifter.globals.types.int(lifter.context, bits * 2);
    let signed = mnemonic.ty().is_some_and(ScalarType::is_signed);
    let extend = |lifter: &Lifter<'ctx, '_>, value| {
        lifter.build(|builder| match signed {
            true => builder.build_int_s_extend(value, wide, ""),
            false => builder.build_int_z_extend(value, wide, ""),
        })
    };
    let (a, b) = (extend(lifter, a)?, extend(lifter, b)?);
    let product = lifter.build(|builder| builder.build_int_mul(a, b, ""))?;
    let shift = wide.const_int(u64::from(bits), false);
    let high = lifter.build(|builder| builder.build_right_shift(product, shift, false, ""))?;
    lifter.build(|builder| builder.build_int_truncate(high, narrow, ""))
}
