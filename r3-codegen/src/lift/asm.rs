//! Inline assembly: what any instruction can become.
