//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};

use serde::Serialize;

use super::Failure;

/// Standard output: a reader that goes away is told apart from other errors.
pub struct Output {
    out: BufWriter<Stdout>,
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Self {
            out: BufWriter::new(io::stdout()),
        }
    }

    /// Writes a line.
    pub fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(failure)
    }

    /// Writes text as it is.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(failure)
    }

    /// Writes a value as JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.out, value).map_err(|e| failure(e.into()))?;
        self.line("")
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(failure)
    }
}

fn failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::BrokenPipe
    } else {
        Failure::Output(error)
    }
}

/// Says something on standard error. It does not matter if nobody listens.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "r3-evolve: {message}");
}
