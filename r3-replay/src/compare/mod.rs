//! Comparing memory with what was recorded: exactly, or within a tolerance by element type.

mod allowance;
mod element;
mod infer;
mod names;
mod tally;
mod tolerance;

pub use allowance::{Allowance, STEPS};
pub use element::{Difference, ElementType};
pub use infer::{InferredTypes, float};
pub use names::{BufferName, argument, buffer_names};
pub use tally::{Mismatch, Tally};
pub use tolerance::{
    BufferRule, TOLERANCE_VERSION, Tolerance, ToleranceError, ToleranceFile, Tolerances,
};
