//! Branches, returns and exits.

use super::{Flow, Op, lanes};
use crate::block::{Path, State, Warp};
use crate::decode::{Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode};
use r3_ptx::typed::Operand;

/// Marks, in an op's `n`, that its `imm` is the index of an instruction, to be replaced by that of an op.
pub(crate) const TARGET: u16 = u16::MAX;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    Some(match mnemonic.opcode() {
        Opcode::Bra => branch(d),
        Opcode::Brx => table_branch(d),
        Opcode::Call => super::call::decode(d),
        Opcode::Exit => Ok(d.whole(Class::Control, |warp, _, mask| warp.exit(mask))),
        Opcode::Ret => Ok(d.whole(Class::Control, |warp, _, mask| warp.back(mask))),
        Opcode::Trap => Ok(d.whole(Class::Control, |warp, _, mask| {
            warp.fault(mask.trailing_zeros() as usize, FaultKind::Trap)
        })),
        Opcode::Brkpt => Ok(d.whole(Class::Control, |warp, _, mask| {
            warp.fault(mask.trailing_zeros() as usize, FaultKind::Breakpoint)
        })),
        _ => return None,
    })
}

/// The return at the end of each function.
pub(crate) fn end_of_function(d: &Decoder<'_>) -> Op {
    let mut op = d.whole(Class::Control, |warp, _, mask| warp.back(mask));
    op.weight = 0;
    op
}

fn branch(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let Operand::Label(target) = d.operand(0)? else {
        return Err(Unsupported::new("a target that is no label"));
    };
    let mut op = d.whole(Class::Control, |warp, op, mask| {
        let target = op.imm as u32;
        if mask == warp.active {
            warp.pc = target;
            return Flow::Jump;
        }
        warp.split_to(mask, target);
        Flow::Switch
    });
    op.imm = target.into();
    op.n = TARGET;
    Ok(op)
}

/// `brx.idx`
fn table_branch(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let Operand::BranchTable(table) = d.operand(1)? else {
        return Err(Unsupported::new("a table that is no .branchtargets"));
    };
    let mut op = d.whole(Class::Control, |warp, op, mask| {
        let index: [u32; 32] = warp.get(op.a);
        let Some(table) = warp.code().tables.get(op.imm as usize) else {
            return Flow::Next;
        };
        for lane in lanes(mask) {
            if index[lane] as usize >= table.len() {
                let what = format!(
                    "an index of {} in a table of {} targets",
                    index[lane],
                    table.len()
                );
                return warp.fault(lane, FaultKind::Invalid(what));
            }
        }
        let mut left = mask;
        while left != 0 {
            let first = index[left.trailing_zeros() as usize];
            let same = lanes(left)
                .filter(|&l| index[l] == first)
                .fold(0, |m, l| m | 1 << l);
            left &= !same;
            let target = table[first as usize];
            if same != warp.active {
                warp.split_to(same, target);
            } else if same == mask {
                warp.pc = target;
                return Flow::Jump;
            } else {
                // The last of several ways: the lowest runs first.
                let current = warp.current;
                warp.paths[current].pc = target;
            }
        }
        Flow::Switch
    });
    op.a = d.src::<u32>(0)?;
    op.imm = table.into();
    Ok(op)
}

impl Warp {
    /// Lets the lanes of `mask`, not all of the current path, go on at `target`; the others behind the current op.
    fn split_to(&mut self, mask: u32, target: u32) {
        let rest = self.active & !mask;
        let here = self.paths[self.current];
        self.paths.push(Path {
            pc: target,
            mask,
            state: State::Ready,
            ..here
        });
        self.paths[self.current].pc = self.pc + 1;
        self.paths[self.current].mask = rest;
        self.active = rest;
    }

    /// Takes lanes off the current path; it goes on behind the current op with the others, or ends.
    pub(super) fn leave(&mut self, mask: u32) {
        let rest = self.active & !mask;
        self.active = rest;
        if rest == 0 {
            self.paths.swap_remove(self.current);
            self.current = usize::MAX;
        } else {
            self.paths[self.current].pc = self.pc + 1;
            self.paths[self.current].mask = rest;
        }
    }

    /// Lanes end.
    pub(super) fn exit(&mut self, mask: u32) -> Flow {
        self.leave(mask);
        self.remove(mask);
        let index = self.index as usize;
        let block = self.block();
        block.exit(index, mask);
        let cluster = block.cluster();
        cluster.alive -= mask.count_ones();
        cluster.settle();
        Flow::Switch
    }
}
