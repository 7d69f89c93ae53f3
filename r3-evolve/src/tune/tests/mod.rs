//! The loop against an evaluator that is a table.

pub(crate) mod bed;
mod claims;
mod exports;
mod failures;
mod resuming;
mod search;
