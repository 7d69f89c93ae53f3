//! Which model is asked: by whether devices stand idle, and by what paid.
//!
//! While a device has nothing to do, an answer soon is worth more than a good one, so a fast model is asked; while all of them are busy,
//! an accurate one. Among several models of a part, the one is asked that comes out best of a draw by what is known of each (Thompson
//! sampling): one that paid is asked more often, one that is hardly known now and then. What a model costs weighs against what it
//! brought.
//!
//! The draw for a slot is a function of the seed, the slot, and of what was told before, in its order. A clock decides one thing,
//! [`Chooser::is_idle`], and that is stored with the slot.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::retry::Spread;
use crate::settings::{ChoiceSettings, Model, Part, Settings};

/// What is told of an answer weighs this much when the next one is told: models that paid early may not pay late.
const MEMORY: f64 = 0.97;

/// For how long the device that has waited longest has had nothing to do; `None` when all are busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle(pub Option<Duration>);

/// Who knows the time. Tests have a clock that they set.
pub trait Clock {
    /// The time since some moment.
    fn now(&self) -> Duration;
}

/// The time of this machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Since when each device has had nothing to do.
#[derive(Clone, Debug)]
pub struct IdleWatch<C> {
    clock: C,
    idle_since: Vec<Option<Duration>>,
}

impl<C: Clock> IdleWatch<C> {
    /// For so many devices, idle from now on.
    pub fn new(devices: usize, clock: C) -> Self {
        let now = clock.now();
        Self {
            clock,
            idle_since: vec![Some(now); devices],
        }
    }

    /// A device has something to do, or no longer.
    pub fn set(&mut self, device: usize, is_busy: bool) {
        let now = self.clock.now();
        if let Some(since) = self.idle_since.get_mut(device) {
            *since = if is_busy {
                None
            } else {
                Some(since.unwrap_or(now))
            };
        }
    }

    /// So many devices have something to do: the others have waited since that became so.
    pub fn set_busy(&mut self, count: usize) {
        for device in 0..self.idle_since.len() {
            self.set(device, device < count);
        }
    }

    /// For how long the one that has waited longest has had nothing to do.
    pub fn idle(&self) -> Idle {
        let longest = self.idle_since.iter().flatten().min();
        Idle(longest.map(|since| self.clock.now().saturating_sub(*since)))
    }
}

/// A model was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Its name in the settings.
    pub model: String,
    /// For which part.
    pub part: Part,
    /// Whether a device had been idle beyond the threshold. What a clock decided once is stored, and taken from there on going on.
    pub idle: bool,
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its name in the settings.
    pub model: String,
    /// What it is asked for.
    pub part: Part,
    /// Answers that were told.
    pub told: u64,
    /// What they were worth together.
    pub paid: f64,
    /// US dollars that they cost.
    pub cost: f64,
}

#[derive(Clone, Debug)]
struct Arm {
    standing: Standing,
    /// Worth and worthlessness, the older ones counting less.
    good: f64,
    bad: f64,
    answers: f64,
    cost: f64,
}

/// Chooses models. A function of the settings, the seed, and of what it is told in which order.
#[derive(Clone, Debug)]
pub struct Chooser {
    arms: Vec<Arm>,
    settings: ChoiceSettings,
    seed: u64,
}

impl Chooser {
    /// For the models of some settings.
    pub fn new(settings: &Settings, seed: u64) -> Self {
        let arm = |model: &Model| Arm {
            standing: Standing {
                model: model.name.clone(),
                part: model.part,
                told: 0,
                paid: 0.0,
                cost: 0.0,
            },
            good: 0.0,
            bad: 0.0,
            answers: 0.0,
            cost: 0.0,
        };
        let chat = settings.models.iter().filter(|m| m.part != Part::Embedding);
        Self {
            arms: chat.map(arm).collect(),
            settings: settings.choice,
            seed,
        }
    }

    /// Whether devices have been idle beyond the threshold: the one thing here that a clock decides.
    pub fn is_idle(&self, idle: Idle) -> bool {
        idle.0
            .is_some_and(|idle| idle.as_secs_f64() >= self.settings.idle)
    }

    /// A model for a slot. `usable` says which models' services are up, so that another one takes over in an outage; where none is, it
    /// is chosen as if all were. `None` where there is no model at all.
    pub fn choose(&self, idle: bool, slot: u64, usable: &dyn Fn(&str) -> bool) -> Option<Choice> {
        let wanted = if idle { Part::Fast } else { Part::Accurate };
        let other = if idle { Part::Accurate } else { Part::Fast };
        let among = |part: Part, any: bool| {
            let mut draws = Spread::new(self.seed ^ slot.wrapping_mul(0xd6e8_feb8_6659_fd93));
            self.arms
                .iter()
                // Each model has its own draw, whether it can be used or not: an outage of one changes nothing for the others.
                .map(|arm| (arm, self.draw(arm, &mut draws)))
                .filter(|(arm, _)| arm.standing.part == part)
                .filter(|(arm, _)| any || usable(&arm.standing.model))
                .fold(None::<(&Arm, f64)>, |best, next| match best {
                    Some(best) if best.1 >= next.1 => Some(best),
                    _ => Some(next),
                })
                .map(|(arm, _)| arm)
        };
        let arm = among(wanted, false)
            .or_else(|| among(other, false))
            .or_else(|| among(wanted, true))
            .or_else(|| among(other, true))?;
        Some(Choice {
            model: arm.standing.model.clone(),
            part: arm.standing.part,
            idle,
        })
    }

    /// What an answer of a model was worth, from 0 (unusable) to 1 (it is among the best now), and what it cost in US dollars.
    pub fn tell(&mut self, model: &str, paid: f64, cost: f64) {
        let paid = if paid.is_finite() {
            paid.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let cost = if cost.is_finite() { cost.max(0.0) } else { 0.0 };
        let Some(arm) = self.arms.iter_mut().find(|arm| arm.standing.model == model) else {
            return;
        };
        arm.good = arm.good * MEMORY + paid;
        arm.bad = arm.bad * MEMORY + (1.0 - paid);
        arm.answers = arm.answers * MEMORY + 1.0;
        arm.cost = arm.cost * MEMORY + cost;
        arm.standing.told += 1;
        arm.standing.paid += paid;
        arm.standing.cost += cost;
    }

    /// What is known of each model.
    pub fn standings(&self) -> impl Iterator<Item = &Standing> {
        self.arms.iter().map(|arm| &arm.standing)
    }

    /// A draw from what is known of a model: its worth, by its cost against that of the others.
    fn draw(&self, arm: &Arm, draws: &mut Spread) -> f64 {
        let worth = beta(arm.good + 1.0, arm.bad + 1.0, draws);
        let mean = |arm: &Arm| (arm.cost > 0.0).then(|| arm.cost / arm.answers.max(1.0));
        let known: Vec<f64> = self.arms.iter().filter_map(mean).collect();
        let Some(cost) = mean(arm) else {
            return worth;
        };
        let average = known.iter().sum::<f64>() / known.len().max(1) as f64;
        worth / (cost / average).powf(self.settings.cost_weight)
    }
}

/// A number drawn from a beta distribution, both of whose parameters are at least 1: by two gamma distributions (Marsaglia, Tsang).
fn beta(a: f64, b: f64, draws: &mut Spread) -> f64 {
    let (x, y) = (gamma(a, draws), gamma(b, draws));
    if x + y > 0.0 { x / (x + y) } else { 0.5 }
}

fn gamma(shape: f64, draws: &mut Spread) -> f64 {
    let d = shape.max(1.0) - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    // Each round ends it with more than 95 in 100; the bound is for the reader.
    for _ in 0..1000 {
        let x = normal(draws);
        let v = (1.0 + c * x).powi(3);
        if v <= 0.0 {
            continue;
        }
        let u = draws.unit().max(f64::MIN_POSITIVE);
        if u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
    d
}

fn normal(draws: &mut Spread) -> f64 {
    // Box, Muller.
    let u = draws.unit().max(f64::MIN_POSITIVE);
    let angle = std::f64::consts::TAU * draws.unit();
    (-2.0 * u.ln()).sqrt() * angle.cos()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A clock that stands still until it is set.
    #[derive(Clone, Default)]
    struct Hand(Rc<Cell<Duration>>);

    impl Hand {
        fn go(&self, milliseconds: u64) {
            self.0
                .set(self.0.get() + Duration::from_millis(milliseconds));
        }
    }

    impl Clock for Hand {
        fn now(&self) -> Duration {
            self.0.get()
        }
    }

    fn settings(models: &[(&str, Part)]) -> Settings {
        Settings {
            models: models
                .iter()
                .map(|(name, part)| Model::new(name, *part))
                .collect(),
            choice: ChoiceSettings {
                idle: 2.0,
                cost_weight: 0.5,
            },
            ..Settings::default()
        }
    }

    const BOTH: &[(&str, Part)] = &[
        ("small", Part::Fast),
        ("large", Part::Accurate),
        ("vectors", Part::Embedding),
    ];

    fn up(_: &str) -> bool {
        true
    }

    #[test]
    fn fast_models_are_asked_while_a_device_stands_idle_beyond_the_threshold() {
        let clock = Hand::default();
        let mut devices = IdleWatch::new(2, clock.clone());
        let chooser = Chooser::new(&settings(BOTH), 1);
        let asked = |devices: &IdleWatch<Hand>| {
            let idle = chooser.is_idle(devices.idle());
            chooser.choose(idle, 0, &up).unwrap().model
        };
        devices.set(0, true);
        devices.set(1, true);
        clock.go(60_000);
        assert_eq!(asked(&devices), "large", "all busy");
        devices.set(1, false);
        clock.go(1_999);
        assert_eq!(asked(&devices), "large", "one idle, not for long enough");
        clock.go(1);
        assert_eq!(asked(&devices), "small", "one idle for two seconds");
        // Told again that it is idle, it has not begun to be.
        devices.set(1, false);
        assert_eq!(asked(&devices), "small");
        devices.set(1, true);
        assert_eq!(asked(&devices), "large", "busy again");
        devices.set_busy(1);
        clock.go(2_000);
        assert_eq!(asked(&devices), "small");
    }

    #[test]
    fn one_part_stands_in_for_the_other() {
        let accurate = Chooser::new(&settings(&BOTH[1..]), 1);
        assert_eq!(accurate.choose(true, 0, &up).unwrap().model, "large");
        let both = Chooser::new(&settings(BOTH), 1);
        let down = |name: &str| name != "small";
        assert_eq!(both.choose(true, 0, &down).unwrap().model, "large");
        // With all of them down the question waits for the one that it wants.
        assert_eq!(both.choose(true, 0, &|_| false).unwrap().model, "small");
        assert_eq!(
            Chooser::new(&settings(&BOTH[2..]), 1).choose(true, 0, &up),
            None
        );
    }

    const THREE: &[(&str, Part)] = &[
        ("a", Part::Accurate),
        ("b", Part::Accurate),
        ("c", Part::Accurate),
    ];

    /// How often each of three models is asked in `slots` slots when it pays so much at such a cost.
    fn asked(worth: [f64; 3], cost: [f64; 3], slots: u64) -> [u64; 3] {
        let mut chooser = Chooser::new(&settings(THREE), 42);
        let mut counts = [0; 3];
        let mut luck = Spread::new(7);
        for slot in 0..slots {
            let model = chooser.choose(false, slot, &up).unwrap().model;
            let index = THREE.iter().position(|(name, _)| *name == model).unwrap();
            counts[index] += 1;
            let paid = if luck.unit() < worth[index] { 1.0 } else { 0.0 };
            chooser.tell(&model, paid, cost[index]);
        }
        counts
    }

    #[test]
    fn what_pays_is_asked_more_often_and_the_others_now_and_then() {
        let counts = asked([0.1, 0.6, 0.2], [0.0; 3], 400);
        assert!(counts[1] > 240, "{counts:?}");
        assert!(counts.iter().all(|count| *count > 3), "{counts:?}");
    }

    #[test]
    fn of_two_that_pay_as_much_the_cheaper_is_asked_more_often() {
        let counts = asked([0.4, 0.4, 0.4], [0.10, 0.10, 0.01], 400);
        assert!(counts[2] > counts[0] + counts[1], "{counts:?}");
    }

    #[test]
    fn the_same_told_the_same_chooses_the_same() {
        assert_eq!(
            asked([0.3, 0.5, 0.2], [0.1, 0.2, 0.3], 100),
            asked([0.3, 0.5, 0.2], [0.1, 0.2, 0.3], 100)
        );
        let chooser = Chooser::new(&settings(THREE), 9);
        let other = Chooser::new(&settings(THREE), 10);
        let names = |c: &Chooser| -> Vec<String> {
            (0..50)
                .map(|slot| c.choose(false, slot, &up).unwrap().model)
                .collect()
        };
        assert_eq!(names(&chooser), names(&chooser));
        assert_ne!(names(&chooser), names(&other));
    }

    #[test]
    fn an_outage_of_one_model_changes_nothing_for_slots_of_the_others() {
        let chooser = Chooser::new(&settings(THREE), 9);
        let without_b = |name: &str| name != "b";
        for slot in 0..50 {
            let before = chooser.choose(false, slot, &up).unwrap().model;
            if before != "b" {
                assert_eq!(
                    chooser.choose(false, slot, &without_b).unwrap().model,
                    before
                );
            }
        }
    }

    #[test]
    fn nonsense_that_is_told_does_no_harm() {
        let mut chooser = Chooser::new(&settings(THREE), 9);
        for (paid, cost) in [
            (f64::NAN, f64::NAN),
            (f64::INFINITY, -1.0),
            (-5.0, f64::INFINITY),
        ] {
            chooser.tell("a", paid, cost);
            chooser.tell("nobody", paid, cost);
        }
        assert!(chooser.choose(false, 1, &up).is_some());
        assert!(
            chooser
                .standings()
                .all(|s| s.paid.is_finite() && s.cost.is_finite())
        );
    }
}
