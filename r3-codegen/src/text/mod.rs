//! PTX that stays PTX: what a recipe asks for, written into the text.
//!
//! In flow a parsed module and its checked form; out flows the same module, edited, with what each edit did. Nothing here
//! knows LLVM. The text route is all of it, in this order:
//!
//! 1. `keep`: one kernel and what it needs.
//! 2. `approximate`, `origins`, `memory`: mnemonics change one by one, operands stay. Also done before PTX is lifted, and
//!    to what LLVM writes.
//! 3. `constants`: parameters and launch dimensions that are known; each leaves a guard.
//! 4. `bounds`: directives of kernels.
//!
//! # Invariants
//!
//! - **Nothing asked for, nothing changed.** Then the caller keeps the text as it came, byte for byte.
//! - **An edit is counted.** Each thing that was asked for has a [`Change`] with the number of places, 0 where the code has
//!   no use for it.
//! - **What an edit relies on is a guard**, as in lifted code.
//! - The edited module is checked again by the caller: an edit cannot make text that the assembler alone would refuse.

mod approximate;
pub(crate) mod bounds;
mod constants;
mod keep;
mod memory;
mod origins;
mod words;

use std::collections::HashMap;

use r3_ptx::tree::{self, Body, Item, Statement};
use r3_ptx::typed::{self, FnId};

use crate::lift::variables;
use crate::recipe::{Change, Guard, Knob, Recipe, Unroll};

/// What was done to a module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Edited {
    /// What each thing that was asked for did.
    pub changes: Vec<Change>,
    /// What the code relies on now.
    pub guards: Vec<Guard>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The module differs from what it was.
    pub differs: bool,
}

impl Edited {
    /// Counts what was asked for.
    fn count(&mut self, knob: Knob, places: u32) {
        self.differs |= places > 0;
        self.changes.push(Change {
            knob,
            places: Some(places),
        });
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Why text could not be edited.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextError {
    /// There is no such kernel.
    #[error("there is no kernel {kernel} in this code; it has {has}")]
    NoKernel {
        /// What was asked for.
        kernel: String,
        /// Names of the kernels that are there.
        has: String,
    },
    /// Facts about launches do not fit the kernel.
    #[error(transparent)]
    Facts(#[from] crate::specialise::SpecialiseError),
    /// The recipe asks for what only LLVM does.
    #[error(
        "{what} is for code that goes through LLVM, and this PTX stays text: leave it out, or take the lifting route"
    )]
    NeedsLlvm {
        /// What was asked for.
        what: &'static str,
    },
}

/// Everything that the text route does to a module.
///
/// # Errors
/// When the kernel is not there, or what is asked for cannot be done in text.
pub(crate) fn edit(
    tree: &mut tree::Module,
    checked: &typed::Module,
    recipe: &Recipe,
) -> Result<Edited, TextError> {
    let mut done = Edited::default();
    if let Some(kernel) = &recipe.kernel {
        done.differs |= keep::keep(tree, checked, kernel)?;
    }
    if recipe.unroll == Unroll::Free {
        let places = unroll_freely(tree);
        done.count(Knob::Unroll, places);
    }
    arithmetic(tree, checked, recipe, &mut done);
    read_only(tree, checked, recipe, &mut done);
    caches(tree, checked, recipe, &mut done);
    constants::apply(tree, checked, recipe, &mut done)?;
    bounds::of_kernels(tree, &recipe.bounds, &mut done);
    Ok(done)
}

/// What a recipe's bounds and its word on loops change in a module that goes through LLVM.
pub(crate) fn told(tree: &tree::Module, checked: &typed::Module, recipe: &Recipe) -> Edited {
    let mut done = Edited::default();
    let places = match recipe.unroll {
        Unroll::Keep => None,
        Unroll::Free => Some(Some(marks(checked, recipe.kernel.as_deref()))),
        Unroll::Count(_) => Some(None),
    };
    if let Some(places) = places {
        let knob = Knob::Unroll;
        done.changes.push(Change { knob, places });
    }
    let kernels = bounds::kernels(tree).filter(|function| {
        let name = tree.name(function.name);
        recipe.kernel.as_deref().is_none_or(|kernel| kernel == name)
    });
    let directives = kernels.map(|kernel| kernel.directives.as_slice());
    bounds::tell(directives, &recipe.bounds, &mut done);
    done
}

/// What is done before PTX is lifted: LLVM sees what these edits allow.
pub(crate) fn before_lifting(
    tree: &mut tree::Module,
    checked: &typed::Module,
    recipe: &Recipe,
) -> Edited {
    let mut done = Edited::default();
    arithmetic(tree, checked, recipe, &mut done);
    read_only(tree, checked, recipe, &mut done);
    done
}

/// What is done to text that LLVM wrote. `foreign`: nothing was done before it.
pub(crate) fn after_llvm(
    tree: &mut tree::Module,
    checked: &typed::Module,
    recipe: &Recipe,
    foreign: bool,
) -> Edited {
    let mut done = Edited::default();
    if foreign {
        arithmetic(tree, checked, recipe, &mut done);
        read_only(tree, checked, recipe, &mut done);
    }
    caches(tree, checked, recipe, &mut done);
    done
}

/// Whether [`after_llvm`] has anything to do.
pub(crate) fn is_wanted_after_llvm(recipe: &Recipe, foreign: bool) -> bool {
    let operators = recipe.cache_operators;
    let caches = operators.loads.is_some() || operators.stores.is_some();
    caches || (foreign && is_wanted_before_lifting(recipe))
}

/// Whether [`before_lifting`] has anything to do.
pub(crate) fn is_wanted_before_lifting(recipe: &Recipe) -> bool {
    recipe.approximate.division || recipe.approximate.flush || recipe.read_only_loads
}

fn arithmetic(
    tree: &mut tree::Module,
    checked: &typed::Module,
    recipe: &Recipe,
    done: &mut Edited,
) {
    let wanted = wanted(checked, recipe.kernel.as_deref());
    if recipe.approximate.division {
        let places = words::rewrite(tree, checked, &wanted, approximate::division);
        done.count(Knob::Division, places);
        if places > 0 {
            done.note(format!(
                "{places} divisions, reciprocals and square roots are approximate now"
            ));
        }
    }
    if recipe.approximate.flush {
        let places = words::rewrite(tree, checked, &wanted, approximate::flush);
        done.count(Knob::Flush, places);
        if places > 0 {
            done.note(format!("{places} instructions flush subnormal numbers now"));
        }
    }
}

fn read_only(tree: &mut tree::Module, checked: &typed::Module, recipe: &Recipe, done: &mut Edited) {
    if recipe.read_only_loads {
        let wanted = wanted(checked, recipe.kernel.as_deref());
        memory::read_only(tree, checked, &wanted, done);
    }
}

fn caches(tree: &mut tree::Module, checked: &typed::Module, recipe: &Recipe, done: &mut Edited) {
    let wanted = wanted(checked, recipe.kernel.as_deref());
    memory::operators(tree, checked, &wanted, &recipe.cache_operators, done);
}

/// Which functions edits are for, by [`FnId`]: those that the kernel reaches, else all.
fn wanted(checked: &typed::Module, kernel: Option<&str>) -> Vec<bool> {
    let functions = (0u32..).map(FnId).zip(&checked.functions);
    let kernel = kernel.and_then(|kernel| {
        functions
            .into_iter()
            .find(|(_, function)| function.entry && *function.name == *kernel)
    });
    match kernel {
        Some((id, _)) => variables::reachable(checked, [id]).functions,
        None => vec![true; checked.functions.len()],
    }
}

/// Bodies of a tree with their checked form, of functions that are wanted.
fn bodies<'t, 'c>(
    tree: &'t mut tree::Module,
    checked: &'c typed::Module,
    wanted: &[bool],
) -> Vec<Pair<'t, 'c>> {
    let ids: HashMap<&str, FnId> = (0u32..)
        .map(FnId)
        .zip(&checked.functions)
        .filter(|(id, _)| wanted.get(id.0 as usize).copied().unwrap_or(false))
        .map(|(id, function)| (&*function.name, id))
        .collect();
    let names = &tree.names;
    let functions = tree.items.iter_mut().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    });
    functions
        .filter_map(|function| {
            let name = names.get(function.name.0 as usize)?;
            let id = *ids.get(&**name)?;
            let typed = checked.functions.get(id.0 as usize)?;
            let (body, of) = (function.body.as_mut()?, typed.body.as_ref()?);
            let count = instructions(body).count();
            // A checked body has each instruction of the text.
            (count == of.instructions.len()).then_some(Pair {
                id,
                function: typed,
                body,
                checked: of,
            })
        })
        .collect()
}

/// A body as text and checked: the n-th instruction of one is that of the other.
struct Pair<'t, 'c> {
    id: FnId,
    function: &'c typed::Function,
    body: &'t mut Body,
    checked: &'c typed::Body,
}

fn instructions(body: &Body) -> impl Iterator<Item = &tree::Instruction> {
    body.statements.iter().filter_map(|s| match s {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    })
}

/// How often `.pragma "nounroll"` stands in wanted functions.
fn marks(checked: &typed::Module, kernel: Option<&str>) -> u32 {
    let functions = checked.functions.iter().zip(wanted(checked, kernel));
    let bodies =
        functions.filter_map(|(function, wanted)| function.body.as_ref().filter(|_| wanted));
    let pragmas = bodies.flat_map(|body| &body.pragmas);
    pragmas
        .filter(|(_, text)| text.trim() == "nounroll")
        .count() as u32
}

/// Drops `.pragma "nounroll"` of bodies. Returns how many.
fn unroll_freely(tree: &mut tree::Module) -> u32 {
    let mut places = 0;
    for item in &mut tree.items {
        let Item::Function(function) = item else {
            continue;
        };
        let Some(body) = &mut function.body else {
            continue;
        };
        body.statements.retain_mut(|statement| {
            let Statement::Pragma(_, texts) = statement else {
                return true;
            };
            let before = texts.len();
            texts.retain(|text| text.trim() != "nounroll");
            places += (before - texts.len()) as u32;
            !texts.is_empty()
        });
    }
    places
}
