//! Every launch again, every recorded byte compared.

use r3_archive::Archive;
use r3_archive::model::{LaunchId, LaunchRecord};
use serde::{Deserialize, Serialize};

use crate::compare::{ElementType, Tally, Tolerances};
use crate::error::ReplayError;
use crate::names::readable;
use crate::replay::{BufferResult, Replayer, Restored, Rewritten};
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
    /// The launch could not be replayed.
    NotRun,
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
    /// Why it could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
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
            code: None,
            runs: 0,
            bytes: 0,
            changed_bytes: 0,
            caveats: Vec::new(),
            notes: Vec::new(),
            rewritten: Rewritten::default(),
            buffers: Vec::new(),
        }
    }
}

/// Replays a launch `repeat` times and compares each time. Stops at the first mismatch.
pub fn verify_launch(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    id: LaunchId,
    tolerances: &Tolerances,
    repeat: u32,
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
    for run in 0..repeat.max(1) {
        match one_run(replayer, &launch, tolerances) {
            Ok((restored, results)) => {
                report.notes.truncate(recorded_notes);
                fill(&mut report, restored, results);
                report.runs = run + 1;
            }
            Err(error) => {
                report.outcome = Outcome::NotRun;
                report.error = Some(error.cause.to_string());
                return report;
            }
        }
        if report.outcome == Outcome::Mismatch {
            break;
        }
    }
    report
}

fn one_run<'l, 'a: 'l>(
    replayer: &mut Replayer<'a>,
    launch: &'l LaunchRecord,
    tolerances: &Tolerances,
) -> Result<(Restored<'l>, Vec<BufferResult>), ReplayError> {
    let restored = replayer.restore(launch)?;
    replayer.launch(&restored)?;
    let results = replayer.compare(&restored, tolerances)?;
    Ok((restored, results))
}

fn fill(report: &mut LaunchReport, restored: Restored<'_>, results: Vec<BufferResult>) {
    report.code = Some(restored.form.to_string());
    report.rewritten = restored.rewritten;
    let compared = || {
        restored
            .buffers
            .iter()
            .filter(|buffer| buffer.target.is_some())
    };
    report.bytes = compared().map(|buffer| buffer.region.range.len()).sum();
    report.changed_bytes = compared()
        .flat_map(|buffer| {
            buffer
                .region
                .changes
                .iter()
                .map(|c| u64::from(buffer.region.chunk(c.chunk).1))
        })
        .sum();
    let outcome = if results.is_empty() {
        Outcome::Identical
    } else if results.iter().all(BufferResult::ok) {
        Outcome::Within
    } else {
        Outcome::Mismatch
    };
    // Of several runs, the worst one is reported.
    if report.runs == 0 || outcome == Outcome::Mismatch || report.outcome == Outcome::Identical {
        report.outcome = outcome;
        report.buffers = results
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
