//! From a request to code that can run: what the threads of the compile workers do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use r3_codegen::cache::{Cache, CacheOptions, CachedPool, Origin};
use r3_codegen::recipe::{Failure, FailureKind, Product, Recipe, Resources, Source, Stage};
use r3_codegen::source::Compiled;
use r3_codegen::worker::{Pool, WorkerCommand};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::equal::{CodeKey, code_hash};
use super::kernels::{KernelEntry, NoPlan};
use super::options::EvaluatorOptions;
use super::state::{Ready, ToCompile};
use super::{EvaluatorError, Inner};
use crate::code::Form;
use crate::evaluate::behaviour;
use crate::evaluate::build::{Built, BuiltCode, Refusal, Subject};
use crate::evaluate::candidate::{Candidate, CandidateCode, CandidateId};
use crate::evaluate::engine::shape::shape;
use crate::evaluate::engine::{Image, Task};
use crate::evaluate::outcome::{Behaviour, CodeFacts, Outcome, Verdict};
use crate::evaluate::plan::Plan;
use crate::evaluate::rules;
use crate::remix::compiler::{self, Compile};

/// Compile workers, behind a cache.
pub(super) struct Compilers {
    cached: CachedPool,
}

/// What a compilation took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    pub(super) ms: f64,
    /// Whether the cache had it.
    pub(super) cached: bool,
    /// Whether a source had to be compiled by its own compiler.
    source: bool,
}

/// One compilation, and whether the cache had it.
struct Asking<'c> {
    cached: &'c CachedPool,
    /// Past the cache.
    again: bool,
    hit: AtomicBool,
}

impl Compile for Asking<'_> {
    fn compile(&self, recipe: &Recipe) -> Result<Product, Failure> {
        if self.again {
            return self.cached.compile_again(recipe);
        }
        let (result, origin) = self.cached.compile_telling(recipe);
        self.hit.store(origin == Origin::Cached, Ordering::Relaxed);
        result
    }
}

impl Compilers {
    pub(super) fn new(
        command: WorkerCommand,
        options: &EvaluatorOptions,
    ) -> Result<Self, EvaluatorError> {
        let cache = options
            .cache
            .as_ref()
            .map(|folder| {
                let options = CacheOptions {
                    folder: folder.clone(),
                    limit: options.cache_limit,
                };
                Cache::open(&options).map_err(|error| EvaluatorError::Resources(error.to_string()))
            })
            .transpose()?;
        let pool = Pool::new(command, options.compile.clone());
        Ok(Self {
            cached: CachedPool::new(Arc::new(pool), cache),
        })
    }

    pub(super) fn workers(&self) -> usize {
        self.cached.pool().limits().workers.max(1)
    }

    /// Compiles a recipe, or takes what the cache has of it.
    pub(super) fn compile(&self, recipe: &Recipe, effort: &mut Effort) -> Result<Product, Failure> {
        self.ask(recipe, false, effort)
    }

    /// Compiles a recipe past the cache.
    fn compile_again(&self, recipe: &Recipe, effort: &mut Effort) -> Result<Product, Failure> {
        self.ask(recipe, true, effort)
    }

    fn ask(&self, recipe: &Recipe, again: bool, effort: &mut Effort) -> Result<Product, Failure> {
        let asking = Asking {
            cached: &self.cached,
            again,
            hit: AtomicBool::new(false),
        };
        let begun = Instant::now();
        let mut result = compiler::compile(&asking, recipe).result;
        // A compiler that somebody killed says nothing of the recipe, unless it happens again.
        if let Err(failure) = &result
            && was_killed(failure)
        {
            result = compiler::compile(&asking, recipe).result;
        }
        let hit = asking.hit.into_inner();
        effort.cached = hit && !effort.source;
        if !hit {
            effort.ms += begun.elapsed().as_secs_f64() * 1e3;
        }
        result
    }

    /// Has a source compiled by its own compiler, or takes what the cache has of it.
    fn compile_source(
        &self,
        source: &Source,
        target: &str,
        effort: &mut Effort,
    ) -> Result<Arc<Compiled>, Failure> {
        let begun = Instant::now();
        let mut result = self.cached.compile_source_telling(source, target);
        // As with recipes.
        if let (Err(failure), _) = &result
            && was_killed(failure)
        {
            result = self.cached.compile_source_telling(source, target);
        }
        if result.1 == Origin::Compiled {
            effort.source = true;
            effort.ms += begun.elapsed().as_secs_f64() * 1e3;
        }
        result.0
    }

    /// The same, past the cache.
    fn compile_source_again(
        &self,
        source: &Source,
        target: &str,
        effort: &mut Effort,
    ) -> Result<Compiled, Failure> {
        let begun = Instant::now();
        let result = self.cached.pool().compile_source(source, target);
        effort.ms += begun.elapsed().as_secs_f64() * 1e3;
        result
    }

    /// Hits and misses of the cache.
    pub(super) fn cache(&self) -> (u64, u64) {
        let statistics = self.cached.statistics();
        (statistics.hits, statistics.misses)
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        self.cached.pool().processes()
    }

    /// Ends what compiles.
    pub(super) fn stop(&self) {
        self.cached.pool().stop();
    }
}

fn was_killed(failure: &Failure) -> bool {
    failure.kind == FailureKind::Crash && failure.message.contains("(SIGKILL)")
}

/// Compiles what is queued, until the end.
pub(super) fn work(inner: &Inner) {
    while let Some(job) = inner.shared.next_to_compile() {
        let begun = Instant::now();
        let mut effort = Effort::default();
        let result = catch_unwind(AssertUnwindSafe(|| ready(inner, &job, &mut effort)))
            .unwrap_or_else(|_| {
                Err(Box::new(Outcome::without_run(
                    job.candidate,
                    Verdict::Unjudged,
                    "the evaluator failed while it made the candidate's code: see its log",
                )))
            })
            .map_err(|outcome| *outcome);
        let took = begun.elapsed();
        inner
            .shared
            .compiled(job.id, took, (effort.ms, effort.cached), result);
    }
}

fn ready(inner: &Inner, job: &ToCompile, effort: &mut Effort) -> Result<Ready, Box<Outcome>> {
    let request = &*job.request;
    let without_run =
        |verdict, reason: String| Box::new(Outcome::without_run(job.candidate, verdict, reason));
    let machine = |error: EvaluatorError| {
        let verdict = match error {
            EvaluatorError::ShuttingDown => Verdict::Cancelled,
            _ => Verdict::Unjudged,
        };
        without_run(verdict, error.to_string())
    };
    let subject = job.entry.subject(inner).map_err(machine)?;
    let mut notes = Vec::new();
    let plan = job
        .entry
        .resolve(inner, &subject, &request.plan, &mut notes)
        .map_err(|no_plan| match no_plan {
            NoPlan::Verdict(verdict, reason) => without_run(verdict, reason),
            NoPlan::Machine(error) => machine(error),
        })?;
    let made = make(inner, &subject, &request.candidate, &plan, effort);
    let made = made.map_err(|not_made| not_made.outcome(job.candidate))?;
    notes.extend(made.notes);
    let key = key(
        &job.entry,
        &subject,
        &request.candidate,
        &made.image,
        &made.guards,
    );
    Ok(Ready {
        key,
        code: CodeFacts {
            image: made
                .image
                .as_ref()
                .map(|image| format!("{:032x}", xxh3_128(&image.bytes)))
                .unwrap_or_default(),
            resources: made.resources,
            blocks_per_multiprocessor: None,
            equal_to: None,
            behaviour: made.behaviour,
        },
        task: Task {
            kernel: job.entry.id,
            code: made.image,
            change: request.candidate.launch,
            guards: made.guards,
            plan,
            idle: made.idle,
        },
        notes,
    })
}

/// Code, and what is known of it.
pub(super) struct Code {
    /// `None` is the recorded code.
    pub(super) image: Option<Image>,
    pub(super) guards: Vec<r3_codegen::recipe::Guard>,
    pub(super) resources: Option<Resources>,
    pub(super) behaviour: Option<Behaviour>,
    /// Variables that the original has not and that nothing writes.
    pub(super) idle: Vec<String>,
    pub(super) notes: Vec<String>,
    /// What was compiled, and into what.
    pub(super) compiled: Option<(Box<Recipe>, Box<Product>)>,
}

/// Why there is no code.
pub(super) enum NotMade {
    Refusal(Refusal),
    Failure(Box<Failure>),
}

impl From<Refusal> for NotMade {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl NotMade {
    fn outcome(self, candidate: CandidateId) -> Box<Outcome> {
        Box::new(match self {
            Self::Refusal(refusal) => {
                Outcome::without_run(candidate, refusal.verdict, refusal.reason)
            }
            Self::Failure(failure) => {
                // A tool that is missing says nothing of the candidate. A compiler that it names will not come by waiting.
                let verdict = match failure.kind {
                    FailureKind::MissingTool if failure.stage == Stage::Source => {
                        Verdict::CannotRun
                    }
                    FailureKind::MissingTool | FailureKind::Machine => Verdict::Unjudged,
                    _ => Verdict::NoCode,
                };
                let mut outcome = Outcome::without_run(candidate, verdict, failure.to_string());
                outcome.failure = Some(*failure);
                outcome
            }
        })
    }

    pub(super) fn reason(&self) -> String {
        match self {
            Self::Refusal(refusal) => refusal.reason.clone(),
            Self::Failure(failure) => failure.to_string(),
        }
    }
}

/// A candidate's code.
pub(super) fn make(
    inner: &Inner,
    subject: &Subject,
    candidate: &Candidate,
    plan: &Plan,
    effort: &mut Effort,
) -> Result<Code, NotMade> {
    let front = front_end(inner, subject, candidate, plan, effort)?;
    let built = match &front {
        Some(compiled) => subject.build_compiled(candidate, plan, compiled)?,
        None => subject.build(candidate, plan)?,
    };
    let mut code = Code {
        image: None,
        guards: Vec::new(),
        resources: None,
        behaviour: None,
        idle: Vec::new(),
        notes: built.notes.clone(),
        compiled: None,
    };
    match &built.code {
        BuiltCode::Recorded => {}
        BuiltCode::Image(image) => code.image = Some(image.clone()),
        BuiltCode::Recipe(recipe, name) => {
            let failed = |failure| NotMade::Failure(Box::new(failure));
            let mut product = inner.compilers.compile(recipe, effort).map_err(failed)?;
            if let Some(compiled) = &front {
                let asked = candidate.build.approximate();
                r3_codegen::compile::of_source(&mut product, &asked, compiled);
            }
            let image = image_of(&product, name, inner.device.sm);
            if plan.compile_twice {
                let again = inner
                    .compilers
                    .compile_again(recipe, effort)
                    .map_err(failed)?;
                if image_of(&again, name, inner.device.sm) != image {
                    return Err(NotMade::Refusal(Refusal {
                        verdict: Verdict::NoCode,
                        reason: "compiled twice, it came out differently: what was judged could not be made again"
                            .to_owned(),
                    }));
                }
            }
            if !matches!(candidate.code, CandidateCode::Captured { .. }) {
                subject.check_product(&product, name)?;
            }
            code.resources = resources(&product, name);
            let read = rules::code::read(&product.ptx, name);
            keeps_rules(subject, candidate, plan, &read)?;
            if let Ok(read) = &read {
                code.idle = read.idle(subject.original().variables());
            }
            code.behaviour = read.ok().map(|read| {
                let device = &subject.description().device;
                behaviour::of(&read, code.resources.as_ref(), &built.shapes, device)
            });
            code.guards.clone_from(&product.guards);
            code.notes.extend(product.notes.iter().cloned());
            let idle: Vec<String> = product
                .without_effect()
                .map(|knob| words(&format!("{knob:?}")))
                .collect();
            if !idle.is_empty() {
                code.notes
                    .push(format!("the code has no use for {}", idle.join(", ")));
            }
            check(subject, &built, &image)?;
            code.image = Some(image);
            code.compiled = Some((recipe.clone(), Box::new(product)));
        }
    }
    Ok(code)
}

/// What the compiler of a candidate's source makes of that; `None` for candidates of other code.
fn front_end(
    inner: &Inner,
    subject: &Subject,
    candidate: &Candidate,
    plan: &Plan,
    effort: &mut Effort,
) -> Result<Option<Arc<Compiled>>, NotMade> {
    let CandidateCode::Source(given) = &candidate.code else {
        return Ok(None);
    };
    let (source, target) = subject.asked_of_compiler(given)?;
    let source = r3_codegen::compile::with_approximations(&source, &candidate.build.approximate());
    let failed = |failure| NotMade::Failure(Box::new(failure));
    let compilers = &inner.compilers;
    let compiled = compilers
        .compile_source(&source, &target, effort)
        .map_err(failed)?;
    if plan.compile_twice {
        let again = compilers
            .compile_source_again(&source, &target, effort)
            .map_err(failed)?;
        if again.code != compiled.code {
            return Err(NotMade::Refusal(Refusal {
                verdict: Verdict::NoCode,
                reason: format!(
                    "compiled twice by {}, the source came out differently: does it use __TIME__, __COUNTER__ or the like?",
                    compiled.compiler
                ),
            }));
        }
    }
    Ok(Some(compiled))
}

/// Whether code does nothing that it may not.
fn keeps_rules(
    subject: &Subject,
    candidate: &Candidate,
    plan: &Plan,
    compiled: &Result<rules::Code, rules::NotChecked>,
) -> Result<(), Refusal> {
    if !rules::concern(&candidate.code) {
        return Ok(());
    }
    let found = rules::check(&candidate.code, compiled, subject.original(), &plan.allowed);
    let found = found.map_err(|why| Refusal {
        verdict: Verdict::Refused,
        reason: why.to_string(),
    })?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(Refusal {
            verdict: Verdict::Cheat,
            reason: rules::reason(&found),
        }),
    }
}

fn check(subject: &Subject, built: &Built, image: &Image) -> Result<(), Refusal> {
    subject.check_image(built, image)
}

/// A name of the code, as people write it: `read only loads`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// What is loaded of a product: its cubin, else its PTX.
fn image_of(product: &Product, name: &str, sm: u32) -> Image {
    let (bytes, form) = match &product.cubin {
        Some(cubin) => (cubin.bytes.clone(), Form::Sass(sm)),
        None => (product.ptx.clone().into_bytes(), Form::Ptx(sm)),
    };
    Image {
        name: name.to_owned(),
        bytes,
        form,
    }
}

fn resources(product: &Product, name: &str) -> Option<Resources> {
    let cubin = product.cubin.as_ref()?;
    let of = |kernel: &&Resources| kernel.kernel == name;
    cubin.kernels.iter().find(of).cloned()
}

/// What makes a candidate equal to another one of the kernel.
fn key(
    entry: &KernelEntry,
    subject: &Subject,
    candidate: &Candidate,
    image: &Option<Image>,
    guards: &[r3_codegen::recipe::Guard],
) -> CodeKey {
    let mut launch = Xxh3::new();
    for head in subject.launches() {
        let shape = shape(head, &candidate.launch);
        // Nothing here cannot be spelled; the text is as good as the values.
        launch.update(format!("{} {shape:?};", head.id).as_bytes());
    }
    launch.update(format!("{guards:?}").as_bytes());
    CodeKey {
        archive: entry.archive,
        kernel: entry.id,
        code: image.as_ref().map_or(0, code_hash),
        launch: launch.digest128(),
    }
}

/// The subject of a kernel, for who compiles outside of the queue.
pub(super) fn subject_and_plan(
    inner: &Inner,
    entry: &KernelEntry,
    plan: &Plan,
) -> Result<(Arc<Subject>, Plan), EvaluatorError> {
    let subject = entry.subject(inner)?;
    let plan = entry
        .resolve(inner, &subject, plan, &mut Vec::new())
        .map_err(|no_plan| match no_plan {
            NoPlan::Verdict(_, reason) => EvaluatorError::Code(reason),
            NoPlan::Machine(error) => error,
        })?;
    Ok((subject, plan))
}
