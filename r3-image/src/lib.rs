#![doc = include_str!("../README.md")]
//!
//! # How it is made
//!
//! The way of the data is the order of the modules: [`memory`] copies an image out of a process
//! that hands it to the driver, [`image`] decides what it is, [`fatbin`] walks containers,
//! [`entry`] and [`compression`] unpack the code, [`cubin`] and [`ptx`] read what it declares into
//! the types of [`kernel`], and [`problem`] says what was not understood on the way.
//!
//! [`Image::parse`] only walks headers. An entry is unpacked and read when something is first asked
//! of it, and what it declares is kept from then on.
//!
//! # Invariants
//!
//! - Images are hostile. No input makes this crate panic, recurse without bound, or allocate from
//!   a length that the bytes do not back. Only [`memory`] trusts its input, as the driver does.
//! - Unknown is not wrong. An unknown entry, attribute or section is kept as it is and reported as
//!   a [`Problem`]; everything else of the image is still read.
//! - A layout is right or absent. When one parameter is not understood, none is listed.
//! - Names are mangled names, as the driver takes them.

mod bytes;

pub mod memory;

pub mod image;

pub mod fatbin;

pub mod entry;

pub mod compression;

pub mod cubin;

pub mod ptx;

pub mod kernel;

pub mod problem;

pub use compression::{Compression, PayloadError};
pub use entry::{CodeForm, Entry};
pub use image::{CodeFormSummary, Image, ImageKind};
pub use kernel::{KernelInfo, Param, Space, Variable};
pub use memory::{ImageError, Loadable, copy_image};
pub use problem::{Problem, ProblemKind};
