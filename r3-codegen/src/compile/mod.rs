//! All steps, one after the other, in this process.
//!
//! [`compile`] turns a recipe into a product. It keeps nothing between calls but caches of what depends on nothing else, so
//! that equal recipes give equal bytes in any order, in one process or in several.
//!
//! LLVM can end the process: it aborts on some broken bitcode, exits on what its code generator cannot do, runs without end
//! in some pipelines. Code and pipelines from outside therefore belong into a [`worker`](crate::worker), which calls
//! [`compile_reporting`] and tells its parent which stage it is in. What can be known to be wrong is a [`Failure`] here
//! as well.
//!
//! `text` is the way of PTX that stays text, `lifted` that of PTX through LLVM, `foreign` that of LLVM IR from clang and others, `middle` what both have in common: bounds,
//! specialisation, passes. `clock` tells and measures stages.

mod clock;
mod failure;
mod fast;
mod foreign;
mod keep;
mod layout;
mod lifted;
mod literals;
mod middle;
mod text;

use crate::passes::{self, PassError};
use crate::recipe::{
    Approximate, Change, Code, Cubin, Failure, Guard, Product, Recipe, Route, Source, Stage,
};
use crate::{assemble, source};
use clock::Clock;
use failure::{Cause, refused};

pub(crate) use foreign::{kernels_of_bitcode, of_file};

/// Compiles a recipe in this process.
///
/// # Errors
/// What was refused, and in which stage.
pub fn compile(recipe: &Recipe) -> Result<Product, Failure> {
    compile_reporting(recipe, &|_| {})
}

/// As [`compile`]; calls `enter` with each stage that it enters.
///
/// # Errors
/// What was refused, and in which stage.
pub fn compile_reporting(recipe: &Recipe, enter: &dyn Fn(Stage)) -> Result<Product, Failure> {
    ready(recipe).map_err(|error| error.failure(Stage::Passes))?;
    if let Code::Source(source) = &recipe.code {
        let mut clock = Clock::new(enter);
        let (source, target) = front_end(recipe, source)?;
        let compiled = clock.stage(Stage::Source, || source::compile(&source, &target))?;
        let mut product = compile_reporting(&behind_front_end(recipe, &compiled), enter)?;
        product.timings.splice(0..0, clock.times());
        of_source(&mut product, &recipe.approximate, &compiled);
        return Ok(product);
    }
    let mut job = Job {
        recipe,
        clock: Clock::new(enter),
        notes: Vec::new(),
        guards: Vec::new(),
        changes: Vec::new(),
        llvm: None,
    };
    let made = job.made_of_lto_ir()?;
    let written = match made.as_ref().unwrap_or(&recipe.code) {
        Code::Ptx(text) => match recipe.route {
            Route::Text => text::compile(&mut job, text)?,
            Route::Lift => {
                let written = lifted::compile(&mut job, text)?;
                text::after_llvm(&mut job, written, false)?
            }
        },
        Code::Bitcode(bytes) => {
            let written = foreign::compile(&mut job, foreign::Form::Bitcode(bytes))?;
            text::after_llvm(&mut job, written, true)?
        }
        Code::Llvm(text) => {
            let written = foreign::compile(&mut job, foreign::Form::Text(text))?;
            text::after_llvm(&mut job, written, true)?
        }
        Code::LtoIr(_) | Code::Source(_) => {
            return Err(refused(
                Stage::Source,
                "what the compiler gave is neither PTX nor LLVM IR",
            ));
        }
    };
    fast::tell(&mut job);
    job.note_version(&written.ptx);
    let cubin = job.cubin(&written)?;
    Ok(Product {
        llvm: job.llvm,
        ptx: written.ptx,
        cubin,
        guards: job.guards,
        changes: job.changes,
        notes: job.notes,
        timings: job.clock.times(),
    })
}

fn target(recipe: &Recipe) -> Result<&str, Failure> {
    recipe.target.as_deref().ok_or_else(|| {
        refused(
            Stage::Source,
            "a source is compiled for a target: name one, like sm_90",
        )
    })
}

/// What a recipe's source compiler is asked, and for which target. It depends on the source, the target and approximations
/// alone, so that recipes that differ in anything else share the answer.
pub(crate) fn front_end(recipe: &Recipe, source: &Source) -> Result<(Source, String), Failure> {
    let target = target(recipe)?.to_owned();
    Ok((with_approximations(source, &recipe.approximate), target))
}

/// What is left of a recipe of a source when its compiler has made code of that.
pub(crate) fn behind_front_end(recipe: &Recipe, compiled: &source::Compiled) -> Recipe {
    let mut rest = recipe.clone();
    rest.code = compiled.code.clone();
    // Only a compiler of source can do that.
    rest.approximate.functions = false;
    rest
}

/// A source with what its compiler is told of approximations. What is not told that way is done to what it makes.
pub fn with_approximations(source: &Source, approximate: &Approximate) -> Source {
    fast::source(source, approximate)
}

/// Tells of a product that its code was made of a source.
pub fn of_source(product: &mut Product, approximate: &Approximate, compiled: &source::Compiled) {
    let mut notes = vec![format!("compiled by {}", compiled.compiler)];
    notes.extend(fast::notes(compiled.notes.clone(), approximate));
    product.notes.splice(0..0, notes);
    fast::tell_of_source(product, approximate);
}

/// LLVM's options and target, and what can be refused at once.
fn ready(recipe: &Recipe) -> Result<(), PassError> {
    passes::set_options(&recipe.llvm_options)?;
    passes::initialise()?;
    if recipe.codegen_level > 3 {
        return Err(PassError::Level {
            level: recipe.codegen_level,
        });
    }
    if let Some(asked) = recipe.ptx_version
        && asked > passes::NEWEST_PTX
    {
        let cpu = recipe.target.clone();
        return Err(PassError::PtxVersion {
            asked,
            least: cpu
                .as_deref()
                .and_then(|cpu| passes::least_ptx_version(cpu).ok())
                .unwrap_or_default(),
            cpu: cpu.unwrap_or_else(|| "the code's target".to_owned()),
            newest: passes::NEWEST_PTX,
        });
    }
    Ok(())
}

/// A compilation on its way.
struct Job<'a> {
    recipe: &'a Recipe,
    clock: Clock<'a>,
    notes: Vec<String>,
    guards: Vec<Guard>,
    changes: Vec<Change>,
    llvm: Option<String>,
}

/// PTX and its target.
struct Written {
    ptx: String,
    target: String,
}

impl Job<'_> {
    /// PTX of LTO-IR; `None` when there is nothing to make.
    fn made_of_lto_ir(&mut self) -> Result<Option<Code>, Failure> {
        let recipe = self.recipe;
        let Code::LtoIr(bytes) = &recipe.code else {
            return Ok(None);
        };
        let ptx = self.clock.stage(Stage::Source, || {
            assemble::nvjitlink::lto_to_ptx(bytes, "LTO-IR", target(recipe)?, &[])
        })?;
        Ok(Some(Code::Ptx(ptx)))
    }

    /// Tells when another version was written than was asked for: code and target may need more.
    fn note_version(&mut self, ptx: &str) {
        let directive = ptx.lines().find_map(|line| line.strip_prefix(".version"));
        let written = directive.map(str::trim).unwrap_or_default();
        if let Some((major, minor)) = self.recipe.ptx_version
            && written != format!("{major}.{minor}")
        {
            self.notes.push(format!(
                "this code needs PTX {written}: {major}.{minor} was asked for"
            ));
        }
    }

    /// A cubin, if one is wanted.
    fn cubin(&mut self, written: &Written) -> Result<Option<Cubin>, Failure> {
        let recipe = self.recipe;
        if !recipe.emit.cubin {
            return Ok(None);
        }
        self.clock
            .stage(Stage::Assemble, || {
                assemble::assemble(&written.ptx, &written.target, &recipe.assembler)
            })
            .map(Some)
    }
}
