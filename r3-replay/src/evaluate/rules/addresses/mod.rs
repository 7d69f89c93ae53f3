//! From where addresses come: arguments of the kernel, variables, pointers in memory, or nowhere.
//!
//! Every register, parameter and local array has [`Roots`]: from what it may be made. [`flow`] follows values through all
//! functions that a kernel reaches until nothing changes any more, whatever the flow of control: a register has all roots of
//! all its definitions. `transfer` says what an instruction does to roots. An access whose address has no root that is an
//! address is [`Broken`].
//!
//! What is taken for an address: a word of the kernel's parameters that was a pointer or was never anything, the address of a variable, what
//! lies in memory as 64 bits or is put together from pieces that do. Sums keep it, so do masks, selections, shuffles and
//! conversions between address spaces; products, differences of two addresses, conversions to floating point do not. Words
//! of parameters that were recorded and were a pointer in no launch are numbers. Loads from shared and local memory give
//! what was stored there, and tables of the code's own what they begin with: numbers that take this way remain numbers.

mod roots;
mod transfer;

use std::collections::BTreeSet;

use r3_ptx::isa::{Access, Form, Forms, Mnemonic, Opcode, OperandKind, Place, Space};
use r3_ptx::typed::{Body, FnId, Function, Instruction, Module, Operand, RegId, Symbol, VarId};

use super::ParameterWords;
use super::code::Code;
pub use roots::Roots;

/// An access that breaks a rule.
#[derive(Clone, Copy, Debug)]
pub struct Broken<'m> {
    /// Function that it is in.
    pub function: &'m Function,
    /// The instruction.
    pub instruction: &'m Instruction,
    /// What is wrong with it.
    pub how: How,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its address comes from nothing that leads to memory.
    Nowhere,
    /// Its address is a number.
    Number(u64),
    /// It writes to a table that the original has not.
    Table,
}

/// Roots of everything in a function.
#[derive(Clone, Debug, Default)]
struct State {
    registers: Vec<Roots>,
    /// What `.param` variables for calls hold.
    locals: Vec<Roots>,
    /// What parameters of a device function hold.
    params: Vec<Roots>,
    /// What its results hold.
    results: Vec<Roots>,
}

/// Roots of everything that a kernel reaches.
#[derive(Debug)]
pub struct Flow<'m> {
    module: &'m Module,
    reached: &'m [FnId],
    own: &'m BTreeSet<VarId>,
    words: &'m ParameterWords,
    /// By function, empty where it is not reached.
    states: Vec<State>,
    /// What was stored to shared and local memory.
    stack: Roots,
    changed: bool,
}

/// Passes over all functions after which it is given up: more than ways through real code are long. What is not known then
/// counts as an address.
const MOST_PASSES: usize = 200;

/// Follows the values of a kernel. `own` are variables that the original has not; `words` what is known of the kernel's
/// parameters.
pub fn flow<'m>(code: &'m Code, own: &'m BTreeSet<VarId>, words: &'m ParameterWords) -> Flow<'m> {
    let module = &code.module;
    let mut flow = Flow {
        module,
        reached: &code.reached,
        own,
        words,
        states: vec![State::default(); module.functions.len()],
        stack: Roots::NONE,
        changed: true,
    };
    let by_address = by_address(code);
    for id in &code.reached {
        flow.begin(*id, by_address.contains(id));
    }
    let mut passes = 0;
    while flow.changed && passes < MOST_PASSES {
        flow.changed = false;
        passes += 1;
        for id in &code.reached {
            flow.function(*id);
        }
    }
    if flow.changed {
        flow.states.clear();
    }
    flow
}

/// Functions that are called by address: nobody knows with what.
fn by_address(code: &Code) -> BTreeSet<FnId> {
    let mut found = BTreeSet::new();
    for (_, body) in code.bodies() {
        found.extend(body.call_tables.iter().flatten());
        for instruction in &body.instructions {
            let mnemonic = code.module.mnemonics.get(instruction.mnemonic.0 as usize);
            let calls = mnemonic.is_some_and(|mnemonic| mnemonic.opcode() == Opcode::Call);
            let operands = body.operands(instruction);
            for (at, operand) in operands.iter().enumerate() {
                if let Operand::Address(Symbol::Function(id), _) = operand
                    && !(calls && at == 1)
                {
                    found.insert(*id);
                }
            }
        }
    }
    for id in &code.variables {
        let variable = code.module.variables.get(id.0 as usize);
        let relocations = variable
            .into_iter()
            .flat_map(|variable| &variable.relocations);
        found.extend(
            relocations.filter_map(|relocation| match relocation.symbol {
                Symbol::Function(id) => Some(id),
                _ => None,
            }),
        );
    }
    found
}

impl<'m> Flow<'m> {
    /// Accesses that break a rule, in the order of the text.
    pub fn broken(&self) -> Vec<Broken<'m>> {
        let mut broken = Vec::new();
        if self.module.address_bytes != 8 || self.states.is_empty() {
            return broken;
        }
        for id in self.reached {
            let Some((function, body)) = self.body(*id) else {
                continue;
            };
            for instruction in &body.instructions {
                let how = self.access(*id, body, instruction);
                broken.extend(how.map(|how| Broken {
                    function,
                    instruction,
                    how,
                }));
            }
        }
        broken
    }

    /// Whether a variable that the original has not may be written: something is stored through an address that may be its, or
    /// its address goes where it is lost sight of.
    pub fn writes_own(&self) -> bool {
        if self.own.is_empty() {
            return false;
        }
        if self.states.is_empty() || self.module.address_bytes != 8 {
            return true;
        }
        let holds_address = self.module.variables.iter().any(|variable| {
            let mut relocations = variable.relocations.iter();
            relocations.any(|relocation| match relocation.symbol {
                Symbol::Variable(id) => self.own.contains(&id),
                _ => false,
            })
        });
        let mut bodies = self
            .reached
            .iter()
            .filter_map(|id| Some((*id, self.body(*id)?)));
        holds_address
            || bodies.any(|(id, (_, body))| {
                let mut instructions = body.instructions.iter();
                instructions.any(|instruction| self.may_write_own(id, body, instruction))
            })
    }

    fn may_write_own(&self, id: FnId, body: &Body, instruction: &Instruction) -> bool {
        let Some((mnemonic, form)) = self.of_table(instruction) else {
            return true;
        };
        let operands = body.operands(instruction);
        if mnemonic.opcode() == Opcode::Call {
            return self.gives_away(id, operands);
        }
        let stores = matches!(mnemonic.opcode(), Opcode::St | Opcode::Atom | Opcode::Red);
        form.operands.iter().zip(operands).any(|(spec, operand)| {
            let writes = matches!(spec.access, Access::Write | Access::ReadWrite);
            match (place(spec.kind, mnemonic), *operand) {
                (Some(_), Operand::MemorySymbol(Symbol::Variable(variable), _)) => {
                    writes && self.own.contains(&variable)
                }
                (Some(_), Operand::MemoryRegister(register, _)) => {
                    writes && self.register(id, register).has_table()
                }
                // Its address is stored. What calls are given is followed into the function.
                (None, Operand::Register(register)) => {
                    let of_call = mnemonic.space().is_some_and(Space::is_param);
                    stores && !writes && !of_call && self.register(id, register).has_table()
                }
                _ => false,
            }
        })
    }

    /// Whether a call hands the address of a variable to a function that cannot be looked into.
    fn gives_away(&self, id: FnId, operands: &[Operand]) -> bool {
        let Some((_, body)) = self.body(id) else {
            return true;
        };
        let callee = match operands.get(1) {
            Some(Operand::Address(Symbol::Function(callee), _)) => Some(*callee),
            _ => None,
        };
        if callee.is_some_and(|callee| self.body(callee).is_some()) {
            return false;
        }
        let function = callee.and_then(|id| self.module.functions.get(id.0 as usize));
        if function.is_some_and(|function| transfer::SILENT.contains(&&*function.name)) {
            return false;
        }
        let Some(Operand::List(first, len)) = operands.get(2) else {
            return false;
        };
        let state = self.states.get(id.0 as usize);
        body.list(*first, *len)
            .iter()
            .any(|argument| match *argument {
                Operand::Address(Symbol::Local(local), _) => {
                    let held = state.and_then(|state| state.locals.get(local.0 as usize));
                    held.is_none_or(|held| held.has_table())
                }
                Operand::Register(register) => self.register(id, register).has_table(),
                _ => false,
            })
    }

    fn body(&self, id: FnId) -> Option<(&'m Function, &'m Body)> {
        let function = self.module.functions.get(id.0 as usize)?;
        Some((function, function.body.as_ref()?))
    }

    /// What is wrong with what an instruction accesses.
    fn access(&self, id: FnId, body: &Body, instruction: &Instruction) -> Option<How> {
        let (mnemonic, form) = self.of_table(instruction)?;
        if matches!(mnemonic.opcode(), Opcode::Call) {
            return None;
        }
        let operands = body.operands(instruction);
        for (spec, operand) in form.operands.iter().zip(operands) {
            let touches = match spec.access {
                Access::Address => mnemonic.opcode() == Opcode::Discard,
                Access::Read | Access::Write | Access::ReadWrite => true,
            };
            let Some(space) = place(spec.kind, mnemonic).filter(|_| touches) else {
                continue;
            };
            let writes = matches!(spec.access, Access::Write | Access::ReadWrite);
            let found = self.address(id, body, operand, space, writes);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn address(
        &self,
        id: FnId,
        body: &Body,
        operand: &Operand,
        space: Space,
        writes: bool,
    ) -> Option<How> {
        // Shared memory and parameters have no memory of others in them.
        let mine = space.is_shared() || space.is_param();
        match *operand {
            Operand::MemoryAbsolute(address) if !mine => Some(How::Number(address)),
            Operand::MemorySymbol(Symbol::Variable(id), _) => {
                (writes && self.own.contains(&id) && !mine && space != Space::Local)
                    .then_some(How::Table)
            }
            Operand::MemoryRegister(register, _) if !mine => {
                let roots = self.register(id, register);
                let bits = body.registers.get(register.0 as usize);
                let narrow = bits.is_some_and(|register| register.ty.bits() < 64);
                let leads = roots.is_address() || (narrow && roots.is_piece());
                match leads {
                    false => Some(How::Nowhere),
                    true => (writes && roots.is_table()).then_some(How::Table),
                }
            }
            Operand::MemoryList(first, len) => {
                let map = body.list(first, len).first()?;
                let Operand::Register(register) = *map else {
                    return None;
                };
                let roots = self.register(id, register);
                (!roots.is_address()).then_some(How::Nowhere)
            }
            _ => None,
        }
    }

    fn of_table(&self, instruction: &Instruction) -> Option<(&'m Mnemonic, &'static Form)> {
        let mnemonic = self.module.mnemonics.get(instruction.mnemonic.0 as usize)?;
        Some((mnemonic, Forms::table().get(instruction.form)?))
    }

    fn register(&self, id: FnId, register: RegId) -> Roots {
        let state = self.states.get(id.0 as usize);
        let found = state.and_then(|state| state.registers.get(register.0 as usize));
        found.copied().unwrap_or(Roots::MEMORY)
    }
}

/// The space that a memory operand is in; `None` for what is no memory, or has rules of its own.
fn place(kind: OperandKind, mnemonic: &Mnemonic) -> Option<Space> {
    match kind {
        OperandKind::Memory(Place::Nth(n)) => Some(
            mnemonic
                .spaces()
                .nth(usize::from(n))
                .unwrap_or(Space::Generic),
        ),
        OperandKind::Memory(Place::In(space)) => Some(space),
        // A map in memory of the launch says where.
        OperandKind::TensorMap => Some(Space::Generic),
        _ => None,
    }
}
