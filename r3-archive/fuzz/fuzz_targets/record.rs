//! Any bytes as the body of a record: the first byte says of which kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use r3_archive::format::Kind;

fuzz_target!(|data: &[u8]| {
    if let Some((kind, body)) = data.split_first() {
        r3_archive::fuzz::record(Kind(u16::from(*kind)), body);
    }
});
