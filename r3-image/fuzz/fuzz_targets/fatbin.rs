//! Bytes behind a container's magic number: entries and their payloads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use r3_image::Image;

fuzz_target!(|bytes: &[u8]| {
    let mut image = b"\x50\xED\x55\xBA\x01\x00".to_vec();
    image.extend(bytes);
    let image = Image::from_vec(image);
    for entry in image.entries().iter().take(16) {
        let _ = entry.payload();
        assert!(image.bytes().get(entry.range.clone()).is_some());
    }
});
