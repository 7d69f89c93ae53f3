//! Why a kernel may leave other bits here than on a GPU, although both do what its PTX says.
//!
//! PTX leaves some results open: approximate functions have an error bound and no value, `mul` and `add` without a
//! rounding mode may become one fused operation, atomics add in the order in which threads arrive, matrix
//! instructions sum in an order of their own. A kernel with none of these has one right result, to the last bit.

use std::collections::{BTreeMap, BTreeSet};

use r3_emu::accuracy::{self, Bound};
use r3_ptx::isa::{Mnemonic, Opcode, Operation, ScalarType, Space};
use r3_ptx::typed::{Body, FnId, Instruction, Module, Operand, RegId, Symbol};

use crate::compare::{ElementType, float};
use crate::device::Inexact;

/// The reasons in a kernel and the functions that it may call, in the order of the text.
pub fn of(module: &Module, kernel: &str) -> Vec<Inexact> {
    let mut found: BTreeMap<String, Inexact> = BTreeMap::new();
    let bodies = reachable(module, kernel);
    let stored = stored(module, &bodies);
    for body in bodies {
        let products = products(module, body);
        for instruction in &body.instructions {
            let Some((what, relative)) = reason(module, body, instruction, &products) else {
                continue;
            };
            found
                .entry(what.clone())
                .and_modify(|known| {
                    known.count += 1;
                    known.line = known.line.min(instruction.pos.line);
                })
                .or_insert(Inexact {
                    what,
                    line: instruction.pos.line,
                    count: 1,
                    relative,
                    stored,
                });
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|inexact| inexact.line);
    found
}

/// The first atomic on memory that blocks may share.
pub fn meeting(module: &Module, kernel: &str) -> Option<String> {
    reachable(module, kernel)
        .into_iter()
        .flat_map(|body| &body.instructions)
        .filter_map(|instruction| Some((mnemonic(module, instruction)?, instruction.pos.line)))
        .filter(|(mnemonic, _)| {
            matches!(mnemonic.opcode(), Opcode::Atom | Opcode::Red)
                && !mnemonic.space().is_some_and(Space::is_shared)
        })
        .min_by_key(|(_, line)| *line)
        .map(|(mnemonic, line)| format!("{mnemonic} at line {line}"))
}

/// Bodies of the kernel and of every function that it may reach.
fn reachable<'m>(module: &'m Module, kernel: &str) -> Vec<&'m Body> {
    let start = module
        .functions
        .iter()
        .position(|function| function.entry && &*function.name == kernel);
    let mut todo: Vec<usize> = start.into_iter().collect();
    let mut seen = BTreeSet::new();
    let mut bodies = Vec::new();
    while let Some(index) = todo.pop() {
        if !seen.insert(index) {
            continue;
        }
        let Some(body) = module.functions.get(index).and_then(|f| f.body.as_ref()) else {
            continue;
        };
        bodies.push(body);
        let indirect = body
            .operands
            .iter()
            .any(|operand| matches!(operand, Operand::Prototype(_) | Operand::CallTable(_)));
        if indirect {
            // Pointers to functions come from anywhere.
            todo.extend(0..module.functions.len());
        }
        todo.extend(body.operands.iter().filter_map(|operand| match operand {
            Operand::Address(Symbol::Function(FnId(id)), _) => Some(*id as usize),
            _ => None,
        }));
    }
    bodies
}

fn mnemonic<'m>(module: &'m Module, instruction: &Instruction) -> Option<&'m Mnemonic> {
    module.mnemonics.get(instruction.mnemonic.0 as usize)
}

/// Registers that may hold a product which was not told how to round, as it is or negated.
fn products(module: &Module, body: &Body) -> BTreeSet<RegId> {
    let mut products = BTreeSet::new();
    // Twice, for registers that a loop sets after they are used.
    for _ in 0..2 {
        for instruction in &body.instructions {
            let Some(mnemonic) = mnemonic(module, instruction) else {
                continue;
            };
            let operands = body.operands(instruction);
            let Some((Operand::Register(target), sources)) = operands.split_first() else {
                continue;
            };
            let passes_on = match mnemonic.opcode() {
                Opcode::Mul => fusable(mnemonic) && !mnemonic.sat(),
                Opcode::Mov | Opcode::Neg | Opcode::Selp => holds(sources, &products),
                _ => false,
            };
            if passes_on {
                products.insert(*target);
            }
        }
    }
    products
}

fn holds(operands: &[Operand], products: &BTreeSet<RegId>) -> bool {
    operands.iter().any(|operand| match operand {
        Operand::Register(register) => products.contains(register),
        _ => false,
    })
}

/// Floating-point arithmetic without a rounding mode.
fn fusable(mnemonic: &Mnemonic) -> bool {
    mnemonic.rounding().is_none() && mnemonic.ty().is_some_and(ScalarType::is_float)
}

fn reason(
    module: &Module,
    body: &Body,
    instruction: &Instruction,
    products: &BTreeSet<RegId>,
) -> Option<(String, f64)> {
    let mnemonic = mnemonic(module, instruction)?;
    let is_float = mnemonic.ty().is_some_and(ScalarType::is_float);
    match mnemonic.opcode() {
        Opcode::Add | Opcode::Sub
            if fusable(mnemonic) && holds(body.operands(instruction).get(1..)?, products) =>
        {
            let what = format!("mul and {mnemonic}, which may be fused");
            Some((what, rounding(mnemonic.ty()?)))
        }
        Opcode::Atom | Opcode::Red if is_float && mnemonic.operation() == Some(Operation::Add) => {
            let what = format!("the order of {mnemonic}");
            Some((what, rounding(mnemonic.ty()?)))
        }
        Opcode::Tex | Opcode::Tld4 => Some((format!("filtering of {mnemonic}"), 2f64.powi(-8))),
        _ => {
            let relative = relative(accuracy::bound(mnemonic).bound, mnemonic)?;
            Some((mnemonic.to_string(), relative))
        }
    }
}

/// A bound of one result, relative to its magnitude, or to 1 where only an absolute one is stated; the largest where
/// it depends on the argument. `None` when all bits are defined.
fn relative(bound: Bound, mnemonic: &Mnemonic) -> Option<f64> {
    let rounding = || {
        mnemonic
            .types()
            .iter()
            .copied()
            .find(|ty| ty.is_float())
            .map(rounding)
    };
    match bound {
        Bound::Exact => None,
        Bound::Ulp(ulp) => Some(2.0 * ulp * rounding()?),
        Bound::Relative(relative) => Some(relative),
        Bound::Absolute(absolute) => Some(absolute),
        Bound::Split {
            absolute, relative, ..
        } => Some(absolute.max(relative)),
        Bound::Steps(steps) => steps.iter().map(|(_, bound)| *bound).reduce(f64::max),
        Bound::Unstated => rounding(),
    }
}

/// The type of everything that is written to memory outside of the block, when it is one floating-point type.
fn stored(module: &Module, bodies: &[&Body]) -> Option<ElementType> {
    let mut only = None;
    for body in bodies {
        let results = float_results(module, body);
        for instruction in &body.instructions {
            let mnemonic = mnemonic(module, instruction)?;
            let value = match mnemonic.opcode() {
                Opcode::St | Opcode::Red => 1,
                Opcode::Atom => 2,
                _ => continue,
            };
            let inside =
                |space: Space| space.is_shared() || space.is_param() || space == Space::Local;
            if mnemonic.space().is_some_and(inside) {
                continue;
            }
            let ty = mnemonic.types().last().copied()?;
            let element = float(ty).or_else(|| {
                let operand = *body.operands(instruction).get(value)?;
                let one = match operand {
                    Operand::Vector(first, len) => *body.list(first, len).first()?,
                    operand => operand,
                };
                let Operand::Register(register) = one else {
                    return None;
                };
                results.get(&register).copied()
            })?;
            if *only.get_or_insert(element) != element {
                return None;
            }
        }
    }
    only
}

/// Registers that hold a result of floating-point arithmetic, and its type.
fn float_results(module: &Module, body: &Body) -> BTreeMap<RegId, ElementType> {
    body.instructions
        .iter()
        .filter_map(|instruction| {
            let mnemonic = mnemonic(module, instruction)?;
            let Operand::Register(target) = *body.operands(instruction).first()? else {
                return None;
            };
            match mnemonic.opcode() {
                // They have a float type and another result.
                Opcode::Set | Opcode::Setp | Opcode::Testp | Opcode::St | Opcode::Red => None,
                _ => Some((target, float(mnemonic.ty()?)?)),
            }
        })
        .collect()
}

/// Half a unit in the last place, relative to the value.
fn rounding(ty: ScalarType) -> f64 {
    match ty.bytes() {
        8 => 2f64.powi(-53),
        _ if matches!(ty, ScalarType::F32) => 2f64.powi(-24),
        _ if matches!(ty, ScalarType::BF16 | ScalarType::BF16x2) => 2f64.powi(-9),
        _ => 2f64.powi(-11),
    }
}
