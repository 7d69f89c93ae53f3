//! Which `.param` variables of a body are values: those of which every access takes the whole, and every read follows a
//! write in its basic block.

use r3_ptx::isa::{Mnemonic, Opcode, Space};
use r3_ptx::typed::{self, Body, LocalId, Operand, Symbol};

use super::access::{Access, Place};

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    /// By [`LocalId`].
    pub locals: Vec<bool>,
    /// By number of the result.
    pub results: Vec<bool>,
}

/// One variable.
#[derive(Clone, Copy, Default)]
struct State {
    size: u64,
    /// Operands that name it.
    named: u32,
    /// Operands that were understood.
    understood: u32,
    /// The block of the last write.
    written: Option<u32>,
    broken: bool,
}

impl State {
    fn write(&mut self, block: u32, fits: bool) {
        self.understood += 1;
        self.broken |= !fits;
        self.written = Some(block);
    }

    fn read(&mut self, block: u32, fits: bool) {
        self.understood += 1;
        self.broken |= !fits || self.written != Some(block);
    }

    fn whole(&self) -> bool {
        !self.broken && self.named == self.understood
    }
}

/// Walks a body once.
struct Walk<'m> {
    module: &'m typed::Module,
    body: &'m Body,
    locals: Vec<State>,
    results: Vec<State>,
    block: u32,
}

/// The widest value.
const WIDEST: u64 = 8;

/// Looks at a body.
pub(super) fn find(module: &typed::Module, function: &typed::Function, body: &Body) -> Whole {
    let state = |size: u64, param: bool| State {
        size,
        broken: !param || !matches!(size, 1 | 2 | 4 | WIDEST),
        ..State::default()
    };
    let locals = body.locals.iter();
    let results = function.results.iter();
    let mut walk = Walk {
        module,
        body,
        locals: locals.map(|v| state(v.size, v.space.is_param())).collect(),
        results: results
            .map(|v| state(v.size, v.space != Space::Reg))
            .collect(),
        block: 0,
    };
    walk.run();
    Whole {
        locals: walk.locals.iter().map(State::whole).collect(),
        results: walk.results.iter().map(State::whole).collect(),
    }
}

impl Walk<'_> {
    fn run(&mut self) {
        for operand in &self.body.operands {
            let symbol = match operand {
                Operand::Address(symbol, _) | Operand::MemorySymbol(symbol, _) => *symbol,
                _ => continue,
            };
            if let Some(state) = self.state(symbol) {
                state.named += 1;
            }
        }
        let mut starts: Vec<u32> = self.body.labels.iter().map(|(_, at)| *at).collect();
        starts.sort_unstable();
        let mut starts = starts.into_iter().peekable();
        let mut ends = true;
        for (at, instruction) in (0u32..).zip(&self.body.instructions) {
            while starts.next_if(|start| *start <= at).is_some() {
                self.block += 1;
            }
            let Some(mnemonic) = self.module.mnemonics.get(instruction.mnemonic.0 as usize) else {
                continue;
            };
            ends = self.instruction(mnemonic, instruction);
        }
        if !ends || starts.peek().is_some() {
            self.block += u32::from(starts.peek().is_some());
            self.give_back();
        }
    }

    fn state(&mut self, symbol: Symbol) -> Option<&mut State> {
        match symbol {
            Symbol::Local(LocalId(n)) => self.locals.get_mut(n as usize),
            Symbol::Result(n) => self.results.get_mut(n as usize),
            _ => None,
        }
    }

    /// Every result is read.
    fn give_back(&mut self) {
        for state in &mut self.results {
            state.broken |= state.written != Some(self.block);
        }
    }

    /// Whether nothing follows it.
    fn instruction(&mut self, mnemonic: &Mnemonic, instruction: &typed::Instruction) -> bool {
        let body = self.body;
        let operands = body.operands(instruction);
        let (block, always) = (self.block, instruction.guard.is_none());
        if let Some(access) = Access::new(mnemonic, operands) {
            if let Place::Symbol(symbol, offset) = access.place
                && let Some(state) = self.state(symbol)
            {
                let fits = offset == 0 && access.count == 1 && access.bytes() == state.size;
                match access.load {
                    true => state.read(block, fits),
                    false => state.write(block, fits && always),
                }
            }
            return false;
        }
        match mnemonic.opcode() {
            Opcode::Call => self.call(operands, always),
            Opcode::Ret => self.give_back(),
            Opcode::Bra | Opcode::Brx | Opcode::Exit | Opcode::Trap => {}
            _ => return false,
        }
        if mnemonic.opcode() != Opcode::Call {
            self.block += 1;
            return always;
        }
        false
    }

    fn call(&mut self, operands: &[Operand], always: bool) {
        let [Operand::List(r, rn), _, Operand::List(a, an), ..] = *operands else {
            return;
        };
        let (block, body) = (self.block, self.body);
        for (list, result) in [(body.list(a, an), false), (body.list(r, rn), true)] {
            for operand in list {
                if let Operand::Address(symbol @ Symbol::Local(_), offset) = *operand
                    && let Some(state) = self.state(symbol)
                {
                    match result {
                        true => state.write(block, offset == 0 && always),
                        false => state.read(block, offset == 0),
                    }
                }
            }
        }
    }
}
