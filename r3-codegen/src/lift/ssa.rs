//! Where values meet: liveness and places of phis.
//!
//! Registers are numbered as in the body; one more stands for the carry flag. Only those that a block reads before it
//! writes them can need a phi, and mostly they are few: liveness is computed for these alone.

use r3_ptx::isa::{Access, Forms, OperandSpec, Word};
use r3_ptx::typed::{Body, Instruction, Module, Operand};

use super::cfg::{Cfg, Lists, NONE};
use super::mnemonics::{Flow, MnemonicInfo};

/// The phis of each block, as registers.
#[derive(Debug, Default)]
pub(crate) struct Phis {
    lists: Lists,
    number: Vec<u32>,
    live: Bits,
    /// Some instruction takes a carry that its own block did not make.
    pub carry_crosses: bool,
}

impl Phis {
    /// Registers that need a phi in a block.
    pub fn of(&self, block: u32) -> &[u32] {
        self.lists.get(block)
    }

    /// Whether a register is read after a block begins, before it is written.
    pub fn alive(&self, block: u32, register: u32) -> bool {
        let column = self.number.get(register as usize).copied();
        column.is_some_and(|column| column != NONE && self.live.get(block, column))
    }
}

/// The number of the carry flag.
pub(crate) fn carry_register(body: &Body) -> u32 {
    body.registers.len() as u32
}

/// Calls `visit` with each register that an instruction reads (`false`) or writes (`true`), the reads of an operand before
/// its writes.
pub(crate) fn registers(
    module: &Module,
    body: &Body,
    info: &MnemonicInfo,
    instruction: &Instruction,
    visit: &mut impl FnMut(u32, bool),
) {
    if let Some((guard, _)) = instruction.guard {
        visit(guard.0, false);
    }
    let operands = body.operands(instruction);
    match info.flow {
        Flow::Call => {
            for operand in operands.iter().skip(1) {
                reads(body, operand, visit);
            }
            if let Some(results) = operands.first() {
                writes(body, results, visit);
            }
            return;
        }
        Flow::Return | Flow::Exit => {
            body.result_registers.iter().for_each(|r| visit(r.0, false));
        }
        _ => {}
    }
    let form = Forms::table().get(instruction.form);
    let specs = form.map_or(&[][..], |form| form.operands.as_slice());
    for (i, operand) in operands.iter().enumerate() {
        // Destinations stand before what may be left out: their places are right.
        match specs
            .get(i)
            .map_or(Access::Read, |spec| access(spec, operand))
        {
            Access::Read | Access::Address => reads(body, operand, visit),
            Access::Write => {}
            Access::ReadWrite => reads(body, operand, visit),
        }
    }
    if info.carry
        && let Some(mnemonic) = module.mnemonics.get(instruction.mnemonic.0 as usize)
    {
        let effects = super::globals::effects(instruction.form);
        if effects.carry_in {
            visit(carry_register(body), false);
        }
        if effects.carry_out && mnemonic.has(Word::Cc) {
            visit(carry_register(body), true);
        }
    }
    for (i, operand) in operands.iter().enumerate() {
        match specs
            .get(i)
            .map_or(Access::Read, |spec| access(spec, operand))
        {
            Access::Write | Access::ReadWrite => writes(body, operand, visit),
            Access::Read | Access::Address => {}
        }
    }
}

/// What happens to the registers of an operand: those of an address are read, whatever is done with the memory.
pub(crate) fn access(spec: &OperandSpec, operand: &Operand) -> Access {
    match operand {
        Operand::MemoryRegister(..) | Operand::MemoryList(..) | Operand::MemorySymbol(..) => {
            Access::Read
        }
        _ => spec.access,
    }
}

fn reads(body: &Body, operand: &Operand, visit: &mut impl FnMut(u32, bool)) {
    match *operand {
        Operand::Register(r)
        | Operand::NotRegister(r)
        | Operand::Selected { register: r, .. }
        | Operand::MemoryRegister(r, _) => visit(r.0, false),
        Operand::Pair(first) => flat(body, first, 2, |r| visit(r, false)),
        Operand::Vector(first, len) | Operand::List(first, len) => {
            flat(body, first, len, |r| visit(r, false));
        }
        Operand::MemoryList(first, len) => {
            for operand in body.list(first, len) {
                match *operand {
                    Operand::Vector(first, len) => flat(body, first, len, |r| visit(r, false)),
                    Operand::Register(r) | Operand::MemoryRegister(r, _) => visit(r.0, false),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn writes(body: &Body, operand: &Operand, visit: &mut impl FnMut(u32, bool)) {
    match *operand {
        Operand::Register(r) | Operand::Selected { register: r, .. } => visit(r.0, true),
        Operand::Pair(first) => flat(body, first, 2, |r| visit(r, true)),
        Operand::Vector(first, len) | Operand::List(first, len) => {
            flat(body, first, len, |r| visit(r, true));
        }
        _ => {}
    }
}

/// Registers of a list; a pair may have a vector in it.
fn flat(body: &Body, first: u32, len: u32, mut visit: impl FnMut(u32)) {
    for operand in body.list(first, len) {
        match *operand {
            Operand::Register(r)
            | Operand::NotRegister(r)
            | Operand::Selected { register: r, .. } => visit(r.0),
            Operand::Vector(first, len) => {
                for operand in body.list(first, len) {
                    if let Operand::Register(r) = operand {
                        visit(r.0);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Rows of bits.
#[derive(Debug, Default)]
struct Bits {
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    fn new(rows: usize, columns: usize) -> Self {
        let words = columns.div_ceil(64);
        Self {
            words,
            bits: vec![0; rows * words],
        }
    }

    fn row(&self, row: u32) -> &[u64] {
        let start = row as usize * self.words;
        &self.bits[start..start + self.words]
    }

    fn set(&mut self, row: u32, column: u32) {
        self.bits[row as usize * self.words + column as usize / 64] |= 1 << (column % 64);
    }

    fn get(&self, row: u32, column: u32) -> bool {
        self.bits[row as usize * self.words + column as usize / 64] >> (column % 64) & 1 != 0
    }
}

/// Finds the places of phis.
pub(crate) fn phis(module: &Module, body: &Body, cfg: &Cfg, infos: &[MnemonicInfo]) -> Phis {
    let count = cfg.len();
    let registers_count = body.registers.len() + 1;
    // Registers read before they are written, by block; those written, by block; numbers of the former.
    let mut exposed = Lists::default();
    let mut written = Lists::default();
    let mut number = vec![NONE; registers_count];
    let mut numbered: Vec<u32> = Vec::new();
    let mut stamp = vec![0u32; registers_count];
    let mut crossing = false;
    let carry = carry_register(body);
    for block in 0..count as u32 {
        exposed.begin();
        written.begin();
        if !cfg.reachable(block) {
            continue;
        }
        let range = cfg.blocks[block as usize];
        // Twice the block's number plus 1: read first; plus 2: written.
        let (read, wrote) = (block * 2 + 1, block * 2 + 2);
        let mut visit = |register: u32, write: bool, guarded: bool| {
            let Some(seen) = stamp.get_mut(register as usize) else {
                return;
            };
            if (!write || guarded) && *seen != wrote && *seen != read {
                *seen = read;
                exposed.push(register);
                crossing |= register == carry;
                if number[register as usize] == NONE {
                    number[register as usize] = numbered.len() as u32;
                    numbered.push(register);
                }
            }
            if write && *seen != wrote {
                *seen = wrote;
                written.push(register);
            }
        };
        let instructions = body
            .instructions
            .get(range.first as usize..range.end as usize);
        for instruction in instructions.unwrap_or_default() {
            let Some(info) = infos.get(instruction.mnemonic.0 as usize) else {
                continue;
            };
            let guarded = instruction.guard.is_some();
            registers(module, body, info, instruction, &mut |r, write| {
                visit(r, write, guarded && write);
            });
        }
        if range.end as usize == body.instructions.len() {
            body.result_registers
                .iter()
                .for_each(|r| visit(r.0, false, false));
        }
    }
    let live = liveness(cfg, &exposed, &written, &number, numbered.len());
    Phis {
        lists: places(cfg, &written, &number, &numbered, &live),
        number,
        live,
        carry_crosses: crossing,
    }
}

/// Which numbered registers are alive where blocks begin.
fn liveness(cfg: &Cfg, exposed: &Lists, written: &Lists, number: &[u32], columns: usize) -> Bits {
    let count = cfg.len();
    let mut live = Bits::new(count, columns);
    let mut kills = Bits::new(count, columns);
    for block in 0..count as u32 {
        for &register in written.get(block) {
            if number[register as usize] != NONE {
                kills.set(block, number[register as usize]);
            }
        }
        for &register in exposed.get(block) {
            live.set(block, number[register as usize]);
        }
    }
    let words = live.words;
    let mut queued = vec![true; count];
    let mut queue: Vec<u32> = cfg.order.clone();
    let mut out = vec![0u64; words];
    while let Some(block) = queue.pop() {
        queued[block as usize] = false;
        out.fill(0);
        for &successor in cfg.successors(block) {
            for (out, live) in out.iter_mut().zip(live.row(successor)) {
                *out |= live;
            }
        }
        let start = block as usize * words;
        let mut changed = false;
        for (i, out) in out.iter().enumerate() {
            let old = live.bits[start + i];
            let new = old | (out & !kills.bits[start + i]);
            changed |= new != old;
            live.bits[start + i] = new;
        }
        if changed {
            for &predecessor in cfg.predecessors(block) {
                if cfg.reachable(predecessor) && !queued[predecessor as usize] {
                    queued[predecessor as usize] = true;
                    queue.push(predecessor);
                }
            }
        }
    }
    live
}

/// Blocks where control from different definitions meets while the register is alive.
fn places(cfg: &Cfg, written: &Lists, number: &[u32], numbered: &[u32], live: &Bits) -> Lists {
    let count = cfg.len();
    let frontiers = frontiers(cfg);
    let definitions = definitions(cfg, written, number, numbered.len());
    let mut placed: Vec<(u32, u32)> = Vec::new();
    let mut has = vec![NONE; count];
    let mut work: Vec<u32> = Vec::new();
    for (column, &register) in numbered.iter().enumerate() {
        let column = column as u32;
        work.clear();
        work.extend_from_slice(definitions.get(column));
        while let Some(block) = work.pop() {
            for &at in frontiers.get(block) {
                if has[at as usize] != column && live.get(at, column) {
                    has[at as usize] = column;
                    placed.push((at, register));
                    work.push(at);
                }
            }
        }
    }
    placed.sort_unstable();
    let mut lists = Lists::default();
    let mut rest = placed.iter().peekable();
    for block in 0..count as u32 {
        lists.begin();
        while let Some((_, register)) = rest.next_if(|(at, _)| *at == block) {
            lists.push(*register);
        }
    }
    lists
}

/// For each numbered register, the blocks that write it.
fn definitions(cfg: &Cfg, written: &Lists, number: &[u32], columns: usize) -> Lists {
    let mut by_block = Lists::default();
    for block in 0..cfg.len() as u32 {
        by_block.begin();
        for &register in written.get(block) {
            if number[register as usize] != NONE {
                by_block.push(number[register as usize]);
            }
        }
    }
    by_block.inverse(columns)
}

/// Dominance frontiers of all blocks.
fn frontiers(cfg: &Cfg) -> Lists {
    let count = cfg.len();
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for &block in &cfg.order {
        let predecessors = cfg.predecessors(block);
        // Block 0 is entered from outside, too.
        if predecessors.len() + usize::from(block == 0) < 2 {
            continue;
        }
        let stop = match block {
            0 => NONE,
            _ => cfg.idom[block as usize],
        };
        for &predecessor in predecessors {
            let mut at = predecessor;
            while at != stop && cfg.reachable(at) {
                pairs.push((at, block));
                if at == 0 {
                    break;
                }
                at = cfg.idom[at as usize];
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    let mut lists = Lists::default();
    let mut rest = pairs.iter().peekable();
    for block in 0..count as u32 {
        lists.begin();
        while let Some((_, at)) = rest.next_if(|(of, _)| *of == block) {
            lists.push(*at);
        }
    }
    lists
}
