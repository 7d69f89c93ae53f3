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
use crate::recipe::{Change, Code, Cubin, Failure, Guard, Product, Recipe, Route, Stage};
use crate::{assemble, source};
use clock::Clock;
use failure::{Cause, refused};

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
    let mut job = Job {
        recipe,
        clock: Clock::new(enter),
        notes: Vec::new(),
        guards: Vec::new(),
        changes: Vec::new(),
        llvm: None,
    };
    let made = job.made_of_source()?;
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
    /// Code that some compiler makes of another form; `None` when there is nothing to make.
    fn made_of_source(&mut self) -> Result<Option<Code>, Failure> {
        let recipe = self.recipe;
        let target = || {
            recipe.target.as_deref().ok_or_else(|| {
                refused(
                    Stage::Source,
                    "a source is compiled for a target: name one, like sm_90",
                )
            })
        };
        match &recipe.code {
            Code::Source(source) => {
                let source = fast::source(source, &recipe.approximate);
                let compiled = self
                    .clock
                    .stage(Stage::Source, || source::compile(&source, target()?))?;
                self.notes
                    .push(format!("compiled by {}", compiled.compiler));
                self.notes
                    .extend(fast::notes(compiled.notes, &recipe.approximate));
                Ok(Some(compiled.code))
            }
            Code::LtoIr(bytes) => {
                let ptx = self.clock.stage(Stage::Source, || {
                    assemble::nvjitlink::lto_to_ptx(bytes, "LTO-IR", target()?, &[])
                })?;
                Ok(Some(Code::Ptx(ptx)))
            }
            Code::Ptx(_) | Code::Bitcode(_) | Code::Llvm(_) => Ok(None),
        }
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
