//! Device code as LLVM IR: lifts PTX, runs any pass pipeline over it, emits PTX and cubins again.
//!
//! In flows a [`Recipe`](recipe::Recipe): code in some form, and everything that decides what becomes of it. Out flows a
//! [`Product`](recipe::Product) (LLVM IR, PTX, a cubin, what it uses, under which conditions it may stand for the
//! original), or a [`Failure`](recipe::Failure) that names the stage. The modules below are in the order of that way:
//!
//! 1. [`recipe`]: the question and the answer, as values that pass between processes.
//! 2. [`source`]: CUDA C++ to PTX or bitcode, by whatever compiler is present; LTO-IR to PTX; bitcode and text of
//!    clang and Triton.
//! 3. `text`: constants, bounds, approximations and cache operators written into PTX. On the text route that is all.
//! 4. [`lift`]: checked PTX to LLVM IR.
//! 5. [`specialise`]: constants for arguments and launch dimensions, and facts about pointers, as a recipe asks for.
//! 6. [`libdevice`]: CUDA's mathematical functions, where bitcode calls them.
//! 7. [`passes`]: target machine, pipelines, LLVM's options.
//! 8. [`emit`]: LLVM IR to PTX, and what LLVM cannot print put back.
//! 9. [`assemble`]: PTX to a cubin, and what it uses.
//! 10. [`compile`](mod@compile): all of these, one after the other, in this process.
//! 11. [`worker`]: the same in worker processes with limits, so that a crash or a hang of a compiler costs one answer.
//! 12. [`cache`]: answers on disk, so that a question is compiled once.
//!
//! # Invariants
//!
//! - **What runs is what was written.** A lifted kernel computes the bits that the original computes: PTX's results where
//!   LLVM would be free, rounding and flushing instruction by instruction, contraction left to the assembler as it was.
//! - **Nothing is unsupported.** What LLVM has no counterpart for becomes inline assembly with its side effects stated;
//!   a function that cannot be lifted at all goes through as text, and the answer says so.
//! - **Same input, same bytes.** No answer depends on addresses, hash order, time, or what was compiled before.
//! - **A compiler may die.** LLVM and the assemblers run in workers; the caller gets a [`Failure`](recipe::Failure).
//! - **Device code is hostile.** PTX and bitcode from outside give errors, never a panic of the caller's process.

pub mod recipe;

pub mod error;

pub mod source;

mod text;
pub use text::TextError;

pub mod lift;

pub mod specialise;

pub mod libdevice;

pub mod passes;

pub mod emit;

pub mod assemble;

pub mod compile;

pub mod worker;

pub mod cache;

#[cfg(feature = "llvm-static")]
mod arc4random;
