//! Zeroed bytes at a fixed place, aligned to a cache line.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

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
    pub fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self { start, len }
    }

    /// A copy of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let buffer = Self::new(bytes.len());
        // SAFETY: as long as `bytes`, and new.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.start(), bytes.len()) };
        buffer
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
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}
