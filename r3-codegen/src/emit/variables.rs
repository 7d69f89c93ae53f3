//! Definitions of variables, and the shared variables of functions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use r3_ptx::isa::{Mnemonic, ScalarType, Space};
use r3_ptx::source::Pos;
use r3_ptx::tree::{
    self, Body, Init, Instruction, Item, Linkage, MnemonicId, Name, Operand, Range, Statement,
    Variable,
};
use r3_ptx::typed::{self, FnId, LocalId, Symbol, VarId};

use super::names::{Global, Kept, Tree, of_operand, reached};
use crate::lift::variables;

/// LLVM knows one name for all dynamic shared memory. In each function it becomes that of the variable with the largest
/// alignment that the function has in the original, itself or through what it calls: that is where the memory begins.
pub(super) fn name_dynamic(made: &mut Tree, checked: &typed::Module) {
    let Some(first) = variables::first_dynamic(checked) else {
        return;
    };
    let of = |id: VarId| checked.variables.get(id.0 as usize);
    let Some(general) = of(first).and_then(|variable| made.find(&variable.name)) else {
        return;
    };
    let ids: HashMap<&str, FnId> = (0u32..)
        .map(FnId)
        .zip(&checked.functions)
        .map(|(id, function)| (&*function.name, id))
        .collect();
    let mut items = std::mem::take(&mut made.module.items);
    for item in &mut items {
        let Item::Function(function) = item else {
            continue;
        };
        let Some(id) = ids.get(made.module.name(function.name)).copied() else {
            continue;
        };
        let Some(body) = &mut function.body else {
            continue;
        };
        let named = |mut operand: Operand| of_operand(&mut operand).copied() == Some(general);
        if !body.operands.iter().copied().any(named) {
            continue;
        }
        let used = variables::reachable(checked, [id]).variables;
        let used = (0u32..).map(VarId).zip(used).filter(|(_, used)| *used);
        let dynamic = used
            .filter_map(|(id, _)| of(id))
            .filter(|variable| variables::is_dynamic(variable));
        // The first of the largest.
        let largest = dynamic.fold(None, |best: Option<&typed::Variable>, next| match best {
            Some(best) if best.align >= next.align => Some(best),
            _ => Some(next),
        });
        let Some(largest) = largest else { continue };
        let name = made.name(&largest.name);
        for operand in &mut body.operands {
            if let Some(place) = of_operand(operand)
                && *place == general
            {
                *place = name;
            }
        }
    }
    made.module.items = items;
}

/// A shared, constant or global variable of a function.
struct OfFunction<'m> {
    function: FnId,
    source: &'m str,
    unique: String,
    variable: Variable,
    /// Some instruction of the function names it.
    named: bool,
}

/// The variables of LLVM's own text, and those of the original, in this order. Shared variables of functions go into
/// bodies where they can.
pub(super) fn restore(
    made: &mut Tree,
    original: &tree::Module,
    checked: &typed::Module,
    kept: &Kept<'_>,
) -> (Vec<Item>, Vec<Item>) {
    let mut of_functions = of_functions(made, original, checked);
    let known: BTreeSet<Name> = checked
        .variables
        .iter()
        .map(|variable| &*variable.name)
        .chain(of_functions.iter().map(|v| &*v.unique))
        .filter_map(|name| made.find(name))
        .collect();
    let own = made
        .module
        .items
        .iter()
        .filter(|item| matches!(item, Item::Variable(v) if !known.contains(&v.name)))
        .cloned()
        .collect();
    let mut of_module = Vec::new();
    let numbers: HashMap<&str, usize> = checked
        .variables
        .iter()
        .enumerate()
        .map(|(n, variable)| (&*variable.name, n))
        .collect();
    for item in &original.items {
        let Item::Variable(variable) = item else {
            continue;
        };
        let number = numbers.get(original.name(variable.name)).copied();
        let wanted = number.and_then(|n| kept.variables.get(n)).copied();
        if wanted != Some(false) {
            let variable = import(made, original, variable, &HashMap::new());
            of_module.push(Item::Variable(variable));
        }
    }
    of_functions.retain(|v| !kept.verbatim.contains(v.source));
    let unique = of_functions.iter().map(|v| v.variable.name);
    let module_names: Vec<Name> = checked
        .variables
        .iter()
        .filter_map(|variable| made.find(&variable.name))
        .collect();
    let global = Global::new(&made.module, unique.chain(module_names));
    let named = global.of_functions(&made.module);
    let mut missing = missing(made, checked, &of_functions, &named);
    let unnamed = unnamed(made, &of_functions, &named);
    let at_module_level = place(made, of_functions, &missing, &named);
    for (function, list) in unnamed {
        missing.entry(function).or_default().extend(list);
    }
    of_module.extend(at_module_level.into_iter().map(Item::Variable));
    mention(made, &missing);
    (own, of_module)
}

/// Variables of functions in spaces that LLVM has no stack for.
fn of_functions<'m>(
    made: &mut Tree,
    original: &tree::Module,
    checked: &'m typed::Module,
) -> Vec<OfFunction<'m>> {
    let mut bodies: HashMap<&str, &Body> = HashMap::new();
    for item in &original.items {
        if let Item::Function(function) = item
            && let Some(body) = &function.body
        {
            bodies.insert(original.name(function.name), body);
        }
    }
    let mut found = Vec::new();
    for (id, function) in (0u32..).map(FnId).zip(&checked.functions) {
        let (Some(body), Some(tree)) = (&function.body, bodies.get(&*function.name)) else {
            continue;
        };
        let in_memory =
            |space: Space| space.is_shared() || matches!(space, Space::Const | Space::Global);
        if !body.locals.iter().any(|local| in_memory(local.space)) {
            continue;
        }
        let locals = (0u32..).map(LocalId).zip(&body.locals);
        let wanted = locals.filter(|(_, local)| in_memory(local.space));
        let unique: Vec<(LocalId, &str, String, Pos)> = wanted
            .map(|(local, v)| {
                let unique = variables::unique_name(checked, id, local);
                (local, &*v.name, unique, v.pos)
            })
            .collect();
        let names: HashMap<&str, &str> = unique
            .iter()
            .map(|(_, name, unique, _)| (*name, &**unique))
            .collect();
        let named: BTreeSet<LocalId> = body
            .operands
            .iter()
            .filter_map(|operand| match operand {
                typed::Operand::Address(Symbol::Local(local), _)
                | typed::Operand::MemorySymbol(Symbol::Local(local), _) => Some(*local),
                _ => None,
            })
            .collect();
        for (local, _, unique, pos) in &unique {
            let declared = tree
                .statements
                .iter()
                .find_map(|statement| match statement {
                    Statement::Variable(variable) if variable.pos == *pos => Some(variable),
                    _ => None,
                });
            if let Some(declared) = declared {
                let mut variable = import(made, original, declared, &names);
                variable.name = made.name(unique);
                variable.count = None;
                found.push(OfFunction {
                    function: id,
                    source: &function.name,
                    unique: unique.clone(),
                    variable,
                    named: named.contains(local),
                });
            }
        }
    }
    found
}

/// A variable of the original with names of the new tree.
fn import(
    made: &mut Tree,
    original: &tree::Module,
    variable: &Variable,
    other_names: &HashMap<&str, &str>,
) -> Variable {
    let mut copy = variable.clone();
    copy.name = made.name(original.name(variable.name));
    if let Some(init) = &mut copy.init {
        import_init(made, original, init, other_names);
    }
    copy
}

fn import_init(
    made: &mut Tree,
    original: &tree::Module,
    init: &mut Init,
    other_names: &HashMap<&str, &str>,
) {
    match init {
        Init::Address { name, .. } => {
            let text = original.name(*name);
            *name = made.name(other_names.get(text).copied().unwrap_or(text));
        }
        Init::List(list) => {
            for init in list {
                import_init(made, original, init, other_names);
            }
        }
        Init::Number(_) | Init::Fields(_) => {}
    }
}

/// Shared variables that the original counts for a kernel, and no function names any more on the way from it: by kernel.
fn missing(
    made: &Tree,
    checked: &typed::Module,
    of_functions: &[OfFunction<'_>],
    named: &BTreeMap<Name, BTreeSet<Name>>,
) -> BTreeMap<Name, Vec<String>> {
    let reached = reached(named);
    let kernels = (0u32..)
        .map(FnId)
        .zip(&checked.functions)
        .filter(|(_, function)| function.entry);
    let taken = variables::address_taken(checked);
    let mut missing = BTreeMap::new();
    for (id, kernel) in kernels {
        let Some(name) = made.find(&kernel.name) else {
            continue;
        };
        let Some(names) = reached.get(&name) else {
            continue;
        };
        let mut counted = variables::reachable(checked, [id]);
        if variables::calls_by_address(checked, &counted) {
            // An assembler takes each function for a target that has its address taken anywhere.
            let targets = taken.iter().copied();
            counted = variables::reachable(checked, targets.chain([id]));
        }
        let of_module = checked
            .variables
            .iter()
            .zip(&counted.variables)
            .filter(|(v, counted)| **counted && v.space.is_shared() && v.size > 0)
            .map(|(v, _)| &*v.name);
        let of_others = of_functions.iter().filter(|v| {
            let counted = counted.functions.get(v.function.0 as usize).copied();
            v.function != id && is_static(v) && counted == Some(true)
        });
        let all = of_module.chain(of_others.map(|v| &*v.unique));
        let unnamed = |text: &&str| !made.find(text).is_some_and(|name| names.contains(&name));
        let list: Vec<String> = all.filter(unnamed).map(str::to_owned).collect();
        if !list.is_empty() {
            missing.insert(name, list);
        }
    }
    missing
}

/// Shared variables that their own function named and does not name any more: the assembler places them behind those
/// that are named.
fn unnamed(
    made: &Tree,
    of_functions: &[OfFunction<'_>],
    bodies: &BTreeMap<Name, BTreeSet<Name>>,
) -> BTreeMap<Name, Vec<String>> {
    let mut found: BTreeMap<Name, Vec<String>> = BTreeMap::new();
    for v in of_functions.iter().filter(|v| v.named && is_static(v)) {
        let Some(home) = made.find(v.source) else {
            continue;
        };
        let gone = bodies
            .get(&home)
            .is_some_and(|names| !names.contains(&v.variable.name));
        // Who has no body here may have been put into others.
        let elsewhere = bodies
            .iter()
            .any(|(user, names)| *user != home && names.contains(&v.variable.name));
        if gone && !elsewhere {
            found.entry(home).or_default().push(v.unique.clone());
        }
    }
    found
}

fn is_static(v: &OfFunction<'_>) -> bool {
    v.variable.space.is_shared() && v.variable.linkage != Linkage::Extern
}

/// Puts shared variables into the body of their function when nobody else names them. Returns the others.
fn place(
    made: &mut Tree,
    of_functions: Vec<OfFunction<'_>>,
    missing: &BTreeMap<Name, Vec<String>>,
    users: &BTreeMap<Name, BTreeSet<Name>>,
) -> Vec<Variable> {
    let elsewhere: BTreeSet<&str> = missing.values().flatten().map(|name| &**name).collect();
    let mut at_module_level = Vec::new();
    let mut into: HashMap<Name, Vec<Statement>> = HashMap::new();
    for OfFunction {
        source,
        unique,
        variable,
        ..
    } in of_functions
    {
        let home = made.find(source);
        let only_home = users
            .iter()
            .all(|(user, names)| Some(*user) == home || !names.contains(&variable.name));
        let home = home.filter(|home| users.contains_key(home));
        let shared = variable.space.is_shared() && variable.linkage != Linkage::Extern;
        match home {
            Some(home) if shared && only_home && !elsewhere.contains(&*unique) => {
                let statement = Statement::Variable(Box::new(variable));
                into.entry(home).or_default().push(statement);
            }
            _ if elsewhere.contains(&*unique)
                || users
                    .iter()
                    .any(|(_, names)| names.contains(&variable.name)) =>
            {
                at_module_level.push(variable);
            }
            _ => {}
        }
    }
    for item in &mut made.module.items {
        if let Item::Function(function) = item
            && let Some(body) = &mut function.body
            && let Some(statements) = into.remove(&function.name)
        {
            body.statements.splice(0..0, statements);
        }
    }
    at_module_level
}

/// Names variables in kernels without using them: the assembler counts what is named.
fn mention(made: &mut Tree, missing: &BTreeMap<Name, Vec<String>>) {
    if missing.is_empty() {
        return;
    }
    let Ok(mnemonic) = Mnemonic::parse("mov.u32") else {
        return;
    };
    let mov = MnemonicId(made.module.mnemonics.len() as u32);
    made.module.mnemonics.push(mnemonic);
    let mut wanted: Vec<(Name, Vec<Name>)> = Vec::new();
    for (kernel, list) in missing {
        let list = list.iter().map(|text| made.name(text)).collect();
        wanted.push((*kernel, list));
    }
    let register = made.name("%counted");
    let none = Pos::default();
    for item in &mut made.module.items {
        let Item::Function(function) = item else {
            continue;
        };
        let (Some(body), Some((_, list))) = (
            &mut function.body,
            wanted.iter().find(|(kernel, _)| *kernel == function.name),
        ) else {
            continue;
        };
        let mut statements = vec![Statement::BlockBegin(none)];
        statements.push(Statement::Variable(Box::new(Variable {
            pos: none,
            linkage: Linkage::Internal,
            space: Space::Reg,
            bank: None,
            align: None,
            attributes: Vec::new(),
            vector: 1,
            ty: ScalarType::B32,
            ptr: None,
            name: register,
            count: None,
            dims: Vec::new(),
            init: None,
        })));
        for name in list {
            let start = body.operands.len() as u32;
            body.operands
                .extend([Operand::Name(register), Operand::Name(*name)]);
            statements.push(Statement::Instruction(Instruction {
                pos: none,
                guard: None,
                mnemonic: mov,
                operands: Range { start, len: 2 },
            }));
        }
        statements.push(Statement::BlockEnd(none));
        // Behind the declarations that a body begins with.
        let at = body
            .statements
            .iter()
            .position(|s| !matches!(s, Statement::Variable(_) | Statement::Pragma(..)));
        let at = at.unwrap_or(body.statements.len());
        body.statements.splice(at..at, statements);
    }
}
