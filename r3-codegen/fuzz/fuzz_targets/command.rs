//! Compile commands of strangers: whatever a line says, it gives a command or an error, and what it gives can be spelled for any compiler.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use r3_codegen::source::command;

fuzz_target!(|line: &str| {
    let folder = Path::new("/nonexistent");
    if let Ok(invocation) = command::parse(line, folder) {
        let source = invocation.source("kernel.cu".into(), String::new());
        // What is read once is read the same again.
        let again = command::parse(line, folder).map(|again| again.source("kernel.cu".into(), String::new()));
        assert_eq!(again.ok(), Some(source));
    }
});
