//! The search over source.
//!
//! ```text
//!  program ─► the unchanged source, verified ─► islands: choose parents and operator
//!                                                   │            ▲
//!                              prompt ─► model      │            │ told in the order of proposals
//!                              rewrite on the tree ─┤            │
//!                                                   ▼            │
//!               novelty ─► screen ─► inner search ─► finals ─► best.r3t
//! ```
//!
//! # Invariants
//!
//! - What is proposed depends on the seed, the replies of models, and on outcomes, in an order that is in the store: a run that was
//!   killed goes on as if it had not been, and nothing is asked or counted twice.
//! - What fails of the machine or of a model's service is no variant's failure.
//! - Nothing is claimed that was not measured again, in a fresh process, on launches that did not decide.

pub mod variant;
