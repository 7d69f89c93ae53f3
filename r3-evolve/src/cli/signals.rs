//! Ctrl-C, and what else asks a program to end: the first one ends the search, which is brought to its result; the second
//! one ends the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often the program was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Listens from now on.
    pub fn listen() -> io::Result<Self> {
        let signals = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let count = Arc::clone(&signals.0);
            // SAFETY: an atomic addition may be done in a signal handler.
            unsafe {
                signal_hook::low_level::register(signal, move || {
                    count.fetch_add(1, Ordering::Relaxed);
                })
            }?;
        }
        Ok(signals)
    }

    /// How often.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
