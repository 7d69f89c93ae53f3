//! Keeps R3's own failures inside R3.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{log, process};

/// Runs R3's own work. A panic in it switches the capture off, with a message; the program goes on.
pub fn guard<T: Default>(work: impl FnOnce() -> T) -> T {
    let _quiet = Quiet::enter();
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        process::switch_off();
        log::error(format_args!(
            "internal error; nothing more is recorded, the program goes on (please report this)"
        ));
        T::default()
    })
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// While it lives, the thread does R3's own work: `errno` is put back at the end, and a cancellation of
/// the thread waits until then, since it would unwind through code that is not made for it.
pub struct Quiet {
    errno: c_int,
    cancel_state: c_int,
}

impl Quiet {
    pub fn enter() -> Self {
        let mut cancel_state = 0;
        // SAFETY: `__errno_location` gives the calling thread's own variable; the out-pointer is ours.
        let errno = unsafe {
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut cancel_state);
            *libc::__errno_location()
        };
        Self {
            errno,
            cancel_state,
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: as above.
        unsafe {
            pthread_setcancelstate(self.cancel_state, &raw mut ignored);
            *libc::__errno_location() = self.errno;
        }
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
