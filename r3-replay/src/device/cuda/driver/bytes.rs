//! Moving bytes.

use std::ptr;

use super::Driver;
use crate::device::{AddressRange, DeviceError};

/// Host memory from [`Driver::host_memory`]. Not freed by itself.
pub struct HostMemory {
    start: *mut u8,
    len: usize,
    locked: bool,
}

// SAFETY: the memory is owned.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// Whether it is page-locked.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Driver {
    /// Writes device memory, and waits until `bytes` may be reused.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()),
            "writing {} bytes at {address:#x} (cuMemcpyHtoD)",
            bytes.len()
        )
    }

    /// Reads device memory.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), address, out.len()),
            "reading {} bytes at {address:#x} (cuMemcpyDtoH)",
            out.len()
        )
    }

    /// Copies device memory.
    pub fn copy(&self, from: u64, to: u64, len: u64) -> Result<(), DeviceError> {
        if self.entry.cuMemcpyDtoDAsync_v2.is_some() {
            return call!(
                self,
                cuMemcpyDtoDAsync_v2(to, from, len as usize, ptr::null_mut()),
                "copying {len} bytes from {from:#x} to {to:#x} (cuMemcpyDtoDAsync)"
            );
        }
        call!(
            self,
            cuMemcpyDtoD_v2(to, from, len as usize),
            "copying {len} bytes from {from:#x} to {to:#x} (cuMemcpyDtoD)"
        )
    }

    /// Fills device memory with zeros.
    pub fn zero(&self, range: AddressRange) -> Result<(), DeviceError> {
        self.fill(range.start(), 0, range.len())
    }

    /// Fills device memory with a byte.
    pub fn fill(&self, address: u64, byte: u8, len: u64) -> Result<(), DeviceError> {
        let bytes = len as usize;
        if self.entry.cuMemsetD8Async.is_some() {
            return call!(
                self,
                cuMemsetD8Async(address, byte, bytes, ptr::null_mut()),
                "filling {len} bytes at {address:#x} (cuMemsetD8Async)"
            );
        }
        call!(
            self,
            cuMemsetD8_v2(address, byte, bytes),
            "filling {len} bytes at {address:#x} (cuMemsetD8)"
        )
    }

    /// Allocates host memory, page-locked when the driver can, filled with zeros.
    pub fn host_memory(&self, len: usize) -> Result<HostMemory, DeviceError> {
        let len = len.max(1);
        let mut start = ptr::null_mut();
        let locked = call!(
            self,
            cuMemAllocHost_v2(&mut start, len),
            "cuMemAllocHost of {len} bytes"
        )
        .is_ok();
        if !locked {
            // SAFETY: the size is not zero.
            start = unsafe { libc::calloc(len, 1) };
        }
        if start.is_null() {
            return Err(DeviceError::Unsupported(format!(
                "no {len} bytes of host memory"
            )));
        }
        if locked {
            // SAFETY: `len` bytes were allocated; the driver does not promise zeros.
            unsafe { start.cast::<u8>().write_bytes(0, len) };
        }
        Ok(HostMemory {
            start: start.cast(),
            len,
            locked,
        })
    }

    /// Frees host memory.
    pub fn free_host_memory(&self, memory: HostMemory) -> Result<(), DeviceError> {
        if memory.locked {
            return call!(self, cuMemFreeHost(memory.start.cast()), "cuMemFreeHost");
        }
        // SAFETY: allocated by `calloc` and not used any more, since `memory` is consumed.
        unsafe { libc::free(memory.start.cast()) };
        Ok(())
    }

    /// Starts a write to device memory from page-locked memory.
    ///
    /// # Safety
    /// `bytes` are page-locked, and neither change nor go away before the copy is done.
    pub unsafe fn start_write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), ptr::null_mut()),
            "writing {} bytes at {address:#x} (cuMemcpyHtoDAsync)",
            bytes.len()
        )
    }

    /// Starts a read of device memory into page-locked memory; waits for it where the driver cannot do better.
    ///
    /// # Safety
    /// `to` points to `len` bytes of page-locked memory that stay, and that nobody looks at before the copy is done.
    pub unsafe fn start_read(
        &self,
        address: u64,
        to: *mut u8,
        len: usize,
    ) -> Result<(), DeviceError> {
        if self.entry.cuMemcpyDtoHAsync_v2.is_some() {
            return call!(
                self,
                cuMemcpyDtoHAsync_v2(to.cast(), address, len, ptr::null_mut()),
                "reading {len} bytes at {address:#x} (cuMemcpyDtoHAsync)"
            );
        }
        call!(
            self,
            cuMemcpyDtoH_v2(to.cast(), address, len),
            "reading {len} bytes at {address:#x} (cuMemcpyDtoH)"
        )
    }

    /// Whether [`Self::start_write`] can work.
    pub fn writes_in_background(&self) -> bool {
        self.entry.cuMemcpyHtoDAsync_v2.is_some()
            && self.entry.cuEventRecord.is_some()
            && self.entry.cuEventSynchronize.is_some()
    }
}
