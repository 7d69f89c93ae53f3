//! Parameters and launch dimensions that are known, as numbers in the text.
//!
//! Whole loads of known bytes become `mov`; of loads in part, the known bytes are put over what was loaded. A kernel's
//! parameters cannot be written, so that a load may come from anywhere in the kernel. Loads by addresses are followed
//! through registers with one definition.

use std::collections::{BTreeMap, HashMap};

use r3_ptx::isa::{Mnemonic, Opcode, Order, ScalarType, SpecialRegister, Word};
use r3_ptx::tree::{self, Instruction, MnemonicId, Number, Range, Statement};
use r3_ptx::typed::{self, Body, Function, Operand, RegId, Symbol};

use super::words::Made;
use super::{Edited, TextError, bodies, wanted};
use crate::recipe::{Guard, Knob, Recipe, Specialisation};
use crate::specialise::{SpecialiseError, known_bytes};

/// Bytes of a parameter: `None` is not known.
type Known = Vec<Option<u8>>;

/// Puts constants in their places.
///
/// # Errors
/// When facts do not fit the kernel, or could reach another kernel.
pub(super) fn apply(
    tree: &mut tree::Module,
    checked: &typed::Module,
    recipe: &Recipe,
    done: &mut Edited,
) -> Result<(), TextError> {
    let facts = &recipe.specialisation;
    if *facts == Specialisation::default() {
        return Ok(());
    }
    let kernel = only_kernel(tree, checked, recipe.kernel.as_deref())?;
    pointers(kernel, facts, done)?;
    let wanted = wanted(checked, Some(&kernel.name));
    parameters(tree, checked, &wanted, kernel, facts, done)?;
    sizes(tree, checked, &wanted, facts, done)
}

/// The kernel that facts are about, if it is the only one.
fn only_kernel<'c>(
    tree: &tree::Module,
    checked: &'c typed::Module,
    asked: Option<&str>,
) -> Result<&'c Function, SpecialiseError> {
    let names: Vec<&str> = tree
        .items
        .iter()
        .filter_map(|item| match item {
            tree::Item::Function(function) if function.entry && function.body.is_some() => {
                Some(tree.name(function.name))
            }
            _ => None,
        })
        .collect();
    let first = names.first().copied().unwrap_or_default();
    let wanted = asked.unwrap_or(first);
    if let Some(other) = names.iter().find(|name| **name != wanted) {
        return Err(SpecialiseError::OtherKernel {
            kernel: wanted.to_owned(),
            other: (*other).to_owned(),
        });
    }
    let found = checked
        .functions
        .iter()
        .find(|function| function.entry && *function.name == *wanted);
    found.ok_or_else(|| SpecialiseError::NoKernel {
        kernel: wanted.to_owned(),
    })
}

/// What PTX has no place for.
fn pointers(
    kernel: &Function,
    facts: &Specialisation,
    done: &mut Edited,
) -> Result<(), SpecialiseError> {
    let parameter = |index: u32| match kernel.params.get(index as usize) {
        Some(_) => Ok(()),
        None => Err(no_parameter(kernel, index)),
    };
    for &index in &facts.noalias {
        parameter(index)?;
    }
    for &(index, bytes) in &facts.align {
        parameter(index)?;
        if !bytes.is_power_of_two() {
            return Err(SpecialiseError::Alignment {
                kernel: kernel.name.to_string(),
                index,
                bytes,
            });
        }
    }
    for (knob, given, what) in [
        (
            Knob::NoAlias,
            facts.noalias.is_empty(),
            "what does not overlap",
        ),
        (Knob::Align, facts.align.is_empty(), "alignment of pointers"),
    ] {
        if !given {
            done.count(knob, 0);
            done.note(format!("{what} is not used: PTX cannot say it, LLVM can"));
        }
    }
    Ok(())
}

fn no_parameter(kernel: &Function, index: u32) -> SpecialiseError {
    SpecialiseError::NoParameter {
        kernel: kernel.name.to_string(),
        index,
        count: kernel.params.len() as u32,
    }
}

/// A load of a parameter.
struct Load {
    parameter: u32,
    offset: u64,
    ty: ScalarType,
    /// Type of each destination's register; `None` where nothing is kept (`_`).
    registers: Vec<Option<ScalarType>>,
}

/// Puts constants in place of loads of parameters.
fn parameters(
    tree: &mut tree::Module,
    checked: &typed::Module,
    wanted: &[bool],
    kernel: &Function,
    facts: &Specialisation,
    done: &mut Edited,
) -> Result<(), TextError> {
    let mut ranges: BTreeMap<u32, Vec<(u32, &[u8])>> = BTreeMap::new();
    for (index, offset, bytes) in &facts.params {
        if !bytes.is_empty() {
            ranges.entry(*index).or_default().push((*offset, bytes));
        }
    }
    if ranges.is_empty() {
        return Ok(());
    }
    let mut known: BTreeMap<u32, Known> = BTreeMap::new();
    for (&index, ranges) in &ranges {
        let Some(parameter) = kernel.params.get(index as usize) else {
            return Err(no_parameter(kernel, index).into());
        };
        let bytes = known_bytes(&kernel.name, index, parameter.size, ranges)?;
        known.insert(index, bytes);
    }
    let mut made = Made::new(tree);
    let mut places = 0;
    let mut used: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
    for pair in bodies(tree, checked, wanted) {
        if !pair.function.entry {
            continue;
        }
        let addresses = addresses(checked, pair.checked);
        let mut number = 0;
        let statements = std::mem::take(&mut pair.body.statements);
        let mut out = Vec::with_capacity(statements.len());
        for statement in statements {
            let Statement::Instruction(instruction) = statement else {
                out.push(statement);
                continue;
            };
            let at = number;
            number += 1;
            let of = pair.checked.instructions.get(at);
            let load = of.and_then(|of| load(checked, pair.checked, of, &addresses));
            let replaced = load.and_then(|load| {
                let bytes = known.get(&load.parameter)?;
                let replaced = replace(&mut made, pair.body, instruction, &load, bytes)?;
                let marks = used
                    .entry(load.parameter)
                    .or_insert_with(|| vec![false; bytes.len()]);
                let length = load.ty.bytes() as usize * load.registers.len();
                let start = usize::try_from(load.offset).ok()?;
                for mark in marks.iter_mut().skip(start).take(length) {
                    *mark = true;
                }
                Some(replaced)
            });
            match replaced {
                Some(list) => {
                    places += 1;
                    out.extend(list.into_iter().map(Statement::Instruction));
                }
                None => out.push(Statement::Instruction(instruction)),
            }
        }
        pair.body.statements = out;
    }
    made.finish(tree);
    for (index, ranges) in ranges {
        for (offset, bytes) in ranges {
            let marks = used.get(&index).map_or(&[][..], Vec::as_slice);
            let of_range = marks.iter().skip(offset as usize).take(bytes.len());
            if of_range.into_iter().any(|used| *used) {
                done.guards.push(Guard::Param {
                    index,
                    offset,
                    bytes: bytes.to_vec(),
                });
            }
        }
    }
    done.count(Knob::Params, places);
    if places > 0 {
        done.note(format!("{places} loads of parameters are constants now"));
    }
    Ok(())
}

/// Registers that hold the address of a parameter of the kernel, with one definition: the parameter and the offset.
fn addresses(checked: &typed::Module, body: &Body) -> HashMap<RegId, (u32, i64)> {
    let mut definitions: HashMap<RegId, u32> = HashMap::new();
    let mut found = HashMap::new();
    let mnemonic = |of: &typed::Instruction| checked.mnemonics.get(of.mnemonic.0 as usize);
    let address = |of: &typed::Instruction, found: &HashMap<RegId, (u32, i64)>| {
        let mnemonic = mnemonic(of)?;
        let known = |operand: &Operand| match operand {
            Operand::Register(register) => found.get(register).copied(),
            Operand::Address(Symbol::Param(index), offset) => Some((*index, *offset)),
            _ => None,
        };
        match (mnemonic.opcode(), body.operands(of)) {
            (Opcode::Mov, [Operand::Register(to), from]) => Some((*to, known(from)?)),
            (Opcode::Cvta, [Operand::Register(to), from])
                if mnemonic.space().is_some_and(|space| space.is_param())
                    && !mnemonic.has(Word::To) =>
            {
                Some((*to, known(from)?))
            }
            (Opcode::Add, [Operand::Register(to), from, Operand::Number(add)])
                if mnemonic.ty().is_some_and(|ty| ty.bits() == 64) && of.guard.is_none() =>
            {
                let (index, offset) = known(from)?;
                Some((*to, (index, offset.checked_add(*add as i64)?)))
            }
            _ => None,
        }
    };
    for of in &body.instructions {
        // Destinations are first. One that is counted too often is not used, which costs nothing but a constant.
        match body.operands(of).first() {
            Some(Operand::Register(register)) => *definitions.entry(*register).or_default() += 1,
            Some(&Operand::Vector(first, len)) => {
                for part in body.list(first, len) {
                    if let Operand::Register(register) = part {
                        *definitions.entry(*register).or_default() += 2;
                    }
                }
            }
            Some(&Operand::List(first, len)) => {
                for part in body.list(first, len) {
                    if let Operand::Register(register) = part {
                        *definitions.entry(*register).or_default() += 2;
                    }
                }
            }
            Some(&Operand::Pair(first)) => {
                for part in body.list(first, 2) {
                    if let Operand::Register(register) = part {
                        *definitions.entry(*register).or_default() += 2;
                    }
                }
            }
            _ => {}
        }
    }
    for of in &body.instructions {
        if of.guard.is_none()
            && let Some((register, address)) = address(of, &found)
            && definitions.get(&register) == Some(&1)
        {
            found.insert(register, address);
        }
    }
    found
}

/// The load of a parameter that an instruction is.
fn load(
    checked: &typed::Module,
    body: &Body,
    of: &typed::Instruction,
    addresses: &HashMap<RegId, (u32, i64)>,
) -> Option<Load> {
    let mnemonic = checked.mnemonics.get(of.mnemonic.0 as usize)?;
    if mnemonic.opcode() != Opcode::Ld || !matches!(mnemonic.order(), None | Some(Order::Weak)) {
        return None;
    }
    let space = mnemonic.space();
    if space.is_some_and(|space| !space.is_param()) {
        return None;
    }
    let operands = body.operands(of);
    let (parameter, offset) = match *operands.get(1)? {
        Operand::MemorySymbol(Symbol::Param(index), offset) => (index, offset),
        Operand::MemoryRegister(register, add) => {
            let (index, offset) = *addresses.get(&register)?;
            (index, offset.checked_add(add)?)
        }
        _ => return None,
    };
    let register = |operand: &Operand| match operand {
        Operand::Register(register) => {
            let register = body.registers.get(register.0 as usize)?;
            Some(Some(register.ty))
        }
        Operand::Sink => Some(None),
        _ => None,
    };
    let registers = match *operands.first()? {
        Operand::Vector(first, len) => body.list(first, len).iter().map(register).collect(),
        ref one => register(one).map(|ty| vec![ty]),
    };
    Some(Load {
        parameter,
        offset: u64::try_from(offset).ok()?,
        ty: *mnemonic.types().last()?,
        registers: registers?,
    })
}

/// A register of so many bits, of which `mask` says which are known, and `value` what they are.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bits {
    mask: u64,
    value: u64,
}

/// What is known of a register after a load of bytes into it: `ld` extends what is narrower.
fn extended(bytes: &[Option<u8>], ty: ScalarType, register: u32) -> Bits {
    let mut bits = Bits { mask: 0, value: 0 };
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(byte) = byte {
            bits.mask |= 0xff << (8 * at);
            bits.value |= u64::from(*byte) << (8 * at);
        }
    }
    let narrow = ty.bits();
    if narrow < register {
        let upper = full(register) & !full(narrow);
        let sign = bytes.last().copied().flatten();
        match (ty.is_signed(), sign) {
            (false, _) => bits.mask |= upper,
            (true, Some(top)) => {
                bits.mask |= upper;
                if top >= 0x80 {
                    bits.value |= upper;
                }
            }
            (true, None) => {}
        }
    }
    bits
}

fn full(bits: u32) -> u64 {
    match bits {
        64.. => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

/// The instructions in place of a load; `None` where nothing of it is known, or its registers take no numbers.
fn replace(
    made: &mut Made,
    body: &mut tree::Body,
    old: Instruction,
    load: &Load,
    known: &[Option<u8>],
) -> Option<Vec<Instruction>> {
    let size = usize::try_from(load.ty.bytes()).ok()?;
    if size > 8 {
        return None;
    }
    let start = usize::try_from(load.offset).ok()?;
    let destination = *body.range(old.operands).first()?;
    let destinations: Vec<tree::Operand> = match destination {
        tree::Operand::Vector(range) => body.range(range).to_vec(),
        one => vec![one],
    };
    if destinations.len() != load.registers.len() {
        return None;
    }
    let mut parts = Vec::new();
    let mut whole = true;
    for (at, (register, destination)) in load.registers.iter().zip(destinations).enumerate() {
        let Some(register) = register else { continue };
        let from = start.checked_add(at.checked_mul(size)?)?;
        let bytes = known.get(from..from.checked_add(size)?)?;
        let bits = extended(bytes, load.ty, register.bits());
        let all = bits.mask == full(register.bits());
        if bytes.iter().all(Option::is_none) || !matches!(register.bits(), 16 | 32 | 64) {
            whole = false;
            continue;
        }
        whole &= all;
        parts.push((destination, *register, bits, all));
    }
    if parts.is_empty() {
        return None;
    }
    let mut list = Vec::new();
    if !whole {
        list.push(old);
    }
    let mut push = |mnemonic: MnemonicId, operands: &[tree::Operand]| {
        let start = u32::try_from(body.operands.len()).unwrap_or(u32::MAX);
        body.operands.extend_from_slice(operands);
        list.push(Instruction {
            mnemonic,
            operands: Range {
                start,
                len: operands.len() as u32,
            },
            ..old
        });
    };
    for (to, register, bits, all) in parts {
        let width = register.bits();
        if all {
            let (text, number) = match register {
                ScalarType::F32 => ("mov.f32", Number::Single(bits.value as u32)),
                ScalarType::F64 => ("mov.f64", Number::Double(bits.value)),
                _ => match width {
                    16 => ("mov.b16", integer(bits.value)),
                    32 => ("mov.b32", integer(bits.value)),
                    _ => ("mov.b64", integer(bits.value)),
                },
            };
            push(made.number(text)?, &[to, tree::Operand::Number(number)]);
            continue;
        }
        let (and, or) = (format!("and.b{width}"), format!("or.b{width}"));
        let keep = tree::Operand::Number(integer(full(width) & !bits.mask));
        let put = tree::Operand::Number(integer(bits.value));
        push(made.number(&and)?, &[to, to, keep]);
        push(made.number(&or)?, &[to, to, put]);
    }
    Some(list)
}

/// Bits as a number.
fn integer(bits: u64) -> Number {
    Number::Signed(bits as i64)
}

/// Registers that are a size or count up to one: with the axis.
const SIZES: [(
    SpecialRegister,
    SpecialRegister,
    SpecialRegister,
    SpecialRegister,
); 3] = [
    (
        SpecialRegister::NtidX,
        SpecialRegister::TidX,
        SpecialRegister::NctaidX,
        SpecialRegister::CtaidX,
    ),
    (
        SpecialRegister::NtidY,
        SpecialRegister::TidY,
        SpecialRegister::NctaidY,
        SpecialRegister::CtaidY,
    ),
    (
        SpecialRegister::NtidZ,
        SpecialRegister::TidZ,
        SpecialRegister::NctaidZ,
        SpecialRegister::CtaidZ,
    ),
];

/// Puts the sizes of grid and block in place of the registers that tell them.
fn sizes(
    tree: &mut tree::Module,
    checked: &typed::Module,
    wanted: &[bool],
    facts: &Specialisation,
    done: &mut Edited,
) -> Result<(), TextError> {
    let all = [
        (facts.block, Knob::Block, "block"),
        (facts.grid, Knob::Grid, "grid"),
    ];
    for (size, knob, what) in all {
        let Some(size) = size else { continue };
        if size.contains(&0) {
            return Err(SpecialiseError::Empty { what, size }.into());
        }
        let mut values: Vec<(SpecialRegister, u32)> = Vec::new();
        for ((ntid, tid, nctaid, ctaid), count) in SIZES.into_iter().zip(size) {
            let (total, position) = match knob {
                Knob::Block => (ntid, tid),
                _ => (nctaid, ctaid),
            };
            values.push((total, count));
            if count == 1 {
                values.push((position, 0));
            }
        }
        let mut places = 0;
        let mnemonics = &tree.mnemonics.clone();
        for pair in bodies_of(tree, checked, wanted) {
            places += numbers_for(pair, mnemonics, &values);
        }
        done.count(knob, places);
        if places > 0 {
            done.note(format!(
                "{places} reads of the {what}'s size are constants now"
            ));
            done.guards.push(match knob {
                Knob::Block => Guard::Block(size),
                _ => Guard::Grid(size),
            });
        }
    }
    Ok(())
}

/// Bodies of wanted functions. Constants may have changed how many instructions there are.
fn bodies_of<'t>(
    tree: &'t mut tree::Module,
    checked: &typed::Module,
    wanted: &[bool],
) -> impl Iterator<Item = &'t mut tree::Body> {
    let names: std::collections::HashSet<&str> = checked
        .functions
        .iter()
        .zip(wanted)
        .filter(|(_, wanted)| **wanted)
        .map(|(function, _)| &*function.name)
        .collect();
    let texts = &tree.names;
    let wanted: Vec<bool> = tree
        .items
        .iter()
        .map(|item| match item {
            tree::Item::Function(function) => texts
                .get(function.name.0 as usize)
                .is_some_and(|name| names.contains(&**name)),
            _ => false,
        })
        .collect();
    let items = tree.items.iter_mut().zip(wanted);
    items.filter_map(|(item, wanted)| match item {
        tree::Item::Function(function) if wanted => function.body.as_mut(),
        _ => None,
    })
}

/// Replaces what `mov` and `cvt` read. Returns how many.
fn numbers_for(
    body: &mut tree::Body,
    mnemonics: &[Mnemonic],
    values: &[(SpecialRegister, u32)],
) -> u32 {
    let mut places = 0;
    for statement in &body.statements {
        let Statement::Instruction(instruction) = statement else {
            continue;
        };
        let Some(mnemonic) = mnemonics.get(instruction.mnemonic.0 as usize) else {
            continue;
        };
        if !matches!(mnemonic.opcode(), Opcode::Mov | Opcode::Cvt) || instruction.operands.len < 2 {
            continue;
        }
        let at = instruction.operands.start as usize + 1;
        let Some(place) = body.operands.get_mut(at) else {
            continue;
        };
        if let tree::Operand::Special(register) = *place
            && let Some(&(_, value)) = values.iter().find(|(known, _)| *known == register)
        {
            let bits = mnemonic.types().last().map_or(32, |ty| ty.bits());
            let value = u64::from(value) & full(bits);
            *place = tree::Operand::Number(integer(value));
            places += 1;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_loads_extend_as_the_isa_says() {
        let minus = [Some(0xfe), Some(0xff)];
        assert_eq!(extended(&minus, ScalarType::S16, 32).value, 0xffff_fffe);
        assert_eq!(extended(&minus, ScalarType::U16, 32).value, 0xfffe);
        assert_eq!(extended(&minus, ScalarType::B16, 64).mask, u64::MAX);
        // The sign is not known: nor is what it fills.
        let half = [Some(0xfe), None];
        assert_eq!(extended(&half, ScalarType::S16, 32).mask, 0xff);
        assert_eq!(extended(&half, ScalarType::U16, 32).mask, 0xffff_00ff);
    }
}
