//! Calls: direct, indirect, of functions defined elsewhere.
