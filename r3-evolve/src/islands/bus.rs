//! How elites travel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::elites::Elite;
use crate::evolve::variant::{IslandNumber, Variant};
use crate::space::Point;

/// An elite on its way. It carries all that an island on another machine needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Migrant {
    /// Where it comes from.
    pub from: IslandNumber,
    /// Where it goes.
    pub to: IslandNumber,
    /// The round of migration.
    pub round: u64,
    /// What it is worth, and what descriptors read.
    pub elite: Elite,
    /// Its text and launch.
    pub variant: Variant,
    /// Its best configuration.
    pub point: Option<Point>,
}

/// Why an elite did not travel. That is no reason to end a search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// There is no such island.
    #[error("variant {variant} was sent to island {island}, which does not exist")]
    NoIsland {
        /// The variant.
        variant: i64,
        /// The island.
        island: u32,
    },
    /// What carries messages failed.
    #[error("variant {variant} could not be sent to island {island}: {reason}")]
    Failed {
        /// The variant.
        variant: i64,
        /// The island.
        island: u32,
        /// Why.
        reason: String,
    },
}

/// Carries elites from island to island, in this process or between machines.
pub trait Bus: Send {
    /// Sends an elite.
    fn send(&mut self, migrant: Migrant) -> Result<(), BusError>;

    /// What arrived at an island since the last look, in the order of rounds, senders and numbers.
    fn receive(&mut self, island: IslandNumber) -> Vec<Migrant>;
}

/// A bus within a process.
#[derive(Debug)]
pub struct LocalBus {
    boxes: BTreeMap<IslandNumber, Vec<Migrant>>,
}

impl LocalBus {
    /// Between islands 0 to `islands` − 1.
    #[must_use]
    pub fn new(islands: u32) -> Self {
        Self {
            boxes: (0..islands)
                .map(|island| (IslandNumber(island), Vec::new()))
                .collect(),
        }
    }
}

impl Bus for LocalBus {
    fn send(&mut self, migrant: Migrant) -> Result<(), BusError> {
        match self.boxes.get_mut(&migrant.to) {
            Some(waiting) => {
                waiting.push(migrant);
                Ok(())
            }
            None => Err(BusError::NoIsland {
                variant: migrant.elite.number.0,
                island: migrant.to.0,
            }),
        }
    }

    fn receive(&mut self, island: IslandNumber) -> Vec<Migrant> {
        let waiting = self.boxes.get_mut(&island);
        let mut arrived = waiting.map(std::mem::take).unwrap_or_default();
        arrived.sort_by_key(|migrant| (migrant.round, migrant.from, migrant.elite.number));
        arrived
    }
}
