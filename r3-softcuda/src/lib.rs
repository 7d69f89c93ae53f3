#![doc = include_str!("../README.md")]
//!
//! # How it is made
//!
//! `entry_points.txt` lists every name that a driver of CUDA 13.0 exports, with the version that brought it. The build script
//! makes a table of it (`entry`) that drives `cuGetProcAddress`, and a refusal for each name that no file here defines.
//! Entry points are defined with `api::api!`; each call passes `api::enter` first.
//!
//! The way of a launch: `launch` (or `graph`) reads what is asked for and checks it against the kernel (`function`) and
//! the GPU model (`gpu`); it becomes a piece of `work`, which `capture` takes into a graph or `stream` queues; the
//! stream's thread runs it on [`r3_emu`], over the memory that `space` manages. Code gets there by `code` (images to checked
//! PTX), `module`, `library` and `link`.
//!
//! # Invariants
//!
//! - No panic leaves an entry point. Handles are numbers that are never used twice; each is looked up, and one of another kind or
//!   of something that is gone is an error.
//! - No lock is held while work runs, or while a function of the program's is called.
//! - Work waits only for work that was submitted before it, so streams cannot wait for each other in a circle.
//! - Host bytes that are freed stay until every launch and copy that ran at that time has ended.
//! - After `fork`, a child that inherits a started driver touches nothing of it but one atomic.
//! - Only symbols that begin with `cu` are exported, and calls inside do not go through a preloaded library.

#[cfg(test)]
mod abi;
mod advice;
mod api;
mod array;
mod capture;
mod code;
mod context;
mod copy;
mod device;
mod entry;
mod error;
mod event;
mod function;
mod gpu;
mod graph;
mod handle;
mod ipc;
mod launch;
mod library;
mod link;
mod memory;
mod misc;
mod module;
mod occupancy;
mod pageable;
mod pool;
mod process;
mod space;
mod stream;
mod tensor;
mod testing;
mod texture;
mod threads;
mod vmm;
mod work;
