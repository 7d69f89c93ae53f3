//! Variants by a time of theirs, the best first.
//!
//! With thousands of variants, who looks at all of them for the best one in each slot spends more on looking than on anything else.

use std::collections::{BTreeMap, BTreeSet};

use super::variant::VariantNumber;

/// A time, in the order of numbers.
#[derive(Clone, Copy, Debug)]
struct Time(f64);

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Variants by time; of equal ones the smaller number first.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    order: BTreeSet<(Time, VariantNumber)>,
    times: BTreeMap<VariantNumber, Time>,
}

impl Ranking {
    /// Gives a variant another time, or takes it out.
    pub fn set(&mut self, number: VariantNumber, time: Option<f64>) {
        let time = time.map(Time);
        let before = match time {
            Some(time) => self.times.insert(number, time),
            None => self.times.remove(&number),
        };
        if before == time {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, number));
        }
        if let Some(time) = time {
            self.order.insert((time, number));
        }
    }

    /// Times and variants, the best first.
    pub fn iter(&self) -> impl Iterator<Item = (f64, VariantNumber)> {
        self.order.iter().map(|(time, number)| (time.0, *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_one_place_and_the_smaller_number_comes_first_of_equal_ones() {
        let mut ranking = Ranking::default();
        for (number, time) in [(3, 0.5), (1, 0.7), (2, 0.5), (1, 0.4), (4, 0.1)] {
            ranking.set(VariantNumber(number), Some(time));
        }
        ranking.set(VariantNumber(4), None);
        ranking.set(VariantNumber(5), None);
        let all: Vec<(f64, i64)> = ranking.iter().map(|(time, one)| (time, one.0)).collect();
        assert_eq!(all, [(0.4, 1), (0.5, 2), (0.5, 3)]);
    }
}
