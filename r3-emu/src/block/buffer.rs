//! Zeroed bytes at a fixed place, aligned to a cache line.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all buffers of the process.
static USED: AtomicU64 = AtomicU64::new(0);

/// What all buffers may have: half of what the host, or its container, has. A kernel that asks for more is to be told so,
/// instead of the host's other programs.
fn limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        // SAFETY: asks for two numbers.
        let (pages, page) = unsafe {
            (
                libc::sysconf(libc::_SC_PHYS_PAGES),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        let host = u64::try_from(pages)
            .unwrap_or(0)
            .saturating_mul(u64::try_from(page).unwrap_or(0));
        let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
            .ok()
            .and_then(|text| text.trim().parse().ok());
        let least = [Some(host).filter(|n| *n > 0), container];
        least.into_iter().flatten().min().unwrap_or(16 << 30) / 2
    })
}

/// The host has no memory for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory {
    /// Bytes that were asked for.
    pub wanted: u64,
    /// Bytes that launches have already.
    pub used: u64,
}

/// Zeroed bytes, aligned to 64, that stay where they are. Big ones cost nothing until they are touched. Read and
/// written through raw pointers, because handlers hold several into it.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its bytes; who shares it says who may write.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` zeros.
    pub fn new(len: usize) -> Result<Self, NoMemory> {
        let (wanted, used) = (len as u64, USED.load(Ordering::Relaxed));
        let none = NoMemory { wanted, used };
        if len > isize::MAX as usize - 64 || used.saturating_add(wanted) > limit() {
            return Err(none);
        }
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(none)?;
        USED.fetch_add(wanted, Ordering::Relaxed);
        Ok(Self { start, len })
    }

    /// No bytes.
    pub fn empty() -> Self {
        Self::of(&[])
    }

    /// A copy of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let layout = Self::layout(bytes.len());
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        USED.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        // SAFETY: as long as `bytes`, and new.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        Self {
            start,
            len: bytes.len(),
        }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(64), 64).unwrap_or(Layout::new::<[u64; 8]>())
    }

    /// First byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Makes all bytes zero, unless there are many: then what was there stays.
    pub fn clear_small(&mut self) {
        if self.len <= 1 << 16 {
            self.clear();
        }
    }

    /// Makes all bytes zero.
    pub fn clear(&mut self) {
        // SAFETY: its own bytes.
        unsafe { std::ptr::write_bytes(self.start(), 0, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        USED.fetch_sub(self.len as u64, Ordering::Relaxed);
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}
