//! Ctrl-C, and what else asks a program to end: the first one ends the search, which is brought to its result; the second
//! one ends the program in good order, the third one at once.

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
            // SAFETY: an atomic addition may be done in a signal handler, and so may an exit that runs nothing.
            unsafe {
                signal_hook::low_level::register(signal, move || {
                    if count.fetch_add(1, Ordering::Relaxed) >= 2 {
                        signal_hook::low_level::exit(i32::from(super::LEFT));
                    }
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
