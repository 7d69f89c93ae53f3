//! Which of several ways is tried next: what pays gets more, and none starves.
//!
//! Each way has a rate, gain per cost, in which what is long ago counts less; one of which little is known is taken to be nearer to
//! the rate of all together. Every way gets the same small share, and the rest is divided in proportion to the rates. Chance
//! alone could still pass over one for long, so the one that was passed over too often is next.

use r3_codegen::passes::Random;
use serde::{Deserialize, Serialize};

use crate::elites::{Entered, Inserted, pick::weighted};

/// How a mix adapts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MixSettings {
    /// Share that each way gets at least; at most half of an even share.
    pub floor: f64,
    /// What a gain counts after another result of the same mix, as a part of what it counted before.
    pub memory: f64,
}

impl Default for MixSettings {
    fn default() -> Self {
        Self {
            floor: 0.05,
            memory: 0.98,
        }
    }
}

/// What a try brought, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// Gain, as the logarithm of how many times faster.
    pub gain: f64,
    /// Cost, in any unit that is the same for all tries of a mix: seconds, money, or evaluations where a run must not depend on
    /// a clock.
    pub cost: f64,
}

/// What a new cell is worth, as a gain.
const NEW_CELL: f64 = 0.01;
/// Tries that the rate of all together counts for.
const PRIOR: f64 = 2.0;

impl Paid {
    /// A try that brought nothing: wrong, a duplicate, or worse than what is there.
    #[must_use]
    pub fn nothing(cost: f64) -> Self {
        Self { gain: 0.0, cost }
    }

    /// A try whose variant came into a grid with this time: what its cell gained, and what the grid's best gained.
    #[must_use]
    pub fn of(inserted: &Inserted, ratio: f64, cost: f64) -> Self {
        let faster = |before: f64| (before / ratio).ln().max(0.0);
        let cell = match inserted.entered {
            Entered::Empty => NEW_CELL,
            Entered::Better { median, .. } => faster(median),
            Entered::Already | Entered::No => 0.0,
        };
        let best = inserted.best_before.map_or(0.0, faster);
        Self {
            gain: if inserted.best { cell + best } else { cell },
            cost,
        }
    }
}

/// A way and its account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm<K> {
    /// The way.
    pub way: K,
    /// Times that it was chosen.
    pub chosen: u64,
    /// Times that it was told of.
    pub told: u64,
    /// Gains, older ones discounted.
    gain: f64,
    /// Costs, older ones discounted.
    cost: f64,
    /// Tries, older ones discounted.
    tries: f64,
    /// Choices since it was last chosen, of those in which it could be.
    passed: u64,
}

/// A mix of ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix<K> {
    settings: MixSettings,
    arms: Vec<Arm<K>>,
}

impl<K: Clone + PartialEq> Mix<K> {
    /// Of these ways, all alike at first.
    #[must_use]
    pub fn new(ways: impl IntoIterator<Item = K>, settings: MixSettings) -> Self {
        let mut mix = Self {
            settings,
            arms: Vec::new(),
        };
        for way in ways {
            mix.arm(&way);
        }
        mix
    }

    /// The place of a way; one that is new is put at the end.
    fn arm(&mut self, way: &K) -> usize {
        if let Some(at) = self.arms.iter().position(|arm| arm.way == *way) {
            return at;
        }
        self.arms.push(Arm {
            way: way.clone(),
            chosen: 0,
            told: 0,
            gain: 0.0,
            cost: 0.0,
            tries: 0.0,
            passed: 0,
        });
        self.arms.len() - 1
    }

    /// One of the ways that are open now; `None` when none is.
    pub fn choose(&mut self, open: &[K], random: &mut Random) -> Option<K> {
        let mut places: Vec<usize> = open.iter().map(|way| self.arm(way)).collect();
        places.sort_unstable();
        places.dedup();
        let shares = self.shares_of(&places);
        // Drawn in any case, so that what follows in the stream is the same.
        let drawn = *places.get(weighted(&shares, random)?)?;
        let most = self.patience(places.len());
        let passed = |place: &usize| self.arms.get(*place).map_or(0, |arm| arm.passed);
        // Of equally long ones the first.
        let longest = places.iter().copied().rev().max_by_key(passed)?;
        let place = if passed(&longest) >= most {
            longest
        } else {
            drawn
        };
        for other in places {
            let arm = self.arms.get_mut(other)?;
            if other == place {
                arm.chosen += 1;
                arm.passed = 0;
            } else {
                arm.passed += 1;
            }
        }
        self.arms.get(place).map(|arm| arm.way.clone())
    }

    /// Takes in what a try brought. What is no number counts as nothing.
    pub fn tell(&mut self, way: &K, paid: Paid) {
        let place = self.arm(way);
        let memory = self.settings.memory.clamp(0.0, 1.0);
        for arm in &mut self.arms {
            arm.gain *= memory;
            arm.cost *= memory;
            arm.tries *= memory;
        }
        let number = |value: f64| {
            if value.is_finite() {
                value.max(0.0)
            } else {
                0.0
            }
        };
        if let Some(arm) = self.arms.get_mut(place) {
            arm.told += 1;
            arm.gain += number(paid.gain);
            arm.cost += number(paid.cost);
            arm.tries += 1.0;
        }
    }

    /// Choices after which a way that was passed over is next.
    #[must_use]
    pub fn patience(&self, open: usize) -> u64 {
        (2.0 / self.floor(open)).ceil() as u64
    }

    fn floor(&self, open: usize) -> f64 {
        let even = 1.0 / open.max(1) as f64;
        self.settings.floor.clamp(0.001, 0.5 * even)
    }

    /// The share of each way that is open, in the order of `places`.
    fn shares_of(&self, places: &[usize]) -> Vec<f64> {
        let arms: Vec<&Arm<K>> = places
            .iter()
            .filter_map(|place| self.arms.get(*place))
            .collect();
        let sum = |of: fn(&Arm<K>) -> f64| arms.iter().map(|arm| of(arm)).sum::<f64>();
        let (gain, cost, tries) = (
            sum(|arm| arm.gain),
            sum(|arm| arm.cost),
            sum(|arm| arm.tries),
        );
        let even = 1.0 / arms.len().max(1) as f64;
        if gain <= 0.0 || cost <= 0.0 || tries <= 0.0 {
            return vec![even; arms.len()];
        }
        let prior = (PRIOR * gain / tries, PRIOR * cost / tries);
        let rates: Vec<f64> = arms
            .iter()
            .map(|arm| (arm.gain + prior.0) / (arm.cost + prior.1))
            .collect();
        let all: f64 = rates.iter().sum();
        let floor = self.floor(arms.len());
        let rest = 1.0 - floor * arms.len() as f64;
        rates.iter().map(|rate| floor + rest * rate / all).collect()
    }

    /// The share of each way, were all open.
    #[must_use]
    pub fn shares(&self) -> Vec<(K, f64)> {
        let places: Vec<usize> = (0..self.arms.len()).collect();
        let shares = self.shares_of(&places);
        let ways = self.arms.iter().map(|arm| arm.way.clone());
        ways.zip(shares).collect()
    }

    /// The accounts.
    #[must_use]
    pub fn arms(&self) -> &[Arm<K>] {
        &self.arms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mix: &mut Mix<&'static str>, pays: &str, tries: u64) -> Vec<&'static str> {
        let mut random = Random::new(5);
        (0..tries)
            .map(|_| {
                let way = mix.choose(&["a", "b", "c", "d"], &mut random).unwrap();
                let gain = if way == pays { 0.1 } else { 0.0 };
                mix.tell(&way, Paid { gain, cost: 1.0 });
                way
            })
            .collect()
    }

    fn count(of: &[&str], way: &str) -> usize {
        of.iter().filter(|other| **other == way).count()
    }

    #[test]
    fn what_pays_gets_more_and_none_starves() {
        let mut mix = Mix::new(["a", "b", "c", "d"], MixSettings::default());
        let chosen = run(&mut mix, "c", 400);
        assert!(count(&chosen, "c") > 200, "{}", count(&chosen, "c"));
        let patience = usize::try_from(mix.patience(4)).unwrap();
        for way in ["a", "b", "d"] {
            // Four at a time may wait.
            for window in chosen.windows(patience + 4) {
                assert!(window.contains(&way), "{way} was passed over");
            }
        }
    }

    #[test]
    fn a_mix_follows_when_something_else_pays() {
        let mut mix = Mix::new(["a", "b", "c", "d"], MixSettings::default());
        run(&mut mix, "a", 200);
        let later = run(&mut mix, "b", 400);
        let last = &later[200..];
        assert!(count(last, "b") > count(last, "a"));
    }

    #[test]
    fn the_cheaper_of_two_that_gain_alike_gets_more() {
        let mut mix = Mix::new(["fast", "slow"], MixSettings::default());
        for _ in 0..20 {
            mix.tell(
                &"fast",
                Paid {
                    gain: 0.1,
                    cost: 1.0,
                },
            );
            mix.tell(
                &"slow",
                Paid {
                    gain: 0.1,
                    cost: 10.0,
                },
            );
        }
        let shares = mix.shares();
        assert!(shares[0].1 > 2.0 * shares[1].1, "{shares:?}");
    }

    #[test]
    fn the_same_seed_and_the_same_results_give_the_same_choices() {
        let mut one = Mix::new(["a", "b", "c", "d"], MixSettings::default());
        let mut two = one.clone();
        assert_eq!(run(&mut one, "d", 300), run(&mut two, "d", 300));
        assert_eq!(one, two);
    }

    #[test]
    fn gains_that_are_no_numbers_count_as_nothing() {
        let mut mix = Mix::new(["a", "b"], MixSettings::default());
        for gain in [f64::NAN, f64::INFINITY, -1.0] {
            mix.tell(
                &"a",
                Paid {
                    gain,
                    cost: f64::NAN,
                },
            );
        }
        assert_eq!(mix.shares(), [("a", 0.5), ("b", 0.5)]);
    }

    #[test]
    fn only_what_is_open_is_chosen() {
        let mut mix = Mix::new(["a", "b", "c", "d"], MixSettings::default());
        let mut random = Random::new(3);
        for _ in 0..100 {
            assert_eq!(mix.choose(&["b"], &mut random), Some("b"));
        }
        assert_eq!(mix.choose(&[], &mut random), None);
    }
}
