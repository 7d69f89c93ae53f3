//! What to compile, how, and what came of it: values that pass between processes and can be stored.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// Everything that decides what is compiled. Two equal recipes give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Recipe {
    /// The code to begin with.
    pub code: Code,
    /// Which way PTX takes. LLVM IR of other compilers goes through LLVM by either.
    pub route: Route,
    /// Keep this kernel and what it needs, drop the others; `None` keeps all.
    pub kernel: Option<String>,
    /// Target, e.g. `sm_90a`; `None` is that of the code.
    pub target: Option<String>,
    /// Version of PTX to write, as (major, minor); `None` is the least that fits code and target.
    pub ptx_version: Option<(u16, u16)>,
    /// What turns IR into better IR.
    pub pipeline: Pipeline,
    /// LLVM's own options, e.g. `-unroll-threshold=2000`. Global to a process: workers are kept apart by them.
    pub llvm_options: Vec<String>,
    /// How hard the code generator tries, 0 to 3.
    pub codegen_level: u8,
    /// Who may fuse multiplications and additions.
    pub contraction: Contraction,
    /// What becomes of `.pragma "nounroll"`, and counts for loops.
    pub unroll: Unroll,
    /// Device functions may be inlined where the original kept calls.
    pub inline_functions: bool,
    /// Loads, stores and reductions under a guard stay one instruction each, which LLVM does not see into, and do not become
    /// branches. For code that is written so, as Triton's is.
    pub keep_guards: bool,
    /// Facts about the launches that the code is for.
    pub specialisation: Specialisation,
    /// Launch bounds in place of the original's.
    pub bounds: Bounds,
    /// Steps towards faster and less exact arithmetic.
    pub approximate: Approximate,
    /// Loads from global memory that the kernel does not write, as far as its text tells, go through the read-only path
    /// (`ld.global.nc`).
    pub read_only_loads: bool,
    /// Cache operators of loads and stores in global memory.
    pub cache_operators: CacheOperators,
    /// How to make a cubin.
    pub assembler: Assembler,
    /// What to hand back.
    pub emit: Emit,
}

impl Recipe {
    /// Code as it is, through LLVM: no pass, the assembler fuses as in the original, nothing is assumed of launches, PTX alone comes back.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            route: Route::default(),
            kernel: None,
            target: None,
            ptx_version: None,
            pipeline: Pipeline::default(),
            llvm_options: Vec::new(),
            codegen_level: 3,
            contraction: Contraction::default(),
            unroll: Unroll::default(),
            inline_functions: false,
            keep_guards: false,
            specialisation: Specialisation::default(),
            bounds: Bounds::default(),
            approximate: Approximate::default(),
            read_only_loads: false,
            cache_operators: CacheOperators::default(),
            assembler: Assembler::default(),
            emit: Emit::default(),
        }
    }

    /// A hash of everything in it. The same in every process, on every machine and in every build with the same
    /// [`RECIPE_HASH_VERSION`]: it is that of the recipe's bytes in a fixed encoding. Recipes that are spelled differently and
    /// mean the same have different ones.
    pub fn content_hash(&self) -> u128 {
        // A recipe holds nothing that the encoding lacks: numbers, texts, lists and paths, which are texts. A path that is no
        // text is the one exception.
        match postcard::to_stdvec(&(RECIPE_HASH_VERSION, self)) {
            Ok(bytes) => xxh3_128(&bytes),
            Err(_) => xxh3_128(format!("{RECIPE_HASH_VERSION} {self:?}").as_bytes()),
        }
    }
}

/// Increases when a field of a recipe is added, or changes its meaning: hashes are other ones then.
pub const RECIPE_HASH_VERSION: u32 = 1;

/// Code in some form.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Code {
    /// PTX text.
    Ptx(String),
    /// LLVM bitcode.
    Bitcode(Vec<u8>),
    /// LLVM IR as text.
    Llvm(String),
    /// NVIDIA's LTO-IR, which only its own linker reads.
    LtoIr(Vec<u8>),
    /// CUDA C++.
    Source(Source),
}

/// Which way PTX takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Route {
    /// To LLVM IR, through passes and LLVM's code generator, and to the assembler.
    #[default]
    Lift,
    /// It stays text: constants, bounds and the like are written into it, and the assembler does the rest. What is for LLVM
    /// (pipeline, options, unroll counts, inlining, LLVM's contraction, IR as an answer) is refused.
    Text,
}

/// CUDA C++ and how to compile it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    /// Text of the file.
    pub text: String,
    /// Name of the file, for messages and for includes beside it.
    pub name: PathBuf,
    /// Headers by name, given with the source (as NVRTC takes them).
    pub headers: Vec<(String, String)>,
    /// Expressions that name instances of templates which the code must have (NVRTC's name expressions).
    pub name_expressions: Vec<String>,
    /// Which compiler.
    pub compiler: Compiler,
    /// The compiler itself: a program, or NVRTC's library. `None` looks for it.
    pub program: Option<PathBuf>,
    /// Its options: include folders, defines, `-O3`, `-use_fast_math` and so on.
    pub options: Vec<String>,
    /// Folder in which the compiler runs; relative paths in `options` are from here.
    pub directory: Option<PathBuf>,
}

/// A compiler of CUDA C++.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Compiler {
    /// The first that is found: nvcc, NVRTC, clang.
    #[default]
    #[serde(rename = "auto")]
    Any,
    /// clang, device code only.
    Clang,
    /// NVIDIA's run-time compiler.
    Nvrtc,
    /// nvcc.
    Nvcc,
}

/// A pipeline of LLVM passes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pipeline {
    /// No pass: code generation alone.
    #[default]
    Nothing,
    /// `default<O0>` … `default<O3>`, `default<Os>`, `default<Oz>`.
    Preset(Preset),
    /// In the syntax of `opt -passes=`.
    Text(String),
}

/// LLVM's own pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "LLVM's names")]
pub enum Preset {
    O0,
    O1,
    O2,
    O3,
    Os,
    Oz,
}

/// Who may fuse `a*b+c` into one rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contraction {
    /// The assembler, exactly where it might in the original: the same bits.
    #[default]
    Assembler,
    /// LLVM too: other roundings, sometimes faster.
    Llvm,
}

/// Unrolling, apart from what the pipeline decides by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unroll {
    /// Loops marked `nounroll` stay rolled.
    #[default]
    Keep,
    /// The marks are dropped.
    Free,
    /// Every loop gets this count as metadata; the marks are dropped.
    Count(u32),
}

/// Facts about the launches that the code is for. Each becomes a [`Guard`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Specialisation {
    /// Bytes of parameters that are constant: (parameter, offset in it, bytes).
    pub params: Vec<(u32, u32, Vec<u8>)>,
    /// The grid (x, y, z).
    pub grid: Option<[u32; 3]>,
    /// The block (x, y, z).
    pub block: Option<[u32; 3]>,
    /// Pointer parameters whose memory no other parameter's accesses reach.
    pub noalias: Vec<u32>,
    /// Pointer parameters and the alignment of their values, in bytes (a power of two).
    pub align: Vec<(u32, u32)>,
}

/// Launch bounds. `None` keeps the original's; zeros remove the directive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// `.maxnreg`: registers of a thread.
    pub maxnreg: Option<u32>,
    /// `.maxntid`: threads of a block.
    pub maxntid: Option<u32>,
    /// `.minnctapersm`: blocks that must fit on a multiprocessor. Assemblers heed it only with a block size.
    pub minnctapersm: Option<u32>,
    /// `.reqntid`: the block, exactly; a launch with another one fails. It takes the place of `.maxntid`, which says nothing
    /// beside it.
    pub reqntid: Option<[u32; 3]>,
}

/// Steps towards faster arithmetic. Each changes results, so that a tolerance is needed.
///
/// They are taken in PTX, by both routes, and a source's own compiler is told as well: `-prec-div=false`, `-ftz=true` and
/// the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Approximate {
    /// `div`, `sqrt` and `rcp` of single precision that round to nearest become their `.approx` forms.
    pub division: bool,
    /// Subnormal single-precision numbers are flushed to zero (`.ftz`).
    pub flush: bool,
    /// Fast and inexact sines, cosines, exponentials, logarithms and powers (`-use_fast_math`). For source only: in PTX
    /// these functions are not calls any more.
    pub functions: bool,
}

/// Cache operators of plain loads and stores in global memory, where the code has none of its own. `None` leaves them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheOperators {
    /// Of loads.
    pub loads: Option<LoadOperator>,
    /// Of stores.
    pub stores: Option<StoreOperator>,
}

/// How a load uses caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOperator {
    /// `.ca`: all levels.
    All,
    /// `.cg`: L2 and below.
    Global,
    /// `.cs`: likely used once.
    Streaming,
    /// `.L1::no_allocate`: no place in L1.
    NoAllocate,
    /// `.L1::evict_first`: first to leave L1.
    EvictFirst,
    /// `.L1::evict_last`: last to leave L1.
    EvictLast,
}

/// How a store uses caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreOperator {
    /// `.wb`: write back.
    WriteBack,
    /// `.cg`: L2 and below.
    Global,
    /// `.cs`: likely used once.
    Streaming,
    /// `.wt`: write through.
    WriteThrough,
}

/// How to make a cubin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assembler {
    /// Which one.
    pub kind: AssemblerKind,
    /// Architecture to assemble for, e.g. `sm_90a`; `None` is the target.
    pub arch: Option<String>,
    /// Options in `ptxas` spelling: `-O3`, `-dlcm=cg`, `-maxrregcount=64`.
    pub options: Vec<String>,
}

/// An assembler of PTX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AssemblerKind {
    /// `ptxas`, else nvJitLink, which makes other code: see [`assemble`](mod@crate::assemble).
    #[default]
    Any,
    /// nvJitLink.
    NvJitLink,
    /// `ptxas`.
    Ptxas,
}

/// What to hand back. PTX is always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Emit {
    /// LLVM IR after the passes, as text.
    pub llvm: bool,
    /// A cubin and what it uses.
    pub cubin: bool,
}

/// A compiled recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// LLVM IR after the passes, if asked for.
    pub llvm: Option<String>,
    /// PTX.
    pub ptx: String,
    /// Cubin, if asked for.
    pub cubin: Option<Cubin>,
    /// Under which conditions it may stand for the original.
    pub guards: Vec<Guard>,
    /// What became of each thing that the recipe asks for and that depends on the code.
    pub changes: Vec<Change>,
    /// What the user should know: functions kept as text, libdevice linked, tools chosen.
    pub notes: Vec<String>,
    /// How long each stage took. Not part of what equal recipes have in common.
    pub timings: Vec<(Stage, Duration)>,
}

impl Product {
    /// What the recipe asks for and the code has no use for. Without it the same code comes out.
    pub fn without_effect(&self) -> impl Iterator<Item = Knob> + '_ {
        let idle = |change: &&Change| change.places == Some(0);
        self.changes.iter().filter(idle).map(|change| change.knob)
    }
}

/// What a recipe asked for did to the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// What was asked for.
    pub knob: Knob,
    /// Instructions or directives that are different now; 0: the code has no use for it. `None`: it was done by a compiler,
    /// which does not tell where.
    pub places: Option<u32>,
}

/// What a recipe can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// [`Specialisation::params`].
    Params,
    /// [`Specialisation::grid`].
    Grid,
    /// [`Specialisation::block`].
    Block,
    /// [`Specialisation::noalias`].
    NoAlias,
    /// [`Specialisation::align`].
    Align,
    /// [`Bounds::maxnreg`].
    MaxRegisters,
    /// [`Bounds::maxntid`].
    MaxThreads,
    /// [`Bounds::minnctapersm`].
    MinBlocks,
    /// [`Bounds::reqntid`].
    RequiredThreads,
    /// [`Recipe::unroll`].
    Unroll,
    /// [`Approximate::division`].
    Division,
    /// [`Approximate::flush`].
    Flush,
    /// [`Approximate::functions`].
    Functions,
    /// [`Recipe::read_only_loads`].
    ReadOnlyLoads,
    /// [`CacheOperators::loads`].
    LoadOperator,
    /// [`CacheOperators::stores`].
    StoreOperator,
}

/// A cubin and what is read from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cubin {
    /// The ELF file.
    pub bytes: Vec<u8>,
    /// Which assembler made it, with its version.
    pub assembler: String,
    /// Kernels in it.
    pub kernels: Vec<Resources>,
}

/// What a kernel uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Name.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread spills into local memory (stores, loads), where the assembler tells.
    pub spills: Option<(u32, u32)>,
    /// Local memory of a thread, in bytes: arrays, spills and call frames.
    pub local: u32,
    /// Static shared memory of a block, in bytes.
    pub shared: u32,
    /// Machine instructions by their first word, most frequent first, where a disassembler is present.
    pub mix: Option<Vec<(String, u32)>>,
    /// Bytes of machine code.
    pub code_bytes: u64,
}

/// What must hold of a launch for specialised code to be right.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Guard {
    /// Bytes of a parameter.
    Param {
        /// Position.
        index: u32,
        /// Offset in it.
        offset: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The grid.
    Grid([u32; 3]),
    /// The block.
    Block([u32; 3]),
    /// No other parameter's accesses reach the memory of this one.
    NoAlias {
        /// Position.
        index: u32,
    },
    /// A pointer's alignment.
    Align {
        /// Position.
        index: u32,
        /// In bytes.
        bytes: u32,
    },
}

/// A step of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// CUDA C++ by a compiler of its own.
    Source,
    /// Reading PTX or bitcode.
    Parse,
    /// PTX to LLVM IR.
    Lift,
    /// Specialisation.
    Specialise,
    /// Linking libdevice.
    Link,
    /// The pass pipeline.
    Passes,
    /// LLVM IR to PTX.
    Emit,
    /// PTX to a cubin.
    Assemble,
    /// Around it: the worker itself.
    Worker,
}

/// Why there is no product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{stage:?}: {message}")]
pub struct Failure {
    /// Where.
    pub stage: Stage,
    /// What kind.
    pub kind: FailureKind,
    /// What was said, in one or a few lines.
    pub message: String,
    /// End of the compiler's or assembler's log.
    pub log: String,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureKind {
    /// The input was refused.
    Refused,
    /// A tool is not there.
    MissingTool,
    /// The worker died: a signal, `report_fatal_error`, an exit.
    Crash,
    /// It ran past its time limit.
    Timeout,
    /// It ran past its memory limit.
    Memory,
    /// The machine failed, and nothing is said of the input: a file that cannot be written.
    Machine,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of this number means that all stored hashes are void: then `RECIPE_HASH_VERSION` has to be another one.
    #[test]
    fn the_hash_is_that_of_the_content_and_of_nothing_else() {
        let recipe = Recipe {
            kernel: Some("k".to_owned()),
            route: Route::Text,
            specialisation: Specialisation {
                params: vec![(1, 4, vec![7, 0])],
                ..Specialisation::default()
            },
            ..Recipe::new(Code::Ptx(".version 8.5".to_owned()))
        };
        assert_eq!(RECIPE_HASH_VERSION, 1);
        assert_eq!(
            format!("{:032x}", recipe.content_hash()),
            "4c264454acb0a2290c1e011f927e482b"
        );
        let again: Recipe = serde_json::from_str(&serde_json::to_string(&recipe).unwrap()).unwrap();
        assert_eq!(again.content_hash(), recipe.content_hash());
    }

    #[test]
    fn every_field_changes_the_hash() {
        let plain = Recipe::new(Code::Ptx(String::new()));
        let changes: Vec<fn(&mut Recipe)> = vec![
            |r| r.code = Code::Llvm(String::new()),
            |r| r.route = Route::Text,
            |r| r.kernel = Some(String::new()),
            |r| r.target = Some(String::new()),
            |r| r.ptx_version = Some((0, 0)),
            |r| r.pipeline = Pipeline::Text(String::new()),
            |r| r.llvm_options.push(String::new()),
            |r| r.codegen_level = 2,
            |r| r.contraction = Contraction::Llvm,
            |r| r.unroll = Unroll::Free,
            |r| r.inline_functions = true,
            |r| r.keep_guards = true,
            |r| r.specialisation.grid = Some([1, 1, 1]),
            |r| r.specialisation.block = Some([1, 1, 1]),
            |r| r.bounds.maxnreg = Some(0),
            |r| r.bounds.reqntid = Some([0, 0, 0]),
            |r| r.approximate.division = true,
            |r| r.approximate.flush = true,
            |r| r.approximate.functions = true,
            |r| r.read_only_loads = true,
            |r| r.cache_operators.loads = Some(LoadOperator::All),
            |r| r.cache_operators.stores = Some(StoreOperator::WriteBack),
            |r| r.assembler.options.push(String::new()),
            |r| r.emit.llvm = true,
            |r| r.emit.cubin = true,
        ];
        let mut seen = std::collections::BTreeSet::from([plain.content_hash()]);
        for change in changes {
            let mut recipe = plain.clone();
            change(&mut recipe);
            assert!(seen.insert(recipe.content_hash()), "{recipe:?}");
        }
    }

    #[test]
    fn a_bound_that_is_none_is_an_error() {
        assert_eq!(
            serde_json::from_str::<Bounds>(r#"{"maxnreg": 48}"#)
                .unwrap()
                .maxnreg,
            Some(48)
        );
        let error = serde_json::from_str::<Bounds>(r#"{"maxregs": 48}"#).unwrap_err();
        assert!(error.to_string().contains("maxregs"));
        let operators: CacheOperators =
            serde_json::from_str(r#"{"loads": "no_allocate"}"#).unwrap();
        assert_eq!(operators.loads, Some(LoadOperator::NoAllocate));
    }
}
