//! What the threads of a warp do together. Intrinsics, which are convergent and touch no memory that others see.

use inkwell::types::BasicType;
use inkwell::values::{BasicValueEnum, StructValue};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Shape, Space, Word};
use r3_ptx::typed::Operand;

use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    match opcode {
        Opcode::Shfl => Some(shuffle),
        Opcode::Vote => Some(vote),
        Opcode::Match => Some(matching),
        Opcode::Redux => Some(redux),
        Opcode::Activemask => Some(activemask),
        Opcode::Elect => Some(elect),
        Opcode::Ldmatrix => Some(ldmatrix),
        _ => None,
    }
}

/// `shfl.sync`. Those without a mask are of old targets: text.
fn shuffle<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let modes = [Word::Up, Word::Down, Word::Bfly, Word::Idx];
    let (Some(mode), [to, value, lane, clamp, mask], true) =
        (mnemonic.any_of(&modes), operands, mnemonic.has(Word::Sync))
    else {
        return Ok(false);
    };
    let mut arguments = Vec::with_capacity(4);
    for operand in [mask, value, lane, clamp] {
        arguments.push(lifter.integer(operand, 32)?.into());
    }
    let pair = matches!(to, Operand::Pair(_));
    let suffix = if pair { "i32p" } else { "i32" };
    let name = format!("llvm.nvvm.shfl.sync.{mode}.{suffix}");
    let Some(made) = lifter.intrinsic(&name, &[], &arguments)? else {
        return Ok(false);
    };
    give(lifter, to, made, ScalarType::B32)
}

fn vote<'m>(lifter: &mut Lifter<'_, 'm>, mnemonic: &Mnemonic, operands: &'m [Operand]) -> Handled {
    let modes = [Word::All, Word::Any, Word::Uni, Word::Ballot];
    let (Some(mode), [to, predicate, mask], true) =
        (mnemonic.any_of(&modes), operands, mnemonic.has(Word::Sync))
    else {
        return Ok(false);
    };
    let mask = lifter.integer(mask, 32)?;
    let predicate = lifter.predicate(predicate)?;
    let name = format!("llvm.nvvm.vote.{mode}.sync");
    let Some(made) = lifter.intrinsic(&name, &[], &[mask.into(), predicate.into()])? else {
        return Ok(false);
    };
    let ty = match mode {
        Word::Ballot => ScalarType::B32,
        _ => ScalarType::Pred,
    };
    give(lifter, to, made, ty)
}

fn matching<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some(ty), [to, value, mask]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    let mask = lifter.integer(mask, 32)?;
    let value = lifter.integer(value, ty.bits())?;
    let all = mnemonic.has(Word::All);
    let bits = ty.bits();
    let name = match all {
        true => format!("llvm.nvvm.match.all.sync.i{bits}p"),
        false => format!("llvm.nvvm.match.any.sync.i{bits}"),
    };
    let Some(made) = lifter.intrinsic(&name, &[], &[mask.into(), value.into()])? else {
        return Ok(false);
    };
    give(lifter, to, made, ScalarType::B32)
}

/// `redux.sync` of integers.
fn redux<'m>(lifter: &mut Lifter<'_, 'm>, mnemonic: &Mnemonic, operands: &'m [Operand]) -> Handled {
    let operations = [
        Word::Add,
        Word::Min,
        Word::Max,
        Word::And,
        Word::Or,
        Word::Xor,
    ];
    let (Some(operation), Some(ty), [to, value, mask]) =
        (mnemonic.any_of(&operations), mnemonic.ty(), operands)
    else {
        return Ok(false);
    };
    let sign = match (operation, ty) {
        (Word::Min | Word::Max, ScalarType::U32) => "u",
        (_, ScalarType::U32 | ScalarType::S32 | ScalarType::B32) => "",
        _ => return Ok(false),
    };
    let value = lifter.integer(value, 32)?;
    let mask = lifter.integer(mask, 32)?;
    let name = format!("llvm.nvvm.redux.sync.{sign}{operation}");
    let Some(made) = lifter.intrinsic(&name, &[], &[value.into(), mask.into()])? else {
        return Ok(false);
    };
    give(lifter, to, made, ty)
}

fn activemask<'m>(
    lifter: &mut Lifter<'_, 'm>,
    _mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let ([to], Some(made)) = (
        operands,
        lifter.intrinsic("llvm.nvvm.activemask", &[], &[])?,
    ) else {
        return Ok(false);
    };
    give(lifter, to, made, ScalarType::B32)
}

fn elect<'m>(
    lifter: &mut Lifter<'_, 'm>,
    _mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let [to, mask] = operands else {
        return Ok(false);
    };
    let mask = lifter.integer(mask, 32)?;
    let Some(made) = lifter.intrinsic("llvm.nvvm.elect.sync", &[], &[mask.into()])? else {
        return Ok(false);
    };
    give(lifter, to, made, ScalarType::B32)
}

/// `ldmatrix` of 8 x 8 halves.
fn ldmatrix<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let small = Shape { m: 8, n: 8, k: 0 };
    let space = mnemonic.space();
    let known = mnemonic.shape() == Some(small)
        && mnemonic.ty() == Some(ScalarType::B16)
        && matches!(space, None | Some(Space::Shared | Space::SharedCta));
    let ([to, place], true) = (operands, known) else {
        return Ok(false);
    };
    let pointer = lifter.address(place, space)?;
    let transposed = match mnemonic.has(Word::Trans) {
        true => ".trans",
        false => "",
    };
    let count = mnemonic.repeat();
    let name = format!("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{transposed}.b16");
    let overloads = [pointer.get_type().as_basic_type_enum()];
    let Some(made) = lifter.intrinsic(&name, &overloads, &[pointer.into()])? else {
        return Ok(false);
    };
    let parts = lifter.parts(to);
    match made {
        BasicValueEnum::StructValue(made) => {
            for (index, part) in (0u32..).zip(parts) {
                let value = field(lifter, made, index)?;
                lifter.set(part, value, ScalarType::B32)?;
            }
        }
        made => {
            for part in parts {
                lifter.set(part, made, ScalarType::B32)?;
            }
        }
    }
    Ok(true)
}

/// Gives a result to its destination, or to the two of a pair.
fn give<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    to: &Operand,
    made: BasicValueEnum<'ctx>,
    ty: ScalarType,
) -> Handled {
    match (*to, made) {
        (Operand::Pair(first), BasicValueEnum::StructValue(made)) => {
            let [to, predicate] = *lifter.body.list(first, 2) else {
                return Err(lifter.inexpressible("a pair without two destinations".into()));
            };
            let value = field(lifter, made, 0)?;
            let flag = field(lifter, made, 1)?;
            lifter.set(&to, value, ty)?;
            lifter.set(&predicate, flag, ScalarType::Pred)?;
        }
        (_, BasicValueEnum::StructValue(made)) => {
            let value = field(lifter, made, 0)?;
            lifter.set(to, value, ty)?;
        }
        _ => lifter.set(to, made, ty)?,
    }
    Ok(true)
}

fn field<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    made: StructValue<'ctx>,
    index: u32,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    lifter.build(|b| b.build_extract_value(made, index, ""))
}
