//! Addresses, and memory behind them: on the device and on the host.

use std::ffi::c_void;
use std::ptr;

use super::super::table::{
    GRANULARITY_MINIMUM, HOST_REGISTER_DEVICEMAP, MEM_ACCESS_READWRITE, MEM_ALLOCATION_PINNED,
    MEM_LOCATION_DEVICE, MemAccessDesc, MemAllocationProp, MemLocation,
};
use super::Driver;
use crate::device::{AddressRange, DeviceError};

impl Driver {
    /// Reserves addresses at or near a hint (0: anywhere); returns where.
    pub fn reserve(&self, len: u64, alignment: u64, hint: u64) -> Result<u64, DeviceError> {
        let mut address = 0;
        call!(
            self,
            cuMemAddressReserve(&mut address, len as usize, alignment as usize, hint, 0),
            "cuMemAddressReserve of {len} bytes at {hint:#x}"
        )?;
        Ok(address)
    }

    /// Gives reserved addresses back.
    pub fn release(&self, range: AddressRange) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemAddressFree(range.start(), range.len() as usize),
            "cuMemAddressFree of {range}"
        )
    }

    fn properties(device: i32) -> MemAllocationProp {
        MemAllocationProp {
            kind: MEM_ALLOCATION_PINNED,
            requested_handle_types: 0,
            location: MemLocation {
                kind: MEM_LOCATION_DEVICE,
                id: device,
            },
            win32_handle_meta_data: ptr::null_mut(),
            alloc_flags: [0; 8],
        }
    }

    /// Alignment of physical memory.
    pub fn granularity(&self, device: i32) -> Result<u64, DeviceError> {
        let mut granularity = 0usize;
        call!(
            self,
            cuMemGetAllocationGranularity(
                &mut granularity,
                &Self::properties(device),
                GRANULARITY_MINIMUM
            ),
            "cuMemGetAllocationGranularity"
        )?;
        Ok(granularity as u64)
    }

    /// Maps new device memory into reserved addresses.
    pub fn map(&self, device: i32, range: AddressRange) -> Result<(), DeviceError> {
        let len = range.len() as usize;
        let mut memory = 0;
        call!(
            self,
            cuMemCreate(&mut memory, len, &Self::properties(device), 0),
            "cuMemCreate of {len} bytes for {range}"
        )?;
        let mapped = call!(
            self,
            cuMemMap(range.start(), len, 0, memory, 0),
            "cuMemMap at {range}"
        );
        // The mapping keeps the memory alive.
        let released = call!(self, cuMemRelease(memory), "cuMemRelease for {range}");
        mapped?;
        let access = MemAccessDesc {
            location: MemLocation {
                kind: MEM_LOCATION_DEVICE,
                id: device,
            },
            flags: MEM_ACCESS_READWRITE,
        };
        let accessible = call!(
            self,
            cuMemSetAccess(range.start(), len, &access, 1),
            "cuMemSetAccess of {range}"
        );
        if accessible.is_err() {
            let _ = self.unmap(range);
        }
        accessible.and(released)
    }

    /// Takes mapped memory away.
    pub fn unmap(&self, range: AddressRange) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemUnmap(range.start(), range.len() as usize),
            "cuMemUnmap of {range}"
        )
    }

    /// Allocates device memory.
    pub fn allocate(&self, len: u64) -> Result<u64, DeviceError> {
        let mut address = 0;
        call!(
            self,
            cuMemAlloc_v2(&mut address, len as usize),
            "cuMemAlloc of {len} bytes"
        )?;
        Ok(address)
    }

    /// Frees device memory.
    pub fn free(&self, address: u64) -> Result<(), DeviceError> {
        call!(self, cuMemFree_v2(address), "cuMemFree of {address:#x}")
    }

    /// Takes addresses of this process, without memory. `range` is aligned to pages.
    pub fn reserve_host(&self, range: AddressRange) -> Result<(), DeviceError> {
        let wanted = range.start() as *mut c_void;
        // SAFETY: MAP_FIXED_NOREPLACE replaces no existing mapping; the new one is anonymous.
        let got = unsafe {
            libc::mmap(
                wanted,
                range.len() as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE
                    | libc::MAP_ANONYMOUS
                    | libc::MAP_NORESERVE
                    | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if got == libc::MAP_FAILED {
            return Err(DeviceError::AddressTaken {
                wanted: range,
                got: None,
            });
        }
        if got != wanted {
            // A kernel that does not know the flag takes the address as a hint.
            // SAFETY: the mapping was just made, and nothing refers to it.
            unsafe { libc::munmap(got, range.len() as usize) };
            return Err(DeviceError::AddressTaken {
                wanted: range,
                got: Some(got as u64),
            });
        }
        Ok(())
    }

    /// Undoes [`Self::reserve_host`].
    pub fn release_host(&self, range: AddressRange) {
        // SAFETY: a mapping of `reserve_host`, to which nothing in this process refers.
        unsafe { libc::munmap(range.start() as *mut c_void, range.len() as usize) };
    }

    /// Makes reserved host addresses memory, visible to the device at the same address.
    pub fn map_host(&self, range: AddressRange) -> Result<(), DeviceError> {
        let (start, len) = (range.start() as *mut c_void, range.len() as usize);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: changes a mapping of `reserve_host`, to which nothing in this process refers.
        if unsafe { libc::mprotect(start, len, access) } != 0 {
            return Err(DeviceError::Unsupported(format!(
                "no host memory for {range}"
            )));
        }
        call!(
            self,
            cuMemHostRegister_v2(start, len, HOST_REGISTER_DEVICEMAP),
            "cuMemHostRegister of {range}"
        )
        .inspect_err(|_| self.empty_host(range))?;
        let mut seen = 0;
        let result = call!(
            self,
            cuMemHostGetDevicePointer_v2(&mut seen, start, 0),
            "cuMemHostGetDevicePointer of {range}"
        );
        match result {
            Ok(()) if seen == range.start() => Ok(()),
            other => {
                let _ = self.unmap_host(range);
                other.and(Err(DeviceError::Unsupported(format!(
                    "this GPU sees host memory {range} at {seen:#x}"
                ))))
            }
        }
    }

    /// Undoes [`Self::map_host`]; the addresses stay reserved.
    pub fn unmap_host(&self, range: AddressRange) -> Result<(), DeviceError> {
        let start = range.start() as *mut c_void;
        let result = call!(
            self,
            cuMemHostUnregister(start),
            "cuMemHostUnregister of {range}"
        );
        self.empty_host(range);
        result
    }

    fn empty_host(&self, range: AddressRange) {
        let (start, len) = (range.start() as *mut c_void, range.len() as usize);
        // SAFETY: as in `map_host`. Should one fail, the memory merely stays.
        unsafe {
            libc::madvise(start, len, libc::MADV_DONTNEED);
            libc::mprotect(start, len, libc::PROT_NONE);
        }
    }
}

/// Page size of the host.
pub fn page_size() -> u64 {
    // SAFETY: a query without side effects.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096)
}
