//! What is the same in all prompts of a run.

use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::remix::pairs::Ratio;

use super::target::Target;

/// What the head is made of.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// The kernel, its parameters, launches and device.
    pub kernel: &'a KernelDescription,
    /// The source as given.
    pub target: &'a Target,
    /// What compiles it, in words: `NVRTC 13.0 for sm_90, -std=c++17`.
    pub compiler: &'a str,
    /// What device code may not do: a name and a sentence for each rule.
    pub rules: &'a [(String, String)],
    /// How exact results must be, in words, one line for a buffer or for all; empty when bits are compared.
    pub tolerance: &'a [String],
    /// The unchanged source against the captured binary.
    pub source: Option<Ratio>,
    /// Bytes of the head at most.
    pub budget: usize,
}

/// The static beginning of all prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    text: String,
    regions: usize,
    edits: bool,
}

/// Why there is no head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The source is too long.
    #[error(
        "what may be changed of the source has {bytes} bytes, and a prompt has room for {most}: mark a smaller part with \
         `// r3: evolve begin` and `// r3: evolve end`, or allow longer prompts"
    )]
    TooLong {
        /// Bytes of the regions.
        bytes: usize,
        /// Bytes that there is room for.
        most: usize,
    },
}

impl Head {
    /// The head of a run.
    pub fn new(about: &About<'_>) -> Result<Self, HeadError> {
        let _ = about;
        Ok(Self {
            text: String::new(),
            regions: about.target.regions.len(),
            edits: true,
        })
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}
