//! A piece of assembly: text, operands with their constraints, and the call that is built of them.

use std::fmt::Write;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum};
use r3_ptx::isa::ScalarType;
use r3_ptx::typed::{Operand, RegId};

use super::Weight;
use crate::error::LiftError;
use crate::lift::function::Lifter;

/// A piece of assembly that is being put together.
pub(in crate::lift) struct Assembly<'ctx> {
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

/// Class and type of values in assembly: registers of 8 bits travel as 16.
pub(super) fn class<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    ty: ScalarType,
) -> (char, BasicTypeEnum<'ctx>) {
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

    pub(super) fn register_type(lifter: &Lifter<'ctx, '_>, register: RegId) -> ScalarType {
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
