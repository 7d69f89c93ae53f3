//! Reads a body once: definitions and uses of registers.

use r3_ptx::isa::{
    Access, Form, Forms, Mnemonic, Opcode, OperandKind, Place, ScalarType, TypeKind, Word,
};
use r3_ptx::typed::{Body, Function, Instruction, Module, Operand, RegId, Symbol};

use super::{number, space, symbol_space};

/// A part of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A register.
    Register(RegId),
    /// The address of a variable, in its space.
    Symbol(u32),
    /// A number, or what else cannot be an address.
    Other,
}

impl Part {
    /// The register, if it is one.
    pub fn register(&self) -> Option<RegId> {
        match *self {
            Self::Register(register) => Some(register),
            _ => None,
        }
    }
}

/// How an instruction makes the value of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Definition {
    /// In a way that gives an integer.
    Integer,
    /// A number: an integer, or a constant address among others.
    Number,
    /// From memory: whatever the uses say.
    Loaded,
    /// An address in a space.
    Address(u32),
    /// One of these.
    Copy([Part; 2]),
    /// The sum of an address and an index; either may be the address.
    Sum([Part; 2]),
    /// The first, an address, and an index.
    Offset([Part; 2]),
    /// The same address with another width: only addresses in shared memory have two.
    Resized(RegId),
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Definitions, in the order of the text.
    pub definitions: Vec<(RegId, Definition)>,
    /// Registers that are addresses in a space.
    pub addresses: Vec<(RegId, u32)>,
    /// Registers whose bits are used, apart from those in [`definitions`](Self::definitions).
    pub values: Vec<RegId>,
    /// Registers that hold an address by declaration (`.ptr`).
    pub declared: Vec<RegId>,
    /// Registers loaded from a parameter as a whole.
    pub parameter_loads: Vec<(RegId, u32)>,
    /// From where bits flow to where.
    pub flows: Vec<Flow>,
    /// Registers of [`flows`](Self::flows).
    flowing: Vec<RegId>,
}

/// What an instruction writes, and what it reads as values. Floats and predicates are no part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    written: u32,
    read: u32,
    end: u32,
    /// The address of a variable is read.
    pub variable: bool,
    /// The result is a sum of what is read, or like one.
    pub sum: bool,
}

impl Facts {
    /// Destinations of a flow.
    pub fn written(&self, flow: Flow) -> &[RegId] {
        self.flowing(flow.written, flow.read)
    }

    /// Sources of a flow.
    pub fn read(&self, flow: Flow) -> &[RegId] {
        self.flowing(flow.read, flow.end)
    }

    fn flowing(&self, from: u32, to: u32) -> &[RegId] {
        let list = self.flowing.get(from as usize..to as usize);
        list.unwrap_or_default()
    }
}

/// Instructions that can make one address of two.
const SUMS: &[Opcode] = &[
    Opcode::Add,
    Opcode::Addc,
    Opcode::Lop3,
    Opcode::Mad,
    Opcode::Mad24,
    Opcode::Madc,
    Opcode::Or,
    Opcode::Sub,
    Opcode::Subc,
    Opcode::Xor,
];

/// Reads a body.
pub(super) fn scan(module: &Module, function: &Function, body: &Body) -> Facts {
    let mut facts = Facts::default();
    let entry = body.param_registers.iter().chain(&body.result_registers);
    for &register in entry {
        facts.definitions.push((register, Definition::Integer));
    }
    let mut scan = Scan {
        module,
        function,
        body,
        facts,
        written: Vec::new(),
        read: Vec::new(),
    };
    for instruction in &body.instructions {
        scan.instruction(instruction);
    }
    scan.facts
}

struct Scan<'m> {
    module: &'m Module,
    function: &'m Function,
    body: &'m Body,
    facts: Facts,
    written: Vec<RegId>,
    read: Vec<Part>,
}

impl<'m> Scan<'m> {
    fn instruction(&mut self, instruction: &'m Instruction) {
        let mnemonic = self.module.mnemonics.get(instruction.mnemonic.0 as usize);
        let form = Forms::table().get(instruction.form);
        let (Some(mnemonic), Some(form)) = (mnemonic, form) else {
            return;
        };
        let operands = self.body.operands(instruction);
        self.places(mnemonic, form, operands);
        let opcode = mnemonic.opcode();
        let mut written = std::mem::take(&mut self.written);
        let mut read = std::mem::take(&mut self.read);
        written.clear();
        read.clear();
        for (i, operand) in operands.iter().enumerate() {
            let writes = match opcode {
                Opcode::Call => i == 0,
                // Destinations are the first operands of the table's forms.
                _ => form.operands.get(i).is_some_and(|spec| {
                    matches!(spec.access, Access::Write | Access::ReadWrite)
                        && !is_memory(spec.kind)
                }),
            };
            if writes {
                self.registers(operand, &mut written);
            } else {
                self.parts(operand, &mut read);
            }
        }
        let loads = matches!(opcode, Opcode::Ld | Opcode::Ldu);
        match (self.definition(mnemonic, operands), operands.first()) {
            (Some(definition), Some(&Operand::Register(register))) => {
                self.facts.definitions.push((register, definition));
            }
            _ => {
                for &register in &written {
                    let made = match loads && self.whole(mnemonic, register) {
                        true => Definition::Loaded,
                        false => Definition::Integer,
                    };
                    self.facts.definitions.push((register, made));
                }
                let registers = read.iter().filter_map(Part::register);
                self.facts.values.extend(registers);
            }
        }
        match loads {
            // Bits that come from memory come from nowhere.
            true => self.parameter(mnemonic, operands),
            false => self.flow(&written, &read, SUMS.contains(&opcode)),
        }
        self.written = written;
        self.read = read;
    }

    fn flow(&mut self, written: &[RegId], read: &[Part], sum: bool) {
        let variable = read.iter().any(|part| matches!(part, Part::Symbol(_)));
        let bits = |register: &RegId| {
            let held = self.body.registers.get(register.0 as usize);
            held.is_some_and(|held| !held.ty.is_float() && held.ty != ScalarType::Pred)
        };
        let list = &mut self.facts.flowing;
        let start = list.len();
        list.extend(written.iter().filter(|r| bits(r)));
        let middle = list.len();
        list.extend(read.iter().filter_map(Part::register).filter(bits));
        let end = list.len();
        if middle == start || (middle == end && !variable) {
            list.truncate(start);
            return;
        }
        self.facts.flows.push(Flow {
            written: start as u32,
            read: middle as u32,
            end: end as u32,
            variable,
            sum,
        });
    }

    /// A load of a parameter as a whole.
    fn parameter(&mut self, mnemonic: &Mnemonic, operands: &[Operand]) {
        let [
            Operand::Register(register),
            Operand::MemorySymbol(Symbol::Param(index), 0),
            ..,
        ] = *operands
        else {
            return;
        };
        let Some(parameter) = self.function.params.get(index as usize) else {
            return;
        };
        let scalar = parameter.size == 8 && parameter.vector == 1 && parameter.ty.bytes() == 8;
        if scalar && mnemonic.vector() == 1 && self.whole(mnemonic, register) {
            self.facts.parameter_loads.push((register, index));
            if parameter.ptr.is_some() {
                self.facts.declared.push(register);
            }
        }
    }

    fn bits(&self, register: RegId) -> u32 {
        let register = self.body.registers.get(register.0 as usize);
        register.map_or(0, |register| register.ty.bits())
    }

    /// Whether a load fills a register that may hold an address.
    fn whole(&self, mnemonic: &Mnemonic, register: RegId) -> bool {
        let ty = mnemonic.types().last();
        ty.is_some_and(|ty| integer(*ty) && ty.bits() == self.bits(register))
    }

    /// How the first operand is made, of instructions that can make addresses.
    fn definition(&mut self, mnemonic: &Mnemonic, operands: &[Operand]) -> Option<Definition> {
        let ty = *mnemonic.types().last()?;
        let plain = !mnemonic.has(Word::Cc) && !mnemonic.sat();
        Some(match (mnemonic.opcode(), operands) {
            (Opcode::Mov, [_, from]) if integer(ty) => match *from {
                Operand::Address(symbol, _) => self.symbol(symbol)?,
                Operand::Number(_) => Definition::Number,
                Operand::Register(from) => {
                    Definition::Copy([Part::Register(from), Part::Register(from)])
                }
                _ => return None,
            },
            (Opcode::Selp, [_, a, b, _]) if integer(ty) => {
                Definition::Copy([self.part(a)?, self.part(b)?])
            }
            (Opcode::Add, [_, a, b]) if integer(ty) && plain => {
                Definition::Sum([self.part(a)?, self.part(b)?])
            }
            (Opcode::Sub, [_, a, b]) if integer(ty) && plain => {
                Definition::Offset([self.part(a)?, self.part(b)?])
            }
            (Opcode::Mad, [_, a, b, c]) if plain && !mnemonic.has(Word::Hi) => {
                for factor in [a, b] {
                    if let Part::Register(register) = self.part(factor)? {
                        self.facts.values.push(register);
                    }
                }
                Definition::Offset([self.part(c)?, Part::Other])
            }
            (Opcode::Cvt, [Operand::Register(to), Operand::Register(from)]) => {
                let [
                    made @ (ScalarType::U64 | ScalarType::U32),
                    read @ (ScalarType::U64 | ScalarType::U32),
                ] = *mnemonic.types()
                else {
                    return None;
                };
                if self.bits(*to) != made.bits() || self.bits(*from) != read.bits() || !plain {
                    return None;
                }
                Definition::Resized(*from)
            }
            (Opcode::Cvta, [_, from]) => {
                let other = number(mnemonic.space());
                let (to, at) = match mnemonic.has(Word::To) {
                    true => (other, space::GENERIC),
                    false => (space::GENERIC, other),
                };
                if let Operand::Register(from) = *from {
                    self.facts.addresses.push((from, at));
                }
                match to {
                    space::PARAM => Definition::Integer,
                    _ => Definition::Address(to),
                }
            }
            _ => return None,
        })
    }

    fn symbol(&self, symbol: Symbol) -> Option<Definition> {
        let found = symbol_space(self.module, self.function, symbol);
        found.map(Definition::Address)
    }

    /// A source; `None` where it is nothing for address arithmetic.
    fn part(&self, operand: &Operand) -> Option<Part> {
        Some(match *operand {
            Operand::Register(register) => Part::Register(register),
            Operand::Number(_) => Part::Other,
            Operand::Address(symbol, _) => {
                Part::Symbol(symbol_space(self.module, self.function, symbol)?)
            }
            _ => return None,
        })
    }

    /// Registers that stand where an address does.
    fn places(&mut self, mnemonic: &Mnemonic, form: &Form, operands: &[Operand]) {
        let specs = form.operands.iter().filter(|spec| {
            is_memory(spec.kind)
                || (spec.kind == OperandKind::Handle && spec.access == Access::Address)
        });
        let memory = operands.iter().filter(|operand| {
            matches!(
                operand,
                Operand::MemoryRegister(..)
                    | Operand::MemorySymbol(..)
                    | Operand::MemoryAbsolute(_)
                    | Operand::MemoryList(..)
            )
        });
        for (spec, operand) in specs.zip(memory) {
            let at = match spec.kind {
                OperandKind::Memory(Place::Nth(n)) => {
                    Some(number(mnemonic.spaces().nth(usize::from(n))))
                }
                OperandKind::Memory(Place::In(space)) => {
                    Some(number(mnemonic.spaces().next().map(|_| space)))
                }
                OperandKind::TensorMap => Some(space::GENERIC),
                _ => None,
            };
            let entries = match *operand {
                Operand::MemoryList(first, len) => self.body.list(first, len),
                _ => std::slice::from_ref(operand),
            };
            for entry in entries {
                let Operand::MemoryRegister(register, _) = *entry else {
                    continue;
                };
                match at {
                    Some(at) => self.facts.addresses.push((register, at)),
                    None => self.facts.values.push(register),
                }
            }
        }
    }

    /// Registers of a destination.
    fn registers(&self, operand: &Operand, into: &mut Vec<RegId>) {
        match *operand {
            Operand::Register(register) | Operand::Selected { register, .. } => into.push(register),
            Operand::Vector(first, len) | Operand::List(first, len) => {
                for operand in self.body.list(first, len) {
                    self.registers(operand, into);
                }
            }
            Operand::Pair(first) => {
                for operand in self.body.list(first, 2) {
                    self.registers(operand, into);
                }
            }
            _ => {}
        }
    }

    /// What is read as a value.
    fn parts(&self, operand: &Operand, into: &mut Vec<Part>) {
        match *operand {
            Operand::Register(register) | Operand::Selected { register, .. } => {
                into.push(Part::Register(register));
            }
            Operand::Address(symbol, _) => {
                if let Some(found) = symbol_space(self.module, self.function, symbol) {
                    into.push(Part::Symbol(found));
                }
            }
            Operand::Vector(first, len)
            | Operand::List(first, len)
            | Operand::MemoryList(first, len) => {
                for operand in self.body.list(first, len) {
                    self.parts(operand, into);
                }
            }
            _ => {}
        }
    }
}

/// A type whose register may hold an address.
pub(super) fn integer(ty: ScalarType) -> bool {
    let kind = ty.kind();
    let plain = matches!(kind, TypeKind::Bits | TypeKind::Unsigned | TypeKind::Signed);
    plain && ty.lanes() == 1 && matches!(ty.bits(), 32 | 64)
}

fn is_memory(kind: OperandKind) -> bool {
    use OperandKind as K;
    matches!(kind, K::Memory(_) | K::TensorMap | K::Texture | K::Surface)
}
