//! `ldmatrix`, `stmatrix` and `movmatrix`.

use super::access;
use super::tiles::{Packing, Tile, rows_of};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::access::{Kind, SHARED};
use crate::exec::{Flow, Op};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, ScalarType, Word};

/// A decoded load or store.
struct Plan {
    tile: Tile,
    packing: Packing,
    transposed: bool,
    /// Matrices.
    count: usize,
    space: Kind,
}

fn plan(d: &Decoder<'_>, mnemonic: &Mnemonic) -> Result<Plan, Unsupported> {
    let tile = match mnemonic.shape().map(|s| (s.m, s.n)) {
        Some((8, 8)) => Tile::Halves,
        Some((16, 16)) => Tile::Bytes16,
        Some((8, 16)) => Tile::Bytes8,
        _ => {
            return Err(Unsupported::new(format!("shape of `{}`", mnemonic.text())));
        }
    };
    let packing = match mnemonic.any_of(&[Word::B4x16P64, Word::B6x16P32]) {
        Some(Word::B4x16P64) => Packing::Four,
        Some(_) => Packing::Six,
        None => Packing::Plain,
    };
    let _ = d;
    Ok(Plan {
        tile,
        packing,
        transposed: mnemonic.has(Word::Trans),
        count: usize::from(mnemonic.repeat()),
        space: SHARED,
    })
}

/// Decodes `ldmatrix`.
pub(super) fn decode_load(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut plan = plan(d, mnemonic)?;
    let mut op = d.whole(Class::Matrix, load);
    let registers = d.elements(d.operand(0)?);
    if registers.len() != plan.count * plan.tile.registers() {
        return Err(Unsupported::new(format!(
            "{} registers in `{}`",
            registers.len(),
            mnemonic.text()
        )));
    }
    let slots = registers
        .into_iter()
        .map(|register| d.dst_of::<u32>(register))
        .collect::<Result<Vec<_>, _>>()?;
    plan.space = access::decode(d, &mut op, 1, mnemonic)?;
    d.list(&mut op, &slots);
    d.record(&mut op, plan);
    Ok(op)
}

/// Decodes `stmatrix`.
pub(super) fn decode_store(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    if mnemonic.types().contains(&ScalarType::B8) {
        return Err(Unsupported::new("`stmatrix` of bytes"));
    }
    let mut plan = plan(d, mnemonic)?;
    let mut op = d.whole(Class::Matrix, store);
    let registers = d.elements(d.operand(1)?);
    if registers.len() != plan.count {
        return Err(Unsupported::new(format!(
            "{} registers in `{}`",
            registers.len(),
            mnemonic.text()
        )));
    }
    let slots = registers
        .into_iter()
        .map(|register| d.src_of::<u32>(register))
        .collect::<Result<Vec<_>, _>>()?;
    plan.space = access::decode(d, &mut op, 0, mnemonic)?;
    d.list(&mut op, &slots);
    d.record(&mut op, plan);
    Ok(op)
}

#[inline(always)]
fn load(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if let Some(flow) = warp.converge(mask, u32::MAX) {
        return flow;
    }
    let plan: &Plan = warp.data(op);
    let slots = warp.slots(op);
    let addresses = access::addresses(warp, op);
    let per_matrix = plan.tile.rows();
    let mut results = Vec::with_capacity(slots.len());
    for matrix in 0..plan.count {
        let mut rows = [[0; 16]; 16];
        for (i, row) in rows.iter_mut().take(per_matrix).enumerate() {
            let lane = (matrix * per_matrix + i) % 32;
            if let Err(flow) = access::read(warp, op, lane, plan.space, addresses[lane], row) {
                return flow;
            }
            *row = plan.packing.unpack(*row);
        }
        for register in 0..plan.tile.registers() {
            results.push(plan.tile.load(&rows, plan.transposed, register));
        }
    }
    for (&slot, result) in slots.iter().zip(&results) {
        warp.put(slot, mask, result);
    }
    Flow::Next
}

#[inline(always)]
fn store(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if let Some(flow) = warp.converge(mask, u32::MAX) {
        return flow;
    }
    let plan: &Plan = warp.data(op);
    let slots = warp.slots(op);
    let addresses = access::addresses(warp, op);
    for (matrix, &slot) in slots.iter().enumerate() {
        let rows = rows_of(&warp.get(slot), plan.transposed);
        for (i, row) in rows.iter().enumerate() {
            let lane = (8 * matrix + i) % 32;
            if let Err(flow) = access::write(warp, op, lane, plan.space, addresses[lane], row) {
                return flow;
            }
        }
    }
    Flow::Next
}

/// Decodes `movmatrix`: the transpose of an 8 × 8 matrix in registers.
pub(super) fn decode_move(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Matrix, |warp, op, mask| {
        if let Some(flow) = warp.converge(mask, u32::MAX) {
            return flow;
        }
        let rows = rows_of(&warp.get(op.a), false);
        warp.put(op.d, mask, &Tile::Halves.load(&rows, true, 0));
        Flow::Next
    });
    op.a = d.src::<u32>(1)?;
    op.d = d.dst::<u32>(0)?;
    Ok(op)
}
