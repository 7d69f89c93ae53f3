//! What is done with memory in bulk, as values: [`Device::place`](super::Device::place),
//! [`Device::judge`](super::Device::judge), [`Device::mark_equal`](super::Device::mark_equal) and their like take lists of these, and
//! do a whole list in one go.
//!
//! A bit mask has one bit for each byte of a piece: bit `i % 8` of byte `i / 8` stands for byte `i`. All is fastest where
//! addresses are multiples of 16, and offsets in streams multiples of 8.

use super::DeviceError;
use super::cuda::LockedMemory;
use super::stream::Stream;
use crate::compare::{ElementType, Tally, Tolerance};

/// Bytes to be read: what memory holds, a stream, both combined by exclusive or (sealed memory), or zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// Where the bytes are; `None` stands for zeros.
    pub memory: Option<u64>,
    /// What is combined with them.
    pub stream: Option<Stream>,
}

impl Source {
    /// Zeros.
    pub const ZEROS: Self = Self {
        memory: None,
        stream: None,
    };

    /// Memory as it is.
    pub fn memory(address: u64) -> Self {
        Self {
            memory: Some(address),
            stream: None,
        }
    }

    /// Memory that is sealed with a stream, or is to be.
    pub fn sealed(address: u64, stream: Stream) -> Self {
        Self {
            memory: Some(address),
            stream: Some(stream),
        }
    }

    /// A stream itself.
    pub fn stream(stream: Stream) -> Self {
        Self {
            memory: None,
            stream: Some(stream),
        }
    }

    /// `bytes` further on.
    pub fn after(self, bytes: u64) -> Self {
        Self {
            memory: self.memory.map(|address| address.wrapping_add(bytes)),
            stream: self.stream.map(|stream| stream.after(bytes)),
        }
    }
}

/// Bytes to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where to.
    pub to: u64,
    /// How many.
    pub len: u64,
    /// What goes there; `None` leaves alone what is not poisoned.
    pub from: Option<Source>,
    /// Bytes that get something else.
    pub poison: Option<Poison>,
}

/// A stream in place of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poison {
    /// Address of the bits that tell which.
    pub mask: u64,
    /// What they get.
    pub stream: Stream,
}

impl Place {
    /// A copy that is sealed, or one from which the seal is taken off.
    pub fn seal(from: u64, to: u64, len: u64, stream: Stream) -> Self {
        Self {
            to,
            len,
            from: Some(Source::sealed(from, stream)),
            poison: None,
        }
    }

    /// A stream, in all bytes.
    pub fn fill(to: u64, len: u64, stream: Stream) -> Self {
        Self {
            to,
            len,
            from: Some(Source::stream(stream)),
            poison: None,
        }
    }

    /// A stream in the bytes whose bit is set, the others being left alone.
    pub fn poison(to: u64, len: u64, mask: u64, stream: Stream) -> Self {
        Self {
            to,
            len,
            from: None,
            poison: Some(Poison { mask, stream }),
        }
    }

    /// The same with some bytes poisoned: restores and poisons at once.
    pub fn but(self, mask: u64, stream: Stream) -> Self {
        Self {
            poison: Some(Poison { mask, stream }),
            ..self
        }
    }
}

/// Two stretches of bytes to be compared element by element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgeJob {
    /// The bytes in question.
    pub actual: Source,
    /// What they should be.
    pub expected: Source,
    /// Length of both in bytes.
    pub len: u64,
    /// What they are. The last element may be cut off: it is then bits.
    pub element: ElementType,
    /// How far off elements may be.
    pub tolerance: Tolerance,
}

impl JudgeJob {
    /// Whether two stretches have the same bits.
    pub fn exact(actual: Source, expected: Source, len: u64) -> Self {
        Self {
            actual,
            expected,
            len,
            element: ElementType::Bits,
            tolerance: Tolerance::EXACT,
        }
    }
}

/// What was found different in a [`JudgeJob`]: a [`Tally`] without texts. All counts are of elements whose bits
/// differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judged {
    /// Bytes that differ.
    pub bytes: u64,
    /// Elements that are out of tolerance.
    pub out: u64,
    /// Elements that differ within the tolerance.
    pub within: u64,
    /// Elements whose error is not finite.
    pub not_finite: u64,
    /// Largest absolute error; `None` when there is no finite one.
    pub largest_absolute: Option<f64>,
    /// Largest relative error.
    pub largest_relative: Option<f64>,
    /// Largest distance in representable values.
    pub largest_ulp: Option<u64>,
    /// Offset of the first element with the largest absolute error, in bytes.
    pub largest_at: Option<u64>,
    /// Offset of the first element that is out, in bytes.
    pub first_out: Option<u64>,
}

impl Judged {
    /// Whether no element is out.
    pub fn passes(&self) -> bool {
        self.out == 0
    }

    /// Whether no bit differs.
    pub fn is_equal(&self) -> bool {
        self.bytes == 0
    }

    /// Adds what was found in a stretch that lies behind.
    pub fn merge(&mut self, later: &Self) {
        self.bytes += later.bytes;
        self.out += later.out;
        self.within += later.within;
        self.not_finite += later.not_finite;
        if later.largest_absolute > self.largest_absolute {
            self.largest_absolute = later.largest_absolute;
            self.largest_at = later.largest_at;
        }
        if later.largest_relative > self.largest_relative {
            self.largest_relative = later.largest_relative;
        }
        self.largest_ulp = self.largest_ulp.max(later.largest_ulp);
        self.first_out = self.first_out.or(later.first_out);
    }
}

impl From<&Tally> for Judged {
    fn from(tally: &Tally) -> Self {
        Self {
            bytes: tally.bytes,
            out: tally.out,
            within: tally.within,
            not_finite: tally.not_finite,
            largest_absolute: tally.largest_absolute,
            largest_relative: tally.largest_relative,
            largest_ulp: tally.largest_ulp,
            largest_at: tally.largest_at,
            first_out: tally.first.first().map(|mismatch| mismatch.offset),
        }
    }
}

/// How bits go into a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskChange {
    /// They take the place of what was there.
    Set,
    /// They take the place of what was there, turned: bits that are clear are set.
    Not,
    /// Only bits set in both stay.
    And,
    /// Bits that are set are cleared.
    AndNot,
    /// Bits that are set are set.
    Or,
}

impl MaskChange {
    /// Applies it.
    pub fn of(self, mask: u8, bits: u8) -> u8 {
        match self {
            Self::Set => bits,
            Self::Not => !bits,
            Self::And => mask & bits,
            Self::AndNot => mask & !bits,
            Self::Or => mask | bits,
        }
    }
}

/// Bytes that are to be marked where they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkJob {
    /// One side.
    pub a: Source,
    /// The other side.
    pub b: Source,
    /// Length of both in bytes.
    pub len: u64,
    /// Address of the mask. It covers `len.div_ceil(8)` bytes; bits behind the end are cleared.
    pub mask: u64,
    /// How the bits of equal bytes go into it.
    pub change: MaskChange,
}

/// A mask that changes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskJob {
    /// Address of the mask that changes.
    pub mask: u64,
    /// Address of the one that stays.
    pub bits: u64,
    /// Bytes of both masks.
    pub bytes: u64,
    /// How.
    pub change: MaskChange,
}

/// Host memory for what does not fit on the device, page-locked where there is a driver that can.
/// From [`Device::host_buffer`](super::Device::host_buffer).
pub struct HostBuffer(pub(super) HostBytes);

pub(super) enum HostBytes {
    Ordinary(Vec<u8>),
    Locked(LockedMemory),
}

impl HostBuffer {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match &self.0 {
            HostBytes::Ordinary(bytes) => bytes.len() as u64,
            HostBytes::Locked(memory) => memory.len() as u64,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn ordinary(len: u64) -> Result<Self, DeviceError> {
        let no_room = || DeviceError::Unsupported(format!("no {len} bytes of host memory"));
        let len = usize::try_from(len).map_err(|_| no_room())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| no_room())?;
        bytes.resize(len, 0);
        Ok(Self(HostBytes::Ordinary(bytes)))
    }
}

/// A copy between the device and a [`HostBuffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCopy {
    /// Address on the device.
    pub device: u64,
    /// Offset in the buffer.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}
