//! Starting a program with the capture library preloaded: finding the library ([`library`]),
//! telling whether it can be preloaded into the program ([`preflight`]).

mod elf;
pub mod library;
pub mod preflight;
