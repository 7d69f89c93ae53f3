//! Heads of functions as in the original, and call sequences that fit them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use r3_ptx::isa::Opcode;
use r3_ptx::tree::{self, Body, Function, Item, Linkage, Name, Operand, Statement, Variable};
use r3_ptx::typed;

use super::linkage_of;
use super::names::{Kept, Tree, named_by_text};
use crate::recipe::Bounds;
use crate::text::bounds;

/// Pragmas in a body that are about an instruction or a loop, which LLVM has seen or which are gone.
const OF_INSTRUCTIONS: &[&str] = &["nounroll", "used_bytes_mask", "frequency", "unroll"];

/// Gives all functions what the original's have.
pub(super) fn restore(
    made: &mut Tree,
    original: &tree::Module,
    verbatim: &BTreeSet<&str>,
    wanted: &Bounds,
) {
    let sources = sources(original);
    let mut items = std::mem::take(&mut made.module.items);
    // Functions of which the parameters are written as in the original.
    let mut rewritten: HashMap<Name, Vec<Variable>> = HashMap::new();
    for item in &mut items {
        let Item::Function(function) = item else {
            continue;
        };
        let name: Box<str> = made.module.name(function.name).into();
        let Some(source) = sources.get(&*name).copied() else {
            continue;
        };
        // What LLVM could not see from everywhere it may have changed: then its own layout is right.
        let fixed = function.linkage != Linkage::Internal;
        if fixed && same_layout(function, source) {
            for (to, from) in function.params.iter_mut().zip(&source.params) {
                take_type(to, from);
            }
            for (to, from) in function.results.iter_mut().zip(&source.results) {
                take_type(to, from);
            }
            if !function.entry {
                let all = function.params.iter().chain(&function.results);
                rewritten.insert(function.name, all.cloned().collect());
            }
        }
        function.linkage = match verbatim.contains(&*name) {
            true => linkage_of(original, &name).unwrap_or(function.linkage),
            false => source.linkage,
        };
        function.attributes.clone_from(&source.attributes);
        function.directives.clone_from(&source.directives);
        if function.entry {
            bounds::put(&mut function.directives, wanted);
        }
        if let (Some(body), Some(source)) = (&mut function.body, &source.body) {
            pragmas(body, source);
        }
    }
    for item in &mut items {
        if let Item::Function(function) = item
            && let Some(body) = &mut function.body
        {
            call_sequences(&made.module, body, &rewritten);
        }
    }
    made.module.items = items;
}

/// Functions by name: definitions before declarations.
fn sources(original: &tree::Module) -> BTreeMap<&str, &Function> {
    let mut found: BTreeMap<&str, &Function> = BTreeMap::new();
    for item in &original.items {
        if let Item::Function(function) = item {
            let place = found
                .entry(original.name(function.name))
                .or_insert(function);
            if place.body.is_none() && function.body.is_some() {
                *place = function;
            }
        }
    }
    found
}

fn same_layout(made: &Function, source: &Function) -> bool {
    let same = |a: &[Variable], b: &[Variable]| {
        a.len() == b.len()
            && a.iter()
                .zip(b)
                .all(|(a, b)| bytes(a).is_some() && bytes(a) == bytes(b))
    };
    made.entry == source.entry
        && same(&made.params, &source.params)
        && same(&made.results, &source.results)
}

/// Size of a parameter; `None` when it has none, or is a register.
fn bytes(variable: &Variable) -> Option<u64> {
    let element = variable.ty.bytes() * u64::from(variable.vector.max(1));
    let mut dims = variable.dims.iter();
    let in_memory = variable.space.is_param();
    in_memory
        .then(|| dims.try_fold(element, |size, dim| size.checked_mul((*dim)?)))
        .flatten()
}

fn take_type(to: &mut Variable, from: &Variable) {
    to.align = from.align;
    to.vector = from.vector;
    to.ty = from.ty;
    to.ptr = from.ptr;
    to.dims.clone_from(&from.dims);
    to.attributes.clone_from(&from.attributes);
}

/// Parameters of a call have the types of the callee's.
fn call_sequences(
    module: &tree::Module,
    body: &mut Body,
    rewritten: &HashMap<Name, Vec<Variable>>,
) {
    // Each declaration in reach, by name; LLVM opens a block for each call.
    let mut declared: HashMap<Name, usize> = HashMap::new();
    let mut changes: Vec<(usize, Variable)> = Vec::new();
    for (at, statement) in body.statements.iter().enumerate() {
        match statement {
            Statement::Variable(variable) if variable.space.is_param() => {
                declared.insert(variable.name, at);
            }
            Statement::Instruction(instruction)
                if module.mnemonic(instruction.mnemonic).opcode() == Opcode::Call =>
            {
                let operands = body.range(instruction.operands);
                let Some((callee, params, results)) = call(body, operands) else {
                    continue;
                };
                let given = params.iter().chain(results);
                let wanted = rewritten.get(&callee).into_iter().flatten();
                for (given, wanted) in given.zip(wanted) {
                    if let Operand::Name(name) = given
                        && let Some(at) = declared.get(name)
                    {
                        changes.push((*at, wanted.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    for (at, wanted) in changes {
        if let Some(Statement::Variable(variable)) = body.statements.get_mut(at)
            && bytes(variable) == bytes(&wanted)
        {
            let ptr = variable.ptr;
            take_type(variable, &wanted);
            variable.ptr = ptr;
        }
    }
}

/// Callee, arguments and results of a direct call.
fn call<'b>(body: &'b Body, operands: &[Operand]) -> Option<(Name, &'b [Operand], &'b [Operand])> {
    let (results, rest) = match operands {
        [Operand::List(range), rest @ ..] => (body.range(*range), rest),
        rest => (&[][..], rest),
    };
    let (Operand::Name(callee), rest) = rest.split_first()? else {
        return None;
    };
    let params = match rest.first() {
        Some(Operand::List(range)) => body.range(*range),
        _ => &[],
    };
    Some((*callee, params, results))
}

/// Pragmas of a body that are about the whole function.
fn pragmas(body: &mut Body, source: &Body) {
    let mut found = Vec::new();
    for statement in &source.statements {
        if let Statement::Pragma(pos, texts) = statement {
            let mut texts = texts.clone();
            texts.retain(|text| {
                let word = text.split_whitespace().next().unwrap_or_default();
                !OF_INSTRUCTIONS.contains(&word)
            });
            if !texts.is_empty() {
                found.push(Statement::Pragma(*pos, texts));
            }
        }
    }
    body.statements.splice(0..0, found);
}

/// Declarations that text needs and LLVM's text does not have.
pub(super) fn more_declarations(
    made: &mut Tree,
    original: &tree::Module,
    checked: &typed::Module,
    kept: &Kept<'_>,
) -> Vec<Item> {
    let present: BTreeSet<Name> = made
        .module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Function(function) if function.body.is_none() => Some(function.name),
            _ => None,
        })
        .collect();
    let definitions: HashMap<Name, Function> = made
        .module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Function(function) if function.body.is_some() => Some((
                function.name,
                Function {
                    body: None,
                    ..head_of(function)
                },
            )),
            _ => None,
        })
        .collect();
    let sources = sources(original);
    let mut items = Vec::new();
    let named = named_by_text(checked, kept);
    let functions = named
        .iter()
        .filter_map(|id| checked.functions.get(id.0 as usize))
        .map(|function| &*function.name);
    // Another name has a declaration of its own.
    for text in functions.chain(kept.aliases.iter().copied()) {
        let name = made.name(text);
        if present.contains(&name) {
            continue;
        }
        if let Some(head) = definitions.get(&name) {
            items.push(Item::Function(head.clone()));
        } else if let Some(source) = sources.get(text) {
            items.push(Item::Function(import_head(made, original, source)));
        }
    }
    items
}

fn head_of(function: &Function) -> Function {
    Function {
        pos: function.pos,
        linkage: function.linkage,
        entry: function.entry,
        attributes: function.attributes.clone(),
        results: function.results.clone(),
        name: function.name,
        params: function.params.clone(),
        has_param_list: function.has_param_list,
        directives: function.directives.clone(),
        body: None,
    }
}

fn import_head(made: &mut Tree, original: &tree::Module, source: &Function) -> Function {
    let mut head = head_of(source);
    head.name = made.name(original.name(source.name));
    for variable in head.params.iter_mut().chain(&mut head.results) {
        variable.name = made.name(original.name(variable.name));
    }
    head
}
