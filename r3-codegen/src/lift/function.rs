//! One function: its blocks in dominator order, its instructions in the order of the text.

use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::{BasicValueEnum, FunctionValue, InstructionValue, IntValue, PhiValue};
use r3_ptx::isa::Mnemonic;
use r3_ptx::typed::{self, FnId, Instruction, Operand};

use super::cfg::{Cfg, NONE};
use super::globals::{Flow, Globals, MnemonicInfo};
use super::mode::Mode;
use super::ops::addresses;
use super::pending::{self, Pending};
use super::pointers::Roots;
use super::ssa::{self, Phis};
use super::{asm, calls, carry, directives, params};
use crate::error::LiftError;

/// What a handler works with: the instruction's operands as values, and a builder at its place.
///
/// A handler reads operands by [`value`](Self::value) and its relatives, builds, and writes by [`set`](Self::set). It need
/// not think of the guard: the driver either put the builder into a block that only threads with a true guard reach, or
/// (for instructions that cannot harm) lets `set` select between new and old value.
pub(crate) struct Lifter<'ctx, 'm> {
    /// LLVM's context.
    pub context: &'ctx Context,
    /// The module being made.
    pub llvm: &'m Module<'ctx>,
    /// What all functions share.
    pub globals: &'m mut Globals<'ctx>,
    /// Builder at the place of the instruction.
    pub builder: Builder<'ctx>,
    /// Builder before the end of the entry block: for allocations, and what is the same everywhere.
    pub entry_builder: Builder<'ctx>,
    /// The PTX module.
    pub module: &'m typed::Module,
    /// Number of the PTX function.
    pub id: FnId,
    /// The PTX function.
    pub source: &'m typed::Function,
    /// Its body.
    pub body: &'m typed::Body,
    /// Rounding, flushing and contraction of the function.
    pub mode: Mode,
    /// The LLVM function.
    pub function: FunctionValue<'ctx>,
    /// The instruction that is lifted.
    pub instruction: &'m Instruction,
    /// Parameters, results and variables of the function.
    pub frame: params::Frame<'ctx>,
    /// Which registers hold addresses, and into what.
    pub roots: Option<&'m Roots>,
    /// What registers hold at the place of the builder; the last is the carry flag.
    pub(super) values: Vec<Option<BasicValueEnum<'ctx>>>,
    /// What registers hold that nothing has written.
    pub(super) unwritten: Vec<Option<BasicValueEnum<'ctx>>>,
    /// Registers for which instructions wait.
    pub(super) pending: Pending,
    /// `set` keeps the old value where this is false; or true, if so it says.
    pub(super) select: Option<(IntValue<'ctx>, bool)>,
    /// Values that writes have replaced, to go back by.
    replaced: Vec<(u32, Option<BasicValueEnum<'ctx>>)>,
}

/// Whether a handler took an instruction: `false` sends it to inline assembly. A handler that returns `false` has built
/// nothing that matters.
pub(crate) type Handled = Result<bool, LiftError>;

/// A handler of one family of instructions.
pub(crate) type Handler =
    for<'ctx, 'm> fn(&mut Lifter<'ctx, 'm>, &Mnemonic, &'m [Operand]) -> Handled;

/// Blocks of LLVM for the blocks of the body.
struct Blocks<'ctx> {
    cfg: Cfg,
    blocks: Vec<Option<BasicBlock<'ctx>>>,
    phis: Vec<(u32, PhiValue<'ctx>)>,
    /// First of each block's phis in `phis`; one more at the end.
    first_phi: Vec<u32>,
    /// Blocks that begin with `.pragma "nounroll"`.
    nounroll: Vec<bool>,
    carry_crosses: bool,
}

impl<'ctx> Blocks<'ctx> {
    fn phis(&self, block: u32) -> &[(u32, PhiValue<'ctx>)] {
        let first = self.first_phi.get(block as usize).copied();
        let end = self.first_phi.get(block as usize + 1).copied();
        match (first, end) {
            (Some(first), Some(end)) => self.phis.get(first as usize..end as usize),
            _ => None,
        }
        .unwrap_or_default()
    }

    fn block(&self, block: u32) -> Option<BasicBlock<'ctx>> {
        self.blocks.get(block as usize).copied().flatten()
    }
}

/// A function of a module.
#[derive(Clone, Copy)]
pub(crate) struct Part<'m> {
    /// The module.
    pub module: &'m typed::Module,
    /// Which function of it.
    pub id: FnId,
    /// The function.
    pub source: &'m typed::Function,
    /// Its body.
    pub body: &'m typed::Body,
}

/// Lifts the body of a function into its declaration.
pub(crate) fn lift<'ctx>(
    globals: &mut Globals<'ctx>,
    llvm: &Module<'ctx>,
    part: Part<'_>,
    function: FunctionValue<'ctx>,
    roots: Option<&Roots>,
) -> Result<(), LiftError> {
    let Part {
        module,
        id,
        source,
        body,
    } = part;
    let context = globals.context;
    // For messages where there is no instruction: the end of the body.
    let none = Instruction {
        pos: source.pos,
        guard: None,
        mnemonic: r3_ptx::tree::MnemonicId(u32::MAX),
        form: r3_ptx::isa::FormId(u16::MAX),
        first_operand: 0,
        operands: 0,
    };
    let cfg = Cfg::new(body, &globals.mnemonics);
    let phis = ssa::phis(module, body, &cfg, &globals.mnemonics);
    let pending = Pending::of(module, body, &cfg, &phis, &globals.mnemonics);
    let slots = body.registers.len() + 1;
    let entry = context.append_basic_block(function, "");
    let mut lifter = Lifter {
        context,
        llvm,
        globals,
        builder: context.create_builder(),
        entry_builder: context.create_builder(),
        module,
        id,
        source,
        body,
        mode: Mode::of(module, body),
        function,
        instruction: &none,
        frame: params::Frame::default(),
        roots,
        values: vec![None; slots],
        unwritten: vec![None; slots],
        pending,
        select: None,
        replaced: Vec::new(),
    };
    for (name, value) in lifter.mode.attributes() {
        let attribute = context.create_string_attribute(name, value);
        function.add_attribute(AttributeLoc::Function, attribute);
    }
    let frame = lifter.blocks(entry, cfg, &phis)?;
    lifter.begin(entry, &frame)?;
    lifter.walk(&frame)
}

impl<'ctx, 'm> Lifter<'ctx, 'm> {
    /// Makes LLVM's blocks, in the order of the text, and all phis.
    fn blocks(
        &mut self,
        entry: BasicBlock<'ctx>,
        cfg: Cfg,
        phis: &Phis,
    ) -> Result<Blocks<'ctx>, LiftError> {
        let mut frame = Blocks {
            blocks: vec![None; cfg.len()],
            phis: Vec::new(),
            first_phi: Vec::with_capacity(cfg.len() + 1),
            nounroll: vec![false; cfg.len()],
            carry_crosses: phis.carry_crosses,
            cfg,
        };
        for (block, made) in frame.blocks.iter_mut().enumerate() {
            let block = block as u32;
            frame.first_phi.push(frame.phis.len() as u32);
            if !frame.cfg.reachable(block) {
                continue;
            }
            let llvm = self.context.append_basic_block(self.function, "");
            *made = Some(llvm);
            self.builder.position_at_end(llvm);
            for &slot in phis.of(block) {
                let ty = self.slot_type(slot);
                let phi = self.build(|b| b.build_phi(ty, ""))?;
                frame.phis.push((slot, phi));
            }
        }
        frame.first_phi.push(frame.phis.len() as u32);
        if self.globals.options.keep_nounroll {
            for (at, text) in &self.body.pragmas {
                if let Some(block) = frame.cfg.block_of(*at)
                    && text.contains("nounroll")
                    && let Some(mark) = frame.nounroll.get_mut(block as usize)
                {
                    *mark = true;
                }
            }
        }
        self.builder.position_at_end(entry);
        Ok(frame)
    }

    /// The entry block: parameters, variables, and the way into block 0.
    fn begin(&mut self, entry: BasicBlock<'ctx>, frame: &Blocks<'ctx>) -> Result<(), LiftError> {
        let Some(first) = frame.block(0) else {
            return Err(self.inexpressible("a body without a beginning".into()));
        };
        self.builder.position_at_end(entry);
        let end = self.build(|b| b.build_unconditional_branch(first))?;
        self.entry_builder.position_before(&end);
        self.builder.position_before(&end);
        params::enter(self)?;
        self.join(&[(entry, 0)], frame)
    }

    /// Lifts the blocks in the order of the dominator tree: what dominates comes first.
    fn walk(&mut self, frame: &Blocks<'ctx>) -> Result<(), LiftError> {
        // Block, children visited, length of `replaced` before it.
        let mut stack: Vec<(u32, usize, usize)> = vec![(0, 0, self.replaced.len())];
        self.block(0, frame)?;
        while let Some((block, next, mark)) = stack.last_mut() {
            match frame.cfg.children(*block).get(*next).copied() {
                Some(child) => {
                    *next += 1;
                    stack.push((child, 0, self.replaced.len()));
                    self.block(child, frame)?;
                }
                None => {
                    let mark = *mark;
                    stack.pop();
                    self.go_back(mark);
                }
            }
        }
        Ok(())
    }

    fn go_back(&mut self, mark: usize) {
        while self.replaced.len() > mark {
            if let Some((slot, old)) = self.replaced.pop()
                && let Some(value) = self.values.get_mut(slot as usize)
            {
                *value = old;
            }
        }
    }

    pub(super) fn write_slot(&mut self, slot: u32, value: BasicValueEnum<'ctx>) {
        if let Some(place) = self.values.get_mut(slot as usize) {
            let old = place.replace(value);
            self.replaced.push((slot, old));
        }
    }

    /// One block.
    fn block(&mut self, block: u32, frame: &Blocks<'ctx>) -> Result<(), LiftError> {
        let (Some(llvm), Some(&range)) = (frame.block(block), frame.cfg.blocks.get(block as usize))
        else {
            return Ok(());
        };
        self.builder.position_at_end(llvm);
        for (slot, phi) in frame.phis(block) {
            self.write_slot(*slot, phi.as_basic_value());
        }
        let body = self.body;
        let instructions = body
            .instructions
            .get(range.first as usize..range.end as usize)
            .unwrap_or_default();
        let mut rest = instructions;
        while let Some((instruction, after)) = rest.split_first() {
            self.instruction = instruction;
            let info = self.info(instruction);
            let taken = match instruction.guard {
                _ if !matches!(info.flow, Flow::Next | Flow::Call) => {
                    return self.terminator(block, info.flow, frame);
                }
                None => self.step(rest, frame.carry_crosses)?,
                Some(guard) if info.harmless => {
                    self.select = Some((self.guard(guard)?, guard.1));
                    let stepped = self.plain(instruction);
                    self.select = None;
                    stepped?;
                    1
                }
                Some(guard) => self.guarded(guard, rest)?,
            };
            debug_assert!(taken > 0, "each step takes an instruction");
            rest = match taken {
                1 => after,
                _ => rest.get(taken..).unwrap_or_default(),
            };
        }
        self.fall(block, frame)
    }

    pub(super) fn info(&self, instruction: &Instruction) -> MnemonicInfo {
        let info = self.globals.mnemonics.get(instruction.mnemonic.0 as usize);
        info.copied().unwrap_or(MnemonicInfo {
            handler: None,
            flow: Flow::Next,
            harmless: false,
            carry: false,
        })
    }

    /// One instruction without a guard, or a chain of carries that begins with it. Returns how many it took.
    fn step(&mut self, rest: &'m [Instruction], carry_crosses: bool) -> Result<usize, LiftError> {
        let Some(instruction) = rest.first() else {
            return Ok(1);
        };
        if self.info(instruction).carry && !carry_crosses {
            let taken = carry::chain(self, rest)?;
            if taken > 0 {
                return Ok(taken);
            }
        }
        self.plain(instruction)?;
        Ok(1)
    }

    /// One instruction, of which the guard is taken care of.
    fn plain(&mut self, instruction: &'m Instruction) -> Result<(), LiftError> {
        self.instruction = instruction;
        let body = self.body;
        let operands = body.operands(instruction);
        let module = self.module;
        let Some(mnemonic) = module.mnemonics.get(instruction.mnemonic.0 as usize) else {
            return Err(self.inexpressible("an instruction without a mnemonic".into()));
        };
        let info = self.info(instruction);
        if info.flow == Flow::Call {
            self.globals.natively += 1;
            return calls::call(self, mnemonic, operands);
        }
        if info.carry && carry::single(self, mnemonic, operands)? {
            self.globals.natively += 1;
            return Ok(());
        }
        if pending::wait(self, mnemonic)? {
            self.globals.natively += 1;
            return Ok(());
        }
        if let Some(&Operand::Register(to)) = operands.first()
            && self.pointer_space(to).is_some()
            && addresses::define(self, mnemonic, operands)?
        {
            self.globals.natively += 1;
            return Ok(());
        }
        if let Some(handler) = info.handler
            && handler(self, mnemonic, operands)?
        {
            self.globals.natively += 1;
            return Ok(());
        }
        if let Some(count) = self
            .globals
            .assembly
            .get_mut(instruction.mnemonic.0 as usize)
        {
            *count += 1;
        }
        asm::instruction(self, mnemonic, operands)
    }

    /// The register of a guard, whether it is negated or not.
    fn guard(&mut self, guard: (typed::RegId, bool)) -> Result<IntValue<'ctx>, LiftError> {
        self.predicate(&Operand::Register(guard.0))
    }

    /// Goes one way where a guard holds, the other way where it does not.
    fn fork(
        &mut self,
        guard: (typed::RegId, bool),
        holds: BasicBlock<'ctx>,
        fails: BasicBlock<'ctx>,
    ) -> Result<InstructionValue<'ctx>, LiftError> {
        let condition = self.guard(guard)?;
        let (then, otherwise) = match guard.1 {
            true => (fails, holds),
            false => (holds, fails),
        };
        self.build(|b| b.build_conditional_branch(condition, then, otherwise))
    }

    /// Instructions under the same guard, in a block of their own. Returns how many.
    fn guarded(
        &mut self,
        guard: (typed::RegId, bool),
        rest: &'m [Instruction],
    ) -> Result<usize, LiftError> {
        let Some(before) = self.builder.get_insert_block() else {
            return Err(self.inexpressible("no place to build at".into()));
        };
        let inside = self.context.insert_basic_block_after(before, "");
        let after = self.context.insert_basic_block_after(inside, "");
        self.fork(guard, inside, after)?;
        self.builder.position_at_end(inside);
        let mark = self.replaced.len();
        let mut taken = 0;
        for instruction in rest {
            let info = self.info(instruction);
            let control = !matches!(info.flow, Flow::Next | Flow::Call);
            if instruction.guard != Some(guard) || control {
                break;
            }
            let before = self.replaced.len();
            self.plain(instruction)?;
            taken += 1;
            let changed = self.replaced.get(before..).unwrap_or_default();
            if changed.iter().any(|(slot, _)| *slot == guard.0.0) {
                break;
            }
        }
        let Some(end) = self.builder.get_insert_block() else {
            return Err(self.inexpressible("no place to build at".into()));
        };
        self.build(|b| b.build_unconditional_branch(after))?;
        self.builder.position_at_end(after);
        // The first replaced value of each register is what it held before.
        let mut written = self.replaced.get(mark..).unwrap_or_default().to_vec();
        written.sort_by_key(|(slot, _)| *slot);
        written.dedup_by_key(|(slot, _)| *slot);
        for (slot, old) in written {
            let new = self.slot(slot)?;
            let old = match old {
                Some(old) => old,
                None => self.unwritten(slot)?,
            };
            let phi = self.build(|b| b.build_phi(new.get_type(), ""))?;
            phi.add_incoming(&[(&new, end), (&old, before)]);
            self.write_slot(slot, phi.as_basic_value());
        }
        Ok(taken)
    }

    fn unwritten(&mut self, slot: u32) -> Result<BasicValueEnum<'ctx>, LiftError> {
        let value = match self.values.get_mut(slot as usize) {
            Some(place) => place.take(),
            None => None,
        };
        let unwritten = self.slot(slot);
        if let Some(place) = self.values.get_mut(slot as usize) {
            *place = value;
        }
        unwritten
    }

    /// The end of a block that does not jump.
    fn fall(&mut self, block: u32, frame: &Blocks<'ctx>) -> Result<(), LiftError> {
        let Some(from) = self.builder.get_insert_block() else {
            return Ok(());
        };
        match frame.cfg.successors(block) {
            [next] => {
                let Some(to) = frame.block(*next) else {
                    return Err(self.inexpressible("a way into nowhere".into()));
                };
                let end = self.build(|b| b.build_unconditional_branch(to))?;
                self.latch(block, &[*next], end, frame)?;
                self.join(&[(from, *next)], frame)
            }
            _ => params::leave(self),
        }
    }

    /// The last instruction of a block.
    fn terminator(
        &mut self,
        block: u32,
        flow: Flow,
        frame: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        self.globals.natively += 1;
        let Some(from) = self.builder.get_insert_block() else {
            return Err(self.inexpressible("no place to build at".into()));
        };
        let successors = frame.cfg.successors(block);
        let guard = self.instruction.guard;
        if flow == Flow::Branch {
            let target = successors.first().copied().unwrap_or(NONE);
            let next = successors.get(1).copied();
            let (Some(to), else_) = (frame.block(target), next.and_then(|n| frame.block(n))) else {
                return Err(self.inexpressible("a way into nowhere".into()));
            };
            return match (guard, else_, next) {
                (Some(guard), Some(else_), Some(next)) if next != target => {
                    let end = self.fork(guard, to, else_)?;
                    self.latch(block, successors, end, frame)?;
                    self.join(&[(from, target), (from, next)], frame)
                }
                _ => {
                    let end = self.build(|b| b.build_unconditional_branch(to))?;
                    self.latch(block, successors, end, frame)?;
                    self.join(&[(from, target)], frame)
                }
            };
        }
        // The others: the guard leads to a block of their own.
        let mut edges: Vec<(BasicBlock<'ctx>, u32)> = Vec::new();
        let mut at = from;
        if let Some(guard) = guard {
            let next = successors.last().copied().unwrap_or(NONE);
            let Some(to) = frame.block(next) else {
                return Err(self.inexpressible("a way into nowhere".into()));
            };
            at = self.context.insert_basic_block_after(from, "");
            self.fork(guard, at, to)?;
            edges.push((from, next));
            self.builder.position_at_end(at);
        }
        match flow {
            Flow::Table => self.table(block, at, &mut edges, frame)?,
            Flow::Return => params::leave(self)?,
            Flow::Exit if self.source.entry => {
                self.build(|b| b.build_return(None))?;
            }
            Flow::Exit | Flow::Trap | Flow::Next | Flow::Call | Flow::Branch => {
                asm::stop(self, if flow == Flow::Trap { "trap;" } else { "exit;" })?;
                self.build(|b| b.build_unreachable())?;
            }
        }
        self.join(&edges, frame)
    }

    /// `brx.idx`. An index out of range is undefined in PTX, too.
    fn table(
        &mut self,
        block: u32,
        at: BasicBlock<'ctx>,
        edges: &mut Vec<(BasicBlock<'ctx>, u32)>,
        frame: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        let body = self.body;
        let operands = body.operands(self.instruction);
        let Some(index) = operands.first() else {
            return Err(self.inexpressible("a table without an index".into()));
        };
        let index = self.integer(index, 32)?;
        let successors = frame.cfg.successors(block);
        let count = super::cfg::targets(body, self.instruction).len();
        let mut cases = Vec::with_capacity(count);
        for (i, &target) in successors.iter().take(count).enumerate() {
            let Some(to) = frame.block(target) else {
                return Err(self.inexpressible("a way into nowhere".into()));
            };
            cases.push((self.globals.types.i32.const_int(i as u64, false), to));
            edges.push((at, target));
        }
        let nowhere = self.context.insert_basic_block_after(at, "");
        let end = self.build(|b| b.build_switch(index, nowhere, &cases))?;
        self.latch(block, successors, end, frame)?;
        self.builder.position_at_end(nowhere);
        self.build(|b| b.build_unreachable())?;
        self.builder.position_at_end(at);
        Ok(())
    }

    /// Tells the phis of successors what registers hold at the end of this block.
    fn join(
        &mut self,
        edges: &[(BasicBlock<'ctx>, u32)],
        frame: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        for &(from, to) in edges {
            for (slot, phi) in frame.phis(to) {
                let value = self.slot(*slot)?;
                phi.add_incoming(&[(&value, from)]);
            }
        }
        Ok(())
    }

    /// Marks the end of a loop that must not be unrolled.
    fn latch(
        &mut self,
        block: u32,
        successors: &[u32],
        end: InstructionValue<'ctx>,
        frame: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        for &header in successors {
            let marked = frame.nounroll.get(header as usize).copied();
            if marked == Some(true) && frame.cfg.dominates(header, block) {
                return directives::nounroll(self, end, header);
            }
        }
        Ok(())
    }
}
