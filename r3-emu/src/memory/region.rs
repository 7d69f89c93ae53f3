//! Host bytes behind a mapping, alive as long as a mapping or a running launch uses them.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Below this, memory comes from the allocator: a process may have only some 65,000 kernel mappings.
const SMALL: usize = 64 << 10;
/// A small region starts at the same offset in such a unit as its device address.
const SMALL_ALIGN: usize = 256;

/// Host bytes. The same address modulo 256 as the device's, so that an aligned device address is an aligned host address.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// From the allocator.
    Allocated(Layout),
    /// From `mmap`, of so many bytes.
    Mapped(usize),
    /// The caller's.
    Borrowed,
}

// SAFETY: a region is an address and a size; its bytes are only touched through raw pointers, by many threads at once as
// device memory is (see `memory`). Freeing happens once, in `drop`, when nobody holds it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// `len` zero bytes (not 0) for device address `address`, and the host address of the first. Large ones are backed when
    /// they are touched.
    pub fn new(address: u64, len: u64) -> Result<(Self, NonNull<u8>), String> {
        let len = usize::try_from(len).map_err(|_| "more than the host can address".to_owned())?;
        if len < SMALL {
            let lead = address as usize % SMALL_ALIGN;
            let layout = Layout::from_size_align(lead + len.max(1), SMALL_ALIGN)
                .map_err(|e| e.to_string())?;
            // SAFETY: the layout has at least one byte.
            let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
                .ok_or("the host is out of memory")?;
            // SAFETY: `lead` is within the allocation.
            let first = unsafe { base.add(lead) };
            let kind = Kind::Allocated(layout);
            return Ok((Self { base, kind }, first));
        }
        let page = 4096;
        let lead = address as usize % page;
        let total = lead
            .checked_add(len)
            .and_then(|n| n.checked_next_multiple_of(page))
            .ok_or("more than the host can address")?;
        // SAFETY: a new anonymous mapping at an address of the system's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                total,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(format!("mmap: {}", std::io::Error::last_os_error()));
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or("mmap gave address 0")?;
        // SAFETY: `lead` is within the mapping.
        let first = unsafe { base.add(lead) };
        let kind = Kind::Mapped(total);
        Ok((Self { base, kind }, first))
    }

    /// The caller's bytes.
    pub fn borrowed(base: NonNull<u8>) -> Self {
        let kind = Kind::Borrowed;
        Self { base, kind }
    }

    /// Whether the bytes are this crate's.
    pub fn owned(&self) -> bool {
        !matches!(self.kind, Kind::Borrowed)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.kind {
            // SAFETY: allocated with this layout in `new`, freed once.
            Kind::Allocated(layout) => unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) },
            Kind::Mapped(total) => {
                // SAFETY: mapped with this size in `new`, unmapped once.
                unsafe { libc::munmap(self.base.as_ptr().cast(), total) };
            }
            Kind::Borrowed => {}
        }
    }
}
