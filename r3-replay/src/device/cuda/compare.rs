//! Comparing on the device: a small kernel of our own, which answers one flag per chunk, so that
//! equal memory never crosses the bus.

use std::sync::Arc;

use super::driver::{Driver, Object};
use crate::device::{AddressRange, COMPARE_CHUNK, CompareRange, DeviceError, LaunchConfig};

const PTX: &str = include_str!("compare.ptx");
const THREADS: u32 = 256;

enum State {
    Unknown,
    Works {
        kernel: Object,
    },
    /// The driver cannot run it: memory is read and compared on the host.
    Absent,
}

/// The kernel, once it was loaded and tried.
pub struct Comparer {
    driver: Arc<Driver>,
    state: State,
    flags: Option<(u64, u64)>,
}

impl Comparer {
    /// Loads nothing yet.
    pub fn new(driver: Arc<Driver>) -> Self {
        Self {
            driver,
            state: State::Unknown,
            flags: None,
        }
    }

    /// One flag per chunk; `None` when this driver cannot run the kernel.
    pub fn compare(&mut self, ranges: &[CompareRange]) -> Result<Option<Vec<bool>>, DeviceError> {
        if matches!(self.state, State::Unknown) {
            self.state = match self.load() {
                Some(kernel) => State::Works { kernel },
                None => State::Absent,
            };
        }
        match self.state {
            State::Works { kernel } => self.run(kernel, ranges).map(Some),
            State::Unknown | State::Absent => Ok(None),
        }
    }

    /// Loads the kernel and tries it on memory whose answer is known.
    fn load(&mut self) -> Option<Object> {
        let text = [PTX.as_bytes(), b"\0"].concat();
        let module = self.driver.load_module(&text, &[]).ok()?;
        let kernel = self.driver.function(module, "compare_chunks").ok()??;
        let len = 2 * COMPARE_CHUNK;
        let memory = self.driver.allocate(len).ok()?;
        let tried = self.try_on(kernel, memory, len);
        let freed = self.driver.free(memory);
        (tried.ok()? && freed.is_ok()).then_some(kernel)
    }

    fn try_on(&mut self, kernel: Object, memory: u64, len: u64) -> Result<bool, DeviceError> {
        if let Some(range) = AddressRange::new(memory, len) {
            self.driver.zero(range)?;
        }
        // The last byte of the second chunk differs.
        self.driver.write(memory + len - 1, &[1])?;
        let zeros = CompareRange {
            actual: memory,
            expected: None,
            len,
        };
        let itself = CompareRange {
            actual: memory,
            expected: Some(memory),
            len,
        };
        let halves = CompareRange {
            actual: memory,
            expected: Some(memory + COMPARE_CHUNK),
            len: COMPARE_CHUNK,
        };
        let answer = self.run(kernel, &[zeros, itself, halves])?;
        Ok(answer == [false, true, false, false, true])
    }

    fn run(&mut self, kernel: Object, ranges: &[CompareRange]) -> Result<Vec<bool>, DeviceError> {
        let total = ranges.iter().map(CompareRange::chunk_count).sum::<u64>();
        if total == 0 {
            return Ok(Vec::new());
        }
        let flags = self.flags(total)?;
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
            let bytes: Vec<u8> = params.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.driver.launch(
                kernel,
                &LaunchConfig {
                    grid: [blocks.unsigned_abs(), 1, 1],
                    block: [THREADS, 1, 1],
                    dynamic_shared: 0,
                    cooperative: false,
                    attributes: &[],
                    params: &bytes,
                    blocks: None,
                },
            )?;
            first += chunks;
        }
        let mut answer = vec![2u8; total as usize];
        self.driver.read(flags, &mut answer)?;
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

    /// Device memory for `count` flags, set to a value that is no answer.
    fn flags(&mut self, count: u64) -> Result<u64, DeviceError> {
        let address = match self.flags {
            Some((address, room)) if room >= count => address,
            old => {
                if let Some((address, _)) = old {
                    self.flags = None;
                    self.driver.free(address)?;
                }
                let room = count.next_power_of_two().max(4096);
                let address = self.driver.allocate(room)?;
                self.flags = Some((address, room));
                address
            }
        };
        self.driver.fill(address, 2, count)?;
        Ok(address)
    }
}
