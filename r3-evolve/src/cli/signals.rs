//! Ctrl-C, and what else asks a program to end: the first one ends the search, which is brought to its result; the second
//! one ends the program in good order, the third one at once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// The time before a search, in which there is nothing to bring to a result: the first Ctrl-C ends the program, which
/// waits for a server meanwhile.
pub struct Preparing {
    /// Whether it is still that time. Held while somebody leaves.
    goes_on: Arc<Mutex<bool>>,
    ended: Arc<AtomicBool>,
}

impl Preparing {
    /// From now on. `leave` puts things in order and says what is to be told.
    pub fn watch(
        signals: &Signals,
        leave: impl FnOnce() -> String + Send + 'static,
    ) -> io::Result<Self> {
        let preparing = Self {
            goes_on: Arc::new(Mutex::new(true)),
            ended: Arc::default(),
        };
        let (signals, goes_on) = (signals.clone(), Arc::clone(&preparing.goes_on));
        let ended = Arc::clone(&preparing.ended);
        std::thread::Builder::new()
            .name("preparing".into())
            .spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                    let goes_on = goes_on.lock().unwrap_or_else(PoisonError::into_inner);
                    if *goes_on && signals.count() > 0 {
                        super::output::complain(&leave());
                        // Its server ends with it.
                        std::process::exit(i32::from(super::LEFT));
                    }
                }
            })?;
        Ok(preparing)
    }

    /// The search begins: it looks at signals itself.
    pub fn over(&self) {
        *self.goes_on.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        self.over();
    }
}
