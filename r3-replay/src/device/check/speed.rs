//! How fast large operations are, and how long small ones take.

use std::time::Instant;

use super::Checked;
use crate::compare::{ElementType, Tolerance};
use crate::device::operations::{HostCopy, JudgeJob, MarkJob, MaskChange, Place, Source};
use crate::device::stream::Stream;
use crate::device::{AddressRange, CompareRange, Device, DeviceError};

/// Times a large operation is repeated.
const REPEATS: u32 = 10;
/// Times a small one is.
const MANY: u32 = 100;

/// Time of one of several, in seconds.
fn timed(
    device: &mut dyn Device,
    repeats: u32,
    mut what: impl FnMut(&mut dyn Device) -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    what(device)?;
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..repeats {
        what(device)?;
    }
    device.synchronize()?;
    Ok(start.elapsed().as_secs_f64() / f64::from(repeats))
}

/// Takes the times, on buffers of so many bytes.
pub fn all(device: &mut dyn Device, bytes: u64) -> Result<Vec<Checked>, DeviceError> {
    let mut all = Vec::new();
    let bytes = bytes.next_multiple_of(4096);
    let [a, b] = [device.allocate(bytes)?, device.allocate(bytes)?];
    let mask = device.allocate(bytes / 8)?;
    let stream = Stream::new(1);
    device.place(&[Place::fill(a, bytes, Stream::new(2))])?;
    device.place(&[Place::seal(a, b, bytes, stream)])?;
    let sealed = Source::sealed(b, stream);
    let exact = JudgeJob::exact(Source::memory(a), sealed, bytes);
    let traffic = |times: f64| times * bytes as f64;
    let mut large =
        |name, moved: f64, what: &mut dyn FnMut(&mut dyn Device) -> Result<(), DeviceError>| {
            let result = timed(device, REPEATS, what);
            let mut checked = Checked::new(
                name,
                result.as_ref().map(|_| ()).map_err(ToString::to_string),
            );
            checked.gigabytes_per_second = result.ok().map(|seconds| moved / seconds / 1e9);
            all.push(checked);
        };
    large("large: judge, equal", traffic(2.0), &mut |device| {
        device.judge(&[exact]).map(|_| ())
    });
    large("large: checksum", traffic(1.0), &mut |device| {
        device.checksums(1, &ranges(a, bytes)).map(|_| ())
    });
    large("large: compare", traffic(2.0), &mut |device| {
        let range = CompareRange {
            actual: a,
            expected: Some(a),
            len: bytes,
        };
        device.compare(&[range]).map(|_| ())
    });
    large("large: mark_equal", traffic(2.125), &mut |device| {
        device.mark_equal(&[MarkJob {
            a: Source::memory(a),
            b: sealed,
            len: bytes,
            mask,
            change: MaskChange::Set,
        }])
    });
    large("large: count_bits", traffic(0.125), &mut |device| {
        device.count_bits(&ranges(mask, bytes / 8)).map(|_| ())
    });
    large("large: copy", traffic(2.0), &mut |device| {
        device.copy(a, b, bytes)
    });
    large("large: fill", traffic(1.0), &mut |device| {
        device.place(&[Place::fill(a, bytes, stream)])
    });
    large("large: poison", traffic(1.125), &mut |device| {
        device.place(&[Place::poison(a, bytes, mask, stream)])
    });
    large("large: unseal", traffic(2.0), &mut |device| {
        device.place(&[Place::seal(b, a, bytes, stream)])
    });
    large("large: unseal, poison all", traffic(1.125), &mut |device| {
        device.place(&[Place::seal(b, a, bytes, stream).but(mask, Stream::new(3))])
    });
    let pieces: Vec<Place> = (0..bytes / 4096)
        .step_by(2)
        .take(1000)
        .map(|index| Place::seal(b + 4096 * index, a + 4096 * index, 4096, stream))
        .collect();
    let moved = 2.0 * 4096.0 * pieces.len() as f64;
    large(
        "large: unseal, 1000 pieces of 4 KiB",
        moved,
        &mut |device| device.place(&pieces),
    );
    let differing = JudgeJob {
        actual: Source::memory(a),
        expected: Source::stream(Stream::new(4)),
        len: bytes,
        element: ElementType::F32,
        tolerance: Tolerance {
            relative: 1e-3,
            ..Tolerance::EXACT
        },
    };
    large("large: judge, all differ", traffic(1.0), &mut |device| {
        device.judge(&[differing]).map(|_| ())
    });
    let mut spill = device.host_buffer(bytes)?;
    let copies = [HostCopy {
        device: a,
        offset: 0,
        len: bytes,
    }];
    let before = device.checksums(1, &ranges(a, bytes))?;
    let mut out = |device: &mut dyn Device| device.copy_out(&copies, &mut spill);
    let seconds = timed(device, 2, &mut out)?;
    all.push(Checked {
        gigabytes_per_second: Some(traffic(1.0) / seconds / 1e9),
        ..Checked::new("copy_out", Ok(()))
    });
    device.place(&[Place::fill(a, bytes, stream)])?;
    let seconds = timed(device, 2, |device| device.copy_in(&spill, &copies))?;
    let same = device.checksums(1, &ranges(a, bytes))? == before;
    all.push(Checked {
        gigabytes_per_second: Some(traffic(1.0) / seconds / 1e9),
        ..Checked::new(
            "copy_in",
            same.then_some(())
                .ok_or_else(|| "other bytes came back".to_owned()),
        )
    });
    let mut small = |name, what: &mut dyn FnMut(&mut dyn Device) -> Result<(), DeviceError>| {
        let result = timed(device, MANY, |device| {
            what(device)?;
            device.synchronize()
        });
        let mut checked = Checked::new(
            name,
            result.as_ref().map(|_| ()).map_err(ToString::to_string),
        );
        checked.microseconds = result.ok().map(|seconds| seconds * 1e6);
        all.push(checked);
    };
    small("small: place", &mut |device| {
        device.place(&[Place::seal(b, a, 4096, stream)])
    });
    small("small: judge", &mut |device| {
        device.judge(&[JudgeJob { len: 4096, ..exact }]).map(|_| ())
    });
    small("small: checksum", &mut |device| {
        device.checksums(1, &ranges(a, 4096)).map(|_| ())
    });
    small("flush_cache", &mut |device| device.flush_cache());
    small("small: reset_persisting", &mut |device| {
        device.reset_persisting()
    });
    small("small: restore, poison, guard, judge", &mut |device| {
        let part = bytes / 2;
        device.place(&[
            Place::seal(b, a, 4096, stream).but(mask, Stream::new(5)),
            Place::fill(a + part, 4096.min(part), stream),
        ])?;
        let guard = JudgeJob::exact(
            Source::memory(a + part),
            Source::stream(stream),
            4096.min(part),
        );
        device.judge(&[exact, guard].map(|job| JudgeJob {
            len: job.len.min(2048),
            ..job
        }))?;
        device.checksums(1, &ranges(b, 4096)).map(|_| ())
    });
    for buffer in [a, b, mask] {
        device.free(buffer)?;
    }
    Ok(all)
}

fn ranges(start: u64, len: u64) -> Vec<AddressRange> {
    AddressRange::new(start, len).into_iter().collect()
}
