//! Clusters: addresses in the shared memory of other blocks, and the barrier of all threads of a cluster.
//!
//! The blocks of a cluster run on one host thread, so that shared memory and barriers need no locks.

use super::{Flow, LANES, Op, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use crate::memory::SHARED_BASE;
use crate::memory::window::{shared_of_rank, shared_offset, shared_rank};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::Operand;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    Some(match mnemonic.opcode() {
        Opcode::Mapa => mapa(d, mnemonic),
        Opcode::Getctarank => getctarank(d, mnemonic),
        Opcode::Barrier if mnemonic.has(Word::Cluster) => Ok(barrier(d, mnemonic)),
        // Dependent launches: what a launch depends on is complete before it begins. Registers are not
        // scarce here, so that nothing is to be given up or asked for.
        Opcode::Griddepcontrol | Opcode::Setmaxnreg => {
            Ok(d.whole(Class::Other, |_, _, _| Flow::Next))
        }
        Opcode::Clusterlaunchcontrol => Err(Unsupported::new(
            "taking over a cluster that has not begun (`clusterlaunchcontrol`)",
        )),
        _ => return None,
    })
}

/// Whether the addresses of `mapa` and `getctarank` are generic.
fn generic(mnemonic: &Mnemonic) -> bool {
    mnemonic.space().is_none()
}

/// The shared address of an address's offset in the block of `rank`. Ranks that no cluster has stay such.
#[inline(always)]
fn in_block(address: u32, rank: u32) -> u32 {
    shared_of_rank(rank.min(254), shared_offset(address))
}

fn mapa(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let wide = mnemonic.ty() == Some(ScalarType::U64);
    let mut op = match (generic(mnemonic), wide) {
        (true, _) => d.whole(Class::Alu, |warp, op, mask| {
            warp.map2(op, mask, |address: u64, rank: u32| {
                SHARED_BASE | u64::from(in_block(address as u32, rank))
            })
        }),
        (false, true) => d.whole(Class::Alu, |warp, op, mask| {
            warp.map2(op, mask, |address: u64, rank: u32| {
                u64::from(in_block(address as u32, rank))
            })
        }),
        (false, false) => d.whole(Class::Alu, |warp, op, mask| {
            warp.map2(op, mask, |address: u32, rank: u32| in_block(address, rank))
        }),
    };
    op.a = match d.operand(1)? {
        Operand::Address(symbol, offset) if generic(mnemonic) => {
            d.generic_address(symbol, offset)?
        }
        _ if wide || generic(mnemonic) => d.src::<u64>(1)?,
        _ => d.src::<u32>(1)?,
    };
    op.b = d.src::<u32>(2)?;
    op.d = if wide || generic(mnemonic) {
        d.dst::<u64>(0)?
    } else {
        d.dst::<u32>(0)?
    };
    Ok(op)
}

fn getctarank(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        let own = warp.block().rank;
        let address: [u64; LANES] = warp.get(op.a);
        let ranks = address.map(|address| shared_rank(address as u32).unwrap_or(own));
        warp.put(op.d, mask, &ranks);
        Flow::Next
    });
    op.a = match d.operand(1)? {
        Operand::Address(symbol, offset) if generic(mnemonic) => {
            d.generic_address(symbol, offset)?
        }
        _ => d.src::<u64>(1)?,
    };
    op.d = d.dst::<u32>(0)?;
    Ok(op)
}

/// In [`Op::imm`]: all lanes of a warp come together.
const ALIGNED: u64 = 1;

fn barrier(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Op {
    let mut op = if mnemonic.has(Word::Arrive) {
        d.whole(Class::Barrier, arrive)
    } else {
        d.whole(Class::Barrier, wait)
    };
    if mnemonic.has(Word::Aligned) {
        op.imm = ALIGNED;
    }
    op
}

#[inline(always)]
fn arrive(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if op.imm == ALIGNED
        && let Some(flow) = warp.converge(mask, u32::MAX)
    {
        return flow;
    }
    let cluster = warp.block().cluster();
    for lane in lanes(mask) {
        warp.cluster_phase[lane] = cluster.phase;
    }
    cluster.arrived += mask.count_ones();
    cluster.settle();
    Flow::Next
}

/// A thread waits for the end of the phase in which it arrived.
#[inline(always)]
fn wait(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if op.imm == ALIGNED
        && let Some(flow) = warp.converge(mask, u32::MAX)
    {
        return flow;
    }
    let phase = warp.block().cluster().phase;
    if lanes(mask).any(|lane| warp.cluster_phase[lane] == phase) {
        return Flow::Retry;
    }
    Flow::Next
}
