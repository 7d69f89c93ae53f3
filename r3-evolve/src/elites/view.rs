//! A grid as plain data.

use serde::{Deserialize, Serialize};

use super::grid::{Cell, Grid};
use crate::evolve::variant::VariantNumber;

/// A grid, to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GridView {
    /// Its axes.
    pub axes: Vec<AxisView>,
    /// Its elites.
    pub cells: Vec<CellView>,
    /// Right variants that it was offered.
    pub members: usize,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AxisView {
    /// Name of the descriptor.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// Edges between its bins.
    pub edges: Vec<f64>,
}

/// A cell with its elite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellView {
    /// Where it is.
    pub cell: Cell,
    /// Its elite.
    pub number: VariantNumber,
    /// Its time as a part of the captured binary's.
    pub ratio: f64,
    /// The values of the descriptors.
    pub values: Vec<Option<f64>>,
}

impl GridView {
    /// Of a grid.
    #[must_use]
    pub fn of(grid: &Grid) -> Self {
        let axes = grid.axes().iter().zip(grid.titles()).zip(grid.edges());
        Self {
            axes: axes
                .map(|((axis, title), edges)| AxisView {
                    name: axis.descriptor.clone(),
                    title: title.to_owned(),
                    edges: edges.clone(),
                })
                .collect(),
            cells: grid
                .cells()
                .map(|(cell, elite)| CellView {
                    cell: cell.clone(),
                    number: elite.number,
                    ratio: elite.ratio.median,
                    values: (0..grid.axes().len())
                        .map(|axis| grid.value(axis, elite))
                        .collect(),
                })
                .collect(),
            members: grid.members().count(),
        }
    }

    /// Cells that there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.axes.iter().map(|axis| axis.edges.len() + 1).product()
    }
}
