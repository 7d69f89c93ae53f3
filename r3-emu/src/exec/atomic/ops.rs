//! What atomics and reductions compute: one table for `atom`, `red`, `red.async` and the bulk reductions.

use crate::arith::half::{self, BF16, F16, Half, Modifiers};
use crate::arith::single::Extremum;
use crate::arith::{Round, double, single};
use r3_ptx::isa::{Operation, ScalarType as T};

/// New value from the old one and the operands; all in the low bits.
pub(crate) type Function = fn(u64, u64, u64) -> u64;

/// The operation on values of a type; `shared` is where they are. `None`: the ISA has none.
///
/// `add.f32` on global memory flushes subnormal numbers, on shared memory it does not.
pub(crate) fn function(operation: Operation, ty: T, shared: bool) -> Option<Function> {
    use Operation as O;
    let bits = ty.bytes() * 8;
    Some(match (operation, ty) {
        (O::And, _) => |a, b, _| a & b,
        (O::Or, _) => |a, b, _| a | b,
        (O::Xor, _) => |a, b, _| a ^ b,
        (O::Exch, _) => |_, b, _| b,
        (O::Cas, _) => |a, b, c| if a == b { c } else { a },
        (O::Add, T::F32) if shared => |a, b, _| add_single(a, b, false),
        (O::Add, T::F32) => |a, b, _| add_single(a, b, true),
        (O::Add, T::F64) => |a, b, _| {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            double::add(a, b, Round::NearestEven).to_bits()
        },
        (O::Add, T::F16) => |a, b, _| halves(a, b, add_half::<F16>),
        (O::Add, T::BF16) => |a, b, _| halves(a, b, add_half::<BF16>),
        (O::Min, T::F16) => |a, b, _| halves(a, b, least::<F16>),
        (O::Max, T::F16) => |a, b, _| halves(a, b, greatest::<F16>),
        (O::Min, T::BF16) => |a, b, _| halves(a, b, least::<BF16>),
        (O::Max, T::BF16) => |a, b, _| halves(a, b, greatest::<BF16>),
        (O::Add, T::F16x2) => |a, b, _| pairs(a, b, add_half::<F16>),
        (O::Add, T::BF16x2) => |a, b, _| pairs(a, b, add_half::<BF16>),
        (O::Min, T::F16x2) => |a, b, _| pairs(a, b, least::<F16>),
        (O::Max, T::F16x2) => |a, b, _| pairs(a, b, greatest::<F16>),
        (O::Min, T::BF16x2) => |a, b, _| pairs(a, b, least::<BF16>),
        (O::Max, T::BF16x2) => |a, b, _| pairs(a, b, greatest::<BF16>),
        _ if ty.is_float() => return None,
        // Cut to the width by who stores it.
        (O::Add, _) => |a, b, _| a.wrapping_add(b),
        (O::Inc, _) if bits == 32 => |a, b, _| if a >= b { 0 } else { a + 1 },
        (O::Dec, _) if bits == 32 => |a, b, _| if a == 0 || a > b { b } else { a - 1 },
        (O::Min, T::S32) => |a, b, _| u64::from((a as i32).min(b as i32) as u32),
        (O::Max, T::S32) => |a, b, _| u64::from((a as i32).max(b as i32) as u32),
        (O::Min, T::S64) => |a, b, _| (a as i64).min(b as i64) as u64,
        (O::Max, T::S64) => |a, b, _| (a as i64).max(b as i64) as u64,
        (O::Min, T::U32 | T::U64) => |a, b, _| a.min(b),
        (O::Max, T::U32 | T::U64) => |a, b, _| a.max(b),
        _ => return None,
    })
}

fn add_single(a: u64, b: u64, ftz: bool) -> u64 {
    let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
    u64::from(single::add(a, b, Round::NearestEven, ftz).to_bits())
}

fn add_half<H: Half>(a: u16, b: u16) -> u16 {
    half::add::<H>(a, b, Modifiers::default())
}

fn least<H: Half>(a: u16, b: u16) -> u16 {
    half::extremum::<H>(a, b, Extremum::default())
}

fn greatest<H: Half>(a: u16, b: u16) -> u16 {
    let how = Extremum {
        greater: true,
        ..Extremum::default()
    };
    half::extremum::<H>(a, b, how)
}

fn halves(a: u64, b: u64, f: fn(u16, u16) -> u16) -> u64 {
    u64::from(f(a as u16, b as u16))
}

fn pairs(a: u64, b: u64, f: fn(u16, u16) -> u16) -> u64 {
    let low = f(a as u16, b as u16);
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u64::from(low) | u64::from(high) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation as O;

    fn run(operation: Operation, ty: T, a: u64, b: u64) -> u64 {
        function(operation, ty, false).unwrap()(a, b, 0)
    }

    #[test]
    fn increments_wrap_at_the_operand_and_decrements_stay_within_it() {
        assert_eq!(run(O::Inc, T::U32, 4, 5), 5);
        assert_eq!(run(O::Inc, T::U32, 5, 5), 0);
        assert_eq!(run(O::Inc, T::U32, 9, 5), 0);
        assert_eq!(run(O::Dec, T::U32, 0, 5), 5);
        assert_eq!(run(O::Dec, T::U32, 6, 5), 5);
        assert_eq!(run(O::Dec, T::U32, 5, 5), 4);
    }

    #[test]
    fn signed_extremes_compare_as_signed() {
        let minus = u64::from(u32::MAX);
        assert_eq!(run(O::Min, T::S32, 1, minus), minus);
        assert_eq!(run(O::Min, T::U32, 1, minus), 1);
        assert_eq!(run(O::Max, T::S64, 1, u64::MAX), 1);
    }

    #[test]
    fn single_sums_flush_in_global_memory_only() {
        let tiny = u64::from(f32::from_bits(1).to_bits());
        assert_eq!(run(O::Add, T::F32, tiny, 0), 0);
        assert_eq!(function(O::Add, T::F32, true).unwrap()(tiny, 0, 0), tiny);
    }

    #[test]
    fn what_the_isa_does_not_have_is_none() {
        assert!(function(O::Min, T::F32, false).is_none());
        assert!(function(O::Inc, T::U64, false).is_none());
    }
}
