//! An image and its entries; look-up of kernels and variables over all of them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::bytes::u32_at;
use crate::compression::{self, Compression, PayloadError};
use crate::fatbin::{self, Packed, RawEntry};
use crate::kernel::{KernelInfo, Space, Variable};
use crate::problem::{Problem, ProblemKind, Problems};
use crate::{cubin, ptx};

/// What kind of bytes an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// One or more fatbin containers, one after the other.
    Fatbin,
    /// A cubin: an ELF file for one architecture.
    Cubin,
    /// PTX text.
    Ptx,
    /// Something else.
    Unknown,
}

impl ImageKind {
    /// The kind of `bytes`, from how they begin.
    pub fn of(bytes: &[u8]) -> ImageKind {
        if u32_at(bytes, 0) == Some(fatbin::CONTAINER_MAGIC) {
            ImageKind::Fatbin
        } else if cubin::is_cubin(bytes) {
            ImageKind::Cubin
        } else if ptx::looks_like_ptx(bytes) {
            ImageKind::Ptx
        } else {
            ImageKind::Unknown
        }
    }
}

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

/// One line of [`Image::code_forms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeFormSummary {
    /// The form.
    pub form: CodeForm,
    /// Architecture, e.g. 90 for `sm_90`.
    pub sm: u32,
    /// `a` in `sm_90a`, `f` in `sm_100f`.
    pub arch_suffix: Option<char>,
    /// How many entries are like this.
    pub entries: usize,
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
    packed: Packed,
    bytes: Bytes,
    contents: OnceLock<Contents>,
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
    fn unpack(&self) -> Result<Cow<'_, [u8]>, PayloadError> {
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
    fn part_of<'a>(&self, mut code: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
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
struct Bytes(Arc<Vec<u8>>);

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

/// A device-code image: a fatbin, a cubin or PTX text.
///
/// [`Image::parse`] only walks headers. Code is decompressed and read when first asked for, and
/// what it declares is then kept.
#[derive(Debug)]
pub struct Image {
    kind: ImageKind,
    bytes: Bytes,
    containers: Vec<Range<usize>>,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
    /// Bytes that may still be decompressed for look-ups.
    budget: AtomicU64,
}

impl Image {
    /// Reads an image. Never fails: see [`Image::problems`].
    pub fn parse(bytes: &[u8]) -> Image {
        Image::from_vec(bytes.to_vec())
    }

    /// As [`Image::parse`], without copying the bytes.
    pub fn from_vec(bytes: Vec<u8>) -> Image {
        let bytes = Bytes(Arc::new(bytes));
        let mut problems = Problems::default();
        let kind = ImageKind::of(&bytes);
        let mut containers = Vec::new();
        let entries = match kind {
            ImageKind::Fatbin => {
                let (found, raw) = fatbin::containers(&bytes, &mut problems);
                containers = found;
                raw.into_iter()
                    .map(|raw| fatbin_entry(raw, &bytes))
                    .collect()
            }
            ImageKind::Cubin => {
                let arch = cubin::architecture(&bytes);
                vec![bare_entry(CodeForm::Cubin, arch, bytes.len(), &bytes)]
            }
            ImageKind::Ptx => {
                let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                let text = bytes.get(..len).unwrap_or_default();
                let (version, arch) = ptx::header(text);
                let mut entry = bare_entry(CodeForm::Ptx, arch, len, &bytes);
                entry.version = version;
                vec![entry]
            }
            ImageKind::Unknown => {
                problems.add("image", ProblemKind::UnknownImage);
                Vec::new()
            }
        };
        let budget = (bytes.len() as u64).saturating_mul(64).max(256 << 20);
        Image {
            kind,
            bytes,
            containers,
            entries,
            problems: problems.into_vec(),
            budget: AtomicU64::new(budget),
        }
    }

    /// What kind of image this is.
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// The whole image.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The fatbin containers, as ranges of [`Image::bytes`]. Empty for other kinds.
    pub fn containers(&self) -> &[Range<usize>] {
        &self.containers
    }

    /// The pieces of code, in the order of the image.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What was not understood of the image's outer structure. See also [`Image::check`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Reads every entry and lists all that was not understood, the outer structure included.
    pub fn check(&self) -> Vec<Problem> {
        let mut all = self.problems.clone();
        for (index, entry) in self.entries.iter().enumerate() {
            all.extend(self.contents(entry).problems.iter().map(|problem| Problem {
                place: if self.kind == ImageKind::Fatbin {
                    format!("entry {index}, {}", problem.place)
                } else {
                    problem.place.clone()
                },
                kind: problem.kind.clone(),
            }));
        }
        all
    }

    /// Code forms and architectures, ascending, with the number of entries of each.
    pub fn code_forms(&self) -> Vec<CodeFormSummary> {
        let mut counts = BTreeMap::new();
        for entry in &self.entries {
            *counts
                .entry((entry.form, entry.sm, entry.arch_suffix))
                .or_insert(0) += 1;
        }
        counts
            .into_iter()
            .map(|((form, sm, arch_suffix), entries)| CodeFormSummary {
                form,
                sm,
                arch_suffix,
                entries,
            })
            .collect()
    }

    /// A kernel by its mangled name: from the cubin of the highest architecture, else from PTX.
    pub fn kernel(&self, name: &str) -> Option<KernelInfo> {
        self.best_kernel(name, |_| true)
    }

    /// As [`Image::kernel`], among the code that a GPU of architecture `sm` can run; see
    /// [`Entry::runs_on`].
    pub fn kernel_for(&self, name: &str, sm: u32) -> Option<KernelInfo> {
        self.best_kernel(name, |entry| entry.runs_on(sm))
    }

    fn best_kernel(&self, name: &str, wanted: impl Fn(&Entry) -> bool) -> Option<KernelInfo> {
        let mut candidates: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| matches!(entry.form, CodeForm::Cubin | CodeForm::Ptx) && wanted(entry))
            .collect();
        candidates.sort_by_key(|entry| {
            Reverse((
                entry.form == CodeForm::Cubin,
                entry.sm,
                entry.arch_suffix.is_some(),
            ))
        });
        let mut kernels = candidates.into_iter().filter_map(|entry| {
            let kernels = &self.contents(entry).kernels;
            let at = kernels
                .binary_search_by(|kernel| kernel.name.as_str().cmp(name))
                .ok()?;
            kernels.get(at)
        });
        let first = kernels.next()?;
        if first.params_known {
            return Some(first.clone());
        }
        // A damaged entry does not hide a layout that another one has.
        let other = kernels.find(|kernel| kernel.params_known);
        Some(other.unwrap_or(first).clone())
    }

    /// The parameter layout of a kernel as (offset, size), in order, when it is known.
    pub fn kernel_layout(&self, name: &str) -> Option<Vec<(u32, u32)>> {
        let kernel = self.kernel(name).filter(|kernel| kernel.params_known)?;
        Some(
            kernel
                .params
                .iter()
                .map(|param| (param.offset, param.size))
                .collect(),
        )
    }

    /// Names of all kernels in cubins and PTX, ascending, each once.
    pub fn kernel_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .entries
            .iter()
            .flat_map(|entry| {
                self.contents(entry)
                    .kernels
                    .iter()
                    .map(|kernel| kernel.name.clone())
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Variables of all cubins and PTX, ascending by name, each once. Cubins count before PTX.
    pub fn variables(&self) -> Vec<Variable> {
        let mut all: BTreeMap<&str, Variable> = BTreeMap::new();
        let cubins = self
            .entries
            .iter()
            .filter(|entry| entry.form == CodeForm::Cubin);
        let texts = self
            .entries
            .iter()
            .filter(|entry| entry.form == CodeForm::Ptx);
        for variable in cubins
            .chain(texts)
            .flat_map(|entry| &self.contents(entry).variables)
        {
            all.entry(&variable.name)
                .and_modify(|known| {
                    known.size = known.size.max(variable.size);
                    known.initialised |= variable.initialised;
                    if variable.space == Space::Managed {
                        known.space = Space::Managed;
                    }
                })
                .or_insert_with(|| variable.clone());
        }
        all.into_values().collect()
    }

    fn contents<'a>(&self, entry: &'a Entry) -> &'a Contents {
        entry.contents.get_or_init(|| {
            let read = match entry.form {
                CodeForm::Cubin => cubin::read,
                CodeForm::Ptx => ptx::read,
                CodeForm::LtoIr | CodeForm::Other(_) => return Contents::default(),
            };
            let failed = |kind| {
                let mut problems = Problems::default();
                problems.add("payload", kind);
                Contents {
                    problems: problems.into_vec(),
                    ..Contents::default()
                }
            };
            if self.budget.load(Ordering::Relaxed) == 0 {
                return failed(ProblemKind::Limit("the image expands to too many bytes"));
            }
            let unpacked = entry.unpack();
            let spent = match &unpacked {
                Ok(Cow::Borrowed(_)) => 0,
                Ok(Cow::Owned(bytes)) => bytes.len() as u64,
                Err(_) => compression::limit_for(entry.packed.stored.len() as u64),
            };
            let left = self.budget.load(Ordering::Relaxed).saturating_sub(spent);
            self.budget.store(left, Ordering::Relaxed);
            match unpacked.map(|bytes| entry.part_of(bytes)) {
                Ok(Some(code)) => read(&code),
                Ok(None) => failed(PayloadError::Truncated.into()),
                Err(error) => failed(error.into()),
            }
        })
    }
}

fn fatbin_entry(raw: RawEntry, bytes: &Bytes) -> Entry {
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

fn bare_entry(form: CodeForm, arch: (u32, Option<char>), len: usize, bytes: &Bytes) -> Entry {
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
