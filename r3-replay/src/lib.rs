//! (being written)
pub mod bench;
pub mod capture;
pub mod cli;
pub mod code;
pub mod compare;
pub mod device;
pub mod error;
pub mod inspect;
pub mod names;
pub mod noise;
pub mod nvml;
pub mod replay;
pub mod restore;
pub mod state;
#[cfg(test)]
mod testing;
pub mod trust;
pub mod verify;
