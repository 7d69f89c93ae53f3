//! How large a difference the original shows against itself.
//!
//! What a race reports is a median of pairs; so what counts is how far such a median can be from 1 when nothing differs,
//! and not how far single pairs are. The original is loaded several times: where code lies in memory alone can make a
//! difference that no number of pairs takes away.

use super::stats;
use crate::evaluate::outcome::Sample;

/// No win is smaller than this, however quiet a device is.
pub const LEAST: f64 = 0.01;

/// Times that the original is loaded for it.
pub const LOADS: u32 = 4;

/// The floor that follows from pairs of the original and a second load of it, load by load. `None` without pairs.
pub fn floor(loads: &[Vec<Sample>]) -> Option<f64> {
    let all = stats::launch(&loads.concat())?;
    let apart = |ratio: f64| ratio.max(1.0 / ratio) - 1.0;
    let mut floor = LEAST.max(apart(all.ratio.low)).max(apart(all.ratio.high));
    for samples in loads {
        floor = floor.max(apart(stats::launch(samples)?.ratio.median));
    }
    Some(floor)
}
