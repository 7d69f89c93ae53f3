//! The same kernel, written otherwise.
