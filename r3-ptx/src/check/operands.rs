//! Operands against their places in a form.

use super::function::{BodyChecker, Target};
use super::names::Entity;
use super::{CheckError, numbers};
use crate::isa::{
    Access, Count, Mnemonic, Numbers, Opcode, OperandKind, OperandSpec, Place, Presence,
    ScalarType, Space, TypeKind, TypeRule, Word,
};
use crate::tree::{self, Name, Number};
use crate::typed::{Operand, RegId, Symbol};

/// Why an operand does not fit.
pub(super) enum Misfit {
    /// Something else was expected.
    Expected { expected: String, found: String },
    /// Another error of its own.
    Other(CheckError),
}

impl From<CheckError> for Misfit {
    fn from(error: CheckError) -> Self {
        Self::Other(error)
    }
}

impl Misfit {
    pub(super) fn at(self, mnemonic: &Mnemonic, number: usize) -> CheckError {
        match self {
            Self::Other(error) => error,
            Self::Expected { expected, found } => CheckError::Operand {
                mnemonic: mnemonic.text().into(),
                number,
                expected: expected.into(),
                found: found.into(),
            },
        }
    }
}

type Made = Result<Operand, Misfit>;

/// Whether a register may hold a value of the type.
pub(super) fn compatible(register: ScalarType, ty: ScalarType, relaxed: bool) -> bool {
    if register == ty {
        return true;
    }
    if register == ScalarType::Pred || ty == ScalarType::Pred {
        return false;
    }
    let fits = match relaxed {
        true => register.bytes() >= ty.bytes(),
        false => register.bytes() == ty.bytes(),
    };
    // A wider register takes any untyped value; of one size, untyped goes with all.
    fits && (register.is_bits() || ty.is_bits() || (register.is_integer() && ty.is_integer()))
}

/// One scalar place: what may stand there.
#[derive(Clone, Copy)]
struct Scalar {
    ty: ScalarType,
    relaxed: bool,
    write: bool,
    sink: bool,
    address: bool,
    special: bool,
}

impl Scalar {
    fn read(ty: ScalarType) -> Self {
        Self {
            ty,
            relaxed: false,
            write: false,
            sink: false,
            address: false,
            special: false,
        }
    }

    fn expected(self) -> String {
        let wide = if self.relaxed { " or wider" } else { "" };
        match (self.ty, self.write) {
            (ScalarType::Pred, _) => "a predicate register (.pred)".into(),
            (ty, true) => format!("a register of type .{ty}{wide}"),
            (ty, false) => format!("a register of type .{ty}{wide} or a number"),
        }
    }
}

impl<'t> BodyChecker<'_, 't> {
    pub(super) fn operand(
        &mut self,
        mnemonic: &Mnemonic,
        spec: &OperandSpec,
        operand: &tree::Operand,
    ) -> Made {
        let Some(second) = spec.second else {
            return self.single(mnemonic, spec, operand, false);
        };
        match operand {
            tree::Operand::Pair(range) => {
                let [first, after] = self.body.range(*range) else {
                    return self.expected("two destinations", operand);
                };
                let first = self.single(mnemonic, spec, first, true)?;
                let place = Scalar {
                    write: true,
                    sink: true,
                    ..Scalar::read(ScalarType::Pred)
                };
                let after = self.scalar(place, after)?;
                let at = self.out.operands.len() as u32;
                self.out.operands.extend([first, after]);
                Ok(Operand::Pair(at))
            }
            _ if second == Presence::Always => self.expected("two destinations `d|p`", operand),
            _ => self.single(mnemonic, spec, operand, false),
        }
    }

    fn single(
        &mut self,
        mnemonic: &Mnemonic,
        spec: &OperandSpec,
        operand: &tree::Operand,
        in_pair: bool,
    ) -> Made {
        use OperandKind as K;
        let write = matches!(spec.access, Access::Write | Access::ReadWrite);
        match spec.kind {
            K::Value {
                ty,
                relaxed,
                count,
                address,
                sink,
            } => {
                let opcode = mnemonic.opcode();
                let place = Scalar {
                    ty: self.ty(mnemonic, ty)?,
                    relaxed,
                    write,
                    sink: sink || in_pair,
                    address,
                    special: matches!(opcode, Opcode::Mov | Opcode::Cvt) && !write,
                };
                match count {
                    Count::Parts => self.parts(place, operand),
                    _ => match mnemonic.count(count) {
                        Some(n) => self.vector(place, n, operand),
                        None => self.scalar_or_braced(place, operand),
                    },
                }
            }
            K::Predicate => self.predicate(operand),
            K::Immediate(allowed) => self.immediate(allowed, operand),
            K::Bounded(allowed, ty) => match operand {
                tree::Operand::Number(_) | tree::Operand::WarpSize => {
                    self.immediate(allowed, operand)
                }
                _ => self.scalar(Scalar::read(ty), operand),
            },
            K::Selected(ty, negatable) => self.selected(mnemonic, ty, negatable, write, operand),
            K::Fragment(matrix) => {
                let Some((ty, n)) = mnemonic.fragment(matrix) else {
                    return self.expected("registers of a matrix", operand);
                };
                let place = Scalar {
                    write,
                    ..Scalar::read(ty)
                };
                // One register needs no braces.
                match (n, operand) {
                    (1, tree::Operand::Name(_) | tree::Operand::Number(_)) => {
                        self.scalar(place, operand)
                    }
                    _ => self.vector(place, n, operand),
                }
            }
            K::Memory(place) => self.memory(mnemonic, place, operand),
            K::TensorMap => self.tensor_map(mnemonic, operand),
            K::Texture => self.texture(operand, 3),
            K::Surface => self.texture(operand, 2),
            K::Handle => self.handle(spec.access == Access::Address, operand),
            K::GenericAddress => self.generic_address(operand),
            K::Im2colOffsets => self.any_vector(ScalarType::U16, &[1, 2, 3], operand),
            K::LaneMask => self.any_vector(ScalarType::B32, &[4, 8], operand),
            K::SourceSize => match self.predicate(operand) {
                Ok(made @ (Operand::Register(_) | Operand::NotRegister(_))) => Ok(made),
                _ => self.scalar(Scalar::read(ScalarType::U32), operand),
            },
            K::Gradient => self.scalar_or_vector(ScalarType::F32, operand),
            K::TexelOffset => self.scalar_or_vector(ScalarType::S32, operand),
            K::Depth => self.scalar(Scalar::read(ScalarType::F32), operand),
            K::Label => match operand {
                tree::Operand::Name(name) => Ok(Operand::Label(self.label(*name)?)),
                _ => self.expected("a label", operand),
            },
            K::BranchTargets => match operand {
                tree::Operand::Name(name) => match self.target(*name) {
                    Some(Target::BranchTable(table)) => Ok(Operand::BranchTable(table)),
                    _ => Err(self.unknown("list of branch targets", *name)),
                },
                _ => self.expected("the label of a .branchtargets list", operand),
            },
            K::Call => self.expected("a call", operand),
        }
    }

    fn ty(&self, mnemonic: &Mnemonic, rule: TypeRule) -> Result<ScalarType, Misfit> {
        // Each form has a place for each type that its operands name: a test watches over it.
        mnemonic.resolve(rule).ok_or_else(|| {
            Misfit::Other(CheckError::Form {
                opcode: mnemonic.opcode().text(),
                mnemonic: mnemonic.text().into(),
                nearest: "one with a type".into(),
            })
        })
    }

    pub(super) fn unknown(&self, what: &'static str, name: Name) -> Misfit {
        Misfit::Other(CheckError::Unknown {
            what,
            name: self.checker.text(name).into(),
        })
    }

    fn expected<T>(&mut self, expected: &str, operand: &tree::Operand) -> Result<T, Misfit> {
        let found = self.describe(operand)?;
        Err(Misfit::Expected {
            expected: expected.into(),
            found,
        })
    }

    /// What an operand is, for messages. An unknown name is an error of its own.
    fn describe(&mut self, operand: &tree::Operand) -> Result<String, CheckError> {
        use tree::Operand as O;
        let text = |name: Name| self.checker.tree.name(name);
        Ok(match *operand {
            O::Name(name) | O::Not(name) if self.target(name).is_none() => {
                match self.resolve(name)? {
                    Entity::Register { ty, vector: 1, .. } => {
                        format!("`{}` of type .{ty}", text(name))
                    }
                    Entity::Register { ty, vector, .. } => {
                        format!("`{}` of type .v{vector} .{ty}", text(name))
                    }
                    other => format!("`{}`, {}", text(name), other.what()),
                }
            }
            O::Name(name) | O::Not(name) => format!("the label `{}`", text(name)),
            O::Element(name, _) => match self.resolve(name)? {
                Entity::Register { ty, .. } => format!("an element of `{}`, .{ty}", text(name)),
                other => format!("`{}`, {}", text(name), other.what()),
            },
            O::Selected { name, .. } => format!("`{}` with a selector or a sign", text(name)),
            O::Special(register) => format!("`{register}` of type .{}", register.ty()),
            O::Number(number) => numbers::describe(number),
            O::Offset(name, _) => format!("an address in `{}`", text(name)),
            O::Sink => "`_`".into(),
            O::WarpSize => "`WARP_SZ`".into(),
            O::Pair(_) => "two destinations".into(),
            O::Vector(range) => match range.len {
                1 => "1 operand in braces".into(),
                n => format!("{n} operands in braces"),
            },
            O::List(_) => "a list of a call".into(),
            O::Index(_) => "an element of an array".into(),
            O::Address(name, _) | O::AddressPlusZero(name) => {
                format!("an address, `[{}…]`", text(name))
            }
            O::AbsoluteAddress(at) => format!("the address [{at}]"),
            O::AddressList(_) => "an address with coordinates".into(),
        })
    }

    fn scalar_or_braced(&mut self, place: Scalar, operand: &tree::Operand) -> Made {
        // `{%r1}` is `%r1`: compilers write vectors of one element so.
        if let tree::Operand::Vector(range) = operand
            && let [only] = self.body.range(*range)
        {
            return self.scalar(place, only);
        }
        self.scalar(place, operand)
    }

    /// One register or number.
    fn scalar(&mut self, place: Scalar, operand: &tree::Operand) -> Made {
        use tree::Operand as O;
        match *operand {
            O::Name(name) => match self.resolve(name)? {
                Entity::Register {
                    first,
                    vector: 1,
                    ty,
                } if compatible(ty, place.ty, place.relaxed) => Ok(Operand::Register(first)),
                entity if place.address && !place.write => {
                    self.symbol_value(place, entity, 0, operand)
                }
                _ => self.expected(&place.expected(), operand),
            },
            O::Element(name, element) => match self.resolve(name)? {
                Entity::Register { first, vector, ty }
                    if element < vector && compatible(ty, place.ty, place.relaxed) =>
                {
                    Ok(Operand::Register(RegId(first.0 + u32::from(element))))
                }
                _ => self.expected(&place.expected(), operand),
            },
            O::Number(number) if !place.write => match numbers::bits(number, place.ty) {
                Some(bits) => Ok(Operand::Number(bits)),
                None => self.expected(&place.expected(), operand),
            },
            O::WarpSize if !place.write && place.ty != ScalarType::Pred => {
                Ok(Operand::Number(numbers::cut(32, place.ty)))
            }
            O::Sink if place.write && place.sink => Ok(Operand::Sink),
            O::Not(name) if place.ty == ScalarType::Pred && !place.write => {
                match self.resolve(name)? {
                    Entity::Register {
                        first,
                        vector: 1,
                        ty: ScalarType::Pred,
                    } => Ok(Operand::NotRegister(first)),
                    _ => self.expected(&place.expected(), operand),
                }
            }
            O::Special(register) => {
                let ty = register.ty();
                let names = &mut self.checker.names;
                match names.hiding(&register.to_string(), &mut self.out.registers) {
                    Some(Entity::Register {
                        first,
                        vector: 1,
                        ty,
                    }) if compatible(ty, place.ty, place.relaxed) => {
                        return Ok(Operand::Register(first));
                    }
                    None if place.special => {}
                    _ => return self.expected(&place.expected(), operand),
                }
                // `%tid.x` had 16 bits once.
                let old = place.ty.bytes() == 2 && ty == ScalarType::U32;
                if register.vector() == 1 && (old || compatible(ty, place.ty, false)) {
                    return Ok(Operand::Special(register));
                }
                self.expected(&place.expected(), operand)
            }
            O::Offset(name, offset) if place.address && !place.write => {
                let entity = self.resolve(name)?;
                self.symbol_value(place, entity, offset, operand)
            }
            O::Index(range) if place.address && !place.write => {
                let (symbol, offset) = self.element_of_array(range, operand)?;
                Ok(Operand::Address(symbol, offset))
            }
            _ => self.expected(&place.expected(), operand),
        }
    }

    fn symbol_value(
        &mut self,
        place: Scalar,
        entity: Entity,
        offset: i64,
        operand: &tree::Operand,
    ) -> Made {
        let holds = place.ty.bytes() >= 4 && (place.ty.is_bits() || place.ty.is_integer());
        match symbol(entity) {
            Some(symbol) if holds => Ok(Operand::Address(symbol, offset)),
            _ => self.expected(&place.expected(), operand),
        }
    }

    /// `array[3]`: the array, and the offset of the element in bytes.
    fn element_of_array(
        &mut self,
        range: tree::Range,
        operand: &tree::Operand,
    ) -> Result<(Symbol, i64), Misfit> {
        if let [tree::Operand::Name(name), tree::Operand::Number(number)] = self.body.range(range) {
            let entity = self.resolve(*name)?;
            let size = match entity {
                Entity::Variable(id) => self.checker.out.variables.get(id.0 as usize),
                Entity::Local(id) => self.out.locals.get(id.0 as usize),
                _ => None,
            }
            .map(|v| (v.ty.bytes() * u64::from(v.vector)) as i64);
            if let (Some(symbol), Some(size), Some(index)) =
                (symbol(entity), size, numbers::integer(*number))
                && let Some(offset) = index.checked_mul(size)
            {
                return Ok((symbol, offset));
            }
        }
        self.expected("an array with a number as its index", operand)
    }

    /// So many registers in braces, or a vector register.
    fn vector(&mut self, place: Scalar, n: usize, operand: &tree::Operand) -> Made {
        let expected = format!("{n} of: {}", place.expected());
        let mut made = Vec::with_capacity(n);
        match *operand {
            tree::Operand::Vector(range) if range.len as usize == n => {
                // Elements that are not wanted may be `_` in loads.
                let place = Scalar {
                    sink: true,
                    ..place
                };
                for operand in self.body.range(range) {
                    made.push(self.scalar(place, operand)?);
                }
            }
            tree::Operand::Name(name) => match self.resolve(name)? {
                Entity::Register { first, vector, ty }
                    if usize::from(vector) == n && compatible(ty, place.ty, place.relaxed) =>
                {
                    let elements = (0..u32::from(vector)).map(|i| RegId(first.0 + i));
                    made.extend(elements.map(Operand::Register));
                }
                _ => return self.expected(&expected, operand),
            },
            tree::Operand::Special(register)
                if place.special && usize::from(register.vector()) == n =>
            {
                return Ok(Operand::Special(register));
            }
            tree::Operand::Sink if place.write && place.sink => return Ok(Operand::Sink),
            _ => return self.expected(&expected, operand),
        }
        Ok(self.store(&made))
    }

    fn store(&mut self, list: &[Operand]) -> Operand {
        let at = self.out.operands.len() as u32;
        self.out.operands.extend_from_slice(list);
        Operand::Vector(at, list.len() as u32)
    }

    /// One register, or parts in braces that are as large together.
    fn parts(&mut self, place: Scalar, operand: &tree::Operand) -> Made {
        let tree::Operand::Vector(range) = *operand else {
            return self.scalar(place, operand);
        };
        let bits = u32::from(place.ty.bits() as u16) / range.len.max(1);
        let part = match bits {
            8 => ScalarType::B8,
            16 => ScalarType::B16,
            32 => ScalarType::B32,
            64 => ScalarType::B64,
            _ => return self.expected(&place.expected(), operand),
        };
        if !matches!(range.len, 2 | 4 | 8) {
            let expected = format!("2 or 4 parts of .{}", place.ty);
            return self.expected(&expected, operand);
        }
        let place = Scalar {
            ty: part,
            sink: true,
            address: false,
            ..place
        };
        self.vector(place, range.len as usize, operand)
    }

    fn any_vector(&mut self, ty: ScalarType, counts: &[u32], operand: &tree::Operand) -> Made {
        match *operand {
            tree::Operand::Vector(range) if counts.contains(&range.len) => {
                self.vector(Scalar::read(ty), range.len as usize, operand)
            }
            _ => {
                let counts: Vec<_> = counts.iter().map(u32::to_string).collect();
                let expected = format!("{} values of .{ty} in braces", counts.join(" or "));
                self.expected(&expected, operand)
            }
        }
    }

    fn scalar_or_vector(&mut self, ty: ScalarType, operand: &tree::Operand) -> Made {
        match operand {
            tree::Operand::Vector(range) => {
                self.vector(Scalar::read(ty), range.len as usize, operand)
            }
            tree::Operand::Name(name) => match self.resolve(*name)? {
                Entity::Register { vector, .. } if vector > 1 => {
                    self.vector(Scalar::read(ty), usize::from(vector), operand)
                }
                _ => self.scalar(Scalar::read(ty), operand),
            },
            _ => self.scalar(Scalar::read(ty), operand),
        }
    }

    pub(super) fn predicate(&mut self, operand: &tree::Operand) -> Made {
        self.scalar(Scalar::read(ScalarType::Pred), operand)
    }

    fn immediate(&mut self, allowed: Numbers, operand: &tree::Operand) -> Made {
        let number = match operand {
            tree::Operand::Number(number) => numbers::integer(*number),
            tree::Operand::WarpSize => Some(32),
            _ => None,
        };
        match number {
            Some(number) if allowed.contains(number) => Ok(Operand::Number(number as u64)),
            _ => self.expected(&allowed.to_string(), operand),
        }
    }

    fn selected(
        &mut self,
        mnemonic: &Mnemonic,
        ty: TypeRule,
        negatable: bool,
        write: bool,
        operand: &tree::Operand,
    ) -> Made {
        let place = Scalar {
            write,
            ..Scalar::read(self.ty(mnemonic, ty)?)
        };
        let tree::Operand::Selected {
            name,
            negated,
            selector,
        } = *operand
        else {
            return self.scalar(place, operand);
        };
        if negated && !negatable {
            return self.expected("a register without a sign", operand);
        }
        match self.scalar(place, &tree::Operand::Name(name))? {
            Operand::Register(register) => Ok(Operand::Selected {
                register,
                negated,
                selector,
            }),
            _ => self.expected(&place.expected(), operand),
        }
    }

    /// A register that holds an address.
    fn address_register(&mut self, name: Name) -> Result<Option<RegId>, Misfit> {
        match self.resolve(name)? {
            Entity::Register {
                first,
                vector: 1,
                ty,
            } if ty.bytes() >= 4 && ty.bytes() <= 8 && (ty.is_bits() || ty.is_integer()) => {
                Ok(Some(first))
            }
            _ => Ok(None),
        }
    }

    fn memory(&mut self, mnemonic: &Mnemonic, place: Place, operand: &tree::Operand) -> Made {
        const EXPECTED: &str = "an address in brackets";
        let (name, offset) = match *operand {
            tree::Operand::Address(name, offset) => (name, offset),
            tree::Operand::AddressPlusZero(name) => (name, 0),
            tree::Operand::AbsoluteAddress(at) => return Ok(Operand::MemoryAbsolute(at)),
            tree::Operand::Index(range) => {
                let (symbol, offset) = self.element_of_array(range, operand)?;
                return Ok(Operand::MemorySymbol(symbol, offset));
            }
            _ => return self.expected(EXPECTED, operand),
        };
        if let Some(register) = self.address_register(name)? {
            return Ok(Operand::MemoryRegister(register, offset));
        }
        let entity = self.resolve(name)?;
        let Some(symbol) = symbol(entity) else {
            return self.expected("an address of 32 or 64 bits in brackets", operand);
        };
        let wanted = match place {
            Place::Nth(n) => mnemonic.spaces().nth(usize::from(n)),
            // Without a space among the modifiers, the address is generic.
            Place::In(space) => mnemonic.spaces().next().map(|_| space),
            Place::Tensor => return self.expected("a register with an address", operand),
        };
        let is = self.space_of(symbol);
        if let (Some(wanted), Some(is)) = (wanted, is) {
            let same = wanted == is
                || (wanted.is_shared() && is.is_shared())
                || (wanted.is_param() && is.is_param());
            if !same {
                let found = self.describe(operand)?;
                return Err(Misfit::Expected {
                    expected: format!("an address in .{}", wanted.text()),
                    found: format!("{found} in .{}", is.text()),
                });
            }
        }
        Ok(Operand::MemorySymbol(symbol, offset))
    }

    fn space_of(&self, symbol: Symbol) -> Option<Space> {
        match symbol {
            Symbol::Variable(id) => self
                .checker
                .out
                .variables
                .get(id.0 as usize)
                .map(|v| v.space),
            Symbol::Local(id) => self.out.locals.get(id.0 as usize).map(|v| v.space),
            Symbol::Param(_) | Symbol::Result(_) => Some(Space::Param),
            Symbol::Function(_) => None,
        }
    }

    fn generic_address(&mut self, operand: &tree::Operand) -> Made {
        if let tree::Operand::Name(name) = operand
            && let Some(register) = self.address_register(*name)?
        {
            return Ok(Operand::Register(register));
        }
        self.expected("a register with an address", operand)
    }

    /// A texture, sampler, surface, or a tensor map: by name or by a register.
    fn handle(&mut self, brackets: bool, operand: &tree::Operand) -> Made {
        let name = match (operand, brackets) {
            (tree::Operand::Address(name, _) | tree::Operand::AddressPlusZero(name), true)
            | (tree::Operand::Name(name), false) => *name,
            _ => return self.expected("a texture, sampler or surface, in brackets", operand),
        };
        if let Some(register) = self.address_register(name)? {
            return Ok(match brackets {
                true => Operand::MemoryRegister(register, 0),
                false => Operand::Register(register),
            });
        }
        match (symbol(self.resolve(name)?), brackets) {
            (Some(symbol), true) => Ok(Operand::MemorySymbol(symbol, 0)),
            (Some(symbol), false) => Ok(Operand::Address(symbol, 0)),
            _ => self.expected("a texture, sampler or surface", operand),
        }
    }

    /// `[texture, sampler, coordinates]`: at most so many entries.
    fn texture(&mut self, operand: &tree::Operand, most: u32) -> Made {
        let tree::Operand::AddressList(range) = *operand else {
            return self.expected("[object, coordinates]", operand);
        };
        let entries = self.body.range(range);
        if range.len < 2 || range.len > most {
            return self.expected(
                "[object, coordinates] or [texture, sampler, coordinates]",
                operand,
            );
        }
        let Some((coordinates, handles)) = entries.split_last() else {
            return self.expected("[object, coordinates]", operand);
        };
        let mut made = Vec::with_capacity(entries.len());
        for handle in handles {
            made.push(self.handle(false, handle)?);
        }
        made.push(self.scalar_or_vector(ScalarType::B32, coordinates)?);
        Ok(self.memory_list(&made))
    }

    fn memory_list(&mut self, made: &[Operand]) -> Operand {
        let at = self.out.operands.len() as u32;
        self.out.operands.extend_from_slice(made);
        Operand::MemoryList(at, made.len() as u32)
    }

    fn tensor_map(&mut self, mnemonic: &Mnemonic, operand: &tree::Operand) -> Made {
        let tree::Operand::AddressList(range) = *operand else {
            return self.expected("[tensor map, {coordinates}]", operand);
        };
        let [map, coordinates] = self.body.range(range) else {
            return self.expected("[tensor map, {coordinates}]", operand);
        };
        let (name, offset) = match *map {
            tree::Operand::Name(name) => (name, 0),
            tree::Operand::Offset(name, offset) => (name, offset),
            _ => return self.expected("a tensor map", map),
        };
        let map = match self.address_register(name)? {
            Some(register) => Operand::MemoryRegister(register, offset),
            None => match symbol(self.resolve(name)?) {
                Some(symbol) => Operand::MemorySymbol(symbol, offset),
                None => return self.expected("the address of a tensor map", operand),
            },
        };
        let place = Scalar::read(ScalarType::S32);
        let made = match (dimensions(mnemonic), coordinates) {
            (1, tree::Operand::Name(_) | tree::Operand::Number(_)) => {
                self.scalar(place, coordinates)?
            }
            (n, _) => self.vector(place, n, coordinates)?,
        };
        Ok(self.memory_list(&[map, made]))
    }
}

/// Coordinates of a tensor copy.
fn dimensions(mnemonic: &Mnemonic) -> usize {
    // Gather and scatter of four rows: a column, and four rows.
    if mnemonic
        .any_of(&[Word::TileGather4, Word::TileScatter4])
        .is_some()
    {
        return 5;
    }
    match mnemonic.any_of(&[Word::D1, Word::D2, Word::D3, Word::D4, Word::D5]) {
        Some(Word::D1) => 1,
        Some(Word::D2) => 2,
        Some(Word::D3) => 3,
        Some(Word::D4) => 4,
        _ => 5,
    }
}

/// What has an address.
pub(super) fn symbol(entity: Entity) -> Option<Symbol> {
    match entity {
        Entity::Register { .. } => None,
        Entity::Variable(id) => Some(Symbol::Variable(id)),
        Entity::Local(id) => Some(Symbol::Local(id)),
        Entity::Param(i) => Some(Symbol::Param(i)),
        Entity::Result(i) => Some(Symbol::Result(i)),
        Entity::Function(id) => Some(Symbol::Function(id)),
    }
}

/// Whether a literal fits a type, for arguments of calls.
pub(super) fn number(number: Number, ty: ScalarType) -> Option<Operand> {
    if ty.kind() == TypeKind::Opaque {
        return None;
    }
    numbers::bits(number, ty).map(Operand::Number)
}
