//! The `.r3` file (being written).
pub mod chunk;
pub mod model;
