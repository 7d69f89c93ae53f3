//! What a device does when there is nothing to do, and whether flushing its caches does anything.
//!
//! An empty kernel has a time: no candidate can be faster, and a score has an end there. A kernel that reads a
//! buffer that fits into the level-2 cache must be slower after a flush: else "cold" is a word.

use crate::device::{Device, DeviceError, Effort, KernelHandle, LaunchConfig};
use crate::evaluate::describe::DeviceDescription;

/// A device's limits, measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor {
    /// Time of a kernel that does nothing, in nanoseconds.
    pub empty: Option<f64>,
    /// Time of reading memory after a flush ÷ time of reading the same again.
    pub cold_to_warm: Option<f64>,
}

/// From which ratio on the flush is taken to work.
const COLDER: f64 = 1.1;
/// Runs of each kind of reading; the median counts.
const RUNS: usize = 9;
/// Runs of the empty kernel; the least time counts.
const EMPTY_RUNS: usize = 64;
const THREADS: u32 = 256;

const PTX: &str = include_str!("floor/probe.ptx");

impl Floor {
    /// Why times after a flush may not be cold ones, if that is so.
    pub fn doubt(&self) -> Option<String> {
        match self.cold_to_warm {
            Some(ratio) if ratio >= COLDER => None,
            Some(ratio) => Some(format!(
                "cache regime unknown: reading memory after a flush takes {ratio:.2} times as long as reading it again"
            )),
            None => Some("cache regime unknown: it could not be measured".to_owned()),
        }
    }
}

/// Measures. A device that cannot run the kernels, or that counts, has no floor.
pub fn measure(device: &mut dyn Device, what: &DeviceDescription) -> Result<Floor, DeviceError> {
    if what.counts {
        return Ok(Floor::default());
    }
    let module = match device.load(PTX.as_bytes(), &[], &[]) {
        Ok(module) => module,
        Err(DeviceError::Call { .. } | DeviceError::Code(_) | DeviceError::CannotRun(_)) => {
            return Ok(Floor::default());
        }
        Err(error) => return Err(error),
    };
    let measured = (|| {
        let (Some(empty), Some(read)) = (
            device.kernel(module, "r3_empty")?,
            device.kernel(module, "r3_read")?,
        ) else {
            return Ok(Floor::default());
        };
        let config = config(1, &[]);
        // First what keeps the device busy, so that its clocks are up.
        let cold_to_warm = cold_to_warm(device, read, what)?;
        Ok(Floor {
            empty: least(EMPTY_RUNS, || {
                nanoseconds(device.launch_timed(empty, &config)?)
            })?,
            cold_to_warm,
        })
    })();
    device.unload(module)?;
    measured
}

fn cold_to_warm(
    device: &mut dyn Device,
    kernel: KernelHandle,
    what: &DeviceDescription,
) -> Result<Option<f64>, DeviceError> {
    // A quarter: the cache of large GPUs is two halves that each have copies of the other's lines.
    let len = (what.l2_bytes / 4) & !0xfff;
    if len == 0 {
        return Ok(None);
    }
    let Ok(memory) = device.allocate(len + 16) else {
        return Ok(None);
    };
    let params = [memory, len / 16, memory + len]
        .map(u64::to_le_bytes)
        .concat();
    let config = config(what.multiprocessors.max(1).saturating_mul(8), &params);
    let ratio = (|| {
        let mut times = [None; 2];
        for (time, cold) in times.iter_mut().zip([false, true]) {
            *time = median(RUNS, || {
                if cold {
                    device.flush_cache()?;
                } else {
                    device.launch(kernel, &config)?;
                }
                nanoseconds(device.launch_timed(kernel, &config)?)
            })?;
        }
        let [warm, cold] = times;
        Ok(warm.zip(cold).map(|(warm, cold)| cold / warm))
    })();
    device.free(memory)?;
    ratio
}

fn config(blocks: u32, params: &[u8]) -> LaunchConfig<'_> {
    LaunchConfig {
        grid: [blocks, 1, 1],
        block: [THREADS, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        attributes: &[],
        blocks: None,
        params,
    }
}

fn nanoseconds(effort: Effort) -> Result<Option<f64>, DeviceError> {
    Ok(match effort {
        Effort::Nanoseconds(time) => Some(time),
        Effort::Work(_) => None,
    })
}

/// The least time of some runs: of one thing that does nothing, all else is disturbance.
fn least(
    runs: usize,
    mut run: impl FnMut() -> Result<Option<f64>, DeviceError>,
) -> Result<Option<f64>, DeviceError> {
    let mut least: Option<f64> = None;
    for _ in 0..runs {
        if let Some(time) = run()? {
            least = Some(least.map_or(time, |known| known.min(time)));
        }
    }
    Ok(least)
}

/// The median of some runs, after one that does not count.
fn median(
    runs: usize,
    mut run: impl FnMut() -> Result<Option<f64>, DeviceError>,
) -> Result<Option<f64>, DeviceError> {
    let mut times = Vec::new();
    for index in 0..=runs {
        let time = run()?;
        if index > 0 {
            times.extend(time);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::{CpuDevice, CpuOptions};

    #[test]
    fn a_flush_that_does_nothing_is_told() {
        let works = Floor {
            empty: Some(1500.0),
            cold_to_warm: Some(2.0),
        };
        assert_eq!(works.doubt(), None);
        let not = Floor {
            cold_to_warm: Some(1.01),
            ..works
        };
        assert!(
            not.doubt()
                .is_some_and(|doubt| doubt.contains("1.01 times"))
        );
        assert!(Floor::default().doubt().is_some());
    }

    #[test]
    fn the_probes_are_kernels_that_run() {
        let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| {}));
        let module = device.load(PTX.as_bytes(), &[], &[]).unwrap();
        let memory = device.allocate(4096 + 16).unwrap();
        device.write(memory, &[7; 4096 + 16]).unwrap();
        let params = [memory, 256, memory + 4096].map(u64::to_le_bytes).concat();
        for (name, params) in [("r3_empty", &[][..]), ("r3_read", &params)] {
            let kernel = device.kernel(module, name).unwrap().unwrap();
            device.launch(kernel, &config(2, params)).unwrap();
        }
        device.synchronize().unwrap();
        let mut after = [0; 16];
        device.read(memory + 4096, &mut after).unwrap();
        assert_eq!(after, [7; 16]);
        assert_eq!(
            measure(
                &mut device,
                &DeviceDescription {
                    counts: true,
                    ..DeviceDescription::default()
                }
            )
            .unwrap(),
            Floor::default()
        );
    }
}
