//! Operands as slots.

use super::registers::Storage;
use super::{Decoder, Unsupported};
use crate::block::special::{self, Dynamic};
use crate::exec::{Base, Flow, Lane, Map1, Op, Slot};
use crate::launch::Class;
use crate::memory::window;
use crate::program::FUNCTION_BASE;
use r3_ptx::isa::{Space, SpecialRegister};
use r3_ptx::typed::{Operand, Symbol};

/// The slot that takes values nobody reads.
const SINK: Slot = Slot::new(Base::Warp, 0);

/// An address operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Slot of the base: 64 bits a lane, or 32.
    pub base: Slot,
    /// The base has 64 bits.
    pub wide: bool,
    /// Added to it, wrapping. For a base of 32 bits: the lower half is, and the upper half is that of the address.
    pub offset: i64,
    /// The space that it is in: [`Space::ParamEntry`] for the kernel's parameters, [`Space::Local`] for the `.param`s of
    /// functions and calls, [`Space::Generic`], …
    pub space: Space,
    /// The base is the same number in all lanes: an address without a register.
    pub uniform: bool,
}

impl Decoder<'_> {
    /// How many operands the instruction has.
    pub fn operand_count(&self) -> usize {
        self.body.operands(self.instruction).len()
    }

    /// An operand of the instruction.
    pub fn operand(&self, index: usize) -> Result<Operand, Unsupported> {
        self.body
            .operands(self.instruction)
            .get(index)
            .copied()
            .ok_or_else(|| Unsupported::new(format!("form without operand {index}")))
    }

    /// Elements of a vector, list, pair or list in brackets; the operand itself where it is none of these.
    pub fn elements(&self, operand: Operand) -> Vec<Operand> {
        match operand {
            Operand::Vector(first, len)
            | Operand::List(first, len)
            | Operand::MemoryList(first, len) => self.body.list(first, len).to_vec(),
            Operand::Pair(first) => self.body.list(first, 2).to_vec(),
            Operand::Special(s) if s.vector() == 4 => special::elements(s).to_vec(),
            other => vec![other],
        }
    }

    /// Storage of a register operand: its width in bytes; `None` for predicates and what is no register.
    pub fn width(&self, operand: Operand) -> Option<u32> {
        let register = match operand {
            Operand::Register(register) | Operand::Selected { register, .. } => register,
            _ => return None,
        };
        match self.registers.get(register)? {
            (_, Storage::Bytes(width)) => Some(width),
            (_, Storage::Predicate) => None,
        }
    }

    /// Slot of source operand `index`, as 32 lanes of `T`.
    pub fn src<T: Lane>(&mut self, index: usize) -> Result<Slot, Unsupported> {
        let operand = self.operand(index)?;
        self.src_of::<T>(operand)
    }

    /// Slot of a source operand, as 32 lanes of `T`.
    pub fn src_of<T: Lane>(&mut self, operand: Operand) -> Result<Slot, Unsupported> {
        let want = size_of::<T>() as u32;
        let (slot, have) = match operand {
            Operand::Register(register) | Operand::Selected { register, .. } => {
                match self.registers.get(register) {
                    Some((slot, Storage::Bytes(width))) => (slot, width),
                    _ => return Err(Unsupported::new("predicate as a number")),
                }
            }
            Operand::Number(bits) => return Ok(self.number(bits, want)),
            Operand::Special(register) => self.special(register)?,
            Operand::Address(symbol, offset) => self.symbol(symbol, offset)?,
            _ => return Err(Unsupported::new("operand of this kind")),
        };
        if have == want {
            return Ok(slot);
        }
        let to = self.registers.temporary(want);
        let op = self.resize(slot, have, false, to, want);
        self.before(op);
        Ok(to)
    }

    /// A slot with a number in each lane, `width` bytes wide.
    pub fn number(&mut self, bits: u64, width: u32) -> Slot {
        self.constants.slot(u128::from(bits), width)
    }

    /// Slot of destination operand `index`, as 32 lanes of `T`.
    pub fn dst<T: Lane>(&mut self, index: usize) -> Result<Slot, Unsupported> {
        let operand = self.operand(index)?;
        self.dst_of::<T>(operand)
    }

    /// Slot of a destination operand, as 32 lanes of `T`.
    pub fn dst_of<T: Lane>(&mut self, operand: Operand) -> Result<Slot, Unsupported> {
        let have = size_of::<T>() as u32;
        let register = match operand {
            Operand::Register(register) | Operand::Selected { register, .. } => register,
            Operand::Sink => return Ok(SINK),
            _ => return Err(Unsupported::new("destination of this kind")),
        };
        match self.registers.get(register) {
            Some((slot, Storage::Bytes(want))) if want == have => Ok(slot),
            Some((slot, Storage::Bytes(want))) => {
                let from = self.registers.temporary(have);
                let op = self.resize(from, have, T::SIGNED, slot, want);
                self.after(op);
                Ok(from)
            }
            _ => Err(Unsupported::new("predicate as destination of a number")),
        }
    }

    /// Bits of predicate operand `index`: a register, `!` of one, or a constant.
    pub fn predicate(&mut self, index: usize) -> Result<Slot, Unsupported> {
        let operand = self.operand(index)?;
        self.predicate_of(operand)
    }

    /// Bits of a predicate operand.
    pub fn predicate_of(&mut self, operand: Operand) -> Result<Slot, Unsupported> {
        let find = |d: &Self, register| match d.registers.get(register) {
            Some((slot, Storage::Predicate)) => Ok(slot),
            _ => Err(Unsupported::new("number as a predicate")),
        };
        match operand {
            Operand::Register(register) => find(self, register),
            Operand::NotRegister(register) => {
                let from = find(self, register)?;
                let to = self.temporary_predicate();
                let mut op = self.whole(Class::Other, |warp, op, mask| {
                    let value = !warp.predicate(op.a);
                    warp.set_predicate(op.d, mask, value);
                    Flow::Next
                });
                (op.a, op.d) = (from, to);
                self.before(op);
                Ok(to)
            }
            Operand::Number(0) => Ok(Slot::FALSE),
            Operand::Number(_) => Ok(Slot::TRUE),
            Operand::Special(SpecialRegister::IsExplicitCluster) => Ok(special::EXPLICIT_CLUSTER),
            _ => Err(Unsupported::new("predicate of this kind")),
        }
    }

    /// Predicate that operand `index` is, to be written.
    pub fn dst_predicate(&mut self, index: usize) -> Result<Slot, Unsupported> {
        let operand = self.operand(index)?;
        self.dst_predicate_of(operand)
    }

    /// Predicate that an operand is, to be written.
    pub fn dst_predicate_of(&mut self, operand: Operand) -> Result<Slot, Unsupported> {
        match operand {
            Operand::Register(register) => match self.registers.get(register) {
                Some((slot, Storage::Predicate)) => Ok(slot),
                _ => Err(Unsupported::new("number as destination of a predicate")),
            },
            Operand::Sink => Ok(SINK),
            _ => Err(Unsupported::new("destination of this kind")),
        }
    }

    /// Whether an operand is a predicate register.
    pub fn is_predicate(&self, operand: Operand) -> bool {
        match operand {
            Operand::Register(register) => {
                matches!(self.registers.get(register), Some((_, Storage::Predicate)))
            }
            Operand::NotRegister(_) => true,
            _ => false,
        }
    }

    /// Address operand `index`, in the space that the mnemonic names.
    pub fn address(&mut self, index: usize, space: Option<Space>) -> Result<Address, Unsupported> {
        let operand = self.operand(index)?;
        self.address_of(operand, space)
    }

    /// An address operand, in the space that the mnemonic names.
    pub fn address_of(
        &mut self,
        operand: Operand,
        space: Option<Space>,
    ) -> Result<Address, Unsupported> {
        let space = match space {
            Some(Space::Param | Space::ParamFunc) if !self.function().entry => Space::Local,
            Some(Space::Param) => Space::ParamEntry,
            Some(Space::ParamFunc) => Space::Local,
            Some(Space::SharedCta) => Space::Shared,
            Some(space) => space,
            None => Space::Generic,
        };
        match operand {
            Operand::MemoryRegister(register, offset) => match self.registers.get(register) {
                Some((base, Storage::Bytes(width @ (4 | 8)))) => Ok(Address {
                    base,
                    wide: width == 8,
                    offset: self.offset(offset, width == 8, space),
                    space,
                    uniform: false,
                }),
                _ => Err(Unsupported::new(
                    "address in a register that is not 32 or 64 bits wide",
                )),
            },
            Operand::Register(_) => self.address_of_value(operand, space),
            Operand::MemorySymbol(symbol, offset) | Operand::Address(symbol, offset) => {
                let (base, _) = self.symbol(symbol, 0)?;
                let own = self.space_of(symbol);
                let space = match (own, space) {
                    (Space::Shared, Space::SharedCluster) => Space::SharedCluster,
                    _ => own,
                };
                Ok(Address {
                    base,
                    wide: true,
                    offset,
                    space,
                    uniform: true,
                })
            }
            Operand::MemoryAbsolute(address) => Ok(Address {
                base: self.number(address, 8),
                wide: true,
                offset: 0,
                space,
                uniform: true,
            }),
            _ => Err(Unsupported::new("address of this kind")),
        }
    }

    fn address_of_value(&mut self, operand: Operand, space: Space) -> Result<Address, Unsupported> {
        let wide = self.width(operand) == Some(8);
        let base = if wide {
            self.src_of::<u64>(operand)?
        } else {
            self.src_of::<u32>(operand)?
        };
        Ok(Address {
            base,
            wide,
            offset: self.offset(0, wide, space),
            space,
            uniform: false,
        })
    }

    /// What is added to a base. That of a base of 32 bits has the upper half of the address in its own.
    fn offset(&self, offset: i64, wide: bool, space: Space) -> i64 {
        match (wide, space) {
            (true, _) => offset,
            (false, Space::Const) => {
                (u64::from(offset as u32) | self.linked.constant_bank()) as i64
            }
            (false, _) => i64::from(offset as u32),
        }
    }

    /// The space that a symbol's address is in, as it is here.
    pub fn space_of(&self, symbol: Symbol) -> Space {
        match symbol {
            Symbol::Variable(id) => match self.linked.variable(self.function, id) {
                Some(v) if v.variable.space == Space::Shared => Space::Shared,
                Some(v) if v.variable.space == Space::Const => Space::Const,
                _ => Space::Global,
            },
            Symbol::Local(id) => match self.body.locals.get(id.0 as usize).map(|v| v.space) {
                Some(Space::Shared | Space::SharedCta) => Space::Shared,
                Some(space @ (Space::Global | Space::Const)) => space,
                _ => Space::Local,
            },
            Symbol::Param(_) if self.function().entry => Space::ParamEntry,
            Symbol::Param(_) | Symbol::Result(_) => Space::Local,
            Symbol::Function(_) => Space::Generic,
        }
    }

    /// The generic address of a symbol, as a 64-bit slot.
    pub fn generic_address(&mut self, symbol: Symbol, offset: i64) -> Result<Slot, Unsupported> {
        let base = match self.space_of(symbol) {
            Space::Shared => window::SHARED_BASE,
            Space::Local => window::LOCAL_BASE,
            Space::ParamEntry => window::PARAM_BASE,
            _ => 0,
        };
        Ok(self.symbol(symbol, offset.wrapping_add(base as i64))?.0)
    }

    /// Value of a symbol in its own space, as a 64-bit slot.
    fn symbol(&mut self, symbol: Symbol, offset: i64) -> Result<(Slot, u32), Unsupported> {
        let at = match symbol {
            Symbol::Variable(id) => self.image.address(self.linked, self.function, id),
            Symbol::Local(id) => match self.space_of(symbol) {
                Space::Local => {
                    let at = self.places.locals.get(id.0 as usize).copied();
                    return Ok((self.local(at, offset)?, 8));
                }
                _ => self.image.local_address(self.linked, self.function, id),
            },
            Symbol::Param(index) if self.function().entry => {
                let offsets = &self.function().param_offsets;
                offsets.get(index as usize).map(|&o| u64::from(o))
            }
            Symbol::Param(index) => {
                let at = self.places.params.get(index as usize).copied();
                return Ok((self.local(at, offset)?, 8));
            }
            Symbol::Result(index) => {
                let at = self.places.results.get(index as usize).copied();
                return Ok((self.local(at, offset)?, 8));
            }
            Symbol::Function(id) => self
                .linked
                .function_id(self.function, id)
                .map(|id| FUNCTION_BASE + 16 * u64::from(id)),
        };
        let at = at.ok_or_else(|| Unsupported::new("address of this symbol"))?;
        Ok((self.number(at.wrapping_add(offset as u64), 8), 8))
    }

    /// Offset and size of a variable that is in the local memory of the call.
    pub(crate) fn place_in_local(&self, symbol: Symbol) -> Option<(u32, u32)> {
        let function = self.function();
        let (at, variable) = match symbol {
            Symbol::Local(id) => (
                self.places.locals.get(id.0 as usize),
                self.body.locals.get(id.0 as usize),
            ),
            Symbol::Param(i) => (
                self.places.params.get(i as usize),
                function.params.get(i as usize),
            ),
            Symbol::Result(i) => (
                self.places.results.get(i as usize),
                function.results.get(i as usize),
            ),
            _ => (None, None),
        };
        Some((*at?, variable?.size as u32))
    }

    /// An offset in the local memory of the call. A kernel's begins at 0, a function's where its caller's ends.
    fn local(&mut self, at: Option<u32>, offset: i64) -> Result<Slot, Unsupported> {
        let at = at.ok_or_else(|| Unsupported::new("address of this symbol"))?;
        let offset = i64::from(at).wrapping_add(offset) as u64;
        let number = self.number(offset, 8);
        if self.function().entry {
            return Ok(number);
        }
        let to = self.temporary::<u64>();
        let mut op = self.whole(Class::Other, |warp, op, mask| {
            warp.map2(op, mask, |a: u64, b: u64| a.wrapping_add(b))
        });
        (op.a, op.b, op.d) = (LOCAL_START, number, to);
        self.before(op);
        Ok(to)
    }

    /// A special register: slot and width.
    fn special(&mut self, register: SpecialRegister) -> Result<(Slot, u32), Unsupported> {
        if let Some(fixed) = special::fixed(register) {
            return Ok(fixed);
        }
        let Some(dynamic) = Dynamic::of(register) else {
            return Err(Unsupported::new(format!("special register {register}")));
        };
        let to = self.temporary::<u64>();
        let mut op = self.whole(Class::Other, |warp, op, mask| {
            let value = warp.dynamic(op.imm);
            warp.put(op.d, mask, &[value; 32]);
            Flow::Next
        });
        (op.d, op.imm) = (to, dynamic as u64);
        self.before(op);
        Ok((to, 8))
    }

    /// An op that converts between widths.
    fn resize(&self, from: Slot, have: u32, signed: bool, to: Slot, want: u32) -> Op {
        macro_rules! op {
            ($a:ty, $d:ty) => {{
                fn same<F: Fn($a) -> $d + Copy + 'static>(d: &Decoder<'_>, _: F) -> Op {
                    d.op::<Map1<F, $a, $d>>(Class::Other)
                }
                same(self, |a: $a| a as $d)
            }};
        }
        let mut op = match (have, signed, want) {
            (2, false, 4) => op!(u16, u32),
            (2, true, 4) => op!(i16, u32),
            (2, false, 8) => op!(u16, u64),
            (2, true, 8) => op!(i16, u64),
            (2, false, _) => op!(u16, u128),
            (2, true, _) => op!(i16, u128),
            (4, _, 2) => op!(u32, u16),
            (4, false, 8) => op!(u32, u64),
            (4, true, 8) => op!(i32, u64),
            (4, false, _) => op!(u32, u128),
            (4, true, _) => op!(i32, u128),
            (8, _, 2) => op!(u64, u16),
            (8, _, 4) => op!(u64, u32),
            (8, false, _) => op!(u64, u128),
            (8, true, _) => op!(i64, u128),
            (_, _, 2) => op!(u128, u16),
            (_, _, 4) => op!(u128, u32),
            _ => op!(u128, u64),
        };
        (op.a, op.d) = (from, to);
        op
    }
}

/// In the frame of a function that is no kernel: where its local memory begins, in 64 bits a lane.
pub(crate) const LOCAL_START: Slot = Slot::new(Base::Frame, 0);
