//! Loads and stores of `wmma` fragments.

use super::access;
use super::layout::Fragment;
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::access::{GENERIC, Kind};
use crate::exec::{Flow, LANES, Op};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, ScalarType, Shape, Word};

/// A decoded load or store. The slots are the fragment's registers; the stride, where there is one, is in `op.b`.
struct Plan {
    fragment: Fragment,
    /// Bits of an element in memory.
    bits: u64,
    /// Elements that one element of the fragment stands for: 32 for single bits.
    together: u64,
    /// Length of the vectors that the fragment's indices count: columns of a row, for B rows of a column.
    inner: u64,
    /// Vectors lie contiguously in memory; else it is their elements of the same place.
    contiguous: bool,
    /// Stride between what is contiguous, in elements, where the instruction gives none.
    stride: u64,
    has_stride: bool,
    space: Kind,
}

impl Plan {
    /// Offset in bytes of an element, and how many bits it is shifted in its byte.
    fn offset(&self, index: u16, stride: u64) -> (u64, u32) {
        let (outer, inner) = (u64::from(index) / self.inner, u64::from(index) % self.inner);
        let inner = inner * self.together;
        let at = if self.contiguous {
            outer.wrapping_mul(stride).wrapping_add(inner)
        } else {
            inner.wrapping_mul(stride).wrapping_add(outer)
        };
        let bit = at.wrapping_mul(self.bits);
        (bit / 8, (bit % 8) as u32)
    }

    /// Bytes that an element touches.
    fn bytes(&self) -> usize {
        ((self.bits * self.together).div_ceil(8)) as usize
    }
}

fn plan(mnemonic: &Mnemonic) -> Option<Plan> {
    let Shape { m, n, k } = mnemonic.shape()?;
    let (m, n, k) = (usize::from(m), usize::from(n), usize::from(k));
    let row = mnemonic.layouts().next()?;
    let (bits, together) = match mnemonic.ty()? {
        ScalarType::B1 => (1, 32),
        ScalarType::U4 | ScalarType::S4 => (4, 1),
        ScalarType::U8 | ScalarType::S8 => (8, 1),
        ScalarType::F16 | ScalarType::BF16 => (16, 1),
        ScalarType::TF32 | ScalarType::F32 | ScalarType::S32 => (32, 1),
        ScalarType::F64 => (64, 1),
        _ => return None,
    };
    let k = k / together;
    let width = bits * together;
    let (fragment, inner, contiguous, outer) =
        match mnemonic.any_of(&[Word::A, Word::B, Word::C, Word::D])? {
            Word::A => (Fragment::a(m, k, width), k, row, m),
            Word::B if m == 8 && n == 32 => (Fragment::a(n, k, width), k, !row, n),
            Word::B => (Fragment::b(k, n, width), k, !row, n),
            _ if m == 8 && n == 32 => (Fragment::transposed_accumulator(m, n, width), n, row, m),
            _ => (Fragment::accumulator(m, n, width), n, row, m),
        };
    Some(Plan {
        fragment,
        bits: bits as u64,
        together: together as u64,
        inner: inner as u64,
        contiguous,
        stride: if contiguous { inner * together } else { outer } as u64,
        has_stride: false,
        space: GENERIC,
    })
}

/// Decodes `wmma.load` and `wmma.store`.
pub(super) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut plan = plan(mnemonic)
        .ok_or_else(|| Unsupported::new(format!("fragment of `{}`", mnemonic.text())))?;
    let is_load = mnemonic.has(Word::Load);
    let (at, registers) = if is_load { (1, 0) } else { (0, 1) };
    let mut op = if is_load {
        d.whole(Class::Matrix, load)
    } else {
        d.whole(Class::Matrix, store)
    };
    let wide = plan.bits == 64;
    let registers = d.elements(d.operand(registers)?);
    if registers.len() < plan.fragment.registers() / if wide { 2 } else { 1 } {
        return Err(Unsupported::new(format!(
            "{} registers in `{}`",
            registers.len(),
            mnemonic.text()
        )));
    }
    let slots = registers
        .into_iter()
        .map(|register| match (is_load, wide) {
            (true, false) => d.dst_of::<u32>(register),
            (true, true) => d.dst_of::<u64>(register),
            (false, false) => d.src_of::<u32>(register),
            (false, true) => d.src_of::<u64>(register),
        })
        .collect::<Result<Vec<_>, _>>()?;
    plan.space = access::decode(d, &mut op, at, mnemonic)?;
    if d.operand_count() > 2 {
        op.b = d.src::<u32>(2)?;
        plan.has_stride = true;
    }
    d.list(&mut op, &slots);
    d.record(&mut op, plan);
    Ok(op)
}

/// Base address and stride of each lane. The ISA asks for the same in all.
#[inline(always)]
fn places(warp: &mut Warp, op: &Op, plan: &Plan) -> ([u64; LANES], [u64; LANES]) {
    let strides = if plan.has_stride {
        warp.get::<u32>(op.b).map(u64::from)
    } else {
        [plan.stride; LANES]
    };
    (access::addresses(warp, op), strides)
}

#[inline(always)]
fn load(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if let Some(flow) = warp.converge(mask, u32::MAX) {
        return flow;
    }
    let plan: &Plan = warp.data(op);
    let (bases, strides) = places(warp, op, plan);
    let fragment = &plan.fragment;
    let per_lane = fragment.per_lane;
    let mut elements = vec![0u64; LANES * per_lane];
    for lane in crate::exec::lanes(mask) {
        for i in 0..per_lane {
            let place = lane * per_lane + i;
            let (offset, shift) = plan.offset(fragment.index[place], strides[lane]);
            let mut bytes = [0; 8];
            let out = &mut bytes[..plan.bytes()];
            let address = bases[lane].wrapping_add(offset);
            if let Err(flow) = access::read(warp, op, lane, plan.space, address, out) {
                return flow;
            }
            elements[place] = u64::from_le_bytes(bytes) >> shift;
        }
    }
    let slots = warp.slots(op);
    if plan.bits == 64 {
        for (r, &slot) in slots.iter().enumerate() {
            let values = std::array::from_fn(|lane| elements[lane * per_lane + r % per_lane]);
            warp.put::<u64>(slot, mask, &values);
        }
        return Flow::Next;
    }
    let per_register = 32 / fragment.bits;
    let low = if fragment.bits == 32 {
        u32::MAX
    } else {
        (1 << fragment.bits) - 1
    };
    for (r, &slot) in slots.iter().enumerate() {
        let values = std::array::from_fn(|lane| {
            (0..per_register).fold(0, |word, i| {
                let place = lane * per_lane + (r * per_register + i) % per_lane;
                word | (elements[place] as u32 & low) << (i * fragment.bits)
            })
        });
        warp.put::<u32>(slot, mask, &values);
    }
    Flow::Next
}

#[inline(always)]
fn store(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if let Some(flow) = warp.converge(mask, u32::MAX) {
        return flow;
    }
    let plan: &Plan = warp.data(op);
    let (bases, strides) = places(warp, op, plan);
    let fragment = &plan.fragment;
    let slots = warp.slots(op);
    let per_register = (32 / fragment.bits).max(1);
    for lane in crate::exec::lanes(mask) {
        for i in 0..fragment.per_lane {
            let (offset, _) =
                plan.offset(fragment.index[lane * fragment.per_lane + i], strides[lane]);
            let slot = slots[i / per_register];
            let value = if plan.bits == 64 {
                warp.lane::<u64>(slot, lane)
            } else {
                let word = warp.lane::<u32>(slot, lane);
                u64::from(word >> (i % per_register * fragment.bits))
            };
            let address = bases[lane].wrapping_add(offset);
            let bytes = &value.to_le_bytes()[..plan.bytes()];
            if let Err(flow) = access::write(warp, op, lane, plan.space, address, bytes) {
                return flow;
            }
        }
    }
    Flow::Next
}
