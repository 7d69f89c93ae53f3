//! Fatbin containers: a header, then entries, each a header and a payload.
//!
//! A header's length is a field and differs between code forms and compilers, so nothing here
//! relies on it beyond the fields that every entry has.

use std::ops::Range;

use crate::bytes::{u16_at, u32_at, u64_at};
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
/// Shortest header of a group's member.
const MEMBER_HEADER: usize = 64;

/// Flag of an entry: 64-bit addresses.
pub const FLAG_64_BIT: u64 = 0x1;
/// Flag of an entry: compiled with debug information.
pub const FLAG_DEBUG: u64 = 0x2;
/// Flag of an entry: compressed with LZ4.
pub const FLAG_LZ4: u64 = 0x2000;
/// Flag of an entry: compressed with Zstandard.
pub const FLAG_ZSTD: u64 = 0x8000;

/// Flag of an entry: code for one architecture only, `a` in `sm_90a`.
pub const FLAG_ARCH_SPECIFIC: u64 = 0x10_0000;
/// Flag of an entry: code for one family of architectures, `f` in `sm_100f`.
pub const FLAG_FAMILY_SPECIFIC: u64 = 0x20_0000;
/// Kind of an entry that packs several others into one payload.
pub const KIND_GROUP: u16 = 0x100;

/// Bytes of the image that hold a payload, alone or with others.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    /// As stored, without padding.
    pub stored: Range<usize>,
    pub compression: Compression,
    /// Declared length of what is stored when decompressed.
    pub raw_len: u64,
    /// The part of it that is the payload, when it is not all.
    pub member: Option<Range<u64>>,
}

/// An entry's header, decoded.
#[derive(Clone, Debug)]
pub(crate) struct RawEntry {
    pub kind: u16,
    pub version: (u16, u16),
    pub sm: u32,
    pub name: Option<String>,
    pub options: Option<String>,
    pub flags: u64,
    pub packed: Packed,
    /// Header and padded payload.
    pub whole: Range<usize>,
}

impl RawEntry {
    /// `a` in `sm_90a`, `f` in `sm_100f`.
    pub fn arch_suffix(&self) -> Option<char> {
        if self.flags & FLAG_ARCH_SPECIFIC != 0 {
            Some('a')
        } else if self.flags & FLAG_FAMILY_SPECIFIC != 0 {
            Some('f')
        } else {
            None
        }
    }

    /// Length of the payload when decompressed, as declared.
    pub fn raw_len(&self) -> u64 {
        match &self.packed.member {
            Some(range) => range.end - range.start,
            None => self.packed.raw_len,
        }
    }
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
            Ok((entry, header, problem)) => {
                if let Some(kind) = problem {
                    problems.add(format_args!("entry {} at {at:#x}", entries.len()), kind);
                }
                at = entry.whole.end;
                match members(&entry, header) {
                    Ok(None) => entries.push(entry),
                    Ok(Some(members)) => entries.extend(members),
                    Err(kind) => {
                        problems.add(format_args!("entry {} at {at:#x}", entries.len()), kind);
                        entries.push(entry);
                    }
                }
            }
            Err(kind) => {
                problems.add(format_args!("entry {} at {at:#x}", entries.len()), kind);
                return;
            }
        }
    }
}

/// Decodes the entry with which `inside` begins; `base` is its offset in the image. Answers with
/// its header, and with what is wrong but does not hinder.
fn entry(
    inside: &[u8],
    base: usize,
) -> Result<(RawEntry, &[u8], Option<ProblemKind>), ProblemKind> {
    let present = inside.len() as u64;
    let truncated = |what, needed| ProblemKind::Truncated {
        what,
        needed,
        present,
    };
    let Some(fields) = Fields::read(inside) else {
        return Err(truncated("entry header", MIN_ENTRY_HEADER as u64));
    };
    let header_len = fields.header_len as usize;
    if header_len < MIN_ENTRY_HEADER {
        let value = header_len as u64;
        return Err(ProblemKind::BadValue {
            what: "entry header length",
            value,
        });
    }
    let Some((header, payload)) = inside.split_at_checked(header_len) else {
        return Err(truncated("entry header", header_len as u64));
    };
    let mut problem = None;
    let available = payload.len() as u64;
    if fields.padded_len > available {
        problem = Some(truncated("entry payload", fields.padded_len));
    }
    let padded = fields.padded_len.min(available);
    let stored_len = match u64::from(fields.compressed_len) {
        0 => padded,
        len if len > padded => {
            problem.get_or_insert(ProblemKind::BadValue {
                what: "compressed length",
                value: len,
            });
            padded
        }
        len => len,
    };
    let compression = if fields.flags & FLAG_ZSTD != 0 {
        if payload.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) {
            Compression::Zstd
        } else {
            Compression::Opaque
        }
    } else if fields.flags & FLAG_LZ4 != 0 {
        Compression::Lz4
    } else {
        Compression::None
    };
    let raw_len = match compression {
        Compression::None => stored_len,
        _ => u64_at(header, 56).unwrap_or(0),
    };
    // Both lengths fit: they are no longer than the payload that is there.
    let from = base + header_len;
    let end = |len: u64| from + usize::try_from(len).unwrap_or(0);
    let entry = RawEntry {
        kind: fields.kind,
        version: fields.version,
        sm: fields.sm,
        name: fields.name(header),
        options: fields.options(header),
        flags: fields.flags,
        packed: Packed {
            stored: from..end(stored_len),
            compression,
            raw_len,
            member: None,
        },
        whole: base..end(padded),
    };
    Ok((entry, header, problem))
}

/// The fields that every entry's header has.
struct Fields {
    kind: u16,
    /// In a group's member: its offset in the group's payload.
    header_len: u32,
    padded_len: u64,
    compressed_len: u32,
    options_at: u32,
    version: (u16, u16),
    sm: u32,
    name_at: u32,
    name_len: u32,
    flags: u64,
}

impl Fields {
    fn read(bytes: &[u8]) -> Option<Fields> {
        Some(Fields {
            kind: u16_at(bytes, 0)?,
            header_len: u32_at(bytes, 4)?,
            padded_len: u64_at(bytes, 8)?,
            compressed_len: u32_at(bytes, 16)?,
            options_at: u32_at(bytes, 20)?,
            version: (u16_at(bytes, 26)?, u16_at(bytes, 24)?),
            sm: u32_at(bytes, 28)?,
            name_at: u32_at(bytes, 32)?,
            name_len: u32_at(bytes, 36)?,
            flags: u64_at(bytes, 40)?,
        })
    }

    /// Where the name lies, without its NUL.
    fn name_range(&self) -> Option<Range<usize>> {
        let (at, len) = (self.name_at as usize, self.name_len as usize);
        (at != 0 && len != 0).then_some(at..at.checked_add(len)?)
    }

    /// Where the options lie: the header names a pair of offset and length. Code for newer
    /// architectures keeps compatibility attributes there, which are not text.
    fn options_range(&self, header: &[u8]) -> Option<Range<usize>> {
        let pair = Some(self.options_at as usize).filter(|&at| at != 0)?;
        let at = u32_at(header, pair)? as usize;
        let len = u32_at(header, pair.checked_add(4)?)? as usize;
        Some(at..at.checked_add(len)?)
    }

    fn name(&self, header: &[u8]) -> Option<String> {
        text(header.get(self.name_range()?)?)
    }

    fn options(&self, header: &[u8]) -> Option<String> {
        text(header.get(self.options_range(header)?)?)
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim_matches(['\0', ' ']);
    let plain = !text.is_empty() && !text.contains(|c: char| c.is_control() && c != '\t');
    plain.then(|| text.to_owned())
}

/// The entries that a group packs into one payload; `None` when `entry` is no group.
///
/// A group's header goes on with a count and the length of a table. The table holds a header for
/// each member, in which the offset in the unpacked payload stands in place of the header's length.
fn members(entry: &RawEntry, header: &[u8]) -> Result<Option<Vec<RawEntry>>, ProblemKind> {
    if entry.kind != KIND_GROUP {
        return Ok(None);
    }
    let bad = |value: u32| ProblemKind::BadValue {
        what: "member table",
        value: value.into(),
    };
    let at = u32_at(header, 20).unwrap_or(0) as usize;
    let count = u32_at(header, at).ok_or(bad(0))?;
    let mut table = header.get(at + 8..).ok_or(bad(count))?;
    let mut members = Vec::new();
    for index in 0..count {
        let fields = Fields::read(table).ok_or(bad(index))?;
        // A member's header has its basic part, then what its name and options need, in words.
        let ends =
            [fields.name_range(), fields.options_range(table)].map(|range| range.map(|r| r.end));
        let mut len = MEMBER_HEADER;
        for end in ends.into_iter().flatten() {
            let padded = end
                .checked_add(1)
                .and_then(|end| end.checked_next_multiple_of(8));
            len = len.max(padded.ok_or(bad(index))?);
        }
        let (own, rest) = table.split_at_checked(len).ok_or(bad(index))?;
        table = rest;
        let start = u64::from(fields.header_len);
        let end = start.checked_add(fields.padded_len).ok_or(bad(index))?;
        members.push(RawEntry {
            kind: fields.kind,
            version: fields.version,
            sm: fields.sm,
            name: fields.name(own),
            options: fields.options(own),
            flags: fields.flags,
            packed: Packed {
                member: Some(start..end),
                ..entry.packed.clone()
            },
            whole: entry.whole.clone(),
        });
    }
    Ok(Some(members))
}
