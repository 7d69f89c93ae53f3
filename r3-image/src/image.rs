//! An image and its entries; look-up of kernels and variables over all of them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bytes::u32_at;
use crate::compression::{self, PayloadError};
use crate::entry::{self, Bytes, CodeForm, Contents, Entry};
use crate::fatbin;
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
                    .map(|raw| entry::of_fatbin(raw, &bytes))
                    .collect()
            }
            ImageKind::Cubin => {
                let arch = cubin::architecture(&bytes);
                vec![entry::bare(CodeForm::Cubin, arch, bytes.len(), &bytes)]
            }
            ImageKind::Ptx => {
                let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                let text = bytes.get(..len).unwrap_or_default();
                let (version, arch) = ptx::header(text);
                let mut entry = entry::bare(CodeForm::Ptx, arch, len, &bytes);
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
