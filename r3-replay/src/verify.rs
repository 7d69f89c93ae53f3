//! Every launch again, every recorded byte compared.

use r3_archive::Archive;
use r3_archive::chunk::ChunkId;
use r3_archive::model::{LaunchId, LaunchRecord};
use serde::{Deserialize, Serialize};

use crate::compare::{Allowance, ElementType, Tally, Tolerances};
use crate::device::{BlockRange, Inexact};
use crate::error::ReplayError;
use crate::names::readable;
use crate::replay::{BufferResult, Judge, Replayer, Restored, Rewritten};
use crate::trust::{self, Caveat};

/// How a launch came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every byte is the same.
    Identical,
    /// Every element is within its tolerance.
    Within,
    /// Something is out of tolerance.
    Mismatch,
    /// Only some blocks ran; what they wrote is as recorded, or within its tolerance.
    Sampled,
    /// Only some blocks ran, and what they wrote is no measure of the whole: blocks write to memory of each other.
    Undecided,
    /// This kind of device cannot run the launch. Nothing is known to be wrong with it.
    CannotRun,
    /// The launch could not be replayed.
    NotRun,
}

/// How a comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions<'t> {
    /// Tolerances by kernel and buffer.
    pub tolerances: &'t Tolerances,
    /// Whether nothing is allowed for where the device's results may differ and no tolerance is given.
    pub strict: bool,
    /// How often each launch runs.
    pub repeat: u32,
    /// Why bits may differ, where it is not the code that runs which decides that: what runs in place of a kernel is
    /// allowed what the kernel is.
    pub allowed: Option<&'t [Inexact]>,
    /// Whether [`LaunchReport::left`] is wanted.
    pub digest: bool,
}

impl<'t> VerifyOptions<'t> {
    /// Once, with these tolerances and nothing beyond them.
    pub fn exactly(tolerances: &'t Tolerances) -> Self {
        Self {
            tolerances,
            strict: true,
            repeat: 1,
            allowed: None,
            digest: false,
        }
    }
}

/// What a sample of blocks covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleReport {
    /// The blocks that ran, by linear index.
    pub blocks: BlockRange,
    /// How many the grid has.
    pub of: u64,
    /// Bytes that they changed: these were judged.
    pub written_bytes: u64,
    /// Bytes that the recorded launch changed and they did not: nothing is known of these.
    pub untouched_bytes: u64,
}

/// Why bits may differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InexactReport {
    /// Instruction or effect.
    pub what: String,
    /// Line of the first one in the PTX.
    pub line: u32,
    /// How many there are in the PTX.
    pub count: u32,
    /// How far one result may be off, relative to it.
    pub relative: f64,
}

/// What was found in one buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BufferReport {
    /// Name of the buffer.
    pub buffer: String,
    /// Recorded address.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// Type by which it was compared.
    #[serde(rename = "type")]
    pub element: ElementType,
    /// 64 KiB chunks with a difference.
    pub chunks: u64,
    /// Chunks among them that were counted in `found`.
    pub examined: u64,
    /// How far an element was allowed to be off, absolutely.
    pub allowed_absolute: f64,
    /// The same, relative to the recorded element.
    pub allowed_relative: f64,
    /// What differs.
    pub found: Tally,
}

/// The result of one launch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchReport {
    /// The launch.
    pub launch: LaunchId,
    /// Its kernel, readable.
    pub kernel: String,
    /// Grid dimensions.
    pub grid: [u32; 3],
    /// Block dimensions.
    pub block: [u32; 3],
    /// How it came out.
    pub outcome: Outcome,
    /// Why it could not be run, or not be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was covered, when only some blocks ran.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sample: Option<SampleReport>,
    /// Why bits may differ on this device, although both results are right.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub inexact: Vec<InexactReport>,
    /// Races on shared memory that were found.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub races: Vec<String>,
    /// Form of the code that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Times it was run.
    pub runs: u32,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Bytes that the launch changed, in whole chunks.
    pub changed_bytes: u64,
    /// Why the result proves less than it seems to.
    pub caveats: Vec<Caveat>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Words that were rewritten.
    pub rewritten: Rewritten,
    /// Buffers with a difference.
    pub buffers: Vec<BufferReport>,
    /// Stands for all memory that the last run left, when it was asked for: the same only for the same bytes. In
    /// hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left: Option<String>,
}

impl LaunchReport {
    /// A report about a launch that was not run.
    pub fn not_run(launch: &LaunchRecord, kernel: String, error: String) -> Self {
        Self {
            launch: launch.id,
            kernel,
            grid: launch.grid,
            block: launch.block,
            outcome: Outcome::NotRun,
            error: Some(error),
            sample: None,
            inexact: Vec::new(),
            races: Vec::new(),
            code: None,
            runs: 0,
            bytes: 0,
            changed_bytes: 0,
            caveats: Vec::new(),
            notes: Vec::new(),
            rewritten: Rewritten::default(),
            buffers: Vec::new(),
            left: None,
        }
    }
}

/// Replays a launch and compares, as often as asked for. Stops at the first mismatch.
pub fn verify_launch(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    id: LaunchId,
    options: VerifyOptions<'_>,
) -> LaunchReport {
    let launch = match archive.load_launch(id) {
        Ok(launch) => launch,
        Err(error) => {
            let head = archive.launch_heads().iter().find(|head| head.id == id);
            let head = head.cloned().unwrap_or_else(|| missing(id));
            let kernel = kernel_name(archive, &head);
            return LaunchReport::not_run(&head, kernel, error.to_string());
        }
    };
    let mut report = LaunchReport::not_run(&launch, kernel_name(archive, &launch), String::new());
    report.error = None;
    report.caveats = trust::caveats(&launch, replayer.kernel_info(launch.kernel).as_ref());
    report.notes.clone_from(&launch.notes);
    let recorded_notes = report.notes.len();
    for run in 0..options.repeat.max(1) {
        match one_run(replayer, &launch, options) {
            Ok(found) => {
                report.notes.truncate(recorded_notes);
                fill(&mut report, found);
                report.runs = run + 1;
            }
            Err(error) => {
                report.outcome = match error.cause.cannot_run_here() {
                    true => Outcome::CannotRun,
                    false => Outcome::NotRun,
                };
                report.error = Some(error.cause.to_string());
                return report;
            }
        }
        if matches!(report.outcome, Outcome::Mismatch | Outcome::Undecided) {
            break;
        }
    }
    report
}

/// What one run showed.
struct Found<'l> {
    restored: Restored<'l>,
    results: Vec<BufferResult>,
    sample: Option<SampleReport>,
    /// Where blocks of a sampled launch write to memory of each other.
    meeting: Option<String>,
    inexact: Vec<Inexact>,
    races: Vec<String>,
    left: Option<String>,
}

fn one_run<'l, 'a: 'l>(
    replayer: &mut Replayer<'a>,
    launch: &'l LaunchRecord,
    options: VerifyOptions<'_>,
) -> Result<Found<'l>, ReplayError> {
    let restored = replayer.restore(launch)?;
    let inexact = match options.allowed {
        Some(allowed) => allowed.to_vec(),
        None => replayer.inexact(&restored)?,
    };
    replayer.launch(&restored)?;
    let races = replayer
        .work()
        .map(|work| work.races.clone())
        .unwrap_or_default();
    let allowance = match options.strict {
        true => None,
        false => Allowance::new(&inexact),
    };
    let mut judge = Judge::new(options.tolerances, allowance);
    let mut found = Found {
        results: Vec::new(),
        sample: None,
        meeting: None,
        inexact,
        races,
        left: None,
        restored,
    };
    let restored = &found.restored;
    match restored.blocks {
        None => found.results = replayer.compare(restored, &mut judge)?,
        Some(blocks) => {
            let result = replayer.compare_sample(restored, &mut judge)?;
            found.sample = Some(SampleReport {
                blocks,
                of: BlockRange::all(launch.grid).end,
                written_bytes: result.written,
                untouched_bytes: result.untouched,
            });
            found.meeting = replayer.meeting(restored)?;
            found.results = result.buffers;
        }
    }
    if options.digest {
        found.left = Some(digest(replayer, restored)?);
    }
    Ok(found)
}

/// What is not as recorded, in few bytes.
fn digest(replayer: &mut Replayer<'_>, restored: &Restored<'_>) -> Result<String, ReplayError> {
    let mut summary = Vec::new();
    for difference in replayer.differences(restored)? {
        let (_, actual) = replayer.examine(restored, &difference)?;
        summary.extend_from_slice(&(difference.buffer as u64).to_le_bytes());
        summary.extend_from_slice(&difference.chunk.to_le_bytes());
        summary.extend_from_slice(&ChunkId::of(&actual).0);
    }
    let bytes = ChunkId::of(&summary).0;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Found<'_> {
    fn outcome(&self) -> Outcome {
        let ok = self.results.iter().all(BufferResult::ok);
        match (&self.sample, ok) {
            (Some(_), true) => Outcome::Sampled,
            (Some(_), false) if self.meeting.is_some() => Outcome::Undecided,
            (None, true) if self.results.is_empty() => Outcome::Identical,
            (None, true) => Outcome::Within,
            (_, false) => Outcome::Mismatch,
        }
    }
}

fn fill(report: &mut LaunchReport, found: Found<'_>) {
    let outcome = found.outcome();
    let restored = found.restored;
    report.code = Some(restored.form.to_string());
    report.rewritten = restored.rewritten;
    let compared = || {
        restored
            .buffers
            .iter()
            .filter(|buffer| buffer.target.is_some())
    };
    report.bytes = match found.sample {
        Some(sample) => sample.written_bytes,
        None => compared().map(|buffer| buffer.region.range.len()).sum(),
    };
    report.changed_bytes = compared()
        .flat_map(|buffer| {
            buffer
                .region
                .changes
                .iter()
                .map(|c| u64::from(buffer.region.chunk(c.chunk).1))
        })
        .sum();
    report.sample = found.sample;
    report.races = found.races;
    report.left = found.left;
    report.inexact = found
        .inexact
        .into_iter()
        .map(|reason| InexactReport {
            what: reason.what,
            line: reason.line,
            count: reason.count,
            relative: reason.relative,
        })
        .collect();
    if outcome == Outcome::Undecided {
        let place = found.meeting.unwrap_or_default();
        report.error = Some(format!(
            "blocks of this kernel write to memory of each other ({place}), so that a part of them leaves other \
             values there than all of them: run without --blocks"
        ));
    }
    if found.sample.is_some_and(|sample| sample.written_bytes == 0)
        && !report.caveats.contains(&Caveat::Vacuous)
    {
        report.caveats.insert(0, Caveat::Vacuous);
    }
    let bad = matches!(outcome, Outcome::Mismatch | Outcome::Undecided);
    // Of several runs, the worst one is reported.
    if report.runs == 0 || bad || report.outcome == Outcome::Identical {
        report.outcome = outcome;
        report.buffers = found
            .results
            .into_iter()
            .filter_map(|result| {
                let buffer = restored.buffers.get(result.buffer)?;
                Some(BufferReport {
                    buffer: buffer.name.shown().to_owned(),
                    address: buffer.region.range.start(),
                    len: buffer.region.range.len(),
                    element: result.element,
                    chunks: result.chunks,
                    examined: result.examined,
                    allowed_absolute: result.tolerance.absolute,
                    allowed_relative: result.tolerance.relative,
                    found: result.tally,
                })
            })
            .collect();
    }
    report.notes.extend(restored.notes);
}

fn kernel_name(archive: &Archive, launch: &LaunchRecord) -> String {
    archive.kernel(launch.kernel).map_or_else(
        || format!("kernel {}", launch.kernel),
        |kernel| readable(&kernel.name),
    )
}

/// Stands for a launch that is not in the archive.
fn missing(id: LaunchId) -> LaunchRecord {
    LaunchRecord {
        id,
        kernel: Default::default(),
        device: 0,
        entry_point: String::new(),
        grid: [0; 3],
        block: [0; 3],
        dynamic_shared: 0,
        cooperative: false,
        attributes: Vec::new(),
        params: Vec::new(),
        pointers: Vec::new(),
        function_settings: Vec::new(),
        cache_config: None,
        limits: Vec::new(),
        occurrence: 0,
        sequence: 0,
        thread: 0,
        unix_ns: 0,
        before: Default::default(),
        after: Default::default(),
        notes: Vec::new(),
    }
}
