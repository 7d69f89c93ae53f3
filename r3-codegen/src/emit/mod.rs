//! LLVM IR to PTX, and what LLVM cannot print put back.
//!
//! LLVM prints functions; of variables it only knew declarations ([`lift`](crate::lift)). So its text is parsed, and the
//! tree edited before it is printed again:
//!
//! 1. `names`: what the functions of a tree name, and how far that reaches.
//! 2. `functions`: linkage, parameters and directives as in the original, and call sequences that fit them.
//! 3. `variables`: definitions with initialisers; shared variables of functions; and a mention of each shared variable
//!    that the original counted for a kernel, so that static sizes stay equal when passes removed every use.
//! 4. Functions that were not lifted, as they were; aliases.
//!
//! The order of the text: declarations of functions, variables, definitions. An initialiser can name a function then, and
//! a function a variable.

mod functions;
mod names;
mod results;
mod variables;

use std::collections::BTreeSet;

use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::targets::{FileType, TargetMachine};
use r3_ptx::tree::{self, Item, Linkage};
use r3_ptx::{Errors, typed};

use crate::lift::Lifted;
use crate::recipe::Bounds;
use names::Tree;

/// Why no PTX came out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// LLVM's code generator failed.
    #[error("LLVM generated no code: {reason}")]
    CodeGeneration {
        /// What it said.
        reason: String,
    },
    /// LLVM's text could not be read: a gap in the parser, or inline assembly that is no PTX.
    #[error("the generated PTX cannot be read: {0}")]
    Parse(Errors),
}

/// What differs from the original.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The target to write, where it is not that of the original.
    pub target: Option<String>,
    /// The version of PTX to write, where it is not the least that both texts need. LLVM's text may need a later one.
    pub ptx_version: Option<(u16, u16)>,
    /// Launch bounds.
    pub bounds: Bounds,
}

/// PTX of a module as LLVM prints it.
///
/// # Errors
/// When LLVM's code generator fails.
pub fn text(module: &Module<'_>, machine: &TargetMachine) -> Result<String, EmitError> {
    let buffer = machine
        .write_to_memory_buffer(module, FileType::Assembly)
        .map_err(|reason| EmitError::CodeGeneration {
            reason: reason.to_string(),
        })?;
    let bytes = buffer.as_slice();
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// PTX of a lifted module.
///
/// # Errors
/// When LLVM's code generator fails, or its text cannot be read.
pub fn emit(
    lifted: &Lifted<'_>,
    machine: &TargetMachine,
    original: &tree::Module,
    checked: &typed::Module,
    options: &Options,
) -> Result<String, EmitError> {
    results::forget_alignments(&lifted.module);
    let text = text(&lifted.module, machine)?;
    let made = r3_ptx::parse(&text).map_err(EmitError::Parse)?;
    let verbatim: BTreeSet<&str> = lifted.verbatim.iter().map(|(name, _)| &**name).collect();
    Ok(put_back(made, original, checked, &verbatim, options))
}

/// The whole edit of the tree.
fn put_back(
    made: tree::Module,
    original: &tree::Module,
    checked: &typed::Module,
    verbatim: &BTreeSet<&str>,
    options: &Options,
) -> String {
    let mut made = Tree::new(made);
    made.module.version = head_version(&made.module, original, options);
    made.module.target = head_target(original, options);
    let kept = names::Kept::new(&made, original, checked, verbatim);
    functions::restore(&mut made, original, verbatim, &options.bounds);
    variables::name_dynamic(&mut made, checked);
    let (own, of_module) = variables::restore(&mut made, original, checked, &kept);
    let mut declarations = functions::more_declarations(&mut made, original, checked, &kept);
    let mut definitions = Vec::new();
    for item in std::mem::take(&mut made.module.items) {
        match &item {
            Item::Function(function) if function.body.is_none() => declarations.push(item),
            Item::Function(_) | Item::Alias { .. } => definitions.push(item),
            Item::Variable(_) | Item::Verbatim { .. } => {}
        }
    }
    let pragmas = original
        .items
        .iter()
        .filter(|item| is_pragma(item))
        .cloned();
    made.module.items = pragmas
        .chain(declarations)
        .chain(of_module)
        .chain(own)
        .chain(definitions)
        .collect();
    let mut text = made.module.to_string();
    let whole = whole_items(original, &kept);
    if !whole.is_empty() {
        let part = tree::Module {
            items: whole,
            names: original.names.clone(),
            mnemonics: original.mnemonics.clone(),
            ..tree::Module::default()
        };
        text.push_str(without_head(&part.to_string()));
    }
    text
}

/// What is written as it was: functions that were not lifted, and other names.
fn whole_items(original: &tree::Module, kept: &names::Kept<'_>) -> Vec<Item> {
    let wanted = |item: &&Item| match item {
        Item::Function(function) => {
            function.body.is_some() && kept.verbatim.contains(original.name(function.name))
        }
        Item::Alias { alias, .. } => kept.aliases.contains(original.name(*alias)),
        Item::Variable(_) | Item::Verbatim { .. } => false,
    };
    original.items.iter().filter(wanted).cloned().collect()
}

fn is_pragma(item: &Item) -> bool {
    matches!(item, Item::Verbatim { text, .. } if text.trim_start().starts_with(".pragma"))
}

/// A printed module without `.version` and so on: an empty line follows these.
fn without_head(text: &str) -> &str {
    text.split_once("\n\n").map_or(text, |(_, rest)| rest)
}

/// The version that was asked for, or the least that the original and LLVM's text are satisfied with.
fn head_version(made: &tree::Module, original: &tree::Module, options: &Options) -> (u16, u16) {
    made.version
        .max(options.ptx_version.unwrap_or(original.version))
}

/// The target with the modes of the original (`texmode_independent`). What describes debugging sections is gone with
/// them.
fn head_target(original: &tree::Module, options: &Options) -> Vec<String> {
    let mut words = original.target.clone();
    words.retain(|word| word != "debug");
    if let (Some(target), Some(first)) = (&options.target, words.first_mut()) {
        first.clone_from(target);
    }
    words
}

/// Sets launch bounds on all kernels of a module, as attributes: for code that does not come from PTX.
pub fn set_bounds(module: &Module<'_>, bounds: &Bounds) {
    const KERNEL: u32 = 71;
    let text = |value: Option<u32>| {
        value
            .map(|value| value.to_string())
            .map(|text| match &*text {
                "0" => String::new(),
                _ => text,
            })
    };
    let required = bounds.reqntid.map(|size| match size {
        [0, 0, 0] => String::new(),
        [x, y, z] => format!("{x},{y},{z}"),
    });
    // A required block says all, and does not go together with a bound.
    let only = required.as_ref().is_some_and(|text| !text.is_empty());
    let all = [
        ("nvvm.reqntid", required),
        ("nvvm.maxnreg", text(bounds.maxnreg)),
        (
            "nvvm.maxntid",
            if only {
                Some(String::new())
            } else {
                text(bounds.maxntid)
            },
        ),
        ("nvvm.minctasm", text(bounds.minnctapersm)),
    ];
    let place = AttributeLoc::Function;
    let kernels = module
        .get_functions()
        .filter(|function| function.get_call_conventions() == KERNEL);
    for function in kernels {
        for (name, value) in &all {
            let Some(value) = value else { continue };
            function.remove_string_attribute(place, name);
            if !value.is_empty() {
                let context = module.get_context();
                let attribute = context.create_string_attribute(name, value);
                function.add_attribute(place, attribute);
            }
        }
    }
}

/// Linkage of a function or variable of the original.
fn linkage_of(original: &tree::Module, name: &str) -> Option<Linkage> {
    let mut found = None;
    for item in &original.items {
        if let Item::Function(function) = item
            && original.name(function.name) == name
        {
            found = Some(function.linkage);
            if function.body.is_some() {
                return found;
            }
        }
    }
    found
}
