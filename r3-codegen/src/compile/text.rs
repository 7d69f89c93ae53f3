//! The way of PTX that stays text, and edits of text on the other ways.

use super::failure::refused;
use super::{Cause, Job, Written};
use crate::passes;
use crate::recipe::{Contraction, Failure, FailureKind, Pipeline, Recipe, Stage, Unroll};
use crate::text::{self, Edited, TextError};
use r3_ptx::{Errors, tree, typed};

/// PTX to PTX without LLVM. What is not changed at all comes out as it came, byte for byte.
pub(super) fn compile(job: &mut Job<'_>, text: &str) -> Result<Written, Failure> {
    let recipe = job.recipe;
    job.clock
        .stage(Stage::Specialise, || without_llvm(recipe))?;
    let (mut tree, checked) = job.clock.stage(Stage::Parse, || read(text))?;
    let edited = job.clock.stage(Stage::Specialise, || {
        let mut edited = text::edit(&mut tree, &checked, recipe)
            .map_err(|error| error.failure(Stage::Specialise))?;
        edited.differs |= head(&mut tree, recipe)?;
        Ok::<_, Failure>(edited)
    })?;
    let target = tree.target.first().cloned().ok_or_else(|| {
        refused(
            Stage::Parse,
            "the code names no target; name one, like sm_90",
        )
    })?;
    let differs = edited.differs;
    job.take(edited);
    let ptx = match differs {
        true => job.clock.stage(Stage::Specialise, || print(&tree))?,
        false => text.to_owned(),
    };
    Ok(Written { ptx, target })
}

/// Cache operators, and for code of other compilers approximations, in what LLVM wrote.
pub(super) fn after_llvm(
    job: &mut Job<'_>,
    mut written: Written,
    foreign: bool,
) -> Result<Written, Failure> {
    let recipe = job.recipe;
    if !text::is_wanted_after_llvm(recipe, foreign) {
        return Ok(written);
    }
    let edited = job.clock.stage(Stage::Emit, || {
        let (mut tree, checked) = read(&written.ptx).map_err(|failure| own(&failure))?;
        let edited = text::after_llvm(&mut tree, &checked, recipe, foreign);
        if edited.differs {
            written.ptx = print(&tree)?;
        }
        Ok::<_, Failure>(edited)
    })?;
    job.take(edited);
    Ok(written)
}

/// Edits before lifting: the tree with its checked form, changed where a recipe wants it.
pub(super) fn before_lifting(
    job: &mut Job<'_>,
    mut tree: tree::Module,
    checked: typed::Module,
) -> Result<(tree::Module, typed::Module), Failure> {
    let recipe = job.recipe;
    if !text::is_wanted_before_lifting(recipe) {
        return Ok((tree, checked));
    }
    let (edited, checked) = job.clock.stage(Stage::Specialise, || {
        let edited = text::before_lifting(&mut tree, &checked, recipe);
        let checked = match edited.differs {
            true => r3_ptx::check(&tree).map_err(|errors| own(&unreadable(&errors, "")))?,
            false => checked,
        };
        Ok::<_, Failure>((edited, checked))
    })?;
    job.take(edited);
    Ok((tree, checked))
}

/// What only LLVM does, and nobody should believe to have had.
fn without_llvm(recipe: &Recipe) -> Result<(), TextError> {
    let asked = [
        (recipe.pipeline != Pipeline::Nothing, "a pipeline of passes"),
        (!recipe.llvm_options.is_empty(), "options of LLVM"),
        (matches!(recipe.unroll, Unroll::Count(_)), "an unroll count"),
        (recipe.inline_functions, "inlining"),
        (
            recipe.contraction == Contraction::Llvm,
            "fusing products by LLVM",
        ),
        (recipe.emit.llvm, "LLVM IR as an answer"),
    ];
    match asked.into_iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(TextError::NeedsLlvm { what }),
        None => Ok(()),
    }
}

/// Target and version of PTX. Returns whether the text differs.
fn head(tree: &mut tree::Module, recipe: &Recipe) -> Result<bool, Failure> {
    let before = (tree.version, tree.target.first().cloned());
    if let Some(version) = recipe.ptx_version {
        tree.version = version;
    }
    if let Some(target) = &recipe.target {
        match tree.target.first_mut() {
            Some(first) => first.clone_from(target),
            None => tree.target.push(target.clone()),
        }
        if before.1.as_ref() != Some(target) {
            let least = passes::least_ptx_version(target)
                .map_err(|error| error.failure(Stage::Specialise))?;
            tree.version = tree.version.max(least);
        }
    }
    Ok(before != (tree.version, tree.target.first().cloned()))
}

/// PTX as a tree and checked.
pub(super) fn read(text: &str) -> Result<(tree::Module, typed::Module), Failure> {
    let tree = r3_ptx::parse(text).map_err(|errors| unreadable(&errors, text))?;
    let checked = r3_ptx::check(&tree).map_err(|errors| unreadable(&errors, text))?;
    Ok((tree, checked))
}

/// An edited tree as text, which can be read.
fn print(tree: &tree::Module) -> Result<String, Failure> {
    let text = tree.to_string();
    read(&text).map_err(|failure| own(&failure))?;
    Ok(text)
}

/// A mistake of ours in text that nobody gave.
fn own(failure: &Failure) -> Failure {
    Failure {
        message: format!("the changed PTX cannot be read: {}", failure.message),
        ..failure.clone()
    }
}

/// Errors in PTX, with their lines.
pub(super) fn unreadable(errors: &Errors, text: &str) -> Failure {
    Failure {
        stage: Stage::Parse,
        kind: FailureKind::Refused,
        message: errors
            .first()
            .map_or_else(|| "not PTX".to_owned(), ToString::to_string),
        log: errors.render(text),
    }
}

impl Job<'_> {
    /// Takes over what edits did.
    pub(super) fn take(&mut self, edited: Edited) {
        self.changes.extend(edited.changes);
        self.guards.extend(edited.guards);
        self.notes.extend(edited.notes);
    }
}
