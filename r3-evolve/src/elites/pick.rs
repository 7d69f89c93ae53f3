//! What is taken out of a grid: parents, places to be filled, examples.
//!
//! Everything here is a function of the grid and of the stream of numbers that is given.

use r3_codegen::passes::Random;
use serde::{Deserialize, Serialize};

use super::grid::{Cell, Elite, Grid};
use crate::evolve::variant::VariantNumber;

/// Cells that are looked at one by one; of a larger grid so many are drawn.
const LISTED: usize = 4096;

/// Where something new is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The cell.
    pub cell: Cell,
    /// Whether nothing is there. Where every cell has an elite, the one that is farthest from the best is wanted.
    pub empty: bool,
    /// What a variant there is like.
    pub wanted: Vec<Wanted>,
    /// The elite to begin with: the one there, or the nearest.
    pub parent: VariantNumber,
}

/// What a variant in a cell is like, on one axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Name of the descriptor.
    pub descriptor: String,
    /// What it is, for people.
    pub title: String,
    /// Its value for the parent, where it is known.
    pub parent: Option<f64>,
    /// At least so much.
    pub from: Option<f64>,
    /// Less than so much.
    pub to: Option<f64>,
}

/// A number from 0 to below 1.
fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// One of several with these weights; `None` without any.
pub(crate) fn weighted(weights: &[f64], random: &mut Random) -> Option<usize> {
    let sum: f64 = weights.iter().sum();
    let mut left = unit(random) * sum;
    for (index, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 && *weight > 0.0 {
            return Some(index);
        }
    }
    weights.iter().rposition(|weight| *weight > 0.0)
}

impl Grid {
    /// An elite, the better the likelier: the weight of the n-th best is 1/n.
    #[must_use]
    pub fn good(&self, random: &mut Random) -> Option<&Elite> {
        let ranked = self.ranked();
        let weights: Vec<f64> = (1..=ranked.len()).map(|rank| 1.0 / rank as f64).collect();
        ranked.get(weighted(&weights, random)?).copied()
    }

    /// An elite, each as likely as any other.
    #[must_use]
    pub fn even(&self, random: &mut Random) -> Option<&Elite> {
        let count = self.filled() as u64;
        let at = usize::try_from(random.below(count)).ok()?;
        self.cells().nth(at).map(|(_, elite)| elite)
    }

    /// A parent: in two of three cases a [good](Self::good) one, else [any](Self::even).
    #[must_use]
    pub fn parent(&self, random: &mut Random) -> Option<&Elite> {
        if random.below(3) < 2 {
            self.good(random)
        } else {
            self.even(random)
        }
    }

    /// Two elites to be joined: a good one, and another, the likelier the better and the farther away it is. `None` with fewer
    /// than two.
    #[must_use]
    pub fn pair(&self, random: &mut Random) -> Option<(&Elite, &Elite)> {
        let first = self.good(random)?;
        let at = self.cell_of(first.number)?;
        let others: Vec<&Elite> = self
            .ranked()
            .into_iter()
            .filter(|elite| elite.number != first.number)
            .collect();
        let weights: Vec<f64> = others
            .iter()
            .enumerate()
            .map(|(rank, elite)| {
                let cell = self.cell_of(elite.number);
                let steps = cell.map_or(0, |cell| steps(&at, &cell));
                f64::from(steps) / (rank + 1) as f64
            })
            .collect();
        let second = others.get(weighted(&weights, random)?)?;
        Some((first, second))
    }

    /// Where something new is wanted: an empty cell, each as likely as any other; where there is none, that of the elite that is
    /// farthest from the best. `None` as long as the grid has one cell or no elite.
    #[must_use]
    pub fn target(&self, random: &mut Random) -> Option<Target> {
        if self.size() < 2 {
            return None;
        }
        let empty = self.empty(random);
        let (cell, parent) = match empty {
            Some(cell) => {
                let nearest = self.ranked().into_iter().min_by_key(|elite| {
                    let there = self.cell_of(elite.number);
                    there.map_or(u32::MAX, |there| steps(&cell, &there))
                })?;
                return Some(self.described(cell, true, nearest));
            }
            None => {
                let best = self.cell_of(self.best()?.number)?;
                // Of equally far ones the best.
                let mut far: Option<(u32, &Elite)> = None;
                for elite in self.ranked() {
                    let steps = steps(&best, &self.cell_of(elite.number)?);
                    if far.is_none_or(|(most, _)| steps > most) {
                        far = Some((steps, elite));
                    }
                }
                let (_, elite) = far?;
                (self.cell_of(elite.number)?, elite)
            }
        };
        Some(self.described(cell, false, parent))
    }

    fn empty(&self, random: &mut Random) -> Option<Cell> {
        let counts: Vec<u64> = self
            .edges()
            .iter()
            .map(|edges| edges.len() as u64 + 1)
            .collect();
        let cell = |mut index: u64| {
            Cell(
                counts
                    .iter()
                    .map(|count| {
                        let bin = u16::try_from(index % count).ok();
                        index /= count;
                        bin
                    })
                    .collect(),
            )
        };
        if self.size() <= LISTED {
            let empty: Vec<Cell> = (0..self.size() as u64)
                .map(cell)
                .filter(|cell| self.elite(cell).is_none())
                .collect();
            return random.pick(&empty).cloned();
        }
        (0..LISTED)
            .map(|_| {
                let bins = counts
                    .iter()
                    .map(|count| u16::try_from(random.below(*count)).ok());
                Cell(bins.collect())
            })
            .find(|cell| self.elite(cell).is_none())
    }

    fn described(&self, cell: Cell, empty: bool, parent: &Elite) -> Target {
        let wanted = cell
            .0
            .iter()
            .zip(self.edges())
            .zip(self.axes().iter().zip(self.titles()))
            .enumerate()
            .map(|(axis, ((bin, edges), (how, title)))| {
                let edge = |at: Option<usize>| edges.get(at?).copied();
                let bin = bin.map(usize::from);
                Wanted {
                    descriptor: how.descriptor.clone(),
                    title: title.to_owned(),
                    parent: self.value(axis, parent),
                    from: edge(bin.and_then(|bin| bin.checked_sub(1))),
                    to: edge(bin),
                }
            })
            .collect();
        Target {
            cell,
            empty,
            wanted,
            parent: parent.number,
        }
    }

    /// Elites to be shown beside a parent: the best ones, each of another cell, without `except`. In the order of their numbers,
    /// so that a list from which nothing is taken away begins as it did.
    #[must_use]
    pub fn examples(&self, count: usize, except: &[VariantNumber]) -> Vec<&Elite> {
        let mut examples: Vec<&Elite> = self
            .ranked()
            .into_iter()
            .filter(|elite| !except.contains(&elite.number))
            .take(count)
            .collect();
        examples.sort_by_key(|elite| elite.number);
        examples
    }
}

/// Steps between two cells, over all axes. What is not known on one side is one step away.
fn steps(a: &Cell, b: &Cell) -> u32 {
    let axes = a.0.iter().zip(&b.0);
    axes.map(|(a, b)| match (a, b) {
        (Some(a), Some(b)) => u32::from(a.abs_diff(*b)),
        (None, None) => 0,
        _ => 1,
    })
    .sum()
}
