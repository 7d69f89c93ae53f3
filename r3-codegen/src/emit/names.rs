//! What functions name, and how far that reaches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use r3_ptx::tree::{self, Body, Item, Name, Operand, Statement};
use r3_ptx::typed::{self, FnId, Symbol, VarId};

use crate::lift::variables;

/// A tree to which names can be added.
pub(super) struct Tree {
    /// The tree.
    pub module: tree::Module,
    numbers: HashMap<Box<str>, Name>,
}

impl Tree {
    /// Takes a tree.
    pub fn new(module: tree::Module) -> Self {
        let names = (0u32..).zip(&module.names);
        let numbers = names.map(|(n, text)| (text.clone(), Name(n))).collect();
        Self { module, numbers }
    }

    /// A name, made if it is not there.
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(found) = self.numbers.get(text) {
            return *found;
        }
        let made = Name(self.module.names.len() as u32);
        self.module.names.push(text.into());
        self.numbers.insert(text.into(), made);
        made
    }

    /// A name, if it is there.
    pub fn find(&self, text: &str) -> Option<Name> {
        self.numbers.get(text).copied()
    }
}

/// The name in an operand.
pub(super) fn of_operand(operand: &mut Operand) -> Option<&mut Name> {
    match operand {
        Operand::Name(name)
        | Operand::Element(name, _)
        | Operand::Selected { name, .. }
        | Operand::Not(name)
        | Operand::Offset(name, _)
        | Operand::Address(name, _)
        | Operand::AddressPlusZero(name) => Some(name),
        Operand::Special(_)
        | Operand::Number(_)
        | Operand::Sink
        | Operand::WarpSize
        | Operand::Pair(_)
        | Operand::Vector(_)
        | Operand::List(_)
        | Operand::Index(_)
        | Operand::AbsoluteAddress(_)
        | Operand::AddressList(_) => None,
    }
}

/// The names that matter at module level: few, of the many that bodies have.
pub(super) struct Global(Vec<bool>);

impl Global {
    /// Functions and variables of a tree, and other names.
    pub fn new(module: &tree::Module, more: impl IntoIterator<Item = Name>) -> Self {
        let mut marks = vec![false; module.names.len()];
        let items = module.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function.name),
            Item::Variable(variable) => Some(variable.name),
            Item::Alias { alias, .. } => Some(*alias),
            Item::Verbatim { .. } => None,
        });
        for name in items.chain(more) {
            if let Some(mark) = marks.get_mut(name.0 as usize) {
                *mark = true;
            }
        }
        Self(marks)
    }

    fn has(&self, name: Name) -> bool {
        self.0.get(name.0 as usize).copied().unwrap_or(false)
    }

    /// Those in the operands of a body, and in its lists of targets.
    pub fn of_body(&self, body: &Body) -> BTreeSet<Name> {
        let operands = body.operands.iter().copied();
        let mut found: BTreeSet<Name> = operands
            .filter_map(|mut operand| of_operand(&mut operand).copied())
            .filter(|name| self.has(*name))
            .collect();
        for statement in &body.statements {
            if let Statement::CallTargets(_, names) = statement {
                found.extend(names);
            }
        }
        found
    }

    /// Those that each function with a body names.
    pub fn of_functions(&self, module: &tree::Module) -> BTreeMap<Name, BTreeSet<Name>> {
        let items = module.items.iter();
        items
            .filter_map(|item| match item {
                Item::Function(function) => {
                    Some((function.name, self.of_body(function.body.as_ref()?)))
                }
                _ => None,
            })
            .collect()
    }
}

/// Names that each function reaches, by the functions that it names.
pub(super) fn reached(direct: &BTreeMap<Name, BTreeSet<Name>>) -> BTreeMap<Name, BTreeSet<Name>> {
    let all = direct.keys().map(|function| {
        let mut open = vec![*function];
        let mut functions = BTreeSet::from([*function]);
        let mut names = BTreeSet::new();
        while let Some(next) = open.pop() {
            for name in direct.get(&next).into_iter().flatten() {
                names.insert(*name);
                if direct.contains_key(name) && functions.insert(*name) {
                    open.push(*name);
                }
            }
        }
        (*function, names)
    });
    all.collect()
}

/// What of the original is written.
pub(super) struct Kept<'m> {
    /// Functions that stay text.
    pub verbatim: BTreeSet<&'m str>,
    /// Other names of functions.
    pub aliases: BTreeSet<&'m str>,
    /// Variables, by [`VarId`].
    pub variables: Vec<bool>,
    /// Functions with a body in LLVM's text, or that stay text.
    pub defined: BTreeSet<String>,
}

impl<'m> Kept<'m> {
    /// Everything when all kernels are there; else what those that are there need.
    pub fn new(
        made: &Tree,
        original: &'m tree::Module,
        checked: &'m typed::Module,
        verbatim: &BTreeSet<&str>,
    ) -> Self {
        let mut defined: BTreeSet<String> = made
            .module
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Function(f) if f.body.is_some() => Some(made.module.name(f.name).to_owned()),
                _ => None,
            })
            .collect();
        let mut stays = BTreeSet::new();
        for function in &checked.functions {
            if function.body.is_some() && verbatim.contains(&*function.name) {
                defined.insert(function.name.to_string());
                stays.insert(&*function.name);
            }
        }
        let functions = (0u32..).map(FnId).zip(&checked.functions);
        let there = functions
            .clone()
            .filter(|(_, function)| defined.contains(&*function.name));
        let complete = functions
            .clone()
            .filter(|(_, function)| function.entry && function.body.is_some())
            .all(|(_, function)| defined.contains(&*function.name));
        let mut variables = match complete {
            true => vec![true; checked.variables.len()],
            false => variables::reachable(checked, there.map(|(id, _)| id)).variables,
        };
        // It stands for all dynamic shared memory.
        if let Some(VarId(first)) = variables::first_dynamic(checked)
            && let Some(first) = variables.get_mut(first as usize)
        {
            *first = true;
        }
        let aliases = original.items.iter().filter_map(|item| match item {
            Item::Alias { alias, target, .. } => {
                let there = defined.contains(original.name(*target));
                there.then(|| original.name(*alias))
            }
            _ => None,
        });
        Self {
            verbatim: stays,
            aliases: aliases.collect(),
            variables,
            defined,
        }
    }
}

/// Functions that text names: initialisers of kept variables, functions that stay text, aliases.
pub(super) fn named_by_text(checked: &typed::Module, kept: &Kept<'_>) -> BTreeSet<FnId> {
    let variables = checked.variables.iter().zip(&kept.variables);
    let of_variables = variables
        .filter(|(_, kept)| **kept)
        .flat_map(|(variable, _)| &variable.relocations)
        .map(|relocation| relocation.symbol);
    let functions = (0u32..).map(FnId).zip(&checked.functions);
    let there = functions.filter(|(_, function)| kept.defined.contains(&*function.name));
    let of_bodies = there.flat_map(|(id, function)| {
        let text = kept.verbatim.contains(&*function.name);
        let locals = function.body.iter().flat_map(|body| &body.locals);
        let relocations = locals.flat_map(|local| &local.relocations);
        let named = text.then(|| variables::named_by_function(checked, id));
        let own = text.then_some(Symbol::Function(id));
        relocations
            .map(|relocation| relocation.symbol)
            .chain(named.into_iter().flatten())
            .chain(own)
    });
    let symbols = of_variables.chain(of_bodies);
    symbols
        .filter_map(|symbol| match symbol {
            Symbol::Function(id) => Some(id),
            _ => None,
        })
        .collect()
}
