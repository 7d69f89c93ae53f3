//! `R3_TRIGGER`: when selected launches are recorded, if not from start to end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use r3_options::{Trigger, TriggerSignal};

use crate::log;

static TRIGGER: OnceLock<Trigger> = OnceLock::new();
static ARMED: AtomicBool = AtomicBool::new(false);
/// Signals that arrived, to be turned into a message outside of the handler.
static SIGNALS: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(_signal: libc::c_int) {
    ARMED.fetch_xor(true, Ordering::Relaxed);
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Sets the trigger. Called once, at start.
pub fn install(trigger: Trigger) {
    if let Trigger::Signal(signal) = &trigger {
        let number = match signal {
            TriggerSignal::Usr1 => libc::SIGUSR1,
            TriggerSignal::Usr2 => libc::SIGUSR2,
        };
        // The user has given this signal to R3. The program may still install its own handler, and
        // wins then.
        // SAFETY: `on_signal` only touches atomics, which a signal handler may; a zeroed sigaction
        // is a valid one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
    }
    ARMED.store(matches!(trigger, Trigger::Start), Ordering::Relaxed);
    let _ = TRIGGER.set(trigger);
}

/// Whether a launch that is selected now is recorded.
pub fn is_armed() -> bool {
    if SIGNALS.swap(0, Ordering::Relaxed) != 0 {
        let state = if ARMED.load(Ordering::Relaxed) {
            "started"
        } else {
            "stopped"
        };
        log::info(format_args!("recording {state} by signal"));
    }
    match TRIGGER.get() {
        Some(Trigger::File(path)) => path.exists(),
        _ => ARMED.load(Ordering::Relaxed),
    }
}

/// `cuProfilerStart` or `cuProfilerStop`.
pub fn profiler(start: bool) {
    if matches!(TRIGGER.get(), Some(Trigger::Profiler)) {
        ARMED.store(start, Ordering::Relaxed);
    }
}
