//! One kernel with everything that it runs on.

use std::collections::HashMap;

/// A test case: a kernel, its launch, its buffers, and how its results are to be compared.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name, unique: `family/what`.
    pub name: String,
    /// PTX text of one module.
    pub ptx: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// All blocks resident at once.
    pub cooperative: bool,
    /// Assemble without optimisation. Optimisation may change what is not stated: the sign of a NaN, for example.
    pub as_written: bool,
    /// The kernel's parameters, in order: the address of each buffer.
    pub buffers: Vec<Buffer>,
}

/// Memory that a kernel is given.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Bytes before the launch.
    pub bytes: Vec<u8>,
    /// What to compare after it; `None` for an input.
    pub result: Option<Result>,
}

/// How a buffer of results is read and compared.
#[derive(Clone, Debug)]
pub struct Result {
    /// Type of its elements.
    pub element: Element,
    /// The instruction whose accuracy bounds the difference; `None` for exact results.
    pub approximate: Option<String>,
    /// Index of the buffers with the sources, in the order of the operands: to tell where a bound holds.
    pub sources: Vec<usize>,
    /// Where single words of the buffer are approximate.
    pub mixed: Option<Mixed>,
}

/// A buffer of equal parts, in which some words are approximate single-precision numbers.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// Bytes of a part.
    pub stride: u32,
    /// Where the parts end; what follows is exact.
    pub end: u32,
    /// Offset in a part, and the instruction.
    pub approximate: HashMap<u32, String>,
}

impl Result {
    /// The instruction that bounds the error of the element at this offset, with the element's type.
    pub fn approximation(&self, offset: usize) -> Option<(&str, Element)> {
        let Some(mixed) = &self.mixed else {
            return Some((self.approximate.as_deref()?, self.element));
        };
        let offset = u32::try_from(offset)
            .ok()
            .filter(|offset| *offset < mixed.end)?;
        Some((
            mixed.approximate.get(&(offset % mixed.stride))?,
            Element::F32,
        ))
    }

    /// Offsets of the words that are approximate, where single words are.
    pub fn approximate_words(&self, len: usize) -> impl Iterator<Item = usize> {
        (0..len)
            .step_by(4)
            .filter(|&at| self.mixed.is_some() && self.approximation(at).is_some())
    }

    /// Whether any element is approximate.
    pub fn is_approximate(&self) -> bool {
        self.approximate.is_some()
            || self
                .mixed
                .as_ref()
                .is_some_and(|mixed| !mixed.approximate.is_empty())
    }
}

/// Type of an element of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Bits, so many bytes.
    Bits(u8),
    /// Half precision.
    F16,
    /// Two of half precision.
    F16x2,
    /// bfloat16
    Bf16,
    /// Two of bfloat16.
    Bf16x2,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Element {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bits(bytes) => bytes.into(),
            Self::F16 | Self::Bf16 => 2,
            Self::F16x2 | Self::Bf16x2 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

impl Case {
    /// The part of the name before the slash.
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}
