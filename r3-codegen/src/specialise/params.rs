//! Constant bytes of parameters.

use std::collections::{BTreeMap, HashSet};

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::Module;
use inkwell::types::AsTypeRef;
use inkwell::values::{AsValueRef, FunctionValue};
use llvm_sys::LLVMOpcode;

use super::ir::{Builder, Callee, Layout, Type, Value, constant};
use super::{SpecialiseError, Specialised};
use crate::recipe::Guard;

/// Bytes of one parameter: `None` is not known.
type Known = Vec<Option<u8>>;

/// Puts constants in place of what is read from parameters.
pub(super) fn apply(
    module: &Module,
    function: FunctionValue,
    kernel: &str,
    facts: &[(u32, u32, Vec<u8>)],
    done: &mut Specialised,
) -> Result<(), SpecialiseError> {
    let layout = Layout::of(module);
    // SAFETY: the function is of the module that is borrowed.
    let raw = unsafe { Value::from_raw(function.as_value_ref()) };
    let mut wanted: BTreeMap<u32, Vec<(u32, &[u8])>> = BTreeMap::new();
    for (index, offset, bytes) in facts {
        if !bytes.is_empty() {
            wanted.entry(*index).or_default().push((*offset, bytes));
        }
    }
    for (index, ranges) in wanted {
        let Some(parameter) = raw.parameter(index) else {
            return Err(SpecialiseError::NoParameter {
                kernel: kernel.to_owned(),
                index,
                count: function.count_params(),
            });
        };
        let by_value = by_value(function, index);
        let size = match by_value {
            Some(ty) => layout.stored(ty),
            None => layout.stored(parameter.ty()),
        }
        .unwrap_or(0);
        let known = known(kernel, index, size, &ranges)?;
        let used = if by_value.is_some() {
            in_memory(module, layout, parameter, &known)
        } else {
            in_register(module, raw, parameter, &known)
        };
        match used {
            Used::Yes => {
                for (offset, bytes) in ranges {
                    done.guards.push(Guard::Param {
                        index,
                        offset,
                        bytes: bytes.to_vec(),
                    });
                }
            }
            Used::Nowhere => {}
            Used::Not(why) => done.notes.push(format!(
                "constant bytes of parameter {index} are not used: {why}"
            )),
        }
    }
    Ok(())
}

/// What came of the constants.
enum Used {
    /// The code relies on them.
    Yes,
    /// The code does not read the bytes.
    Nowhere,
    /// They could not be used.
    Not(&'static str),
}

/// The type of a parameter that is passed as bytes in memory.
fn by_value<'m>(function: FunctionValue<'_>, index: u32) -> Option<Type<'m>> {
    let attribute = function.get_enum_attribute(
        AttributeLoc::Param(index),
        Attribute::get_named_enum_kind_id("byval"),
    )?;
    // SAFETY: the type belongs to the context of the function's module.
    Some(unsafe { Type::from_raw(attribute.get_type_value().as_type_ref()) })
}

/// Ranges of bytes as one row.
pub(crate) fn known(
    kernel: &str,
    index: u32,
    size: u64,
    ranges: &[(u32, &[u8])],
) -> Result<Known, SpecialiseError> {
    let beyond = |offset: u32, bytes: &[u8]| SpecialiseError::BeyondParameter {
        kernel: kernel.to_owned(),
        index,
        offset: u64::from(offset),
        end: u64::from(offset) + bytes.len() as u64,
        size,
    };
    let mut known: Known = vec![None; usize::try_from(size).unwrap_or(0)];
    for &(offset, bytes) in ranges {
        let start = offset as usize;
        let Some(place) = start
            .checked_add(bytes.len())
            .and_then(|end| known.get_mut(start..end))
        else {
            return Err(beyond(offset, bytes));
        };
        for (at, (to, &byte)) in place.iter_mut().zip(bytes).enumerate() {
            match *to {
                Some(first) if first != byte => {
                    return Err(SpecialiseError::Twice {
                        kernel: kernel.to_owned(),
                        index,
                        offset: u64::from(offset) + at as u64,
                        first,
                        second: byte,
                    });
                }
                _ => *to = Some(byte),
            }
        }
    }
    Ok(known)
}

/// All bytes, if all are known.
fn all(known: &[Option<u8>]) -> Option<Vec<u8>> {
    known.iter().copied().collect()
}

/// A parameter that is a value.
fn in_register<'m>(
    module: &'m Module,
    function: Value<'m>,
    parameter: Value<'m>,
    known: &[Option<u8>],
) -> Used {
    if parameter.users().is_empty() {
        return Used::Nowhere;
    }
    let ty = parameter.ty();
    if !ty.is_bits() {
        return Used::Not("it is passed as an aggregate value");
    }
    if let Some(bytes) = all(known) {
        parameter.replace_all_uses_with(constant(ty, &bytes));
        return Used::Yes;
    }
    if ty.integer_bits().is_some_and(|bits| bits % 8 != 0) {
        return Used::Not("it has bits that are no bytes");
    }
    let Some(entry) = function.entry() else {
        return Used::Nowhere;
    };
    let builder = Builder::of(module);
    builder.before(entry);
    let (blended, reads) = builder.blend(parameter, known);
    parameter.replace_all_uses_with(blended);
    reads.set_operand(0, parameter);
    Used::Yes
}

/// How a parameter in memory is read.
#[derive(Default)]
struct Reads<'m> {
    /// Loads, with the offset of each.
    loads: Vec<(Value<'m>, i64)>,
    /// Copies of so many bytes from an offset to other memory.
    copies: Vec<(Value<'m>, i64, i64)>,
    /// Why constants cannot be used.
    obstacle: Option<&'static str>,
}

/// A parameter that is memory.
fn in_memory<'m>(
    module: &'m Module,
    layout: Layout<'m>,
    parameter: Value<'m>,
    known: &[Option<u8>],
) -> Used {
    let mut reads = Reads::default();
    walk(layout, parameter, &mut reads);
    if let Some(obstacle) = reads.obstacle {
        return Used::Not(obstacle);
    }
    let builder = Builder::of(module);
    let mut used = false;
    for (load, offset) in reads.loads {
        let ty = load.ty();
        let Some(part) = layout
            .stored(ty)
            .and_then(|size| part(known, offset, i64::try_from(size).ok()?))
        else {
            continue;
        };
        if !ty.is_bits() || part.iter().all(Option::is_none) {
            continue;
        }
        if let Some(bytes) = all(&part) {
            load.replace_all_uses_with(constant(ty, &bytes));
        } else {
            let odd = ty.integer_bits().is_some_and(|bits| bits % 8 != 0);
            let Some(next) = load.next().filter(|_| !odd) else {
                continue;
            };
            builder.before(next);
            let (blended, first) = builder.blend(load, &part);
            load.replace_all_uses_with(blended);
            first.set_operand(0, load);
        }
        used = true;
    }
    for (copy, offset, length) in reads.copies {
        let (Some(part), Some(next)) = (part(known, offset, length), copy.next()) else {
            continue;
        };
        builder.before(next);
        let to = copy.argument(0);
        for (at, bytes) in pieces(&part) {
            let value = constant(
                to.ty().integer(u32::try_from(bytes.len() * 8).unwrap_or(8)),
                &bytes,
            );
            builder.store(value, builder.advance(to, at));
            used = true;
        }
    }
    if used { Used::Yes } else { Used::Nowhere }
}

/// Bytes that are read at an offset, as far as they are in the parameter.
fn part(known: &[Option<u8>], offset: i64, length: i64) -> Option<Known> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    known.get(start..end).map(<[_]>::to_vec)
}

/// Known bytes as pieces of 8, 4, 2 or 1, each at a multiple of its size.
fn pieces(known: &[Option<u8>]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < known.len() {
        let piece = [8, 4, 2, 1]
            .into_iter()
            .filter(|size| at % size == 0)
            .find_map(|size| all(known.get(at..at + size)?));
        match piece {
            Some(bytes) => {
                let step = bytes.len();
                found.push((at as u64, bytes));
                at += step;
            }
            None => at += 1,
        }
    }
    found
}

/// Follows a parameter's address through the function.
fn walk<'m>(layout: Layout<'m>, parameter: Value<'m>, reads: &mut Reads<'m>) {
    let mut seen = HashSet::new();
    let mut todo = vec![(parameter, Some(0))];
    while let Some((pointer, offset)) = todo.pop() {
        // A pointer that is reached by several ways has an offset by each; the walk ends since each pair comes once.
        if !seen.insert((pointer, offset)) {
            continue;
        }
        for user in pointer.users() {
            match user.opcode() {
                Some(LLVMOpcode::LLVMLoad) => {
                    if let Some(offset) = offset {
                        reads.loads.push((user, offset));
                    }
                }
                Some(LLVMOpcode::LLVMGetElementPtr) => {
                    let further =
                        offset.and_then(|offset: i64| offset.checked_add(user.offset(layout)?));
                    todo.push((user, further));
                }
                Some(LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast) => {
                    todo.push((user, offset));
                }
                // Where ways meet, the pointer may be to something else.
                Some(LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMSelect | LLVMOpcode::LLVMFreeze) => {
                    todo.push((user, None));
                }
                Some(LLVMOpcode::LLVMICmp | LLVMOpcode::LLVMPtrToInt) => {}
                Some(LLVMOpcode::LLVMCall) => call(user, pointer, offset, reads),
                _ => reads.obstacle = Some("its memory may be written"),
            }
        }
    }
}

/// A call that gets the parameter's address.
fn call<'m>(call: Value<'m>, pointer: Value<'m>, offset: Option<i64>, reads: &mut Reads<'m>) {
    let callee = match call.callee() {
        // Assembly reads a kernel's parameters, which PTX does not allow to be written.
        Some(Callee::Assembly) => return,
        Some(Callee::Intrinsic(callee)) => callee,
        _ => {
            reads.obstacle = Some("its address is passed to a function");
            return;
        }
    };
    // SAFETY: the callee is a function of a module that is borrowed.
    let function = unsafe { FunctionValue::new(callee.raw()) };
    let name = function.map(|function| function.get_name().to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    if name.starts_with("llvm.memcpy") || name.starts_with("llvm.memmove") {
        if call.argument(0) == pointer {
            reads.obstacle = Some("its memory is written");
        } else if let (Some(offset), Some(length)) = (offset, call.argument(2).constant()) {
            reads.copies.push((call, offset, length));
        }
    } else if name.starts_with("llvm.memset") {
        reads.obstacle = Some("its memory is written");
    }
}
