//! The kernels on a GPU, through its driver.

use std::sync::Arc;

use super::tables::MOST_BYTES;
use super::{Bulk, Kernel, Machine, PTX, THREADS};
use crate::device::cuda::driver::{Driver, Object};
use crate::device::cuda::staging::Staging;
use crate::device::operations::{JudgeJob, Place, Source};
use crate::device::stream::Stream;
use crate::device::{AddressRange, DeviceError, LaunchConfig};

/// Tables that may be on their way at a time.
const TABLES: usize = 16;

/// Blocks that run at a time on a large GPU: eight on each multiprocessor.
const BLOCKS: u32 = 1024;

/// The module, and the memory that it works with.
pub struct Gpu {
    driver: Arc<Driver>,
    functions: Vec<Object>,
    staging: Staging,
    table: u64,
    scratch: Option<AddressRange>,
}

impl Gpu {
    /// Loads the kernels and tries them on memory whose content is known. The error says why this driver cannot run them.
    pub fn load(driver: Arc<Driver>) -> Result<Bulk<Self>, String> {
        let mut bulk = Self::loaded(driver).map_err(|error| error.to_string())?;
        match bulk.works() {
            Ok(true) => Ok(bulk),
            Ok(false) => Err("R3's own kernels do not do here what they should".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn loaded(driver: Arc<Driver>) -> Result<Bulk<Self>, DeviceError> {
        let text = [PTX.as_bytes(), b"\0"].concat();
        let module = driver.load_module(&text, &[])?;
        let mut functions = Vec::new();
        for kernel in Kernel::ALL {
            let name = kernel.name();
            let function = driver.function(module, name)?;
            functions.push(function.ok_or_else(|| {
                DeviceError::Unsupported(format!("the driver does not find kernel {name}"))
            })?);
        }
        let table = driver.allocate(MOST_BYTES as u64)?;
        let staging = Staging::new(Arc::clone(&driver), MOST_BYTES, TABLES)?;
        let gpu = Self {
            driver,
            functions,
            staging,
            table,
            scratch: None,
        };
        Ok(Bulk::new(gpu, BLOCKS))
    }
}

impl Bulk<Gpu> {
    /// Whether two tiles are written as they should be, and one changed byte is found.
    fn works(&mut self) -> Result<bool, DeviceError> {
        let driver = Arc::clone(&self.machine().driver);
        let len = super::TILE + 40;
        let memory = driver.allocate(len)?;
        let tried = self.works_on(&driver, memory, len);
        driver.free(memory)?;
        tried
    }

    fn works_on(&mut self, driver: &Driver, memory: u64, len: u64) -> Result<bool, DeviceError> {
        let stream = Stream::new(0x0123_4567_89ab_cdef);
        self.place(&[Place::fill(memory, len, stream)])?;
        let mut bytes = vec![0; len as usize];
        driver.read(memory, &mut bytes)?;
        stream.apply(&mut bytes);
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        let job = JudgeJob::exact(Source::memory(memory), Source::stream(stream), len);
        let equal = self.judge(&[job])?;
        let at = len - 1;
        let mut last = [0];
        driver.read(memory + at, &mut last)?;
        driver.write(memory + at, &[!last[0]])?;
        let changed = self.judge(&[job])?;
        Ok(equal.iter().all(|judged| judged.is_equal())
            && changed
                .iter()
                .all(|judged| judged.bytes == 1 && judged.first_out == Some(at / 4 * 4)))
    }
}

impl Machine for Gpu {
    fn upload(&mut self, table: &[u8]) -> Result<u64, DeviceError> {
        let address = self.table;
        self.staging.send(|slot| {
            let Some(part) = slot.get_mut(..table.len()) else {
                return Err(DeviceError::Unsupported(
                    "a table that is too long".to_owned(),
                ));
            };
            part.copy_from_slice(table);
            Ok(vec![(0, table.len(), address)])
        })?;
        Ok(address)
    }

    fn scratch(&mut self, len: u64) -> Result<u64, DeviceError> {
        if let Some(known) = self.scratch {
            if known.len() >= len {
                return Ok(known.start());
            }
            self.scratch = None;
            self.driver.free(known.start())?;
        }
        let len = len.next_power_of_two().max(1 << 20);
        let start = self.driver.allocate(len)?;
        self.scratch = AddressRange::new(start, len);
        Ok(start)
    }

    fn launch(&mut self, kernel: Kernel, blocks: u32, params: &[u64]) -> Result<(), DeviceError> {
        let Some(function) = self.functions.get(kernel as usize) else {
            return Err(DeviceError::Unsupported(format!(
                "no kernel {}",
                kernel.name()
            )));
        };
        let params: Vec<u8> = params.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.driver.launch(
            *function,
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
        self.driver.fill(address, byte, len)
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.driver.read(address, out)
    }
}
