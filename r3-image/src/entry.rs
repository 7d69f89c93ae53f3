//! One piece of code of an image, and how it is unpacked.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::compression::{self, Compression, PayloadError};
use crate::fatbin::{Packed, RawEntry};
use crate::kernel::{KernelInfo, Variable};
use crate::problem::Problem;

/// The form of code in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CodeForm {
    /// PTX text.
    Ptx,
    /// Machine code in an ELF file.
    Cubin,
    /// Intermediate code for link-time optimisation.
    LtoIr,
    /// Another kind of entry, by its number in the fatbin.
    Other(u16),
}

impl CodeForm {
    fn of_kind(kind: u16) -> CodeForm {
        match kind {
            1 => CodeForm::Ptx,
            2 => CodeForm::Cubin,
            8 => CodeForm::LtoIr,
            other => CodeForm::Other(other),
        }
    }
}

/// One piece of code of an image. A bare cubin or PTX text is one entry.
#[derive(Debug)]
pub struct Entry {
    /// Form of the code.
    pub form: CodeForm,
    /// Architecture, e.g. 90 for `sm_90`; 0 when the entry does not tell it.
    pub sm: u32,
    /// `a` in `sm_90a`, `f` in `sm_100f`.
    pub arch_suffix: Option<char>,
    /// Version of the code form that the entry declares, e.g. (8, 8) for PTX 8.8.
    pub version: (u16, u16),
    /// Name of the source file or object, if given.
    pub name: Option<String>,
    /// Assembler options, if given.
    pub options: Option<String>,
    /// Flags as in the fatbin; 0 outside one.
    pub flags: u64,
    /// How the payload is stored.
    pub compression: Compression,
    /// Length of the payload when decompressed, as declared. It can be too small, and it counts the
    /// NUL of PTX.
    pub raw_len: u64,
    /// The whole entry, header included, as a range of the image's bytes. Entries that were packed
    /// together share one range.
    pub range: Range<usize>,
    pub(crate) packed: Packed,
    bytes: Bytes,
    pub(crate) contents: OnceLock<Contents>,
}

/// What the code of an entry declares.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Kernels, ascending by name.
    pub kernels: Vec<KernelInfo>,
    pub variables: Vec<Variable>,
    pub problems: Vec<Problem>,
}

impl Entry {
    /// The code, decompressed; PTX without its NUL. Not cached: keep it if you need it again.
    pub fn payload(&self) -> Result<Cow<'_, [u8]>, PayloadError> {
        self.part_of(self.unpack()?).ok_or(PayloadError::Truncated)
    }

    /// Whether a GPU of architecture `sm`, e.g. 90, can run the code: a cubin of the same major
    /// architecture and no higher minor one, PTX of no higher architecture. Code with the suffix
    /// `a` needs the same architecture, with `f` the same major one. `false` for other forms.
    pub fn runs_on(&self, sm: u32) -> bool {
        let family = self.sm / 10 == sm / 10 && self.sm <= sm;
        match (self.form, self.arch_suffix) {
            (CodeForm::Cubin | CodeForm::Ptx, Some('a')) => self.sm == sm,
            (CodeForm::Ptx, None) => self.sm <= sm,
            (CodeForm::Cubin | CodeForm::Ptx, _) => family,
            (CodeForm::LtoIr | CodeForm::Other(_), _) => false,
        }
    }

    /// Everything that is stored with the code, decompressed.
    pub(crate) fn unpack(&self) -> Result<Cow<'_, [u8]>, PayloadError> {
        let stored = self
            .bytes
            .get(self.packed.stored.clone())
            .ok_or(PayloadError::Truncated)?;
        Ok(match self.packed.compression {
            Compression::None | Compression::Opaque => Cow::Borrowed(stored),
            Compression::Lz4 => Cow::Owned(compression::lz4(stored, self.packed.raw_len)?),
            Compression::Zstd => Cow::Owned(compression::zstd(stored, self.packed.raw_len)?),
        })
    }

    /// The code, out of what [`Entry::unpack`] gives.
    pub(crate) fn part_of<'a>(&self, mut code: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        if let Some(member) = &self.packed.member {
            let start = usize::try_from(member.start).ok()?;
            code = cut(code, start..usize::try_from(member.end).ok()?)?;
        }
        if self.form == CodeForm::Ptx
            && let Some(end) = code.iter().position(|&byte| byte == 0)
        {
            code = cut(code, 0..end)?;
        }
        Some(code)
    }

    /// The bytes that hold the code, as they are stored: compressed, and with other entries when
    /// they were packed together.
    pub fn stored(&self) -> &[u8] {
        self.bytes
            .get(self.packed.stored.clone())
            .unwrap_or_default()
    }
}

/// A part of some bytes, without copying them.
fn cut(bytes: Cow<'_, [u8]>, range: Range<usize>) -> Option<Cow<'_, [u8]>> {
    match bytes {
        Cow::Borrowed(bytes) => bytes.get(range).map(Cow::Borrowed),
        Cow::Owned(mut bytes) => {
            bytes.get(range.clone())?;
            bytes.truncate(range.end);
            bytes.drain(..range.start);
            Some(Cow::Owned(bytes))
        }
    }
}

/// The bytes of an image, shared with its entries.
#[derive(Clone)]
pub(crate) struct Bytes(pub Arc<Vec<u8>>);

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// An entry of a fatbin.
pub(crate) fn of_fatbin(raw: RawEntry, bytes: &Bytes) -> Entry {
    Entry {
        form: CodeForm::of_kind(raw.kind),
        sm: raw.sm,
        arch_suffix: raw.arch_suffix(),
        version: raw.version,
        raw_len: raw.raw_len(),
        name: raw.name,
        options: raw.options,
        flags: raw.flags,
        compression: raw.packed.compression,
        range: raw.whole,
        packed: raw.packed,
        bytes: bytes.clone(),
        contents: OnceLock::new(),
    }
}

/// The only entry of an image that is no fatbin.
pub(crate) fn bare(form: CodeForm, arch: (u32, Option<char>), len: usize, bytes: &Bytes) -> Entry {
    let compression = Compression::None;
    Entry {
        form,
        sm: arch.0,
        arch_suffix: arch.1,
        version: (0, 0),
        name: None,
        options: None,
        flags: 0,
        compression,
        raw_len: len as u64,
        range: 0..len,
        packed: Packed {
            stored: 0..len,
            compression,
            raw_len: len as u64,
            member: None,
        },
        bytes: bytes.clone(),
        contents: OnceLock::new(),
    }
}
