//! A candidate becomes a recipe and a launch shape, or is refused before anything is compiled.
//!
//! [`Subject`] is what all candidates of a kernel share; [`Subject::build`] makes a [`Built`] of one. What comes out of the
//! compiler is checked again by [`limits`]: only then is it known how many registers a thread takes.

pub mod limits;

mod origins;
mod sources;
mod specialise;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use r3_archive::Archive;
use r3_archive::model::{KernelId, KernelRecord, LaunchId, LaunchRecord, ParamLayout};
use r3_codegen::assemble::arch_for;
use r3_codegen::recipe::{
    self, Assembler, AssemblerKind, Code, Contraction, Emit, Pipeline, Preset, Product, Recipe,
    Specialisation, Unroll,
};
use r3_codegen::source::Compiled;

use super::candidate::{Build, Candidate, CandidateCode, Route};
use super::describe::KernelDescription;
use super::engine::Image;
use super::engine::shape::{Shape, shape};
use super::outcome::Verdict;
use super::plan::Plan;
use super::rules::Original;
use crate::code::Form;
use crate::remix::facts;
use crate::remix::origin::Origin;

/// A kernel, and what candidates for it have in common.
pub struct Subject {
    archive: Arc<Archive>,
    kernel: KernelRecord,
    description: Arc<KernelDescription>,
    layout: Vec<ParamLayout>,
    /// Whether the device runs machine code, and not PTX alone.
    machine_code: bool,
    origins: Mutex<HashMap<origins::Key, Result<Arc<Origin>, String>>>,
    facts: Mutex<HashMap<specialise::Key, Result<Arc<Specialisation>, String>>>,
    original: OnceLock<Original>,
}

/// A candidate, ready to be compiled.
#[derive(Clone, Debug)]
pub struct Built {
    /// The code.
    pub code: BuiltCode,
    /// How each launch of the plan will be done.
    pub shapes: Vec<(LaunchId, Shape)>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Code of a candidate.
#[derive(Clone, Debug)]
pub enum BuiltCode {
    /// The recorded code.
    Recorded,
    /// Code that needs no compiler.
    Image(Image),
    /// Code to be compiled, and the kernel's name in it.
    Recipe(Box<Recipe>, String),
}

/// Why a candidate is not tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// What is said of it.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

impl Refusal {
    fn refused(reason: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Refused,
            reason: reason.into(),
        }
    }

    fn no_code(reason: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::NoCode,
            reason: reason.into(),
        }
    }
}

impl Subject {
    /// A kernel of an archive. `None` when the archive has none with this number.
    pub fn new(
        archive: Arc<Archive>,
        kernel: KernelId,
        description: Arc<KernelDescription>,
    ) -> Option<Self> {
        let record = archive.kernel(kernel)?.clone();
        Some(Self {
            layout: facts::layout(&archive, &record),
            machine_code: !description.device.counts,
            kernel: record,
            archive,
            description,
            origins: Mutex::default(),
            facts: Mutex::default(),
            original: OnceLock::new(),
        })
    }

    /// What the original does: what it does, a candidate may do.
    pub fn original(&self) -> &Original {
        self.original
            .get_or_init(|| Original::new(&self.archive, &self.kernel, self.sm()))
    }

    /// The kernel.
    pub fn kernel(&self) -> &KernelRecord {
        &self.kernel
    }

    /// Its description.
    pub fn description(&self) -> &Arc<KernelDescription> {
        &self.description
    }

    /// Its recorded launches, without their memory.
    pub fn launches(&self) -> impl Iterator<Item = &LaunchRecord> {
        let heads = self.archive.launch_heads().iter();
        heads.filter(|launch| launch.kernel == self.kernel.id)
    }

    fn launch(&self, id: LaunchId) -> Option<&LaunchRecord> {
        let heads = self.archive.launch_heads();
        let at = heads.binary_search_by_key(&id, |launch| launch.id).ok()?;
        heads
            .get(at)
            .filter(|launch| launch.kernel == self.kernel.id)
    }

    /// What is to be compiled for a candidate, and how it will be launched.
    pub fn build(&self, candidate: &Candidate, plan: &Plan) -> Result<Built, Refusal> {
        self.build_with(candidate, plan, None)
    }

    /// The same of a candidate whose source was compiled by its own compiler already.
    pub fn build_compiled(
        &self,
        candidate: &Candidate,
        plan: &Plan,
        compiled: &Compiled,
    ) -> Result<Built, Refusal> {
        self.build_with(candidate, plan, Some(compiled))
    }

    fn build_with(
        &self,
        candidate: &Candidate,
        plan: &Plan,
        compiled: Option<&Compiled>,
    ) -> Result<Built, Refusal> {
        let shapes = self.shapes(candidate, plan)?;
        let mut built = Built {
            code: BuiltCode::Recorded,
            shapes,
            notes: Vec::new(),
        };
        match &candidate.code {
            CandidateCode::Recorded => {
                nothing_to_compile(&candidate.build, "the recorded code")?;
                let known = self.recorded_limits();
                self.check(&built, &known)?;
            }
            CandidateCode::Cubin(bytes) => {
                nothing_to_compile(&candidate.build, "a cubin")?;
                let image = self.cubin(bytes)?;
                self.check(&built, &limits::Known::of_image(&image, self.sm()))?;
                built.code = BuiltCode::Image(image);
            }
            _ => {
                let origin = match (&candidate.code, compiled) {
                    (CandidateCode::Source(source), Some(compiled)) => {
                        self.origin_of_source(source, compiled)?
                    }
                    (code, _) => self.origin(code)?,
                };
                // What is known before it is compiled: nothing of registers.
                self.check(&built, &limits::Known::default())?;
                let recipe =
                    self.recipe(&origin, candidate, plan, compiled.is_some(), &mut built)?;
                built.code = BuiltCode::Recipe(Box::new(recipe), origin.kernel.clone());
            }
        }
        Ok(built)
    }

    /// Whether code that came out of the compiler can be launched so.
    pub fn check_image(&self, built: &Built, image: &Image) -> Result<(), Refusal> {
        self.check(built, &limits::Known::of_image(image, self.sm()))
    }

    /// Compiled code must take the parameters as the captured launches have them.
    pub fn check_product(&self, product: &Product, name: &str) -> Result<(), Refusal> {
        let code = r3_image::Image::parse(product.ptx.as_bytes());
        match code.kernel(name) {
            Some(info) => origins::fits(&self.archive, &self.kernel, &info),
            None => Ok(()),
        }
    }

    fn check(&self, built: &Built, known: &limits::Known) -> Result<(), Refusal> {
        for (id, shape) in &built.shapes {
            let Some(launch) = self.launch(*id) else {
                continue;
            };
            limits::check(launch, shape, known, &self.description.device)
                .map_err(|why| Refusal::refused(format!("launch {id}: {why}")))?;
        }
        Ok(())
    }

    fn sm(&self) -> u32 {
        self.description.device.sm
    }

    fn shapes(
        &self,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Vec<(LaunchId, Shape)>, Refusal> {
        let tuned = plan.launches.iter().map(|weighted| weighted.launch);
        tuned
            .chain(plan.held_out.iter().copied())
            .map(|id| {
                let launch = self
                    .launch(id)
                    .ok_or_else(|| Refusal::refused(format!("the kernel has no launch {id}")))?;
                let shape = shape(launch, &candidate.launch)
                    .map_err(|why| Refusal::refused(format!("launch {id}: {why}")))?;
                Ok((id, shape))
            })
            .collect()
    }

    fn recorded_limits(&self) -> limits::Known {
        let description = &self.description;
        limits::Known {
            max_threads: Some(description.max_threads).filter(|most| *most > 0),
            required_block: description.required_block,
            registers: description.used.map(|used| used.registers),
            static_shared: description.used.map(|used| used.shared),
            cluster: None,
        }
    }

    fn cubin(&self, bytes: &[u8]) -> Result<Image, Refusal> {
        if !self.machine_code {
            return Err(Refusal {
                verdict: Verdict::CannotRun,
                reason: "the CPU device runs no machine code".to_owned(),
            });
        }
        let image = Image {
            name: self.kernel.name.clone(),
            bytes: bytes.to_vec(),
            form: Form::Sass(self.sm()),
        };
        let parsed = r3_image::Image::from_vec(bytes.to_vec());
        let Some(info) = parsed.kernel_for(&self.kernel.name, self.sm()) else {
            return Err(Refusal::no_code(format!(
                "the cubin has no kernel {} that runs on sm_{}",
                self.kernel.name,
                self.sm()
            )));
        };
        origins::fits(&self.archive, &self.kernel, &info)?;
        Ok(image)
    }

    fn recipe(
        &self,
        origin: &Origin,
        candidate: &Candidate,
        plan: &Plan,
        compiled: bool,
        built: &mut Built,
    ) -> Result<Recipe, Refusal> {
        let build = &candidate.build;
        let device = format!("sm_{}", self.sm());
        let arch = match &origin.target {
            Some(target) => {
                arch_for(target, &device).map_err(|failure| Refusal::no_code(failure.message))?
            }
            None => device.clone(),
        };
        let llvm_only = llvm_only(build);
        if build.route == Route::Text
            && let Some(what) = llvm_only
        {
            return Err(Refusal::refused(format!(
                "{what} is for the route through LLVM: set \"route\" to \"lift\", or leave it out"
            )));
        }
        let specialisation = self.specialisation(&build.specialise, plan, built)?;
        // clang's front end leaves all passes to who comes after it.
        let raw = matches!(
            (&candidate.code, &origin.code),
            (CandidateCode::Source(_), Code::Bitcode(_))
        );
        Ok(Recipe {
            kernel: Some(origin.kernel.clone()),
            target: (!origin.names_target()).then_some(device),
            route: match build.route {
                Route::Text => recipe::Route::Text,
                Route::Lift => recipe::Route::Lift,
            },
            pipeline: match build.passes.as_str() {
                "" if raw => Pipeline::Preset(Preset::O3),
                "" => Pipeline::Nothing,
                passes => Pipeline::Text(passes.to_owned()),
            },
            llvm_options: build.llvm_options.clone(),
            codegen_level: build.codegen_level,
            // Its PTX has fused what the language lets it fuse, as the PTX of NVIDIA's compilers has.
            contraction: if raw {
                Contraction::Llvm
            } else {
                build.contraction
            },
            unroll: build.unroll,
            inline_functions: build.inline_functions || raw,
            keep_guards: build.keep_guards,
            approximate: recipe::Approximate {
                // A source's compiler was asked for them already.
                functions: build.approximate.functions && !compiled,
                ..build.approximate()
            },
            read_only_loads: build.read_only_loads,
            cache_operators: build.cache_operators,
            specialisation,
            bounds: match candidate.launch.block {
                Some(_) => self.bounds(origin, build, built),
                None => build.bounds,
            },
            assembler: Assembler {
                kind: AssemblerKind::Any,
                arch: Some(arch),
                options: build.assembler_options.clone(),
            },
            emit: Emit {
                llvm: false,
                cubin: self.machine_code,
            },
            ..Recipe::new(origin.code.clone())
        })
    }

    /// Launch bounds that the candidate asks for, and those of the code where a larger block needs others.
    fn bounds(&self, origin: &Origin, build: &Build, built: &mut Built) -> recipe::Bounds {
        let mut bounds = build.bounds;
        let Code::Ptx(ptx) = &origin.code else {
            return bounds;
        };
        let Some(info) = r3_image::Image::parse(ptx.as_bytes()).kernel(&origin.kernel) else {
            return bounds;
        };
        let blocks = built.shapes.iter().map(|(_, shape)| shape.block);
        if let Some(required) = info.required_block
            && bounds.reqntid.is_none()
            && blocks.clone().any(|block| block != required)
        {
            let all: Vec<[u32; 3]> = blocks.clone().collect();
            let one = all.first().copied().unwrap_or(required);
            bounds.reqntid = Some(if all.iter().all(|block| *block == one) {
                one
            } else {
                [0; 3]
            });
            built.notes.push(format!(
                "the code demands blocks of {}; that was changed with the block",
                limits::spell(required)
            ));
        }
        let most = built
            .shapes
            .iter()
            .map(|(_, shape)| shape.threads())
            .max()
            .unwrap_or(0);
        let stated = info
            .max_block
            .map(|block| block.iter().fold(1u32, |all, n| all.saturating_mul(*n)));
        if let Some(stated) = stated
            && bounds.maxntid.is_none()
            && most > stated
        {
            bounds.maxntid = Some(most);
            built.notes.push(format!(
                "the code is for blocks of up to {stated} threads; the bound is {most} now"
            ));
        }
        bounds
    }
}

/// What of a build is for LLVM alone, when something is.
fn llvm_only(build: &Build) -> Option<&'static str> {
    [
        (!build.passes.is_empty(), "a pipeline of passes"),
        (!build.llvm_options.is_empty(), "an option of LLVM"),
        (
            matches!(build.unroll, Unroll::Count(_)),
            "a count for loops",
        ),
        (build.inline_functions, "inlining"),
        (
            build.contraction == Contraction::Llvm,
            "contraction by LLVM",
        ),
    ]
    .into_iter()
    .find_map(|(given, what)| given.then_some(what))
}

/// Code that is not compiled takes no options: ignoring them would say that they were tried.
fn nothing_to_compile(build: &Build, what: &str) -> Result<(), Refusal> {
    if *build == Build::default() {
        return Ok(());
    }
    Err(Refusal::refused(format!(
        "{what} is not compiled, so that \"build\" has no effect on it: begin with {{\"captured\": {{}}}}, PTX, LLVM IR or source"
    )))
}
