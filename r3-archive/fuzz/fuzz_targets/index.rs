//! Any bytes as an index.
#![no_main]

use libfuzzer_sys::fuzz_target;
use r3_archive::index::Index;

fuzz_target!(|data: &[u8]| {
    if let Some(index) = Index::parse(data) {
        assert_eq!(Index::parse(&index.to_bytes()), Some(index));
    }
});
