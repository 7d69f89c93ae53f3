//! Integer arithmetic without carries.

use super::Op;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};

type Decoded = Result<Op, Unsupported>;

/// Calls `$d.$map` with a closure for the type `$ty`, in which `Int` is that type.
macro_rules! by_type {
    ($d:ident.$map:ident, $ty:expr, $f:expr) => {{
        use ScalarType as S;
        match $ty {
            S::U16 | S::B16 => by_type!(@ $d.$map, Alu, u16, $f),
            S::U32 | S::B32 => by_type!(@ $d.$map, Alu, u32, $f),
            S::U64 | S::B64 => by_type!(@ $d.$map, Wide, u64, $f),
            S::S16 => by_type!(@ $d.$map, Alu, i16, $f),
            S::S32 => by_type!(@ $d.$map, Alu, i32, $f),
            S::S64 => by_type!(@ $d.$map, Wide, i64, $f),
            _ => return None,
        }
    }};
    (@ $d:ident.$map:ident, $class:ident, $int:ty, $f:expr) => {{
        #[allow(dead_code)]
        type Int = $int;
        $d.$map(Class::$class, $f)
    }};
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    let ty = mnemonic.ty()?;
    if !ty.is_integer() || mnemonic.types().iter().any(|t| t.is_float()) {
        return None;
    }
    if ty.lanes() > 1 {
        return packed(d, mnemonic, ty);
    }
    if mnemonic.has(Word::Cc) {
        return None;
    }
    let (sat, relu) = (mnemonic.sat(), mnemonic.relu());
    Some(match mnemonic.opcode() {
        Opcode::Add if sat => {
            macro_rules! f {
                () => {
                    |a: Int, b: Int| a.saturating_add(b)
                };
            }
            by_type!(d.map2, ty, f!())
        }
        Opcode::Sub if sat => {
            macro_rules! f {
                () => {
                    |a: Int, b: Int| a.saturating_sub(b)
                };
            }
            by_type!(d.map2, ty, f!())
        }
        Opcode::Add => by_type!(d.map2, ty, |a: Int, b: Int| a.wrapping_add(b)),
        Opcode::Sub => by_type!(d.map2, ty, |a: Int, b: Int| a.wrapping_sub(b)),
        Opcode::Mul => multiply(d, mnemonic, ty)?,
        Opcode::Mad => multiply_add(d, mnemonic, ty)?,
        Opcode::Mul24 | Opcode::Mad24 => multiply_24(d, mnemonic, ty)?,
        Opcode::Sad => by_type!(d.map3, ty, |a: Int, b: Int, c: Int| {
            let difference = if a < b {
                b.wrapping_sub(a)
            } else {
                a.wrapping_sub(b)
            };
            c.wrapping_add(difference)
        }),
        // As an H200 divides by 0: all ones, for the remainder too.
        Opcode::Div => divide(by_type!(d.map2, ty, |a: Int, b: Int| {
            if b == 0 { !0 } else { a.wrapping_div(b) }
        })),
        Opcode::Rem => divide(by_type!(d.map2, ty, |a: Int, b: Int| {
            if b == 0 { !0 } else { a.wrapping_rem(b) }
        })),
        Opcode::Abs => match ty {
            ScalarType::S16 => d.map1(Class::Alu, |a: i16| a.wrapping_abs()),
            ScalarType::S32 => d.map1(Class::Alu, |a: i32| a.wrapping_abs()),
            ScalarType::S64 => d.map1(Class::Wide, |a: i64| a.wrapping_abs()),
            _ => return None,
        },
        Opcode::Neg => by_type!(d.map1, ty, |a: Int| a.wrapping_neg()),
        Opcode::Min if relu => d.map2(Class::Alu, |a: i32, b: i32| a.min(b).max(0)),
        Opcode::Max if relu => d.map2(Class::Alu, |a: i32, b: i32| a.max(b).max(0)),
        Opcode::Min => by_type!(d.map2, ty, |a: Int, b: Int| a.min(b)),
        Opcode::Max => by_type!(d.map2, ty, |a: Int, b: Int| a.max(b)),
        _ => return None,
    })
}

/// A division costs what 64-bit arithmetic does.
fn divide(op: Decoded) -> Decoded {
    op.map(|op| Op {
        class: Class::Wide,
        ..op
    })
}

fn multiply(d: &mut Decoder<'_>, mnemonic: &Mnemonic, ty: ScalarType) -> Option<Decoded> {
    use ScalarType as S;
    if mnemonic.has(Word::Wide) {
        return Some(match ty {
            S::U16 => d.map2(Class::Alu, |a: u16, b: u16| u32::from(a) * u32::from(b)),
            S::S16 => d.map2(Class::Alu, |a: i16, b: i16| i32::from(a) * i32::from(b)),
            S::U32 => d.map2(Class::Alu, |a: u32, b: u32| u64::from(a) * u64::from(b)),
            S::S32 => d.map2(Class::Alu, |a: i32, b: i32| i64::from(a) * i64::from(b)),
            _ => return None,
        });
    }
    if mnemonic.has(Word::Hi) {
        return Some(match ty {
            S::U16 => d.map2(Class::Alu, high_u16),
            S::S16 => d.map2(Class::Alu, high_s16),
            S::U32 => d.map2(Class::Alu, high_u32),
            S::S32 => d.map2(Class::Alu, high_s32),
            S::U64 => d.map2(Class::Wide, high_u64),
            S::S64 => d.map2(Class::Wide, high_s64),
            _ => return None,
        });
    }
    Some(by_type!(d.map2, ty, |a: Int, b: Int| a.wrapping_mul(b)))
}

fn multiply_add(d: &mut Decoder<'_>, mnemonic: &Mnemonic, ty: ScalarType) -> Option<Decoded> {
    use ScalarType as S;
    if mnemonic.has(Word::Wide) {
        return Some(match ty {
            S::U16 => d.map3(Class::Alu, |a: u16, b: u16, c: u32| {
                c.wrapping_add(u32::from(a) * u32::from(b))
            }),
            S::S16 => d.map3(Class::Alu, |a: i16, b: i16, c: i32| {
                c.wrapping_add(i32::from(a) * i32::from(b))
            }),
            S::U32 => d.map3(Class::Alu, |a: u32, b: u32, c: u64| {
                c.wrapping_add(u64::from(a) * u64::from(b))
            }),
            S::S32 => d.map3(Class::Alu, |a: i32, b: i32, c: i64| {
                c.wrapping_add(i64::from(a) * i64::from(b))
            }),
            _ => return None,
        });
    }
    if mnemonic.has(Word::Hi) {
        return Some(match ty {
            S::S32 if mnemonic.sat() => d.map3(Class::Alu, |a: i32, b: i32, c: i32| {
                high_s32(a, b).saturating_add(c)
            }),
            S::U16 => d.map3(Class::Alu, |a, b, c: u16| high_u16(a, b).wrapping_add(c)),
            S::S16 => d.map3(Class::Alu, |a, b, c: i16| high_s16(a, b).wrapping_add(c)),
            S::U32 => d.map3(Class::Alu, |a, b, c: u32| high_u32(a, b).wrapping_add(c)),
            S::S32 => d.map3(Class::Alu, |a, b, c: i32| high_s32(a, b).wrapping_add(c)),
            S::U64 => d.map3(Class::Wide, |a, b, c: u64| high_u64(a, b).wrapping_add(c)),
            S::S64 => d.map3(Class::Wide, |a, b, c: i64| high_s64(a, b).wrapping_add(c)),
            _ => return None,
        });
    }
    Some(by_type!(d.map3, ty, |a: Int, b: Int, c: Int| a
        .wrapping_mul(b)
        .wrapping_add(c)))
}

/// Products of the low 24 bits: `.lo` gives bits 31–0, `.hi` bits 47–16.
fn multiply_24(d: &mut Decoder<'_>, mnemonic: &Mnemonic, ty: ScalarType) -> Option<Decoded> {
    let add = mnemonic.opcode() == Opcode::Mad24;
    let high = mnemonic.has(Word::Hi);
    let signed = match ty {
        ScalarType::U32 => false,
        ScalarType::S32 => true,
        _ => return None,
    };
    const C: Class = Class::Alu;
    Some(match (add, high, signed) {
        (false, false, false) => d.map2(C, |a, b| product_u24(a, b) as u32),
        (false, false, true) => d.map2(C, |a, b| product_s24(a, b) as i32),
        (false, true, false) => d.map2(C, |a, b| (product_u24(a, b) >> 16) as u32),
        (false, true, true) => d.map2(C, |a, b| (product_s24(a, b) >> 16) as i32),
        (true, false, false) => d.map3(C, |a, b, c: u32| c.wrapping_add(product_u24(a, b) as u32)),
        (true, false, true) => d.map3(C, |a, b, c: i32| c.wrapping_add(product_s24(a, b) as i32)),
        (true, true, false) => d.map3(C, |a, b, c: u32| {
            c.wrapping_add((product_u24(a, b) >> 16) as u32)
        }),
        (true, true, true) if mnemonic.sat() => d.map3(C, |a, b, c: i32| {
            c.saturating_add((product_s24(a, b) >> 16) as i32)
        }),
        (true, true, true) => d.map3(C, |a, b, c: i32| {
            c.wrapping_add((product_s24(a, b) >> 16) as i32)
        }),
    })
}

#[inline(always)]
fn product_u24(a: u32, b: u32) -> u64 {
    u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)
}

#[inline(always)]
fn product_s24(a: i32, b: i32) -> i64 {
    i64::from(a << 8 >> 8) * i64::from(b << 8 >> 8)
}

#[inline(always)]
fn high_u16(a: u16, b: u16) -> u16 {
    ((u32::from(a) * u32::from(b)) >> 16) as u16
}

#[inline(always)]
fn high_s16(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b)) >> 16) as i16
}

#[inline(always)]
fn high_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline(always)]
fn high_s32(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b)) >> 32) as i32
}

#[inline(always)]
fn high_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[inline(always)]
fn high_s64(a: i64, b: i64) -> i64 {
    ((i128::from(a) * i128::from(b)) >> 64) as i64
}

/// Two 16-bit or four 8-bit values in 32 bits.
fn packed(d: &mut Decoder<'_>, mnemonic: &Mnemonic, ty: ScalarType) -> Option<Decoded> {
    use ScalarType as S;
    /// Calls `map2` with a closure that applies one to each element.
    macro_rules! each {
        ($int:ident, $f:expr) => {
            d.map2(Class::Alu, |a: u32, b: u32| {
                const BITS: u32 = $int::BITS;
                let mut r = 0;
                for i in 0..32 / BITS {
                    let f: fn($int, $int) -> $int = $f;
                    let value = f((a >> (i * BITS)) as $int, (b >> (i * BITS)) as $int);
                    r |= (value as u32 & (u32::MAX >> (32 - BITS))) << (i * BITS);
                }
                r
            })
        };
    }
    macro_rules! types {
        ($f:expr) => {
            match ty {
                S::U16x2 => each!(u16, $f),
                S::S16x2 => each!(i16, $f),
                S::U8x4 => each!(u8, $f),
                S::S8x4 => each!(i8, $f),
                _ => return None,
            }
        };
    }
    let (sat, relu) = (mnemonic.sat(), mnemonic.relu());
    Some(match mnemonic.opcode() {
        Opcode::Add if sat => types!(|a, b| a.saturating_add(b)),
        Opcode::Sub if sat => types!(|a, b| a.saturating_sub(b)),
        Opcode::Add => types!(|a, b| a.wrapping_add(b)),
        Opcode::Sub => types!(|a, b| a.wrapping_sub(b)),
        Opcode::Min if relu => each!(i16, |a, b| a.min(b).max(0)),
        Opcode::Max if relu => each!(i16, |a, b| a.max(b).max(0)),
        Opcode::Min => types!(|a, b| a.min(b)),
        Opcode::Max => types!(|a, b| a.max(b)),
        Opcode::Neg => d.map1(Class::Alu, |a: u32| {
            let bytes = a.to_le_bytes().map(u8::wrapping_neg);
            u32::from_le_bytes(bytes)
        }),
        _ => return None,
    })
}
