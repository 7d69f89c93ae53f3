//! What belongs to a thread of the program's, and lasts as long as the driver can be called from it.
//!
//! The main thread calls the driver from handlers at exit, when its thread-local values with a destructor are gone
//! already. So the values here have none; those of other threads are emptied by a guard when the thread ends.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use crate::error::{CuError, Res};

/// Values of a thread.
pub struct Stack<T>(RefCell<ManuallyDrop<Vec<T>>>);

impl<T> Stack<T> {
    pub const fn new() -> Self {
        Self(RefCell::new(ManuallyDrop::new(Vec::new())))
    }

    pub fn with<R>(&self, use_it: impl FnOnce(&mut Vec<T>) -> R) -> Res<R> {
        let mut values = self.0.try_borrow_mut().map_err(|_| CuError::UNKNOWN)?;
        Ok(use_it(&mut values))
    }
}

/// Runs something when this thread ends, unless it is the main thread, which ends with the process.
pub struct AtEnd(pub fn());

impl Drop for AtEnd {
    fn drop(&mut self) {
        // SAFETY: no arguments.
        let main = unsafe { libc::syscall(libc::SYS_gettid) == i64::from(libc::getpid()) };
        if !main {
            (self.0)();
        }
    }
}
