//! The grid of an island.

use std::collections::{BTreeMap, BTreeSet};

use r3_replay::remix::pairs::Ratio;
use serde::{Deserialize, Serialize};

use super::bins::{Axis, AxisError, bin};
use super::descriptor::{Described, Descriptor, built_in};
use super::values::Values;
use crate::evolve::variant::VariantNumber;

/// A place in a grid: a bin on each axis. `None` where the descriptor says nothing of the variant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cell(pub Vec<Option<u16>>);

/// A variant that is right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elite {
    /// Its number.
    pub number: VariantNumber,
    /// Its time as a part of the captured binary's, with the best configuration that is known.
    pub ratio: Ratio,
    /// What descriptors read.
    pub described: Described,
}

/// How a grid is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GridSettings {
    /// Its axes.
    pub axes: Vec<Axis>,
}

impl Default for GridSettings {
    fn default() -> Self {
        Self {
            axes: vec![
                Axis::quantiles("tokens", 10),
                Axis::quantiles("distance", 10),
            ],
        }
    }
}

/// Why something cannot be in a grid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnElite {
    /// Its time is no positive number.
    #[error("variant {0}: its time is no positive number, and so no reason to keep it")]
    Time(i64),
    /// A descriptor is no number.
    #[error("variant {number}: `{descriptor}` is no number")]
    Descriptor {
        /// The variant.
        number: i64,
        /// The descriptor.
        descriptor: String,
    },
}

/// What came of an offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Inserted {
    /// Where it lies.
    pub cell: Cell,
    /// Whether it is that cell's elite.
    pub entered: Entered,
    /// Whether it is now the best of the grid.
    pub best: bool,
    /// The best median before; `None` in a grid that was empty.
    pub best_before: Option<f64>,
    /// Variants that were elites before and are members only: it took their place, or two cells became one.
    pub displaced: Vec<VariantNumber>,
    /// Members that are elites again, as a cell was parted in two.
    pub returned: Vec<VariantNumber>,
}

/// Whether a variant is an elite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entered {
    /// The first in a cell.
    Empty,
    /// In place of another, whose median was so.
    Better {
        /// The other's number.
        than: VariantNumber,
        /// Its median.
        median: f64,
    },
    /// It was the elite of its cell already.
    Already,
    /// A better one is there.
    No,
}

impl Entered {
    /// Whether it came into a cell by this.
    #[must_use]
    pub fn entered(self) -> bool {
        matches!(self, Self::Empty | Self::Better { .. })
    }
}

/// A member of a grid.
#[derive(Clone, Debug)]
struct Member {
    elite: Elite,
    values: Vec<Option<f64>>,
    arrived: u64,
    /// Where it lies.
    cell: Cell,
}

/// The faster one first, of equal ones the smaller number.
fn rank(a: &Elite, b: &Elite) -> std::cmp::Ordering {
    let by_time = a.ratio.median.total_cmp(&b.ratio.median);
    by_time.then(a.number.cmp(&b.number))
}

/// A grid: see [the module](super).
#[derive(Debug)]
pub struct Grid {
    axes: Vec<Axis>,
    descriptors: Vec<Box<dyn Descriptor>>,
    /// Whether time is counted, and not measured.
    counts: bool,
    members: BTreeMap<VariantNumber, Member>,
    /// What members have on each axis.
    seen: Vec<Values>,
    edges: Vec<Vec<f64>>,
    /// Who lies in a cell, in the order in which they came.
    places: BTreeMap<Cell, BTreeMap<u64, VariantNumber>>,
    /// Elites.
    cells: BTreeMap<Cell, VariantNumber>,
    arrivals: u64,
}

impl Grid {
    /// An empty grid. `counts`: times on the device are counted, so that any difference is one.
    pub fn new(settings: &GridSettings, counts: bool) -> Result<Self, AxisError> {
        let descriptors = settings
            .axes
            .iter()
            .map(|axis| {
                axis.check()?;
                built_in(&axis.descriptor)
                    .ok_or_else(|| AxisError::Unknown(axis.descriptor.clone()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::with(settings.axes.clone(), descriptors, counts))
    }

    /// An empty grid with descriptors of one's own, one for each axis.
    #[must_use]
    pub fn with(axes: Vec<Axis>, descriptors: Vec<Box<dyn Descriptor>>, counts: bool) -> Self {
        let seen: Vec<Values> = axes.iter().map(|_| Values::default()).collect();
        let all = axes.iter().zip(&seen);
        let edges = all.map(|(axis, seen)| seen.edges(&axis.bins)).collect();
        Self {
            axes,
            descriptors,
            counts,
            members: BTreeMap::new(),
            seen,
            edges,
            places: BTreeMap::new(),
            cells: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// Offers a right variant. A number that is known is that variant with a new time.
    pub fn insert(&mut self, elite: Elite) -> Result<Inserted, NotAnElite> {
        let number = elite.number;
        let values = self.checked(&elite)?;
        let before = self.elites_by_number();
        let best_before = self.best().map(|best| best.ratio.median);
        let mut touched = BTreeSet::new();
        let arrived = match self.take_out(number, &mut touched) {
            Some(member) => member.arrived,
            None => {
                self.arrivals += 1;
                self.arrivals
            }
        };
        for (seen, value) in self.seen.iter_mut().zip(&values) {
            if let Some(value) = value {
                seen.add(*value, number);
            }
        }
        self.bin_again(&mut touched);
        let cell = self.place(&values);
        let of_cell = self.places.entry(cell.clone()).or_default();
        of_cell.insert(arrived, number);
        touched.insert(cell.clone());
        let member = Member {
            elite,
            values,
            arrived,
            cell,
        };
        self.members.insert(number, member);
        self.settle(touched);
        let after = self.elites_by_number();
        let cell = self.cell_of(number).unwrap_or_else(|| Cell(Vec::new()));
        let entered = match (after.contains(&number), before.contains(&number)) {
            (false, _) => Entered::No,
            (true, true) => Entered::Already,
            (true, false) => match self.rival(&cell, number) {
                Some(rival) => Entered::Better {
                    than: rival.number,
                    median: rival.ratio.median,
                },
                None => Entered::Empty,
            },
        };
        Ok(Inserted {
            best_before,
            best: self.best().is_some_and(|best| best.number == number),
            displaced: before.difference(&after).copied().collect(),
            returned: after
                .difference(&before)
                .copied()
                .filter(|other| *other != number)
                .collect(),
            cell,
            entered,
        })
    }

    /// Takes a variant out that turned out not to be right. Whether it was there.
    pub fn remove(&mut self, number: VariantNumber) -> bool {
        let mut touched = BTreeSet::new();
        let was = self.take_out(number, &mut touched).is_some();
        if was {
            self.bin_again(&mut touched);
            self.settle(touched);
        }
        was
    }

    /// Takes a member out. The cell in which it lay is touched.
    fn take_out(&mut self, number: VariantNumber, touched: &mut BTreeSet<Cell>) -> Option<Member> {
        let member = self.members.remove(&number)?;
        for (seen, value) in self.seen.iter_mut().zip(&member.values) {
            if let Some(value) = value {
                seen.remove(*value, number);
            }
        }
        self.leave(&member.cell, member.arrived);
        touched.insert(member.cell.clone());
        Some(member)
    }

    fn leave(&mut self, cell: &Cell, arrived: u64) {
        if let Some(of_cell) = self.places.get_mut(cell) {
            of_cell.remove(&arrived);
            if of_cell.is_empty() {
                self.places.remove(cell);
            }
        }
    }

    fn checked(&self, elite: &Elite) -> Result<Vec<Option<f64>>, NotAnElite> {
        let number = elite.number.0;
        let Ratio {
            median, low, high, ..
        } = elite.ratio;
        if ![median, low, high]
            .iter()
            .all(|time| time.is_finite() && *time > 0.0)
        {
            return Err(NotAnElite::Time(number));
        }
        self.descriptors
            .iter()
            .map(|descriptor| match descriptor.value(&elite.described) {
                Some(value) if !value.is_finite() => Err(NotAnElite::Descriptor {
                    number,
                    descriptor: descriptor.name().to_owned(),
                }),
                value => Ok(value),
            })
            .collect()
    }

    fn elites_by_number(&self) -> BTreeSet<VariantNumber> {
        self.cells.values().copied().collect()
    }

    /// The best other member of a cell.
    fn rival(&self, cell: &Cell, number: VariantNumber) -> Option<&Elite> {
        self.places
            .get(cell)?
            .values()
            .filter(|other| **other != number)
            .filter_map(|other| self.get(*other))
            .min_by(|a, b| rank(a, b))
    }

    fn place(&self, values: &[Option<f64>]) -> Cell {
        let bins = values.iter().zip(&self.edges);
        Cell(
            bins.map(|(value, edges)| value.map(|value| bin(edges, value)))
                .collect(),
        )
    }

    /// Whether a member takes the place of another in a cell.
    fn better(&self, challenger: &Elite, incumbent: &Elite) -> bool {
        if self.counts {
            rank(challenger, incumbent).is_lt()
        } else {
            challenger.ratio.high < incumbent.ratio.median
        }
    }

    /// Edges from the members' values, and members that lie elsewhere by that. What they left and where they went is touched.
    fn bin_again(&mut self, touched: &mut BTreeSet<Cell>) {
        let mut moved: BTreeSet<VariantNumber> = BTreeSet::new();
        let mut edges = Vec::with_capacity(self.axes.len());
        for ((axis, seen), before) in self.axes.iter().zip(&self.seen).zip(&self.edges) {
            let now = seen.edges(&axis.bins);
            if now.len() == before.len() {
                // A value is in another bin only where an edge has passed it.
                for (before, now) in before.iter().zip(&now) {
                    moved.extend(seen.between(before.min(*now), before.max(*now)));
                }
            } else {
                moved.extend(self.members.keys());
            }
            edges.push(now);
        }
        self.edges = edges;
        for number in moved {
            // One that is being put in has no place yet.
            let Some(member) = self.members.get(&number) else {
                continue;
            };
            let cell = self.place(&member.values);
            if cell == member.cell {
                continue;
            }
            let (from, arrived) = (member.cell.clone(), member.arrived);
            self.leave(&from, arrived);
            let of_cell = self.places.entry(cell.clone()).or_default();
            of_cell.insert(arrived, number);
            if let Some(member) = self.members.get_mut(&number) {
                member.cell = cell.clone();
            }
            touched.extend([from, cell]);
        }
    }

    /// Finds the elites of cells again: members meet in the order in which they came.
    fn settle(&mut self, touched: BTreeSet<Cell>) {
        for cell in touched {
            let mut elite: Option<&Elite> = None;
            for number in self
                .places
                .get(&cell)
                .into_iter()
                .flat_map(BTreeMap::values)
            {
                let Some(member) = self.members.get(number) else {
                    continue;
                };
                if elite.is_none_or(|there| self.better(&member.elite, there)) {
                    elite = Some(&member.elite);
                }
            }
            match elite.map(|elite| elite.number) {
                Some(number) => self.cells.insert(cell, number),
                None => self.cells.remove(&cell),
            };
        }
    }

    /// Where a member lies.
    #[must_use]
    pub fn cell_of(&self, number: VariantNumber) -> Option<Cell> {
        Some(self.members.get(&number)?.cell.clone())
    }

    /// A member.
    #[must_use]
    pub fn get(&self, number: VariantNumber) -> Option<&Elite> {
        self.members.get(&number).map(|member| &member.elite)
    }

    /// Whether a variant is the elite of a cell.
    #[must_use]
    pub fn is_elite(&self, number: VariantNumber) -> bool {
        self.cells.values().any(|elite| *elite == number)
    }

    /// The elites, cell by cell.
    pub fn cells(&self) -> impl Iterator<Item = (&Cell, &Elite)> {
        self.cells
            .iter()
            .filter_map(|(cell, number)| Some((cell, self.get(*number)?)))
    }

    /// The elite of a cell.
    #[must_use]
    pub fn elite(&self, cell: &Cell) -> Option<&Elite> {
        self.get(*self.cells.get(cell)?)
    }

    /// The elites, best first; of equal ones the smaller number.
    #[must_use]
    pub fn ranked(&self) -> Vec<&Elite> {
        let mut all: Vec<&Elite> = self.cells().map(|(_, elite)| elite).collect();
        all.sort_by(|a, b| rank(a, b));
        all
    }

    /// The best elite.
    #[must_use]
    pub fn best(&self) -> Option<&Elite> {
        self.ranked().first().copied()
    }

    /// Every member, by number.
    pub fn members(&self) -> impl Iterator<Item = &Elite> {
        self.members.values().map(|member| &member.elite)
    }

    /// Its axes.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// What the axes show, for people, in their order.
    pub fn titles(&self) -> impl Iterator<Item = &str> {
        self.descriptors.iter().map(|descriptor| descriptor.title())
    }

    /// What an axis's descriptor says of a variant.
    #[must_use]
    pub fn value(&self, axis: usize, elite: &Elite) -> Option<f64> {
        self.descriptors.get(axis)?.value(&elite.described)
    }

    /// Edges between the bins of each axis.
    #[must_use]
    pub fn edges(&self) -> &[Vec<f64>] {
        &self.edges
    }

    /// Cells that have an elite.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.cells.len()
    }

    /// Cells that there are at present, without those of variants of which a descriptor says nothing.
    #[must_use]
    pub fn size(&self) -> usize {
        self.edges.iter().map(|edges| edges.len() + 1).product()
    }
}
