//! CUDA C++ as a tree.
//!
//! In flows the text of a file with a kernel in it; out flow its functions, the part of it that may be changed, how far it is
//! from another text, and other texts that do the same in another way. Nothing here compiles or runs anything: whether a text
//! is right is found out by whoever compiles and runs it.
//!
//! 1. [`syntax`]: the tree: functions, parameters, where they are.
//! 2. [`region`]: what of a file may be changed, and the file with that part put in anew.
//!    [`device_part`]: the file without what is for the host.
//! 3. [`directive`]: how a kernel wants to be launched, said in a comment of its text.
//! 4. [`tokens`]: the text without blanks and comments: its length, its fingerprint.
//! 5. [`embed`]: a text as a vector, so that texts that do alike are near to each other. [`diff`]: two texts, line by line.
//! 6. [`rewrite`]: operators on the tree: the same kernel, written otherwise.
//!
//! # Invariants
//!
//! - Any text is taken: what cannot be parsed is an error or an empty answer, never a panic.
//! - A rewrite changes bytes inside the region only.

pub mod syntax;

pub mod region;

pub mod device_part;

pub mod directive;

pub mod tokens;

pub mod embed;

pub mod diff;

pub mod rewrite;
