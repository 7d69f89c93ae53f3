//! Replays captured CUDA launches without the application, and checks every byte.
//!
//! In flows an archive ([`r3_archive::Archive`]); out flows a report about its launches. On the way
//! of one launch, which is the order of the modules below:
//!
//! 1. [`device`]: what a device must be able to do. [`device::cuda`] is a GPU through its driver,
//!    [`device::cpu`] interprets PTX and needs none.
//! 2. [`restore`]: the launch's memory is put back at the addresses where it was: addresses are
//!    reserved before anything else takes room, memory is mapped where something was recorded and
//!    nowhere else, and bytes are written.
//! 3. [`code`]: which of the module's code forms runs, so that other code than the recorded one
//!    never runs unsaid.
//! 4. [`state`]: limits, function settings and launch attributes.
//! 5. [`replay`]: a [`Replayer`](replay::Replayer) does all that, launches, and finds what differs
//!    from the recorded memory after the launch.
//! 6. [`compare`]: whether a difference is within a tolerance, or within what PTX leaves open, and
//!    how to say where it is.
//!
//! On top of it are [`verify`](mod@verify) (the verdict on one launch), [`noise`] (how much the
//! original varies from run to run), [`attach`] (code forms that come later), [`bench`](mod@bench) (how long it
//! takes, or how much it does) and [`remix`] (other code of a kernel, judged by these); [`trust`] says when
//! a verdict proves less than it seems to. [`inspect`] looks into archives without a device, [`doctor`] compares two of them,
//! [`capture`] starts programs to be captured, and [`cli`] is the program.
//!
//! # Invariants
//!
//! - **Every recorded byte is compared**, those that the launch should not have touched included.
//!   Zeros and equal chunks are recognised on the device; nothing is sampled, unless only some blocks
//!   of a grid were asked for, and then the result is never called verified.
//! - **What differs is told.** A difference that a device may make is within a stated allowance, with
//!   the instructions that are the reason and its size; without such a reason, bits must be equal.
//! - **Nothing moves silently.** Memory is at its recorded address, or a note says what was
//!   rewritten and how often, or the launch is not run.
//! - **Archives are hostile.** Sizes are checked against the device before memory is mapped,
//!   records against themselves before they are used, names before they reach a terminal. What a
//!   stranger's *kernel* does is bounded by the GPU alone, or by the CPU device: see `docs/security.md`.
//! - **An error names** the file or launch, the kernel, the operation, and what to do.
//! - Unsafe code is in `device::cuda` (the driver), `nvml`, and a few calls of the C library.

pub mod device;

pub mod restore;

pub mod code;

pub mod state;

pub mod replay;

pub mod compare;

pub mod verify;

pub mod trust;

pub mod noise;

pub mod bench;

pub mod attach;

pub mod remix;

pub mod evaluate;

pub mod serve;

pub mod selftest;

pub mod nvml;

pub mod inspect;

pub mod doctor;

pub mod capture;

pub mod names;

pub mod error;

pub mod cli;

#[cfg(test)]
mod testing;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
