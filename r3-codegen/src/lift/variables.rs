//! Variables: in IR they are declarations only, so that LLVM can neither shrink nor assume what a host program may read
//! or write. [`emit`](crate::emit) puts the original definitions back.

use std::collections::BTreeSet;

use inkwell::AddressSpace;
use inkwell::module::Linkage;
use inkwell::values::PointerValue;
use r3_ptx::isa::Opcode;
use r3_ptx::typed::{self, FnId, LocalId, Operand, Symbol, VarId, Variable};

use super::function::Lifter;
use super::globals::{Globals, address_space};
use super::params;
use crate::error::LiftError;

/// The address of something with a name, as a pointer into its own address space.
///
/// # Errors
/// When it has none.
pub(crate) fn symbol<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    symbol: Symbol,
) -> Result<PointerValue<'ctx>, LiftError> {
    match symbol {
        Symbol::Variable(id) => of_module(lifter, id),
        Symbol::Function(id) => match lifter.globals.function(id) {
            Some(function) => Ok(function.as_global_value().as_pointer_value()),
            None => Err(lifter.inexpressible("a function without declaration".into())),
        },
        Symbol::Local(_) | Symbol::Param(_) | Symbol::Result(_) => params::symbol(lifter, symbol),
    }
}

fn of_module<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    id: VarId,
) -> Result<PointerValue<'ctx>, LiftError> {
    let module = lifter.module;
    let id = standing_for(module, id);
    if let Some(Some(found)) = lifter.globals.variables.get(id.0 as usize) {
        return Ok(*found);
    }
    let Some(variable) = module.variables.get(id.0 as usize) else {
        return Err(lifter.inexpressible("a variable that is not there".into()));
    };
    let align = match is_dynamic(variable) {
        // It stands for all of them.
        true => dynamic(module).map(|v| v.align).min().unwrap_or(1),
        false => variable.align,
    };
    let made = declare(lifter, &variable.name, variable, align)?;
    if let Some(place) = lifter.globals.variables.get_mut(id.0 as usize) {
        *place = Some(made);
    }
    Ok(made)
}

/// A variable of a function in a space of the module: shared, constant or global.
///
/// # Errors
/// When it cannot be declared.
pub(crate) fn of_function<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    variable: &Variable,
    symbol: Symbol,
) -> Result<PointerValue<'ctx>, LiftError> {
    let (module, id) = (lifter.module, lifter.id);
    let Symbol::Local(local) = symbol else {
        return Err(lifter.inexpressible("no variable of a function".into()));
    };
    if !is_dynamic(variable) {
        let name = unique_name(module, id, local);
        return declare(lifter, &name, variable, variable.align);
    }
    if let Some(first) = first_dynamic(module) {
        return of_module(lifter, first);
    }
    let (function, local) = first_dynamic_of_functions(module).unwrap_or((id, local));
    let name = unique_name(module, function, local);
    match lifter.llvm.get_global(&name) {
        Some(found) => Ok(found.as_pointer_value()),
        None => declare(lifter, &name, variable, 1),
    }
}

fn declare<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    name: &str,
    variable: &Variable,
    align: u64,
) -> Result<PointerValue<'ctx>, LiftError> {
    let Ok(size) = u32::try_from(variable.size) else {
        return Err(lifter.inexpressible(format!("{name} has {} bytes", variable.size)));
    };
    let ty = lifter.globals.types.i8.array_type(size);
    let space = AddressSpace::from(address_space(variable.space));
    let global = lifter.llvm.add_global(ty, Some(space), name);
    global.set_linkage(Linkage::External);
    global.set_alignment(align as u32);
    Ok(global.as_pointer_value())
}

/// Dynamic shared memory: an array without a length.
pub(crate) fn is_dynamic(variable: &Variable) -> bool {
    variable.space.is_shared() && variable.unsized_array
}

fn dynamic(module: &typed::Module) -> impl Iterator<Item = &Variable> {
    module.variables.iter().filter(|v| is_dynamic(v))
}

/// The first variable of dynamic shared memory.
pub(crate) fn first_dynamic(module: &typed::Module) -> Option<VarId> {
    let first = module.variables.iter().position(is_dynamic);
    first.map(|first| VarId(first as u32))
}

/// The first variable of dynamic shared memory that is declared in a function.
fn first_dynamic_of_functions(module: &typed::Module) -> Option<(FnId, LocalId)> {
    let functions = (0u32..).map(FnId).zip(&module.functions);
    functions
        .filter_map(|(id, function)| Some((id, function.body.as_ref()?)))
        .find_map(|(id, body)| {
            let local = body.locals.iter().position(is_dynamic)?;
            Some((id, LocalId(local as u32)))
        })
}

/// All dynamic shared memory begins at one address, but LLVM takes for granted that two variables do not overlap: in IR
/// the first stands for all.
fn standing_for(module: &typed::Module, id: VarId) -> VarId {
    match module.variables.get(id.0 as usize) {
        Some(variable) if is_dynamic(variable) => first_dynamic(module).unwrap_or(id),
        _ => id,
    }
}

/// The name of a function's variable at module level.
pub(crate) fn unique_name(module: &typed::Module, function: FnId, local: LocalId) -> String {
    let source = module.functions.get(function.0 as usize);
    let variable = source
        .and_then(|f| f.body.as_ref())
        .and_then(|body| body.locals.get(local.0 as usize));
    let (source, variable) = (
        source.map_or("", |f| &f.name),
        variable.map_or("", |v| &v.name),
    );
    // A number, because scopes may use a name again; two underscores, because a name of the module could look so.
    let mut name = format!("{source}__{}__{variable}", local.0);
    let taken = |name: &str| {
        module.variables.iter().any(|v| *v.name == *name)
            || module.functions.iter().any(|f| *f.name == *name)
    };
    while taken(&name) {
        name.push('_');
    }
    name
}

/// What a kernel needs of its module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reachable {
    /// By [`FnId`].
    pub functions: Vec<bool>,
    /// By [`VarId`].
    pub variables: Vec<bool>,
}

/// What can be reached from some functions: what they call, what they name, and what initialisers name.
pub(crate) fn reachable(module: &typed::Module, from: impl IntoIterator<Item = FnId>) -> Reachable {
    let mut found = Reachable {
        functions: vec![false; module.functions.len()],
        variables: vec![false; module.variables.len()],
    };
    let mut open: Vec<Symbol> = from.into_iter().map(Symbol::Function).collect();
    while let Some(symbol) = open.pop() {
        match symbol {
            Symbol::Function(id) => {
                let seen = found.functions.get_mut(id.0 as usize);
                if seen.is_some_and(|seen| !std::mem::replace(seen, true)) {
                    open.extend(named_by_function(module, id));
                }
            }
            Symbol::Variable(id) => {
                let seen = found.variables.get_mut(id.0 as usize);
                if seen.is_some_and(|seen| !std::mem::replace(seen, true)) {
                    let variable = module.variables.get(id.0 as usize);
                    let relocations = variable.map_or(&[][..], |v| &v.relocations);
                    open.extend(relocations.iter().map(|relocation| relocation.symbol));
                }
            }
            Symbol::Local(_) | Symbol::Param(_) | Symbol::Result(_) => {}
        }
    }
    found
}

pub(crate) fn named_by_function(module: &typed::Module, id: FnId) -> impl Iterator<Item = Symbol> {
    let function = module.functions.get(id.0 as usize);
    let body = function.and_then(|function| function.body.as_ref());
    body.into_iter().flat_map(|body| {
        let operands = body.operands.iter().filter_map(|operand| match operand {
            Operand::Address(symbol, _) | Operand::MemorySymbol(symbol, _) => Some(*symbol),
            _ => None,
        });
        let tables = body.call_tables.iter().flatten().copied();
        let locals = body.locals.iter().flat_map(|local| &local.relocations);
        operands
            .chain(tables.map(Symbol::Function))
            .chain(locals.map(|relocation| relocation.symbol))
    })
}

/// Functions of which the address is a value, or in an initialiser.
pub(crate) fn address_taken(module: &typed::Module) -> BTreeSet<FnId> {
    let mut found = BTreeSet::new();
    let mut take = |symbol: Symbol| {
        if let Symbol::Function(id) = symbol {
            found.insert(id);
        }
    };
    for variable in &module.variables {
        variable.relocations.iter().for_each(|r| take(r.symbol));
    }
    for body in module.functions.iter().filter_map(|f| f.body.as_ref()) {
        let locals = body.locals.iter().flat_map(|v| &v.relocations);
        locals.for_each(|r| take(r.symbol));
        for instruction in &body.instructions {
            let call = is_call(module, instruction);
            for (at, operand) in body.operands(instruction).iter().enumerate() {
                if let Operand::Address(symbol, _) = operand
                    && !(call && at == 1)
                {
                    take(*symbol);
                }
            }
        }
    }
    found
}

/// Whether one of some functions calls by an address.
pub(crate) fn calls_by_address(module: &typed::Module, of: &Reachable) -> bool {
    let functions = module.functions.iter().zip(&of.functions);
    let bodies = functions.filter_map(|(f, there)| f.body.as_ref().filter(|_| *there));
    bodies.into_iter().any(|body| {
        body.instructions.iter().any(|instruction| {
            let callee = body.operands(instruction).get(1);
            is_call(module, instruction) && matches!(callee, Some(Operand::Register(_)))
        })
    })
}

fn is_call(module: &typed::Module, instruction: &typed::Instruction) -> bool {
    let mnemonic = module.mnemonics.get(instruction.mnemonic.0 as usize);
    mnemonic.is_some_and(|mnemonic| mnemonic.opcode() == Opcode::Call)
}

/// Makes external what text names: functions in initialisers of variables, in functions that stay text, and under other
/// names. LLVM must neither change nor drop them.
pub(crate) fn protect(globals: &Globals<'_>, module: &typed::Module, verbatim: &BTreeSet<FnId>) {
    let of_variables = module.variables.iter().flat_map(|v| &v.relocations);
    let locals = module.functions.iter().filter_map(|f| f.body.as_ref());
    let of_locals = locals.flat_map(|body| body.locals.iter().flat_map(|v| &v.relocations));
    let named = of_variables.chain(of_locals).map(|r| r.symbol);
    let aliases = module.aliases.iter().map(|(_, id)| Symbol::Function(*id));
    let text = verbatim
        .iter()
        .flat_map(|id| named_by_function(module, *id));
    for symbol in named.chain(aliases).chain(text) {
        if let Symbol::Function(id) = symbol
            && let Some(function) = globals.function(id)
            && function.count_basic_blocks() > 0
        {
            function.set_linkage(Linkage::External);
        }
    }
    for id in verbatim {
        if let Some(function) = globals.function(*id) {
            function.set_linkage(Linkage::External);
        }
    }
}
