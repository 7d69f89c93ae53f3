//! What the device code of a candidate may not do, whatever its results are: found in what the compiler made, before it runs.
//!
//! In flow the PTX that came out of the compiler, the candidate's own source where it is one, and what is known of the
//! [`Original`]; out flow [`Finding`]s, each with a [`Rule`], a place and words for people and language models. One finding
//! is the verdict [`Cheat`](super::outcome::Verdict::Cheat).
//!
//! 1. [`source`]: inline assembly in the text that was given. Headers of a toolkit are full of it, and a candidate may
//!    include them; what it may not is to write its own.
//! 2. [`code`]: which functions a kernel reaches, what they call, which special registers they read, which variables they
//!    name.
//! 3. [`addresses`]: from where each address comes. Memory of the launch is reached from its arguments, from variables, and
//!    from pointers in memory; an address made of numbers reaches what belongs to somebody else.
//!
//! # Invariants
//!
//! - **What the original does, a candidate may do.** Each rule is tried on the original's PTX too, and is off where that
//!   breaks it. Of an original without PTX it is known which functions of the runtime it calls, nothing else.
//! - **Nothing honest is refused for what it might do.** A finding says that something is done; where flow of values cannot
//!   be followed (through memory, or into functions that are called by address), an address counts as one of the launch's.
//! - **Rules and results are two guards.** Code that goes around a rule is judged by what it leaves in memory like any other:
//!   `docs/integrity.md` says by what.
//! - **Code that cannot be read is not run**, unless the original's cannot be read either.

pub mod addresses;

pub mod code;

pub mod source;

mod original;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::candidate::CandidateCode;

pub use code::Code;
pub use original::{Original, Words as ParameterWords};

/// Something that code may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Keep something in a variable of its own.
    Variables,
    /// Do without a variable that the application fills and the original reads.
    Inputs,
    /// Use the device's heap.
    Heap,
    /// Print.
    Print,
    /// Contain assembly of its own.
    Assembly,
    /// Read a clock.
    Clocks,
    /// Ask where and in which launch it runs.
    Placement,
    /// Read or trigger performance counters.
    Counters,
    /// Reach memory that none of its arguments or variables leads to.
    Addresses,
    /// Launch kernels or call the runtime on the device.
    Launches,
    /// Sleep.
    Sleep,
}

/// A rule in words.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The rule.
    pub rule: Rule,
    /// Its name, as refusals begin with it.
    pub name: &'static str,
    /// What code may not do, as a sentence.
    pub says: &'static str,
    /// What to do instead.
    pub instead: &'static str,
}

/// All rules.
pub const RULES: [Words; 11] = [
    Words {
        rule: Rule::Variables,
        name: "variables",
        says: "a kernel may not keep anything in variables of its own, which outlive a launch",
        instead: "use registers, shared memory or local arrays; tables with constant values (__constant__, const) are allowed",
    },
    Words {
        rule: Rule::Inputs,
        name: "inputs",
        says: "a kernel reads the variables that the original reads and the application fills; their recorded values may not \
               stand in its code",
        instead: "read the variable: the application may fill it with other values",
    },
    Words {
        rule: Rule::Heap,
        name: "heap",
        says: "a kernel may not use the device's heap, which outlives a launch",
        instead: "use shared memory or local arrays of a fixed size instead of malloc, new and free",
    },
    Words {
        rule: Rule::Print,
        name: "print",
        says: "a kernel may not print when the original does not",
        instead: "leave printf out",
    },
    Words {
        rule: Rule::Assembly,
        name: "assembly",
        says: "a kernel's own text may not have inline assembly",
        instead: "write it in CUDA C++, with intrinsics such as __ldg, __shfl_sync or __fmaf_rn where they help",
    },
    Words {
        rule: Rule::Clocks,
        name: "clocks",
        says: "what a kernel does may not depend on time",
        instead: "leave clock(), clock64() and %globaltimer out; waiting loops of cuda::barrier read it too: use __syncthreads() \
                  or __pipeline_wait_prior()",
    },
    Words {
        rule: Rule::Placement,
        name: "placement",
        says: "what a kernel does may not depend on where, or in which of several launches, it runs",
        instead: "use threadIdx, blockIdx, blockDim and gridDim, not %smid, %warpid, %gridid or %envreg",
    },
    Words {
        rule: Rule::Counters,
        name: "counters",
        says: "a kernel may not use performance counters",
        instead: "leave them out",
    },
    Words {
        rule: Rule::Addresses,
        name: "addresses",
        says: "a kernel reaches memory through its arguments, its variables, and pointers that lie there; an address may not be \
               made of numbers",
        instead: "index the arguments",
    },
    Words {
        rule: Rule::Launches,
        name: "launches",
        says: "a kernel may not launch kernels, or call the runtime on the device, when the original does not",
        instead: "do the work in this kernel",
    },
    Words {
        rule: Rule::Sleep,
        name: "sleep",
        says: "a kernel may not sleep when the original does not",
        instead: "leave __nanosleep out",
    },
];

impl Rule {
    /// It in words.
    pub fn words(self) -> Words {
        let found = RULES.iter().find(|words| words.rule == self);
        // The table has them all: a test looks.
        found.copied().unwrap_or(Words {
            rule: self,
            name: "",
            says: "",
            instead: "",
        })
    }
}

/// What a plan allows beyond that. Nothing, when it is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allowed {
    /// Rules that are off.
    pub rules: Vec<Rule>,
    /// Statements of inline assembly that a source may have although [`Rule::Assembly`] is on: templates, as
    /// [`source::templates`] gives them. Those of the source that a search begins with.
    pub assembly: Vec<String>,
}

impl Allowed {
    /// Everything: results alone decide.
    pub fn everything() -> Self {
        Self {
            rules: RULES.iter().map(|words| words.rule).collect(),
            assembly: Vec::new(),
        }
    }

    fn has(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub rule: Rule,
    /// What was found: "reads %clock64".
    pub what: String,
    /// Where: "line 12 of its source", "in smooth, line 31 of its PTX".
    pub place: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words {
            name,
            says,
            instead,
            ..
        } = self.rule.words();
        let Self { what, place, .. } = self;
        write!(
            f,
            "rule `{name}`: it {what} ({place}). {}: {instead}",
            capital(says)
        )
    }
}

/// A sentence with a capital.
fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Why it cannot be said whether rules are kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotChecked {
    /// The compiled code is beyond what is understood.
    #[error("what the code does cannot be checked, since its PTX cannot be read: {0}")]
    Unreadable(String),
    /// The kernel is not in it.
    #[error("the compiled code has no kernel {0} with a body")]
    NoKernel(String),
}

/// Whether rules are for code of this form: what R3 makes of the original itself is not looked at, and machine code cannot be.
pub fn concern(code: &CandidateCode) -> bool {
    match code {
        CandidateCode::Ptx(_)
        | CandidateCode::Llvm(_)
        | CandidateCode::Bitcode(_)
        | CandidateCode::Source(_) => true,
        CandidateCode::Recorded | CandidateCode::Captured { .. } | CandidateCode::Cubin(_) => false,
    }
}

/// What of a candidate breaks rules, one finding for each rule. `compiled` is what [`code::read`] says of what the compiler
/// made.
///
/// # Errors
/// When the code is not understood, and the original's is.
pub fn check(
    code: &CandidateCode,
    compiled: &Result<Code, NotChecked>,
    original: &Original,
    allowed: &Allowed,
) -> Result<Vec<Finding>, NotChecked> {
    let mut found = Vec::new();
    if let CandidateCode::Source(source) = code
        && !allowed.has(Rule::Assembly)
    {
        found.extend(source::check(source, original, &allowed.assembly));
    }
    let facts = match compiled {
        Ok(code) => code.facts(original.variables(), original.words()),
        Err(_) if original.is_unreadable() => return Ok(found),
        Err(why) => return Err(why.clone()),
    };
    let facts = facts.into_iter().chain(match compiled {
        Ok(code) => code.does_without(original.inputs()),
        Err(_) => None,
    });
    for finding in facts {
        let known = found
            .iter()
            .any(|known: &Finding| known.rule == finding.rule);
        if !known && !allowed.has(finding.rule) && !original.does(finding.rule) {
            found.push(finding);
        }
    }
    Ok(found)
}

/// Findings as one reason.
pub fn reason(findings: &[Finding]) -> String {
    let told: Vec<String> = findings.iter().map(Finding::to_string).collect();
    told.join("\n")
}
