//! What each value is worth by itself.
//!
//! Ratios of different knobs multiply roughly, so that their logarithms add up: a linear model with one coefficient for each
//! value, drawn towards zero, weighted by how exactly each ratio is known. It says which combination of values that were good
//! by themselves is most promising, long before such combinations were tried.

use std::collections::HashMap;

use super::encode::{Row, features};

/// A value's coefficient is believed to be within this, as a logarithm of a ratio.
const SPREAD: f64 = 0.15;

/// What the model misses at best: interactions.
const MISFIT: f64 = 0.03;

/// Values with coefficients at most; models of more cost too much, and the rarest are left out.
const MOST_FEATURES: usize = 120;

/// The model.
#[derive(Clone, Debug, Default)]
pub(super) struct Additive {
    mean: f64,
    worth: HashMap<(u16, u16), f64>,
}

/// An observation: a row, the logarithm of its ratio, and how exactly that is known (a standard deviation).
pub(super) type Observation<'r> = (&'r Row, f64, f64);

impl Additive {
    /// Fits it.
    pub fn of(observations: &[Observation<'_>]) -> Self {
        if observations.is_empty() {
            return Self::default();
        }
        let mut counts: HashMap<(u16, u16), u32> = HashMap::new();
        for (row, _, _) in observations {
            for feature in features(row) {
                *counts.entry(feature).or_default() += 1;
            }
        }
        let all = observations.len() as u32;
        // What every point has says nothing.
        let mut columns: Vec<((u16, u16), u32)> = counts
            .into_iter()
            .filter(|(_, count)| *count < all)
            .collect();
        columns.sort_unstable_by_key(|(feature, count)| (std::cmp::Reverse(*count), *feature));
        columns.truncate(MOST_FEATURES);
        columns.sort_unstable();
        let index: HashMap<(u16, u16), usize> = columns
            .iter()
            .enumerate()
            .map(|(at, (feature, _))| (*feature, at))
            .collect();
        let weights: Vec<f64> = observations
            .iter()
            .map(|(_, _, deviation)| 1.0 / (deviation * deviation + MISFIT * MISFIT))
            .collect();
        let total: f64 = weights.iter().sum();
        let mean = observations
            .iter()
            .zip(&weights)
            .map(|((_, log, _), weight)| log * weight)
            .sum::<f64>()
            / total;
        let size = columns.len();
        let mut matrix = vec![0.0; size * size];
        let mut right = vec![0.0; size];
        for ((row, log, _), weight) in observations.iter().zip(&weights) {
            let at: Vec<usize> = features(row)
                .iter()
                .filter_map(|feature| index.get(feature).copied())
                .collect();
            for &one in &at {
                right[one] += weight * (log - mean);
                for &other in &at {
                    matrix[one * size + other] += weight;
                }
            }
        }
        for at in 0..size {
            matrix[at * size + at] += 1.0 / (SPREAD * SPREAD);
        }
        let solved = solve(&mut matrix, right);
        Self {
            mean,
            worth: columns
                .iter()
                .map(|(feature, _)| *feature)
                .zip(solved)
                .collect(),
        }
    }

    /// What a value is worth: negative is good, and 0 is what nothing is known of.
    pub fn worth(&self, column: u16, value: u16) -> f64 {
        self.worth.get(&(column, value)).copied().unwrap_or(0.0)
    }

    /// The logarithm of the ratio that it expects.
    pub fn predict(&self, row: &Row) -> f64 {
        let features = features(row).into_iter();
        let worth = features.map(|(column, value)| self.worth(column, value));
        self.mean + worth.sum::<f64>()
    }
}

/// Solves a symmetric positive definite system by Cholesky's decomposition, in place.
fn solve(matrix: &mut [f64], mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for column in 0..size {
        for row in column..size {
            let mut sum = matrix[row * size + column];
            for before in 0..column {
                sum -= matrix[row * size + before] * matrix[column * size + before];
            }
            matrix[row * size + column] = if row == column {
                sum.max(1e-12).sqrt()
            } else {
                sum / matrix[column * size + column]
            };
        }
    }
    for row in 0..size {
        let mut sum = right[row];
        for before in 0..row {
            sum -= matrix[row * size + before] * right[before];
        }
        right[row] = sum / matrix[row * size + row];
    }
    for row in (0..size).rev() {
        let mut sum = right[row];
        for after in row + 1..size {
            sum -= matrix[after * size + row] * right[after];
        }
        right[row] = sum / matrix[row * size + row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::super::encode::Cell;
    use super::*;

    #[test]
    fn values_that_multiply_are_told_apart_and_their_combination_is_predicted() {
        // Two knobs: 0.73 and 0.81 by themselves; each was seen alone, and the original.
        let row = |one, other| vec![Cell::Name(one), Cell::Name(other)];
        let rows = [row(0, 0), row(1, 0), row(0, 1), row(0, 2), row(2, 0)];
        let logs = [0.0, 0.73f64.ln(), 0.81f64.ln(), 0.1, 0.2];
        let observations: Vec<Observation<'_>> = rows
            .iter()
            .zip(logs)
            .map(|(row, log)| (row, log, 0.002))
            .collect();
        let model = Additive::of(&observations);
        let both = model.predict(&row(1, 1)).exp();
        assert!((both - 0.73 * 0.81).abs() < 0.08, "{both}");
        assert!(both < model.predict(&row(1, 0)).exp());
        assert!(model.predict(&row(2, 2)) > 0.1);
    }

    #[test]
    fn a_small_system_is_solved() {
        let mut matrix = vec![4.0, 2.0, 2.0, 3.0];
        let solved = solve(&mut matrix, vec![10.0, 8.0]);
        assert!((solved[0] - 1.75).abs() < 1e-12 && (solved[1] - 1.5).abs() < 1e-12);
    }
}
