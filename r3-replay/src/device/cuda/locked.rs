//! Page-locked host memory that outlives a call: where state goes that does not fit on the device.

use std::sync::Arc;

use super::driver::{Driver, HostMemory};
use crate::device::DeviceError;

/// Page-locked memory, or ordinary memory where the driver has none. Its bytes are only reached by copies of the device,
/// which may still be running: it goes away when they are done.
pub struct LockedMemory {
    driver: Arc<Driver>,
    memory: Option<HostMemory>,
}

impl LockedMemory {
    /// Allocates it.
    pub(super) fn new(driver: Arc<Driver>, len: u64) -> Result<Self, DeviceError> {
        let len = usize::try_from(len)
            .map_err(|_| DeviceError::Unsupported(format!("no {len} bytes of host memory")))?;
        let memory = Some(driver.host_memory(len)?);
        Ok(Self { driver, memory })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, HostMemory::len)
    }

    /// Starts a copy from the device.
    pub(super) fn fetch(
        &mut self,
        address: u64,
        part: std::ops::Range<usize>,
    ) -> Result<(), DeviceError> {
        let Some(memory) = &mut self.memory else {
            return Ok(());
        };
        if !memory.is_locked() {
            let bytes = memory.bytes_mut().get_mut(part).unwrap_or_default();
            return self.driver.read(address, bytes);
        }
        if part.start > part.end || part.end > memory.len() {
            return Err(DeviceError::Unsupported(
                "a copy beyond its host buffer".to_owned(),
            ));
        }
        // SAFETY: the part is inside the memory, which is page-locked, only reached by copies of the same stream, and freed
        // after they are done.
        unsafe {
            self.driver
                .start_read(address, memory.start().add(part.start), part.len())
        }
    }

    /// Starts a copy to the device.
    pub(super) fn send(
        &self,
        part: std::ops::Range<usize>,
        address: u64,
    ) -> Result<(), DeviceError> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let bytes = memory.bytes().get(part).unwrap_or_default();
        if !memory.is_locked() || !self.driver.writes_in_background() {
            return self.driver.write(address, bytes);
        }
        // SAFETY: as above.
        unsafe { self.driver.start_write(address, bytes) }
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        // Copies may still be running. After an error of the context none are, and the memory cannot be given back.
        if self.driver.synchronize().is_ok()
            && let Some(memory) = self.memory.take()
        {
            let _ = self.driver.free_host_memory(memory);
        }
    }
}
