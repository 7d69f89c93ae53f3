//! What a real driver may do, and does on request here: a device without room, handles that come back.

use std::sync::{LazyLock, Mutex, MutexGuard};

use crate::handle::Handle;
use crate::process::{lock, setting};

/// `SOFTCUDA_FULL=1`: each kernel fills the device, so that one runs at a time.
pub fn fill_device() -> Option<MutexGuard<'static, ()>> {
    static DEVICE: Mutex<()> = Mutex::new(());
    static FULL: LazyLock<bool> = LazyLock::new(|| setting("FULL").is_some());
    FULL.then(|| lock(&DEVICE))
}

static LEFT: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// `SOFTCUDA_REUSE=1`: the functions of the next module get the handles of the last one that was unloaded.
pub fn leave_handles(handles: impl Iterator<Item = Handle>) {
    if setting("REUSE").is_some() {
        *lock(&LEFT) = handles.collect();
    }
}

/// The handles that are to be given out again.
pub fn left_handles() -> Vec<Handle> {
    std::mem::take(&mut *lock(&LEFT))
}
