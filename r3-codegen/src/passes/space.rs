//! The passes that make sense on device code, with their parameters, as data: random pipelines and searches draw from it.
//!
//! Left out on purpose, although LLVM has them:
//! - wrong code on record in this version of LLVM: `loop-fusion` (llvm-project #191238; also crashes and hangs),
//!   `loop-interchange` (#202220, #202383, #203104), `loop-flatten` (#212176), `newgvn` (#63336 and a hang that was seen on a
//!   stencil kernel), `gvn-hoist` (#49410), `dfa-jump-threading`;
//! - impossible on devices: `mergefunc` (would make a kernel call a kernel), `hotcoldsplit`, `iroutliner`,
//!   `partial-inliner`, `loop-extract` (calls in place of straight code), `mergeicmps` and `expand-memcmp` (library calls),
//!   everything for exceptions, coroutines, sanitizers, profiles and other targets;
//! - `reg2mem`: values that pass through memory can no longer be fused by the assembler, so the bits change;
//! - `internalize` and `strip`: names are what a program finds its kernels by;
//! - `structurizecfg`: wants no irreducible loops and one exit of each, else it makes wrong code.

/// At which level of the code a pass works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// A whole module.
    Module,
    /// Functions that call each other.
    Cgscc,
    /// A function.
    Function,
    /// A loop.
    Loop,
    /// A loop, with memory in SSA form.
    LoopMssa,
}

/// A parameter of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// Always written.
    Fixed(&'static str),
    /// Written or not.
    Optional(&'static str),
    /// `name`, `no-name`, or not written.
    Flag(&'static str),
    /// One of these, or not written.
    Choice(&'static [&'static str]),
    /// `name=value` with one of these, or not written.
    Number(&'static str, &'static [u32]),
}

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// Name in pipelines.
    pub name: &'static str,
    /// Where it works.
    pub level: Level,
    /// How often it is drawn, against the others.
    pub weight: u32,
    /// What can be said in angle brackets.
    pub parameters: &'static [Parameter],
}

/// A pass without parameters.
const fn plain(name: &'static str, level: Level, weight: u32) -> Pass {
    Pass {
        name,
        level,
        weight,
        parameters: &[],
    }
}

/// A pass with parameters.
const fn with(
    name: &'static str,
    level: Level,
    weight: u32,
    parameters: &'static [Parameter],
) -> Pass {
    Pass {
        name,
        level,
        weight,
        parameters,
    }
}

use Level::{Cgscc, Function, Loop, LoopMssa, Module};
use Parameter::{Choice, Fixed, Flag, Number, Optional};

/// All of them.
pub const PASSES: &[Pass] = &[
    // Cleaning up: what other passes count on having run.
    with(
        "sroa",
        Function,
        6,
        &[Choice(&["preserve-cfg", "modify-cfg"])],
    ),
    plain("mem2reg", Function, 1),
    with(
        "instcombine",
        Function,
        8,
        &[
            Fixed("no-verify-fixpoint"),
            Number("max-iterations", &[1, 2, 4]),
        ],
    ),
    plain("instsimplify", Function, 2),
    plain("aggressive-instcombine", Function, 2),
    with(
        "simplifycfg",
        Function,
        6,
        &[
            Flag("speculate-blocks"),
            Flag("simplify-cond-branch"),
            Flag("forward-switch-cond"),
            Flag("keep-loops"),
            Flag("hoist-common-insts"),
            Flag("sink-common-insts"),
            Flag("speculate-unpredictables"),
            Number("bonus-inst-threshold", &[1, 2, 4, 8]),
        ],
    ),
    with("early-cse", Function, 5, &[Optional("memssa")]),
    plain("adce", Function, 2),
    plain("bdce", Function, 2),
    plain("dce", Function, 1),
    // Values and conditions.
    with(
        "gvn",
        Function,
        5,
        &[
            Flag("pre"),
            Flag("load-pre"),
            Flag("split-backedge-load-pre"),
            Flag("memdep"),
        ],
    ),
    plain("sccp", Function, 2),
    plain("correlated-propagation", Function, 2),
    plain("constraint-elimination", Function, 2),
    plain("jump-threading", Function, 1),
    plain("reassociate", Function, 3),
    plain("nary-reassociate", Function, 2),
    plain("slsr", Function, 2),
    with(
        "separate-const-offset-from-gep",
        Function,
        2,
        &[Optional("lower-gep")],
    ),
    plain("div-rem-pairs", Function, 1),
    plain("float2int", Function, 1),
    plain("consthoist", Function, 1),
    with(
        "speculative-execution",
        Function,
        2,
        &[Optional("only-if-divergent-target")],
    ),
    plain("sink", Function, 2),
    plain("gvn-sink", Function, 1),
    plain("flatten-cfg", Function, 1),
    plain("lower-switch", Function, 1),
    plain("mergereturn", Function, 1),
    plain("unify-loop-exits", Function, 1),
    plain("break-crit-edges", Function, 1),
    plain("tailcallelim", Function, 1),
    // Memory.
    plain("infer-address-spaces", Function, 2),
    plain("infer-alignment", Function, 1),
    plain("alignment-from-assumptions", Function, 1),
    plain("dse", Function, 2),
    plain("memcpyopt", Function, 1),
    with("mldst-motion", Function, 2, &[Flag("split-footer-bb")]),
    plain("load-store-vectorizer", Function, 3),
    plain("slp-vectorizer", Function, 2),
    plain("vector-combine", Function, 1),
    with(
        "scalarizer",
        Function,
        1,
        &[Flag("load-store"), Flag("variable-insert-extract")],
    ),
    // Loops.
    plain("loop-simplify", Function, 2),
    plain("lcssa", Function, 1),
    with(
        "loop-unroll",
        Function,
        4,
        &[
            Choice(&["O0", "O1", "O2", "O3"]),
            Number("full-unroll-max", &[4, 16, 64]),
            Flag("partial"),
            Flag("peeling"),
            Flag("runtime"),
            Flag("upperbound"),
        ],
    ),
    with(
        "loop-vectorize",
        Function,
        1,
        &[
            Flag("interleave-forced-only"),
            Flag("vectorize-forced-only"),
        ],
    ),
    plain("loop-load-elim", Function, 2),
    plain("loop-distribute", Function, 1),
    plain("loop-versioning", Function, 1),
    plain("loop-sink", Function, 1),
    plain("loop-data-prefetch", Function, 1),
    with("licm", LoopMssa, 5, &[Flag("allowspeculation")]),
    with("lnicm", LoopMssa, 1, &[Flag("allowspeculation")]),
    with(
        "simple-loop-unswitch",
        LoopMssa,
        2,
        &[Flag("nontrivial"), Flag("trivial")],
    ),
    plain("loop-instsimplify", LoopMssa, 1),
    plain("loop-simplifycfg", LoopMssa, 1),
    with(
        "loop-rotate",
        LoopMssa,
        3,
        &[Flag("header-duplication"), Flag("prepare-for-lto")],
    ),
    plain("indvars", Loop, 3),
    plain("loop-idiom", Loop, 1),
    plain("loop-deletion", Loop, 2),
    plain("loop-unroll-full", Loop, 2),
    plain("loop-reduce", Loop, 2),
    plain("loop-term-fold", Loop, 1),
    plain("loop-bound-split", Loop, 1),
    plain("loop-predication", Loop, 1),
    plain("canon-freeze", Loop, 1),
    plain("loop-unroll-and-jam", Loop, 1),
    // Functions and their callers.
    with("inline", Cgscc, 2, &[Optional("only-mandatory")]),
    plain("argpromotion", Cgscc, 1),
    with(
        "function-attrs",
        Cgscc,
        1,
        &[Optional("skip-non-recursive-function-attrs")],
    ),
    plain("always-inline", Module, 1),
    with(
        "ipsccp",
        Module,
        2,
        &[Choice(&["func-spec", "no-func-spec"])],
    ),
    plain("globalopt", Module, 1),
    plain("globaldce", Module, 1),
    plain("deadargelim", Module, 1),
    plain("called-value-propagation", Module, 1),
    plain("rpo-function-attrs", Module, 1),
    plain("constmerge", Module, 1),
];

impl Pass {
    /// The pass in a pipeline's syntax, with the parameters that are written.
    #[must_use]
    pub fn text(&self, written: &[String]) -> String {
        if written.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}<{}>", self.name, written.join(";"))
        }
    }
}

impl Level {
    /// Passes of this level as an element of a pipeline for a module.
    #[must_use]
    pub fn wrap(self, passes: &str) -> String {
        match self {
            Self::Module => passes.to_owned(),
            Self::Cgscc => format!("cgscc({passes})"),
            Self::Function => format!("function({passes})"),
            Self::Loop => format!("function(loop({passes}))"),
            Self::LoopMssa => format!("function(loop-mssa({passes}))"),
        }
    }
}
