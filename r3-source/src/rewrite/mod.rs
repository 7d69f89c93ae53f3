//! Operators on the tree: the same kernel, written otherwise.
//!
//! In flows a [`Scene`]: a file, its kernel, the parts of the file that may be changed, and [`Facts`] that a capture has. Out
//! flow [`Site`]s, places where an operator applies, and for one of them [`Rewritten`], the file with that one change made. Many
//! rewrites after each other are many calls: each begins with the text that the one before has left.
//!
//! An operator is *exact* when it keeps every bit of what a kernel computes, as the language defines it. What a compiler then
//! fuses (`a * b + c`) can still be other terms than before. The others are offered only where results have a tolerance.
//! A rewrite that asks for fewer blocks ([`Rewritten::directive`]) leaves a loop over all elements, which is right for any launch.
//! None proves anything about a whole program: what an operator takes for granted is in its description, and whether the
//! result is right is found out by running it.
//!
//! 1. [`scene`], [`facts`]: what operators look at.
//! 2. [`edit`]: changes to a text, and the check that they stay inside.
//! 3. `meaning`, with `names`, `macros`, `types`, `expressions`, `constants`, `effects`, `opaque`, `memory`, `readers`, `loops`,
//!    `ranges`, `strided`, `whoever`, `ties`, `groups`: what a text means, so far as that can be known without a compiler. Each answers
//!    "unknown" rather than guess; operators leave alone what is unknown.
//! 4. One file for each subject with its operators; [`all`] is the list.
//!
//! # Invariants
//!
//! - A rewrite changes bytes inside the scene's spans only.
//! - It leaves no place more that the parser can make nothing of.
//! - Sites come in a fixed order, and the same scene gives the same ones.

pub mod edit;
pub mod facts;
pub mod scene;

mod alignment;
mod bounds;
mod constants;
mod dependence;
mod division;
mod effects;
mod expressions;
mod grid;
mod groups;
mod intrinsics;
mod loops;
mod macros;
mod meaning;
mod memory;
mod names;
mod narrow;
mod nests;
mod opaque;
mod padding;
mod pointers;
mod ranges;
mod readers;
mod registers;
mod roots;
mod strided;
mod sums;
mod tables;
mod ties;
mod types;
mod unroll;
mod vector;
mod whoever;

use std::ops::Range;

pub use edit::Edit;
pub use facts::{Facts, Known};
pub use scene::Scene;

use tree_sitter::Node;

use crate::directive::Directive;
use crate::syntax::Unit;

/// A way to write a kernel otherwise.
pub trait Operator: Sync {
    /// Its name: `rsqrt`.
    fn name(&self) -> &'static str;

    /// What it does and what it takes for granted, in a sentence or two.
    fn about(&self) -> &'static str;

    /// Whether every bit of what a kernel computes stays.
    fn exact(&self) -> bool;

    /// All places where it applies, in the order of the text, with what would be changed.
    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal>;
}

/// A place where an operator applies.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Site {
    /// Name of the operator.
    pub operator: String,
    /// What of the text it is about.
    pub at: Range<usize>,
    /// Which of several ways: a factor, a number of blocks; empty when there is one only.
    pub choice: String,
    /// What it would do, in a line for people.
    pub what: String,
}

/// A change that an operator proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What of the text it is about.
    pub at: Range<usize>,
    /// Which of several ways.
    pub choice: String,
    /// What it would do, in a line for people.
    pub what: String,
    /// The changes.
    pub edits: Vec<Edit>,
    /// How the kernel wants to be launched afterwards, where that changes.
    pub directive: Option<Directive>,
}

impl Proposal {
    /// One expression in place of another.
    pub(crate) fn replace(node: Node<'_>, with: String, what: String) -> Self {
        Self::edit(node, vec![Edit::replace(node.byte_range(), with)], what)
    }

    /// Changes at a node.
    pub(crate) fn edit(node: Node<'_>, edits: Vec<Edit>, what: String) -> Self {
        Self {
            at: node.byte_range(),
            choice: String::new(),
            what,
            edits,
            directive: None,
        }
    }
}

/// Proposals with one more that does all at once, where there are several. Of those that overlap the outer one is taken.
pub(crate) fn with_all(mut proposals: Vec<Proposal>, what: &str) -> Vec<Proposal> {
    proposals.sort_by_key(|proposal| (proposal.at.start, std::cmp::Reverse(proposal.at.end)));
    let mut end = 0;
    let apart: Vec<&Proposal> = proposals
        .iter()
        .filter(|proposal| {
            let free = proposal.at.start >= end;
            if free {
                end = proposal.at.end;
            }
            free
        })
        .collect();
    if let ([first, .., last], true) = (apart.as_slice(), apart.len() > 1) {
        let all = Proposal {
            at: first.at.start..last.at.end,
            choice: "all".to_owned(),
            what: format!("{what} ({})", apart.len()),
            edits: apart
                .iter()
                .flat_map(|proposal| proposal.edits.clone())
                .collect(),
            directive: None,
        };
        proposals.push(all);
    }
    proposals
}

/// A text in which a change was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The whole file.
    pub text: String,
    /// What was done, in a line for people.
    pub what: String,
    /// How the kernel wants to be launched now; it is said in the text as well.
    pub directive: Option<Directive>,
}

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// No operator has the name.
    #[error("there is no rewrite named {0}")]
    NoOperator(String),
    /// The operator does not apply there (any more).
    #[error(
        "{operator} does not apply at bytes {start} to {end} of this text: ask for its sites anew"
    )]
    NoSite {
        /// Name of the operator.
        operator: String,
        /// First byte.
        start: usize,
        /// The byte after the last one.
        end: usize,
    },
    /// Something outside the region would change.
    #[error("{operator} would change bytes {start} to {end}, which may not be changed")]
    Outside {
        /// Name of the operator.
        operator: String,
        /// First byte.
        start: usize,
        /// The byte after the last one.
        end: usize,
    },
    /// The result is no CUDA C++ any more.
    #[error("{operator} would leave a text that cannot be parsed")]
    Broken {
        /// Name of the operator.
        operator: String,
    },
}

/// All operators, in a fixed order.
#[must_use]
pub fn all() -> &'static [&'static dyn Operator] {
    ALL
}

const ALL: &[&dyn Operator] = &[
    &roots::ReciprocalRoot,
    &roots::Powers,
    &roots::Exponentials,
    &division::PowerOfTwo,
    &division::Constant,
    &division::SharedDivisor,
    &intrinsics::Fast,
    &intrinsics::FastDivision,
    &intrinsics::Fused,
    &intrinsics::SingleLiterals,
    &unroll::Unroll,
    &bounds::LaunchBounds,
    &bounds::ForceInline,
    &pointers::Restrict,
    &pointers::Constness,
    &pointers::ReadOnlyLoads,
    &padding::SharedPadding,
    &grid::GridStride,
    &vector::VectorAccess,
    &vector::VectorSums,
    &narrow::NarrowIntegers,
    &nests::Interchange,
    &nests::InterchangeSums,
    &nests::Fusion,
    &registers::HoldInRegister,
    &sums::SplitSums,
    &alignment::AlignStructure,
];

/// The operator of a name.
#[must_use]
pub fn operator(name: &str) -> Option<&'static dyn Operator> {
    ALL.iter().copied().find(|operator| operator.name() == name)
}

/// Whether an operator may be used: one that is not exact needs a tolerance.
#[must_use]
pub fn allowed(operator: &dyn Operator, facts: &Facts) -> bool {
    operator.exact() || facts.tolerant
}

/// The places where an operator applies. Those whose changes would leave the scene's spans are not among them.
#[must_use]
pub fn sites(operator: &dyn Operator, scene: &Scene<'_>) -> Vec<Site> {
    if !allowed(operator, scene.facts) {
        return Vec::new();
    }
    proposals(operator, scene)
        .into_iter()
        .map(|proposal| Site {
            operator: operator.name().to_owned(),
            at: proposal.at,
            choice: proposal.choice,
            what: proposal.what,
        })
        .collect()
}

/// The places where any operator applies, operator by operator.
#[must_use]
pub fn all_sites(scene: &Scene<'_>) -> Vec<Site> {
    ALL.iter()
        .flat_map(|operator| sites(*operator, scene))
        .collect()
}

fn proposals(operator: &dyn Operator, scene: &Scene<'_>) -> Vec<Proposal> {
    let mut proposals = operator.proposals(scene);
    proposals.retain(|proposal| {
        !proposal.edits.is_empty() && proposal.edits.iter().all(|edit| scene.contains(&edit.at))
    });
    proposals
}

/// Makes one change.
pub fn apply(scene: &Scene<'_>, site: &Site) -> Result<Rewritten, RewriteError> {
    let operator = operator(&site.operator)
        .filter(|operator| allowed(*operator, scene.facts))
        .ok_or_else(|| RewriteError::NoOperator(site.operator.clone()))?;
    let proposal = proposals(operator, scene)
        .into_iter()
        .find(|proposal| proposal.at == site.at && proposal.choice == site.choice)
        .ok_or_else(|| RewriteError::NoSite {
            operator: site.operator.clone(),
            start: site.at.start,
            end: site.at.end,
        })?;
    make(scene, operator.name(), proposal)
}

fn make(scene: &Scene<'_>, operator: &str, proposal: Proposal) -> Result<Rewritten, RewriteError> {
    let mut edits = proposal.edits;
    if let Some(directive) = &proposal.directive {
        edits.push(scene.say(directive));
    }
    if let Some(edit) = edits.iter().find(|edit| !scene.contains(&edit.at)) {
        return Err(RewriteError::Outside {
            operator: operator.to_owned(),
            start: edit.at.start,
            end: edit.at.end,
        });
    }
    let broken = || RewriteError::Broken {
        operator: operator.to_owned(),
    };
    let text = edit::apply(scene.unit.text(), edits).ok_or_else(broken)?;
    let unit = Unit::parse(&text).map_err(|_| broken())?;
    if unit.errors() > scene.unit.errors() {
        return Err(broken());
    }
    Ok(Rewritten {
        text,
        what: proposal.what,
        directive: proposal.directive,
    })
}
