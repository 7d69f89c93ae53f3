//! Putting a launch's memory back: which addresses ([`plan`]), on the device ([`space`]), with what
//! bytes ([`segments`], [`contents`]), and what of it has moved ([`translate`]).

pub mod contents;
mod maps;
pub mod plan;
pub mod reexec;
pub mod segments;
pub mod space;
pub mod translate;
