//! Logic, shifts, permutations, and what counts or finds bits.

use super::{Flow, Op};
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::Operand;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    use ScalarType as S;
    const A: Class = Class::Alu;
    /// One closure for the widths 16, 32, 64.
    macro_rules! widths {
        ($map:ident, |$($arg:ident),+| $body:expr) => {
            match mnemonic.ty()?.bits() {
                16 => d.$map(A, |$($arg: u16),+| $body),
                32 => d.$map(A, |$($arg: u32),+| $body),
                64 => d.$map(A, |$($arg: u64),+| $body),
                _ => return None,
            }
        };
    }
    let ty = mnemonic.ty();
    let predicates = ty == Some(S::Pred);
    Some(match mnemonic.opcode() {
        Opcode::And if predicates => logic(d, |a, b| a & b),
        Opcode::Or if predicates => logic(d, |a, b| a | b),
        Opcode::Xor if predicates => logic(d, |a, b| a ^ b),
        Opcode::Not if predicates => not(d),
        Opcode::And => widths!(map2, |a, b| a & b),
        Opcode::Or => widths!(map2, |a, b| a | b),
        Opcode::Xor => widths!(map2, |a, b| a ^ b),
        Opcode::Not => widths!(map1, |a| !a),
        Opcode::Cnot => widths!(map1, |a| if a == 0 { 1 } else { 0 }),
        Opcode::Lop3 => lop3(d, mnemonic),
        // A count of at least the width leaves nothing, or the sign.
        Opcode::Shl => match ty?.bits() {
            16 => d.map2(A, |a: u16, n: u32| if n < 16 { a << (n & 15) } else { 0 }),
            32 => d.map2(A, |a: u32, n: u32| if n < 32 { a << (n & 31) } else { 0 }),
            64 => d.map2(A, |a: u64, n: u32| if n < 64 { a << (n & 63) } else { 0 }),
            _ => return None,
        },
        Opcode::Shr => match ty? {
            S::S16 => d.map2(A, |a: i16, n: u32| a >> n.min(15)),
            S::S32 => d.map2(A, |a: i32, n: u32| a >> n.min(31)),
            S::S64 => d.map2(A, |a: i64, n: u32| a >> n.min(63)),
            S::U16 | S::B16 => d.map2(A, |a: u16, n: u32| if n < 16 { a >> (n & 15) } else { 0 }),
            S::U32 | S::B32 => d.map2(A, |a: u32, n: u32| if n < 32 { a >> (n & 31) } else { 0 }),
            S::U64 | S::B64 => d.map2(A, |a: u64, n: u32| if n < 64 { a >> (n & 63) } else { 0 }),
            _ => return None,
        },
        Opcode::Shf => {
            let left = mnemonic.has(Word::L);
            match (left, mnemonic.has(Word::Wrap)) {
                (true, true) => d.map3(A, |a, b, n: u32| funnel_left(a, b, n & 31)),
                (true, false) => d.map3(A, |a, b, n: u32| funnel_left(a, b, n.min(32))),
                (false, true) => d.map3(A, |a, b, n: u32| funnel_right(a, b, n & 31)),
                (false, false) => d.map3(A, |a, b, n: u32| funnel_right(a, b, n.min(32))),
            }
        }
        Opcode::Prmt => permute(d, mnemonic),
        Opcode::Popc => match ty?.bits() {
            32 => d.map1(A, |a: u32| a.count_ones()),
            _ => d.map1(A, |a: u64| a.count_ones()),
        },
        Opcode::Clz => match ty?.bits() {
            32 => d.map1(A, |a: u32| a.leading_zeros()),
            _ => d.map1(A, |a: u64| a.leading_zeros()),
        },
        Opcode::Brev => match ty?.bits() {
            32 => d.map1(A, |a: u32| a.reverse_bits()),
            _ => d.map1(A, |a: u64| a.reverse_bits()),
        },
        Opcode::Bfind => {
            let amount = mnemonic.has(Word::Shiftamt);
            match (ty?, amount) {
                (S::U32, false) => d.map1(A, |a: u32| highest(a.into())),
                (S::U64, false) => d.map1(A, highest),
                (S::S32, false) => d.map1(A, |a: u32| highest(unsigned_32(a).into())),
                (S::S64, false) => d.map1(A, |a: u64| highest(unsigned_64(a))),
                (S::U32, true) => d.map1(A, |a: u32| shift_to(highest(a.into()), 31)),
                (S::U64, true) => d.map1(A, |a: u64| shift_to(highest(a), 63)),
                (S::S32, true) => d.map1(A, |a: u32| shift_to(highest(unsigned_32(a).into()), 31)),
                (S::S64, true) => d.map1(A, |a: u64| shift_to(highest(unsigned_64(a)), 63)),
                _ => return None,
            }
        }
        Opcode::Fns => d.map3(A, nth_set),
        // As on an H200, the 32-bit forms look at 8 bits of place and length, the 64-bit forms at all.
        Opcode::Bfe => match ty? {
            S::U32 => d.map3(A, |a: u32, pos: u32, len: u32| {
                extract(a.into(), pos & 255, len & 255, 32) as u32
            }),
            S::U64 => d.map3(A, |a: u64, pos: u32, len: u32| extract(a, pos, len, 64)),
            S::S32 => d.map3(A, |a: u32, pos: u32, len: u32| {
                extract_signed(i64::from(a as i32), pos & 255, len & 255, 32) as u32
            }),
            S::S64 => d.map3(A, |a: u64, pos: u32, len: u32| {
                extract_signed(a as i64, pos, len, 64) as u64
            }),
            _ => return None,
        },
        Opcode::Bfi => insert(d, ty?),
        Opcode::Bmsk => match mnemonic.has(Word::Wrap) {
            true => d.map2(A, |pos: u32, len: u32| field(pos & 31, len & 31)),
            false => d.map2(A, |pos: u32, len: u32| field(pos.min(32), len.min(32))),
        },
        Opcode::Szext => match (ty?, mnemonic.has(Word::Wrap)) {
            (S::U32, true) => d.map2(A, |a: u32, n: u32| extract(a.into(), 0, n & 31, 32) as u32),
            (S::U32, false) => d.map2(A, |a: u32, n: u32| {
                extract(a.into(), 0, n.min(32), 32) as u32
            }),
            (S::S32, true) => d.map2(A, |a: i32, n: u32| extend(a, n & 31)),
            (S::S32, false) => d.map2(A, |a: i32, n: u32| extend(a, n.min(32))),
            _ => return None,
        },
        _ => return None,
    })
}

/// An operation on predicates: bits of all lanes at once.
fn logic<F>(d: &mut Decoder<'_>, _: F) -> Result<Op, Unsupported>
where
    F: Fn(u32, u32) -> u32 + Copy + 'static,
{
    struct Logic<F>(std::marker::PhantomData<F>);
    impl<F: Fn(u32, u32) -> u32 + Copy + 'static> super::Body for Logic<F> {
        #[inline(always)]
        fn run(warp: &mut crate::block::Warp, op: &Op, mask: u32) -> Flow {
            let value = super::Zst::<F>::get()(warp.predicate(op.a), warp.predicate(op.b));
            warp.set_predicate(op.d, mask, value);
            Flow::Next
        }
    }
    let mut op = d.op::<Logic<F>>(Class::Alu);
    op.a = d.predicate(1)?;
    op.b = d.predicate(2)?;
    op.d = d.dst_predicate(0)?;
    Ok(op)
}

fn not(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        let value = !warp.predicate(op.a);
        warp.set_predicate(op.d, mask, value);
        Flow::Next
    });
    op.a = d.predicate(1)?;
    op.d = d.dst_predicate(0)?;
    Ok(op)
}

/// `lop3.b32 d, a, b, c, table`, or `lop3.or.b32 d|p, a, b, c, table, q`: `p` is whether the result is not 0, or'ed with `q`.
fn lop3(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let Operand::Number(table) = d.operand(4)? else {
        return Err(Unsupported::new("table that is no number"));
    };
    let with_predicate = mnemonic.boolean().is_some();
    let mut op = match table & 0xff {
        0x96 => d.whole(Class::Alu, |w, op, m| {
            w.map3(op, m, |a: u32, b: u32, c: u32| a ^ b ^ c)
        }),
        0xe8 => d.whole(Class::Alu, |w, op, m| {
            w.map3(op, m, |a: u32, b: u32, c: u32| (a & b) | (c & (a | b)))
        }),
        _ => d.whole(Class::Alu, |w, op, m| {
            let bit = |i: u32| if op.imm >> i & 1 != 0 { u32::MAX } else { 0 };
            let t = std::array::from_fn::<u32, 8, _>(|i| bit(i as u32));
            w.map3(op, m, move |a: u32, b: u32, c: u32| {
                let choose = |s: u32, x: u32, y: u32| (s & x) | (!s & y);
                let low = choose(b, choose(c, t[3], t[2]), choose(c, t[1], t[0]));
                let high = choose(b, choose(c, t[7], t[6]), choose(c, t[5], t[4]));
                choose(a, high, low)
            })
        }),
    };
    op.imm = table;
    op.a = d.src::<u32>(1)?;
    op.b = d.src::<u32>(2)?;
    op.c = d.src::<u32>(3)?;
    if !with_predicate {
        op.d = d.dst::<u32>(0)?;
        return Ok(op);
    }
    let (result, predicate) = match d.operand(0)? {
        Operand::Pair(_) => {
            let pair = d.elements(d.operand(0)?);
            (pair[0], pair[1])
        }
        single => (single, Operand::Sink),
    };
    let value = d.temporary::<u32>();
    op.d = value;
    let mut test = if mnemonic.has(Word::Or) {
        d.whole(Class::Alu, |w, op, m| {
            let value = w.test2(op, |a: u32, _: u32| a != 0) | w.predicate(op.c);
            w.set_predicate(op.d, m, value);
            Flow::Next
        })
    } else {
        d.whole(Class::Alu, |w, op, m| {
            let value = w.test2(op, |a: u32, _: u32| a != 0) & w.predicate(op.c);
            w.set_predicate(op.d, m, value);
            Flow::Next
        })
    };
    (test.a, test.b) = (value, value);
    test.c = d.predicate(5)?;
    test.d = d.dst_predicate_of(predicate)?;
    d.after(test);
    // The result last: it may be a source of nothing any more.
    let mut copy = d.whole(Class::Alu, |w, op, m| w.map1(op, m, |a: u32| a));
    copy.a = value;
    copy.d = d.dst_of::<u32>(result)?;
    d.after_first(copy);
    Ok(op)
}

/// High half of `b:a` shifted left.
#[inline(always)]
fn funnel_left(a: u32, b: u32, n: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    ((both << n) >> 32) as u32
}

/// Low half of `b:a` shifted right.
#[inline(always)]
fn funnel_right(a: u32, b: u32, n: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    (both >> n) as u32
}

/// Place of the highest 1, all ones without one.
#[inline(always)]
fn highest(a: u64) -> u32 {
    63u32.wrapping_sub(a.leading_zeros())
}

/// What is searched of a signed value: the bits that differ from its sign.
#[inline(always)]
fn unsigned_32(a: u32) -> u32 {
    a ^ ((a as i32) >> 31) as u32
}

#[inline(always)]
fn unsigned_64(a: u64) -> u64 {
    a ^ ((a as i64) >> 63) as u64
}

/// How far the found bit is from the top.
#[inline(always)]
fn shift_to(found: u32, top: u32) -> u32 {
    if found == u32::MAX {
        found
    } else {
        top - found
    }
}

/// `fns`: place of the n-th 1 of `mask`, counted from `base`: upwards with `n` above 0, downwards below; 0 asks for `base` itself.
#[inline(always)]
fn nth_set(mask: u32, base: u32, n: i32) -> u32 {
    let base = base & 31;
    let (step, mut left) = match n {
        0 => {
            return if mask >> base & 1 != 0 {
                base
            } else {
                u32::MAX
            };
        }
        1.. => (1, n.unsigned_abs()),
        _ => (-1, n.unsigned_abs()),
    };
    let mut place = base as i32;
    while (0..32).contains(&place) {
        if mask >> place & 1 != 0 {
            left -= 1;
            if left == 0 {
                return place as u32;
            }
        }
        place += step;
    }
    u32::MAX
}

/// A mask of `len` ones from `pos` up.
#[inline(always)]
fn field(pos: u32, len: u32) -> u32 {
    (((1u64 << len) - 1) << pos) as u32
}

#[inline(always)]
fn low_ones(len: u32) -> u64 {
    if len >= 64 {
        u64::MAX
    } else {
        (1 << (len & 63)) - 1
    }
}

/// `len` bits of `a` from `pos` up; nothing beyond the width.
#[inline(always)]
fn extract(a: u64, pos: u32, len: u32, width: u32) -> u64 {
    if pos >= width {
        return 0;
    }
    (a >> (pos & 63)) & low_ones(len)
}

/// As `extract`, extended with the highest bit of the field, or the value's sign where the field passes its end.
#[inline(always)]
fn extract_signed(a: i64, pos: u32, len: u32, width: u32) -> i64 {
    if len == 0 {
        return 0;
    }
    // `a` is sign-extended beyond its width, so a field that passes the end has its sign.
    let top = pos.saturating_add(len - 1).min(width - 1);
    let sign = if a >> (top & 63) & 1 != 0 { -1i64 } else { 0 };
    if pos >= width {
        return sign;
    }
    let ones = low_ones(len);
    ((a >> (pos & 63)) & ones as i64) | (sign & !ones as i64)
}

#[inline(always)]
fn extend(a: i32, bits: u32) -> i32 {
    if bits == 0 {
        return 0;
    }
    let shift = 32 - bits;
    a << shift >> shift
}

/// `bfi d, a, b, pos, len`: the low `len` bits of `a` go to `pos` in `b`.
fn insert(d: &mut Decoder<'_>, ty: ScalarType) -> Result<Op, Unsupported> {
    macro_rules! bfi {
        ($int:ty) => {{
            let mut op = d.whole(Class::Alu, |warp, op, mask| {
                let (a, b): ([$int; 32], [$int; 32]) = (warp.get(op.a), warp.get(op.b));
                let (pos, len): ([u32; 32], [u32; 32]) = (warp.get(op.c), warp.get(op.f));
                let mut r = [0; 32];
                for i in 0..32 {
                    let few = if <$int>::BITS == 32 { 255 } else { u32::MAX };
                    let (pos, len) = (pos[i] & few, len[i] & few);
                    let ones = if pos < <$int>::BITS {
                        (low_ones(len) as $int) << (pos % <$int>::BITS)
                    } else {
                        0
                    };
                    let moved = a[i] << (pos % <$int>::BITS);
                    r[i] = (b[i] & !ones) | (moved & ones);
                }
                warp.put(op.d, mask, &r);
                Flow::Next
            });
            op.a = d.src::<$int>(1)?;
            op.b = d.src::<$int>(2)?;
            op.d = d.dst::<$int>(0)?;
            op
        }};
    }
    let mut op = if ty.bits() == 64 {
        bfi!(u64)
    } else {
        bfi!(u32)
    };
    op.c = d.src::<u32>(3)?;
    op.f = d.src::<u32>(4)?;
    Ok(op)
}

/// `prmt`: each byte of the result is one of the eight of `b:a`, or its sign.
fn permute(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    const A: Class = Class::Alu;
    #[inline(always)]
    fn pick(a: u32, b: u32, selector: u32) -> u32 {
        let both = u64::from(b) << 32 | u64::from(a);
        let mut r = 0;
        for i in 0..4 {
            let s = selector >> (4 * i) & 15;
            let byte = (both >> (8 * (s & 7))) as u8;
            let byte = if s & 8 != 0 {
                ((byte as i8) >> 7) as u8
            } else {
                byte
            };
            r |= u32::from(byte) << (8 * i);
        }
        r
    }
    /// The selector of a mode, for the low two bits of `c`.
    macro_rules! mode {
        ($table:expr) => {
            d.map3(A, |a: u32, b: u32, c: u32| {
                const TABLE: [u32; 4] = $table;
                pick(a, b, TABLE[(c & 3) as usize])
            })
        };
    }
    match mnemonic.any_of(&[
        Word::F4e,
        Word::B4e,
        Word::Rc8,
        Word::Ecl,
        Word::Ecr,
        Word::Rc16,
    ]) {
        None => d.map3(A, pick),
        Some(Word::F4e) => mode!([0x3210, 0x4321, 0x5432, 0x6543]),
        Some(Word::B4e) => mode!([0x5670, 0x6701, 0x7012, 0x0123]),
        Some(Word::Rc8) => mode!([0x0000, 0x1111, 0x2222, 0x3333]),
        Some(Word::Ecl) => mode!([0x3210, 0x3211, 0x3222, 0x3333]),
        Some(Word::Ecr) => mode!([0x0000, 0x1110, 0x2210, 0x3210]),
        Some(_) => mode!([0x1010, 0x3232, 0x1010, 0x3232]),
    }
}

#[cfg(test)]
mod tests {
    use super::nth_set;

    #[test]
    fn no_mask_has_a_bit_as_far_away_as_the_most_extreme_counts() {
        assert_eq!(nth_set(u32::MAX, 0, i32::MIN), u32::MAX);
        assert_eq!(nth_set(u32::MAX, 31, i32::MIN), u32::MAX);
        assert_eq!(nth_set(u32::MAX, 31, i32::MAX), u32::MAX);
        assert_eq!(nth_set(0b1010, 3, -2), 1);
    }
}
