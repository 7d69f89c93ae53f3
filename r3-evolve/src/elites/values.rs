//! The values that members of a grid have on an axis, in their order.

use super::bins::{Bins, edges};
use crate::evolve::variant::VariantNumber;

/// Different values, and who has them.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(Vec<(f64, Vec<VariantNumber>)>);

impl Values {
    /// The place of a value, or where it would be. Zeros are equal.
    fn find(&self, value: f64) -> Result<usize, usize> {
        let at = self.0.partition_point(|(other, _)| *other < value);
        match self.0.get(at) {
            Some((other, _)) if *other == value => Ok(at),
            _ => Err(at),
        }
    }

    /// A member has a value. What is no number is nobody's.
    pub fn add(&mut self, value: f64, number: VariantNumber) {
        if !value.is_finite() {
            return;
        }
        match self.find(value) {
            Ok(at) => {
                if let Some((_, all)) = self.0.get_mut(at) {
                    all.push(number);
                }
            }
            Err(at) => self.0.insert(at, (value, vec![number])),
        }
    }

    /// A member has it no more.
    pub fn remove(&mut self, value: f64, number: VariantNumber) {
        let Ok(at) = self.find(value) else { return };
        if let Some((_, all)) = self.0.get_mut(at) {
            all.retain(|other| *other != number);
            if all.is_empty() {
                self.0.remove(at);
            }
        }
    }

    /// Members with values from `low` to below `high`.
    pub fn between(&self, low: f64, high: f64) -> impl Iterator<Item = VariantNumber> {
        let from = self.0.partition_point(|(value, _)| *value < low);
        let to = self.0.partition_point(|(value, _)| *value < high);
        let all = self.0.get(from..to).unwrap_or_default();
        all.iter().flat_map(|(_, all)| all.iter().copied())
    }

    /// Edges between bins.
    pub fn edges(&self, bins: &Bins) -> Vec<f64> {
        let value = |at: usize| self.0.get(at).map(|(value, _)| *value);
        edges(bins, self.0.len(), value)
    }
}
