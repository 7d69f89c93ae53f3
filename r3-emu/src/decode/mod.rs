//! From a checked function to [`Code`]: ops, constants, and the layout of its registers.

mod build;
mod code;
mod constants;
mod operands;
mod registers;

pub(crate) use build::decode;
pub(crate) use code::{Code, Formal, Place};
pub(crate) use operands::{Address, LOCAL_START};

use crate::exec::{Base, Body, Level, Map1, Map2, Map3, Op, Slot, Whole};
use crate::exec::{Flow, Lane};
use crate::launch::Class;
use crate::program::{Image, Linked};
use constants::Constants;
use r3_ptx::typed;
use registers::Registers;
use std::any::Any;

/// Why an instruction cannot run here: what exactly is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported(pub String);

impl Unsupported {
    /// With a reason.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// Decodes one function; families see the current instruction through it.
pub(crate) struct Decoder<'a> {
    /// All that is linked.
    pub(crate) linked: &'a Linked,
    /// The kernel for which the function is decoded.
    pub(crate) image: &'a Image,
    /// The function.
    pub(crate) function: u32,
    /// Its body.
    pub(crate) body: &'a typed::Body,
    instruction: &'a typed::Instruction,
    index: u32,
    level: Level,
    registers: Registers,
    places: code::Places,
    constants: Constants,
    /// Ops in front of the current instruction's own, and behind it.
    before: Vec<Op>,
    after: Vec<Op>,
    lists: Vec<Slot>,
    data: Vec<Box<dyn Any + Send + Sync>>,
}

impl<'a> Decoder<'a> {
    /// The linked function.
    pub fn function(&self) -> &'a typed::Function {
        self.linked.function(self.function)
    }

    /// An op of the current instruction, without operands.
    pub fn op<B: Body>(&self, class: Class) -> Op {
        Op {
            run: self.level.handler::<B>(),
            guard: Slot::TRUE,
            guard_flip: 0,
            d: Slot::new(Base::Warp, 0),
            e: Slot::new(Base::Warp, 0),
            a: Slot::TRUE,
            b: Slot::TRUE,
            c: Slot::TRUE,
            f: Slot::TRUE,
            imm: 0,
            list: 0,
            data: 0,
            n: 0,
            class,
            weight: 1,
            instruction: self.index,
        }
    }

    /// An op whose handler is a closure that captures nothing.
    pub fn whole<F>(&self, class: Class, _: F) -> Op
    where
        F: Fn(&mut crate::block::Warp, &Op, u32) -> Flow + Copy + 'static,
    {
        self.op::<Whole<F>>(class)
    }

    /// `operand 0 = f(operand 1)`, lane by lane.
    pub fn map1<A: Lane, D: Lane, F>(&mut self, class: Class, _: F) -> Result<Op, Unsupported>
    where
        F: Fn(A) -> D + Copy + 'static,
    {
        let mut op = self.op::<Map1<F, A, D>>(class);
        op.a = self.src::<A>(1)?;
        op.d = self.dst::<D>(0)?;
        Ok(op)
    }

    /// `operand 0 = f(operand 1, operand 2)`, lane by lane.
    pub fn map2<A: Lane, B: Lane, D: Lane, F>(
        &mut self,
        class: Class,
        _: F,
    ) -> Result<Op, Unsupported>
    where
        F: Fn(A, B) -> D + Copy + 'static,
    {
        let mut op = self.op::<Map2<F, A, B, D>>(class);
        op.a = self.src::<A>(1)?;
        op.b = self.src::<B>(2)?;
        op.d = self.dst::<D>(0)?;
        Ok(op)
    }

    /// `operand 0 = f(operand 1, operand 2, operand 3)`, lane by lane.
    pub fn map3<A: Lane, B: Lane, C: Lane, D: Lane, F>(
        &mut self,
        class: Class,
        _: F,
    ) -> Result<Op, Unsupported>
    where
        F: Fn(A, B, C) -> D + Copy + 'static,
    {
        let mut op = self.op::<Map3<F, A, B, C, D>>(class);
        op.a = self.src::<A>(1)?;
        op.b = self.src::<B>(2)?;
        op.c = self.src::<C>(3)?;
        op.d = self.dst::<D>(0)?;
        Ok(op)
    }

    /// Puts slots where an op finds them: its `list` and `n`.
    pub fn list(&mut self, op: &mut Op, slots: &[Slot]) {
        op.list = self.lists.len() as u32;
        op.n = slots.len() as u16;
        self.lists.extend_from_slice(slots);
    }

    /// Keeps a record for an op: its `data`.
    pub fn record<T: Any + Send + Sync>(&mut self, op: &mut Op, record: T) {
        op.data = self.data.len() as u32;
        self.data.push(Box::new(record));
    }

    /// Adds an op in front of the instruction's own. It does not count and has no guard: it may write only
    /// [temporaries](Self::temporary).
    pub fn before(&mut self, mut op: Op) {
        op.weight = 0;
        self.before.push(op);
    }

    /// Adds an op behind the instruction's own, under the same guard. It does not count.
    pub fn after(&mut self, mut op: Op) {
        op.weight = 0;
        self.after.push(op);
    }

    /// As [`Self::after`], in front of the last op that was added behind when that one takes what `op` writes to a wider register.
    pub fn after_first(&mut self, mut op: Op) {
        op.weight = 0;
        let at = self.after.iter().position(|next| next.a == op.d);
        self.after.insert(at.unwrap_or(self.after.len()), op);
    }

    /// A slot for 32 values of `T` that belongs to the current instruction.
    pub fn temporary<T: Lane>(&mut self) -> Slot {
        self.registers.temporary(size_of::<T>() as u32)
    }

    /// A predicate that belongs to the current instruction.
    pub fn temporary_predicate(&mut self) -> Slot {
        self.registers.temporary_predicate()
    }
}
