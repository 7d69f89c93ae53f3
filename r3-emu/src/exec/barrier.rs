//! Barriers of a block, fences, and instructions that only let others run.

use super::{Flow, Op, Slot, lanes};
use crate::block::{Arrival, BARRIERS, Path, State, Warp};
use crate::decode::{Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, Operation, Word};

/// What a reduction at a barrier gives.
const NO_REDUCTION: u64 = 0;
const POPC: u64 = 1;
const AND: u64 = 2;
const OR: u64 = 3;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Bar | Opcode::Barrier if mnemonic.has(Word::Warp) => Some(warp_barrier(d)),
        Opcode::Barrier if mnemonic.has(Word::Cluster) => None,
        Opcode::Bar | Opcode::Barrier => Some(barrier(d, mnemonic)),
        // One host thread runs a block in program order, and accesses to global memory that others order against are
        // host atomics: there is nothing left to do.
        Opcode::Membar | Opcode::Fence => Some(Ok(fence(d))),
        Opcode::Nanosleep => Some(Ok(d.whole(Class::Barrier, |_, _, _| Flow::Yield))),
        Opcode::Pmevent | Opcode::Griddepcontrol | Opcode::Setmaxnreg => {
            Some(Ok(d.whole(Class::Other, |_, _, _| Flow::Next)))
        }
        _ => None,
    }
}

/// `bar.warp.sync`
fn warp_barrier(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Barrier, |warp, op, mask| {
        let members: [u32; 32] = warp.get(op.a);
        let wanted = lanes(mask).fold(0, |m, lane| m | members[lane]);
        warp.converge(mask, wanted).unwrap_or(Flow::Next)
    });
    op.a = d.src::<u32>(0)?;
    Ok(op)
}

fn fence(d: &Decoder<'_>) -> Op {
    d.whole(Class::Barrier, |_, _, _| {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Flow::Next
    })
}

/// `bar.sync a{, b}`, `bar.arrive a, b`, `bar.red.popc.u32 d, a{, b}, p`, `bar.red.and.pred p, a{, b}, q`, and the same with
/// `barrier`. `bar.sync` without operands is not PTX; `bar.sync 0` is all threads.
fn barrier(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Barrier, |warp, op, mask| warp.arrive(op, mask));
    let count = d.operand_count();
    if mnemonic.has(Word::Red) {
        let popc = mnemonic.operation() == Some(Operation::Popc);
        op.imm = match mnemonic.operation() {
            Some(Operation::Popc) => POPC,
            Some(Operation::And) => AND,
            Some(Operation::Or) => OR,
            _ => return Err(Unsupported::new("reduction of this kind")),
        };
        op.d = if popc {
            d.dst::<u32>(0)?
        } else {
            d.dst_predicate(0)?
        };
        op.a = d.src::<u32>(1)?;
        op.c = d.predicate(count - 1)?;
        if count == 4 {
            op.b = d.src::<u32>(2)?;
        }
        op.n = u16::from(count == 4);
        op.f = Slot::TRUE;
        return Ok(op);
    }
    op.imm = NO_REDUCTION;
    op.a = match count {
        0 => d.number(0, 4),
        _ => d.src::<u32>(0)?,
    };
    if count >= 2 {
        op.b = d.src::<u32>(1)?;
        op.n = 1;
    }
    op.f = if mnemonic.has(Word::Arrive) {
        Slot::FALSE
    } else {
        Slot::TRUE
    };
    Ok(op)
}

impl Warp {
    /// Lanes arrive at a barrier. `f` says whether they wait, `n` whether `b` has a count.
    fn arrive(&mut self, op: &Op, mask: u32) -> Flow {
        let first = mask.trailing_zeros() as usize;
        let id = self.lane::<u32>(op.a, first) as usize;
        if id >= BARRIERS {
            let what = format!("barrier {id}: there are 0 to {}", BARRIERS - 1);
            return self.fault(first, FaultKind::Invalid(what));
        }
        let expected = match op.n {
            0 => None,
            _ => Some(self.lane::<u32>(op.b, first)),
        };
        if let Some(n) = expected
            && !n.is_multiple_of(32)
        {
            let what = format!("a barrier for {n} threads: only multiples of 32 are possible");
            return self.fault(first, FaultKind::Invalid(what));
        }
        let votes = self.predicate(op.c);
        let index = self.index as usize;
        let block = self.block();
        let generation = block.barriers.generation(id);
        let waits = op.f == Slot::TRUE;
        block.arrive(
            id,
            waits,
            Arrival {
                warp: index,
                mask,
                expected,
                votes,
            },
        );
        if !waits {
            return Flow::Next;
        }
        self.split_off(mask);
        self.paths[self.current].state = State::Barrier(id as u8, generation);
        Flow::Switch
    }

    /// Writes the result of a reduction to the lanes of a path that waited for it. The path is behind the barrier.
    pub(crate) fn barrier_result(&mut self, path: Path, id: u8, generation: u32) {
        let Some(frame) = self.frames.get(path.frame as usize) else {
            return;
        };
        // SAFETY: code lives as long as the launch.
        let code = unsafe { &*frame.code };
        let Some(op) = code.ops.get(path.pc as usize - 1) else {
            return;
        };
        if op.imm == NO_REDUCTION {
            return;
        }
        let (trues, voters) = self.block().barriers.result(id.into(), generation);
        if path.frame as usize != self.frame {
            self.enter(path.frame as usize);
        }
        let bits = |b: bool| if b { u32::MAX } else { 0 };
        match op.imm {
            POPC => self.put(op.d, path.mask, &[trues; 32]),
            AND => self.set_predicate(op.d, path.mask, bits(trues == voters)),
            _ => self.set_predicate(op.d, path.mask, bits(trues > 0)),
        }
    }
}
