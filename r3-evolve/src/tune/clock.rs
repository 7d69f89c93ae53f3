//! Time, so that tests need not wait for it.

use std::time::{Duration, Instant, SystemTime};

/// A clock.
pub trait Clock {
    /// Seconds since some moment. Never goes back.
    fn now(&self) -> f64;

    /// Seconds since the Unix epoch.
    fn unix(&self) -> f64;

    /// Waits.
    fn sleep(&self, time: Duration);
}

/// The machine's.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    fn unix(&self) -> f64 {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64())
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
