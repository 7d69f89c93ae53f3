//! Bytes made to look like a cubin: sections, symbols and attributes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use r3_image::{Image, ImageKind};

fuzz_target!(|bytes: &[u8]| {
    let mut image = bytes.to_vec();
    if image.len() < 64 {
        return;
    }
    image[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    image[18..20].copy_from_slice(&190u16.to_le_bytes());
    let image = Image::from_vec(image);
    assert_eq!(image.kind(), ImageKind::Cubin);
    let _ = (image.kernel_names(), image.variables(), image.check());
});
