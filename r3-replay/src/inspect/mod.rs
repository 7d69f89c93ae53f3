//! What an archive holds, as data: each command's report, which is also its JSON form.
//!
//! Every report has a `version`. Fields may be added within a version; a change of meaning is a
//! new version.

pub mod attached;
pub mod info;
pub mod launches;
pub mod show;
pub mod tuned;

/// Version of the reports.
pub const REPORT_VERSION: u32 = 1;

/// 16 bytes as an UUID is written.
pub fn spell_uuid(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}
