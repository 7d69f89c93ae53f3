//! Pinned host memory through which snapshots pass: a few slots, used again and again.
//!
//! A slot is pinned when it is first made, which costs about a millisecond a megabyte; small captures
//! only ever make one or two.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::driver;

/// Size of a slot in bytes: a multiple of the archive's chunk size.
pub const SLOT: usize = 4 << 20;

struct Memory {
    pointer: *mut u8,
    /// [`CONTEXTS_GONE`] when it was pinned; `u64::MAX` when it is not.
    pinned: u64,
}

// SAFETY: plain memory that belongs to whoever holds the slot.
unsafe impl Send for Memory {}
// SAFETY: shared holders only read it.
unsafe impl Sync for Memory {}

struct Ring {
    free: Vec<Memory>,
    made: usize,
}

static RING: Mutex<Ring> = Mutex::new(Ring {
    free: Vec::new(),
    made: 0,
});
static RETURNED: Condvar = Condvar::new();
/// The end of a context unpins what was pinned in it. The memory itself stays.
static CONTEXTS_GONE: AtomicU64 = AtomicU64::new(0);

pub fn context_gone() {
    CONTEXTS_GONE.fetch_add(1, Ordering::Relaxed);
}

/// One slot. Goes back to the ring when dropped.
pub struct Slot {
    memory: Option<Memory>,
    /// Bytes in use, from the start.
    pub used: usize,
}

impl Slot {
    /// A free slot, made if there are fewer than `limit`; `None` when all are in use.
    pub fn take(limit: usize) -> Option<Self> {
        let mut ring = RING.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match ring.free.pop() {
            Some(memory) => memory,
            None if ring.made < limit => {
                let memory = Memory {
                    pointer: map_slot()?,
                    pinned: u64::MAX,
                };
                ring.made += 1;
                memory
            }
            None => return None,
        };
        drop(ring);
        Some(Self {
            memory: Some(pin(memory)),
            used: 0,
        })
    }

    /// As [`take`](Self::take), waiting for a slot to come back until `deadline`.
    pub fn wait(limit: usize, deadline: Instant) -> Option<Self> {
        loop {
            if let Some(slot) = Self::take(limit) {
                return Some(slot);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let ring = RING.lock().unwrap_or_else(PoisonError::into_inner);
            if ring.free.is_empty() {
                let _ = RETURNED.wait_timeout(ring, left);
            }
        }
    }

    /// Start of the slot.
    pub fn pointer(&self) -> *mut u8 {
        self.memory
            .as_ref()
            .map_or(std::ptr::null_mut(), |memory| memory.pointer)
    }
}

impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: mapped for the life of the process, `used` is at most its size, and nothing
            // writes to it once the slot is read.
            Some(memory) => unsafe {
                std::slice::from_raw_parts(memory.pointer, self.used.min(SLOT))
            },
            None => &[],
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            RING.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .free
                .push(memory);
            RETURNED.notify_one();
        }
    }
}

fn map_slot() -> Option<*mut u8> {
    // SAFETY: a fresh private mapping at an address of the kernel's choice.
    let pointer = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            SLOT,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (pointer != libc::MAP_FAILED).then(|| {
        // A forked child has no use for it, and pinned pages must not be copied on write.
        // SAFETY: our own mapping.
        unsafe { libc::madvise(pointer, SLOT, libc::MADV_DONTFORK) };
        pointer.cast()
    })
}

/// Pins the memory unless it is. Copies to unpinned memory work too, only slower.
fn pin(mut memory: Memory) -> Memory {
    let now = CONTEXTS_GONE.load(Ordering::Relaxed);
    if memory.pinned != now {
        // SAFETY: mapped for the life of the process.
        let _ = unsafe { driver::pin(memory.pointer, SLOT) };
        memory.pinned = now;
    }
    memory
}
