//! The kernels, run by the CPU device, against what [`host`] does with the same memory.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Bulk, Kernel, Machine, PTX, THREADS, TILE};
use crate::compare::{ElementType, Tolerance};
use crate::device::cpu::{CpuDevice, CpuOptions};
use crate::device::{
    AddressRange, CompareRange, Device, DeviceError, JudgeJob, KernelHandle, LaunchConfig, MarkJob,
    MaskChange, MaskJob, Place, Poison, Source, Stream, host,
};

/// The kernels on the CPU device.
struct Emulated {
    device: CpuDevice,
    kernels: HashMap<Kernel, KernelHandle>,
    table: AddressRange,
    scratch: AddressRange,
}

/// Bytes of each of the buffers that operations work on.
const ROOM: u64 = 3 * TILE;

/// The kernels, and some buffers with `content`, which differs from buffer to buffer.
fn emulated(buffers: usize, content: u64) -> (Bulk<Emulated>, Vec<u64>) {
    let mut device = CpuDevice::new(
        CpuOptions {
            threads: 1,
            ..CpuOptions::default()
        },
        Box::new(|_| ()),
    );
    let module = device.load(PTX.as_bytes(), &[], &[]).unwrap();
    let kernels = Kernel::ALL
        .into_iter()
        .map(|kernel| {
            let handle = device.kernel(module, kernel.name()).unwrap().unwrap();
            (kernel, handle)
        })
        .collect();
    let mut range = |len| AddressRange::new(device.allocate(len).unwrap(), len).unwrap();
    let table = range(1 << 20);
    let scratch = range(1 << 20);
    let buffers: Vec<u64> = (0..buffers).map(|_| range(ROOM).start()).collect();
    for (index, buffer) in buffers.iter().enumerate() {
        let mut bytes = vec![0; ROOM as usize];
        Stream::new(content.wrapping_add(index as u64)).apply(&mut bytes);
        device.write(*buffer, &bytes).unwrap();
    }
    let machine = Emulated {
        device,
        kernels,
        table,
        scratch,
    };
    (Bulk::new(machine, 2), buffers)
}

impl Machine for Emulated {
    fn upload(&mut self, table: &[u8]) -> Result<u64, DeviceError> {
        self.device.write(self.table.start(), table)?;
        Ok(self.table.start())
    }

    fn scratch(&mut self, len: u64) -> Result<u64, DeviceError> {
        assert!(len <= self.scratch.len());
        // Nothing may depend on what is there.
        self.device
            .write(self.scratch.start(), &vec![0x5a; len as usize])?;
        Ok(self.scratch.start())
    }

    fn launch(&mut self, kernel: Kernel, blocks: u32, params: &[u64]) -> Result<(), DeviceError> {
        let params: Vec<u8> = params.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.device.launch(
            self.kernels[&kernel],
            &LaunchConfig {
                grid: [blocks, 1, 1],
                block: [THREADS, 1, 1],
                dynamic_shared: 0,
                cooperative: false,
                attributes: &[],
                blocks: None,
                params: &params,
            },
        )
    }

    fn fill(&mut self, address: u64, byte: u8, len: u64) -> Result<(), DeviceError> {
        self.device.write(address, &vec![byte; len as usize])
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(address, out)
    }
}

impl Bulk<Emulated> {
    fn device(&mut self) -> &mut CpuDevice {
        &mut self.machine().device
    }

    fn contents(&mut self, buffers: &[u64]) -> Vec<Vec<u8>> {
        buffers
            .iter()
            .map(|buffer| {
                let mut bytes = vec![0; ROOM as usize];
                self.device().read(*buffer, &mut bytes).unwrap();
                bytes
            })
            .collect()
    }

    /// Does something by the kernels and by the host, from the same memory, and compares memory and answers.
    fn both<R: PartialEq + std::fmt::Debug>(
        &mut self,
        buffers: &[u64],
        kernels: impl FnOnce(&mut Self) -> Result<R, DeviceError>,
        host: impl FnOnce(&mut CpuDevice) -> Result<R, DeviceError>,
    ) -> R {
        let before = self.contents(buffers);
        let expected = host(self.device()).unwrap();
        let left = self.contents(buffers);
        for (buffer, bytes) in buffers.iter().zip(&before) {
            self.device().write(*buffer, bytes).unwrap();
        }
        let answer = kernels(self).unwrap();
        assert_eq!(answer, expected);
        for (index, (ours, theirs)) in self.contents(buffers).iter().zip(&left).enumerate() {
            let differs = ours.iter().zip(theirs).position(|(a, b)| a != b);
            assert_eq!(differs, None, "buffer {index}");
        }
        answer
    }
}

#[test]
fn no_key_is_left_on_the_device_once_memory_is_in_place() {
    let (mut bulk, buffers) = emulated(2, 3);
    let sealed = Source::sealed(buffers[1], Stream::new(0x0123_4567_89ab_cdef));
    let job = JudgeJob::exact(Source::memory(buffers[0]), sealed, 64);
    // A long table, and then a short one that does not cover it.
    bulk.judge(&[job; 40]).unwrap();
    let poison = Place::fill(buffers[0], 64, Stream::new(0xfedc_ba98_7654_3210));
    for places in [&[poison][..], &[]] {
        bulk.judge(&[job; 40]).unwrap();
        bulk.place(places).unwrap();
        let table = bulk.machine().table;
        let mut left = vec![0; table.len() as usize];
        bulk.device().read(table.start(), &mut left).unwrap();
        assert!(left.iter().all(|byte| *byte == 0));
    }
}

/// Lengths up to two and a half tiles, with those around the ends of tiles and vectors more often.
fn len() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..70,
        (0u64..40).prop_map(|more| TILE - 20 + more),
        (0u64..40).prop_map(|more| 2 * TILE - 20 + more),
        0u64..2 * TILE + TILE / 2,
    ]
}

/// Where things begin: aligned most often, by a part of it, or not at all.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0u64), 1 => Just(16), 1 => Just(8), 1 => Just(4), 1 => Just(2), 1 => 1u64..40]
}

fn stream() -> impl Strategy<Value = Stream> {
    (any::<u64>(), start(), any::<bool>()).prop_map(|(key, offset, inverted)| Stream {
        key,
        offset,
        inverted,
    })
}

/// Memory of a buffer, and how it is read.
fn source() -> impl Strategy<Value = (bool, u64, Option<Stream>)> {
    (
        prop::bool::weighted(0.8),
        start(),
        prop::option::of(stream()),
    )
}

fn of(buffer: u64, (memory, start, stream): (bool, u64, Option<Stream>)) -> Source {
    Source {
        memory: memory.then_some(buffer + start),
        stream,
    }
}

fn change() -> impl Strategy<Value = MaskChange> {
    prop::sample::select(vec![
        MaskChange::Set,
        MaskChange::Not,
        MaskChange::And,
        MaskChange::AndNot,
        MaskChange::Or,
    ])
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 48,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn placing(
        content: u64,
        pieces in prop::collection::vec(
            (
                start(), len(), prop::option::of(source()),
                prop::option::of((start(), stream(), 0u8..3)),
            ),
            1..4,
        ),
    ) {
        let (mut bulk, buffers) = emulated(9, content);
        let mut list = Vec::new();
        for (index, (start, len, from, poison)) in pieces.into_iter().enumerate() {
            let [to, memory, mask] = [buffers[3 * index], buffers[3 * index + 1], buffers[3 * index + 2]];
            if let Some((at, _, kind)) = poison && kind < 2 {
                // Masks are mostly all or nothing.
                let bits = vec![if kind == 0 { 0 } else { 0xff }; (len / 8) as usize / 2];
                bulk.device().write(mask + at, &bits).unwrap();
            }
            list.push(Place {
                to: to + start,
                len,
                from: from.map(|from| of(memory, from)),
                poison: poison.map(|(at, stream, _)| Poison { mask: mask + at, stream }),
            });
        }
        bulk.both(&buffers, |bulk| bulk.place(&list), |device| host::place(device, &list));
    }

    #[test]
    fn marking(
        content: u64, a in source(), b in source(), len in len(), mask in start(), change in change(),
        same in prop::bool::weighted(0.7),
    ) {
        let (mut bulk, buffers) = emulated(3, content);
        let (a, b) = (of(buffers[0], a), of(buffers[1], b));
        if same {
            // The same bytes on both sides, but for one of every few.
            let mut bytes = vec![0; len as usize];
            host::produce(&a, &mut bytes, &mut |address, out| bulk.device().read(address, out)).unwrap();
            bytes.iter_mut().step_by(7).for_each(|byte| *byte ^= 0x10);
            if let Some(stream) = b.stream {
                stream.apply(&mut bytes);
            }
            if let Some(address) = b.memory {
                bulk.device().write(address, &bytes).unwrap();
            }
        }
        let jobs = [MarkJob { a, b, len, mask: buffers[2] + mask, change }];
        bulk.both(&buffers, |bulk| bulk.mark_equal(&jobs), |device| host::mark_equal(device, &jobs));
    }

    #[test]
    fn changing_masks(content: u64, mask in start(), bits in start(), bytes in len(), change in change()) {
        let (mut bulk, buffers) = emulated(2, content);
        let jobs = [MaskJob { mask: buffers[0] + mask, bits: buffers[1] + bits, bytes, change }];
        bulk.both(&buffers, |bulk| bulk.change_masks(&jobs), |device| host::change_masks(device, &jobs));
    }

    #[test]
    fn summing(content: u64, key: u64, ranges in prop::collection::vec((start(), 1u64..2 * TILE), 0..4)) {
        let (mut bulk, buffers) = emulated(4, content);
        let ranges: Vec<AddressRange> = ranges
            .into_iter()
            .zip(&buffers)
            .map(|((start, len), buffer)| AddressRange::new(buffer + start, len).unwrap())
            .collect();
        bulk.both(
            &buffers,
            |bulk| bulk.checksums(key, &ranges),
            |device| host::checksums(device, key, &ranges),
        );
        bulk.both(&buffers, |bulk| bulk.count_bits(&ranges), |device| host::count_bits(device, &ranges));
    }

    #[test]
    fn comparing(content: u64, start in start(), len in len(), zeros: bool, changed in prop::option::of(any::<prop::sample::Index>())) {
        let (mut bulk, buffers) = emulated(2, content);
        let mut bytes = vec![0; len as usize];
        if !zeros {
            bulk.device().read(buffers[0] + start, &mut bytes).unwrap();
        }
        if let Some(at) = changed && len > 0 {
            bytes[at.index(len as usize)] ^= 1;
        }
        bulk.device().write(buffers[1] + start, &bytes).unwrap();
        let ranges = [CompareRange {
            actual: buffers[1] + start,
            expected: (!zeros).then_some(buffers[0] + start),
            len,
        }];
        bulk.both(
            &buffers,
            |bulk| bulk.compare(&ranges),
            |device| crate::device::compare_by_reading(device, &ranges),
        );
    }
}

/// Bits of an element of `size` bytes, among which those of numbers that are special in some format.
fn element_bits(size: usize) -> impl Strategy<Value = u64> {
    let special: Vec<u64> = match size {
        1 => vec![0, 0x7f, 0x80, 0xff, 1],
        // Zeros, subnormals, one, largest, infinities, NaNs of half precision and of bfloat16.
        2 => vec![
            0, 0x8000, 1, 0x8001, 0x3c00, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x3f80, 0x7f7f,
            0x7f80, 0xff80, 0x7fc0, 0x03ff, 0x0400, 0x7fff, 0xffff,
        ],
        4 => vec![
            0,
            0x8000_0000,
            1,
            0x8000_0001,
            0x3f80_0000,
            0x7f7f_ffff,
            0xff7f_ffff,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0xffc0_0001,
            0x007f_ffff,
            0x0080_0000,
            0x7fff_ffff,
            0xffff_ffff,
        ],
        _ => vec![
            0,
            1 << 63,
            1,
            1 << 63 | 1,
            0x3ff0_0000_0000_0000,
            0x7fef_ffff_ffff_ffff,
            0xffef_ffff_ffff_ffff,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            0xfff8_0000_0000_0001,
            0x000f_ffff_ffff_ffff,
            0x0010_0000_0000_0000,
            u64::MAX,
            i64::MAX as u64,
        ],
    };
    prop_oneof![prop::sample::select(special), any::<u64>()]
}

/// An element, and what became of it.
fn element_pair(size: usize) -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        element_bits(size).prop_map(|bits| (bits, bits)),
        (element_bits(size), -3i64..4).prop_map(|(bits, by)| (bits, bits.wrapping_add_signed(by))),
        (element_bits(size), element_bits(size)),
        (element_bits(size), 0u32..64).prop_map(|(bits, bit)| (bits, bits ^ 1 << bit)),
    ]
}

fn tolerance() -> impl Strategy<Value = Tolerance> {
    let part = || {
        prop_oneof![
            Just(0.0),
            Just(1e-3),
            0f64..2.0,
            Just(f64::MAX),
            Just(f64::MIN_POSITIVE),
            Just(1e300)
        ]
    };
    prop_oneof![
        1 => Just(Tolerance::EXACT),
        4 => (part(), part(), prop::option::of(prop_oneof![0u64..5, Just(u64::MAX)]))
            .prop_map(|(absolute, relative, ulp)| Tolerance { absolute, relative, ulp }),
    ]
}

/// A type, pairs of its elements, and bytes behind them that are no whole element.
fn elements() -> impl Strategy<Value = (ElementType, Vec<(u64, u64)>, usize)> {
    prop::sample::select(ElementType::ALL.to_vec()).prop_flat_map(|element| {
        let size = element.size();
        (
            Just(element),
            prop::collection::vec(element_pair(size), 1..80),
            0..size,
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn judging(
        jobs in prop::collection::vec(
            (elements(), tolerance(), start(), start(), prop::option::of(stream()), prop::option::of(stream()), 0u64..3),
            1..4,
        ),
    ) {
        let (mut bulk, buffers) = emulated(6, 1);
        let mut list = Vec::new();
        for (index, job) in jobs.into_iter().enumerate() {
            let ((element, pairs, tail), tolerance, actual_at, expected_at, actual_stream, expected_stream, far) = job;
            let size = element.size();
            let mut expected = Vec::new();
            let mut actual = Vec::new();
            // Some way into the buffer, so that there are tiles which are equal, and elements near the ends of tiles.
            let before = (far * (TILE - 8 * 5)) as usize;
            for side in [&mut expected, &mut actual] {
                side.resize(before, 7);
            }
            for (e, a) in &pairs {
                expected.extend(&e.to_le_bytes()[..size]);
                actual.extend(&a.to_le_bytes()[..size]);
            }
            expected.extend(&[1, 2, 3, 4, 5, 6, 7][..tail]);
            actual.extend(&[1, 2, 3, 9, 5, 6, 7][..tail]);
            let len = actual.len() as u64;
            let mut put = |buffer: u64, at: u64, mut bytes: Vec<u8>, stream: Option<Stream>| {
                if let Some(stream) = stream {
                    stream.apply(&mut bytes);
                }
                bulk.device().write(buffer + at, &bytes).unwrap();
                Source { memory: Some(buffer + at), stream }
            };
            list.push(JudgeJob {
                actual: put(buffers[2 * index], actual_at, actual, actual_stream),
                expected: put(buffers[2 * index + 1], expected_at, expected, expected_stream),
                len,
                element,
                tolerance,
            });
        }
        bulk.both(&buffers, |bulk| bulk.judge(&list), |device| host::judge(device, &list));
    }
}

#[test]
fn guards_are_checked_against_their_stream_and_the_first_change_is_told() {
    let (mut bulk, buffers) = emulated(2, 5);
    let stream = Stream::new(99).after(12_345);
    let guards: Vec<Place> = buffers
        .iter()
        .map(|buffer| Place::fill(buffer + 3, 2 * TILE, stream))
        .collect();
    bulk.place(&guards).unwrap();
    let jobs: Vec<JudgeJob> = buffers
        .iter()
        .map(|buffer| JudgeJob::exact(Source::memory(buffer + 3), Source::stream(stream), 2 * TILE))
        .collect();
    assert!(bulk.judge(&jobs).unwrap().iter().all(|j| j.is_equal()));
    let at = buffers[1] + 3 + TILE + 1002;
    let mut byte = [0];
    bulk.device().read(at, &mut byte).unwrap();
    bulk.device().write(at, &[byte[0] ^ 0x80]).unwrap();
    let judged = bulk.judge(&jobs).unwrap();
    assert!(judged[0].is_equal());
    assert_eq!(
        (judged[1].bytes, judged[1].first_out),
        (1, Some(TILE + 1000)),
        "the 32-bit word in which it is"
    );
}

#[test]
fn many_small_pieces_are_found_in_their_table() {
    let (mut bulk, buffers) = emulated(2, 6);
    // More than a table holds, among them empty ones.
    let pieces: Vec<Place> = (0..1500u64)
        .map(|index| {
            Place::seal(
                buffers[0] + 24 * index,
                buffers[1] + 24 * index,
                index % 23,
                Stream::new(index),
            )
        })
        .collect();
    bulk.both(
        &buffers,
        |bulk| bulk.place(&pieces),
        |device| host::place(device, &pieces),
    );
}

#[test]
fn the_kernels_are_made_of_their_source() {
    // Other versions of LLVM write other text.
    let is_there = |program: &str| {
        std::process::Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(" 22.1.8"))
    };
    if !is_there("clang-22") || !is_there("llc-22") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("kernels.ptx");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/device/cuda/bulk/make.sh");
    let status = std::process::Command::new(script)
        .arg(&made)
        .status()
        .unwrap();
    assert!(status.success());
    assert!(
        std::fs::read_to_string(made).unwrap() == PTX,
        "kernels.ptx is not what make.sh makes of kernels.cpp"
    );
}
