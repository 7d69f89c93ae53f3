//! Fatbin containers: a header, then entries, each a header and a payload.
//!
//! A header's length is a field and differs between code forms and compilers, so nothing here
//! relies on it beyond the fields that every entry has.

use std::ops::Range;

use crate::bytes::{c_str, u16_at, u32_at, u64_at};
use crate::compression::Compression;
use crate::problem::{ProblemKind, Problems};

/// First four bytes of a container, little endian.
pub const CONTAINER_MAGIC: u32 = 0xBA55_ED50;
/// First four bytes of the wrapper that programs register, little endian.
pub const WRAPPER_MAGIC: u32 = 0x4662_43B1;
/// Shortest header of a container.
pub(crate) const CONTAINER_HEADER: usize = 16;
/// Every entry's header reaches at least to the end of its flags.
const MIN_ENTRY_HEADER: usize = 48;

/// Flag of an entry: 64-bit addresses.
pub const FLAG_64_BIT: u64 = 0x1;
/// Flag of an entry: compiled with debug information.
pub const FLAG_DEBUG: u64 = 0x2;
/// Flag of an entry: compressed with LZ4.
pub const FLAG_LZ4: u64 = 0x2000;
/// Flag of an entry: compressed with Zstandard.
pub const FLAG_ZSTD: u64 = 0x8000;

/// An entry's header, decoded.
#[derive(Clone, Debug)]
pub(crate) struct RawEntry {
    pub kind: u16,
    pub version: (u16, u16),
    pub sm: u32,
    pub name: Option<String>,
    pub options: Option<String>,
    pub flags: u64,
    pub compression: Compression,
    /// Uncompressed length as declared; the stored length when not compressed.
    pub raw_len: u64,
    /// Header and padded payload.
    pub whole: Range<usize>,
    /// The payload as stored, without padding.
    pub stored: Range<usize>,
}

/// All containers of `bytes`, with the entries of each.
pub(crate) fn containers(
    bytes: &[u8],
    problems: &mut Problems,
) -> (Vec<Range<usize>>, Vec<RawEntry>) {
    let mut found = Vec::new();
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(start) = next_container(bytes, at, problems) {
        let header = usize::from(u16_at(bytes, start + 6).unwrap_or(0));
        let body = u64_at(bytes, start + 8).unwrap_or(0);
        let version = u16_at(bytes, start + 4).unwrap_or(0);
        if version != 1 {
            let kind = ProblemKind::Unknown {
                what: "container version",
                value: version.into(),
            };
            problems.add(format_args!("container at {start:#x}"), kind);
        }
        let header = if header < CONTAINER_HEADER {
            let kind = ProblemKind::BadValue {
                what: "container header length",
                value: header as u64,
            };
            problems.add(format_args!("container at {start:#x}"), kind);
            CONTAINER_HEADER
        } else {
            header
        };
        let from = start.saturating_add(header).min(bytes.len());
        let present = (bytes.len() - from) as u64;
        if body > present {
            let kind = ProblemKind::Truncated {
                what: "container",
                needed: body,
                present,
            };
            problems.add(format_args!("container at {start:#x}"), kind);
        }
        let end = from + usize::try_from(body.min(present)).unwrap_or(0);
        walk(bytes, from..end, &mut entries, problems);
        found.push(start..end);
        at = end;
    }
    (found, entries)
}

/// Offset of the next container at or behind `at`. Zeros between containers are padding.
fn next_container(bytes: &[u8], at: usize, problems: &mut Problems) -> Option<usize> {
    let mut stray = 0;
    let mut here = at;
    while here < bytes.len() {
        if u32_at(bytes, here) == Some(CONTAINER_MAGIC) && bytes.len() - here >= CONTAINER_HEADER {
            break;
        }
        stray += u64::from(bytes.get(here) != Some(&0));
        here += 1;
    }
    if stray > 0 {
        problems.add(
            format_args!("offset {at:#x}"),
            ProblemKind::StrayBytes {
                len: (here - at) as u64,
            },
        );
    }
    (here < bytes.len()).then_some(here)
}

fn walk(bytes: &[u8], body: Range<usize>, entries: &mut Vec<RawEntry>, problems: &mut Problems) {
    let mut at = body.start;
    while at < body.end {
        let inside = bytes.get(at..body.end).unwrap_or_default();
        if inside.iter().take(MIN_ENTRY_HEADER).all(|&b| b == 0) {
            // Padding at the end of a container; an entry of kind 0 does not exist.
            if inside.iter().any(|&b| b != 0) {
                let kind = ProblemKind::BadValue {
                    what: "entry kind",
                    value: 0,
                };
                problems.add(format_args!("entry {} at {at:#x}", entries.len()), kind);
            }
            return;
        }
        match entry(inside, at) {
            Ok((entry, problem)) => {
                if let Some(kind) = problem {
                    problems.add(format_args!("entry {} at {at:#x}", entries.len()), kind);
                }
                at = entry.whole.end;
                entries.push(entry);
            }
            Err(kind) => {
                problems.add(format_args!("entry {} at {at:#x}", entries.len()), kind);
                return;
            }
        }
    }
}

/// Decodes the entry with which `inside` begins; `base` is its offset in the image.
fn entry(inside: &[u8], base: usize) -> Result<(RawEntry, Option<ProblemKind>), ProblemKind> {
    let present = inside.len() as u64;
    let truncated = |what, needed| ProblemKind::Truncated {
        what,
        needed,
        present,
    };
    if inside.len() < MIN_ENTRY_HEADER {
        return Err(truncated("entry header", MIN_ENTRY_HEADER as u64));
    }
    // Reads below cannot miss: the length was checked.
    let u16_of = |at| u16_at(inside, at).unwrap_or(0);
    let u32_of = |at| u32_at(inside, at).unwrap_or(0);
    let u64_of = |at| u64_at(inside, at).unwrap_or(0);

    let header_len = u32_of(4);
    if (header_len as usize) < MIN_ENTRY_HEADER {
        return Err(ProblemKind::BadValue {
            what: "entry header length",
            value: header_len.into(),
        });
    }
    let Some(header) = inside.get(..header_len as usize) else {
        return Err(truncated("entry header", header_len.into()));
    };
    let padded = u64_of(8);
    let mut problem = None;
    let available = present - u64::from(header_len);
    if padded > available {
        problem = Some(truncated("entry payload", padded));
    }
    let padded = padded.min(available);

    let flags = u64_of(40);
    let packed = flags & (FLAG_LZ4 | FLAG_ZSTD) != 0;
    let compressed_len = u64::from(u32_of(16));
    let stored_len = if compressed_len == 0 {
        padded
    } else {
        compressed_len
    };
    if stored_len > padded && problem.is_none() {
        problem = Some(ProblemKind::BadValue {
            what: "compressed length",
            value: stored_len,
        });
    }
    let stored_len = stored_len.min(padded);
    let from = base + header_len as usize;
    let stored = from..from + usize::try_from(stored_len).unwrap_or(0);
    let whole = base..from + usize::try_from(padded).unwrap_or(0);

    let payload_start = inside.get(header_len as usize..).unwrap_or_default();
    let compression = if !packed {
        Compression::None
    } else if flags & FLAG_ZSTD != 0 {
        if payload_start.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) {
            Compression::Zstd
        } else {
            Compression::Opaque
        }
    } else {
        Compression::Lz4
    };
    let declared = u64_at(header, 56).unwrap_or(0);
    let raw_len = match compression {
        Compression::Lz4 | Compression::Zstd => declared,
        Compression::None | Compression::Opaque => stored_len,
    };

    let (name_at, name_len) = (u32_of(32) as usize, u32_of(36) as usize);
    let name = (name_at != 0 && name_len != 0)
        .then(|| header.get(name_at..name_at.checked_add(name_len)?))
        .flatten()
        .map(text);
    let options_at = u32_of(20) as usize;
    let options = (options_at != 0)
        .then(|| c_str(header, options_at))
        .flatten()
        .filter(|options| !options.is_empty())
        .map(text);

    let entry = RawEntry {
        kind: u16_of(0),
        version: (u16_of(26), u16_of(24)),
        sm: u32_of(28),
        name,
        options,
        flags,
        compression,
        raw_len,
        whole,
        stored,
    };
    Ok((entry, problem))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .to_owned()
}
