//! Comparing memory with what was recorded: exactly, or within a tolerance by element type.

mod element;
mod infer;
mod names;
mod tally;
mod tolerance;

pub use element::{Difference, ElementType};
pub use infer::InferredTypes;
pub use names::{BufferName, argument, buffer_names};
pub use tally::{Mismatch, Tally};
pub use tolerance::{
    BufferRule, TOLERANCE_VERSION, Tolerance, ToleranceError, ToleranceFile, Tolerances,
};
