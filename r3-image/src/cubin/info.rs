//! Records of `.nv.info` sections: attributes of a module and of its kernels.

use crate::bytes::{u16_at, u32_at};

/// Attribute numbers that are read here.
pub(crate) mod attribute {
    pub const MAX_THREADS: u8 = 0x05;
    pub const EXTERNS: u8 = 0x0F;
    pub const REQNTID: u8 = 0x10;
    pub const FRAME_SIZE: u8 = 0x11;
    pub const MIN_STACK_SIZE: u8 = 0x12;
    pub const KPARAM_INFO: u8 = 0x17;
    pub const CBANK_PARAM_SIZE: u8 = 0x19;
    pub const MAXREG_COUNT: u8 = 0x1B;
    pub const REGCOUNT: u8 = 0x2F;
    pub const CTA_PER_CLUSTER: u8 = 0x3D;
    pub const EXPLICIT_CLUSTER: u8 = 0x3E;
    pub const MAX_CLUSTER_RANK: u8 = 0x3F;
    pub const KPARAM_INFO_V2: u8 = 0x45;
    /// The highest number that CUDA 13.5 uses.
    pub const LAST_KNOWN: u8 = 0x6D;
}

/// One record: an attribute's number and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub attribute: u8,
    pub value: Value<'a>,
}

/// The value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// The attribute is a flag.
    None,
    /// One number.
    Number(u16),
    /// A structure.
    Bytes(&'a [u8]),
}

/// Why the records of a section end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A format that is not known: its length is not known either.
    UnknownFormat(u8),
    /// A record of this many bytes is cut off.
    Truncated { needed: usize, present: usize },
}

/// Walks the records of a section. After an error it ends.
pub(crate) struct Records<'a>(pub &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        const NO_VALUE: u8 = 1;
        const BYTE: u8 = 2;
        const HALF: u8 = 3;
        const SIZED: u8 = 4;
        let section = std::mem::take(&mut self.0);
        if section.is_empty() {
            return None;
        }
        let present = section.len();
        let Some((&[format, attribute, low, high], rest)) = section.split_first_chunk::<4>() else {
            return Some(Err(Stop::Truncated { needed: 4, present }));
        };
        let number = u16::from_le_bytes([low, high]);
        let (value, rest) = match format {
            NO_VALUE => (Value::None, rest),
            BYTE => (Value::Number(low.into()), rest),
            HALF => (Value::Number(number), rest),
            SIZED => match rest.split_at_checked(number.into()) {
                Some((bytes, rest)) => (Value::Bytes(bytes), rest),
                None => {
                    let needed = 4 + usize::from(number);
                    return Some(Err(Stop::Truncated { needed, present }));
                }
            },
            other => return Some(Err(Stop::UnknownFormat(other))),
        };
        self.0 = rest;
        Some(Ok(Record { attribute, value }))
    }
}

/// A parameter: its place in the list, offset and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParamRecord {
    pub ordinal: u16,
    pub offset: u16,
    pub size: u16,
}

/// `KPARAM_INFO`: the size is the upper 14 bits of a packed word.
pub(crate) fn param_v1(bytes: &[u8]) -> Option<ParamRecord> {
    let size = u16::try_from(u32_at(bytes, 8)? >> 18).ok()?;
    Some(ParamRecord {
        ordinal: u16_at(bytes, 4)?,
        offset: u16_at(bytes, 6)?,
        size,
    })
}

/// `KPARAM_INFO_V2`: used by kernels with more than 4 KiB of parameters.
pub(crate) fn param_v2(bytes: &[u8]) -> Option<ParamRecord> {
    let size = u16_at(bytes, 8)?;
    Some(ParamRecord {
        ordinal: u16_at(bytes, 4)?,
        offset: u16_at(bytes, 6)?,
        size,
    })
}

/// A symbol's index and a number that belongs to it.
pub(crate) fn symbol_and_number(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((u32_at(bytes, 0)?, u32_at(bytes, 4)?))
}

/// Three dimensions.
pub(crate) fn dims(bytes: &[u8]) -> Option<[u32; 3]> {
    Some([u32_at(bytes, 0)?, u32_at(bytes, 4)?, u32_at(bytes, 8)?])
}
