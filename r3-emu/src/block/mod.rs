//! What runs: warps with their paths and frames, blocks with shared memory and barriers, clusters.

mod barrier;
mod buffer;
mod schedule;
mod shared;
pub(crate) mod special;
mod stuck;
mod unit;
mod warp;

pub(crate) use barrier::{Arrival, BARRIERS};
pub(crate) use buffer::{Buffer, NoMemory};
pub(crate) use unit::{Tally, Unit, UnitState};
pub(crate) use warp::{Frame, LOCAL_LIMIT, Path, State, Warp};
