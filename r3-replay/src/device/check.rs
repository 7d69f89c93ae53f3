//! A device against the host: each operation in bulk on memory of any content, and how fast it is.
//!
//! What the host does by reading and writing is the definition. An operation that does anything else would let wrong
//! candidates pass or refuse right ones, so a new kind of GPU is best tried with this before results on it are believed.

use std::time::Instant;

use serde::Serialize;

use super::operations::{HostCopy, JudgeJob, MarkJob, MaskChange, MaskJob, Place, Poison, Source};
use super::stream::{STEP, Stream, mix};
use super::{AddressRange, CompareRange, Device, DeviceError, JitOption, LaunchConfig, Platform};
use super::{compare_by_reading, host};
use crate::compare::{ElementType, Tolerance};
use crate::nvml::Nvml;

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

/// Bytes of the buffers of random cases.
const ROOM: u64 = 200 << 10;
/// Buffers of random cases.
const BUFFERS: usize = 6;
/// Times an operation is repeated for its speed.
const REPEATS: u32 = 10;

/// Tries all operations.
pub fn check(device: &mut dyn Device, options: CheckOptions) -> Result<Vec<Checked>, DeviceError> {
    let mut buffers = Vec::new();
    for _ in 0..BUFFERS {
        buffers.push(device.allocate(ROOM)?);
    }
    let mut cases = Cases {
        random: Random(options.seed),
        buffers,
    };
    let mut all = Vec::new();
    for (name, case) in CASES {
        let mut result = Ok(());
        for number in 0..options.cases {
            if result.is_ok() {
                result = match case(&mut cases, device) {
                    Ok(result) => result.map_err(|what| format!("case {number}: {what}")),
                    Err(error) => Err(error.to_string()),
                };
            }
        }
        all.push(Checked::new(name, result));
    }
    for buffer in cases.buffers {
        device.free(buffer)?;
    }
    speeds(device, options.bytes, &mut all)?;
    all.extend(others(device));
    Ok(all)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.word() % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = self.below(from.len() as u64) as usize;
        from.get(index).copied()
    }

    /// Aligned most often.
    fn start(&mut self) -> u64 {
        match self.below(8) {
            0..4 => 0,
            4 => 16,
            5 => 8,
            _ => self.below(48),
        }
    }

    fn len(&mut self) -> u64 {
        match self.below(3) {
            0 => self.below(100),
            1 => (16 << 10) * (1 + self.below(4)) + self.below(48) - 24,
            _ => self.below(ROOM / 2),
        }
    }

    fn stream(&mut self) -> Stream {
        Stream {
            key: self.word(),
            offset: self.start() + (self.below(4) << 33),
            inverted: self.one_in(2),
        }
    }

    fn source(&mut self, buffer: u64) -> Source {
        Source {
            memory: (!self.one_in(5)).then(|| buffer + self.start()),
            stream: self.one_in(2).then(|| self.stream()),
        }
    }

    fn change(&mut self) -> MaskChange {
        match self.below(5) {
            0 => MaskChange::Set,
            1 => MaskChange::Not,
            2 => MaskChange::And,
            3 => MaskChange::AndNot,
            _ => MaskChange::Or,
        }
    }
}

struct Cases {
    random: Random,
    buffers: Vec<u64>,
}

/// What differed, when something did.
type Difference = Result<(), String>;
type Case = fn(&mut Cases, &mut dyn Device) -> Result<Difference, DeviceError>;

const CASES: [(&str, Case); 7] = [
    ("place", Cases::place),
    ("judge", Cases::judge),
    ("mark_equal", Cases::mark_equal),
    ("change_masks", Cases::change_masks),
    ("checksums", Cases::checksums),
    ("count_bits", Cases::count_bits),
    ("compare", Cases::compare),
];

impl Cases {
    fn buffer(&self, index: usize) -> u64 {
        self.buffers.get(index).copied().unwrap_or(0)
    }

    /// Fresh content everywhere.
    fn renew(&mut self, device: &mut dyn Device) -> Result<Vec<Vec<u8>>, DeviceError> {
        let mut contents = Vec::new();
        for buffer in &self.buffers {
            let mut bytes = vec![0; ROOM as usize];
            Stream::new(self.random.word()).apply(&mut bytes);
            device.write(*buffer, &bytes)?;
            contents.push(bytes);
        }
        Ok(contents)
    }

    fn contents(&self, device: &mut dyn Device) -> Result<Vec<Vec<u8>>, DeviceError> {
        self.buffers
            .iter()
            .map(|buffer| {
                let mut bytes = vec![0; ROOM as usize];
                device.read(*buffer, &mut bytes)?;
                Ok(bytes)
            })
            .collect()
    }

    /// Does something by the host and by the device, from the same memory.
    fn both<R: PartialEq + std::fmt::Debug>(
        &self,
        device: &mut dyn Device,
        by_host: impl FnOnce(&mut dyn Device) -> Result<R, DeviceError>,
        by_device: impl FnOnce(&mut dyn Device) -> Result<R, DeviceError>,
    ) -> Result<Difference, DeviceError> {
        let before = self.contents(device)?;
        let expected = by_host(device)?;
        let left = self.contents(device)?;
        for (buffer, bytes) in self.buffers.iter().zip(&before) {
            device.write(*buffer, bytes)?;
        }
        let answer = by_device(device)?;
        if answer != expected {
            return Ok(Err(format!("answered {answer:?} in place of {expected:?}")));
        }
        for (index, (ours, theirs)) in self.contents(device)?.iter().zip(&left).enumerate() {
            if let Some(at) = ours.iter().zip(theirs).position(|(a, b)| a != b) {
                return Ok(Err(format!("byte {at} of buffer {index} is another one")));
            }
        }
        Ok(Ok(()))
    }

    fn place(&mut self, device: &mut dyn Device) -> Result<Difference, DeviceError> {
        self.renew(device)?;
        let mut pieces = Vec::new();
        for index in [0, 3] {
            let [to, memory, mask] = [index, index + 1, index + 2].map(|index| self.buffer(index));
            let random = &mut self.random;
            let poison = random.one_in(2).then(|| Poison {
                mask: mask + random.start(),
                stream: random.stream(),
            });
            if random.one_in(2) {
                // Masks are mostly all or nothing.
                let bits = vec![if random.one_in(2) { 0xff } else { 0 }; 8000];
                device.write(mask, &bits)?;
            }
            pieces.push(Place {
                to: to + random.start(),
                len: random.len(),
                from: (!random.one_in(3)).then(|| random.source(memory)),
                poison,
            });
        }
        self.both(
            device,
            |device| host::place(device, &pieces),
            |device| device.place(&pieces),
        )
    }

    fn judge(&mut self, device: &mut dyn Device) -> Result<Difference, DeviceError> {
        self.renew(device)?;
        let mut jobs = Vec::new();
        for index in [0, 2, 4] {
            let [a, b] = [self.buffer(index), self.buffer(index + 1)];
            let random = &mut self.random;
            let (actual, expected) = (
                Source::memory(a + random.start()),
                Source::sealed(b + random.start(), random.stream()),
            );
            let element = random.pick(&ELEMENTS).unwrap_or_default();
            let len = random.len();
            let mut bytes = vec![0; len as usize];
            host::produce(&actual, &mut bytes, &mut |at, out| device.read(at, out))?;
            let kind = random.below(3);
            for word in bytes.chunks_mut(element.size()) {
                // All a little off, few far off, or special numbers among equal ones.
                let change = match kind {
                    0 => random.below(4),
                    1 if random.one_in(500) => random.word(),
                    2 if random.one_in(100) => {
                        if let Some(special) = random.pick(&SPECIAL) {
                            let bytes = special.to_be_bytes();
                            word.copy_from_slice(bytes.get(..word.len()).unwrap_or_default());
                            word.reverse();
                        }
                        0
                    }
                    _ => 0,
                };
                for (byte, by) in word.iter_mut().zip(change.to_le_bytes()) {
                    *byte ^= by;
                }
            }
            if let Some(stream) = expected.stream {
                stream.apply(&mut bytes);
            }
            device.write(expected.memory.unwrap_or(b), &bytes)?;
            let part = |random: &mut Random| {
                random
                    .pick(&[0.0, 1e-6, 1e-2, 1e3, f64::MAX])
                    .unwrap_or(0.0)
            };
            jobs.push(JudgeJob {
                actual,
                expected,
                len,
                element,
                tolerance: match random.below(3) {
                    0 => Tolerance::EXACT,
                    _ => Tolerance {
                        absolute: part(random),
                        relative: part(random),
                        ulp: random.one_in(2).then(|| random.below(5)),
                    },
                },
            });
        }
        self.both(
            device,
            |device| host::judge(device, &jobs),
            |device| device.judge(&jobs),
        )
    }

    fn mark_equal(&mut self, device: &mut dyn Device) -> Result<Difference, DeviceError> {
        let contents = self.renew(device)?;
        let [a, b, mask] = [0, 1, 2].map(|index| self.buffer(index));
        let random = &mut self.random;
        if random.one_in(2)
            && let Some(bytes) = contents.first()
        {
            // The same on both sides, but for some bytes.
            let mut bytes = bytes.clone();
            bytes.iter_mut().step_by(13).for_each(|byte| *byte ^= 4);
            device.write(b, &bytes)?;
        }
        let jobs = [MarkJob {
            a: random.source(a),
            b: random.source(b),
            len: random.len(),
            mask: mask + random.start(),
            change: random.change(),
        }];
        self.both(
            device,
            |device| host::mark_equal(device, &jobs),
            |device| device.mark_equal(&jobs),
        )
    }

    fn change_masks(&mut self, device: &mut dyn Device) -> Result<Difference, DeviceError> {
        self.renew(device)?;
        let jobs = [MaskJob {
            mask: self.buffer(0) + self.random.start(),
            bits: self.buffer(1) + self.random.start(),
            bytes: self.random.len(),
            change: self.random.change(),
        }];
        self.both(
            device,
            |device| host::change_masks(device, &jobs),
            |device| device.change_masks(&jobs),
        )
    }

    fn ranges(&mut self) -> Vec<AddressRange> {
        let random = &mut self.random;
        self.buffers
            .iter()
            .filter_map(|buffer| AddressRange::new(buffer + random.start(), random.len()))
            .collect()
    }

    fn checksums(&mut self, device: &mut dyn Device) -> Result<Difference, DeviceError> {
        self.renew(device)?;
        let (ranges, key) = (self.ranges(), self.random.word());
        self.both(
            device,
            |device| host::checksums(device, key, &ranges),
            |device| device.checksums(key, &ranges),
        )
    }

    fn count_bits(&mut self, device: &mut dyn Device) -> Result<Difference, DeviceError> {
        self.renew(device)?;
        let ranges = self.ranges();
        self.both(
            device,
            |device| host::count_bits(device, &ranges),
            |device| device.count_bits(&ranges),
        )
    }

    fn compare(&mut self, device: &mut dyn Device) -> Result<Difference, DeviceError> {
        let contents = self.renew(device)?;
        let [a, b] = [self.buffer(0), self.buffer(1)];
        let random = &mut self.random;
        let (start, len) = (random.start(), random.len());
        if let Some(bytes) = contents.first() {
            let mut bytes = bytes.clone();
            let at = random.below(ROOM) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            device.write(b, &bytes)?;
        }
        let ranges = [Some(b + start), None].map(|expected| CompareRange {
            actual: a + start,
            expected,
            len,
        });
        self.both(
            device,
            |device| compare_by_reading(device, &ranges),
            |device| device.compare(&ranges),
        )
    }
}

const ELEMENTS: [ElementType; 13] = [
    ElementType::Bits,
    ElementType::U8,
    ElementType::U16,
    ElementType::U32,
    ElementType::U64,
    ElementType::I8,
    ElementType::I16,
    ElementType::I32,
    ElementType::I64,
    ElementType::F16,
    ElementType::BF16,
    ElementType::F32,
    ElementType::F64,
];

/// Bits whose upper parts are infinities, NaNs, zeros, subnormals and largest numbers of the formats.
const SPECIAL: [u64; 14] = [
    0,
    1 << 63,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0001,
    0x7f80_0000_0000_0000,
    0xff80_0000_0000_0000,
    0x7fc0_0000_0000_0000,
    0x7c00_0000_0000_0000,
    0xfc00_0000_0000_0000,
    0x7e00_0000_0000_0000,
    0x000f_ffff_ffff_ffff,
    0x0080_0000_0000_0000,
    0x7f7f_ffff_ffff_ffff,
];

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

/// Adds how fast large operations are, and how long small ones take.
fn speeds(device: &mut dyn Device, bytes: u64, all: &mut Vec<Checked>) -> Result<(), DeviceError> {
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
        let result = timed(device, 100, |device| {
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
    Ok(())
}

fn ranges(start: u64, len: u64) -> Vec<AddressRange> {
    AddressRange::new(start, len).into_iter().collect()
}

/// A kernel that does nothing.
const EMPTY: &str =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty()\n{\n    ret;\n}\n";
/// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`.
const LIMIT_PERSISTING: u32 = 6;

/// What is no operation on memory.
fn others(device: &mut dyn Device) -> Vec<Checked> {
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
        if let super::Effort::Nanoseconds(time) = device.launch_timed(kernel, &config)? {
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
