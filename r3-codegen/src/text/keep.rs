//! One kernel and what it needs.

use std::collections::BTreeSet;

use r3_ptx::tree::{self, FunctionDirective, Item, Statement};
use r3_ptx::typed::{self, FnId};

use super::TextError;
use crate::lift::variables;

/// Drops other kernels, and what only they need. A module in which there is no other stays as it is. Returns whether
/// something went.
///
/// # Errors
/// When the kernel is not there.
pub(super) fn keep(
    tree: &mut tree::Module,
    checked: &typed::Module,
    kernel: &str,
) -> Result<bool, TextError> {
    let kernels: Vec<(FnId, &str)> = (0u32..)
        .map(FnId)
        .zip(&checked.functions)
        .filter(|(_, function)| function.entry && function.body.is_some())
        .map(|(id, function)| (id, &*function.name))
        .collect();
    let Some(&(id, _)) = kernels.iter().find(|(_, name)| *name == kernel) else {
        let names: Vec<&str> = kernels.iter().map(|(_, name)| *name).collect();
        return Err(TextError::NoKernel {
            kernel: kernel.to_owned(),
            has: match names.is_empty() {
                true => "none".to_owned(),
                false => names.join(", "),
            },
        });
    };
    if kernels.len() == 1 {
        return Ok(false);
    }
    let reached = variables::reachable(checked, [id]);
    let marked = |marks: &[bool], at: usize| marks.get(at).copied().unwrap_or(false);
    let functions = checked.functions.iter().enumerate();
    let variables = checked.variables.iter().enumerate();
    let mut names: BTreeSet<&str> = functions
        .filter(|(at, _)| marked(&reached.functions, *at))
        .map(|(_, function)| &*function.name)
        .collect();
    names.extend(
        variables
            .filter(|(at, _)| marked(&reached.variables, *at))
            .map(|(_, variable)| &*variable.name),
    );
    // Another name of a function that stays.
    names.extend(
        checked
            .aliases
            .iter()
            .filter(|(_, id)| marked(&reached.functions, id.0 as usize))
            .map(|(alias, _)| &**alias),
    );
    let texts = std::mem::take(&mut tree.names);
    let has = |name: tree::Name| {
        let text = texts.get(name.0 as usize);
        text.is_some_and(|text| names.contains(&**text))
    };
    tree.items.retain(|item| match item {
        Item::Function(function) => has(function.name),
        Item::Variable(variable) => has(variable.name),
        Item::Alias { alias, .. } => has(*alias),
        // Debugging sections name places in functions that are gone.
        Item::Verbatim { text, .. } => !text.trim_start().starts_with(".section"),
    });
    tree.names = texts;
    tree.target.retain(|word| word != "debug");
    for item in &mut tree.items {
        if let Item::Function(function) = item {
            forget_lines(function);
        }
    }
    Ok(true)
}

/// Drops what refers to debugging sections.
fn forget_lines(function: &mut tree::Function) {
    if let Some(body) = &mut function.body {
        body.statements
            .retain(|statement| !matches!(statement, Statement::Loc(..)));
    }
    function
        .directives
        .retain(|directive| !matches!(directive, FunctionDirective::Verbatim(text) if text.trim_start().starts_with(".loc")));
}
