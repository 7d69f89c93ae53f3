//! `cvt`
//!
//! No conversion to a narrower floating-point format is LLVM's own `fptrunc`: it moves that into the operation before, which
//! keeps `contract` in the narrower format and may then be fused where the original could not.

use inkwell::values::BasicValueEnum;
use r3_ptx::isa::{Mnemonic, Opcode, Rounding, ScalarType as T, Word};
use r3_ptx::typed::Operand;

use super::float::{folds_otherwise, overloaded};
use super::integer::{int_type, set_call};
use super::packed;
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    (opcode == Opcode::Cvt).then_some(convert as Handler)
}

fn convert<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let &[to, from] = mnemonic.types() else {
        return Ok(false);
    };
    if let Some(handled) = small(lifter, mnemonic, to, from, operands)? {
        return Ok(handled);
    }
    let modified =
        mnemonic.sat() || mnemonic.satfinite() || mnemonic.relu() || mnemonic.has(Word::Pack);
    if modified {
        return Ok(false);
    }
    match operands {
        [d, a] => match (to.is_float(), from.is_float()) {
            (false, false) => between_integers(lifter, to, from, d, a),
            (true, false) => from_integer(lifter, mnemonic, to, from, d, a),
            (false, true) => to_integer(lifter, mnemonic, to, from, d, a),
            (true, true) => between_floats(lifter, mnemonic, to, from, d, a),
        },
        [d, a, b] => to_pair(lifter, mnemonic, to, from, d, [a, b]),
        _ => Ok(false),
    }
}

/// Cut, or extended by the sign of the source.
fn between_integers<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    to: T,
    from: T,
    d: &Operand,
    a: &Operand,
) -> Handled {
    let value = lifter.integer(a, from.bits())?;
    let wanted = int_type(lifter, to.bits());
    let result = lifter.build(|x| match to.bits().cmp(&from.bits()) {
        std::cmp::Ordering::Equal => Ok(value),
        std::cmp::Ordering::Less => x.build_int_truncate(value, wanted, ""),
        std::cmp::Ordering::Greater if from.is_signed() => x.build_int_s_extend(value, wanted, ""),
        std::cmp::Ordering::Greater => x.build_int_z_extend(value, wanted, ""),
    })?;
    lifter.set(d, result.into(), to)?;
    Ok(true)
}

/// To nearest it is LLVM's own; otherwise there are intrinsics from 32 and 64 bits to `.f32` and `.f64`.
fn from_integer<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
    d: &Operand,
    a: &Operand,
) -> Handled {
    let value = lifter.integer(a, from.bits())?;
    if mnemonic.rounding() == Some(Rounding::Nearest) {
        if !matches!(to, T::F16 | T::BF16 | T::F32 | T::F64) {
            return Ok(false);
        }
        let wanted = lifter.llvm_type(to).into_float_type();
        let result = lifter.build(|x| match from.is_signed() {
            true => x.build_signed_int_to_float(value, wanted, ""),
            false => x.build_unsigned_int_to_float(value, wanted, ""),
        })?;
        lifter.set(d, result.into(), to)?;
        return Ok(true);
    }
    let source = match from {
        T::S32 => "i",
        T::U32 => "ui",
        T::S64 => "ll",
        T::U64 => "ull",
        _ => return Ok(false),
    };
    let (Some(rounding), Some(result)) = (directed(mnemonic), letter(to)) else {
        return Ok(false);
    };
    let name = format!("llvm.nvvm.{source}2{result}.{rounding}");
    set_call(lifter, &name, &[], &[value.into()], d, to)
}

/// `.rz` … in names of intrinsics; those that round to an integer too.
fn directed(mnemonic: &Mnemonic) -> Option<&'static str> {
    Some(match mnemonic.rounding()? {
        Rounding::Nearest | Rounding::NearestInt => "rn",
        Rounding::Zero | Rounding::ZeroInt => "rz",
        Rounding::Down | Rounding::DownInt => "rm",
        Rounding::Up | Rounding::UpInt => "rp",
        _ => return None,
    })
}

/// `.f32` and `.f64` in names of intrinsics.
fn letter(ty: T) -> Option<&'static str> {
    match ty {
        T::F32 => Some("f"),
        T::F64 => Some("d"),
        _ => None,
    }
}

/// Intrinsics from `.f32` and `.f64` to 32 and 64 bits: they clamp, and have PTX's results for NaN.
fn to_integer<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
    d: &Operand,
    a: &Operand,
) -> Handled {
    let result = match to {
        T::S32 => "i",
        T::U32 => "ui",
        T::S64 => "ll",
        T::U64 => "ull",
        _ => return Ok(false),
    };
    let (Some(rounding), Some(source)) = (directed(mnemonic), letter(from)) else {
        return Ok(false);
    };
    let ftz = if mnemonic.ftz() { ".ftz" } else { "" };
    let name = format!("llvm.nvvm.{source}2{result}.{rounding}{ftz}");
    let value = lifter.value(a, from)?;
    set_call(lifter, &name, &[], &[value], d, to)
}

fn between_floats<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
    d: &Operand,
    a: &Operand,
) -> Handled {
    let ftz = mnemonic.ftz();
    let suffix = if ftz { ".ftz" } else { "" };
    let integral = match mnemonic.rounding() {
        Some(Rounding::NearestInt) => Some("llvm.roundeven"),
        Some(Rounding::ZeroInt) => Some("llvm.trunc"),
        Some(Rounding::DownInt) => Some("llvm.floor"),
        Some(Rounding::UpInt) => Some("llvm.ceil"),
        _ => None,
    };
    let as_function = lifter.mode.plain_flushes(ftz);
    let source = lifter.value(a, from)?;
    if folds_otherwise(&[source], ftz) {
        return Ok(false);
    }
    match (to, from) {
        (T::F32, T::F32) | (T::F64, T::F64) | (T::F16, T::F16) => {
            let Some(name) = integral.filter(|_| to != T::F32 || as_function) else {
                return Ok(false);
            };
            overloaded(lifter, name, to, d, &[source])
        }
        // Exact, and no `.f16` is a subnormal `.f32`.
        (T::F32 | T::F64, T::F16) | (T::F64, T::F32) => {
            if from == T::F32 && !as_function {
                return Ok(false);
            }
            let value = source.into_float_value();
            let wanted = lifter.llvm_type(to).into_float_type();
            let result = lifter.build(|x| x.build_float_ext(value, wanted, ""))?;
            lifter.set(d, result.into(), to)?;
            Ok(true)
        }
        (T::F32, T::BF16) if !ftz => {
            let bits = lifter.integer(a, 16)?;
            let wide = int_type(lifter, 32);
            let wider = lifter.build(|x| x.build_int_z_extend(bits, wide, ""))?;
            let up = wide.const_int(16, false);
            let bits = lifter.build(|x| x.build_left_shift(wider, up, ""))?;
            lifter.set(d, bits.into(), T::B32)?;
            Ok(true)
        }
        (T::F32, T::F64) => {
            let Some(rounding) = directed(mnemonic) else {
                return Ok(false);
            };
            let name = format!("llvm.nvvm.d2f.{rounding}{suffix}");
            set_call(lifter, &name, &[], &[source], d, to)
        }
        (T::F16, T::F32) if mnemonic.rounding() == Some(Rounding::Nearest) => {
            let name = format!("llvm.nvvm.f2h.rn{suffix}");
            set_call(lifter, &name, &[], &[source], d, T::B16)
        }
        (T::BF16, T::F32) if !ftz && rounds_simply(mnemonic) => {
            let name = format!("llvm.nvvm.f2bf16.{}", directed(mnemonic).unwrap_or("rn"));
            set_call(lifter, &name, &[], &[source], d, to)
        }
        _ => Ok(false),
    }
}

/// `.rn` or `.rz`
fn rounds_simply(mnemonic: &Mnemonic) -> bool {
    matches!(
        mnemonic.rounding(),
        Some(Rounding::Nearest | Rounding::Zero)
    )
}

/// Two `.f32` side by side in 16 bits each; the first is the upper.
fn to_pair<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
    d: &Operand,
    sources: [&Operand; 2],
) -> Handled {
    let name = match (to, from) {
        (T::F16x2, T::F32) => "ff2f16x2",
        (T::BF16x2, T::F32) => "ff2bf16x2",
        _ => return Ok(false),
    };
    if !rounds_simply(mnemonic) {
        return Ok(false);
    }
    let [a, b] = sources;
    let (a, b): (BasicValueEnum<'ctx>, _) = (lifter.value(a, from)?, lifter.value(b, from)?);
    let name = format!("llvm.nvvm.{name}.{}", directed(mnemonic).unwrap_or("rn"));
    set_call(lifter, &name, &[], &[a, b], d, to)
}

/// Intrinsics of pairs in 8 bits: the types, and the name of the one without `.relu`. All of them clamp to what is finite.
const SMALL: &[(T, T, &str)] = &[
    (T::F16x2, T::E4M3x2, "llvm.nvvm.e4m3x2.to.f16x2.rn"),
    (T::F16x2, T::E5M2x2, "llvm.nvvm.e5m2x2.to.f16x2.rn"),
    (T::E4M3x2, T::F16x2, "llvm.nvvm.f16x2.to.e4m3x2.rn"),
    (T::E5M2x2, T::F16x2, "llvm.nvvm.f16x2.to.e5m2x2.rn"),
    (T::E4M3x2, T::F32, "llvm.nvvm.ff.to.e4m3x2.rn"),
    (T::E5M2x2, T::F32, "llvm.nvvm.ff.to.e5m2x2.rn"),
];

/// From and to pairs in 8 bits; `None` where it is no such conversion.
fn small<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
    operands: &[Operand],
) -> Result<Option<bool>, LiftError> {
    let entry = SMALL.iter().find(|&&(t, f, _)| (t, f) == (to, from));
    let (Some(&(.., name)), [d, sources @ ..]) = (entry, operands) else {
        return Ok(None);
    };
    let mut arguments: Vec<BasicValueEnum<'ctx>> = Vec::with_capacity(sources.len());
    for source in sources {
        arguments.push(match (from, packed::vector_type(lifter, from)) {
            (_, Some(vector)) => packed::vector(lifter, source, vector)?.into(),
            (T::F32, None) => lifter.value(source, from)?,
            (_, None) => lifter.integer(source, 16)?.into(),
        });
    }
    let relu = if mnemonic.relu() { ".relu" } else { "" };
    set_call(lifter, &format!("{name}{relu}"), &[], &arguments, d, to).map(Some)
}
