//! Any text as PTX.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let module = r3_image::ptx::parse(bytes);
    for entry in &module.entries {
        // Parameters follow each other without overlap.
        let mut end = 0;
        for param in &entry.params {
            assert!(param.offset >= end && param.offset.is_multiple_of(param.align));
            end = param.offset + param.size;
        }
    }
});
