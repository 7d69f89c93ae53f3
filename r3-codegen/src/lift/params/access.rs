//! `ld` and `st` in parameter space.

use inkwell::AddressSpace;
use inkwell::types::{BasicType, BasicTypeEnum, PointerType};
use inkwell::values::{BasicValue, BasicValueEnum, PointerValue};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Space};
use r3_ptx::typed::{self, Body, Operand, Symbol};

use super::frame::{self, Found};
use crate::error::LiftError;
use crate::lift::function::{Handled, Lifter};

/// A `ld` or `st` in parameter space.
#[derive(Clone, Copy)]
pub(super) struct Access<'m> {
    /// A load, not a store.
    pub load: bool,
    /// Type of an element.
    pub ty: ScalarType,
    /// Elements.
    pub count: u8,
    /// Where.
    pub place: Place<'m>,
    /// The register, number, or vector of them.
    pub data: &'m Operand,
}

/// What an access goes to.
#[derive(Clone, Copy)]
pub(super) enum Place<'m> {
    /// A name and an offset.
    Symbol(Symbol, i64),
    /// A register.
    Computed(&'m Operand),
}

impl<'m> Access<'m> {
    /// An instruction, if it is one.
    pub fn of(
        module: &typed::Module,
        body: &'m Body,
        instruction: &typed::Instruction,
    ) -> Option<Self> {
        let mnemonic = module.mnemonics.get(instruction.mnemonic.0 as usize)?;
        Self::new(mnemonic, body.operands(instruction))
    }

    /// A mnemonic and its operands, if they are one.
    pub fn new(mnemonic: &Mnemonic, operands: &'m [Operand]) -> Option<Self> {
        let load = match mnemonic.opcode() {
            Opcode::Ld => true,
            Opcode::St => false,
            _ => return None,
        };
        if !mnemonic.space().is_some_and(Space::is_param) {
            return None;
        }
        let (data, place) = match (load, operands) {
            (true, [data, place, ..]) | (false, [place, data, ..]) => (data, place),
            _ => return None,
        };
        let place = match place {
            Operand::MemorySymbol(symbol, offset) => Place::Symbol(*symbol, *offset),
            other => Place::Computed(other),
        };
        Some(Self {
            load,
            ty: mnemonic.ty()?,
            count: mnemonic.vector(),
            place,
            data,
        })
    }

    /// It takes all of a variable at once.
    pub fn whole(&self, of: Symbol, size: u64) -> bool {
        self.count == 1
            && self.bytes() == size
            && matches!(self.place, Place::Symbol(symbol, 0) if symbol == of)
    }

    /// Bytes that it moves.
    pub fn bytes(&self) -> u64 {
        self.ty.bytes() * u64::from(self.count)
    }
}

/// `ld.param`: `false` when it is none.
///
/// # Errors
/// When LLVM's builder refuses something.
pub(crate) fn load<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let Some(access) = Access::new(mnemonic, operands).filter(|access| access.load) else {
        return Ok(false);
    };
    let memory = match access.place {
        Place::Symbol(symbol, offset) => match frame::find(lifter, symbol)? {
            Found::Value(value) if access.count == 1 => {
                lifter.set(access.data, value, access.ty)?;
                return Ok(true);
            }
            Found::Value(_) => return Err(lifter.inexpressible("a part of a value".into())),
            Found::Memory(pointer, align) => {
                (lifter.offset(pointer, offset)?, known(align, offset))
            }
        },
        Place::Computed(operand) => (computed(lifter, operand)?, u64::MAX),
    };
    let (pointer, align) = (memory.0, memory.1.min(natural(access.bytes())));
    if access.count == 1 {
        let ty = destination_type(lifter, access.data, access.ty);
        let value = read(lifter, ty, pointer, align)?;
        lifter.set(access.data, value, access.ty)?;
        return Ok(true);
    }
    let element = lifter.llvm_type(access.ty);
    let whole = vector(element, access.count);
    let value = read(lifter, whole, pointer, align)?.into_vector_value();
    for (index, data) in (0u64..).zip(elements(lifter, access.data)) {
        let index = lifter.globals.types.i32.const_int(index, false);
        let part = lifter.build(|b| b.build_extract_element(value, index, ""))?;
        lifter.set(data, part, access.ty)?;
    }
    Ok(true)
}

/// `st.param`: `false` when it is none.
///
/// # Errors
/// When LLVM's builder refuses something.
pub(crate) fn store<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let Some(access) = Access::new(mnemonic, operands).filter(|access| !access.load) else {
        return Ok(false);
    };
    let whole = match access.count {
        1 => source(lifter, access.data, access.ty)?,
        count => {
            let ty = vector(lifter.llvm_type(access.ty), count).into_vector_type();
            let mut whole = ty.get_poison();
            for (index, data) in (0u64..).zip(elements(lifter, access.data)) {
                let part = lifter.value(data, access.ty)?;
                let index = lifter.globals.types.i32.const_int(index, false);
                whole = lifter.build(|b| b.build_insert_element(whole, part, index, ""))?;
            }
            whole.into()
        }
    };
    let (pointer, align) = match access.place {
        Place::Symbol(symbol, offset) => {
            if frame::write(lifter, symbol, whole)? {
                return Ok(true);
            }
            match frame::find(lifter, symbol)? {
                Found::Memory(pointer, align) => {
                    (lifter.offset(pointer, offset)?, known(align, offset))
                }
                Found::Value(_) => {
                    return Err(lifter.inexpressible("a parameter cannot be written".into()));
                }
            }
        }
        Place::Computed(operand) => (computed(lifter, operand)?, u64::MAX),
    };
    let align = align.min(natural(access.bytes()));
    let store = lifter.build(|b| b.build_store(pointer, whole))?;
    _ = store.set_alignment(align as u32);
    Ok(true)
}

/// A value to store: an address stays one.
fn source<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
    ty: ScalarType,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    if let (Operand::Register(register), 8) = (operand, ty.bytes())
        && let BasicTypeEnum::PointerType(pointer) = lifter.register_type(*register)
        && is_wide(pointer)
    {
        return lifter.register(*register);
    }
    lifter.value(operand, ty)
}

/// The type in which to load for a destination: an address is loaded as one.
fn destination_type<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    operand: &Operand,
    ty: ScalarType,
) -> BasicTypeEnum<'ctx> {
    if let (Operand::Register(register), 8) = (operand, ty.bytes())
        && let BasicTypeEnum::PointerType(pointer) = lifter.register_type(*register)
        && is_wide(pointer)
    {
        return pointer.into();
    }
    lifter.llvm_type(ty)
}

/// A pointer of 64 bits that memory holds as it is: generic or global.
fn is_wide(pointer: PointerType<'_>) -> bool {
    let space = pointer.get_address_space();
    space == AddressSpace::default() || space == AddressSpace::from(1u16)
}

fn read<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    ty: BasicTypeEnum<'ctx>,
    pointer: PointerValue<'ctx>,
    align: u64,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let value = lifter.build(|b| b.build_load(ty, pointer, ""))?;
    if let Some(load) = value.as_instruction_value() {
        _ = load.set_alignment(align as u32);
    }
    Ok(value)
}

/// An address in a register: of a kernel's parameters, or (in functions) of the stack, where their parameters are.
fn computed<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
) -> Result<PointerValue<'ctx>, LiftError> {
    let space = match lifter.source.entry {
        true => Space::Param,
        false => Space::Local,
    };
    lifter.address(operand, Some(space))
}

fn elements<'m>(lifter: &Lifter<'_, 'm>, operand: &'m Operand) -> &'m [Operand] {
    match *operand {
        Operand::Vector(first, len) => lifter.body.list(first, len),
        _ => std::slice::from_ref(operand),
    }
}

fn vector(element: BasicTypeEnum<'_>, count: u8) -> BasicTypeEnum<'_> {
    let count = u32::from(count);
    match element {
        BasicTypeEnum::FloatType(ty) => ty.vec_type(count).as_basic_type_enum(),
        BasicTypeEnum::IntType(ty) => ty.vec_type(count).as_basic_type_enum(),
        other => other,
    }
}

/// The alignment of a place in memory of which the start's is known.
fn known(align: u64, offset: i64) -> u64 {
    match offset {
        0 => align,
        offset => align.min(1 << offset.trailing_zeros()),
    }
}

/// The alignment that PTX asks of an access.
fn natural(bytes: u64) -> u64 {
    1 << bytes.max(1).ilog2().min(5)
}
