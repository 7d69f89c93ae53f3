//! PTX to a cubin, and what it uses.

pub mod scratch;
