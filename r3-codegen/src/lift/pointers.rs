//! Which registers hold addresses, and of which space.
//!
//! PTX has no pointers: an address is an integer, and LLVM knows nothing about what an integer points to. [`roots`] finds
//! the registers that may be LLVM pointers without a change of meaning. It does not follow the flow of control: a register
//! is one or the other in all of its function.
//!
//! 1. [`scan`] reads each instruction once: how registers get their values ([`Definition`]), and where they are addresses.
//! 2. [`solve`] decides. A register is a pointer when it is used as an address, itself or through others made of it, and
//!    *all* its definitions give one: the address of a variable, `cvta`, a load (of a parameter above all), a copy, and
//!    sums in which exactly one part is a pointer. Whatever is unclear stays an integer.
//! 3. [`groups`] has the space of pointers that are made of each other.
//! 4. [`mixed`](mod@mixed) looks for addresses that are made of several others.
//!
//! What LLVM concludes from a pointer must hold. It takes for granted that an address made from one variable never reaches
//! another. Arithmetic from variable to variable (`a + (b - a)`, which loop optimisers like to write) would break that. Where
//! it is found, all addresses of a function stay integers, and LLVM is not shown of which variable they are: it would make
//! a step from a variable even of an integer. Where only parameters and addresses from memory are mixed, of which LLVM
//! assumes nothing, parameters alone stay integers, so that nobody can promise anything of what they point to.

mod groups;
mod lists;
mod mixed;
mod scan;
mod solve;
#[cfg(test)]
mod tests;

use r3_ptx::isa::Space;
use r3_ptx::typed::{Function, Module, RegId, Symbol};

use super::globals::address_space;

/// LLVM's number of an address space.
mod space {
    /// Generic addresses.
    pub(super) const GENERIC: u32 = 0;
    /// `.global`
    pub(super) const GLOBAL: u32 = 1;
    /// `.shared`, `.shared::cta`
    pub(super) const SHARED: u32 = 3;
    /// `.const`
    pub(super) const CONST: u32 = 4;
    /// `.local`
    pub(super) const LOCAL: u32 = 5;
    /// `.shared::cluster`
    pub(super) const CLUSTER: u32 = 7;
    /// `.param`
    pub(super) const PARAM: u32 = 101;
}

/// LLVM's number of a state space; no space is the generic one.
fn number(space: Option<Space>) -> u32 {
    address_space(space.unwrap_or(Space::Generic)).into()
}

/// Bits of a pointer into an address space, as `--nvptx-short-ptr` has them.
fn pointer_bits(number: u32) -> u32 {
    match number {
        space::SHARED | space::CONST | space::LOCAL | space::CLUSTER => 32,
        _ => 64,
    }
}

/// The state space of LLVM's number.
fn named(number: u32) -> Space {
    match number {
        space::GLOBAL => Space::Global,
        space::SHARED => Space::Shared,
        space::CLUSTER => Space::SharedCluster,
        space::CONST => Space::Const,
        space::LOCAL => Space::Local,
        space::PARAM => Space::Param,
        _ => Space::Generic,
    }
}

/// What the registers and parameters of a function hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    /// Space of the address in each register, `None` where it is an integer. Empty: all are.
    pub(crate) registers: Vec<Option<Space>>,
    parameters: Vec<Option<u32>>,
    /// Addresses of variables are made from others: LLVM must not know which variable any belongs to.
    pub(crate) mixed: bool,
}

impl Roots {
    /// Space of the address in a register.
    pub(crate) fn register(&self, register: RegId) -> Option<Space> {
        self.registers.get(register.0 as usize).copied().flatten()
    }

    /// LLVM's number of the address space of a parameter that is a pointer: generic or global.
    pub(crate) fn parameter(&self, index: usize) -> Option<u32> {
        self.parameters.get(index).copied().flatten()
    }
}

/// The roots of a function. One without a body has none.
pub(crate) fn roots(module: &Module, function: &Function) -> Roots {
    let Some(body) = &function.body else {
        return Roots::default();
    };
    if module.address_bytes != 8 {
        return Roots::default();
    }
    let facts = scan::scan(module, function, body);
    let (registers, mixed) = solve::solve(&facts, body);
    let mut parameters = vec![None; function.params.len()];
    // Nothing may be said of what a parameter points to when the way from there may lead anywhere.
    let mut loads = facts.parameter_loads.as_slice();
    if mixed != mixed::Mixed::No {
        loads = &[];
    }
    for &(register, parameter) in loads {
        let Some(&Some(found)) = registers.get(register.0 as usize) else {
            continue;
        };
        if let (Some(space), space::GENERIC | space::GLOBAL) =
            (parameters.get_mut(parameter as usize), found)
        {
            // Loaded twice with different uses: the generic address serves both.
            *space = Some(space.map_or(found, |other: u32| other.min(found)));
        }
    }
    Roots {
        registers: registers.into_iter().map(|s| s.map(named)).collect(),
        parameters,
        mixed: mixed == mixed::Mixed::Variables,
    }
}

/// Address space of what a symbol names; `None` where its address is left an integer.
fn symbol_space(module: &Module, function: &Function, symbol: Symbol) -> Option<u32> {
    let variable = match symbol {
        Symbol::Variable(id) => module.variables.get(id.0 as usize)?,
        Symbol::Local(id) => function.body.as_ref()?.locals.get(id.0 as usize)?,
        // Parameters of device functions have no memory of their own here.
        Symbol::Param(_) if function.entry => return Some(space::PARAM),
        Symbol::Param(_) | Symbol::Result(_) | Symbol::Function(_) => return None,
    };
    let plain = variable.ty.kind() != r3_ptx::isa::TypeKind::Opaque;
    match number(Some(variable.space)) {
        found @ (space::GLOBAL | space::SHARED | space::CONST | space::LOCAL) if plain => {
            Some(found)
        }
        _ => None,
    }
}
