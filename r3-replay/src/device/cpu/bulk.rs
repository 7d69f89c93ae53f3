//! Operations in bulk: what [`host`] does with a stretch of bytes, on several threads.

use r3_emu::Memory;
use rayon::prelude::*;

use super::failed;
use crate::device::operations::{JudgeJob, Judged, MarkJob, MaskJob, Place};
use crate::device::{AddressRange, DeviceError, host};

/// The memory of the device.
pub struct Bulk<'m>(pub &'m Memory);

/// A stretch of a piece: (offset, length).
type Stretch = (u64, u64);

/// All stretches of all pieces.
fn all<P: Copy>(pieces: &[P], len: impl Fn(&P) -> u64) -> Vec<(usize, P, Stretch)> {
    pieces
        .iter()
        .enumerate()
        .flat_map(|(index, piece)| {
            host::stretches(len(piece)).map(move |stretch| (index, *piece, stretch))
        })
        .collect()
}

impl Bulk<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(address, out).map_err(failed("read"))
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write(address, bytes).map_err(failed("write"))
    }

    /// [`Device::place`](crate::device::Device::place).
    pub fn place(&self, pieces: &[Place]) -> Result<(), DeviceError> {
        all(pieces, |piece| piece.len)
            .into_par_iter()
            .try_for_each(|(_, piece, stretch)| {
                let bytes = host::placed(&piece, stretch, &mut |at, out| self.read(at, out))?;
                self.write(piece.to.wrapping_add(stretch.0), &bytes)
            })
    }

    /// [`Device::judge`](crate::device::Device::judge).
    pub fn judge(&self, jobs: &[JudgeJob]) -> Result<Vec<Judged>, DeviceError> {
        let parts: Vec<(usize, Judged)> = all(jobs, |job| job.len)
            .into_par_iter()
            .map(|(index, job, stretch)| {
                let part = host::judged(&job, stretch, &mut |at, out| self.read(at, out))?;
                Ok((index, part))
            })
            .collect::<Result<_, DeviceError>>()?;
        let mut judged = vec![Judged::default(); jobs.len()];
        for (index, part) in parts {
            if let Some(whole) = judged.get_mut(index) {
                whole.merge(&part);
            }
        }
        Ok(judged)
    }

    /// [`Device::mark_equal`](crate::device::Device::mark_equal).
    pub fn mark_equal(&self, jobs: &[MarkJob]) -> Result<(), DeviceError> {
        all(jobs, |job| job.len)
            .into_par_iter()
            .try_for_each(|(_, job, stretch)| {
                let (at, mask) = host::marked(&job, stretch, &mut |at, out| self.read(at, out))?;
                self.write(at, &mask)
            })
    }

    /// [`Device::change_masks`](crate::device::Device::change_masks).
    pub fn change_masks(&self, jobs: &[MaskJob]) -> Result<(), DeviceError> {
        all(jobs, |job| job.bytes)
            .into_par_iter()
            .try_for_each(|(_, job, stretch)| {
                let (at, mask) = host::masked(&job, stretch, &mut |at, out| self.read(at, out))?;
                self.write(at, &mask)
            })
    }

    /// [`Device::checksums`](crate::device::Device::checksums).
    pub fn checksums(&self, key: u64, ranges: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        self.sums(ranges, |range, stretch| {
            host::summed(key, range, stretch, &mut |at, out| self.read(at, out))
        })
    }

    /// [`Device::count_bits`](crate::device::Device::count_bits).
    pub fn count_bits(&self, masks: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        self.sums(masks, |range, stretch| {
            host::counted(range, stretch, &mut |at, out| self.read(at, out))
        })
    }

    fn sums(
        &self,
        ranges: &[AddressRange],
        of: impl Fn(AddressRange, Stretch) -> Result<u64, DeviceError> + Sync,
    ) -> Result<Vec<u64>, DeviceError> {
        let parts: Vec<(usize, u64)> = all(ranges, |range| range.len())
            .into_par_iter()
            .map(|(index, range, stretch)| Ok((index, of(range, stretch)?)))
            .collect::<Result<_, DeviceError>>()?;
        let mut sums = vec![0u64; ranges.len()];
        for (index, part) in parts {
            if let Some(sum) = sums.get_mut(index) {
                *sum = sum.wrapping_add(part);
            }
        }
        Ok(sums)
    }
}
