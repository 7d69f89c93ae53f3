//! Keeps R3's own failures inside R3.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{log, process};

/// Runs R3's own work. A panic in it switches the capture off, with a message; the program goes on.
/// `errno` is left as it was.
pub fn guard<T: Default>(work: impl FnOnce() -> T) -> T {
    let errno = Errno::save();
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        process::switch_off();
        log::error(format_args!(
            "internal error; nothing more is recorded, the program goes on (please report this)"
        ));
        T::default()
    });
    drop(errno);
    result
}

/// Restores `errno` when dropped.
pub struct Errno(libc::c_int);

impl Errno {
    /// Remembers the calling thread's `errno`.
    pub fn save() -> Self {
        // SAFETY: `__errno_location` gives the calling thread's own variable.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_the_default_and_keeps_errno() {
        // SAFETY: own thread's variable.
        unsafe { *libc::__errno_location() = 42 };
        let value: u32 = guard(|| {
            // SAFETY: own thread's variable.
            unsafe { *libc::__errno_location() = 7 };
            panic!("on purpose")
        });
        assert_eq!(value, 0);
        // SAFETY: own thread's variable.
        assert_eq!(unsafe { *libc::__errno_location() }, 42);
    }
}
