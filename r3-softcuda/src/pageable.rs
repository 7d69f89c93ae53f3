//! `SOFTCUDA_PAGEABLE=1`: kernels reach all memory of the process, as on systems whose devices share the host's page tables.
//! One kernel runs at a time then, over the memory that the process has when it begins.

use std::sync::{LazyLock, Mutex, MutexGuard};

use r3_emu::Memory;

use crate::process::{lock, setting};

/// Whether it is so.
pub fn enabled() -> bool {
    static ENABLED: LazyLock<bool> = LazyLock::new(|| setting("PAGEABLE").is_some());
    *ENABLED
}

/// The process's memory, seen by kernels until this is dropped.
pub struct Opened<'m> {
    memory: &'m Memory,
    ranges: Vec<(u64, u64)>,
    _alone: MutexGuard<'static, ()>,
}

/// Lets kernels see the process's memory.
pub fn open(memory: &Memory) -> Option<Opened<'_>> {
    static ALONE: Mutex<()> = Mutex::new(());
    if !enabled() {
        return None;
    }
    let alone = lock(&ALONE);
    let mut ranges = Vec::new();
    for (start, end) in writable() {
        // What the driver knows is mapped already: what lies between is left.
        let mut at = start;
        while at < end {
            let next = crate::space::find(at).map(|known| known.end());
            if let Some(next) = next {
                at = next;
                continue;
            }
            let until = crate::space::within(at, end - at)
                .first()
                .map_or(end, |known| known.base);
            // SAFETY: memory of this process; that it stays while a kernel uses it is the program's matter.
            if unsafe { memory.map_host(at, until - at, at as *mut u8) }.is_ok() {
                ranges.push((at, until - at));
            }
            at = until;
        }
    }
    Some(Opened {
        memory,
        ranges,
        _alone: alone,
    })
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        for (start, len) in self.ranges.drain(..) {
            let _ = self.memory.unmap(start, len);
        }
    }
}

/// Ranges that the process can read and write.
fn writable() -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let range = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        rest.starts_with("rw").then_some((hex(start)?, hex(end)?))
    };
    text.lines().filter_map(range).collect()
}
