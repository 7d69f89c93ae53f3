//! The way of PTX.

use std::cell::RefCell;

use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::module::Module;

use super::failure::refused;
use super::middle::{Middle, Origin};
use super::{Job, Written, text};
use crate::passes::{self, Diagnostics, PassError};
use crate::recipe::{Failure, Stage, Unroll};
use crate::{emit, lift};

/// What code needs a version of PTX beyond that of its target for: attributes of functions and parameters, and the version.
const NEEDS: &[(&str, (u16, u16))] = &[
    ("nvvm.grid_constant", (7, 7)),
    ("nvvm.blocksareclusters", (9, 0)),
];

/// PTX to PTX.
pub(super) fn compile(job: &mut Job<'_>, text: &str) -> Result<Written, Failure> {
    let recipe = job.recipe;
    let (tree, checked) = job.clock.stage(Stage::Parse, || text::read(text))?;
    let (tree, checked) = text::before_lifting(job, tree, checked)?;
    if checked.address_bytes != 8 {
        return Err(refused(
            Stage::Lift,
            "addresses of 32 bits: LLVM writes code for 64-bit addresses here",
        ));
    }
    let target = match (&recipe.target, checked.target.first()) {
        (Some(target), _) | (None, Some(target)) => target.clone(),
        (None, None) => return Err(refused(Stage::Lift, "the code names no target")),
    };
    let context = Context::create();
    let diagnostics = RefCell::new(Diagnostics::of(&context));
    let lifted = job.clock.stage(Stage::Lift, || {
        lift::lift(
            &context,
            &checked,
            &lift::Options {
                kernel: recipe.kernel.clone(),
                keep_nounroll: recipe.unroll == Unroll::Keep,
                keep_calls: !recipe.inline_functions,
                keep_guards: recipe.keep_guards,
            },
        )
    })?;
    for (function, reason) in &lifted.verbatim {
        job.notes
            .push(format!("{function} stays as it is: {reason}"));
    }
    let machine = job.clock.stage(Stage::Lift, || {
        let asked = recipe.ptx_version.unwrap_or(checked.version);
        let version = passes::ptx_version_for(&target, asked.max(needed(&lifted.module)))?;
        let machine = passes::machine(&target, version, recipe.codegen_level)?;
        passes::prepare(&lifted.module, &machine);
        lifted
            .module
            .verify()
            .map_err(|reason| PassError::Invalid {
                when: "after lifting".to_owned(),
                reason: reason.to_string(),
            })?;
        Ok::<_, PassError>(machine)
    })?;
    job.take(crate::text::told(&tree, &checked, recipe));
    let middle = Middle {
        context: &context,
        module: &lifted.module,
        machine: &machine,
        diagnostics: &diagnostics,
        origin: Origin::Ptx,
    };
    middle.improve(job)?;
    let ptx = job.clock.stage(Stage::Emit, || {
        emit::emit(
            &lifted,
            &machine,
            &tree,
            &checked,
            &emit::Options {
                target: recipe.target.clone(),
                ptx_version: recipe.ptx_version,
                bounds: recipe.bounds,
            },
        )
    })?;
    let ptx = middle.said(ptx)?;
    Ok(Written { ptx, target })
}

/// The least version that a module's attributes ask for.
fn needed(module: &Module) -> (u16, u16) {
    let mut least = (0, 0);
    for function in module.get_functions() {
        let places = std::iter::once(AttributeLoc::Function)
            .chain((0..function.count_params()).map(AttributeLoc::Param));
        for place in places {
            for &(name, version) in NEEDS {
                if function.get_string_attribute(place, name).is_some() {
                    least = least.max(version);
                }
            }
        }
    }
    least
}
