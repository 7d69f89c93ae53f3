//! What of a kernel a point needs to become a candidate.

use serde::{Deserialize, Serialize};

/// A kernel, as far as its points depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelFacts {
    /// Its name, as the code has it.
    pub name: String,
    /// Threads of a block (x, y, z) that it was recorded with, in the launches that count most.
    pub block: [u32; 3],
    /// Most threads of a block for the recorded code; more need it to be compiled anew.
    pub max_threads: u32,
    /// Whether the recorded code runs on the device: what changes nothing in the code is launched as it was recorded.
    pub recorded_runs: bool,
    /// Whether there is code that can be compiled.
    pub compilable: bool,
    /// Whether the points are of a source that is given, and not of the recorded code.
    #[serde(default)]
    pub source: bool,
    /// Threads of a block of the recorded launches, where the text of a source wishes others.
    #[serde(default)]
    pub recorded_block: Option<[u32; 3]>,
}
