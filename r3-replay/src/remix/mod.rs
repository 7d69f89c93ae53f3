//! Other code for captured kernels: made from what the archive has, run in place of the recorded code, checked, measured.
//!
//! In flows a kernel of an archive and how it is to be compiled; out flows what came of it, launch by launch. The
//! modules are in the order of that way:
//!
//! 1. [`origin`]: the code to begin with: given, attached, or that of the image.
//! 2. [`facts`]: what the captured launches show of arguments, grid and block, and whether a guard holds for a launch.
//! 3. [`compiler`]: recipes to code, in worker processes with limits.
//! 4. [`trial`]: one launch with that code: every byte against the recorded ones, and against what the kernel's own code
//!    leaves on the same device.
//! 5. [`pairs`]: both codes one after the other, again and again, and what their times say.
//! 6. [`report`]: all of it as values.
//!
//! # Invariants
//!
//! - **Nothing is measured that is not right.** Code whose results differ is not timed.
//! - **A guard that fails is no run.** Code that was made for one launch's values never runs with another's.
//! - **The original is run too.** Where it does not leave the recorded bytes on this device either (races, results that
//!   PTX leaves open), other code is judged by what the original leaves here.

pub mod origin;

pub mod facts;

pub mod compiler;

pub mod trial;

pub mod pairs;

pub mod report;

/// First argument of this program when it is started as a worker of a compilation.
pub const WORKER: &str = "compile-worker";
