//! Comparing after only some blocks of a grid ran.
//!
//! What the other blocks would have written is not there, so that not every byte can be as recorded. An element that
//! is still what it was before the launch was not written, or was written with the same bits: it is not judged. One
//! that changed was written by a block that ran, and must be as recorded. That holds as long as no other block
//! would have written there later, which [`Device::meeting`](crate::device::Device::meeting) tells.

use std::collections::BTreeSet;

use super::{BufferResult, Replayer, Restored};
use crate::compare::{ElementType, Tally};
use crate::error::ReplayError;

/// What a sample of blocks showed.
#[derive(Clone, Debug, Default)]
pub struct SampleResult {
    /// Buffers in which something that the sample wrote is not as recorded.
    pub buffers: Vec<BufferResult>,
    /// Bytes that the sample changed.
    pub written: u64,
    /// Bytes that the recorded launch changed and the sample did not.
    pub untouched: u64,
}

impl Replayer<'_> {
    /// Compares what the blocks that ran changed with what was recorded after the launch.
    pub fn compare_sample(
        &mut self,
        restored: &Restored<'_>,
        judge: &mut super::Judge<'_>,
    ) -> Result<SampleResult, ReplayError> {
        let mut chunks: BTreeSet<(usize, u64)> = self
            .differences(restored)?
            .iter()
            .map(|difference| (difference.buffer, difference.chunk))
            .collect();
        for (index, buffer) in restored.buffers.iter().enumerate() {
            if buffer.target.is_some() {
                chunks.extend(buffer.region.changes.iter().map(|c| (index, c.chunk)));
            }
        }
        let mut result = SampleResult::default();
        for (index, chunk) in chunks {
            let Some(buffer) = restored.buffers.get(index) else {
                continue;
            };
            let (offset, _) = buffer.region.chunk(chunk);
            let before = self.recorded_before(restored, index, chunk)?;
            let mut expected = self.recorded(restored, index, chunk)?;
            let mut actual = vec![0; expected.len()];
            self.read(restored, buffer, offset, &mut actual)?;
            let (element, tolerance) = judge.of(self, restored, index)?;
            for (b, (e, a)) in before.iter().zip(expected.iter().zip(&actual)) {
                result.written += u64::from(b != a);
                result.untouched += u64::from(b == a && b != e);
            }
            // Where the type is not known, a word may be of several elements, of several blocks.
            let size = match element {
                ElementType::Bits => 1,
                element => element.size(),
            };
            let parts = before.chunks(size).zip(actual.chunks(size));
            for ((before, actual), expected) in parts.zip(expected.chunks_mut(size)) {
                if before == actual {
                    expected.copy_from_slice(actual);
                }
            }
            if expected == actual {
                continue;
            }
            if result
                .buffers
                .last()
                .is_none_or(|last| last.buffer != index)
            {
                result.buffers.push(BufferResult {
                    buffer: index,
                    element,
                    tolerance,
                    chunks: 0,
                    examined: 0,
                    tally: Tally::default(),
                });
            }
            if let Some(found) = result.buffers.last_mut() {
                found.chunks += 1;
                found.examined += 1;
                found
                    .tally
                    .add(offset, &expected, &actual, element, &tolerance);
            }
        }
        Ok(result)
    }
}
