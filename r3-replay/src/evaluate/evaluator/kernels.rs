//! Archives that are open, and what was found out of their kernels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use r3_archive::Archive;
use r3_archive::model::{KernelId, KernelRecord, LaunchId};
use r3_options::{OptionSpec, Options, Selection};

use super::types::ArchiveId;
use super::{EvaluatorError, Inner};
use crate::evaluate::build::Subject;
use crate::evaluate::engine::Prepared;
use crate::evaluate::outcome::Verdict;
use crate::evaluate::plan::{Plan, Weighted};
use crate::evaluate::worker::{ArchiveRef, Made, Order};
use crate::names::readable;

/// After the machine failed for a kernel, it is not asked again for so long.
const REST: Duration = Duration::from_secs(10);

/// Archives by number.
#[derive(Default)]
pub(super) struct Archives(Mutex<Vec<Arc<OpenArchive>>>);

/// An archive.
pub(super) struct OpenArchive {
    pub(super) id: ArchiveId,
    pub(super) reference: ArchiveRef,
    pub(super) archive: Arc<Archive>,
    kernels: Mutex<BTreeMap<KernelId, Arc<KernelEntry>>>,
}

/// A kernel of an archive, and what is known of it.
pub(super) struct KernelEntry {
    pub(super) archive: ArchiveId,
    pub(super) reference: ArchiveRef,
    pub(super) opened: Arc<Archive>,
    pub(super) id: KernelId,
    known: Mutex<KernelKnown>,
}

impl std::fmt::Debug for KernelEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kernel {} of {:?}", self.id, self.archive)
    }
}

#[derive(Default)]
struct KernelKnown {
    subject: Option<Arc<Subject>>,
    prepared: BTreeMap<LaunchId, Prepared>,
    failed: Option<(Instant, EvaluatorError)>,
}

impl Archives {
    pub(super) fn open(&self, path: &Path) -> Result<ArchiveId, EvaluatorError> {
        let wrong = |error: &dyn std::fmt::Display| {
            EvaluatorError::Archive(format!("{}: {error}", path.display()))
        };
        // Workers have another working directory.
        let full = path.canonicalize().map_err(|error| wrong(&error))?;
        let archive =
            Archive::open(&full).map_err(|error| EvaluatorError::Archive(error.to_string()))?;
        let reference = ArchiveRef {
            path: full,
            uuid: archive.uuid(),
        };
        let mut open = lock(&self.0);
        if let Some(same) = open.iter().find(|open| open.reference == reference) {
            return Ok(same.id);
        }
        let number = u32::try_from(open.len()).unwrap_or(u32::MAX);
        let id = ArchiveId(number);
        open.push(Arc::new(OpenArchive {
            id,
            reference,
            archive: Arc::new(archive),
            kernels: Mutex::default(),
        }));
        Ok(id)
    }

    pub(super) fn get(&self, id: ArchiveId) -> Result<Arc<OpenArchive>, EvaluatorError> {
        let open = lock(&self.0);
        open.get(id.0 as usize)
            .cloned()
            .ok_or(EvaluatorError::NoArchive(id))
    }

    pub(super) fn list(&self) -> Vec<(ArchiveId, PathBuf)> {
        let open = lock(&self.0);
        open.iter()
            .map(|open| (open.id, open.reference.path.clone()))
            .collect()
    }
}

impl OpenArchive {
    /// The kernel with recorded launches that goes by a name.
    pub(super) fn kernel(&self, name: &str) -> Result<Arc<KernelEntry>, EvaluatorError> {
        let id = find(&self.archive, name).map_err(EvaluatorError::Kernel)?;
        let mut kernels = lock(&self.kernels);
        let entry = kernels.entry(id).or_insert_with(|| {
            Arc::new(KernelEntry {
                archive: self.id,
                reference: self.reference.clone(),
                opened: self.archive.clone(),
                id,
                known: Mutex::default(),
            })
        });
        Ok(entry.clone())
    }
}

/// The kernel that a name means: mangled or readable, else what `--kernel` takes, as long as it is one.
fn find(archive: &Archive, name: &str) -> Result<KernelId, String> {
    let launched = |kernel: &&KernelRecord| {
        let mut heads = archive.launch_heads().iter();
        heads.any(|launch| launch.kernel == kernel.id)
    };
    let kernels: Vec<&KernelRecord> = archive.kernels().iter().filter(launched).collect();
    let is = |kernel: &&&KernelRecord| kernel.name == name || readable(&kernel.name) == name;
    let mut found: Vec<&KernelRecord> = kernels.iter().filter(is).copied().collect();
    if found.is_empty() {
        let selection = pattern(name)?;
        found = kernels
            .iter()
            .filter(|kernel| selection.kernel_selected(&kernel.name))
            .copied()
            .collect();
    }
    let names = |kernels: &[&KernelRecord]| {
        let names: Vec<String> = kernels.iter().map(|k| readable(&k.name)).collect();
        names.join(", ")
    };
    match found.as_slice() {
        [one] => Ok(one.id),
        [] => Err(format!(
            "{} has no kernel `{name}` with recorded launches: it has {}",
            archive.path().display(),
            names(&kernels)
        )),
        several => Err(format!(
            "`{name}` is more than one kernel of {}: {}",
            archive.path().display(),
            names(several)
        )),
    }
}

/// Kernels as `--kernel` selects them.
fn pattern(text: &str) -> Result<Selection, String> {
    let spec = OptionSpec::by_long("kernel").map(|spec| (spec, text.into()));
    let options = Options::from_arguments(spec).map_err(|errors| {
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        told.join("\n")
    })?;
    Ok(Selection::new(&options))
}

/// Whether a plan can be followed, as far as that is known without a device.
pub(super) fn check_plan(entry: &KernelEntry, plan: &Plan) -> Result<(), String> {
    let heads = entry.opened.launch_heads();
    let tuned = plan.launches.iter().map(|weighted| weighted.launch);
    for id in tuned.chain(plan.held_out.iter().copied()) {
        if !heads
            .iter()
            .any(|launch| launch.id == id && launch.kernel == entry.id)
        {
            return Err(format!("the plan's launch {id} is none of this kernel"));
        }
    }
    for Weighted { launch, weight } in &plan.launches {
        if !weight.is_finite() || *weight < 0.0 {
            return Err(format!("launch {launch} has the weight {weight}"));
        }
        let twice = plan.launches.iter().filter(|w| w.launch == *launch).count() > 1;
        if twice || plan.held_out.contains(launch) {
            return Err(format!("launch {launch} is in the plan twice"));
        }
    }
    let positive = |number: f64| number.is_finite() && number > 0.0;
    if !positive(plan.drop_ratio) {
        return Err(format!("the plan's drop_ratio is {}", plan.drop_ratio));
    }
    if plan.incumbent.is_some_and(|ratio| !positive(ratio)) {
        return Err("the plan's incumbent is no ratio".to_owned());
    }
    if plan.most_pairs < plan.least_pairs {
        return Err(format!(
            "the plan wants {} pairs at least and {} at most",
            plan.least_pairs, plan.most_pairs
        ));
    }
    Ok(())
}

/// Why a plan cannot be followed.
pub(super) enum NoPlan {
    /// Said of the candidate.
    Verdict(Verdict, String),
    /// Nothing is said of it.
    Machine(EvaluatorError),
}

impl KernelEntry {
    /// What candidates have in common.
    pub(super) fn subject(&self, inner: &Inner) -> Result<Arc<Subject>, EvaluatorError> {
        let mut known = lock(&self.known);
        if let Some(subject) = &known.subject {
            return Ok(subject.clone());
        }
        let order = Order::Describe(self.reference.clone(), self.id);
        let Made::Description(description) = ask(&mut known, inner, order)? else {
            return Err(unasked());
        };
        let subject = Subject::new(self.opened.clone(), self.id, Arc::new(*description));
        let subject = Arc::new(subject.ok_or_else(|| {
            EvaluatorError::Kernel(format!("the archive has no kernel {}", self.id))
        })?);
        known.subject = Some(subject.clone());
        Ok(subject)
    }

    /// What is known of launches, which are made ready for that.
    pub(super) fn prepared(
        &self,
        inner: &Inner,
        launches: &[LaunchId],
    ) -> Result<Vec<Prepared>, EvaluatorError> {
        let mut known = lock(&self.known);
        let missing: Vec<LaunchId> = launches
            .iter()
            .filter(|id| !known.prepared.contains_key(id))
            .copied()
            .collect();
        if !missing.is_empty() {
            let order = Order::Prepare(self.reference.clone(), self.id, missing);
            let Made::Prepared(prepared) = ask(&mut known, inner, order)? else {
                return Err(unasked());
            };
            for launch in prepared {
                known.prepared.insert(launch.launch, launch);
            }
        }
        let found = launches.iter().filter_map(|id| known.prepared.get(id));
        Ok(found.cloned().collect())
    }

    /// A plan with its launches: all that are usable, weighted by how often the application does them, when it names none.
    pub(super) fn resolve(
        &self,
        inner: &Inner,
        subject: &Subject,
        plan: &Plan,
        notes: &mut Vec<String>,
    ) -> Result<Plan, NoPlan> {
        let mut plan = plan.clone();
        let named = !plan.launches.is_empty();
        if !named {
            let launches = &subject.description().launches;
            plan.launches = launches
                .iter()
                .filter(|launch| !plan.held_out.contains(&launch.launch))
                .map(|launch| Weighted {
                    launch: launch.launch,
                    weight: launch.weight,
                })
                .collect();
        }
        let tuned = plan.launches.iter().map(|weighted| weighted.launch);
        let all: Vec<LaunchId> = tuned.chain(plan.held_out.iter().copied()).collect();
        let prepared = self.prepared(inner, &all).map_err(NoPlan::Machine)?;
        let unusable: BTreeMap<LaunchId, String> = prepared
            .into_iter()
            .filter_map(|launch| Some((launch.launch, launch.unusable?)))
            .collect();
        if unusable.is_empty() {
            return Ok(plan);
        }
        let before = plan.launches.len();
        plan.launches
            .retain(|weighted| !unusable.contains_key(&weighted.launch));
        plan.held_out.retain(|id| !unusable.contains_key(id));
        let reasons: Vec<String> = unusable
            .iter()
            .map(|(id, why)| format!("launch {id} cannot be judged: {why}"))
            .collect();
        if plan.launches.is_empty() || named && plan.launches.len() < before {
            return Err(NoPlan::Verdict(Verdict::CannotRun, reasons.join("; ")));
        }
        notes.extend(reasons);
        Ok(plan)
    }
}

/// Asks a device. What the machine could not do is not asked again for a while.
fn ask(
    known: &mut MutexGuard<'_, KernelKnown>,
    inner: &Inner,
    order: Order,
) -> Result<Made, EvaluatorError> {
    if let Some((when, error)) = &known.failed
        && when.elapsed() < REST
    {
        return Err(error.clone());
    }
    let (reply, answer) = channel();
    let asked = inner.shared.ask(order, reply);
    let answer = asked.and_then(|()| answer.recv().unwrap_or(Err(EvaluatorError::ShuttingDown)));
    known.failed = answer
        .as_ref()
        .err()
        .map(|error| (Instant::now(), error.clone()));
    answer
}

fn unasked() -> EvaluatorError {
    EvaluatorError::Machine("the device's worker answered something else".to_owned())
}

/// A panic of another thread leaves these values whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
