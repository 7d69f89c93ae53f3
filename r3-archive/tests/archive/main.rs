//! Tests of whole archives: written, damaged, killed, cut, and read again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attach;
mod common;
mod concurrency;
mod damage;
mod dedup;
mod fork;
mod full;
mod kill;
mod layout;
mod ops;
mod random;
mod round_trip;
mod tuned;
mod versions;
