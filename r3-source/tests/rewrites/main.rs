//! Built-in rewrites on real programs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compile;
mod host;
mod operators;
mod properties;
mod replay;
mod samples;
mod soundness;
