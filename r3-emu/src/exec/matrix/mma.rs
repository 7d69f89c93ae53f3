//! `mma`, sparse `mma`, and the `mma` of `wmma`: fragments in, fragments out.
//!
//! Everything that depends on the instruction's words is worked out once, into a [`Plan`].

use super::layout::{Fragment, sparse_columns};
use super::number::{Accumulator, Format};
use super::product::{
    self, Sum, Vectors, multiply_bits, multiply_doubles, multiply_integers,
    multiply_without_tensor_cores,
};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::{Flow, LANES, Op};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Shape, Word};
use r3_ptx::typed::Operand;

/// What elements are, and what is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Floating-point multiplicands, and how their products are added.
    Float { a: Format, b: Format, sum: Sum },
    /// `m8n8k4` of `f16`.
    Quads,
    /// Integers of `bits`, signed or not.
    Integer {
        a: Integer,
        b: Integer,
        saturate: bool,
    },
    /// Single bits: `and`, else `xor`.
    Bits { and: bool },
    /// `f64`
    Double,
}

/// An integer element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    pub bits: u32,
    pub signed: bool,
}

impl Integer {
    pub(super) fn of(ty: ScalarType) -> Option<Self> {
        let (bits, signed) = match ty {
            ScalarType::U8 => (8, false),
            ScalarType::S8 => (8, true),
            ScalarType::U4 => (4, false),
            ScalarType::S4 => (4, true),
            _ => return None,
        };
        Some(Self { bits, signed })
    }

    /// Value of the low bits.
    pub(super) fn value(self, raw: u32) -> i32 {
        let up = raw << (32 - self.bits);
        if self.signed {
            up.cast_signed() >> (32 - self.bits)
        } else {
            (up >> (32 - self.bits)).cast_signed()
        }
    }
}

/// Floating-point format of a multiplicand.
pub(super) fn format(ty: ScalarType) -> Option<Format> {
    Some(match ty {
        ScalarType::F16 => Format::F16,
        ScalarType::BF16 => Format::Bf16,
        ScalarType::TF32 => Format::Tf32,
        ScalarType::E4M3 => Format::E4m3,
        ScalarType::E5M2 => Format::E5m2,
        ScalarType::E2M1 => Format::E2m1,
        ScalarType::E2M3 => Format::E2m3,
        ScalarType::E3M2 => Format::E3m2,
        _ => return None,
    })
}

/// A decoded matrix instruction. Its slots are the registers of d, a, b, c, then that of the metadata.
struct Plan {
    engine: Engine,
    n: usize,
    k: usize,
    a: Fragment,
    b: Fragment,
    c: Fragment,
    d: Fragment,
    /// The accumulator, where it is floating-point: as it comes, and as it is returned.
    from: Accumulator,
    to: Accumulator,
    /// Selector of a sparse A.
    sparse: Option<usize>,
    /// Where the elements of `k` go before they are added: those of the first half in front.
    order: Option<Box<[usize]>>,
    /// First slots of a, b, c and of what follows.
    at: [usize; 4],
}

/// Decodes `mma` and `wmma.mma`.
pub(super) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let wmma = mnemonic.opcode() == Opcode::Wmma;
    let none = || Unsupported::new(format!("matrix product `{}`", mnemonic.text()));
    if mnemonic.has(Word::BlockScale) {
        return Err(Unsupported::new("scale factors of matrix blocks"));
    }
    let shape = mnemonic.shape().ok_or_else(none)?;
    let types = mnemonic.types();
    let (d_type, a_type, b_type, c_type) = match *types {
        [d, a, b, c] => (d, a, b, c),
        [d, c] if wmma => (d, ScalarType::F16, ScalarType::F16, c),
        _ => return Err(none()),
    };
    let sparse = mnemonic.has(Word::Sp) || mnemonic.has(Word::SpOrderedMetadata);
    let engine =
        engine(mnemonic, shape, wmma, sparse, [a_type, b_type, c_type]).ok_or_else(none)?;
    let accumulator = |ty| match ty {
        ScalarType::F16 => Accumulator::F16,
        _ => Accumulator::F32,
    };
    let (m, n, k) = (
        usize::from(shape.m),
        usize::from(shape.n),
        usize::from(shape.k),
    );
    let (c_bits, d_bits) = (bits_of(c_type), bits_of(d_type));
    let mut layouts = mnemonic.layouts();
    let (a_row, b_row) = (
        layouts.next().unwrap_or(true),
        layouts.next().unwrap_or(false),
    );
    let (a_bits, b_bits, k) = match engine {
        // Words of 32 bits are the elements.
        Engine::Bits { .. } => (32, 32, k / 32),
        Engine::Integer { a, b, .. } => (a.bits as usize, b.bits as usize, k),
        Engine::Float { a, b, .. } => (a.bits(), b.bits(), k),
        Engine::Quads => (16, 16, k),
        Engine::Double => (64, 64, k),
    };
    let stored = if sparse { k / 2 } else { k };
    let (a, b, c, result) = if engine == Engine::Quads {
        (
            Fragment::quad_a(a_row),
            Fragment::quad_b(b_row),
            Fragment::quad_accumulator(c_bits),
            Fragment::quad_accumulator(d_bits),
        )
    } else if m == 8 && n == 32 {
        (
            Fragment::a(m, k, a_bits),
            Fragment::a(n, k, b_bits),
            Fragment::transposed_accumulator(m, n, c_bits),
            Fragment::transposed_accumulator(m, n, d_bits),
        )
    } else {
        (
            Fragment::a(m, stored, a_bits),
            Fragment::b(k, n, b_bits),
            Fragment::accumulator(m, n, c_bits),
            Fragment::accumulator(m, n, d_bits),
        )
    };
    let order = match engine {
        Engine::Float {
            sum: Sum { separate: true, .. },
            ..
        } => Some(halves(k, if sparse { 8 } else { 4 })),
        _ => None,
    };

    let mut op = d.whole(Class::Matrix, run);
    let mut slots = Vec::new();
    let wide = engine == Engine::Double;
    let operands = (0..4)
        .map(|i| Ok(d.elements(d.operand(i)?)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut at = [0; 4];
    for (i, elements) in operands.iter().enumerate() {
        let fragment = [&result, &a, &b, &c][i];
        let needed = if wide {
            fragment.per_lane
        } else {
            fragment.registers()
        };
        if elements.len() < needed {
            return Err(Unsupported::new(format!(
                "{} registers where the fragment has {needed}",
                elements.len()
            )));
        }
        for &element in elements {
            slots.push(match (i, wide) {
                (0, false) => d.dst_of::<u32>(element)?,
                (0, true) => d.dst_of::<u64>(element)?,
                (_, false) => d.src_of::<u32>(element)?,
                (_, true) => d.src_of::<u64>(element)?,
            });
        }
        at[i] = slots.len();
    }
    let selector = if sparse {
        slots.push(d.src::<u32>(4)?);
        match d.operand(5)? {
            Operand::Number(selector) => Some(selector as usize & 3),
            _ => return Err(Unsupported::new("sparsity selector that is no number")),
        }
    } else {
        None
    };
    d.list(&mut op, &slots);
    d.record(
        &mut op,
        Plan {
            engine,
            n,
            k,
            a,
            b,
            c,
            d: result,
            from: accumulator(c_type),
            to: accumulator(d_type),
            sparse: selector,
            order,
            at,
        },
    );
    Ok(op)
}

/// Bits of an accumulator in the registers.
fn bits_of(ty: ScalarType) -> usize {
    match ty {
        ScalarType::F16 => 16,
        ScalarType::F64 => 64,
        _ => 32,
    }
}

/// What the words say about elements and sums.
fn engine(
    mnemonic: &Mnemonic,
    shape: Shape,
    wmma: bool,
    sparse: bool,
    [a, b, c]: [ScalarType; 3],
) -> Option<Engine> {
    if a == ScalarType::B1 {
        return Some(Engine::Bits {
            and: mnemonic.has(Word::And),
        });
    }
    if a == ScalarType::F64 {
        return Some(Engine::Double);
    }
    if let (Some(a), Some(b)) = (Integer::of(a), Integer::of(b)) {
        return Some(Engine::Integer {
            a,
            b,
            saturate: mnemonic.satfinite(),
        });
    }
    let (a, b) = (format(a)?, format(b)?);
    if (shape.m, shape.n, shape.k) == (8, 8, 4) {
        return Some(Engine::Quads);
    }
    let native = mnemonic.has(Word::KindF8f6f4);
    let block = match a {
        Format::Tf32 if wmma => 4,
        Format::Tf32 => 8,
        Format::F16 | Format::Bf16 => 16,
        _ if native => 32,
        _ => usize::from(shape.k) / 2,
    };
    // A sparse block has as many elements that are stored, among twice as many.
    let block = if sparse && !a.narrow() {
        2 * block
    } else {
        block
    };
    Some(Engine::Float {
        a,
        b,
        sum: Sum {
            block,
            fraction: 25,
            accumulator: if c == ScalarType::F16 {
                Accumulator::F16
            } else {
                Accumulator::F32
            },
            separate: a.narrow() && !native,
        },
    })
}

/// Elements of `k` by halves of groups of `group`: new place of each.
fn halves(k: usize, group: usize) -> Box<[usize]> {
    (0..k)
        .map(|i| {
            let (g, within) = (i / group, i % group);
            let half = within / (group / 2);
            half * k / 2 + g * (group / 2) + within % (group / 2)
        })
        .collect()
}

#[inline(always)]
fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if let Some(flow) = warp.converge(mask, u32::MAX) {
        return flow;
    }
    let plan: &Plan = warp.data(op);
    let slots = warp.slots(op);
    let (result, rest) = slots.split_at(plan.at[0]);
    let a = &rest[..plan.at[1] - plan.at[0]];
    let b = &slots[plan.at[1]..plan.at[2]];
    let c = &slots[plan.at[2]..plan.at[3]];
    if plan.engine == Engine::Double {
        let a = plan.a.gather_wide(|r| warp.get(a[r]));
        let b = plan.b.gather_wide(|r| warp.get(b[r]));
        let mut sums = plan.c.gather_wide(|r| warp.get(c[r]));
        multiply_doubles(&a, &b, plan.k, &mut sums, plan.n);
        for (r, &slot) in result.iter().enumerate() {
            warp.put(slot, mask, &plan.d.scatter_wide(&sums, r));
        }
        return Flow::Next;
    }
    let mut a = plan.a.gather(|r| warp.get(a[r]));
    let mut b = plan.b.gather(|r| warp.get(b[r]));
    let mut sums = plan.c.gather(|r| warp.get(c[r]));
    let mut absent = Vec::new();
    if let (Some(selector), Some(&metadata)) = (plan.sparse, slots.get(plan.at[3])) {
        (a, absent) = expand(plan, selector, &a, &warp.get(metadata));
    }
    if let Some(order) = &plan.order {
        a = reorder(&a, order);
        b = reorder(&b, order);
        absent = reorder(&absent, order);
    }
    plan.multiply(&a, &b, absent, &mut sums);
    for (r, &slot) in result.iter().enumerate() {
        warp.put(slot, mask, &plan.d.scatter(&sums, r));
    }
    Flow::Next
}

/// A sparse A with its zeros, and which those are.
fn expand(
    plan: &Plan,
    selector: usize,
    stored: &[u32],
    metadata: &[u32; LANES],
) -> (Vec<u32>, Vec<bool>) {
    let columns = sparse_columns(plan.a.bits, plan.k, selector, metadata);
    let (mut full, mut absent) = (vec![0; 16 * plan.k], vec![true; 16 * plan.k]);
    for (place, (&column, &element)) in columns.iter().zip(stored).enumerate() {
        let row = place / (plan.k / 2);
        let place = row * plan.k + usize::from(column);
        full[place] = element;
        absent[place] = false;
    }
    (full, absent)
}

/// Vectors with their elements at new places.
fn reorder<T: Copy + Default>(elements: &[T], order: &[usize]) -> Vec<T> {
    let mut out = vec![T::default(); elements.len()];
    for (from, to) in elements
        .chunks_exact(order.len())
        .zip(out.chunks_exact_mut(order.len()))
    {
        for (&element, &place) in from.iter().zip(order) {
            to[place] = element;
        }
    }
    out
}

impl Plan {
    /// The product; `sums` are accumulators as they came, then as they are returned.
    #[inline(always)]
    fn multiply(&self, a: &[u32], b: &[u32], absent: Vec<bool>, sums: &mut [u32]) {
        match self.engine {
            Engine::Float {
                a: a_format,
                b: b_format,
                sum,
            } => {
                let sum = self.widen(sum, sums);
                let a = Vectors::new(a_format, self.k, a).sparse(absent);
                let b = Vectors::new(b_format, self.k, b);
                sum.multiply(&a, &b, sums, self.n);
                self.narrow(sum.accumulator, sums);
            }
            Engine::Quads => {
                for (quad, sums) in sums.chunks_exact_mut(64).enumerate() {
                    let part = 32 * quad..32 * quad + 32;
                    let a = Vectors::new(Format::F16, 4, &a[part.clone()]);
                    let b = Vectors::new(Format::F16, 4, &b[part]);
                    if self.to == Accumulator::F32 {
                        widen(self.from, sums);
                        multiply_without_tensor_cores(self.to, &a, &b, sums, 8);
                    } else {
                        multiply_without_tensor_cores(self.from, &a, &b, sums, 8);
                        self.narrow(self.from, sums);
                    }
                }
            }
            Engine::Integer {
                a: a_type,
                b: b_type,
                saturate,
            } => {
                let a: Vec<i32> = a.iter().map(|&raw| a_type.value(raw)).collect();
                let b: Vec<i32> = b.iter().map(|&raw| b_type.value(raw)).collect();
                multiply_integers(&a, &b, self.k, sums, self.n, saturate);
            }
            Engine::Bits { and } => multiply_bits(a, b, self.k, sums, self.n, and),
            Engine::Double => {}
        }
    }

    /// Half-precision accumulators become single where the result is single.
    fn widen(&self, sum: Sum, sums: &mut [u32]) -> Sum {
        if self.to == Accumulator::F16 {
            return sum;
        }
        widen(self.from, sums);
        Sum {
            accumulator: self.to,
            ..sum
        }
    }

    /// Single sums are rounded where the result is half precision.
    fn narrow(&self, computed: Accumulator, sums: &mut [u32]) {
        if computed != Accumulator::F16 && self.to == Accumulator::F16 {
            for sum in sums {
                *sum = product::half_from_single(f32::from_bits(*sum));
            }
        }
    }
}

fn widen(from: Accumulator, sums: &mut [u32]) {
    if from == Accumulator::F16 {
        for sum in sums {
            let half = *sum;
            let single = (from.value(half) as f32).to_bits();
            // The value of a zero has no sign.
            *sum = single | (half & 0x8000) << 16;
        }
    }
}
