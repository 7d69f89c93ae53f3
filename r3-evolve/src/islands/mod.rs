//! Islands: populations that search apart and exchange their best.
//!
//! Each island has its own [grid](crate::elites::Grid), its own [mix] of operators, the models that may write for it, and its
//! own stream of random numbers for each of its slots. All islands begin with the source as given; after it, slots belong to the
//! islands in turn, and what a slot yields goes to the island it belongs to. In flow right variants with the island of the slot that
//! made them; at times elites travel over a [`Bus`] along a [topology](Topology).
//!
//! # Invariants
//!
//! - A variant is offered to the grid of its slot's island and to no other, but as a migrant. An island that does not exist is an
//!   error, not island 0. [`Islands::occupancy`] says for each island what was born there and what came from elsewhere.
//! - A migrant keeps its number and is a copy: where it came from it stays. What came in a round of migration does not go on in
//!   the same round.
//! - Who travels and where to depends on the seed, the round and the grids alone. When rounds are: by the number of slots told, or
//!   by a clock, whose decision whoever holds the clock stores.

pub mod bus;
pub mod migration;
pub mod mix;
pub mod population;

pub use bus::{Bus, BusError, LocalBus, Migrant};
pub use migration::{Migration, Schedule, Topology};
pub use mix::{Mix, MixSettings, Paid};
pub use population::{Island, IslandError, IslandSettings, Islands, Moved, Occupancy, Settings};

use r3_codegen::passes::Random;
use xxhash_rust::xxh3::xxh3_64;

use crate::evolve::variant::IslandNumber;

/// The island that the `slot`th proposal belongs to, counted from 0.
#[must_use]
pub fn island_of(slot: u64, islands: u32) -> IslandNumber {
    // Less than `islands`, so that it fits.
    let island = slot.checked_rem(u64::from(islands)).unwrap_or(0);
    IslandNumber(u32::try_from(island).unwrap_or(0))
}

/// The stream of random numbers of a slot, for one of its purposes (`parents`).
#[must_use]
pub fn stream(seed: u64, slot: u64, purpose: &str) -> Random {
    let mut bytes = seed.to_le_bytes().to_vec();
    bytes.extend(slot.to_le_bytes());
    bytes.extend(purpose.as_bytes());
    Random::new(xxh3_64(&bytes))
}

#[cfg(test)]
mod tests;
