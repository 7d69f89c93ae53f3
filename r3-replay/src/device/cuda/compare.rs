//! Comparing on the device: one flag for each chunk, so that equal memory never crosses the bus.

use super::bulk::{Bulk, Kernel, Machine};
use crate::device::{COMPARE_CHUNK, CompareRange, DeviceError};

/// What no comparison answers.
const NO_ANSWER: u8 = 2;

impl<M: Machine> Bulk<M> {
    /// [`Device::compare`](crate::device::Device::compare).
    pub fn compare(&mut self, ranges: &[CompareRange]) -> Result<Vec<bool>, DeviceError> {
        let total = ranges.iter().map(CompareRange::chunk_count).sum::<u64>();
        if total == 0 {
            return Ok(Vec::new());
        }
        let machine = self.machine();
        let flags = machine.scratch(total)?;
        machine.fill(flags, NO_ANSWER, total)?;
        let mut first = 0;
        for range in ranges {
            let chunks = range.chunk_count();
            if chunks == 0 {
                continue;
            }
            let blocks = i32::try_from(chunks).map_err(|_| {
                DeviceError::Unsupported(format!("{} bytes in one comparison", range.len))
            })?;
            let params = [
                range.actual,
                range.expected.unwrap_or(0),
                range.len,
                COMPARE_CHUNK,
                flags + first,
            ];
            machine.launch(Kernel::CompareChunks, blocks.unsigned_abs(), &params)?;
            first += chunks;
        }
        let mut answer = vec![NO_ANSWER; total as usize];
        machine.read(flags, &mut answer)?;
        answer
            .into_iter()
            .map(|flag| match flag {
                0 => Ok(false),
                1 => Ok(true),
                other => Err(DeviceError::Unsupported(format!(
                    "the comparison on the device answered {other}"
                ))),
            })
            .collect()
    }
}
