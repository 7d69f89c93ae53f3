//! Any bytes as a file: open it, read everything that it offers, and check it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use r3_archive::{Archive, ops};

fuzz_target!(|data: &[u8]| {
    let Ok(archive) = Archive::from_bytes(data.to_vec()) else { return };
    if let Some(salvage) = archive.salvaged() {
        let _ = salvage.to_string();
    }
    for module in archive.modules() {
        let _ = archive.read_blob(&module.image);
    }
    for source in archive.sources() {
        let _ = archive.read_blob(&source.text);
        for (_, text) in &source.headers {
            let _ = archive.read_blob(text);
        }
    }
    for tuned in archive.tuned() {
        for code in &tuned.code {
            let _ = archive.read_blob(&code.code);
        }
    }
    for launch in archive.launches() {
        for (index, region) in launch.before.regions.iter().enumerate() {
            let end = region.len.min(1 << 20);
            let _ = archive.region_before(launch, index, 0..end);
            let _ = archive.region_after(launch, index, end / 2..end);
            let _ = archive.region_after(launch, index, region.len.saturating_sub(10)..region.len);
        }
    }
    if let Ok(report) = ops::check(&archive) {
        let _ = report.to_string();
    }
});
