//! Operands as text of assembly.

use std::fmt::Write;

use inkwell::values::PointerValue;
use r3_ptx::isa::{Access, Count, Mnemonic, OperandKind, OperandSpec, ScalarType, TypeKind};
use r3_ptx::typed::{Operand, RegId, Symbol};

use super::Assembly;
use crate::error::LiftError;
use crate::lift::function::Lifter;
use crate::lift::operand::pointer_space;
use crate::lift::params;
use crate::lift::ssa::access;

/// Writes operands of one place.
pub(super) struct Writer<'w, 'ctx, 'm> {
    pub assembly: &'w mut Assembly<'ctx>,
    pub lifter: &'w mut Lifter<'ctx, 'm>,
    pub mnemonic: &'w Mnemonic,
    pub spec: &'w OperandSpec,
    /// Destinations may keep what they hold.
    pub keeps: bool,
}

impl<'ctx> Writer<'_, 'ctx, '_> {
    fn put(&mut self, text: &str) {
        self.assembly.text.push_str(text);
    }

    /// Writes one operand.
    pub fn operand(&mut self, operand: &Operand) -> Result<(), LiftError> {
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
        if self.keeps || self.spec.access == Access::ReadWrite {
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
                let bits = params::address_bits(self.lifter, symbol, 0)?;
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

    fn pointer_class(&self, pointer: PointerValue<'ctx>) -> char {
        let space = pointer_space(pointer.get_type());
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
            count: Count::Parts,
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
