//! What is no operation on memory.

use std::time::Instant;

use super::Checked;
use crate::device::{Device, DeviceError, Effort, JitOption, LaunchConfig, Platform};
use crate::nvml::Nvml;

/// A kernel that does nothing.
const EMPTY: &str =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty()\n{\n    ret;\n}\n";
/// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`.
const LIMIT_PERSISTING: u32 = 6;

/// Tries all of it.
pub fn all(device: &mut dyn Device) -> Vec<Checked> {
    let checked = |name, result: Result<Option<String>, DeviceError>| {
        let mut checked = Checked::new(name, Ok(()));
        match result {
            Ok(note) => checked.note = note,
            Err(error) => {
                checked.ok = false;
                checked.note = Some(error.to_string());
            }
        }
        checked
    };
    let mut all = vec![
        checked("operations in bulk", by_whom(device)),
        checked("properties", properties(device)),
        checked("reset_persisting", persisting(device)),
    ];
    let (launched, microseconds) = match empty(device) {
        Ok((note, microseconds)) => (Ok(Some(note)), microseconds),
        Err(error) => (Err(error), None),
    };
    all.push(Checked {
        microseconds,
        ..checked("an empty kernel", launched)
    });
    if device.info().platform == Platform::Cuda {
        all.push(clocks(&device.info().uuid));
    }
    all
}

fn by_whom(device: &mut dyn Device) -> Result<Option<String>, DeviceError> {
    Ok(Some(match device.bulk_by_host()? {
        Some(why) => format!("by the host: {why}"),
        None if device.info().platform == Platform::Cpu => "on several threads".to_owned(),
        None => "by kernels of its own".to_owned(),
    }))
}

fn properties(device: &mut dyn Device) -> Result<Option<String>, DeviceError> {
    let known = device.properties()?;
    Ok(Some(format!(
        "{}: {} multiprocessors of {} threads and {} registers, blocks of {} threads and {} bytes, {} MiB of cache, {:.0} GB/s",
        known.name,
        known.multiprocessors,
        known.max_threads_per_multiprocessor,
        known.registers_per_multiprocessor,
        known.max_threads_per_block,
        known.max_shared_per_block,
        known.l2_bytes >> 20,
        known.memory_bandwidth / 1e9
    )))
}

fn persisting(device: &mut dyn Device) -> Result<Option<String>, DeviceError> {
    device.reset_persisting()?;
    match device.limit(LIMIT_PERSISTING) {
        Ok(0) => Ok(None),
        Ok(left) => Err(DeviceError::Unsupported(format!(
            "{left} bytes of cache may still be reserved"
        ))),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// Notes, and what the fastest launch took on the host's clock.
fn empty(device: &mut dyn Device) -> Result<(String, Option<f64>), DeviceError> {
    let module = device.load(EMPTY.as_bytes(), &[] as &[JitOption], &[])?;
    let kernel = device
        .kernel(module, "empty")?
        .ok_or_else(|| DeviceError::Unsupported("a kernel that is not there".to_owned()))?;
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        attributes: &[],
        blocks: None,
        params: &[],
    };
    let occupancy = device.occupancy(kernel, 32, 0)?;
    let mut own = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        if let Effort::Nanoseconds(time) = device.launch_timed(kernel, &config)? {
            own.push(time / 1e3);
        }
        whole.push(start.elapsed().as_secs_f64() * 1e6);
    }
    device.unload(module)?;
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    let measured = match median(&mut own) {
        Some(time) => format!("{time:.2} µs by the device's clock; "),
        None => String::new(),
    };
    let fitting = match occupancy {
        Some(blocks) => format!("{blocks} blocks of 32 threads fit on a multiprocessor"),
        None => "how many blocks fit is not known".to_owned(),
    };
    Ok((format!("{measured}{fitting}"), median(&mut whole)))
}

fn clocks(uuid: &str) -> Checked {
    let name = "clock of the multiprocessors";
    let Some(nvml) = Nvml::open(uuid) else {
        return Checked {
            note: Some("NVML is not there".to_owned()),
            ..Checked::new(name, Ok(()))
        };
    };
    let start = Instant::now();
    let mut last = None;
    for _ in 0..50 {
        last = nvml.sm_clock();
    }
    let microseconds = start.elapsed().as_secs_f64() * 1e6 / 50.0;
    let state = Instant::now();
    for _ in 0..10 {
        let _ = nvml.state();
    }
    let whole = state.elapsed().as_secs_f64() * 1e6 / 10.0;
    Checked {
        microseconds: Some(microseconds),
        note: Some(match last {
            Some(clock) => format!("{clock} MHz; all of the state takes {whole:.0} µs"),
            None => format!("not told; all of the state takes {whole:.0} µs"),
        }),
        ..Checked::new(name, Ok(()))
    }
}
