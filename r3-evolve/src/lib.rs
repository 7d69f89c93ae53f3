//! Searches for faster forms of captured CUDA kernels.
//!
//! In flow an archive and the name of a kernel in it; out flows a run directory with every candidate that was tried, and
//! the best one with the evidence for it. The evaluator is a server of its own (`r3-replay serve`), started by this program
//! or already running: nothing here touches a compiler or a device. The modules are in the order of the data:
//!
//! 1. [`space`]: what can be varied for a kernel, made from its description, shown and edited as TOML.
//! 2. [`strategy`]: which point of the space is tried next: Bayesian, random or grid.
//! 3. [`store`]: the run's database: every candidate, every sample; a run can be killed and resumed.
//! 4. [`tune`]: the loop around them.
//! 5. [`result`](mod@result): the best candidate as a file, and what other tools read.
//! 6. [`simulate`]: strategies compared on recorded spaces, without a device.
//!
//! The search over source is around these:
//!
//! 7. [`program`]: the source, how it is compiled, which captured kernel it stands for.
//! 8. [`prompt`]: what models are asked, and what is made of their answers.
//! 9. [`elites`], [`islands`]: which variants are kept, and where.
//! 10. [`inner`]: each variant's own search for passes, shape and registers, within a budget that grows with its promise.
//! 11. [`evolve`]: the loop.
//! 12. [`report`]: what was found.
//! 13. [`cli`]: the program.

pub mod space;

pub mod strategy;

pub mod store;

pub mod tune;

pub mod result;

pub mod simulate;

pub mod program;

pub mod prompt;

pub mod elites;

pub mod islands;

pub mod inner;

pub mod evolve;

pub mod report;

pub mod cli;
