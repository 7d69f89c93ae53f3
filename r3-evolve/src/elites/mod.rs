//! MAP-Elites: which variants are kept, and where.
//!
//! In flow variants that are right, with their time and what [descriptors](descriptor) say of them; out flow cells with the best
//! variant of each, and choices: of parents, of an empty cell to be filled, of examples.
//!
//! A [`Grid`] forgets nothing. It holds every right variant that it was offered (its *members*, some bytes each; texts are in the
//! store), and a cell's *elite* is one of the members that lie in the cell. With bins by quantiles the edges follow what was seen,
//! so that cells move. When two elites fall into one cell by that, they are ranked as if they had met there: the better one is its
//! elite, the other stays a member, and is an elite again when the edges part them or when the better one is taken out.
//!
//! # Invariants
//!
//! - A cell with a member has an elite. Nothing leaves a grid unless somebody takes it out by its number.
//! - An elite gives way to a better member only: beyond the noise where time is measured, by any amount where it is counted.
//!   Of equal ones the smaller number stays.
//! - Where time is counted, cells depend on the set of members, not on the order in which they came. Where it is measured, members
//!   meet in the order in which they came, so that the same order gives the same cells.
//! - Nothing that is not a number gets in.

pub mod bins;
pub mod descriptor;
pub mod grid;
pub mod novelty;
pub mod pick;
pub mod view;

mod values;

pub use bins::{Axis, Bins};
pub use descriptor::{Described, Descriptor};
pub use grid::{Cell, Elite, Entered, Grid, GridSettings, Inserted, NotAnElite};
pub use novelty::{Novelty, Seen};
pub use pick::{Target, Wanted};
pub use view::{AxisView, CellView, GridView};

#[cfg(test)]
mod tests;
