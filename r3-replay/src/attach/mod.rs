//! Code for captured kernels in a form that the application did not have.
//!
//! Many programs carry machine code alone. What their kernels are in PTX, as LLVM IR or as source is then known only to
//! those who can build them. This module adds such a form to an archive, for good:
//!
//! 1. [`given`]: the files as PTX and what it was made from; [`recorded`]: source that the archive has already;
//!    [`triton`]: what lies in a cache of Triton's.
//! 2. [`names`]: names that compilers make up are not the same from one compiler to another; which of them mean one
//!    kernel.
//! 3. [`matching`]: the kernels of the archive that the code has: same name, same layout of parameters.
//! 4. [`check`](mod@check): their recorded launches, replayed with the code.
//! 5. [`store`]: the code goes into the archive, with how it was made and what was verified.
//! 6. [`forms`]: the way back: the forms that a kernel's code has in an archive.
//!
//! # Invariants
//!
//! - **What is attached was verified**, on every recorded launch that was selected, or the record says that it was not.
//! - **Nothing is lost.** The archive is written anew beside the old one, which it replaces when it is complete.
//! - **Attached code never runs unsaid.** It runs where the image has nothing that runs, or when it is asked for, and a
//!   note says so.

pub mod given;

pub mod recorded;

pub mod triton;

pub mod names;

pub mod matching;

pub mod check;

pub mod store;

pub mod forms;
