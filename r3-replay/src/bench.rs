//! How long a launch takes on a GPU, or how much it does on the CPU device.

use std::collections::BTreeMap;

use r3_archive::Archive;
use r3_archive::model::LaunchId;
use serde::{Deserialize, Serialize};

use crate::device::{BlockRange, Effort, Work};
use crate::error::ReplayError;
use crate::names::readable;
use crate::nvml::{GpuState, Nvml};
use crate::replay::{Replayer, Restored};

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions {
    /// Runs that are not counted.
    pub warmup: u32,
    /// Runs that are counted.
    pub runs: u32,
    /// Whether memory is put back before each run.
    pub restore: bool,
}

/// Times over the runs of one launch, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Number of runs.
    pub n: usize,
    /// Median.
    pub median: f64,
    /// Lower end of the interval that holds the true median with at least 95 % confidence.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Confidence of the interval; few runs cannot give 0.95.
    pub confidence: f64,
    /// Fastest run.
    pub min: f64,
    /// Slowest run.
    pub max: f64,
}

/// What a launch did on a device that counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkReport {
    /// What stands for time: the weighted count of warp instructions.
    pub cost: u64,
    /// What `cost` counts.
    pub cost_unit: &'static str,
    /// Warp instructions in all.
    pub warp_instructions: u64,
    /// Warp instructions by class, as far as there are any.
    pub by_class: BTreeMap<&'static str, u64>,
    /// Instructions of single threads.
    pub thread_instructions: u64,
    /// 32-byte sectors of global memory that warps touched.
    pub global_sectors: u64,
    /// Extra passes through shared memory because of bank conflicts.
    pub bank_conflicts: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Blocks of the grid.
    pub of_blocks: u64,
    /// Whether all runs gave the same counts.
    pub steady: bool,
    /// Instructions of single threads in a second of the host, by the median of `wall_nanoseconds`.
    pub thread_instructions_per_second: Option<f64>,
}

/// What [`WorkReport::cost`] counts.
pub const COST_UNIT: &str = "weighted warp instructions";

impl WorkReport {
    fn new(work: &Work, grid: [u32; 3]) -> Self {
        Self {
            cost: work.cost,
            cost_unit: COST_UNIT,
            warp_instructions: work.warp_instructions.iter().map(|(_, count)| count).sum(),
            by_class: work
                .warp_instructions
                .iter()
                .filter(|(_, count)| *count > 0)
                .copied()
                .collect(),
            thread_instructions: work.thread_instructions,
            global_sectors: work.global_sectors,
            bank_conflicts: work.bank_conflicts,
            blocks: work.blocks,
            of_blocks: BlockRange::all(grid).end,
            steady: true,
            thread_instructions_per_second: None,
        }
    }
}

/// The result of one launch.
#[derive(Clone, Debug, Serialize)]
pub struct LaunchBench {
    /// The launch.
    pub launch: LaunchId,
    /// Its kernel, readable.
    pub kernel: String,
    /// Grid dimensions.
    pub grid: [u32; 3],
    /// Block dimensions.
    pub block: [u32; 3],
    /// Form of the code that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Times on the GPU, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanoseconds: Option<Times>,
    /// Every run on the GPU, in order, in nanoseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
    /// What the launch did on the CPU device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkReport>,
    /// Times that the host took to interpret it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_nanoseconds: Option<Times>,
    /// Every run on the CPU device, in order: time of the host in nanoseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wall_samples: Vec<f64>,
    /// Whether memory was put back before each run.
    pub restored: bool,
    /// The GPU before the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<GpuState>,
    /// The GPU right after the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<GpuState>,
    /// Notes.
    pub notes: Vec<String>,
    /// Why it could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error is about this kind of device, and not about the launch.
    pub cannot_run: bool,
}

/// Measures a launch.
pub fn bench(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    nvml: Option<&Nvml>,
    id: LaunchId,
    options: BenchOptions,
) -> LaunchBench {
    let mut result = LaunchBench {
        launch: id,
        kernel: String::new(),
        grid: [0; 3],
        block: [0; 3],
        code: None,
        nanoseconds: None,
        samples: Vec::new(),
        work: None,
        wall_nanoseconds: None,
        wall_samples: Vec::new(),
        restored: options.restore,
        before: None,
        after: None,
        notes: Vec::new(),
        error: None,
        cannot_run: false,
    };
    let launch = match archive.load_launch(id) {
        Ok(launch) => launch,
        Err(error) => {
            result.error = Some(error.to_string());
            return result;
        }
    };
    result.grid = launch.grid;
    result.block = launch.block;
    result.kernel = archive.kernel(launch.kernel).map_or_else(
        || format!("kernel {}", launch.kernel),
        |kernel| readable(&kernel.name),
    );
    let measured = replayer.restore(&launch).and_then(|restored| {
        result.code = Some(restored.form.to_string());
        result.notes.clone_from(&restored.notes);
        measure(replayer, nvml, &restored, options, &mut result)
    });
    if let Err(error) = measured {
        result.error = Some(error.cause.to_string());
        result.cannot_run = error.cause.cannot_run_here();
    }
    result.nanoseconds = times(&result.samples);
    result.wall_nanoseconds = times(&result.wall_samples);
    if let (Some(work), Some(wall)) = (&mut result.work, &result.wall_nanoseconds)
        && wall.median > 0.0
    {
        let seconds = wall.median / 1e9;
        work.thread_instructions_per_second = Some(work.thread_instructions as f64 / seconds);
    }
    result
}

fn measure(
    replayer: &mut Replayer<'_>,
    nvml: Option<&Nvml>,
    restored: &Restored<'_>,
    options: BenchOptions,
    result: &mut LaunchBench,
) -> Result<(), ReplayError> {
    let golden = match options.restore {
        true => replayer.keep_copy(restored).map_err(|error| {
            result.notes.push(format!(
                "memory is put back from the archive, since there is no room for a copy: {}",
                error.cause
            ));
        }),
        false => Err(()),
    };
    let measured = (|| {
        result.before = nvml.map(Nvml::state);
        for run in 0..options.warmup.saturating_add(options.runs) {
            // Memory is as it was before the first run anyway.
            match &golden {
                _ if run == 0 || !options.restore => {}
                Ok(golden) => replayer.put_back(restored, golden)?,
                Err(()) => {
                    replayer.restore(restored.launch)?;
                }
            }
            let effort = replayer.launch_timed(restored)?;
            if run >= options.warmup {
                result.add(effort);
            }
        }
        result.after = nvml.map(Nvml::state);
        Ok(())
    })();
    if let Ok(golden) = golden {
        let freed = replayer.drop_copy(restored, golden);
        return measured.and(freed);
    }
    measured
}

impl LaunchBench {
    fn add(&mut self, effort: Effort) {
        match effort {
            Effort::Nanoseconds(time) => self.samples.push(time),
            Effort::Work(work) => {
                self.wall_samples.push(work.wall.as_nanos() as f64);
                let new = WorkReport::new(&work, self.grid);
                match &mut self.work {
                    None => self.work = Some(new),
                    Some(first) => {
                        first.steady &= first.cost == new.cost && first.by_class == new.by_class;
                    }
                }
            }
        }
    }
}

/// Median, its confidence interval and extremes; `None` without samples.
pub fn times(samples: &[f64]) -> Option<Times> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let median = (sorted.get((n - 1) / 2)? + sorted.get(n / 2)?) / 2.0;
    let (low, high, confidence) = median_interval(n);
    Some(Times {
        n,
        median,
        low: *sorted.get(low)?,
        high: *sorted.get(high)?,
        confidence,
        min,
        max,
    })
}

/// The ranks (from 0) between which the true median lies, and with what probability: the number of
/// samples below it is binomially distributed, whatever the distribution of times.
fn median_interval(n: usize) -> (usize, usize, f64) {
    // Probability of at most k samples below the median, summed up from the tail.
    let mut term = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = 0.0;
    let (mut rank, mut outside) = (0, 2.0 * term);
    if term == 0.0 {
        // More than a thousand samples: the normal distribution is as good.
        let half = 0.98 * (n as f64).sqrt();
        let low = (n as f64 / 2.0 - half).floor().max(0.0) as usize;
        return (low, n - 1 - low, 0.95);
    }
    for k in 0..n / 2 {
        below += term;
        if 2.0 * below > 0.05 {
            break;
        }
        rank = k;
        outside = 2.0 * below;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    (rank, n - 1 - rank, (1.0 - outside).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_the_median_is_the_sign_tests() {
        // Tables of the sign test: for 10 samples the 2nd and 9th at 97.9 %, for 20 the 6th and
        // 15th at 95.9 %, for 100 the 40th and 61st at 96.5 %.
        let rounded = |n| {
            let (low, high, confidence) = median_interval(n);
            (low + 1, high + 1, (confidence * 1000.0).round() / 1000.0)
        };
        assert_eq!(rounded(10), (2, 9, 0.979));
        assert_eq!(rounded(20), (6, 15, 0.959));
        assert_eq!(rounded(100), (40, 61, 0.965));
    }

    #[test]
    fn few_samples_give_their_range_and_say_how_sure_it_is() {
        assert_eq!(median_interval(5), (0, 4, 0.9375));
        assert_eq!(median_interval(1), (0, 0, 0.0));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let t = times(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((t.median, t.min, t.max, t.n), (2.5, 1.0, 4.0, 4));
        assert_eq!(times(&[]), None);
    }

    #[test]
    fn thousands_of_samples_have_an_interval_too() {
        let (low, high, _) = median_interval(10_000);
        assert!(
            (4890..4910).contains(&low) && (5090..5110).contains(&high),
            "{low} {high}"
        );
    }
}
