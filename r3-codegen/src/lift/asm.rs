//! Inline assembly: what any instruction can become.
//!
//! The instruction's own text stands in it, with `$n` for registers and addresses. Names of textures, samplers and surfaces
//! stay names. Constraints follow the classes of registers: `b` predicates, `h` 16 bits, `r` 32, `l` 64, `q` 128, `f` and
//! `d` floats. LLVM knows no class of 8 bits: such registers are declared inside.
//!
//! What an instruction does besides writing its destinations is told to LLVM: nothing (it may be merged, moved, dropped),
//! reading memory, or more. Those that depend on which threads execute them together are `convergent`.

use std::fmt::Write;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum};
use r3_ptx::isa::{
    Access, Effects, Form, Forms, Mnemonic, Numbers, Opcode, OperandKind, OperandSpec, Order,
    Presence, ScalarType, SpecialRegister, TypeKind, Word,
};
use r3_ptx::typed::{Operand, RegId, Symbol};

use super::function::Lifter;
use super::globals::effects;
use super::ssa::access;
use crate::error::LiftError;

/// A piece of assembly that is being put together.
pub(super) struct Assembly<'ctx> {
    /// The text.
    pub text: String,
    before: String,
    after: String,
    outputs: Vec<Output<'ctx>>,
    inputs: Vec<BasicMetadataValueEnum<'ctx>>,
    input_types: Vec<BasicMetadataTypeEnum<'ctx>>,
    constraints: String,
    /// Inputs that must be in the register of an output: output, value.
    tied: Vec<(usize, BasicValueEnum<'ctx>)>,
    /// How many outputs there will be: inputs are numbered after them.
    expected: usize,
    early: bool,
}

struct Output<'ctx> {
    register: RegId,
    ty: BasicTypeEnum<'ctx>,
    class: char,
}

/// What LLVM may think of a piece of assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// It computes.
    Pure,
    /// It reads memory.
    Reads,
    /// It does something, but not to memory that others see.
    Acts,
    /// It may do anything to memory.
    Memory,
}

/// Class and type of values in assembly: registers of 8 bits travel as 16.
fn class<'ctx>(lifter: &Lifter<'ctx, '_>, ty: ScalarType) -> (char, BasicTypeEnum<'ctx>) {
    let types = &lifter.globals.types;
    match ty {
        ScalarType::Pred => ('b', types.i1.into()),
        ScalarType::F32 => ('f', types.float.into()),
        ScalarType::F64 => ('d', types.double.into()),
        _ => match ty.bits() {
            ..=16 => ('h', types.i16.into()),
            17..=32 => ('r', types.i32.into()),
            33..=64 => ('l', types.i64.into()),
            _ => ('q', types.i128.into()),
        },
    }
}

impl<'ctx> Assembly<'ctx> {
    pub fn new(expected: usize, early: bool) -> Self {
        Self {
            text: String::with_capacity(96),
            before: String::new(),
            after: String::new(),
            outputs: Vec::with_capacity(expected),
            inputs: Vec::new(),
            input_types: Vec::new(),
            constraints: String::new(),
            tied: Vec::new(),
            expected,
            early,
        }
    }

    fn register_type(lifter: &Lifter<'ctx, '_>, register: RegId) -> ScalarType {
        let register = lifter.body.registers.get(register.0 as usize);
        register.map_or(ScalarType::B32, |register| register.ty)
    }

    /// A destination register; returns nothing, writes its `$n`.
    pub fn output(&mut self, lifter: &Lifter<'ctx, '_>, register: RegId) {
        let ty = Self::register_type(lifter, register);
        let (class, llvm) = class(lifter, ty);
        let n = self.outputs.len();
        self.outputs.push(Output {
            register,
            ty: llvm,
            class,
        });
        if ty.bits() == 8 {
            _ = write!(self.before, ".reg .b8 o{n}; ");
            _ = write!(self.after, " cvt.u16.u8 ${n}, o{n};");
            _ = write!(self.text, "o{n}");
        } else {
            _ = write!(self.text, "${n}");
        }
    }

    /// A value, in a class. Returns its number.
    pub fn input_value(&mut self, class: char, value: BasicValueEnum<'ctx>) -> usize {
        let n = self.expected + self.inputs.len();
        if !self.constraints.is_empty() {
            self.constraints.push(',');
        }
        self.constraints.push(class);
        self.inputs.push(value.into());
        self.input_types.push(value.get_type().into());
        n
    }

    /// A value of a type of PTX; writes its `$n`.
    pub fn input(
        &mut self,
        lifter: &mut Lifter<'ctx, '_>,
        value: BasicValueEnum<'ctx>,
        ty: ScalarType,
    ) -> Result<(), LiftError> {
        let (class, llvm) = class(lifter, ty);
        let value = lifter.cast(value, llvm, false)?;
        let n = self.input_value(class, value);
        if ty.bits() == 8 {
            _ = write!(self.before, ".reg .b8 i{n}; cvt.u8.u16 i{n}, ${n}; ");
            _ = write!(self.text, "i{n}");
        } else {
            _ = write!(self.text, "${n}");
        }
        Ok(())
    }

    /// A source register; writes its `$n`.
    pub fn input_register(
        &mut self,
        lifter: &mut Lifter<'ctx, '_>,
        register: RegId,
    ) -> Result<(), LiftError> {
        let ty = Self::register_type(lifter, register);
        let value = lifter.value(&Operand::Register(register), ty)?;
        self.input(lifter, value, ty)
    }

    /// A register that is taken and given back.
    pub fn through(
        &mut self,
        lifter: &mut Lifter<'ctx, '_>,
        register: RegId,
    ) -> Result<(), LiftError> {
        let n = self.outputs.len();
        self.output(lifter, register);
        let ty = Self::register_type(lifter, register);
        let (_, llvm) = class(lifter, ty);
        let value = lifter.register(register)?;
        let value = lifter.cast(value, llvm, false)?;
        self.tied.push((n, value));
        Ok(())
    }

    /// Builds the call and writes the outputs.
    pub fn finish(
        mut self,
        lifter: &mut Lifter<'ctx, '_>,
        weight: Weight,
        convergent: bool,
    ) -> Result<(), LiftError> {
        let mut constraints = String::with_capacity(self.constraints.len() + 16);
        for output in &self.outputs {
            if !constraints.is_empty() {
                constraints.push(',');
            }
            constraints.push_str(if self.early { "=&" } else { "=" });
            constraints.push(output.class);
        }
        if !self.constraints.is_empty() {
            if !constraints.is_empty() {
                constraints.push(',');
            }
            constraints.push_str(&self.constraints);
        }
        for (output, value) in std::mem::take(&mut self.tied) {
            _ = write!(constraints, ",{output}");
            self.inputs.push(value.into());
            self.input_types.push(value.get_type().into());
        }
        // Without a clobber LLVM takes assembly for free of accesses, whatever its attributes say.
        if matches!(weight, Weight::Memory | Weight::Reads) {
            if !constraints.is_empty() {
                constraints.push(',');
            }
            constraints.push_str("~{memory}");
        }
        let ty = match self.outputs.as_slice() {
            [] => lifter.context.void_type().fn_type(&self.input_types, false),
            [only] => only.ty.fn_type(&self.input_types, false),
            list => {
                let list: Vec<_> = list.iter().map(|output| output.ty).collect();
                let list = lifter.context.struct_type(&list, false);
                list.fn_type(&self.input_types, false)
            }
        };
        let text = match (self.before.is_empty(), self.after.is_empty()) {
            (true, true) => self.text,
            _ => format!("{{ {}{}{} }}", self.before, self.text, self.after),
        };
        let acts = matches!(weight, Weight::Acts | Weight::Memory);
        let asm = lifter
            .context
            .create_inline_asm(ty, text, constraints, acts, false, None, false);
        let inputs = &self.inputs;
        let call = lifter.build(|b| b.build_indirect_call(ty, asm, inputs, ""))?;
        let attributes = &lifter.globals.attributes;
        let add = |attribute: Attribute| call.add_attribute(AttributeLoc::Function, attribute);
        add(attributes.nounwind);
        if convergent {
            add(attributes.convergent);
        }
        match weight {
            Weight::Pure => {
                add(attributes.no_memory);
                add(attributes.willreturn);
            }
            Weight::Reads => {
                add(attributes.reads_memory);
                add(attributes.willreturn);
            }
            Weight::Acts | Weight::Memory => {}
        }
        let result = call.try_as_basic_value().basic();
        match (self.outputs.as_slice(), result) {
            ([], _) => Ok(()),
            ([only], Some(value)) => write_output(lifter, only, value),
            (list, Some(BasicValueEnum::StructValue(value))) => {
                for (i, output) in list.iter().enumerate() {
                    let part = lifter.build(|b| b.build_extract_value(value, i as u32, ""))?;
                    write_output(lifter, output, part)?;
                }
                Ok(())
            }
            _ => Err(lifter.inexpressible("assembly without its results".into())),
        }
    }
}

fn write_output<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    output: &Output<'ctx>,
    value: BasicValueEnum<'ctx>,
) -> Result<(), LiftError> {
    let wanted = lifter.register_type(output.register);
    let value = lifter.cast(value, wanted, false)?;
    lifter.set_register(output.register, value)
}

/// An instruction as its own text.
pub(crate) fn instruction<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    operands: &[Operand],
) -> Result<(), LiftError> {
    let form = Forms::table().get(lifter.instruction.form);
    let Some(form) = form else {
        return Err(lifter.inexpressible("an instruction without a form".into()));
    };
    let specs = align(lifter, form, mnemonic, operands);
    let mut expected = 0;
    for (spec, operand) in specs.iter().zip(operands) {
        if writes(spec, operand) {
            expected += count(lifter, operand);
        }
    }
    let mut assembly = Assembly::new(expected, false);
    assembly.text.push_str(mnemonic.text());
    for (i, (spec, operand)) in specs.iter().zip(operands).enumerate() {
        assembly.text.push_str(if i == 0 { " " } else { ", " });
        let mut writer = Writer {
            assembly: &mut assembly,
            lifter,
            mnemonic,
            spec,
        };
        writer.operand(operand)?;
    }
    assembly.text.push(';');
    let effects = effects(lifter.instruction.form);
    let special = operands.iter().map(|operand| match operand {
        Operand::Special(register) => weight_of_special(*register),
        _ => Weight::Pure,
    });
    let weight = special.fold(weight(mnemonic, effects, expected), Weight::max);
    assembly.finish(lifter, weight, effects.convergent)
}

/// What LLVM may think of an instruction.
fn weight(mnemonic: &Mnemonic, effects: Effects, outputs: usize) -> Weight {
    let ordered = matches!(
        mnemonic.order(),
        Some(
            Order::Volatile
                | Order::Mmio
                | Order::Relaxed
                | Order::Acquire
                | Order::Release
                | Order::AcqRel
                | Order::SeqCst
        )
    );
    let ordered = ordered || effects.convergent;
    if effects.writes || effects.sync || (effects.reads && ordered) {
        return Weight::Memory;
    }
    if effects.reads {
        return Weight::Reads;
    }
    match mnemonic.opcode() {
        Opcode::Mma | Opcode::Wmma | Opcode::Movmatrix => Weight::Pure,
        opcode if OF_THE_WARP.contains(&opcode) => Weight::Acts,
        Opcode::Prefetch | Opcode::Prefetchu | Opcode::Applypriority => Weight::Acts,
        Opcode::Alloca | Opcode::Stacksave | Opcode::Stackrestore => Weight::Memory,
        // Products by descriptors, groups of copies, hints: what they touch is not in their operands.
        _ if outputs == 0 || effects.convergent => Weight::Memory,
        _ => Weight::Pure,
    }
}

/// What they give depends on which threads execute them together, and on nothing in memory.
const OF_THE_WARP: &[Opcode] = &[
    Opcode::Activemask,
    Opcode::Elect,
    Opcode::Match,
    Opcode::Redux,
    Opcode::Shfl,
    Opcode::Vote,
];

/// What LLVM may think of reading a special register: most never change while a thread runs.
fn weight_of_special(register: SpecialRegister) -> Weight {
    use SpecialRegister as S;
    match register {
        S::Clock
        | S::ClockHi
        | S::Clock64
        | S::Globaltimer
        | S::GlobaltimerLo
        | S::GlobaltimerHi => Weight::Memory,
        S::SmId | S::WarpId | S::Pm(_) | S::Pm64(_) => Weight::Acts,
        _ => Weight::Pure,
    }
}

/// A special register for which LLVM has no intrinsic.
pub(crate) fn special<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    register: SpecialRegister,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let ty = register.ty();
    let (class, llvm) = class(lifter, ty);
    let text = format!("mov.{} $0, {register};", bits_word(ty));
    let weight = weight_of_special(register);
    let (constraints, acts) = match weight {
        Weight::Memory => (format!("={class},~{{memory}}"), true),
        Weight::Acts => (format!("={class}"), true),
        Weight::Reads | Weight::Pure => (format!("={class}"), false),
    };
    let signature = llvm.fn_type(&[], false);
    let asm =
        lifter
            .context
            .create_inline_asm(signature, text, constraints, acts, false, None, false);
    let call = lifter.build(|b| b.build_indirect_call(signature, asm, &[], ""))?;
    let attributes = &lifter.globals.attributes;
    call.add_attribute(AttributeLoc::Function, attributes.nounwind);
    if weight == Weight::Pure {
        call.add_attribute(AttributeLoc::Function, attributes.no_memory);
        call.add_attribute(AttributeLoc::Function, attributes.willreturn);
    }
    match call.try_as_basic_value().basic() {
        Some(value) => Ok(value),
        None => Err(lifter.inexpressible(format!("`{register}` cannot be read"))),
    }
}

fn bits_word(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::Pred => "pred",
        _ if ty.bits() == 64 => "u64",
        _ => "u32",
    }
}

/// An instruction without operands that ends the thread or the launch.
pub(crate) fn stop(lifter: &mut Lifter<'_, '_>, text: &str) -> Result<(), LiftError> {
    let mut assembly = Assembly::new(0, false);
    assembly.text.push_str(text);
    assembly.finish(lifter, Weight::Memory, false)
}

fn writes(spec: &OperandSpec, operand: &Operand) -> bool {
    matches!(access(spec, operand), Access::Write | Access::ReadWrite)
}

/// Registers of a destination.
fn count(lifter: &Lifter<'_, '_>, operand: &Operand) -> usize {
    let list = |first, len| lifter.body.list(first, len).iter();
    match *operand {
        Operand::Register(_) | Operand::Selected { .. } => 1,
        Operand::Pair(first) => list(first, 2).map(|o| count(lifter, o)).sum(),
        Operand::Vector(first, len) => list(first, len)
            .filter(|o| matches!(o, Operand::Register(_)))
            .count(),
        _ => 0,
    }
}

/// Writes operands of one place.
struct Writer<'w, 'ctx, 'm> {
    assembly: &'w mut Assembly<'ctx>,
    lifter: &'w mut Lifter<'ctx, 'm>,
    mnemonic: &'w Mnemonic,
    spec: &'w OperandSpec,
}

impl<'ctx> Writer<'_, 'ctx, '_> {
    fn put(&mut self, text: &str) {
        self.assembly.text.push_str(text);
    }

    fn operand(&mut self, operand: &Operand) -> Result<(), LiftError> {
        match access(self.spec, operand) {
            Access::Write | Access::ReadWrite => self.destination(operand),
            Access::Read | Access::Address => self.source(operand),
        }
    }

    fn destination(&mut self, operand: &Operand) -> Result<(), LiftError> {
        match *operand {
            Operand::Register(register) => {
                self.write(register)?;
            }
            Operand::Selected {
                register, selector, ..
            } => {
                self.write(register)?;
                if let Some(selector) = selector {
                    _ = write!(self.assembly.text, ".{selector}");
                }
            }
            Operand::Sink => self.put("_"),
            Operand::Pair(first) => {
                let body = self.lifter.body;
                for (i, part) in body.list(first, 2).iter().enumerate() {
                    self.put(if i == 0 { "" } else { "|" });
                    self.destination(part)?;
                }
            }
            Operand::Vector(first, len) => {
                let body = self.lifter.body;
                for (i, part) in body.list(first, len).iter().enumerate() {
                    self.put(if i == 0 { "{" } else { ", " });
                    self.destination(part)?;
                }
                self.put("}");
            }
            _ => return Err(self.unknown(operand)),
        }
        Ok(())
    }

    fn write(&mut self, register: RegId) -> Result<(), LiftError> {
        if self.spec.access == Access::ReadWrite {
            return self.assembly.through(self.lifter, register);
        }
        self.assembly.output(self.lifter, register);
        Ok(())
    }

    fn source(&mut self, operand: &Operand) -> Result<(), LiftError> {
        match *operand {
            Operand::Register(register) => self.assembly.input_register(self.lifter, register),
            Operand::NotRegister(register) => {
                self.put("!");
                self.assembly.input_register(self.lifter, register)
            }
            Operand::Selected {
                register,
                negated,
                selector,
            } => {
                self.put(if negated { "-" } else { "" });
                self.assembly.input_register(self.lifter, register)?;
                if let Some(selector) = selector {
                    _ = write!(self.assembly.text, ".{selector}");
                }
                Ok(())
            }
            Operand::Special(register) => {
                _ = write!(self.assembly.text, "{register}");
                Ok(())
            }
            Operand::Number(bits) => self.number(bits),
            Operand::Address(symbol, offset) => self.symbol_value(symbol, offset),
            Operand::Sink => {
                self.put("_");
                Ok(())
            }
            Operand::Vector(first, len) => {
                let body = self.lifter.body;
                for (i, part) in body.list(first, len).iter().enumerate() {
                    self.put(if i == 0 { "{" } else { ", " });
                    self.source(part)?;
                }
                self.put("}");
                Ok(())
            }
            Operand::MemoryRegister(..) | Operand::MemorySymbol(..) => {
                self.put("[");
                self.place(operand)?;
                self.put("]");
                Ok(())
            }
            Operand::MemoryAbsolute(at) => {
                _ = write!(self.assembly.text, "[{at}]");
                Ok(())
            }
            Operand::MemoryList(first, len) => {
                let body = self.lifter.body;
                for (i, part) in body.list(first, len).iter().enumerate() {
                    self.put(if i == 0 { "[" } else { ", " });
                    self.place(part)?;
                }
                self.put("]");
                Ok(())
            }
            _ => Err(self.unknown(operand)),
        }
    }

    /// What stands between brackets.
    fn place(&mut self, operand: &Operand) -> Result<(), LiftError> {
        match *operand {
            Operand::MemoryRegister(register, offset) => {
                self.assembly.input_register(self.lifter, register)?;
                self.plus(offset);
                Ok(())
            }
            Operand::MemorySymbol(symbol, offset) => self.symbol_place(symbol, offset),
            _ => self.source(operand),
        }
    }

    fn plus(&mut self, offset: i64) {
        if offset != 0 {
            _ = write!(self.assembly.text, "+{offset}");
        }
    }

    /// The name of a texture, sampler or surface: these have no address.
    fn opaque(&self, symbol: Symbol) -> Result<Option<String>, LiftError> {
        let variable = match symbol {
            Symbol::Variable(id) => self.lifter.module.variables.get(id.0 as usize),
            Symbol::Param(n) => self.lifter.source.params.get(n as usize),
            _ => None,
        };
        let Some(variable) = variable.filter(|v| v.ty.kind() == TypeKind::Opaque) else {
            return Ok(None);
        };
        match symbol {
            Symbol::Variable(_) => Ok(Some(variable.name.replace('$', "$$"))),
            _ => Err(self
                .lifter
                .inexpressible(format!("LLVM has no parameters of type .{}", variable.ty))),
        }
    }

    fn symbol_place(&mut self, symbol: Symbol, offset: i64) -> Result<(), LiftError> {
        if let Some(name) = self.opaque(symbol)? {
            self.put(&name);
            return Ok(());
        }
        let (class, value) = match symbol {
            Symbol::Param(_) => {
                let bits = super::params::address_bits(self.lifter, symbol, 0)?;
                ('l', bits.into())
            }
            _ => {
                let pointer = self.lifter.symbol_address(symbol, 0)?;
                (self.pointer_class(pointer), pointer.into())
            }
        };
        let n = self.assembly.input_value(class, value);
        _ = write!(self.assembly.text, "${n}");
        self.plus(offset);
        Ok(())
    }

    fn pointer_class(&self, pointer: inkwell::values::PointerValue<'ctx>) -> char {
        let space = super::operand::pointer_space(pointer.get_type());
        match self.lifter.pointer_int(space) == self.lifter.globals.types.i32 {
            true => 'r',
            false => 'l',
        }
    }

    fn symbol_value(&mut self, symbol: Symbol, offset: i64) -> Result<(), LiftError> {
        if let Some(name) = self.opaque(symbol)? {
            self.put(&name);
            return Ok(());
        }
        let ty = self.value_type().unwrap_or(ScalarType::B64);
        let value = self
            .lifter
            .value(&Operand::Address(symbol, offset), bits_of(ty.bits()))?;
        self.assembly.input(self.lifter, value, bits_of(ty.bits()))
    }

    /// The type that the place gives its operand.
    fn value_type(&self) -> Option<ScalarType> {
        match self.spec.kind {
            OperandKind::Value { ty, .. } | OperandKind::Selected(ty, _) => {
                self.mnemonic.resolve(ty)
            }
            OperandKind::Predicate => Some(ScalarType::Pred),
            OperandKind::Bounded(_, ty) => Some(ty),
            OperandKind::Fragment(matrix) => self.mnemonic.fragment(matrix).map(|(ty, _)| ty),
            OperandKind::Texture | OperandKind::Surface => Some(ScalarType::B32),
            OperandKind::TensorMap | OperandKind::TexelOffset => Some(ScalarType::S32),
            OperandKind::Im2colOffsets => Some(ScalarType::U16),
            OperandKind::SourceSize => Some(ScalarType::U32),
            OperandKind::LaneMask => Some(ScalarType::B32),
            OperandKind::Gradient | OperandKind::Depth => Some(ScalarType::F32),
            _ => None,
        }
    }

    /// A number: as text where all assemblers take it so, else in a register.
    fn number(&mut self, bits: u64) -> Result<(), LiftError> {
        if let OperandKind::Immediate(_) = self.spec.kind {
            _ = write!(self.assembly.text, "{}", bits as i64);
            return Ok(());
        }
        let mut ty = self.value_type().unwrap_or(ScalarType::B64);
        if let OperandKind::Value {
            count: r3_ptx::isa::Count::Parts,
            ..
        } = self.spec.kind
            && !matches!(ty.bits(), 32 | 64)
        {
            ty = bits_of(ty.bits());
        }
        match ty {
            ScalarType::F32 => _ = write!(self.assembly.text, "0f{:08X}", bits as u32),
            ScalarType::F64 => _ = write!(self.assembly.text, "0d{bits:016X}"),
            _ if ty.is_integer() && ty.lanes() == 1 && ty.bits() <= 64 => {
                let unused = 64 - ty.bits();
                if ty.is_signed() {
                    let value = ((bits << unused) as i64) >> unused;
                    _ = write!(self.assembly.text, "{value}");
                } else if bits >> 63 != 0 {
                    _ = write!(self.assembly.text, "{bits}U");
                } else {
                    _ = write!(self.assembly.text, "{bits}");
                }
            }
            ScalarType::B32
                if !matches!(self.spec.kind, OperandKind::Texture | OperandKind::Surface) =>
            {
                _ = write!(self.assembly.text, "{bits}");
            }
            _ => {
                let plain = bits_of(ty.bits());
                let value = self.lifter.constant(bits, plain);
                return self.assembly.input(self.lifter, value, plain);
            }
        }
        Ok(())
    }

    fn unknown(&self, operand: &Operand) -> LiftError {
        self.lifter
            .inexpressible(format!("{operand:?} cannot stand in assembly"))
    }
}

/// The untyped type of a width.
fn bits_of(bits: u32) -> ScalarType {
    match bits {
        1 => ScalarType::Pred,
        ..=8 => ScalarType::B8,
        9..=16 => ScalarType::B16,
        17..=32 => ScalarType::B32,
        33..=64 => ScalarType::B64,
        _ => ScalarType::B128,
    }
}

/// Which place of the form each operand fills: places may be left out.
fn align<'f>(
    lifter: &Lifter<'_, '_>,
    form: &'f Form,
    mnemonic: &Mnemonic,
    operands: &[Operand],
) -> Vec<&'f OperandSpec> {
    let there: Vec<(&OperandSpec, bool)> = form
        .operands
        .iter()
        .filter_map(|spec| Some((spec, optional(mnemonic, spec)?)))
        .collect();
    let mut aligned = Vec::with_capacity(operands.len());
    if there.len() != operands.len() && assign(lifter, mnemonic, &there, operands, &mut aligned) {
        return aligned;
    }
    there.iter().map(|(spec, _)| *spec).collect()
}

/// Whether a place may be left out; `None` when the mnemonic does not have it.
fn optional(mnemonic: &Mnemonic, spec: &OperandSpec) -> Option<bool> {
    if spec.kind == OperandKind::Im2colOffsets {
        let modes = [Word::Im2col, Word::Im2colW, Word::Im2colW128];
        return mnemonic.any_of(&modes).map(|_| false);
    }
    match spec.presence {
        Presence::Always => Some(false),
        Presence::Optional => Some(true),
        Presence::With(word) => mnemonic.has(word).then_some(false),
    }
}

fn assign<'f>(
    lifter: &Lifter<'_, '_>,
    mnemonic: &Mnemonic,
    specs: &[(&'f OperandSpec, bool)],
    operands: &[Operand],
    aligned: &mut Vec<&'f OperandSpec>,
) -> bool {
    let Some((operand, rest)) = operands.split_first() else {
        return specs.iter().all(|(_, optional)| *optional);
    };
    let Some((&(spec, optional), specs)) = specs.split_first() else {
        return false;
    };
    if fits(lifter, mnemonic, spec, operand) {
        aligned.push(spec);
        if assign(lifter, mnemonic, specs, rest, aligned) {
            return true;
        }
        aligned.pop();
    }
    optional && assign(lifter, mnemonic, specs, operands, aligned)
}

/// Whether an operand may stand in a place.
fn fits(
    lifter: &Lifter<'_, '_>,
    mnemonic: &Mnemonic,
    spec: &OperandSpec,
    operand: &Operand,
) -> bool {
    use OperandKind as K;
    let like = |ty: ScalarType, relaxed: bool| match *operand {
        Operand::Register(register) => {
            let has = Assembly::register_type(lifter, register);
            let pred = (has == ScalarType::Pred) == (ty == ScalarType::Pred);
            let kind = !(has.is_float() && ty.is_integer()) && !(has.is_integer() && ty.is_float());
            let wide = match relaxed {
                true => has.bits() >= ty.bits(),
                false => has.bytes() == ty.bytes(),
            };
            pred && kind && wide
        }
        Operand::NotRegister(_) => ty == ScalarType::Pred,
        Operand::Number(_) | Operand::Special(_) | Operand::Address(..) | Operand::Sink => true,
        _ => false,
    };
    match spec.kind {
        K::Value {
            ty, relaxed, count, ..
        } => {
            let vector = matches!(
                operand,
                Operand::Vector(..) | Operand::Pair(_) | Operand::Special(_) | Operand::Sink
            );
            let one = mnemonic.resolve(ty).is_some_and(|ty| like(ty, relaxed));
            let many = !matches!(count, r3_ptx::isa::Count::One) || spec.second.is_some();
            one || (vector && many)
        }
        K::Predicate => like(ScalarType::Pred, false),
        K::Immediate(numbers) => number_fits(numbers, operand),
        K::Bounded(numbers, ty) => number_fits(numbers, operand) || like(ty, false),
        K::Selected(..) => matches!(
            operand,
            Operand::Selected { .. } | Operand::Register(_) | Operand::Number(_) | Operand::Sink
        ),
        K::Fragment(_) => true,
        K::Memory(_) => matches!(
            operand,
            Operand::MemoryRegister(..) | Operand::MemorySymbol(..) | Operand::MemoryAbsolute(_)
        ),
        K::TensorMap | K::Texture | K::Surface => matches!(operand, Operand::MemoryList(..)),
        K::Handle | K::GenericAddress => true,
        K::Im2colOffsets | K::LaneMask => matches!(operand, Operand::Vector(..)),
        K::SourceSize => like(ScalarType::Pred, false) || like(ScalarType::U32, false),
        K::Gradient => like(ScalarType::F32, false) || matches!(operand, Operand::Vector(..)),
        K::TexelOffset => like(ScalarType::S32, false) || matches!(operand, Operand::Vector(..)),
        K::Depth => like(ScalarType::F32, false),
        K::Label | K::BranchTargets | K::Call => false,
    }
}

fn number_fits(numbers: Numbers, operand: &Operand) -> bool {
    matches!(operand, Operand::Number(bits) if numbers.contains(*bits as i64))
}
