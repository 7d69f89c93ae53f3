//! Where parameters, results and variables of a function live while it is lifted.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};
use r3_ptx::isa::Space;
use r3_ptx::typed::{LocalId, Operand, Symbol, Variable};

use super::{ADDRESS, Passing, of_function, whole};
use crate::error::LiftError;
use crate::lift::function::Lifter;
use crate::lift::variables;

/// Where parameters, results and variables of a function live.
#[derive(Default)]
pub(crate) struct Frame<'ctx> {
    params: Vec<Slot<'ctx>>,
    results: Vec<Slot<'ctx>>,
    locals: Vec<Slot<'ctx>>,
}

/// Where one of them lives.
#[derive(Clone, Copy, Default)]
enum Slot<'ctx> {
    /// Nowhere: it has not been named yet.
    #[default]
    Unused,
    /// A parameter that never changes.
    Value(BasicValueEnum<'ctx>),
    /// A parameter of a kernel, in memory: as LLVM's argument, and in the space of parameters where its address is a value.
    Host(PointerValue<'ctx>, Option<PointerValue<'ctx>>),
    /// On the stack; also its address in local memory, once that was asked for.
    Stack(PointerValue<'ctx>, Option<PointerValue<'ctx>>),
    /// A variable of a space that does not depend on the call.
    Fixed(PointerValue<'ctx>),
    /// Part of a call sequence, or a result: what was written last.
    Whole(Option<BasicValueEnum<'ctx>>),
}

/// What an access finds.
pub(super) enum Found<'ctx> {
    /// A value.
    Value(BasicValueEnum<'ctx>),
    /// Memory, and its alignment.
    Memory(PointerValue<'ctx>, u64),
}

impl<'ctx> Frame<'ctx> {
    fn slot(&mut self, symbol: Symbol) -> Option<&mut Slot<'ctx>> {
        match symbol {
            Symbol::Param(n) => self.params.get_mut(n as usize),
            Symbol::Result(n) => self.results.get_mut(n as usize),
            Symbol::Local(LocalId(n)) => self.locals.get_mut(n as usize),
            Symbol::Variable(_) | Symbol::Function(_) => None,
        }
    }
}

/// Fills the frame: the builder stands in the entry block.
///
/// # Errors
/// When LLVM's builder refuses something.
pub(crate) fn enter(lifter: &mut Lifter<'_, '_>) -> Result<(), LiftError> {
    let (source, body) = (lifter.source, lifter.body);
    let found = whole::find(lifter.module, source, body);
    let slot = |whole: &bool| match whole {
        true => Slot::Whole(None),
        false => Slot::Unused,
    };
    lifter.frame = Frame {
        params: vec![Slot::Unused; source.params.len()],
        results: found.results.iter().map(slot).collect(),
        locals: found.locals.iter().map(slot).collect(),
    };
    match source.entry {
        true => kernel_params(lifter),
        false => function_params(lifter),
    }
}

fn kernel_params(lifter: &mut Lifter<'_, '_>) -> Result<(), LiftError> {
    let (function, byval) = (lifter.function, Attribute::get_named_enum_kind_id("byval"));
    let old = is_old(lifter.module.target.first().map_or("", |target| target));
    for (index, value) in (0u32..).zip(function.get_params()) {
        let place = AttributeLoc::Param(index);
        let memory = function.get_enum_attribute(place, byval).is_some();
        let address = function.get_string_attribute(place, ADDRESS).is_some();
        let slot = match value {
            BasicValueEnum::PointerValue(pointer) if memory && address => {
                let param = match old {
                    false => lifter.in_space(pointer, PARAM)?,
                    true => {
                        let bits = address_bits(lifter, Symbol::Param(index), 0)?;
                        let ty = lifter.globals.types.pointer(PARAM);
                        lifter.build(|b| b.build_int_to_ptr(bits, ty, ""))?
                    }
                };
                Slot::Host(pointer, Some(param))
            }
            BasicValueEnum::PointerValue(pointer) if memory => Slot::Host(pointer, None),
            value => Slot::Value(value),
        };
        if let Some(place) = lifter.frame.slot(Symbol::Param(index)) {
            *place = slot;
        }
    }
    Ok(())
}

/// A target before `sm_70`: there LLVM copies every parameter of which the address is taken, whatever its attributes say,
/// and hands out the address of the copy.
fn is_old(target: &str) -> bool {
    let digits = target.trim_start_matches("sm_");
    digits.parse::<u32>().is_ok_and(|sm| sm < 70)
}

fn function_params(lifter: &mut Lifter<'_, '_>) -> Result<(), LiftError> {
    let (source, body) = (lifter.source, lifter.body);
    let mut registers = body.param_registers.iter();
    for (index, variable) in (0u32..).zip(&source.params) {
        let Some(value) = lifter.function.get_nth_param(index) else {
            return Err(lifter.inexpressible("a parameter without argument".into()));
        };
        if variable.space == Space::Reg {
            if let Some(register) = registers.next() {
                lifter.set(&Operand::Register(*register), value, variable.ty)?;
            }
            continue;
        }
        let symbol = Symbol::Param(index);
        let scalar = matches!(of_function(variable), Passing::Scalar(_));
        let slot = match scalar && only_whole(lifter, symbol, variable) {
            true => Slot::Value(value),
            false => {
                let memory = stack(lifter, variable)?;
                let store = lifter.build(|b| b.build_store(memory, value))?;
                _ = store.set_alignment(variable.align as u32);
                Slot::Stack(memory, None)
            }
        };
        if let Some(place) = lifter.frame.slot(symbol) {
            *place = slot;
        }
    }
    Ok(())
}

/// All that names a parameter are loads of the whole.
fn only_whole(lifter: &Lifter<'_, '_>, symbol: Symbol, variable: &Variable) -> bool {
    let (module, body) = (lifter.module, lifter.body);
    let named = body.operands.iter().filter(|operand| {
        matches!(operand, Operand::Address(s, _) | Operand::MemorySymbol(s, _) if *s == symbol)
    });
    let loads = body.instructions.iter().filter(|instruction| {
        super::Access::of(module, body, instruction)
            .is_some_and(|access| access.load && access.whole(symbol, variable.size))
    });
    named.count() == loads.count()
}

/// Builds the return.
///
/// # Errors
/// When LLVM's builder refuses something.
pub(crate) fn leave(lifter: &mut Lifter<'_, '_>) -> Result<(), LiftError> {
    let (source, body) = (lifter.source, lifter.body);
    if source.entry || source.results.is_empty() {
        lifter.build(|b| b.build_return(None))?;
        return Ok(());
    }
    let Some(ty) = lifter.function.get_type().get_return_type() else {
        return Err(lifter.inexpressible("a result without type".into()));
    };
    let mut registers = body.result_registers.iter();
    let mut values = Vec::with_capacity(source.results.len());
    for (index, variable) in (0u32..).zip(&source.results) {
        let wanted = match (source.results.len(), ty) {
            (1, ty) => ty,
            (_, BasicTypeEnum::StructType(ty)) => match ty.get_field_type_at_index(index) {
                Some(ty) => ty,
                None => return Err(lifter.inexpressible("a result without type".into())),
            },
            _ => return Err(lifter.inexpressible("results without type".into())),
        };
        values.push(match variable.space {
            Space::Reg => {
                let register = registers.next().copied();
                let Some(register) = register else {
                    return Err(lifter.inexpressible("a result without register".into()));
                };
                let value = lifter.value(&Operand::Register(register), variable.ty)?;
                lifter.cast(value, wanted, false)?
            }
            _ => read(lifter, Symbol::Result(index), variable, wanted)?,
        });
    }
    match values.as_slice() {
        [only] => lifter.build(|b| b.build_return(Some(only)))?,
        list => lifter.build(|b| b.build_aggregate_return(list))?,
    };
    Ok(())
}

/// A slot as one value of a type, as it is passed.
fn read<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    symbol: Symbol,
    variable: &Variable,
    wanted: BasicTypeEnum<'ctx>,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    match find(lifter, symbol)? {
        Found::Value(value) => to_passed(lifter, value, wanted),
        Found::Memory(memory, _) => {
            let value = lifter.build(|b| b.build_load(wanted, memory, ""))?;
            if let Some(load) = value.as_instruction_value() {
                _ = load.set_alignment(variable.align as u32);
            }
            Ok(value)
        }
    }
}

/// A value as it is passed: an array of one element where it is none.
fn to_passed<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    value: BasicValueEnum<'ctx>,
    wanted: BasicTypeEnum<'ctx>,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let BasicTypeEnum::ArrayType(array) = wanted else {
        return lifter.cast(value, wanted, false);
    };
    let BasicTypeEnum::IntType(element) = array.get_element_type() else {
        return Err(lifter.inexpressible("an array of no integers".into()));
    };
    let (width, count) = (element.get_bit_width(), array.len());
    let whole = lifter
        .globals
        .types
        .int(lifter.context, width.saturating_mul(count));
    let bits = lifter.cast(value, whole.into(), false)?.into_int_value();
    let mut made = array.get_poison();
    for index in 0..count {
        let shift = whole.const_int(u64::from(index * width), false);
        let part = match index {
            0 => bits,
            _ => lifter.build(|b| b.build_right_shift(bits, shift, false, ""))?,
        };
        let part = match count {
            1 => part,
            _ => lifter.build(|b| b.build_int_truncate(part, element, ""))?,
        };
        let next = lifter.build(|b| b.build_insert_value(made, part, index, ""))?;
        made = next.into_array_value();
    }
    Ok(made.into())
}

/// What was passed as one value: the inverse of [`to_passed`].
fn from_passed<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    value: BasicValueEnum<'ctx>,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let BasicValueEnum::ArrayValue(array) = value else {
        return Ok(value);
    };
    let ty = array.get_type();
    let BasicTypeEnum::IntType(element) = ty.get_element_type() else {
        return Err(lifter.inexpressible("an array of no integers".into()));
    };
    let (width, count) = (element.get_bit_width(), ty.len());
    let whole = lifter
        .globals
        .types
        .int(lifter.context, width.saturating_mul(count));
    let mut made = whole.const_zero();
    for index in 0..count {
        let part = lifter.build(|b| b.build_extract_value(array, index, ""))?;
        let part = lifter.cast(part, whole.into(), false)?.into_int_value();
        let shift = whole.const_int(u64::from(index * width), false);
        made = match index {
            0 => part,
            _ => {
                let part = lifter.build(|b| b.build_left_shift(part, shift, ""))?;
                lifter.build(|b| b.build_or(made, part, ""))?
            }
        };
    }
    Ok(made.into())
}

/// An argument of a call, as it is passed.
///
/// # Errors
/// When LLVM's builder refuses something, or the operand is no argument.
pub(crate) fn argument<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
    declared: &Variable,
    wanted: BasicTypeEnum<'ctx>,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    if let Operand::Address(symbol @ (Symbol::Local(_) | Symbol::Param(_)), 0) = *operand {
        return match variable(lifter, symbol) {
            Some(given) if given.space.is_param() => read(lifter, symbol, given, wanted),
            _ => Err(lifter.inexpressible("an argument outside of parameter space".into())),
        };
    }
    let value = lifter.value(operand, declared.ty)?;
    to_passed(lifter, value, wanted)
}

/// Where the result of a call goes.
///
/// # Errors
/// When LLVM's builder refuses something, or the operand is no place for a result.
pub(crate) fn receive<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
    declared: &Variable,
    value: BasicValueEnum<'ctx>,
) -> Result<(), LiftError> {
    match *operand {
        Operand::Sink => Ok(()),
        Operand::Address(symbol @ (Symbol::Local(_) | Symbol::Result(_)), 0) => {
            if matches!(lifter.frame.slot(symbol), Some(Slot::Whole(_))) {
                let value = from_passed(lifter, value)?;
                write(lifter, symbol, value)?;
                return Ok(());
            }
            let Found::Memory(memory, align) = find(lifter, symbol)? else {
                return Err(lifter.inexpressible("a result has no place".into()));
            };
            let store = lifter.build(|b| b.build_store(memory, value))?;
            _ = store.set_alignment(align as u32);
            Ok(())
        }
        _ => {
            let value = from_passed(lifter, value)?;
            lifter.set(operand, value, declared.ty)
        }
    }
}

/// The declaration of something of the function.
pub(crate) fn variable<'m>(lifter: &Lifter<'_, 'm>, symbol: Symbol) -> Option<&'m Variable> {
    match symbol {
        Symbol::Param(n) => lifter.source.params.get(n as usize),
        Symbol::Result(n) => lifter.source.results.get(n as usize),
        Symbol::Local(LocalId(n)) => lifter.body.locals.get(n as usize),
        Symbol::Variable(_) | Symbol::Function(_) => None,
    }
}

/// What stands for a symbol of the function.
pub(super) fn find<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    symbol: Symbol,
) -> Result<Found<'ctx>, LiftError> {
    let Some(declared) = variable(lifter, symbol) else {
        return Err(lifter.inexpressible("this is no parameter".into()));
    };
    let align = declared.align;
    match lifter.frame.slot(symbol).copied() {
        Some(Slot::Value(value) | Slot::Whole(Some(value))) => Ok(Found::Value(value)),
        Some(Slot::Host(pointer, param)) => Ok(Found::Memory(param.unwrap_or(pointer), align)),
        Some(Slot::Stack(pointer, _) | Slot::Fixed(pointer)) => Ok(Found::Memory(pointer, align)),
        // Read before anything is written: whatever was found, such code is never run.
        Some(Slot::Whole(None)) => {
            let ty = lifter
                .globals
                .types
                .int(lifter.context, declared.size as u32 * 8);
            Ok(Found::Value(ty.const_zero().into()))
        }
        Some(Slot::Unused) => {
            let slot = match declared.space {
                Space::Local => Slot::Stack(stack(lifter, declared)?, None),
                space if space.is_param() => Slot::Stack(stack(lifter, declared)?, None),
                _ => Slot::Fixed(variables::of_function(lifter, declared, symbol)?),
            };
            if let Some(place) = lifter.frame.slot(symbol) {
                *place = slot;
            }
            match slot {
                Slot::Stack(pointer, _) | Slot::Fixed(pointer) => Ok(Found::Memory(pointer, align)),
                _ => Err(lifter.inexpressible("a variable has no place".into())),
            }
        }
        None => Err(lifter.inexpressible("a variable of another function".into())),
    }
}

/// Writes a value that is one at a time. `false`: it is memory.
pub(super) fn write<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    symbol: Symbol,
    value: BasicValueEnum<'ctx>,
) -> Result<bool, LiftError> {
    match lifter.frame.slot(symbol) {
        Some(slot @ Slot::Whole(_)) => {
            *slot = Slot::Whole(Some(value));
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The address of something of the function, in its own space.
///
/// # Errors
/// When it is a value, or LLVM's builder refuses something.
pub(crate) fn symbol<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    symbol: Symbol,
) -> Result<PointerValue<'ctx>, LiftError> {
    let Found::Memory(pointer, _) = find(lifter, symbol)? else {
        return Err(lifter.inexpressible("a value has no address".into()));
    };
    match lifter.frame.slot(symbol).copied() {
        Some(Slot::Stack(_, Some(local))) => Ok(local),
        Some(Slot::Stack(pointer, None)) => {
            let ty = lifter.globals.types.pointer(LOCAL);
            let local = lifter.at_entry(|b| b.build_address_space_cast(pointer, ty, ""))?;
            if let Some(place) = lifter.frame.slot(symbol) {
                *place = Slot::Stack(pointer, Some(local));
            }
            Ok(local)
        }
        _ => Ok(pointer),
    }
}

/// LLVM's space of kernel parameters.
const PARAM: u16 = 101;

/// LLVM's space of the stack.
const LOCAL: u16 = 5;

/// The address of something with a name as an integer.
///
/// LLVM 22 makes the generic address of a kernel's parameter where the one in its own space is asked for, if the pointer
/// becomes an integer at once. So the assembler names it.
///
/// # Errors
/// When LLVM's builder refuses something.
pub(crate) fn address_bits<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    named: Symbol,
    offset: i64,
) -> Result<IntValue<'ctx>, LiftError> {
    let i64 = lifter.globals.types.i64;
    if let Symbol::Param(index) = named
        && lifter.source.entry
    {
        let name = lifter.function.get_name().to_string_lossy().into_owned();
        let text = format!("mov.b64 $0, {name}_param_{index};");
        let ty = i64.fn_type(&[], false);
        let asm =
            lifter
                .context
                .create_inline_asm(ty, text, "=l".into(), false, false, None, false);
        let call = lifter.build(|b| b.build_indirect_call(ty, asm, &[], ""))?;
        call.add_attribute(AttributeLoc::Function, lifter.globals.attributes.no_memory);
        call.add_attribute(AttributeLoc::Function, lifter.globals.attributes.nounwind);
        call.add_attribute(AttributeLoc::Function, lifter.globals.attributes.willreturn);
        let Some(BasicValueEnum::IntValue(value)) = call.try_as_basic_value().basic() else {
            return Err(lifter.inexpressible("an address without value".into()));
        };
        let offset = i64.const_int(offset as u64, true);
        return lifter.build(|b| b.build_int_add(value, offset, ""));
    }
    let pointer = variables::symbol(lifter, named)?;
    let pointer = lifter.offset(pointer, offset)?;
    let wide = lifter.cast(pointer.into(), i64.into(), false)?;
    Ok(wide.into_int_value())
}

fn stack<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    declared: &Variable,
) -> Result<PointerValue<'ctx>, LiftError> {
    let Ok(size) = u32::try_from(declared.size) else {
        return Err(lifter.inexpressible(format!("{} bytes on the stack", declared.size)));
    };
    let ty = lifter.globals.types.i8.array_type(size);
    let memory = lifter.at_entry(|b| b.build_alloca(ty, ""))?;
    if let Some(alloca) = memory.as_instruction() {
        _ = alloca.set_alignment(declared.align as u32);
    }
    Ok(memory)
}
