//! The loop over a function's instructions.

use super::code::Places;
use super::constants::Constants;
use super::registers::{Registers, Storage};
use super::{Code, Decoder, Formal, Place, Unsupported};
use crate::exec::{FAMILIES, Level, Op, TARGET, end_of_function};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::program::{Image, Linked};
use r3_ptx::typed;

/// Decodes a function that has a body.
pub(crate) fn decode(
    linked: &Linked,
    image: &Image,
    function: u32,
    body: &typed::Body,
    level: Level,
) -> Code {
    let header = linked.function(function);
    // The frame of a device function begins with the start of its local memory.
    let start = if header.entry { 0 } else { 256 };
    let places = Places::of(header, body);
    let end = typed::Instruction {
        pos: header.pos,
        guard: None,
        mnemonic: r3_ptx::tree::MnemonicId(0),
        first_operand: 0,
        operands: 0,
        form: r3_ptx::isa::FormId(0),
    };
    let mut d = Decoder {
        linked,
        image,
        function,
        body,
        instruction: body.instructions.first().unwrap_or(&end),
        index: 0,
        level,
        registers: Registers::new(&body.registers, start),
        places,
        constants: Constants::new(),
        before: Vec::new(),
        after: Vec::new(),
        lists: Vec::new(),
        data: Vec::new(),
    };
    let mut ops = Vec::with_capacity(body.instructions.len() + 1);
    let mut starts = Vec::with_capacity(body.instructions.len() + 1);
    let mut branches = Vec::new();
    for (index, instruction) in body.instructions.iter().enumerate() {
        d.instruction = instruction;
        d.index = index as u32;
        d.registers.next_instruction();
        starts.push(ops.len() as u32);
        let first = ops.len();
        let main = d.main_op().unwrap_or_else(|missing| {
            d.before.clear();
            d.after.clear();
            d.unsupported(missing)
        });
        ops.append(&mut d.before);
        let at = ops.len();
        if main.n == TARGET {
            branches.push(at);
        }
        ops.push(main);
        ops.append(&mut d.after);
        if let Some((guard, negated)) = instruction.guard {
            match d.registers.get(guard) {
                Some((slot, Storage::Predicate)) => {
                    for op in &mut ops[at..] {
                        op.guard = slot;
                        op.guard_flip = if negated { u32::MAX } else { 0 };
                    }
                }
                _ => {
                    ops.truncate(first);
                    ops.push(d.unsupported(Unsupported::new("a guard that is no predicate")));
                }
            }
        }
    }
    starts.push(ops.len() as u32);
    d.index = body.instructions.len() as u32;
    ops.push(end_of_function(&d));
    if d.registers.full() {
        // Slots mean nothing then: nothing of the function can run.
        let missing = format!("{} registers in a function", body.registers.len());
        d.index = 0;
        ops = vec![d.unsupported(Unsupported(missing)), end_of_function(&d)];
        (starts, branches) = (Vec::new(), Vec::new());
    }
    let target = |instruction: u32| {
        let last = ops.len() as u32 - 1;
        starts.get(instruction as usize).copied().unwrap_or(last)
    };
    let tables = body
        .branch_tables
        .iter()
        .map(|table| table.iter().map(|&t| target(t)).collect())
        .collect();
    let targets: Vec<u32> = branches
        .iter()
        .map(|&at| target(ops.get(at).map_or(0, |op: &Op| op.imm as u32)))
        .collect();
    for (at, target) in branches.into_iter().zip(targets) {
        if let Some(op) = ops.get_mut(at)
            && op.n == TARGET
        {
            op.imm = u64::from(target);
        }
    }
    Code {
        function,
        ops: ops.into(),
        lists: d.lists.into(),
        data: d.data.into(),
        tables,
        constants: d.constants.finish(),
        frame_bytes: d.registers.bytes(),
        local_bytes: d.places.bytes,
        params: formals(
            &d.registers,
            &header.params,
            &d.places.params,
            &body.param_registers,
        ),
        results: formals(
            &d.registers,
            &header.results,
            &d.places.results,
            &body.result_registers,
        ),
        entry: header.entry,
    }
}

/// Parameters or results: in registers where the function has them there, else in memory.
fn formals(
    registers: &Registers,
    variables: &[typed::Variable],
    places: &[u32],
    in_registers: &[typed::RegId],
) -> Vec<Formal> {
    variables
        .iter()
        .enumerate()
        .map(|(i, variable)| {
            let register = in_registers.get(i).and_then(|&r| registers.get(r));
            let place = match register {
                Some((slot, Storage::Bytes(width))) => Place::Slot(slot, width),
                Some((slot, Storage::Predicate)) => Place::Predicate(slot),
                None => places
                    .get(i)
                    .map_or(Place::Nowhere, |&at| Place::Memory(at)),
            };
            Formal {
                place,
                bytes: variable.size as u32,
            }
        })
        .collect()
}

impl Decoder<'_> {
    fn main_op(&mut self) -> Result<Op, Unsupported> {
        let linked = self.linked;
        let mnemonic = linked.mnemonic(self.function, self.instruction.mnemonic);
        for family in FAMILIES {
            match family(self, mnemonic) {
                None => {}
                Some(result) => return result,
            }
        }
        Err(Unsupported::new(mnemonic.text()))
    }

    /// An op that faults when it is reached.
    fn unsupported(&mut self, missing: Unsupported) -> Op {
        let text = self
            .linked
            .mnemonic(self.function, self.instruction.mnemonic)
            .text();
        let what = if missing.0 == text {
            missing.0
        } else {
            format!("{text}: {}", missing.0)
        };
        let mut op = self.whole(Class::Other, |warp, op, mask| {
            let what = warp.data::<String>(op).clone();
            let lane = mask.trailing_zeros() as usize;
            warp.fault(lane, FaultKind::Unsupported(what))
        });
        self.record(&mut op, what);
        op
    }
}
