//! The program: arguments in, library called, tables or JSON out.

use std::process::ExitCode;

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
