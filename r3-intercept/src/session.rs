//! The archive of this process, and what has been written to it.
//!
//! The file is made with the first launch, so that processes which never launch leave none. Records
//! that launches refer to are written once, before the launch; counts are written again and again,
//! the last one holds.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use r3_archive::model::{
    AllocationId, AllocationRecord, DeviceRecord, KernelId, KernelRecord, LayoutSource, ModuleId,
    ModuleRecord, ProcessRecord, ProcessStatsRecord, SourceId, SourceRecord,
};
use r3_archive::{ArchiveWriter, WriteError, WriterOptions};

use crate::allocations::Allocation;
use crate::modules::{Function, Image, Kernel};
use crate::{driver, finish, loader, log, modules, nvrtc, process, select};

/// How long the exit of the program may be held up by work that is still queued.
const EXIT_LIMIT: Duration = Duration::from_secs(120);

/// The open archive.
pub struct Session {
    pub writer: ArchiveWriter,
    written: Mutex<Written>,
    /// Why no more launches can be recorded: the budget, or a write error.
    full: OnceLock<&'static str>,
    pub captured: AtomicU64,
    pub snapshot_bytes: AtomicU64,
}

/// Records that are in the file.
#[derive(Default)]
struct Written {
    devices: HashSet<i32>,
    sources: HashSet<SourceId>,
    kernels: HashSet<KernelId>,
    allocations: HashSet<AllocationId>,
}

static SESSION: OnceLock<Option<Session>> = OnceLock::new();

/// Counts that belong to no kernel.
pub static LAUNCHES_INTO_GRAPHS: AtomicU64 = AtomicU64::new(0);
pub static GRAPH_LAUNCHES: AtomicU64 = AtomicU64::new(0);
/// Launches in forms that are only counted.
pub static LAUNCHES_ELSEWHERE: AtomicU64 = AtomicU64::new(0);
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether this process has an archive, or failed to make one.
pub fn exists() -> bool {
    SESSION.get().is_some()
}

/// The archive; made now if there is none. `None` when it could not be made.
pub fn session() -> Option<&'static Session> {
    SESSION
        .get_or_init(|| {
            let session = open();
            if session.is_none() {
                process::switch_off();
            }
            session
        })
        .as_ref()
}

/// Something that `info` should tell, once.
pub fn message(text: String) {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    if messages.len() < 100 && !messages.contains(&text) {
        messages.push(text);
    }
}

fn open() -> Option<Session> {
    process::on_first_launch();
    let settings = process::settings()?;
    let options = &settings.options;
    let facts = r3_options::ProcessFacts {
        pid: std::process::id(),
        ..settings.facts.clone()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut writer_options = WriterOptions::default();
    (
        writer_options.zstd_level,
        writer_options.workers,
        writer_options.byte_budget,
    ) = (
        options.level,
        options.workers(cores),
        for_chunks(options.budget),
    );
    let wanted = options.out_path(&facts);
    let writer = match create(&wanted, &writer_options) {
        Ok(writer) => writer,
        Err(error) => {
            log::error(format_args!(
                "{error}; nothing is recorded, the program runs on"
            ));
            return None;
        }
    };
    let session = Session {
        writer,
        written: Mutex::default(),
        full: OnceLock::new(),
        captured: AtomicU64::new(0),
        snapshot_bytes: AtomicU64::new(0),
    };
    if let Err(error) = session.writer.append(&describe_process(settings, &facts)) {
        session.fail(&error);
    }
    // SAFETY: the handler is a plain function of this library, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
    log::info(format_args!(
        "recording to {}",
        session.writer.path().display()
    ));
    Some(session)
}

/// What chunks may use of a budget for the file. The rest is for records and the index.
fn for_chunks(budget: u64) -> u64 {
    budget - budget / 8
}

/// A name that is taken gets a number: an archive is never overwritten.
fn create(wanted: &Path, options: &WriterOptions) -> Result<ArchiveWriter, WriteError> {
    let mut result = ArchiveWriter::create(wanted, options.clone());
    let is_other_file = wanted.is_file();
    for number in 2..1000 {
        if result.is_ok() || !is_other_file {
            break;
        }
        let part = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let stem = part(wanted.file_stem());
        let suffix = wanted.extension().map(|e| format!(".{}", part(Some(e))));
        let name = format!("{stem}-{number}{}", suffix.unwrap_or_default());
        let path = wanted.with_file_name(name);
        if !path.exists() {
            result = ArchiveWriter::create(&path, options.clone());
            if result.is_ok() {
                // A process that replaces itself by another program keeps its number, and is no surprise.
                let replaced_itself = stem.contains(&std::process::id().to_string());
                let say = if replaced_itself {
                    log::info
                } else {
                    log::warn
                };
                let (wanted, path) = (wanted.display(), path.display());
                say(format_args!("{wanted} exists; recording to {path}"));
            }
        }
    }
    result
}

fn describe_process(
    settings: &process::Settings,
    facts: &r3_options::ProcessFacts,
) -> ProcessRecord {
    ProcessRecord {
        r3_version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: facts.pid,
        host: facts.host.to_string_lossy().into_owned(),
        exe: settings.facts.exe.to_string_lossy().into_owned(),
        argv: std::env::args_os()
            .map(|a| a.to_string_lossy().into_owned())
            .collect(),
        cwd: std::env::current_dir()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        rank: facts.rank,
        started_unix_ns: unix_ns(),
        driver_version: driver::version(),
        driver_path: loader::driver().map(|d| d.path.clone()).unwrap_or_default(),
        environment: process::environment(),
    }
}

/// Now, in nanoseconds since the Unix epoch.
pub fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

impl Session {
    /// Whether another launch may be recorded; the reason when not.
    pub fn has_room(&self) -> Result<(), &'static str> {
        if let Some(reason) = self.full.get() {
            return Err(reason);
        }
        let options = process::settings().map(|s| &s.options);
        let (max, budget) = options.map_or((0, 0), |o| (o.max_launches, o.budget));
        if self.captured.load(Ordering::Relaxed) >= max {
            return Err("R3_MAX launches are recorded");
        }
        if self.writer.stored_bytes() >= for_chunks(budget) {
            return Err(self.used_up());
        }
        Ok(())
    }

    /// The budget is used up: said once.
    fn used_up(&self) -> &'static str {
        const REASON: &str = "R3_BUDGET is used up";
        if self.full.set(REASON).is_ok() {
            log::warn(format_args!(
                "{REASON}; no more launches are recorded, the program runs on"
            ));
            message(REASON.to_owned());
        }
        REASON
    }

    /// The archive cannot take more. What is in it stays.
    pub fn fail(&self, error: &WriteError) {
        if matches!(error, WriteError::Budget { .. }) {
            self.used_up();
        } else if self
            .full
            .set("the archive could not be written any more")
            .is_ok()
        {
            log::warn(format_args!(
                "{error}; no more launches are recorded, what was recorded is kept, the program \
                 runs on"
            ));
            message(error.to_string());
        }
    }

    /// Writes a record once: `key` is taken for written unless `write` fails.
    fn once<K: std::hash::Hash + Eq + Copy>(
        &self,
        set: impl Fn(&mut Written) -> &mut HashSet<K>,
        key: K,
        write: impl FnOnce() -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let written = || self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if !set(&mut written()).insert(key) {
            return Ok(());
        }
        write().inspect_err(|_| {
            set(&mut written()).remove(&key);
        })
    }

    /// Writes a device's record, once.
    pub fn device(&self, ordinal: i32) -> Result<(), WriteError> {
        self.once(
            |w| &mut w.devices,
            ordinal,
            || {
                let (name, uuid, total_memory, attributes) = driver::describe_device(ordinal);
                let attribute = |wanted| {
                    let known = attributes.iter().find(|(id, _)| *id == wanted);
                    known.map_or(0, |(_, value)| *value)
                };
                // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
                let compute_capability = (attribute(75), attribute(76));
                self.writer.append(&DeviceRecord {
                    ordinal,
                    name,
                    uuid,
                    compute_capability,
                    total_memory,
                    attributes,
                })
            },
        )
    }

    /// Writes the record of a kernel of which a launch is recorded, with its module, once.
    pub fn kernel(&self, function: &Function) -> Result<(), WriteError> {
        let kernel = &function.kernel;
        let module = match &kernel.image {
            Some(image) => self.image(image)?,
            None => None,
        };
        self.once(
            |w| &mut w.kernels,
            kernel.id,
            || {
                let (params, layout) = match kernel.layout(function.handle) {
                    Some((params, source)) => (params.clone(), *source),
                    None => (Vec::new(), LayoutSource::Buffer),
                };
                // CUfunction_attribute runs to 16 or so in CUDA 13.
                let attributes = (0..=20)
                    .filter_map(|id| function.handle.attribute(id).map(|value| (id, value)))
                    .collect();
                self.writer.append(&KernelRecord {
                    id: kernel.id,
                    module,
                    name: kernel.name.clone(),
                    params,
                    layout,
                    attributes,
                })
            },
        )
    }

    /// Writes the record of a kernel that is only counted.
    fn counted_kernel(&self, kernel: &Kernel) -> Result<(), WriteError> {
        self.once(
            |w| &mut w.kernels,
            kernel.id,
            || {
                self.writer.append(&KernelRecord {
                    id: kernel.id,
                    module: None,
                    name: kernel.name.clone(),
                    params: Vec::new(),
                    layout: LayoutSource::Buffer,
                    attributes: Vec::new(),
                })
            },
        )
    }

    /// Writes an image, once. Its number, unless it is gone.
    fn image(&self, image: &Image) -> Result<Option<ModuleId>, WriteError> {
        if image.is_written() {
            return Ok(Some(image.id));
        }
        if let Some(source) = &image.source {
            self.source(source)?;
        }
        let Some((kind, bytes)) = image.read() else {
            message(format!(
                "module {}: its image was gone when it was needed",
                image.id
            ));
            return Ok(None);
        };
        self.writer.append(&ModuleRecord {
            id: image.id,
            kind,
            image: self.writer.put_bytes(&bytes)?,
            loaded_by: image.loaded_by.to_owned(),
            jit_options: image.jit_options.clone(),
            origin: image.origin.clone(),
            source: image.source.as_ref().map(|source| source.id),
        })?;
        image.written();
        Ok(Some(image.id))
    }

    fn source(&self, source: &nvrtc::Source) -> Result<(), WriteError> {
        self.once(
            |w| &mut w.sources,
            source.id,
            || {
                let headers = source.headers.iter();
                self.writer.append(&SourceRecord {
                    id: source.id,
                    compiler: "nvrtc".to_owned(),
                    name: source.name.clone(),
                    text: self.writer.put_bytes(&source.text)?,
                    headers: headers
                        .map(|(name, text)| Ok((name.clone(), self.writer.put_bytes(text)?)))
                        .collect::<Result<_, WriteError>>()?,
                    options: source.options.clone(),
                    name_expressions: source.name_expressions.clone(),
                })
            },
        )
    }

    /// Writes an allocation's record, once.
    pub fn allocation(&self, allocation: &Allocation) -> Result<(), WriteError> {
        self.once(
            |w| &mut w.allocations,
            allocation.id,
            || {
                self.writer.append(&AllocationRecord {
                    id: allocation.id,
                    address: allocation.address,
                    len: allocation.len,
                    kind: allocation.kind,
                    device: allocation.device,
                })
            },
        )
    }

    /// Writes the counts of one kernel, and of the process, as they stand.
    pub fn progress(&self, kernel: KernelId) -> Result<(), WriteError> {
        for (_, record) in select::stats(Some(kernel)) {
            self.writer.append(&record)?;
        }
        self.process_stats()
    }

    /// Writes the counts of all kernels: the last records of the archive.
    fn stats(&self) -> Result<(), WriteError> {
        for (kernel, record) in select::stats(None) {
            self.counted_kernel(&kernel)?;
            self.writer.append(&record)?;
        }
        self.process_stats()
    }

    fn process_stats(&self) -> Result<(), WriteError> {
        let into_graphs = LAUNCHES_INTO_GRAPHS.load(Ordering::Relaxed);
        let mut stats = ProcessStatsRecord {
            launches: select::launches() + LAUNCHES_ELSEWHERE.load(Ordering::Relaxed) + into_graphs,
            captured: self.captured.load(Ordering::Relaxed),
            launches_into_graphs: into_graphs,
            graph_launches: GRAPH_LAUNCHES.load(Ordering::Relaxed),
            snapshot_bytes: self.snapshot_bytes.load(Ordering::Relaxed),
            messages: MESSAGES
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        };
        modules::describe_unseen(&mut stats);
        self.writer.append(&stats)
    }
}

/// The program ends. No CUDA call is made here, since the driver may be gone, and no thread is
/// joined; the worker threads still run and are given time to write what is queued.
extern "C" fn at_exit() {
    if !process::is_owner() {
        return;
    }
    process::switch_off();
    let _ = std::panic::catch_unwind(|| {
        let Some(Some(session)) = SESSION.get() else {
            return;
        };
        if !finish::drain(EXIT_LIMIT) {
            log::warn(format_args!(
                "{}: still writing after {} s; the last launches may be missing",
                session.writer.path().display(),
                EXIT_LIMIT.as_secs()
            ));
        }
        let result = session.stats().and_then(|()| session.writer.finish());
        match result {
            Ok(()) => log::info(format_args!(
                "{} launches in {}",
                session.captured.load(Ordering::Relaxed),
                session.writer.path().display()
            )),
            Err(error) => log::warn(format_args!("{error}; what was recorded before is kept")),
        }
    });
}
