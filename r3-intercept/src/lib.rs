//! `libr3.so`: records the CUDA launches of an unmodified program.
//!
//! The library is preloaded into somebody else's process. What flows in: the driver calls that the
//! program makes. What flows out: one `.r3` archive. The files follow one launch on its way:
//!
//! | file | what happens there |
//! |---|---|
//! | [`hooks`] | the exported entry points, one table; they decide nothing |
//! | [`loader`] | how a program reaches the driver: symbols, `dlsym`, `dlvsym`, `cuGetProcAddress` |
//! | [`modules`] | device code: images, modules, libraries, functions, run-time compiled sources |
//! | [`allocations`], [`vmm`] | device-visible memory, by address |
//! | [`select`] | counts a launch and says whether it is recorded: the only work done for most launches |
//! | [`capture`], [`contexts`] | records one launch: memory before, the launch, memory after |
//! | [`reach`], [`snapshot`], [`fingerprint`] | which memory a launch can reach, and what of it is new |
//! | [`copy`], [`staging`] | how it gets to the host |
//! | [`finish`] | waits for the memory to be stored, then writes the launch's record |
//! | [`session`] | the archive and what has been written to it |
//! | [`process`] | start, fork, exit; the only file that reads the environment |
//!
//! Rules that hold everywhere here:
//!
//! - The program's own call is made with its own arguments and its result is returned unchanged.
//!   What R3 cannot do becomes a message and a smaller archive.
//! - No panic leaves a hook ([`guard`]); no lock is held across a driver call, except the one that
//!   serialises captures, which is taken with a time limit.
//! - The current context, the stream's capture state, `errno` and `dlerror` stay as they were.
//! - Our own driver calls go through [`driver`], never through a hook.

// The driver's functions have as many arguments as they have.
#![allow(clippy::too_many_arguments)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("libr3.so is written for Linux on x86-64");

mod allocations;
mod capture;
mod contexts;
mod copy;
mod driver;
mod elf;
mod embedded;
mod ffi;
mod fingerprint;
mod finish;
mod guard;
mod hooks;
mod loader;
mod log;
mod modules;
mod nvrtc;
mod params;
mod process;
mod reach;
mod select;
mod session;
mod skip;
mod snapshot;
mod staging;
mod trigger;
mod vmm;
