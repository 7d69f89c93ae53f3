//! What an instruction does to roots.

use r3_ptx::isa::{
    Access, Form, Mnemonic, Opcode, OperandKind, ScalarType, Space, SpecialRegister, Word,
};
use r3_ptx::typed::{Body, FnId, Function, Instruction, Operand, RegId, Symbol};

use super::{Flow, Roots, State, place};

/// Operations of which the result leads nowhere, whatever went in.
const NUMBERS: &[Opcode] = &[
    Opcode::Mul,
    Opcode::Mul24,
    Opcode::Div,
    Opcode::Rem,
    Opcode::Popc,
    Opcode::Clz,
    Opcode::Bfind,
    Opcode::Brev,
    Opcode::Setp,
    Opcode::Set,
    Opcode::Testp,
    Opcode::Sad,
    Opcode::Vote,
    Opcode::Match,
    Opcode::Activemask,
    Opcode::Elect,
    Opcode::Dp2a,
    Opcode::Dp4a,
    Opcode::Fns,
    Opcode::Isspacep,
    Opcode::Istypep,
    Opcode::Getctarank,
    Opcode::Mbarrier,
    Opcode::Createpolicy,
    Opcode::Txq,
    Opcode::Suq,
    Opcode::Mma,
    Opcode::Wmma,
    Opcode::Wgmma,
];

/// Operations that carry bits whatever they mean, floating point included.
const CARRY: &[Opcode] = &[
    Opcode::Mov,
    Opcode::Selp,
    Opcode::Slct,
    Opcode::Shfl,
    Opcode::Prmt,
];

/// Functions without a body that write nothing.
pub(super) const SILENT: &[&str] = &["vprintf", "__assertfail"];

/// Bits of an address that a mask of less has in it, and that tell one allocation from another.
const LOW_BITS: u32 = 16;

impl<'m> Flow<'m> {
    /// What is known of a function before its first instruction.
    pub(super) fn begin(&mut self, id: FnId, by_address: bool) {
        let Some((function, body)) = self.body(id) else {
            return;
        };
        let outside = match by_address {
            true => Roots::MEMORY.with(Roots::PIECE),
            false => Roots::NONE,
        };
        let mut state = State {
            registers: vec![Roots::NONE; body.registers.len()],
            locals: vec![Roots::NONE; body.locals.len()],
            params: vec![outside; function.params.len()],
            results: vec![Roots::NONE; function.results.len()],
        };
        // Functions in the style of old versions, which no compiler writes.
        for register in body.param_registers.iter().chain(&body.result_registers) {
            if let Some(roots) = state.registers.get_mut(register.0 as usize) {
                *roots = Roots::MEMORY;
            }
        }
        if let Some(place) = self.states.get_mut(id.0 as usize) {
            *place = state;
        }
    }

    /// All instructions of a function, once.
    pub(super) fn function(&mut self, id: FnId) {
        let Some((function, body)) = self.body(id) else {
            return;
        };
        for instruction in &body.instructions {
            let at = Step { id, function, body };
            let Some((mnemonic, form)) = self.of_table(instruction) else {
                continue;
            };
            let operands = body.operands(instruction);
            match mnemonic.opcode() {
                Opcode::Call => self.call(at, operands),
                Opcode::Ld | Opcode::Ldu => self.load(at, mnemonic, operands),
                Opcode::St => self.store(at, mnemonic, operands),
                Opcode::Atom | Opcode::Red => self.atomic(at, mnemonic, operands),
                _ => self.other(at, instruction, mnemonic, form),
            }
        }
    }

    fn set(&mut self, at: Step<'m>, register: RegId, roots: Roots) {
        let bits = at.bits(register);
        let state = self.states.get_mut(at.id.0 as usize);
        let place = state.and_then(|state| state.registers.get_mut(register.0 as usize));
        join(place, roots.cut(bits), &mut self.changed);
    }

    /// Roots of a symbol's address.
    fn symbol(&self, at: Step<'m>, symbol: Symbol) -> Roots {
        match symbol {
            Symbol::Variable(id) => {
                let variable = self.module.variables.get(id.0 as usize);
                match variable.map(|variable| variable.space) {
                    Some(space) if space.is_shared() || space == Space::Local => Roots::STACK,
                    _ if self.own.contains(&id) => Roots::TABLE,
                    _ => Roots::POINTER,
                }
            }
            Symbol::Local(id) => {
                let local = at.body.locals.get(id.0 as usize);
                match local.map(|local| local.space) {
                    Some(Space::Global | Space::Const) => Roots::POINTER,
                    _ => Roots::STACK,
                }
            }
            Symbol::Param(_) | Symbol::Result(_) => Roots::POINTER,
            Symbol::Function(_) => Roots::NONE,
        }
    }

    fn value(&self, at: Step<'m>, operand: &Operand) -> Roots {
        match *operand {
            Operand::Register(register) => self.register(at.id, register),
            Operand::Selected { register, .. } => self.register(at.id, register).cut(32),
            Operand::Address(symbol, _) => self.symbol(at, symbol),
            // The driver hands over the halves of an address in these; a rule of its own is about them.
            Operand::Special(SpecialRegister::Envreg(_)) => Roots::PIECE,
            Operand::Vector(first, len) | Operand::List(first, len) => {
                let parts = at.body.list(first, len).iter();
                parts.fold(Roots::NONE, |all, part| all.with(self.value(at, part)))
            }
            _ => Roots::NONE,
        }
    }

    /// What is in memory, as so many bytes: `element` is the place in a vector.
    fn memory(
        &self,
        at: Step<'m>,
        operand: &Operand,
        space: Space,
        bytes: u64,
        element: u64,
    ) -> Roots {
        let found = match *operand {
            Operand::MemorySymbol(Symbol::Param(index), offset) if at.function.entry => {
                return self.parameter(at, index, offset, bytes, element);
            }
            Operand::MemorySymbol(symbol, _) => self.contents(at, symbol),
            _ if space.is_shared() || space == Space::Local => self.stack,
            Operand::MemoryRegister(register, _) => {
                let roots = self.register(at.id, register);
                match (roots.is_stack(), roots.is_table()) {
                    (true, _) => self.stack,
                    (_, true) => self.tables(),
                    _ => Roots::MEMORY,
                }
            }
            _ => Roots::MEMORY,
        };
        match bytes < 8 {
            true => found.cut(32),
            false => found.joined(),
        }
    }

    fn contents(&self, at: Step<'m>, symbol: Symbol) -> Roots {
        let state = self.states.get(at.id.0 as usize);
        let of = |list: fn(&State) -> &[Roots], index: u32| {
            let found = state.and_then(|state| list(state).get(index as usize));
            found.copied().unwrap_or(Roots::MEMORY)
        };
        match symbol {
            Symbol::Param(index) => of(|state| &state.params, index),
            Symbol::Result(index) => of(|state| &state.results, index),
            Symbol::Local(id) => match at.body.locals.get(id.0 as usize).map(|local| local.space) {
                Some(space) if space.is_param() => of(|state| &state.locals, id.0),
                Some(Space::Global | Space::Const) => Roots::MEMORY,
                _ => self.stack,
            },
            Symbol::Variable(id) => match self.symbol(at, symbol) {
                Roots::STACK => self.stack,
                Roots::TABLE => self.table(id.0),
                _ => Roots::MEMORY,
            },
            Symbol::Function(_) => Roots::MEMORY,
        }
    }

    /// What a table of the code's own begins with: addresses where the linker puts some in.
    fn table(&self, index: u32) -> Roots {
        let variable = self.module.variables.get(index as usize);
        match variable.is_some_and(|variable| variable.relocations.is_empty()) {
            true => Roots::NONE,
            false => Roots::MEMORY,
        }
    }

    fn tables(&self) -> Roots {
        let own = self.own.iter().map(|id| self.table(id.0));
        own.fold(Roots::NONE, Roots::with)
    }

    fn parameter(&self, at: Step<'m>, index: u32, offset: i64, bytes: u64, element: u64) -> Roots {
        let begin = at.function.param_offsets.get(index as usize);
        let begin = begin.and_then(|begin| i64::from(*begin).checked_add(offset));
        let begin = begin.and_then(|begin| u64::try_from(begin).ok());
        let Some(begin) = begin.and_then(|begin| begin.checked_add(element * bytes)) else {
            return Roots::MEMORY.cut(if bytes >= 8 { 64 } else { 32 });
        };
        let words = (begin / 8)..(begin + bytes).div_ceil(8);
        let words = words.map(|word| u32::try_from(word * 8).unwrap_or(u32::MAX));
        let declared = at.function.params.get(index as usize);
        let declared = declared.is_some_and(|param| param.ptr.is_some());
        let found = words.fold(Roots::NONE, |all, word| {
            all.with(match word {
                _ if declared || self.words.pointers.contains(&word) => Roots::POINTER,
                _ if self.words.numbers.contains(&word) => Roots::NONE,
                // It may be either.
                _ => Roots::MEMORY,
            })
        });
        found.cut(if bytes >= 8 { 64 } else { 32 })
    }

    fn load(&mut self, at: Step<'m>, mnemonic: &Mnemonic, operands: &[Operand]) {
        let (Some(to), Some(from), Some(ty)) =
            (operands.first(), operands.get(1), mnemonic.types().last())
        else {
            return;
        };
        let space = mnemonic.space().unwrap_or(Space::Generic);
        for (element, register) in (0..).zip(at.registers(to)) {
            let roots = self.memory(at, from, space, ty.bytes(), element);
            self.set(at, register, roots);
        }
    }

    fn store(&mut self, at: Step<'m>, mnemonic: &Mnemonic, operands: &[Operand]) {
        let (Some(to), Some(from)) = (operands.first(), operands.get(1)) else {
            return;
        };
        let space = mnemonic.space().unwrap_or(Space::Generic);
        let roots = self.value(at, from);
        self.put(at, to, space, roots);
    }

    /// Something is stored.
    fn put(&mut self, at: Step<'m>, to: &Operand, space: Space, roots: Roots) {
        let index = at.id.0 as usize;
        let place = match *to {
            Operand::MemorySymbol(Symbol::Param(i), _) => {
                let state = self.states.get_mut(index);
                state.and_then(|state| state.params.get_mut(i as usize))
            }
            Operand::MemorySymbol(Symbol::Result(i), _) => {
                let state = self.states.get_mut(index);
                state.and_then(|state| state.results.get_mut(i as usize))
            }
            Operand::MemorySymbol(Symbol::Local(id), _) if at.is_param(id.0) => {
                let state = self.states.get_mut(index);
                state.and_then(|state| state.locals.get_mut(id.0 as usize))
            }
            Operand::MemorySymbol(symbol, _) => {
                let stack = self.symbol(at, symbol) == Roots::STACK;
                stack.then_some(&mut self.stack)
            }
            _ if space.is_shared() || space == Space::Local => Some(&mut self.stack),
            Operand::MemoryRegister(register, _) => {
                let roots = self.register(at.id, register);
                let mine = space == Space::Generic && !roots.is_none() && roots != Roots::POINTER;
                mine.then_some(&mut self.stack)
            }
            _ => None,
        };
        join(place, roots, &mut self.changed);
    }

    fn atomic(&mut self, at: Step<'m>, mnemonic: &Mnemonic, operands: &[Operand]) {
        let space = mnemonic.space().unwrap_or(Space::Generic);
        let bytes = mnemonic.types().last().map_or(8, |ty| ty.bytes());
        let memory = operands.iter().position(is_memory).unwrap_or(0);
        let (to, rest) = operands.split_at(memory);
        let Some((cell, values)) = rest.split_first() else {
            return;
        };
        for register in to.iter().flat_map(|operand| at.registers(operand)) {
            let roots = self.memory(at, cell, space, bytes, 0);
            self.set(at, register, roots);
        }
        let stored = values
            .iter()
            .fold(Roots::NONE, |all, v| all.with(self.value(at, v)));
        self.put(at, cell, space, stored);
    }

    fn call(&mut self, at: Step<'m>, operands: &[Operand]) {
        let [results, callee, arguments, ..] = *operands else {
            return;
        };
        let called = match callee {
            Operand::Address(Symbol::Function(id), _) => Some(id),
            _ => None,
        };
        let function = called.and_then(|id| self.module.functions.get(id.0 as usize));
        let known = called.filter(|_| function.is_some_and(|function| function.body.is_some()));
        let silent = function.is_some_and(|function| SILENT.contains(&&*function.name));
        for (index, argument) in at.list(&arguments).iter().enumerate() {
            let given = match *argument {
                Operand::Address(symbol @ Symbol::Local(_), _) => self.contents(at, symbol),
                ref other => self.value(at, other),
            };
            let Some(known) = known else { continue };
            let state = self.states.get_mut(known.0 as usize);
            let place = state.and_then(|state| state.params.get_mut(index));
            join(place, given, &mut self.changed);
        }
        for (index, result) in at.list(&results).iter().enumerate() {
            let given = known.and_then(|known| self.states.get(known.0 as usize));
            let given = given.and_then(|state| state.results.get(index)).copied();
            let given = given.unwrap_or(Roots::MEMORY);
            match *result {
                Operand::Address(Symbol::Local(id), _) => {
                    let state = self.states.get_mut(at.id.0 as usize);
                    let place = state.and_then(|state| state.locals.get_mut(id.0 as usize));
                    join(place, given, &mut self.changed);
                }
                Operand::Register(register) => self.set(at, register, Roots::MEMORY),
                _ => {}
            }
        }
        if known.is_none() && !silent {
            join(Some(&mut self.stack), Roots::MEMORY, &mut self.changed);
        }
    }

    /// Everything that is no access with a register of its own, and no call.
    fn other(&mut self, at: Step<'m>, instruction: &Instruction, mnemonic: &Mnemonic, form: &Form) {
        let operands = at.body.operands(instruction);
        let mut written = Vec::new();
        let mut read = Vec::new();
        let mut reads_memory = form.effects.reads;
        for (index, operand) in operands.iter().enumerate() {
            let spec = form.operands.get(index);
            let memory = spec.is_some_and(|spec| is_place(spec.kind));
            let writes =
                spec.is_some_and(|spec| matches!(spec.access, Access::Write | Access::ReadWrite));
            match (memory, writes) {
                (true, true) => {
                    // Asynchronous copies: what comes from memory lies in shared memory then.
                    let space = spec.and_then(|spec| place(spec.kind, mnemonic));
                    if matches!(
                        mnemonic.opcode(),
                        Opcode::Cp | Opcode::Multimem | Opcode::Stmatrix
                    ) && let Some(space) = space
                    {
                        self.put(at, operand, space, Roots::MEMORY.with(Roots::PIECE));
                    }
                }
                (true, false) => reads_memory = true,
                (false, true) => written.extend(at.registers(operand)),
                (false, false) => read.push(*operand),
            }
        }
        for register in written {
            let roots = match reads_memory && !NUMBERS.contains(&mnemonic.opcode()) {
                true => Roots::MEMORY,
                false => self.result(at, mnemonic, &read, at.bits(register)),
            };
            self.set(at, register, roots);
        }
    }

    /// Roots of a result of so many bits.
    fn result(&self, at: Step<'m>, mnemonic: &Mnemonic, read: &[Operand], bits: u32) -> Roots {
        let opcode = mnemonic.opcode();
        let floats = mnemonic.types().iter().any(|ty| ty.is_float());
        if NUMBERS.contains(&opcode) || (floats && !CARRY.contains(&opcode)) {
            return Roots::NONE;
        }
        let all = || {
            let values = read.iter().map(|operand| self.value(at, operand));
            values.fold(Roots::NONE, Roots::with)
        };
        match (opcode, read) {
            (Opcode::Mov, [Operand::Vector(first, len)]) => {
                self.packed(at, at.body.list(*first, *len), bits)
            }
            (Opcode::Cvta, _) => {
                let to = mnemonic.has(Word::To);
                let window = mnemonic.space();
                let window = window.is_some_and(|s| s.is_shared() || s == Space::Local);
                // Whatever goes in, it is in shared or local memory.
                match window && !to {
                    true => Roots::STACK,
                    false => all(),
                }
            }
            (Opcode::Mapa | Opcode::Alloca | Opcode::Stacksave, _) => Roots::STACK,
            (Opcode::Mad | Opcode::Mad24 | Opcode::Madc, [_, _, addend, ..]) => {
                self.value(at, addend)
            }
            (Opcode::Sub | Opcode::Subc | Opcode::Xor, [a, b]) if bits >= 64 => {
                let (a, b) = (self.value(at, a), self.value(at, b));
                let difference =
                    a.is_address() && b.is_address() && !a.is_memory() && !b.is_memory();
                match difference {
                    true => Roots::NONE,
                    false => a.with(b),
                }
            }
            (Opcode::And, [Operand::Number(mask), other] | [other, Operand::Number(mask)])
                if bits >= 64 =>
            {
                let found = self.value(at, other);
                match u64::BITS - mask.leading_zeros() {
                    bits if bits <= LOW_BITS => Roots::NONE,
                    bits if bits <= 32 => found.cut(32),
                    _ => found,
                }
            }
            (Opcode::Shl, [from, by]) if bits >= 64 => {
                let found = self.value(at, from);
                match by {
                    Operand::Number(..32) => found,
                    _ if found.is_none() => found,
                    // The upper half of something.
                    _ => Roots::MEMORY,
                }
            }
            (Opcode::Shr, [from, Operand::Number(16..)]) => self.value(at, from).cut(32),
            (Opcode::Shr | Opcode::Shl, [from, _]) => self.value(at, from),
            (Opcode::Bfe, [from, ..]) => self.value(at, from).cut(32),
            (Opcode::Bfi, [field, into, Operand::Number(begin), _]) => {
                let (field, into) = (self.value(at, field), self.value(at, into));
                // An upper half put into the word of the lower one.
                match *begin >= 32 && !field.is_none() {
                    true => field.with(into).joined(),
                    false => field.with(into),
                }
            }
            (Opcode::Cvt, [from, ..]) => {
                let found = self.value(at, from);
                let least = mnemonic
                    .types()
                    .iter()
                    .map(|ty| ScalarType::bits(*ty))
                    .min();
                found.cut(least.unwrap_or(64))
            }
            (Opcode::Selp | Opcode::Slct, [a, b, _]) => self.value(at, a).with(self.value(at, b)),
            (Opcode::Shfl, [from, ..]) => self.value(at, from),
            _ => all(),
        }
    }

    /// Parts that are put together, the lowest first.
    fn packed(&self, at: Step<'m>, parts: &[Operand], bits: u32) -> Roots {
        let whole = parts
            .iter()
            .fold(Roots::NONE, |all, part| all.with(self.value(at, part)));
        let upper = parts
            .last()
            .map_or(Roots::NONE, |part| self.value(at, part));
        match bits >= 64 && !upper.is_none() && !upper.is_address() {
            true => whole.with(Roots::MEMORY),
            false => whole,
        }
    }
}

/// Where an instruction stands.
#[derive(Clone, Copy)]
struct Step<'m> {
    id: FnId,
    function: &'m Function,
    body: &'m Body,
}

impl<'m> Step<'m> {
    fn bits(self, register: RegId) -> u32 {
        let register = self.body.registers.get(register.0 as usize);
        register.map_or(64, |register| register.ty.bits())
    }

    fn is_param(self, local: u32) -> bool {
        let local = self.body.locals.get(local as usize);
        local.is_some_and(|local| local.space.is_param())
    }

    fn list(self, operand: &Operand) -> &'m [Operand] {
        match *operand {
            Operand::List(first, len) | Operand::Vector(first, len) => self.body.list(first, len),
            _ => &[],
        }
    }

    /// Registers of an operand.
    fn registers(self, operand: &Operand) -> Vec<RegId> {
        match *operand {
            Operand::Register(register) | Operand::Selected { register, .. } => vec![register],
            Operand::Vector(first, len) | Operand::List(first, len) => {
                let parts = self.body.list(first, len).iter();
                parts.flat_map(|part| self.registers(part)).collect()
            }
            Operand::Pair(first) => {
                let parts = self.body.list(first, 2).iter();
                parts.flat_map(|part| self.registers(part)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn join(place: Option<&mut Roots>, roots: Roots, changed: &mut bool) {
    if let Some(place) = place {
        let now = place.with(roots);
        *changed |= now != *place;
        *place = now;
    }
}

fn is_memory(operand: &Operand) -> bool {
    matches!(
        operand,
        Operand::MemoryRegister(..) | Operand::MemorySymbol(..) | Operand::MemoryAbsolute(_)
    )
}

fn is_place(kind: OperandKind) -> bool {
    use OperandKind as K;
    matches!(
        kind,
        K::Memory(_) | K::TensorMap | K::Texture | K::Surface | K::Handle
    )
}
