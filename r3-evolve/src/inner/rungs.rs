//! How many evaluations a variant deserves.
//!
//! Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter tuning", 2020): a variant gets few
//! evaluations first, and more when it is among the best of those that got as many. Nobody waits for others to arrive at a
//! rung: whoever has room for work takes the variant that is to go on, and a new one when there is none.
//!
//! What the budgets stand on is in `docs/search.md`: measured with [`population`](crate::simulate::population).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::evolve::variant::VariantNumber;

/// How evaluations are handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Halving {
    /// One in so many goes on to the next rung.
    pub eta: u32,
    /// Evaluations of a variant in all, at the end of each rung after the screen.
    pub budgets: Vec<u32>,
    /// The rung that a variant gets to by entering a cell, whoever is better than it.
    pub elites: u32,
}

impl Default for Halving {
    fn default() -> Self {
        Self {
            eta: 9,
            budgets: vec![4, 12, 36],
            elites: 1,
        }
    }
}

/// A variant that is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    /// The variant.
    pub variant: VariantNumber,
    /// The rung that it goes on to; the screen is 0.
    pub rung: u32,
    /// Evaluations that it is to have in all by the end of that rung, those before counted.
    pub evaluations: u32,
}

/// What variants had reached at the end of each rung.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rungs {
    halving: Halving,
    /// By rung: best ratios, the best first, and of equal ones the one that was told first.
    reached: Vec<Vec<Reached>>,
    /// Variants that are in a cell.
    elites: BTreeSet<VariantNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Reached {
    ratio: f64,
    variant: VariantNumber,
    /// Whether it has gone on.
    promoted: bool,
}

impl Rungs {
    /// Nothing was told yet.
    #[must_use]
    pub fn new(halving: Halving) -> Self {
        Self {
            halving,
            reached: Vec::new(),
            elites: BTreeSet::new(),
        }
    }

    /// A variant had this ratio, its best so far, at the end of a rung. One that is not right goes no further, and holds nobody
    /// back.
    pub fn told(&mut self, variant: VariantNumber, rung: u32, ratio: Option<f64>) {
        let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) else {
            return;
        };
        let rung = place(rung);
        if rung > self.halving.budgets.len() {
            return;
        }
        while self.reached.len() <= rung {
            self.reached.push(Vec::new());
        }
        if let Some(reached) = self.reached.get_mut(rung) {
            let at = reached.partition_point(|other| other.ratio <= ratio);
            reached.insert(
                at,
                Reached {
                    ratio,
                    variant,
                    promoted: false,
                },
            );
        }
    }

    /// A variant entered a cell.
    pub fn entered(&mut self, variant: VariantNumber) {
        self.elites.insert(variant);
    }

    /// A variant is in no cell any more.
    pub fn left(&mut self, variant: VariantNumber) {
        self.elites.remove(&variant);
    }

    /// The variant that goes on, among those that are `allowed`: of the highest rung that has one, the best. It is taken: it will
    /// not be named for this rung again. `None`: something new is worth more.
    pub fn next(&mut self, allowed: impl Fn(VariantNumber) -> bool) -> Option<Promotion> {
        let eta = place(self.halving.eta.max(1));
        let elites_to = place(self.halving.elites);
        let top = self.halving.budgets.len();
        for rung in (0..top.min(self.reached.len())).rev() {
            let elites = &self.elites;
            let Some(reached) = self.reached.get_mut(rung) else {
                continue;
            };
            let among_the_best = reached.len() / eta;
            // The best of all goes on, however few there are to compare it with.
            let good = among_the_best.max(1);
            let looked_at = if rung < elites_to { usize::MAX } else { good };
            let mut looked_at = reached.iter_mut().enumerate().take(looked_at);
            let found = looked_at.find(|(at, one)| {
                let worth = !one.promoted && (*at < good || elites.contains(&one.variant));
                worth && allowed(one.variant)
            });
            if let Some((_, one)) = found {
                one.promoted = true;
                return Some(Promotion {
                    variant: one.variant,
                    rung: u32::try_from(rung + 1).unwrap_or(u32::MAX),
                    evaluations: self.halving.budgets.get(rung).copied().unwrap_or(0),
                });
            }
        }
        None
    }

    /// Variants that came to the end of a rung and were right.
    #[must_use]
    pub fn count(&self, rung: u32) -> usize {
        self.reached.get(place(rung)).map_or(0, Vec::len)
    }

    /// How evaluations are handed out.
    #[must_use]
    pub fn halving(&self) -> &Halving {
        &self.halving
    }
}

fn place(rung: u32) -> usize {
    usize::try_from(rung).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rungs(ratios: &[f64]) -> Rungs {
        let mut rungs = Rungs::new(Halving {
            eta: 3,
            elites: 0,
            ..Halving::default()
        });
        for (variant, ratio) in (1..).zip(ratios) {
            rungs.told(VariantNumber(variant), 0, Some(*ratio));
        }
        rungs
    }

    fn all(rungs: &mut Rungs) -> Vec<(i64, u32)> {
        std::iter::from_fn(|| rungs.next(|_| true))
            .map(|one| (one.variant.0, one.evaluations))
            .collect()
    }

    #[test]
    fn one_of_three_goes_on_and_the_best_first() {
        let mut rungs = rungs(&[0.9, 0.8, 1.0, 0.7, 1.1, 1.2]);
        assert_eq!(all(&mut rungs), [(4, 4), (2, 4)]);
        assert_eq!(rungs.next(|_| true), None);
    }

    #[test]
    fn the_first_one_goes_on_although_there_is_nothing_to_compare_it_with() {
        assert_eq!(all(&mut rungs(&[1.3])), [(1, 4)]);
    }

    #[test]
    fn a_variant_that_was_passed_by_goes_on_later_when_worse_ones_have_come() {
        let mut rungs = rungs(&[0.8, 0.9]);
        assert_eq!(all(&mut rungs), [(1, 4)]);
        for variant in 3..=6 {
            rungs.told(VariantNumber(variant), 0, Some(1.1));
        }
        assert_eq!(all(&mut rungs), [(2, 4)]);
    }

    #[test]
    fn of_equal_ones_the_first_is_the_better() {
        // A rewrite that changes nothing has its parent's ratio, on a device that counts.
        assert_eq!(all(&mut rungs(&[0.9, 0.9, 0.9])), [(1, 4)]);
    }

    #[test]
    fn what_is_further_up_goes_on_before_what_is_further_down() {
        let mut rungs = rungs(&[0.9, 0.8, 1.0]);
        rungs.told(VariantNumber(9), 1, Some(0.95));
        assert_eq!(all(&mut rungs), [(9, 12), (2, 4)]);
    }

    #[test]
    fn what_is_not_right_neither_goes_on_nor_holds_others_back() {
        let mut rungs = rungs(&[1.0, 1.1, 1.2]);
        rungs.told(VariantNumber(4), 0, None);
        rungs.told(VariantNumber(5), 0, Some(f64::NAN));
        assert_eq!(rungs.count(0), 3);
        assert_eq!(all(&mut rungs), [(1, 4)]);
    }

    #[test]
    fn an_elite_gets_its_rung_though_others_are_better() {
        let mut rungs = rungs(&[0.7, 0.8, 0.9]);
        rungs.halving.elites = 1;
        rungs.entered(VariantNumber(3));
        assert_eq!(all(&mut rungs), [(1, 4), (3, 4)]);
        rungs.told(VariantNumber(1), 1, Some(0.6));
        rungs.told(VariantNumber(3), 1, Some(0.65));
        // Further up it is held against others like any variant.
        assert_eq!(all(&mut rungs), [(1, 12)]);
    }

    #[test]
    fn a_variant_of_another_island_is_passed_over_and_not_lost() {
        let mut rungs = rungs(&[0.7, 0.8, 0.9, 1.0, 1.1, 1.2]);
        let island = |one: VariantNumber| one.0 % 2 == 0;
        assert_eq!(
            rungs.next(island).map(|one| one.variant),
            Some(VariantNumber(2))
        );
        assert_eq!(rungs.next(island), None);
        assert_eq!(all(&mut rungs), [(1, 4)]);
    }

    #[test]
    fn nothing_goes_on_from_the_last_rung() {
        let mut rungs = rungs(&[]);
        rungs.told(VariantNumber(1), 3, Some(0.5));
        rungs.told(VariantNumber(1), 4, Some(0.5));
        assert_eq!(rungs.next(|_| true), None);
    }
}
