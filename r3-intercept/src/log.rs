//! Messages to the user, on standard error, each one a line that starts with `r3:`.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

/// Severity; `R3_LOG` names the lowest one that is printed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

fn print(level: Level, message: Arguments<'_>) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    // One write, so that lines of several processes and threads do not mix. A closed standard error
    // is nobody's failure.
    let line = format!("r3: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

pub fn error(message: Arguments<'_>) {
    print(Level::Error, message);
}

pub fn warn(message: Arguments<'_>) {
    print(Level::Warn, message);
}

pub fn info(message: Arguments<'_>) {
    print(Level::Info, message);
}

pub fn debug(message: Arguments<'_>) {
    print(Level::Debug, message);
}
