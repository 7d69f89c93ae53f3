//! Any bytes: everything that can be asked of an image.

#![no_main]

use libfuzzer_sys::fuzz_target;
use r3_image::{Image, memory::Loadable};

fuzz_target!(|bytes: &[u8]| {
    let image = Image::parse(bytes);
    for name in image.kernel_names() {
        let kernel = image.kernel(&name).expect("a listed kernel is found");
        assert_eq!(kernel.name, name);
        let _ = (kernel.params_len(), kernel.launches_kernels(), image.kernel_for(&name, 90));
    }
    let _ = (image.variables(), image.code_forms(), image.check());
    let _ = Loadable::new(&image);
});
