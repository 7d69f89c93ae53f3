//! `wgmma`: products of four warps, with B, and mostly A, in shared memory.
//!
//! Each warp computes the 16 rows that are its own, when it comes to the instruction: reading the multiplicands at once is
//! one of the times at which the asynchronous operation may read them. `wgmma.fence`, `commit_group` and `wait_group` then
//! have nothing to wait for.

use super::access;
use super::descriptor::Descriptor;
use super::layout::{Fragment, sparse_columns};
use super::mma::{Integer, format};
use super::number::{Accumulator, Format};
use super::product::{Sum, Vectors, multiply_bits, multiply_integers};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::{Flow, LANES, Op, Slot};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, ScalarType, Word};
use r3_ptx::typed::Operand;

/// Rows of A and of the result that a warp computes.
const ROWS: usize = 16;

/// What elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Float {
        a: Format,
        b: Format,
        sum: Sum,
    },
    Integer {
        a: Integer,
        b: Integer,
        saturate: bool,
    },
    Bits {
        and: bool,
    },
}

/// Where A comes from.
enum Source {
    /// A descriptor in this slot; elements along `k` are neighbours or not.
    Shared { descriptor: Slot, k_major: bool },
    /// Registers.
    Registers {
        slots: [Slot; 4],
        fragment: Fragment,
    },
}

/// Where a sparse A has its elements.
#[derive(Clone, Copy, Debug)]
struct Sparse {
    metadata: Slot,
    selector: usize,
}

/// A decoded `wgmma.mma_async`. Its list has the accumulators.
struct Plan {
    engine: Engine,
    n: usize,
    k: usize,
    /// Bits of an element: 32 where words of single bits are the elements.
    bits: usize,
    a: Source,
    /// Descriptor of B, and whether elements along `k` are neighbours.
    b: (Slot, bool),
    sparse: Option<Sparse>,
    /// The predicate that says that the accumulator is added.
    accumulate: Slot,
    negate: bool,
    fragment: Fragment,
}

/// Decodes all of `wgmma`.
pub(super) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    if mnemonic.has(Word::MmaAsync) {
        return product(d, mnemonic);
    }
    // `wgmma.fence`, `wgmma.commit_group`, `wgmma.wait_group`.
    Ok(d.whole(Class::Barrier, |_, _, _| Flow::Next))
}

fn product(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let none = || Unsupported::new(format!("matrix product `{}`", mnemonic.text()));
    let shape = mnemonic.shape().ok_or_else(none)?;
    let &[d_type, a_type, b_type] = mnemonic.types() else {
        return Err(none());
    };
    let engine = engine(mnemonic, d_type, a_type, b_type).ok_or_else(none)?;
    let (bits, n, k) = match engine {
        Engine::Float { a, .. } => (a.bits(), shape.n, shape.k),
        Engine::Integer { a, .. } => (a.bits as usize, shape.n, shape.k),
        Engine::Bits { .. } => (32, shape.n, shape.k / 32),
    };
    let (n, k) = (usize::from(n), usize::from(k));
    let sparse = mnemonic.has(Word::Sp) || mnemonic.has(Word::SpOrderedMetadata);
    let stored = if sparse { k / 2 } else { k };

    // What follows the descriptors: metadata and selector, scale-d, signs, transpositions.
    let mut next = 3;
    let sparse = if sparse {
        next = 5;
        let metadata = d.src::<u32>(3)?;
        let Operand::Number(selector) = d.operand(4)? else {
            return Err(Unsupported::new("sparsity selector that is no number"));
        };
        Some(Sparse {
            metadata,
            selector: selector as usize & 3,
        })
    } else {
        None
    };
    let accumulate = d.predicate(next)?;
    let immediates = (next + 1..d.operand_count())
        .map(|i| match d.operand(i)? {
            Operand::Number(value) => Ok(value as u32),
            _ => Err(Unsupported::new("sign or transposition that is no number")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let flag = |i: usize| immediates.get(i).copied().unwrap_or(0);
    let negative = |i: usize| flag(i) == u32::MAX;

    let first = d.operand(1)?;
    let in_registers = matches!(first, Operand::Vector(..));
    let a = if in_registers {
        let registers = d.elements(first);
        let mut slots = [Slot::TRUE; 4];
        if registers.len() != slots.len() {
            return Err(none());
        }
        for (slot, register) in slots.iter_mut().zip(registers) {
            *slot = d.src_of::<u32>(register)?;
        }
        Source::Registers {
            slots,
            fragment: Fragment::a(ROWS, stored, bits),
        }
    } else {
        Source::Shared {
            descriptor: d.src::<u64>(1)?,
            k_major: flag(2) == 0,
        }
    };
    let b_transposed = flag(if in_registers { 2 } else { 3 }) != 0;
    let b = (d.src::<u64>(2)?, !b_transposed);

    let d_bits = if d_type == ScalarType::F16 { 16 } else { 32 };
    let fragment = Fragment::accumulator(ROWS, n, d_bits);
    let registers = d.elements(d.operand(0)?);
    if registers.len() != fragment.registers() {
        return Err(none());
    }
    let mut op = d.whole(Class::Matrix, run);
    // Accumulators are read and written: a slot of the same width is the register itself.
    let slots = registers
        .into_iter()
        .map(|register| d.src_of::<u32>(register))
        .collect::<Result<Vec<_>, _>>()?;
    d.list(&mut op, &slots);
    d.record(
        &mut op,
        Plan {
            engine,
            n,
            k,
            bits,
            a,
            b,
            sparse,
            accumulate,
            negate: negative(0) != negative(1),
            fragment,
        },
    );
    Ok(op)
}

fn engine(
    mnemonic: &Mnemonic,
    d_type: ScalarType,
    a_type: ScalarType,
    b_type: ScalarType,
) -> Option<Engine> {
    if a_type == ScalarType::B1 {
        return Some(Engine::Bits {
            and: mnemonic.has(Word::And),
        });
    }
    if let (Some(a), Some(b)) = (Integer::of(a_type), Integer::of(b_type)) {
        return Some(Engine::Integer {
            a,
            b,
            saturate: mnemonic.satfinite(),
        });
    }
    let (a, b) = (format(a_type)?, format(b_type)?);
    let accumulator = match (d_type, a.narrow()) {
        (ScalarType::F16, _) => Accumulator::F16,
        (_, true) => Accumulator::F32Short,
        (_, false) => Accumulator::F32,
    };
    let sparse = mnemonic.has(Word::Sp) || mnemonic.has(Word::SpOrderedMetadata);
    Some(Engine::Float {
        a,
        b,
        sum: Sum {
            block: 256 / a.bits() * if sparse { 2 } else { 1 },
            fraction: if a.narrow() { 13 } else { 25 },
            accumulator,
            separate: false,
        },
    })
}

/// A matrix in shared memory.
#[derive(Clone, Copy)]
struct Stored {
    descriptor: Descriptor,
    /// Elements along `k` are neighbours.
    k_major: bool,
    /// Bits of an element.
    bits: usize,
    /// Elements of a vector.
    k: usize,
}

impl Stored {
    /// Some of its vectors, one after the other. `lane` is to blame for addresses that do not exist.
    fn gather(
        self,
        warp: &mut Warp,
        op: &Op,
        lane: usize,
        vectors: std::ops::Range<usize>,
    ) -> Result<Vec<u32>, Flow> {
        let Self {
            descriptor,
            k_major,
            bits,
            k,
        } = self;
        let bytes = bits / 8;
        let per_chunk = 16 / bytes;
        let first = vectors.start;
        let mut out = vec![0; vectors.len() * k];
        let (outer, inner) = if k_major {
            (vectors, 0..k)
        } else {
            (0..k, vectors)
        };
        for o in outer {
            for i in inner.clone().step_by(per_chunk) {
                let (mn, depth) = if k_major { (o, i) } else { (i, o) };
                let at = descriptor.address(mn as u32, depth as u32, bytes as u32, k_major);
                let chunk = access::read_shared(warp, op, lane, at)?;
                for (e, raw) in chunk.chunks_exact(bytes).enumerate() {
                    let mut word = [0; 4];
                    word[..bytes].copy_from_slice(raw);
                    let (mn, depth) = if k_major {
                        (mn, depth + e)
                    } else {
                        (mn + e, depth)
                    };
                    out[(mn - first) * k + depth] = u32::from_le_bytes(word);
                }
            }
        }
        Ok(out)
    }
}

#[inline(always)]
fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if let Some(flow) = warp.converge(mask, u32::MAX) {
        return flow;
    }
    match compute(warp, op, mask) {
        Ok(()) => Flow::Next,
        Err(flow) => flow,
    }
}

#[inline(always)]
fn compute(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let plan: &Plan = warp.data(op);
    let slots = warp.slots(op);
    let lane = mask.trailing_zeros() as usize % LANES;
    let stored = if plan.sparse.is_some() {
        plan.k / 2
    } else {
        plan.k
    };
    let mut a = match &plan.a {
        Source::Registers { slots, fragment } => fragment.gather(|r| warp.get(slots[r])),
        Source::Shared {
            descriptor,
            k_major,
        } => {
            let stored = Stored {
                descriptor: Descriptor::new(warp.lane(*descriptor, lane)),
                k_major: *k_major,
                bits: plan.bits,
                k: stored,
            };
            let from = ROWS * (warp.index as usize % 4);
            stored.gather(warp, op, lane, from..from + ROWS)?
        }
    };
    let mut absent = Vec::new();
    if let Some(sparse) = plan.sparse {
        let metadata = warp.get(sparse.metadata);
        let columns = sparse_columns(plan.bits, plan.k, sparse.selector, &metadata);
        let mut full = vec![0; ROWS * plan.k];
        absent = vec![true; ROWS * plan.k];
        for (place, (&column, &element)) in columns.iter().zip(&a).enumerate() {
            let place = place / stored * plan.k + usize::from(column);
            full[place] = element;
            absent[place] = false;
        }
        a = full;
    }
    let b = Stored {
        descriptor: Descriptor::new(warp.lane(plan.b.0, lane)),
        k_major: plan.b.1,
        bits: plan.bits,
        k: plan.k,
    };
    let b = b.gather(warp, op, lane, 0..plan.n)?;
    let mut sums = if warp.predicate(plan.accumulate) >> lane & 1 != 0 {
        plan.fragment.gather(|r| warp.get(slots[r]))
    } else {
        vec![0; ROWS * plan.n]
    };
    match plan.engine {
        Engine::Float {
            a: a_format,
            b: b_format,
            sum,
        } => {
            let mut a = Vectors::new(a_format, plan.k, &a).sparse(absent);
            let b = Vectors::new(b_format, plan.k, &b);
            if plan.negate {
                a.negate();
            }
            sum.multiply(&a, &b, &mut sums, plan.n);
        }
        Engine::Integer {
            a: a_type,
            b: b_type,
            saturate,
        } => {
            let a: Vec<i32> = a.iter().map(|&raw| a_type.value(raw)).collect();
            let b: Vec<i32> = b.iter().map(|&raw| b_type.value(raw)).collect();
            multiply_integers(&a, &b, plan.k, &mut sums, plan.n, saturate);
        }
        Engine::Bits { and } => multiply_bits(&a, &b, plan.k, &mut sums, plan.n, and),
    }
    for (r, &slot) in slots.iter().enumerate() {
        warp.put(slot, mask, &plan.fragment.scatter(&sums, r));
    }
    Ok(())
}
