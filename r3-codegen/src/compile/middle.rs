//! What happens to a module between reading and writing, wherever it comes from.

use std::cell::RefCell;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;

use super::Job;
use super::failure::Cause;
use crate::passes::{self, Diagnostics};
use crate::recipe::{Change, Contraction, Failure, Guard, Knob, Specialisation, Stage, Unroll};
use crate::{emit, libdevice, specialise};

/// Where a module comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Lifted from PTX.
    Ptx,
    /// LLVM IR of another compiler.
    Foreign,
}

/// A module with what works on it.
pub(super) struct Middle<'ctx, 'm> {
    pub context: &'ctx Context,
    pub module: &'m Module<'ctx>,
    pub machine: &'m TargetMachine,
    pub diagnostics: &'m RefCell<Diagnostics>,
    pub origin: Origin,
}

/// What facts of a recipe did, by the guards that they left: LLVM does not tell where.
fn changes(facts: &Specialisation, guards: &[Guard]) -> Vec<Change> {
    type Is = fn(&Guard) -> bool;
    let all: [(bool, Knob, Is); 5] = [
        (!facts.params.is_empty(), Knob::Params, |guard| {
            matches!(guard, Guard::Param { .. })
        }),
        (facts.grid.is_some(), Knob::Grid, |guard| {
            matches!(guard, Guard::Grid(_))
        }),
        (facts.block.is_some(), Knob::Block, |guard| {
            matches!(guard, Guard::Block(_))
        }),
        (!facts.noalias.is_empty(), Knob::NoAlias, |guard| {
            matches!(guard, Guard::NoAlias { .. })
        }),
        (!facts.align.is_empty(), Knob::Align, |guard| {
            matches!(guard, Guard::Align { .. })
        }),
    ];
    all.into_iter()
        .filter(|(asked, _, _)| *asked)
        .map(|(_, knob, is)| Change {
            knob,
            places: match guards.iter().any(is) {
                true => None,
                false => Some(0),
            },
        })
        .collect()
}

impl Middle<'_, '_> {
    /// Bounds, facts, loops, libdevice, passes, fences: everything up to code generation.
    pub fn improve(&self, job: &mut Job<'_>) -> Result<(), Failure> {
        let recipe = job.recipe;
        let specialised = job.clock.stage(Stage::Specialise, || {
            emit::set_bounds(self.module, &recipe.bounds);
            let kernel = self.kernel(recipe.kernel.as_deref(), &recipe.specialisation);
            let done = specialise::apply(self.module, &kernel, &recipe.specialisation)
                .map_err(|error| error.failure(Stage::Specialise))?;
            // A lifter that was told to drop marks made none.
            if self.origin == Origin::Foreign || recipe.unroll != Unroll::Free {
                specialise::unroll(self.module, recipe.unroll);
            }
            self.said(done)
        })?;
        job.changes
            .extend(changes(&recipe.specialisation, &specialised.guards));
        job.guards.extend(specialised.guards);
        job.notes.extend(specialised.notes);
        if self.origin == Origin::Foreign {
            self.link(job)?;
        }
        job.clock.stage(Stage::Passes, || {
            passes::run(self.module, &recipe.pipeline, self.machine)
                .map_err(|error| error.failure(Stage::Passes))?;
            self.said(())
        })?;
        // That a loop could not be unrolled as asked, and the like.
        let warnings = self.diagnostics.borrow_mut().take_warnings();
        job.notes
            .extend(warnings.into_iter().map(|said| format!("LLVM: {said}")));
        if recipe.emit.llvm {
            job.llvm = Some(self.module.print_to_string().to_string());
        }
        job.clock.stage(Stage::Emit, || {
            if recipe.contraction == Contraction::Assembler {
                passes::fence_products(self.module)?;
            }
            // Of other compilers' code LLVM's choice is what they would have had.
            if self.origin == Origin::Ptx {
                passes::fence_selections(self.module)?;
            }
            Ok::<(), passes::PassError>(())
        })
    }

    /// Mathematical functions that the code calls.
    fn link(&self, job: &mut Job<'_>) -> Result<(), Failure> {
        if libdevice::called(self.module).is_empty() {
            return Ok(());
        }
        let linked = job.clock.stage(Stage::Link, || {
            libdevice::link(
                self.context,
                self.module,
                self.machine,
                &mut self.diagnostics.borrow_mut(),
                None,
                None,
            )
        })?;
        if let Some(linked) = linked {
            job.notes.push(format!(
                "linked {} from {}{}",
                linked.functions.join(", "),
                linked.file.display(),
                if linked.flush {
                    ", flushing subnormal numbers"
                } else {
                    ""
                }
            ));
        }
        Ok(())
    }

    /// The kernel that facts are about: the one that is asked for, else the only one.
    fn kernel(&self, asked: Option<&str>, facts: &Specialisation) -> String {
        if let Some(asked) = asked {
            return asked.to_owned();
        }
        if *facts == Specialisation::default() {
            return String::new();
        }
        super::keep::kernels(self.module)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    /// A value, unless LLVM reported an error meanwhile.
    pub fn said<T>(&self, value: T) -> Result<T, Failure> {
        match self.diagnostics.borrow_mut().take_errors() {
            Some(error) => Err(format!("LLVM: {error}").failure(Stage::Passes)),
            None => Ok(value),
        }
    }
}
