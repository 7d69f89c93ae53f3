//! A device against the host: each operation in bulk on memory of any content, and how fast it is.
//!
//! What the host does by reading and writing is the definition. An operation that does anything else would let wrong
//! candidates pass or refuse right ones, so a new kind of GPU is best tried with this before results on it are believed.

mod cases;
mod others;
mod speed;

use serde::Serialize;

use super::{Device, DeviceError};

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// Its name.
    pub name: &'static str,
    /// Whether it did what the host does.
    pub ok: bool,
    /// Bytes that it read and wrote, by the time that it took.
    pub gigabytes_per_second: Option<f64>,
    /// What a small one took, from its start to its end.
    pub microseconds: Option<f64>,
    /// What went wrong, or what else is to be known.
    pub note: Option<String>,
}

impl Checked {
    fn new(name: &'static str, result: Result<(), String>) -> Self {
        Self {
            name,
            ok: result.is_ok(),
            gigabytes_per_second: None,
            microseconds: None,
            note: result.err(),
        }
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Random cases of each operation.
    pub cases: u32,
    /// Bytes of the buffers on which times are taken.
    pub bytes: u64,
    /// Where random numbers begin.
    pub seed: u64,
}

/// Tries all operations.
pub fn check(device: &mut dyn Device, options: CheckOptions) -> Result<Vec<Checked>, DeviceError> {
    let mut all = cases::all(device, options)?;
    all.extend(speed::all(device, options.bytes)?);
    all.extend(others::all(device));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::{CpuDevice, CpuOptions};

    #[test]
    fn the_cpu_device_does_what_the_host_does() {
        let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
        let options = CheckOptions {
            cases: 8,
            bytes: 100_000,
            seed: 1,
        };
        let checked = check(&mut device, options).unwrap();
        let wrong: Vec<&Checked> = checked.iter().filter(|checked| !checked.ok).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
