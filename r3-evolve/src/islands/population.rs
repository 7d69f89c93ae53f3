//! All islands of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bus::{Bus, BusError, Migrant};
use super::migration::Migration;
use super::mix::{Mix, MixSettings};
use super::{island_of, stream};
use crate::elites::bins::AxisError;
use crate::elites::{Elite, Grid, GridSettings, Inserted, NotAnElite};
use crate::evolve::variant::{IslandNumber, Operator, Variant, VariantNumber};
use crate::space::Point;

/// How the islands of a run are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How many there are.
    pub count: u32,
    /// The grid of each.
    pub grid: GridSettings,
    /// How elites travel.
    pub migration: Migration,
    /// How mixes adapt.
    pub mix: MixSettings,
    /// What differs from island to island; fewer than islands are repeated from the first on.
    pub each: Vec<IslandSettings>,
}

/// What differs from island to island.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IslandSettings {
    /// Names of the models that write for it; all when there is none.
    pub models: Vec<String>,
    /// Operators that it uses; all when there is none.
    pub operators: Vec<Operator>,
}

/// Most islands of a run.
pub const MOST: u32 = 256;

impl Default for Settings {
    fn default() -> Self {
        Self {
            count: 2,
            grid: GridSettings::default(),
            migration: Migration::default(),
            mix: MixSettings::default(),
            each: Vec::new(),
        }
    }
}

/// Why islands cannot be, or do not take something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IslandError {
    /// None, or too many.
    #[error("{0} islands: there are 1 to {MOST}")]
    Count(u32),
    /// A grid cannot be made.
    #[error(transparent)]
    Axis(#[from] AxisError),
    /// It is not there.
    #[error("there is no island {island}: the run has {count}, from 0")]
    NoIsland {
        /// Its number.
        island: u32,
        /// Islands of the run.
        count: usize,
    },
    /// A variant cannot be an elite.
    #[error(transparent)]
    NotAnElite(#[from] NotAnElite),
}

/// Where a member of an island comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It was there from the beginning.
    Founder,
    /// A slot of this island made it.
    Born,
    /// It came from another island.
    Arrived {
        /// The other.
        from: IslandNumber,
        /// In which round.
        round: u64,
    },
}

/// An island.
#[derive(Debug)]
pub struct Island {
    /// Its number.
    pub number: IslandNumber,
    /// Its elites.
    pub grid: Grid,
    /// Its mix of operators.
    pub operators: Mix<Operator>,
    /// Its mix of built-in rewrites, by name.
    pub rewrites: Mix<String>,
    /// Models that write for it; all when there is none.
    pub models: Vec<String>,
    /// Operators that it uses; all when there is none.
    allowed: Vec<Operator>,
    origins: BTreeMap<VariantNumber, Origin>,
    opened: u64,
}

impl Island {
    /// Whether an operator is used here.
    #[must_use]
    pub fn uses(&self, operator: Operator) -> bool {
        self.allowed.is_empty() || self.allowed.contains(&operator)
    }

    /// Whether a model writes for it.
    #[must_use]
    pub fn asks(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|name| name == model)
    }

    /// Where a member comes from.
    #[must_use]
    pub fn origin(&self, number: VariantNumber) -> Option<Origin> {
        self.origins.get(&number).copied()
    }

    /// A slot was opened here.
    pub fn opened(&mut self) {
        self.opened += 1;
    }
}

/// What is on an island: what shows that all of them are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// The island.
    pub island: IslandNumber,
    /// Slots that were opened on it.
    pub opened: u64,
    /// Right variants that its own slots made.
    pub born: usize,
    /// Those that came from elsewhere.
    pub arrived: usize,
    /// Cells with an elite.
    pub filled: usize,
    /// Elites among them that were born here.
    pub own_elites: usize,
    /// Cells that there are at present.
    pub size: usize,
    /// The best elite, and its time.
    pub best: Option<(VariantNumber, f64)>,
}

/// An elite that travelled.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The elite.
    pub number: VariantNumber,
    /// Where from.
    pub from: IslandNumber,
    /// Where to.
    pub to: IslandNumber,
    /// In which round.
    pub round: u64,
    /// What became of it there; `None` when it was known there.
    pub inserted: Option<Inserted>,
}

/// A text with its best configuration, by number: what travels with an elite.
pub type Texts<'a> = dyn Fn(VariantNumber) -> Option<(Variant, Option<Point>)> + 'a;

/// All islands of a run.
pub struct Islands {
    islands: Vec<Island>,
    bus: Box<dyn Bus>,
    migration: Migration,
    seed: u64,
    rounds: u64,
}

impl Islands {
    /// Empty islands. `counts`: the device counts instead of measuring.
    pub fn new(
        settings: &Settings,
        counts: bool,
        seed: u64,
        bus: Box<dyn Bus>,
    ) -> Result<Self, IslandError> {
        if settings.count == 0 || settings.count > MOST {
            return Err(IslandError::Count(settings.count));
        }
        let islands = (0..settings.count)
            .zip(
                // Repeated, and with nothing said where nothing is said.
                settings
                    .each
                    .iter()
                    .cycle()
                    .map(Some)
                    .chain(std::iter::repeat(None)),
            )
            .map(|(number, each)| {
                let each = each.cloned().unwrap_or_default();
                Ok(Island {
                    number: IslandNumber(number),
                    grid: Grid::new(&settings.grid, counts)?,
                    operators: Mix::new([], settings.mix),
                    rewrites: Mix::new([], settings.mix),
                    models: each.models,
                    allowed: each.operators,
                    origins: BTreeMap::new(),
                    opened: 0,
                })
            })
            .collect::<Result<Vec<_>, AxisError>>()?;
        Ok(Self {
            islands,
            bus,
            migration: settings.migration,
            seed,
            rounds: 0,
        })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        // At most [`MOST`].
        u32::try_from(self.islands.len()).unwrap_or(MOST)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Island> {
        self.islands.iter()
    }

    /// The island that a slot belongs to.
    #[must_use]
    pub fn of_slot(&self, slot: u64) -> IslandNumber {
        island_of(slot, self.count())
    }

    /// An island.
    pub fn island(&self, number: IslandNumber) -> Result<&Island, IslandError> {
        let count = self.islands.len();
        self.islands
            .get(number.0 as usize)
            .ok_or(IslandError::NoIsland {
                island: number.0,
                count,
            })
    }

    /// An island.
    pub fn island_mut(&mut self, number: IslandNumber) -> Result<&mut Island, IslandError> {
        let count = self.islands.len();
        self.islands
            .get_mut(number.0 as usize)
            .ok_or(IslandError::NoIsland {
                island: number.0,
                count,
            })
    }

    /// Puts a variant on all islands, from the beginning: the unchanged source.
    pub fn found(&mut self, elite: &Elite) -> Result<(), IslandError> {
        for island in &mut self.islands {
            island.grid.insert(elite.clone())?;
            island
                .origins
                .entry(elite.number)
                .or_insert(Origin::Founder);
        }
        Ok(())
    }

    /// Offers a right variant to the island that it was made on. A number that is known is that variant with a new time, which
    /// holds wherever it lives.
    pub fn insert(&mut self, number: IslandNumber, elite: Elite) -> Result<Inserted, IslandError> {
        let island = self.island_mut(number)?;
        let inserted = island.grid.insert(elite.clone())?;
        island.origins.entry(elite.number).or_insert(Origin::Born);
        for other in &mut self.islands {
            if other.number != number && other.grid.get(elite.number).is_some() {
                other.grid.insert(elite.clone())?;
            }
        }
        Ok(inserted)
    }

    /// Takes a variant off all islands that turned out not to be right. Whether it was on any.
    pub fn remove(&mut self, number: VariantNumber) -> bool {
        let mut was = false;
        for island in &mut self.islands {
            island.origins.remove(&number);
            was |= island.grid.remove(number);
        }
        was
    }

    /// Rounds of migration so far.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Whether a round is due, when so many slots were told of and so many seconds have gone by.
    #[must_use]
    pub fn due(&self, slots: u64, seconds: f64) -> bool {
        self.islands.len() > 1 && self.migration.schedule.due(slots, seconds, self.rounds)
    }

    /// A round of migration: each island sends elites, then all look what arrived. What could not be sent is an error beside the
    /// rest, and no reason to stop.
    pub fn migrate(&mut self, texts: &Texts<'_>) -> (Vec<Moved>, Vec<BusError>) {
        let round = self.rounds;
        self.rounds += 1;
        let mut random = stream(self.seed, round, "migration");
        let mut errors = Vec::new();
        for island in &self.islands {
            let topology = self.migration.topology;
            let Some(to) = topology.to(island.number, self.count(), &mut random) else {
                continue;
            };
            for elite in emigrants(&island.grid, self.migration.count, &mut random) {
                let Some((variant, point)) = texts(elite.number) else {
                    errors.push(BusError::Failed {
                        variant: elite.number.0,
                        island: to.0,
                        reason: "its text is not there".to_owned(),
                    });
                    continue;
                };
                let migrant = Migrant {
                    from: island.number,
                    to,
                    round,
                    elite: elite.clone(),
                    variant,
                    point,
                };
                errors.extend(self.bus.send(migrant).err());
            }
        }
        (self.arrive(), errors)
    }

    /// Lets everybody ashore who arrived.
    fn arrive(&mut self) -> Vec<Moved> {
        let mut moved = Vec::new();
        for island in &mut self.islands {
            for migrant in self.bus.receive(island.number) {
                let number = migrant.elite.number;
                let known = island.grid.get(number).is_some();
                let inserted = if known {
                    None
                } else {
                    island.grid.insert(migrant.elite).ok()
                };
                if inserted.is_some() {
                    let (from, round) = (migrant.from, migrant.round);
                    island
                        .origins
                        .insert(number, Origin::Arrived { from, round });
                }
                moved.push(Moved {
                    number,
                    from: migrant.from,
                    to: island.number,
                    round: migrant.round,
                    inserted,
                });
            }
        }
        moved
    }

    /// The best elite of all islands; of equal ones the smaller number, and of its islands the first.
    #[must_use]
    pub fn best(&self) -> Option<(IslandNumber, &Elite)> {
        self.islands
            .iter()
            .filter_map(|island| Some((island.number, island.grid.best()?)))
            .min_by(|(_, a), (_, b)| {
                let by_time = a.ratio.median.total_cmp(&b.ratio.median);
                by_time.then(a.number.cmp(&b.number))
            })
    }

    /// What is on each island.
    #[must_use]
    pub fn occupancy(&self) -> Vec<Occupancy> {
        self.islands
            .iter()
            .map(|island| {
                let origins = || island.origins.values();
                let born = |number: VariantNumber| island.origin(number) == Some(Origin::Born);
                Occupancy {
                    island: island.number,
                    opened: island.opened,
                    born: origins().filter(|one| **one == Origin::Born).count(),
                    arrived: origins()
                        .filter(|one| matches!(one, Origin::Arrived { .. }))
                        .count(),
                    filled: island.grid.filled(),
                    own_elites: island
                        .grid
                        .cells()
                        .filter(|(_, elite)| born(elite.number))
                        .count(),
                    size: island.grid.size(),
                    best: island
                        .grid
                        .best()
                        .map(|elite| (elite.number, elite.ratio.median)),
                }
            })
            .collect()
    }
}

/// Tries to draw an elite that is not among the emigrants yet.
const DRAWS: usize = 8;

/// The best elite, and others at random.
fn emigrants<'a>(
    grid: &'a Grid,
    count: usize,
    random: &mut r3_codegen::passes::Random,
) -> Vec<&'a Elite> {
    let mut chosen: Vec<&Elite> = grid.best().into_iter().take(count).collect();
    while chosen.len() < count.min(grid.filled()) {
        let new = (0..DRAWS)
            .filter_map(|_| grid.even(random))
            .find(|elite| chosen.iter().all(|other| other.number != elite.number));
        match new {
            Some(elite) => chosen.push(elite),
            None => break,
        }
    }
    chosen
}
