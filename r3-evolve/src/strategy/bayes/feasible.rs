//! What is learned of points that are no good at all.
//!
//! Whether a candidate compiles, fits and is right depends mostly on one value (a pass that crashes) or on two together (a
//! block with a register cap). Both are counted: how often a point with them was right, and how often not.

use std::collections::HashMap;

use super::encode::{Row, features};

/// Counts by value and by pair of values.
#[derive(Clone, Debug, Default)]
pub(super) struct Feasible {
    single: HashMap<(u16, u16), Count>,
    pair: HashMap<[(u16, u16); 2], Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    right: u32,
    wrong: u32,
}

impl Count {
    fn add(&mut self, right: bool) {
        if right {
            self.right += 1;
        } else {
            self.wrong += 1;
        }
    }

    /// How likely the next one fails, as far as this alone tells: nothing was seen, nothing is feared.
    fn risk(self) -> f64 {
        let seen = f64::from(self.right) + f64::from(self.wrong);
        f64::from(self.wrong) / (seen + 1.0)
    }
}

impl Feasible {
    /// A point was tried.
    pub fn add(&mut self, row: &Row, right: bool) {
        let features = features(row);
        for (at, one) in features.iter().enumerate() {
            self.single.entry(*one).or_default().add(right);
            for other in features.iter().skip(at + 1) {
                self.pair.entry([*one, *other]).or_default().add(right);
            }
        }
    }

    /// How likely a point fails: as likely as its worst value or pair of values did.
    pub fn risk(&self, row: &Row) -> f64 {
        let features = features(row);
        let mut worst: f64 = 0.0;
        for (at, one) in features.iter().enumerate() {
            if let Some(count) = self.single.get(one) {
                worst = worst.max(count.risk());
            }
            for other in features.iter().skip(at + 1) {
                if let Some(count) = self.pair.get(&[*one, *other]) {
                    worst = worst.max(count.risk());
                }
            }
        }
        worst
    }
}
