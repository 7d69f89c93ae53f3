//! choice.
