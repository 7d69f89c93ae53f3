//! Operands as LLVM values, and registers as what they hold at the moment.

use inkwell::builder::{Builder, BuilderError};
use inkwell::types::{AsTypeRef, BasicTypeEnum, FloatType, IntType, PointerType};
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValueEnum, FloatValue, IntValue, PointerValue,
};
use r3_ptx::isa::{ScalarType, Space, SpecialRegister};
use r3_ptx::typed::{Operand, RegId, Symbol};

use super::function::Lifter;
use super::globals::address_space;
use super::variables;
use crate::error::LiftError;

impl<'ctx> Lifter<'ctx, '_> {
    /// An operand as a value of a type: integers and bits as `iN`, `.f32`/`.f64` as `float`/`double`, `.f16`/`.bf16` as `half`/
    /// `bfloat`, packed types as `iN`, `.pred` as `i1` (`!%p` included). A register of another class is taken bit by bit;
    /// a wider register is cut.
    pub fn value(
        &mut self,
        operand: &Operand,
        ty: ScalarType,
    ) -> Result<BasicValueEnum<'ctx>, LiftError> {
        let wanted = self.llvm_type(ty);
        let raw = match *operand {
            Operand::Register(register) => self.register(register)?,
            Operand::NotRegister(register) => {
                let value = self.register(register)?;
                let value = self.cast(value, self.globals.types.i1.into(), false)?;
                let value = value.into_int_value();
                return Ok(self.build(|b| b.build_not(value, ""))?.into());
            }
            Operand::Number(bits) => return Ok(self.constant(bits, ty)),
            Operand::Special(register) => self.special(register)?,
            Operand::Address(symbol, offset) => {
                super::params::address_bits(self, symbol, offset)?.into()
            }
            Operand::Selected {
                register,
                negated: false,
                selector: None,
            } => self.register(register)?,
            Operand::Sink => wanted.const_zero(),
            _ => return Err(self.inexpressible(format!("{operand:?} is no value"))),
        };
        self.cast(raw, wanted, false)
    }

    /// An operand as an integer of so many bits.
    pub fn integer(&mut self, operand: &Operand, bits: u32) -> Result<IntValue<'ctx>, LiftError> {
        let ty = self.globals.types.int(self.context, bits);
        if let Operand::Number(number) = operand {
            return Ok(ty.const_int(*number, false));
        }
        let scalar = match bits {
            1 => ScalarType::Pred,
            8 => ScalarType::B8,
            16 => ScalarType::B16,
            32 => ScalarType::B32,
            128 => ScalarType::B128,
            _ => ScalarType::B64,
        };
        let value = self.value(operand, scalar)?;
        Ok(self.cast(value, ty.into(), false)?.into_int_value())
    }

    /// An operand as a float of a type (`half`, `bfloat`, `float`, `double`).
    pub fn float(
        &mut self,
        operand: &Operand,
        ty: ScalarType,
    ) -> Result<FloatValue<'ctx>, LiftError> {
        match self.value(operand, ty)? {
            BasicValueEnum::FloatValue(value) => Ok(value),
            _ => Err(self.inexpressible(format!(".{ty} is no floating-point type"))),
        }
    }

    /// A predicate operand, negated if it is `!%p`.
    pub fn predicate(&mut self, operand: &Operand) -> Result<IntValue<'ctx>, LiftError> {
        Ok(self.value(operand, ScalarType::Pred)?.into_int_value())
    }

    /// Address of a memory operand in a space (`None` is generic), as a pointer of that address space: rooted where it can
    /// be, else made of an integer.
    pub fn address(
        &mut self,
        operand: &Operand,
        space: Option<Space>,
    ) -> Result<PointerValue<'ctx>, LiftError> {
        let number = address_space(space.unwrap_or(Space::Generic));
        let ty = self.globals.types.pointer(number);
        match *operand {
            Operand::MemoryRegister(register, offset) => {
                if let Some(pointer) = self.pointer(register)? {
                    let pointer = self.in_space(pointer, number)?;
                    return self.offset(pointer, offset);
                }
                let bits = self.register_bits(register);
                let value = self.integer(&Operand::Register(register), bits)?;
                let pointer = self.build(|b| b.build_int_to_ptr(value, ty, ""))?;
                self.offset(pointer, offset)
            }
            Operand::MemorySymbol(symbol, offset) | Operand::Address(symbol, offset) => {
                let pointer = self.symbol_address(symbol, offset)?;
                self.in_space(pointer, number)
            }
            Operand::MemoryAbsolute(at) => {
                let value = self.globals.types.i64.const_int(at, false);
                Ok(value.const_to_pointer(ty))
            }
            _ => Err(self.inexpressible(format!("{operand:?} is no address"))),
        }
    }

    /// Writes a destination register (or `_`). The value may have another class than the register: same bits are cast; an
    /// integer narrower than the register is sign-extended if `ty` is signed, else zero-extended.
    pub fn set(
        &mut self,
        operand: &Operand,
        value: BasicValueEnum<'ctx>,
        ty: ScalarType,
    ) -> Result<(), LiftError> {
        match *operand {
            Operand::Register(register) | Operand::Selected { register, .. } => {
                let wanted = self.register_type(register);
                let value = self.cast(value, wanted, ty.is_signed())?;
                self.set_register(register, value)
            }
            Operand::Sink => Ok(()),
            _ => Err(self.inexpressible(format!("{operand:?} is no destination"))),
        }
    }

    /// Writes a pointer register that [`pointers`](super::pointers) found.
    pub fn set_pointer(
        &mut self,
        register: RegId,
        value: PointerValue<'ctx>,
    ) -> Result<(), LiftError> {
        let wanted = self.register_type(register);
        let value = match wanted {
            BasicTypeEnum::PointerType(ty) => {
                let number = pointer_space(ty);
                self.in_space(value, number)?.into()
            }
            _ => self.cast(value.into(), wanted, false)?,
        };
        self.set_register(register, value)
    }

    /// What a register that holds an address holds; `None` when it is a plain integer.
    pub fn pointer(&mut self, register: RegId) -> Result<Option<PointerValue<'ctx>>, LiftError> {
        if self.pointer_space(register).is_none() {
            return Ok(None);
        }
        match self.register(register)? {
            BasicValueEnum::PointerValue(pointer) => Ok(Some(pointer)),
            _ => Ok(None),
        }
    }

    /// The space into which a register points, if it was found to hold an address.
    pub fn pointer_space(&self, register: RegId) -> Option<Space> {
        self.roots.and_then(|roots| roots.register(register))
    }

    /// LLVM's type of a PTX type, as [`value`](Self::value) gives it.
    pub fn llvm_type(&self, ty: ScalarType) -> BasicTypeEnum<'ctx> {
        self.globals.types.value(self.context, ty)
    }

    /// A number as a constant of a type.
    pub fn constant(&self, bits: u64, ty: ScalarType) -> BasicValueEnum<'ctx> {
        let wanted = self.llvm_type(ty);
        let int = |bits_of: u32| {
            let int = self.globals.types.int(self.context, bits_of);
            int.const_int(bits, false)
        };
        match wanted {
            BasicTypeEnum::IntType(int) => int.const_int(bits, false).into(),
            BasicTypeEnum::FloatType(float) => bit_cast(int(ty.bits()), float),
            other => other.const_zero(),
        }
    }

    /// Calls an LLVM intrinsic by name, with its overloaded types. `None` when this LLVM does not know it.
    ///
    /// An intrinsic without a result gives a zero of type `i1`.
    pub fn intrinsic(
        &mut self,
        name: &str,
        overloads: &[BasicTypeEnum<'ctx>],
        arguments: &[BasicValueEnum<'ctx>],
    ) -> Result<Option<BasicValueEnum<'ctx>>, LiftError> {
        let Some(function) = self.globals.intrinsic(self.llvm, name, overloads) else {
            return Ok(None);
        };
        if function.count_params() as usize != arguments.len() {
            return Err(self.inexpressible(format!("`{name}` takes other arguments")));
        }
        let mut list: [BasicMetadataValueEnum<'ctx>; 8] =
            [self.globals.types.i1.const_zero().into(); 8];
        let call = match list.get_mut(..arguments.len()) {
            Some(list) => {
                for (slot, argument) in list.iter_mut().zip(arguments) {
                    *slot = (*argument).into();
                }
                let list = &*list;
                self.build(|b| b.build_call(function, list, ""))?
            }
            None => {
                let list: Vec<_> = arguments.iter().map(|a| (*a).into()).collect();
                self.build(|b| b.build_call(function, &list, ""))?
            }
        };
        let nothing = self.globals.types.i1.const_zero().into();
        Ok(Some(call.try_as_basic_value().basic().unwrap_or(nothing)))
    }

    /// Builds in the entry block, where it is executed once a thread: allocations above all.
    pub fn at_entry<T>(
        &self,
        make: impl FnOnce(&Builder<'ctx>) -> Result<T, BuilderError>,
    ) -> Result<T, LiftError> {
        make(&self.entry_builder).map_err(|error| self.failed(error))
    }

    /// What a register holds at this place. One that nothing has written holds a value that is the same for all readers.
    pub fn register(&mut self, register: RegId) -> Result<BasicValueEnum<'ctx>, LiftError> {
        self.slot(register.0)
    }

    /// Whether something has been written into a register.
    pub fn holds(&self, register: u32) -> bool {
        matches!(self.values.get(register as usize), Some(Some(_)))
    }

    /// What a register, or the carry flag, holds.
    pub fn slot(&mut self, slot: u32) -> Result<BasicValueEnum<'ctx>, LiftError> {
        if let Some(Some(value)) = self.values.get(slot as usize) {
            return Ok(*value);
        }
        if let Some(Some(value)) = self.unwritten.get(slot as usize) {
            return Ok(*value);
        }
        let ty = self.slot_type(slot);
        let value = self.freeze_poison(ty);
        if let Some(place) = self.unwritten.get_mut(slot as usize) {
            *place = Some(value);
        }
        Ok(value)
    }

    /// Writes a register, of which the value must have the type; under a guard that selects, keeps the old value where it is
    /// false.
    pub fn set_register(
        &mut self,
        register: RegId,
        value: BasicValueEnum<'ctx>,
    ) -> Result<(), LiftError> {
        self.set_slot(register.0, value)
    }

    /// Writes a register or the carry flag.
    pub fn set_slot(
        &mut self,
        slot: u32,
        mut value: BasicValueEnum<'ctx>,
    ) -> Result<(), LiftError> {
        if let Some((guard, negated)) = self.select {
            let old = self.slot(slot)?;
            if old.get_type() != value.get_type() {
                return Err(self.inexpressible("a register changes its type".into()));
            }
            let (then, otherwise) = match negated {
                true => (old, value),
                false => (value, old),
            };
            value = self.build(|b| b.build_select(guard, then, otherwise, ""))?;
        }
        self.write_slot(slot, value);
        Ok(())
    }

    /// The type of the values of a register.
    pub fn register_type(&self, register: RegId) -> BasicTypeEnum<'ctx> {
        self.slot_type(register.0)
    }

    pub(super) fn slot_type(&self, slot: u32) -> BasicTypeEnum<'ctx> {
        if let Some(space) = self.pointer_space(RegId(slot)) {
            return self.globals.types.pointer(address_space(space)).into();
        }
        match self.body.registers.get(slot as usize) {
            Some(register) => self.globals.types.register(self.context, register.ty),
            None => self.globals.types.i1.into(),
        }
    }

    /// Bits of a register.
    pub fn register_bits(&self, register: RegId) -> u32 {
        let register = self.body.registers.get(register.0 as usize);
        register.map_or(32, |register| register.ty.bits())
    }

    /// The same bits as another type; cut or extended where the widths differ.
    pub fn cast(
        &mut self,
        value: BasicValueEnum<'ctx>,
        wanted: BasicTypeEnum<'ctx>,
        signed: bool,
    ) -> Result<BasicValueEnum<'ctx>, LiftError> {
        if value.get_type() == wanted {
            return Ok(value);
        }
        if let (BasicValueEnum::PointerValue(pointer), BasicTypeEnum::PointerType(ty)) =
            (value, wanted)
        {
            return Ok(self.in_space(pointer, pointer_space(ty))?.into());
        }
        let bits = self.as_integer(value)?;
        let have = bits.get_type().get_bit_width();
        let want = match wanted {
            BasicTypeEnum::IntType(ty) => ty.get_bit_width(),
            BasicTypeEnum::FloatType(ty) => self.float_bits(ty),
            _ => have,
        };
        let types = self.globals.types;
        let int = types.int(self.context, want);
        let bits = match have.cmp(&want) {
            std::cmp::Ordering::Equal => bits,
            std::cmp::Ordering::Greater => self.build(|b| b.build_int_truncate(bits, int, ""))?,
            std::cmp::Ordering::Less if signed => {
                self.build(|b| b.build_int_s_extend(bits, int, ""))?
            }
            std::cmp::Ordering::Less => self.build(|b| b.build_int_z_extend(bits, int, ""))?,
        };
        match wanted {
            BasicTypeEnum::IntType(_) => Ok(bits.into()),
            BasicTypeEnum::PointerType(ty) => {
                Ok(self.build(|b| b.build_int_to_ptr(bits, ty, ""))?.into())
            }
            other => self.build(|b| b.build_bit_cast(bits, other, "")),
        }
    }

    /// The bits of a value.
    fn as_integer(&mut self, value: BasicValueEnum<'ctx>) -> Result<IntValue<'ctx>, LiftError> {
        let types = self.globals.types;
        match value {
            BasicValueEnum::IntValue(value) => Ok(value),
            BasicValueEnum::FloatValue(float) => {
                let int = types.int(self.context, self.float_bits(float.get_type()));
                let value = self.build(|b| b.build_bit_cast(float, int, ""))?;
                Ok(value.into_int_value())
            }
            BasicValueEnum::PointerValue(pointer) => {
                let int = self.pointer_int(pointer_space(pointer.get_type()));
                self.build(|b| b.build_ptr_to_int(pointer, int, ""))
            }
            other => {
                let ty = other.get_type();
                match ty {
                    BasicTypeEnum::VectorType(vector) => {
                        let element = match vector.get_element_type() {
                            BasicTypeEnum::IntType(ty) => ty.get_bit_width(),
                            BasicTypeEnum::FloatType(ty) => self.float_bits(ty),
                            _ => return Err(self.inexpressible(format!("{ty} has no bits"))),
                        };
                        let int = types.int(self.context, element * vector.get_size());
                        let value = self.build(|b| b.build_bit_cast(other, int, ""))?;
                        Ok(value.into_int_value())
                    }
                    _ => Err(self.inexpressible(format!("{ty} has no bits"))),
                }
            }
        }
    }

    fn float_bits(&self, ty: FloatType<'ctx>) -> u32 {
        let types = &self.globals.types;
        match ty {
            ty if ty == types.float => 32,
            ty if ty == types.double => 64,
            _ => 16,
        }
    }

    /// The integer as wide as a pointer of an address space.
    pub fn pointer_int(&self, address_space: u16) -> IntType<'ctx> {
        match address_space {
            3 | 4 | 5 | 7 if self.globals.short_pointers => self.globals.types.i32,
            _ => self.globals.types.i64,
        }
    }

    /// A pointer in another address space.
    pub fn in_space(
        &mut self,
        pointer: PointerValue<'ctx>,
        address_space: u16,
    ) -> Result<PointerValue<'ctx>, LiftError> {
        if pointer_space(pointer.get_type()) == address_space {
            return Ok(pointer);
        }
        let ty = self.globals.types.pointer(address_space);
        self.build(|b| b.build_address_space_cast(pointer, ty, ""))
    }

    /// A pointer some bytes further. Nothing is promised about the object.
    pub fn offset(
        &mut self,
        pointer: PointerValue<'ctx>,
        bytes: i64,
    ) -> Result<PointerValue<'ctx>, LiftError> {
        if bytes == 0 {
            return Ok(pointer);
        }
        let int = self.pointer_int(pointer_space(pointer.get_type()));
        let index = int.const_int(bytes as u64, true);
        self.offset_by(pointer, index)
    }

    /// A pointer some bytes further.
    pub fn offset_by(
        &mut self,
        pointer: PointerValue<'ctx>,
        bytes: IntValue<'ctx>,
    ) -> Result<PointerValue<'ctx>, LiftError> {
        let byte = self.globals.types.i8;
        // SAFETY: `i8` is a sized type and there is one index, as a byte-wise step needs.
        self.build(|b| unsafe { b.build_gep(byte, pointer, &[bytes], "") })
    }

    /// Address of something with a name.
    pub fn symbol_address(
        &mut self,
        symbol: Symbol,
        offset: i64,
    ) -> Result<PointerValue<'ctx>, LiftError> {
        let pointer = match symbol {
            Symbol::Function(id) => match self.globals.function(id) {
                Some(function) => function.as_global_value().as_pointer_value(),
                None => return Err(self.inexpressible("a function without declaration".into())),
            },
            _ => variables::symbol(self, symbol)?,
        };
        self.offset(pointer, offset)
    }

    /// A special register.
    pub fn special(
        &mut self,
        register: SpecialRegister,
    ) -> Result<BasicValueEnum<'ctx>, LiftError> {
        if let Some(function) = self.globals.special(self.llvm, register) {
            let call = self.build(|b| b.build_call(function, &[], ""))?;
            if let Some(value) = call.try_as_basic_value().basic() {
                return Ok(value);
            }
        }
        super::asm::special(self, register)
    }

    /// A value of which nothing is known, but that is the same wherever it is used.
    fn freeze_poison(&self, ty: BasicTypeEnum<'ctx>) -> BasicValueEnum<'ctx> {
        let poison: BasicValueEnum<'ctx> = match ty {
            BasicTypeEnum::IntType(ty) => ty.get_poison().into(),
            BasicTypeEnum::FloatType(ty) => ty.get_poison().into(),
            BasicTypeEnum::PointerType(ty) => ty.get_poison().into(),
            other => other.const_zero(),
        };
        let builder = self.entry_builder.as_mut_ptr();
        // SAFETY: the builder stands before the terminator of the entry block of the function; `poison` is a value of the
        // same context.
        unsafe {
            let value =
                llvm_sys::core::LLVMBuildFreeze(builder, poison.as_value_ref(), c"".as_ptr());
            BasicValueEnum::new(value)
        }
    }

    /// An error of LLVM's builder, with its place.
    pub fn failed(&self, error: BuilderError) -> LiftError {
        LiftError::Build {
            function: self.source.name.to_string(),
            pos: self.instruction.pos,
            instruction: self.mnemonic_text().to_owned(),
            reason: error.to_string(),
        }
    }

    /// An error: something cannot be expressed.
    pub fn inexpressible(&self, what: String) -> LiftError {
        LiftError::Inexpressible {
            function: self.source.name.to_string(),
            pos: self.instruction.pos,
            what: format!("`{}`: {what}", self.mnemonic_text()),
        }
    }

    fn mnemonic_text(&self) -> &str {
        let mnemonic = self
            .module
            .mnemonics
            .get(self.instruction.mnemonic.0 as usize);
        mnemonic.map_or("", |mnemonic| mnemonic.text())
    }

    /// Builds something at the current place.
    pub fn build<T>(
        &self,
        make: impl FnOnce(&Builder<'ctx>) -> Result<T, BuilderError>,
    ) -> Result<T, LiftError> {
        make(&self.builder).map_err(|error| self.failed(error))
    }
}

/// LLVM's number of a pointer's address space.
pub(crate) fn pointer_space(ty: PointerType<'_>) -> u16 {
    // SAFETY: the type is a pointer type that lives as long as its context.
    let number = unsafe { llvm_sys::core::LLVMGetPointerAddressSpace(ty.as_type_ref()) };
    // The lifter makes none above 101.
    number as u16
}

/// A constant's bits as a float.
fn bit_cast<'ctx>(bits: IntValue<'ctx>, float: FloatType<'ctx>) -> BasicValueEnum<'ctx> {
    // SAFETY: both have the same width and are of the same context; a cast of a constant is a constant.
    unsafe {
        BasicValueEnum::new(llvm_sys::core::LLVMConstBitCast(
            bits.as_value_ref(),
            float.as_type_ref(),
        ))
    }
}
