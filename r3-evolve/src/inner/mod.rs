//! The search for a variant's best passes, launch shape, registers and compiler options.
//!
//! In flow a variant as a candidate, its [`Space`](crate::space::Space), and the points that were best for its parents; out flow
//! candidates, and in the end the best point. The modules:
//!
//! - [`rungs`]: how many evaluations a variant deserves: asynchronous successive halving.
//! - [`search`]: what is evaluated for a variant.
//! - [`story`]: what a candidate is made of, and how its source came about, for what is claimed in the end.
//!
//! # Invariants
//!
//! - What is asked depends on the space, the seed, and on what was told, in order. A search is built anew for each rung, from what
//!   came of the variant before.
//! - The first evaluations are those that say whether the variant is worth more: as its text says, as its parent was best, and,
//!   where its text wishes another launch, as the application launches.
//! - What fails of the machine is no point's failure: the strategy is not told.

pub mod rungs;

pub mod search;

pub mod story;

pub use rungs::{Halving, Promotion, Rungs};
pub use search::{BATCH, Found, Inner};
