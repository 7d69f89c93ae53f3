//! Random cases: the same is done by the host and by the device, and memory and answers compared.

use super::{CheckOptions, Checked};
use crate::compare::{ElementType, Tolerance};
use crate::device::operations::{JudgeJob, MarkJob, MaskChange, MaskJob, Place, Poison, Source};
use crate::device::stream::{STEP, Stream, mix};
use crate::device::{AddressRange, CompareRange, Device, DeviceError, compare_by_reading, host};

/// Bytes of the buffers.
const ROOM: u64 = 200 << 10;
/// Buffers.
const BUFFERS: usize = 6;

/// Tries each operation on some cases.
pub fn all(device: &mut dyn Device, options: CheckOptions) -> Result<Vec<Checked>, DeviceError> {
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
            let element = random.pick(&ElementType::ALL).unwrap_or_default();
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
