//! Built-in rewrites on real programs.

mod compile;
mod operators;
mod properties;
mod replay;
mod samples;
