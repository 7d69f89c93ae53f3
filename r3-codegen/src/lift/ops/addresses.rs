//! Address arithmetic on registers that are pointers: what integer instructions do there becomes `getelementptr`.
//!
//! The steps are in bytes and promise nothing (no `inbounds`), so an address has the bits that PTX's arithmetic gives it,
//! wrapped around as there.

use inkwell::attributes::AttributeLoc;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Space, Word};
use r3_ptx::typed::{Operand, RegId, Symbol};

use crate::error::LiftError;
use crate::lift::function::{Handled, Lifter};
use crate::lift::globals::address_space;
use crate::lift::operand::pointer_space;

/// Lifts an instruction whose first operand is a pointer register. `false`: its own handler makes an integer of it, which
/// `set` takes for the address.
pub(crate) fn define<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let Some(&Operand::Register(to)) = operands.first() else {
        return Ok(false);
    };
    let made = match (mnemonic.opcode(), operands) {
        (Opcode::Mov | Opcode::Cvt, [_, from]) => pointer(lifter, from)?,
        (Opcode::Selp, [_, a, b, condition]) => select(lifter, to, [a, b], condition)?,
        (Opcode::Add, [_, a, b]) => match (pointer(lifter, a)?, pointer(lifter, b)?) {
            (Some(base), None) => Some(step(lifter, base, b, false)?),
            (None, Some(base)) => Some(step(lifter, base, a, false)?),
            _ => None,
        },
        (Opcode::Sub, [_, a, b]) => match (pointer(lifter, a)?, pointer(lifter, b)?) {
            (Some(base), None) => Some(step(lifter, base, b, true)?),
            _ => None,
        },
        (Opcode::Mad, [_, a, b, c]) => match pointer(lifter, c)? {
            Some(base) => {
                let product = product(lifter, mnemonic, [a, b])?;
                Some(advance(lifter, base, product)?)
            }
            None => None,
        },
        (Opcode::Cvta, [_, from]) => convert(lifter, mnemonic, from)?,
        _ => None,
    };
    match made {
        Some(made) => lifter.set_pointer(to, made).map(|()| true),
        None => Ok(false),
    }
}

/// The address in an operand that is one.
fn pointer<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
) -> Result<Option<PointerValue<'ctx>>, LiftError> {
    match *operand {
        Operand::Register(register) => lifter.pointer(register),
        Operand::Address(symbol, offset) => symbol_value(lifter, symbol, offset).map(Some),
        _ => Ok(None),
    }
}

/// The address of something with a name, as a value. Where addresses of variables are made from those of others, LLVM must
/// not see which it is: it takes an integer that came from an address for a step from there.
pub(super) fn symbol_value<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    symbol: Symbol,
    offset: i64,
) -> Result<PointerValue<'ctx>, LiftError> {
    let variable = matches!(symbol, Symbol::Variable(_) | Symbol::Local(_));
    if !variable || !lifter.roots.is_some_and(|roots| roots.mixed) {
        return lifter.symbol_address(symbol, offset);
    }
    let pointer = lifter.symbol_address(symbol, 0)?;
    let ty = pointer.get_type();
    let int = lifter.pointer_int(pointer_space(ty));
    let (text, constraints) = match int.get_bit_width() {
        32 => ("mov.b32 $0, $1;", "=r,r"),
        _ => ("mov.b64 $0, $1;", "=l,l"),
    };
    let made = int.fn_type(&[ty.into()], false);
    let context = lifter.context;
    let (text, constraints) = (text.to_owned(), constraints.to_owned());
    let asm = context.create_inline_asm(made, text, constraints, false, false, None, false);
    let call = lifter.build(|b| b.build_indirect_call(made, asm, &[pointer.into()], ""))?;
    let attributes = &lifter.globals.attributes;
    call.add_attribute(AttributeLoc::Function, attributes.no_memory);
    call.add_attribute(AttributeLoc::Function, attributes.nounwind);
    let Some(BasicValueEnum::IntValue(value)) = call.try_as_basic_value().basic() else {
        return Err(lifter.inexpressible("an address without value".into()));
    };
    let pointer = lifter.build(|b| b.build_int_to_ptr(value, ty, ""))?;
    lifter.offset(pointer, offset)
}

fn select<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    to: RegId,
    from: [&Operand; 2],
    condition: &Operand,
) -> Result<Option<PointerValue<'ctx>>, LiftError> {
    let Some(space) = lifter.pointer_space(to) else {
        return Ok(None);
    };
    let mut values = [None; 2];
    for (value, operand) in values.iter_mut().zip(from) {
        *value = Some(in_space(lifter, operand, space)?);
    }
    let [Some(a), Some(b)] = values else {
        return Ok(None);
    };
    let condition = lifter.predicate(condition)?;
    let made = lifter.build(|b_| b_.build_select(condition, a, b, ""))?;
    Ok(match made {
        BasicValueEnum::PointerValue(made) => Some(made),
        _ => None,
    })
}

/// The product of a `mad`, as wide as its sum.
fn product<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    factors: [&Operand; 2],
) -> Result<IntValue<'ctx>, LiftError> {
    let ty = mnemonic.ty().unwrap_or(ScalarType::S64);
    let wide = mnemonic.has(Word::Wide);
    let to = lifter.globals.types.int(lifter.context, ty.bits() * 2);
    let mut values = [to.const_zero(); 2];
    for (value, factor) in values.iter_mut().zip(factors) {
        let factor = lifter.integer(factor, ty.bits())?;
        *value = match (wide, ty.is_signed()) {
            (false, _) => factor,
            (true, true) => lifter.build(|b| b.build_int_s_extend(factor, to, ""))?,
            (true, false) => lifter.build(|b| b.build_int_z_extend(factor, to, ""))?,
        };
    }
    let [a, b] = values;
    // Twice the bits hold every product.
    lifter.build(|builder| match (wide, ty.is_signed()) {
        (false, _) => builder.build_int_mul(a, b, ""),
        (true, true) => builder.build_int_nsw_mul(a, b, ""),
        (true, false) => builder.build_int_nuw_mul(a, b, ""),
    })
}

/// A step by an operand, as wide as the address.
fn step<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    base: PointerValue<'ctx>,
    by: &Operand,
    back: bool,
) -> Result<PointerValue<'ctx>, LiftError> {
    let bits = lifter
        .pointer_int(pointer_space(base.get_type()))
        .get_bit_width();
    let mut by = lifter.integer(by, bits)?;
    if back {
        by = lifter.build(|b| b.build_int_neg(by, ""))?;
    }
    lifter.offset_by(base, by)
}

fn advance<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    base: PointerValue<'ctx>,
    by: IntValue<'ctx>,
) -> Result<PointerValue<'ctx>, LiftError> {
    let int = lifter.pointer_int(pointer_space(base.get_type()));
    let by = match by.get_type().get_bit_width() > int.get_bit_width() {
        true => lifter.build(|b| b.build_int_truncate(by, int, ""))?,
        false => by,
    };
    lifter.offset_by(base, by)
}

/// `cvta`, `cvta.to`: the address in the other space. `None` where LLVM cannot say it.
pub(super) fn convert<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    from: &Operand,
) -> Result<Option<PointerValue<'ctx>>, LiftError> {
    let other = mnemonic.space().unwrap_or(Space::Generic);
    let to = mnemonic.has(Word::To);
    let pointer = matches!(*from, Operand::Register(r) if lifter.pointer_space(r).is_some());
    if other.is_param() && (to || !(pointer || matches!(from, Operand::Address(..)))) {
        return Ok(None);
    }
    let (at, made) = match to {
        true => (Space::Generic, other),
        false => (other, Space::Generic),
    };
    let value = in_space(lifter, from, at)?;
    lifter.in_space(value, address_space(made)).map(Some)
}

/// An operand as an address in a space: that which it is, or an integer.
pub(super) fn in_space<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
    space: Space,
) -> Result<PointerValue<'ctx>, LiftError> {
    let number = address_space(space);
    if let Some(found) = pointer(lifter, operand)? {
        return lifter.in_space(found, number);
    }
    let bits = match *operand {
        Operand::Register(register) => lifter.register_bits(register),
        _ => 64,
    };
    let value = lifter.integer(operand, bits)?;
    let ty = lifter.globals.types.pointer(number);
    lifter.build(|b| b.build_int_to_ptr(value, ty, ""))
}
