//! What a running launch sees of the memory: a snapshot of the mappings, and a cache for each instruction.

use super::region::Region;
use super::window::{GLOBAL_END, Window, window};
use super::{Memory, describe};
use std::sync::Arc;

/// One range of a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Host address of an address in it: the address plus this, wrapping.
    pub delta: u64,
}

impl Span {
    /// Whether `len` bytes from `address` lie in it.
    #[inline(always)]
    pub fn holds(&self, address: u64, len: u64) -> bool {
        let at = address.wrapping_sub(self.start);
        at < self.len && self.len - at >= len
    }

    /// The host address of `address`, which it holds.
    #[inline(always)]
    pub fn host(&self, address: u64) -> *mut u8 {
        address.wrapping_add(self.delta) as *mut u8
    }
}

/// All mappings at one moment, sorted; holds their regions alive.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub(super) version: u64,
    pub(super) spans: Vec<Span>,
    pub(super) _regions: Vec<Arc<Region>>,
}

impl Snapshot {
    /// The span in which `address` lies.
    pub fn find(&self, address: u64) -> Option<&Span> {
        let after = self.spans.partition_point(|s| s.start <= address);
        let span = self.spans.get(after.checked_sub(1)?)?;
        span.holds(address, 1).then_some(span)
    }
}

/// Entries of a view's cache. A kernel's inner loop has fewer memory instructions.
const CACHE: usize = 64;

/// The memory as one worker of a launch uses it: a launch makes one and clones it for its workers. Mappings that are made while the launch runs are found on a miss; those
/// that are taken away stay usable until then: their host memory lives as long as a view knows it.
#[derive(Clone, Debug)]
pub struct View {
    memory: Memory,
    snapshot: Arc<Snapshot>,
    /// Snapshots of before: their regions stay alive while a cached pointer of this worker may point there.
    earlier: Vec<Arc<Snapshot>>,
    cache: [Span; CACHE],
}

impl View {
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            snapshot: memory.snapshot(),
            memory,
            earlier: Vec::new(),
            cache: [Span::default(); CACHE],
        }
    }

    /// The memory it is a view of.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Host address of `len` bytes at `address`, which one mapping must hold. `hint` is any number that the same
    /// instruction passes each time: its index.
    #[inline(always)]
    pub fn locate(&mut self, hint: usize, address: u64, len: u64) -> Option<*mut u8> {
        self.span(hint, address, len).map(|s| s.host(address))
    }

    /// The mapping that holds `len` bytes at `address`.
    #[inline(always)]
    pub fn span(&mut self, hint: usize, address: u64, len: u64) -> Option<Span> {
        let cached = self.cache[hint % CACHE];
        if cached.holds(address, len) {
            return Some(cached);
        }
        self.search(hint, address, len)
    }

    #[cold]
    #[inline(never)]
    fn search(&mut self, hint: usize, address: u64, len: u64) -> Option<Span> {
        if let Some(span) = self
            .snapshot
            .find(address)
            .filter(|s| s.holds(address, len))
        {
            self.cache[hint % CACHE] = *span;
            return Some(*span);
        }
        if !self.refresh() {
            return None;
        }
        let span = *self
            .snapshot
            .find(address)
            .filter(|s| s.holds(address, len))?;
        self.cache[hint % CACHE] = span;
        Some(span)
    }

    /// Takes a newer snapshot, if there is one.
    fn refresh(&mut self) -> bool {
        if self.memory.version() == self.snapshot.version {
            return false;
        }
        let new = self.memory.snapshot();
        let old = std::mem::replace(&mut self.snapshot, new);
        self.earlier.push(old);
        // What stays cached is what the launch saw before; an address that is mapped anew is found by the others.
        true
    }

    /// Reads bytes that may lie in several adjacent mappings. `false` when some are not mapped.
    pub fn read(&mut self, hint: usize, address: u64, out: &mut [u8]) -> bool {
        self.pieces(hint, address, out.len(), |host, at, len| {
            // SAFETY: `pieces` gives host bytes of a live mapping; `out` is the caller's own. See `memory` on races.
            unsafe { std::ptr::copy_nonoverlapping(host, out[at..at + len].as_mut_ptr(), len) }
        })
    }

    /// Writes bytes that may lie in several adjacent mappings. `false` when some are not mapped: nothing is written then.
    pub fn write(&mut self, hint: usize, address: u64, bytes: &[u8]) -> bool {
        self.pieces(hint, address, bytes.len(), |_, _, _| {})
            && self.pieces(hint, address, bytes.len(), |host, at, len| {
                // SAFETY: as in `read`.
                unsafe { std::ptr::copy_nonoverlapping(bytes[at..at + len].as_ptr(), host, len) }
            })
    }

    fn pieces(
        &mut self,
        hint: usize,
        address: u64,
        len: usize,
        mut each: impl FnMut(*mut u8, usize, usize),
    ) -> bool {
        let mut at = 0;
        while at < len {
            let here = address.wrapping_add(at as u64);
            let Some(span) = self.span(hint, here, 1) else {
                return false;
            };
            let left = span.len - (here - span.start);
            let piece = (len - at).min(usize::try_from(left).unwrap_or(usize::MAX));
            each(span.host(here), at, piece);
            at += piece;
        }
        true
    }

    /// What is mapped around `address`, for messages.
    pub fn nearby(&mut self, address: u64) -> Option<String> {
        self.refresh();
        if address >= GLOBAL_END && window(address) != Window::Global {
            return None;
        }
        let spans = &self.snapshot.spans;
        let after = spans.partition_point(|s| s.start <= address);
        let before = after.checked_sub(1).and_then(|i| spans.get(i));
        describe::nearby(address, before, spans.get(after))
    }
}
