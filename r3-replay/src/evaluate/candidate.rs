//! What is tried: code, how it is compiled, how it is launched.

use std::fmt;

use r3_codegen::recipe::{self, Bounds, CacheOperators, Compiler, Contraction};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::remix::origin::From;

/// A candidate for a kernel. What is left out is as in the original.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Candidate {
    /// The code to begin with.
    pub code: CandidateCode,
    /// What is done to it.
    pub build: Build,
    /// How it is launched.
    pub launch: LaunchChange,
}

/// Code to begin with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateCode {
    /// The recorded code itself, as the application loaded it. Nothing is compiled, so that only the launch can change.
    #[default]
    Recorded,
    /// A form that the archive has: the best one, or the best of a kind.
    Captured {
        /// Which kind.
        #[serde(default)]
        from: Option<From>,
    },
    /// PTX.
    Ptx(String),
    /// LLVM IR as text.
    Llvm(String),
    /// LLVM bitcode.
    Bitcode(#[serde(with = "base64_bytes")] Vec<u8>),
    /// Machine code. Nothing is compiled.
    Cubin(#[serde(with = "base64_bytes")] Vec<u8>),
    /// CUDA C++.
    Source(SourceCode),
}

/// CUDA C++ as it is given to a candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SourceCode {
    /// Text of the file.
    pub text: String,
    /// The file, for messages and for includes beside it; relative to `directory`.
    pub name: String,
    /// The kernel's (mangled) name in what the compiler makes of it. Left out: that of the captured kernel, or the only one
    /// that differs from it in no more than what compilers make up (static functions, unnamed namespaces).
    pub kernel: Option<String>,
    /// Which compiler; `auto` is the first that is there and takes it.
    pub compiler: Compiler,
    /// The compiler itself: a program called nvcc or clang, or NVRTC's library. Left out: it is looked for.
    pub program: Option<String>,
    /// Compiler options, in any compiler's spelling: include folders, defines, `-O3`.
    pub options: Vec<String>,
    /// Folder in which the compiler runs, from which relative paths in `options` and `name` are; an absolute path on the
    /// machine of the evaluator. Left out: an empty folder.
    pub directory: Option<String>,
    /// Headers by name, given with the source.
    pub headers: Vec<(String, String)>,
    /// Instances of templates that the code must have, as C++ spells them: `scale<float, 4>`.
    pub instances: Vec<String>,
    /// Whether the compiler is given the text without what is for the host alone. Lines stay where they are.
    pub device_part: bool,
}

/// What is done to the code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Build {
    /// Whether the code goes through LLVM.
    pub route: Route,
    /// Pipeline of LLVM passes in the syntax of `opt -passes=`, e.g. `default<O3>`; nothing runs when it is empty. For
    /// [`Route::Lift`].
    pub passes: String,
    /// LLVM's own options, e.g. `-unroll-threshold=2000`.
    pub llvm_options: Vec<String>,
    /// How hard LLVM's code generator tries, 0 to 3.
    pub codegen_level: u8,
    /// Who may fuse multiplications and additions.
    pub contraction: Contraction,
    /// What becomes of `.pragma "nounroll"`, and counts for loops.
    pub unroll: r3_codegen::recipe::Unroll,
    /// Device functions may be inlined where the original kept calls.
    pub inline_functions: bool,
    /// Guarded loads and stores stay one instruction each.
    pub keep_guards: bool,
    /// Facts of the launches that become constants: `scalars`, `param:N`, `grid`, `block`, `noalias`, `align`. A scalar
    /// is taken only where all launches that the candidate is tuned on have the same value.
    pub specialise: Vec<String>,
    /// Steps towards faster and less exact arithmetic.
    pub approximate: Approximate,
    /// Loads from global memory go through the read-only path (`ld.global.nc`).
    pub read_only_loads: bool,
    /// Cache operators of loads and stores in global memory, where the code has none of its own.
    pub cache_operators: CacheOperators,
    /// Launch bounds in place of the original's.
    pub bounds: Bounds,
    /// Options of the assembler in `ptxas` spelling: `-dlcm=cs`, `-O2`.
    pub assembler_options: Vec<String>,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            route: Route::default(),
            passes: String::new(),
            llvm_options: Vec::new(),
            codegen_level: 3,
            contraction: Contraction::default(),
            unroll: r3_codegen::recipe::Unroll::default(),
            inline_functions: false,
            keep_guards: false,
            specialise: Vec::new(),
            approximate: Approximate::default(),
            read_only_loads: false,
            cache_operators: CacheOperators::default(),
            bounds: Bounds::default(),
            assembler_options: Vec::new(),
        }
    }
}

impl Build {
    /// Its approximations, as recipes have them.
    pub fn approximate(&self) -> recipe::Approximate {
        let Approximate {
            division,
            flush,
            functions,
        } = self.approximate;
        recipe::Approximate {
            division,
            flush,
            functions,
        }
    }
}

/// Which way the code takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// PTX stays text: constants, bounds and approximations are written into it, and the assembler does the rest.
    #[default]
    Text,
    /// PTX is lifted to LLVM IR, goes through passes and LLVM's code generator, and then to the assembler.
    Lift,
}

/// Steps towards faster arithmetic. Each changes results, so that a tolerance is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Approximate {
    /// `div`, `sqrt` and `rcp` in single precision become their `.approx` forms.
    pub division: bool,
    /// Subnormal single-precision numbers are flushed to zero.
    pub flush: bool,
    /// What `-use_fast_math` does to sine, cosine, exponentials, logarithms and powers. For source only.
    pub functions: bool,
}

/// How the launch differs from the recorded one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaunchChange {
    /// Threads of a block (x, y, z).
    pub block: Option<[u32; 3]>,
    /// Blocks of the grid in each dimension.
    pub grid: [GridRule; 3],
    /// Dynamic shared memory.
    pub shared: SharedRule,
    /// Part of the L1 cache that is to be shared memory, in percent (`CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`).
    pub carveout: Option<u32>,
}

/// How many blocks a dimension of the grid gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridRule {
    /// At least as many threads as recorded: ceil(recorded blocks × recorded threads ÷ new threads).
    #[default]
    Cover,
    /// As recorded, whatever the block is.
    Same,
    /// So many.
    Blocks(u32),
    /// The recorded number, times the first and divided by the second, rounded up. For kernels in which a thread does more
    /// or fewer elements.
    Scale(u32, u32),
}

/// How much dynamic shared memory a block gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedRule {
    /// As recorded.
    #[default]
    Same,
    /// In proportion to the threads of a block, rounded up to 16 bytes.
    PerThread,
    /// So many bytes.
    Bytes(u32),
}

/// Identity of a candidate: a hash of everything that decides what it is. Two candidates with the same meaning but
/// another spelling have different ones; the machine code tells them to be equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(pub u128);

/// Increases when the meaning of a field changes.
const HASH_VERSION: u32 = 2;

impl Candidate {
    /// Its identity. Stable between processes, machines and versions of R3 with the same `HASH_VERSION`.
    pub fn id(&self) -> CandidateId {
        // A candidate holds nothing that postcard cannot encode.
        let bytes = postcard::to_stdvec(&(HASH_VERSION, self)).unwrap_or_default();
        CandidateId(xxh3_128(&bytes))
    }
}

impl fmt::Display for CandidateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for CandidateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for CandidateId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| text.len() == 32)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no candidate: 32 hexadecimal digits are expected"))
    }
}

impl Serialize for CandidateId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CandidateId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Bytes as text in formats for people.
pub(crate) mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&STANDARD.encode(bytes))
        } else {
            serializer.serialize_bytes(bytes)
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            STANDARD.decode(text).map_err(serde::de::Error::custom)
        } else {
            Vec::<u8>::deserialize(deserializer)
        }
    }
}

/// As [`base64_bytes`], of what may be missing.
pub(crate) mod base64_bytes_or_none {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Bytes(#[serde(with = "super::base64_bytes")] Vec<u8>);

    pub fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.clone().map(Bytes).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let bytes = Option::<Bytes>::deserialize(deserializer)?;
        Ok(bytes.map(|Bytes(bytes)| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_reads_as_people_write_it_and_comes_back_as_it_was() {
        let text = r#"{"code": {"captured": {}}, "build": {"route": "lift", "passes": "default<O3>"},
            "launch": {"block": [128, 1, 1], "grid": ["cover", "same", {"blocks": 4}], "shared": "per_thread"}}"#;
        let candidate: Candidate = serde_json::from_str(text).unwrap();
        assert_eq!(candidate.launch.grid[2], GridRule::Blocks(4));
        assert_eq!(candidate.build.codegen_level, 3);
        let again = serde_json::to_string(&candidate).unwrap();
        assert_eq!(
            serde_json::from_str::<Candidate>(&again).unwrap(),
            candidate
        );
        let bytes = postcard::to_stdvec(&candidate).unwrap();
        assert_eq!(
            postcard::from_bytes::<Candidate>(&bytes).unwrap(),
            candidate
        );
    }

    #[test]
    fn an_unknown_field_is_an_error_and_not_ignored() {
        let error =
            serde_json::from_str::<Candidate>(r#"{"launch": {"blok": [1, 1, 1]}}"#).unwrap_err();
        assert!(error.to_string().contains("blok"), "{error}");
    }

    #[test]
    fn the_identity_is_the_content_s_and_is_written_as_hexadecimal_digits() {
        let one = Candidate::default();
        let mut other = one.clone();
        assert_eq!(one.id(), other.id());
        other.launch.block = Some([64, 1, 1]);
        assert_ne!(one.id(), other.id());
        assert_eq!(one.id().to_string().parse(), Ok(one.id()));
        assert!("12".parse::<CandidateId>().is_err());
    }
}
