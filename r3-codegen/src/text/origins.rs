//! From which parameter or variable an address comes, as far as the text tells.
//!
//! [`of`] follows registers of one body, whatever the flow of control: a register has all origins of all its definitions. An
//! address with several origins may be into any of them. What comes from memory, from a call, or from nowhere may be
//! any address. Indices have no origins, products and shifted values neither.

use r3_ptx::isa::{Access, Form, Forms, Mnemonic, Opcode, OperandKind, Place, ScalarType, Space};
use r3_ptx::typed::{Body, Function, Instruction, Module, Operand, RegId, Symbol, VarId};

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Eight bytes of a kernel's parameter: its position, offset in it.
    Param(u32, u64),
    /// A variable of the module in global memory.
    Variable(VarId),
}

/// A set of origins, as bits: the first two are special.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(u64);

impl Set {
    /// From anywhere.
    pub const ANYWHERE: Self = Self(1);
    /// A variable that is not in global memory, or a parameter itself.
    const ELSEWHERE: Self = Self(2);
    const FIRST: u32 = 2;

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// An address in global memory of these origins may be any.
    pub fn is_anywhere(self) -> bool {
        self.0 & !Self::ELSEWHERE.0 == 0 || self.0 & Self::ANYWHERE.0 != 0
    }

    /// A generic address of these origins is not in global memory.
    fn is_elsewhere(self) -> bool {
        self == Self::ELSEWHERE
    }

    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 & !Self::ELSEWHERE.0 != 0
    }
}

/// The origins in a body.
pub(super) struct Origins<'m> {
    module: &'m Module,
    body: &'m Body,
    known: Vec<Origin>,
    registers: Vec<Set>,
}

/// What an instruction does to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// Nothing.
    Nothing,
    /// Writes, to an address of these origins.
    Writes(Set),
    /// Calls what may write.
    Calls,
}

/// Functions without a body of which it is known that they write nothing that a program reads.
const HARMLESS: &[&str] = &["vprintf", "__assertfail"];

/// Operations of which the result is no address, whatever went in.
const NO_ADDRESS: &[Opcode] = &[
    Opcode::Mul,
    Opcode::Mul24,
    Opcode::Shl,
    Opcode::Shr,
    Opcode::Div,
    Opcode::Rem,
    Opcode::Popc,
    Opcode::Clz,
    Opcode::Bfind,
    Opcode::Setp,
    Opcode::Set,
];

/// The origins of all registers of a body.
pub(super) fn of<'m>(module: &'m Module, function: &'m Function, body: &'m Body) -> Origins<'m> {
    let mut origins = Origins {
        module,
        body,
        known: Vec::new(),
        registers: vec![Set::default(); body.registers.len()],
    };
    for register in body.param_registers.iter().chain(&body.result_registers) {
        origins.add(*register, Set::ANYWHERE);
    }
    loop {
        let mut changed = false;
        for instruction in &body.instructions {
            changed |= origins.define(function, instruction);
        }
        if !changed {
            return origins;
        }
    }
}

impl<'m> Origins<'m> {
    /// Origins of an address.
    pub fn address(&mut self, operand: &Operand) -> Set {
        match *operand {
            Operand::MemoryRegister(register, _) | Operand::Register(register) => {
                self.register(register)
            }
            Operand::MemorySymbol(symbol, _) => self.symbol(symbol),
            _ => Set::ANYWHERE,
        }
    }

    /// The origins in a set.
    pub fn list(&self, set: Set) -> impl Iterator<Item = Origin> + '_ {
        (Set::FIRST..u64::BITS)
            .zip(&self.known)
            .filter(move |(bit, _)| set.0 & (1 << bit) != 0)
            .map(|(_, origin)| *origin)
    }

    fn register(&self, register: RegId) -> Set {
        let found = self.registers.get(register.0 as usize);
        found.copied().unwrap_or(Set::ANYWHERE)
    }

    fn add(&mut self, register: RegId, set: Set) -> bool {
        let Some(place) = self.registers.get_mut(register.0 as usize) else {
            return false;
        };
        let before = *place;
        *place = before.with(set);
        *place != before
    }

    fn bit(&mut self, origin: Origin) -> Set {
        let most = u64::BITS - Set::FIRST;
        let known = (0u32..).zip(&self.known);
        let at = known
            .into_iter()
            .find(|(_, known)| **known == origin)
            .map(|(at, _)| at);
        let at = at.unwrap_or_else(|| {
            if self.known.len() < most as usize {
                self.known.push(origin);
                return self.known.len() as u32 - 1;
            }
            most
        });
        match at < most {
            true => Set(1 << (at + Set::FIRST)),
            // More than there are bits for.
            false => Set::ANYWHERE,
        }
    }

    fn symbol(&mut self, symbol: Symbol) -> Set {
        match symbol {
            Symbol::Variable(id) => match self.module.variables.get(id.0 as usize) {
                Some(variable) if variable.space == Space::Global => self.bit(Origin::Variable(id)),
                _ => Set::ELSEWHERE,
            },
            Symbol::Local(id) => match self.body.locals.get(id.0 as usize) {
                // A static variable of a function.
                Some(local) if local.space == Space::Global => Set::ANYWHERE,
                _ => Set::ELSEWHERE,
            },
            Symbol::Param(_) | Symbol::Result(_) => Set::ELSEWHERE,
            Symbol::Function(_) => Set::default(),
        }
    }

    /// Gives what an instruction writes its origins. Returns whether any is new.
    fn define(&mut self, function: &Function, instruction: &Instruction) -> bool {
        let (Some(mnemonic), Some(form)) = self.of_table(instruction) else {
            return false;
        };
        let operands = self.body.operands(instruction);
        let opcode = mnemonic.opcode();
        let (mut written, mut read) = (Vec::new(), Set::default());
        let mut packed = false;
        for (at, operand) in operands.iter().enumerate() {
            let spec = form.operands.get(at);
            let writes = match opcode {
                Opcode::Call => at == 0,
                _ => spec.is_some_and(|spec| {
                    matches!(spec.access, Access::Write | Access::ReadWrite)
                        && !is_memory(spec.kind)
                }),
            };
            if writes {
                self.registers_of(operand, &mut written);
            } else if spec.is_none_or(|spec| !is_memory(spec.kind)) {
                packed |= matches!(operand, Operand::Vector(..));
                let factor = opcode == Opcode::Mad && at < 3;
                if !factor {
                    read = read.with(self.value(operand));
                }
            }
        }
        let loads = matches!(opcode, Opcode::Ld | Opcode::Ldu);
        let memory = loads || form.effects.reads || opcode == Opcode::Call;
        let mut changed = false;
        for (element, register) in (0u64..).zip(written) {
            let bits = self
                .body
                .registers
                .get(register.0 as usize)
                .map_or(64, |register| register.ty.bits());
            let set = if NO_ADDRESS.contains(&opcode) {
                Set::default()
            } else if loads && let Some(origin) = parameter(function, mnemonic, operands, element) {
                self.bit(origin)
            } else if memory || (opcode == Opcode::Mov && packed) {
                // Half an address is none; two halves make any.
                match bits >= 64 {
                    true => Set::ANYWHERE,
                    false => Set::default(),
                }
            } else {
                read
            };
            changed |= self.add(register, set);
        }
        changed
    }

    /// What an instruction does to global memory.
    pub fn touch(&mut self, instruction: &Instruction) -> Touch {
        let (Some(mnemonic), Some(form)) = self.of_table(instruction) else {
            return Touch::Calls;
        };
        let operands = self.body.operands(instruction);
        if mnemonic.opcode() == Opcode::Call {
            return self.call(operands);
        }
        let specs = form.operands.iter().filter(|spec| is_memory(spec.kind));
        let memory = operands.iter().filter(|operand| {
            matches!(
                operand,
                Operand::MemoryRegister(..)
                    | Operand::MemorySymbol(..)
                    | Operand::MemoryAbsolute(_)
                    | Operand::MemoryList(..)
            )
        });
        let mut touch = Touch::Nothing;
        let mut add = |set: Set| {
            touch = match touch {
                Touch::Writes(before) => Touch::Writes(before.with(set)),
                _ => Touch::Writes(set),
            };
        };
        for (spec, operand) in specs.zip(memory) {
            if !matches!(spec.access, Access::Write | Access::ReadWrite) {
                continue;
            }
            let space = match spec.kind {
                OperandKind::Memory(Place::Nth(n)) => mnemonic.spaces().nth(usize::from(n)),
                OperandKind::Memory(Place::In(space)) => Some(space),
                OperandKind::Memory(Place::Tensor) => continue,
                // Arrays of surfaces are not in global memory; what a tensor map describes is.
                OperandKind::Surface | OperandKind::Texture => continue,
                _ => {
                    add(Set::ANYWHERE);
                    continue;
                }
            };
            let set = self.address(operand);
            match space {
                Some(Space::Global) => add(match set.is_anywhere() {
                    true => Set::ANYWHERE,
                    false => set,
                }),
                None | Some(Space::Generic) if !set.is_elsewhere() => {
                    add(match set.is_anywhere() {
                        true => Set::ANYWHERE,
                        false => set,
                    });
                }
                _ => {}
            }
        }
        touch
    }

    fn call(&self, operands: &[Operand]) -> Touch {
        let Some(Operand::Address(Symbol::Function(id), _)) = operands.get(1) else {
            return Touch::Calls;
        };
        match self.module.functions.get(id.0 as usize) {
            // Its own instructions tell.
            Some(function) if function.body.is_some() => Touch::Nothing,
            Some(function) if HARMLESS.contains(&&*function.name) => Touch::Nothing,
            _ => Touch::Calls,
        }
    }

    fn of_table(&self, instruction: &Instruction) -> (Option<&'m Mnemonic>, Option<&'static Form>) {
        let mnemonic = self.module.mnemonics.get(instruction.mnemonic.0 as usize);
        (mnemonic, Forms::table().get(instruction.form))
    }

    fn value(&mut self, operand: &Operand) -> Set {
        match *operand {
            Operand::Register(register) | Operand::Selected { register, .. } => {
                self.register(register)
            }
            Operand::Address(symbol, _) => self.symbol(symbol),
            Operand::Vector(first, len) | Operand::List(first, len) => {
                let body = self.body;
                body.list(first, len)
                    .iter()
                    .fold(Set::default(), |set, part| set.with(self.value(part)))
            }
            _ => Set::default(),
        }
    }

    fn registers_of(&self, operand: &Operand, into: &mut Vec<RegId>) {
        let list = match *operand {
            Operand::Register(register) | Operand::Selected { register, .. } => {
                into.push(register);
                return;
            }
            Operand::Vector(first, len) | Operand::List(first, len) => self.body.list(first, len),
            Operand::Pair(first) => self.body.list(first, 2),
            _ => return,
        };
        for operand in list {
            self.registers_of(operand, into);
        }
    }
}

fn is_memory(kind: OperandKind) -> bool {
    use OperandKind as K;
    matches!(
        kind,
        K::Memory(_) | K::TensorMap | K::Texture | K::Surface | K::Handle
    )
}

/// The parameter of a kernel that an element of a load is.
fn parameter(
    function: &Function,
    mnemonic: &Mnemonic,
    operands: &[Operand],
    element: u64,
) -> Option<Origin> {
    let Some(&Operand::MemorySymbol(Symbol::Param(index), offset)) = operands.get(1) else {
        return None;
    };
    let ty: ScalarType = *mnemonic.types().last()?;
    let wide = ty.bytes() == 8 && !ty.is_float();
    if !function.entry || !wide {
        return None;
    }
    let offset = u64::try_from(offset).ok()?;
    Some(Origin::Param(index, offset + 8 * element))
}
