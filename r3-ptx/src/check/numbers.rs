//! Literals as bits of a type.

use crate::isa::{ScalarType, TypeKind};
use crate::tree::Number;

/// Bits of a number as a value of the type; `None` when it has no value there. Integers are cut to the
/// type; a float literal is a value of a float type, and its bits where they fit an untyped operand.
pub(super) fn bits(number: Number, ty: ScalarType) -> Option<u64> {
    use ScalarType as T;
    let integer = |value: u64| match ty.kind() {
        TypeKind::Pred => Some(u64::from(value != 0)),
        TypeKind::Bits | TypeKind::Unsigned | TypeKind::Signed => Some(cut(value, ty)),
        TypeKind::Float | TypeKind::Opaque => None,
    };
    match (number, ty) {
        (Number::Signed(value), _) => integer(value as u64),
        (Number::Unsigned(value), _) => integer(value),
        (Number::Single(bits), T::F32 | T::B32) => Some(u64::from(bits)),
        (Number::Single(bits), T::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
        (Number::Double(bits), T::F64 | T::B64) => Some(bits),
        (Number::Double(bits) | Number::Decimal(bits), T::F32) => {
            Some(u64::from((f64::from_bits(bits) as f32).to_bits()))
        }
        (Number::Decimal(bits), T::F64) => Some(bits),
        _ => None,
    }
}

/// The low bits that the type has.
pub(super) fn cut(value: u64, ty: ScalarType) -> u64 {
    match ty.bits() {
        bits @ 0..64 => value & ((1 << bits) - 1),
        _ => value,
    }
}

/// Value of an integer literal.
pub(super) fn integer(number: Number) -> Option<i64> {
    match number {
        Number::Signed(value) => Some(value),
        Number::Unsigned(value) => Some(value as i64),
        _ => None,
    }
}

/// For messages.
pub(super) fn describe(number: Number) -> String {
    match number {
        Number::Signed(value) => format!("the number {value}"),
        Number::Unsigned(value) => format!("the number {value}"),
        Number::Single(bits) => format!("the number 0f{bits:08X}"),
        Number::Double(bits) => format!("the number 0d{bits:016X}"),
        Number::Decimal(bits) => format!("the number {:?}", f64::from_bits(bits)),
    }
}
