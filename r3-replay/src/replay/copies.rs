//! A second copy of what a launch changes, on the device, so that the launch can be repeated fast.

use super::comparison::placed;
use super::{Replayer, Restored};
use crate::error::ReplayError;
use crate::restore::contents::{self, Source};

/// A copy of buffers on the device: where it is, where it belongs, how long it is.
#[derive(Debug)]
pub struct Golden {
    copies: Vec<(u64, u64, u64)>,
}

impl Replayer<'_> {
    /// Copies, on the device, all buffers that the recorded launch changed. To be taken right after
    /// [`Self::restore`].
    pub fn keep_copy(&mut self, restored: &Restored<'_>) -> Result<Golden, ReplayError> {
        self.attempt(restored.launch, |this| {
            let mut golden = Golden { copies: Vec::new() };
            for buffer in restored
                .buffers
                .iter()
                .filter(|b| !b.region.changes.is_empty())
            {
                let Some(target) = buffer.target else {
                    continue;
                };
                let len = buffer.region.range.len();
                let copied = this.device.allocate(len).and_then(|copy| {
                    golden.copies.push((copy, target, len));
                    this.device.copy(target, copy, len)
                });
                if let Err(error) = copied {
                    for (copy, _, _) in golden.copies {
                        let _ = this.device.free(copy);
                    }
                    return Err(error.into());
                }
            }
            this.device.synchronize()?;
            Ok(golden)
        })
    }

    /// Puts the copied buffers back.
    pub fn put_back(
        &mut self,
        restored: &Restored<'_>,
        golden: &Golden,
    ) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| {
            this.known.clear();
            for (copy, target, len) in &golden.copies {
                this.device.copy(*copy, *target, *len)?;
            }
            Ok(this.device.synchronize()?)
        })
    }

    /// Puts all memory of a restored launch back, from the archive.
    pub fn put_back_from_archive(&mut self, restored: &Restored<'_>) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| {
            this.known.clear();
            let source = Source {
                archive: this.archive,
                translation: &restored.translation,
            };
            contents::restore(this.device, source, &placed(&restored.buffers), &[])?;
            Ok(this.device.synchronize()?)
        })
    }

    /// Frees a copy.
    pub fn drop_copy(
        &mut self,
        restored: &Restored<'_>,
        golden: Golden,
    ) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| {
            for (copy, _, _) in golden.copies {
                this.device.free(copy)?;
            }
            Ok(())
        })
    }
}
