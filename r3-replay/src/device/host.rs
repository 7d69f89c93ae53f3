//! Operations in bulk for a device that cannot do better: everything is read, done here, and written.
//!
//! What is done with a stretch of bytes is in functions of its own, which the CPU device uses as well.

use super::operations::{
    HostBuffer, HostBytes, HostCopy, JudgeJob, Judged, MarkJob, MaskChange, MaskJob, Place, Source,
};
use super::stream::checksum;
use super::{AddressRange, Device, DeviceError};
use crate::compare::Tally;

/// Bytes that are looked at in one go. A multiple of 64, so that stretches share no byte of a mask and begin with a
/// whole element.
pub(super) const STRETCH: u64 = 256 << 10;

/// Offset and length of the stretches of `len` bytes.
pub(super) fn stretches(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len.div_ceil(STRETCH)).map(move |index| {
        let offset = index * STRETCH;
        (offset, (len - offset).min(STRETCH))
    })
}

/// Reads memory for the functions below: (address, bytes).
pub(super) type Read<'r> = dyn FnMut(u64, &mut [u8]) -> Result<(), DeviceError> + 'r;

/// The bytes of a source into `out`, all of it.
pub(super) fn produce(
    source: &Source,
    out: &mut [u8],
    read: &mut Read<'_>,
) -> Result<(), DeviceError> {
    match source.memory {
        Some(address) => read(address, out)?,
        None => out.fill(0),
    }
    if let Some(stream) = source.stream {
        stream.apply(out);
    }
    Ok(())
}

/// What a stretch of a piece is to hold; (offset, length) from [`stretches`].
pub(super) fn placed(
    piece: &Place,
    (offset, len): (u64, u64),
    read: &mut Read<'_>,
) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; len as usize];
    let from = match piece.from {
        Some(from) => from,
        None => Source::memory(piece.to),
    };
    produce(&from.after(offset), &mut bytes, read)?;
    if let Some(poison) = piece.poison {
        let mut mask = vec![0; len.div_ceil(8) as usize];
        read(poison.mask.wrapping_add(offset / 8), &mut mask)?;
        let mut stream = vec![0; len as usize];
        poison.stream.after(offset).apply(&mut stream);
        for ((bytes, stream), bits) in bytes.chunks_mut(8).zip(stream.chunks(8)).zip(mask) {
            if bits == 0xff {
                bytes.copy_from_slice(stream);
                continue;
            }
            for (bit, (byte, poison)) in bytes.iter_mut().zip(stream).enumerate() {
                if bits >> bit & 1 == 1 {
                    *byte = *poison;
                }
            }
        }
    }
    Ok(bytes)
}

/// What is different in a stretch of a job.
pub(super) fn judged(
    job: &JudgeJob,
    (offset, len): (u64, u64),
    read: &mut Read<'_>,
) -> Result<Judged, DeviceError> {
    let mut actual = vec![0; len as usize];
    produce(&job.actual.after(offset), &mut actual, read)?;
    let mut expected = vec![0; len as usize];
    produce(&job.expected.after(offset), &mut expected, read)?;
    if actual == expected {
        return Ok(Judged::default());
    }
    let mut tally = Tally::default();
    tally.add(offset, &expected, &actual, job.element, &job.tolerance);
    Ok(Judged::from(&tally))
}

/// The part of a mask that belongs to a stretch of a job, and where it goes.
pub(super) fn marked(
    job: &MarkJob,
    (offset, len): (u64, u64),
    read: &mut Read<'_>,
) -> Result<(u64, Vec<u8>), DeviceError> {
    let mut a = vec![0; len as usize];
    produce(&job.a.after(offset), &mut a, read)?;
    let mut b = vec![0; len as usize];
    produce(&job.b.after(offset), &mut b, read)?;
    let address = job.mask.wrapping_add(offset / 8);
    let mut mask = vec![0; len.div_ceil(8) as usize];
    if !matches!(job.change, MaskChange::Set | MaskChange::Not) {
        read(address, &mut mask)?;
    }
    for ((mask, a), b) in mask.iter_mut().zip(a.chunks(8)).zip(b.chunks(8)) {
        let inside = u8::MAX >> (8 - a.len().min(8));
        let equal = if a == b {
            inside
        } else {
            a.iter()
                .zip(b)
                .enumerate()
                .fold(0, |bits, (bit, (a, b))| bits | u8::from(a == b) << bit)
        };
        *mask = job.change.of(*mask, equal) & inside;
    }
    Ok((address, mask))
}

/// The part of a mask that a stretch of a job changes, and where it goes.
pub(super) fn masked(
    job: &MaskJob,
    (offset, len): (u64, u64),
    read: &mut Read<'_>,
) -> Result<(u64, Vec<u8>), DeviceError> {
    let address = job.mask.wrapping_add(offset);
    let mut mask = vec![0; len as usize];
    read(address, &mut mask)?;
    let mut bits = vec![0; len as usize];
    read(job.bits.wrapping_add(offset), &mut bits)?;
    for (mask, bits) in mask.iter_mut().zip(bits) {
        *mask = job.change.of(*mask, bits);
    }
    Ok((address, mask))
}

/// The checksum of a stretch of a range.
pub(super) fn summed(
    key: u64,
    range: AddressRange,
    (offset, len): (u64, u64),
    read: &mut Read<'_>,
) -> Result<u64, DeviceError> {
    let mut bytes = vec![0; len as usize];
    read(range.start().wrapping_add(offset), &mut bytes)?;
    Ok(checksum(key, offset, &bytes))
}

/// The bits that are set in a stretch of a range.
pub(super) fn counted(
    range: AddressRange,
    (offset, len): (u64, u64),
    read: &mut Read<'_>,
) -> Result<u64, DeviceError> {
    let mut bytes = vec![0; len as usize];
    read(range.start().wrapping_add(offset), &mut bytes)?;
    Ok(bytes.iter().map(|byte| u64::from(byte.count_ones())).sum())
}

/// [`Device::place`] by reading and writing.
pub fn place<D: Device + ?Sized>(device: &mut D, pieces: &[Place]) -> Result<(), DeviceError> {
    for piece in pieces {
        for stretch in stretches(piece.len) {
            let bytes = placed(piece, stretch, &mut |address, out| {
                device.read(address, out)
            })?;
            device.write(piece.to.wrapping_add(stretch.0), &bytes)?;
        }
    }
    Ok(())
}

/// [`Device::judge`] by reading.
pub fn judge<D: Device + ?Sized>(
    device: &mut D,
    jobs: &[JudgeJob],
) -> Result<Vec<Judged>, DeviceError> {
    jobs.iter()
        .map(|job| {
            let mut whole = Judged::default();
            for stretch in stretches(job.len) {
                let part = judged(job, stretch, &mut |address, out| device.read(address, out))?;
                whole.merge(&part);
            }
            Ok(whole)
        })
        .collect()
}

/// [`Device::mark_equal`] by reading and writing.
pub fn mark_equal<D: Device + ?Sized>(device: &mut D, jobs: &[MarkJob]) -> Result<(), DeviceError> {
    for job in jobs {
        for stretch in stretches(job.len) {
            let (address, mask) =
                marked(job, stretch, &mut |address, out| device.read(address, out))?;
            device.write(address, &mask)?;
        }
    }
    Ok(())
}

/// [`Device::change_masks`] by reading and writing.
pub fn change_masks<D: Device + ?Sized>(
    device: &mut D,
    jobs: &[MaskJob],
) -> Result<(), DeviceError> {
    for job in jobs {
        for stretch in stretches(job.bytes) {
            let (address, mask) =
                masked(job, stretch, &mut |address, out| device.read(address, out))?;
            device.write(address, &mask)?;
        }
    }
    Ok(())
}

/// [`Device::checksums`] by reading.
pub fn checksums<D: Device + ?Sized>(
    device: &mut D,
    key: u64,
    ranges: &[AddressRange],
) -> Result<Vec<u64>, DeviceError> {
    sums(ranges, |range, stretch| {
        summed(key, range, stretch, &mut |address, out| {
            device.read(address, out)
        })
    })
}

/// [`Device::count_bits`] by reading.
pub fn count_bits<D: Device + ?Sized>(
    device: &mut D,
    masks: &[AddressRange],
) -> Result<Vec<u64>, DeviceError> {
    sums(masks, |range, stretch| {
        counted(range, stretch, &mut |address, out| {
            device.read(address, out)
        })
    })
}

fn sums(
    ranges: &[AddressRange],
    mut of: impl FnMut(AddressRange, (u64, u64)) -> Result<u64, DeviceError>,
) -> Result<Vec<u64>, DeviceError> {
    ranges
        .iter()
        .map(|range| {
            stretches(range.len()).try_fold(0u64, |sum, stretch| {
                Ok(sum.wrapping_add(of(*range, stretch)?))
            })
        })
        .collect()
}

/// [`Device::copy_out`] by reading.
pub fn copy_out<D: Device + ?Sized>(
    device: &mut D,
    copies: &[HostCopy],
    to: &mut HostBuffer,
) -> Result<(), DeviceError> {
    let HostBytes::Ordinary(bytes) = &mut to.0 else {
        return Err(elsewhere());
    };
    for copy in copies {
        let part = bytes_of(copy, bytes.len() as u64)?;
        device.read(copy.device, bytes.get_mut(part).unwrap_or_default())?;
    }
    Ok(())
}

/// [`Device::copy_in`] by writing.
pub fn copy_in<D: Device + ?Sized>(
    device: &mut D,
    from: &HostBuffer,
    copies: &[HostCopy],
) -> Result<(), DeviceError> {
    let HostBytes::Ordinary(bytes) = &from.0 else {
        return Err(elsewhere());
    };
    for copy in copies {
        let part = bytes_of(copy, bytes.len() as u64)?;
        device.write(copy.device, bytes.get(part).unwrap_or_default())?;
    }
    Ok(())
}

fn elsewhere() -> DeviceError {
    DeviceError::Unsupported("a host buffer of another device".to_owned())
}

/// The part of a host buffer of `len` bytes that a copy is about.
pub(super) fn bytes_of(copy: &HostCopy, len: u64) -> Result<std::ops::Range<usize>, DeviceError> {
    match copy.offset.checked_add(copy.len) {
        Some(end) if end <= len => Ok(copy.offset as usize..end as usize),
        _ => Err(DeviceError::Unsupported(format!(
            "a copy of {} bytes at offset {} of a host buffer of {len}",
            copy.len, copy.offset
        ))),
    }
}
