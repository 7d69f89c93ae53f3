//! Where good points lie, and where the others do.
//!
//! Two densities over the space, each a mixture of one bump around every observed point and a wide one, the prior: `good` of
//! the best points, `rest` of the others. What is likely among the good and unlikely among the rest is worth trying (Bergstra
//! et al., "Algorithms for hyper-parameter optimization", 2011). A bump is a product over the parameters, so that values that
//! were good together stay together; a parameter that means nothing in one of two points says nothing about them.

use super::encode::{Cell, Row};
use crate::space::domain::edits;
use crate::space::{Domain, Space};
use crate::strategy::Prior;

/// How much of a bump lies on other names than its own.
const ELSEWHERE: f64 = 0.2;

/// How fast lists that differ become unlike each other.
const LIST_WIDTH: f64 = 0.25;

/// Logarithm of what a name has that the space has not.
const UNKNOWN: f64 = -7.0;

/// The space, as far as densities depend on it.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
enum Column {
    Names {
        /// How likely each name is beforehand.
        beforehand: Vec<f64>,
        /// Logarithms of that; of it in the bump around another name; and around the same one.
        logs: Vec<[f64; 3]>,
    },
    /// How many values the number has.
    Number(f64),
    List,
}

/// A mixture.
#[derive(Clone, Debug)]
pub(super) struct Density {
    rows: Vec<Row>,
    /// Width of the bumps along numbers.
    pub width: f64,
}

impl Shape {
    pub fn new(space: &Space, prior: &Prior) -> Self {
        let columns = space
            .parameters
            .iter()
            .map(|parameter| match &parameter.domain {
                Domain::Choice(names) => {
                    let weights: Vec<f64> = names
                        .iter()
                        .map(|name| prior.weight(&parameter.name, name))
                        .collect();
                    let sum: f64 = weights.iter().sum();
                    let beforehand: Vec<f64> = weights
                        .iter()
                        .map(|weight| weight / sum.max(1e-9))
                        .collect();
                    let logs = beforehand.iter().map(|prior| {
                        let other = ELSEWHERE * prior;
                        [prior.ln(), other.ln(), (1.0 - ELSEWHERE + other).ln()]
                    });
                    Column::Names {
                        logs: logs.collect(),
                        beforehand,
                    }
                }
                Domain::Integer { .. } => Column::Number(parameter.domain.count()),
                Domain::Sequence { .. } | Domain::Permutation(_) => Column::List,
            });
        Self {
            columns: columns.collect(),
        }
    }

    /// How likely each name of a parameter is beforehand.
    pub fn names(&self, column: usize) -> &[f64] {
        match self.columns.get(column) {
            Some(Column::Names { beforehand, .. }) => beforehand,
            _ => &[],
        }
    }

    /// Logarithm of how likely a cell is beforehand.
    fn beforehand(&self, column: usize, cell: &Cell) -> f64 {
        match (self.columns.get(column), cell) {
            (Some(Column::Names { logs, .. }), Cell::Name(name)) => logs
                .get(usize::from(*name))
                .map_or(UNKNOWN, |[log, ..]| *log),
            (Some(Column::List), Cell::List(_)) => -LIST_WIDTH.recip(),
            _ => 0.0,
        }
    }

    /// Logarithm of a name's part in the bump around another one, or the same.
    fn name(&self, column: usize, centre: u16, name: u16) -> f64 {
        let Some(Column::Names { logs, .. }) = self.columns.get(column) else {
            return 0.0;
        };
        match logs.get(usize::from(name)) {
            Some([_, _, same]) if centre == name => *same,
            Some([_, other, _]) => *other,
            None => UNKNOWN,
        }
    }
}

impl Density {
    /// Of some points.
    pub fn of(rows: Vec<Row>, numbers: usize) -> Self {
        let count = rows.len().max(1) as f64;
        Self {
            rows,
            width: 0.2 * count.powf(-1.0 / (numbers as f64 + 4.0)),
        }
    }

    /// Logarithm of the density at a point.
    pub fn log(&self, shape: &Shape, row: &Row) -> f64 {
        let prior: f64 = row
            .iter()
            .enumerate()
            .map(|(column, cell)| shape.beforehand(column, cell))
            .sum();
        let mut logs = vec![prior];
        logs.extend(self.rows.iter().map(|centre| self.bump(shape, centre, row)));
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logs.iter().map(|log| (log - most).exp()).sum();
        most + (sum / logs.len() as f64).ln()
    }

    fn bump(&self, shape: &Shape, centre: &Row, row: &Row) -> f64 {
        let cells = centre.iter().zip(row).enumerate();
        let parts = cells.map(|(column, (centre, cell))| match (centre, cell) {
            (_, Cell::Nothing) => 0.0,
            (Cell::Name(one), Cell::Name(other)) => shape.name(column, *one, *other),
            (Cell::Number(one), Cell::Number(other)) => {
                // Never narrower than the step between neighbouring values.
                let step = match shape.columns.get(column) {
                    Some(Column::Number(count)) => 0.6 / count,
                    _ => 0.0,
                };
                let width = self.width.max(step);
                let at = (one - other) / width;
                -0.5 * at * at - (width * std::f64::consts::TAU.sqrt()).ln()
            }
            (Cell::List(one), Cell::List(other)) => {
                let longest = one.len().max(other.len()).max(1) as f64;
                (0.05 + 0.95 * (-(edits(one, other) as f64) / longest / LIST_WIDTH).exp()).ln()
            }
            (_, cell) => shape.beforehand(column, cell),
        });
        parts.sum()
    }
}
