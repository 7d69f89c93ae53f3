//! How many evaluations a variant deserves, found out on variants that are made up.
//!
//! A synthetic [`Subject`] is the source as given. A variant descends from another one: it is wrong, or its time is its parent's
//! times a step (most steps lead nowhere, some are worse, few are better, and the further a line has come the fewer), and
//! each effect of a knob on it is its parent's, a little changed at times. So what is good for a parent is often good for its
//! child, and not always. Variants lie in cells, in which the best known one stays, and parents are chosen among those.
//!
//! A [`Policy`] spends a budget of evaluations on such variants. What counts is the true time of what it takes for the best,
//! not what was measured of it: who looks at many variants briefly is lucky more often than right.

use std::collections::BTreeMap;

use r3_codegen::passes::Random;
use r3_replay::evaluate::{Candidate, Verdict};

use super::Subject;
use super::subject::Source;
use crate::evolve::variant::VariantNumber;
use crate::inner::{BATCH, Inner, Rungs};
use crate::space::domain::{normal, unit};
use crate::space::{CandidateError, Point};
use crate::strategy::Told;

mod policy;

pub use policy::{Policy, Row, Spent};

/// Cells of the made-up grid.
const CELLS: u64 = 16;
/// Parts of the variants that are wrong, and, of the others, that change nothing to speak of. The rest is better or worse.
const WRONG: f64 = 0.4;
const NEUTRAL: f64 = 0.45;
/// How far steps go, as standard deviations of logarithms.
const NEUTRAL_STEP: f64 = 0.003;
const WORSE_STEP: f64 = 0.2;
const BETTER_STEP: f64 = 0.12;
/// Below this no line gets: logarithm of the ratio.
const FLOOR: f64 = -1.2;
/// How often an effect of a knob changes from parent to child, and how far.
const CHANGES: f64 = 0.3;
const CHANGE: f64 = 0.6;
/// How often a child stays in its parent's cell.
const STAYS: f64 = 0.6;

/// A made-up variant.
#[derive(Clone, Debug)]
struct Variant {
    right: bool,
    /// Logarithm of its time, its knobs left alone.
    log: f64,
    /// To what power each effect of a knob is here.
    powers: Vec<f64>,
    cell: u64,
    /// What the inner search begins with.
    start: Vec<Point>,
    seed: u64,
    told: Vec<(Point, Told)>,
    best: Option<(f64, Point)>,
}

/// A run.
struct Run<'s> {
    subject: &'s Subject,
    /// Part of the steps that are better.
    better: f64,
    random: Random,
    variants: Vec<Variant>,
    cells: BTreeMap<u64, usize>,
    spent: u32,
    best: Option<(f64, usize)>,
    /// What is taken for the best after each evaluation: its true time.
    curve: Vec<f64>,
}

/// Parts of the variants that are better than their parents, from a source with much to be had to one with little.
pub const BETTER: [f64; 3] = [0.15, 0.05, 0.015];

/// Runs policies on synthetic spaces, with seeds from 1 on, with as many evaluations as the last of `marks`.
pub fn compare(
    subjects: &[Subject],
    better: f64,
    policies: &[Policy],
    seeds: u32,
    marks: &[u32],
) -> Result<Spent, CandidateError> {
    let budget = marks.iter().copied().max().unwrap_or(0);
    let mut rows = Vec::new();
    for subject in subjects {
        let mut of_space: Vec<Row> = Vec::new();
        for policy in policies {
            let mut logs = vec![0.0; marks.len()];
            let mut variants = 0.0;
            for seed in 1..=u64::from(seeds.max(1)) {
                let mut run = Run::new(subject, better, seed);
                run.spend(policy, budget)?;
                variants += run.variants.len() as f64;
                for (log, mark) in logs.iter_mut().zip(marks) {
                    let at = usize::try_from(*mark).unwrap_or(usize::MAX);
                    let reached = run.curve.iter().take(at).next_back();
                    *log += reached.copied().unwrap_or(1.0).ln();
                }
            }
            let count = f64::from(seeds.max(1));
            of_space.push(Row {
                space: subject.name.clone(),
                policy: policy.to_string(),
                variants: variants / count,
                best: logs.iter().map(|log| (log / count).exp()).collect(),
                lost: Vec::new(),
            });
        }
        for at in 0..marks.len() {
            let value = |row: &Row| row.best.get(at).copied().unwrap_or(1.0);
            let least = of_space.iter().map(value).fold(f64::INFINITY, f64::min);
            for row in &mut of_space {
                let lost = value(row) / least - 1.0;
                row.lost.push(lost);
            }
        }
        rows.extend(of_space);
    }
    Ok(Spent {
        better,
        seeds,
        marks: marks.to_vec(),
        rows,
    })
}

impl<'s> Run<'s> {
    fn new(subject: &'s Subject, better: f64, seed: u64) -> Self {
        let effects = match &subject.source {
            Source::Effects(effects) => effects.count(),
            _ => 0,
        };
        Self {
            subject,
            better,
            random: Random::new(seed),
            variants: vec![Variant {
                right: true,
                log: 0.0,
                powers: vec![1.0; effects],
                cell: 0,
                start: Vec::new(),
                seed,
                told: Vec::new(),
                best: None,
            }],
            cells: BTreeMap::new(),
            spent: 0,
            best: None,
            curve: Vec::new(),
        }
    }

    fn spend(&mut self, policy: &Policy, budget: u32) -> Result<(), CandidateError> {
        let mut rungs = match policy {
            Policy::Even(_) => Rungs::default(),
            Policy::Halving(halving) => Rungs::new(halving.clone()),
        };
        let mut next = 0;
        while self.spent < budget {
            let promotion = match policy {
                Policy::Even(_) => None,
                Policy::Halving(_) => rungs.next(|_| true),
            };
            let (variant, rung, evaluations) = match promotion {
                Some(promotion) => (
                    usize::try_from(promotion.variant.0).unwrap_or(0),
                    promotion.rung,
                    promotion.evaluations,
                ),
                None => {
                    if next > 0 {
                        self.descend();
                    }
                    let evaluations = match policy {
                        Policy::Even(count) => *count,
                        Policy::Halving(_) => 0,
                    };
                    next += 1;
                    (next - 1, 0, evaluations)
                }
            };
            self.search(variant, evaluations, budget)?;
            let number = VariantNumber(i64::try_from(variant).unwrap_or(i64::MAX));
            let Some(found) = self.variants.get(variant) else {
                break;
            };
            let reached = found.best.as_ref().map(|(ratio, _)| *ratio);
            rungs.told(number, rung, reached);
            let ratio_of = |at: usize| {
                let best = self.variants.get(at).and_then(|one| one.best.as_ref());
                best.map_or(f64::INFINITY, |(ratio, _)| *ratio)
            };
            let known = self.cells.get(&found.cell).copied();
            if let Some(reached) = reached
                && known != Some(variant)
                && known.is_none_or(|other| reached < ratio_of(other))
            {
                if let Some(other) = known {
                    rungs.left(VariantNumber(i64::try_from(other).unwrap_or(i64::MAX)));
                }
                self.cells.insert(found.cell, variant);
                rungs.entered(number);
            }
        }
        Ok(())
    }

    /// A child of an elite: half of the time of the best one.
    fn descend(&mut self) {
        let best = self.best.map(|(_, variant)| variant);
        let elites: Vec<usize> = self.cells.values().copied().collect();
        let parent = if self.random.once_in(2) {
            best
        } else {
            self.random.pick(&elites).copied()
        };
        let Some(parent) = parent
            .or(Some(0))
            .and_then(|parent| self.variants.get(parent))
            .cloned()
        else {
            return;
        };
        let random = &mut self.random;
        let kind = unit(random);
        let room = (1.0 - parent.log / FLOOR).clamp(0.0, 1.0);
        let step = if kind < NEUTRAL {
            NEUTRAL_STEP * normal(random)
        } else if kind < 1.0 - self.better {
            WORSE_STEP * normal(random).abs()
        } else {
            -BETTER_STEP * normal(random).abs() * room
        };
        let mut powers = parent.powers.clone();
        if kind >= NEUTRAL {
            for power in &mut powers {
                if unit(random) < CHANGES {
                    *power = (*power + CHANGE * normal(random)).clamp(-0.5, 2.0);
                }
            }
        }
        let right = unit(random) >= WRONG;
        let cell = if unit(random) < STAYS {
            parent.cell
        } else {
            ((unit(random) * CELLS as f64) as u64).min(CELLS - 1)
        };
        let seed = (unit(random) * 1e15) as u64;
        self.variants.push(Variant {
            right,
            log: parent.log + step,
            powers,
            cell,
            start: parent.best.into_iter().map(|(_, point)| point).collect(),
            seed,
            told: Vec::new(),
            best: None,
        });
    }

    /// Searches a variant until it has had so many evaluations, or its screen.
    fn search(&mut self, at: usize, evaluations: u32, budget: u32) -> Result<(), CandidateError> {
        let Some(mut variant) = self.variants.get(at).cloned() else {
            return Ok(());
        };
        let space = self.subject.space.clone();
        let mut inner = Inner::new(space, Candidate::default(), &variant.start, variant.seed);
        for (point, told) in &variant.told {
            inner.told(point, *told);
        }
        let wanted = usize::try_from(evaluations).unwrap_or(usize::MAX);
        if variant.told.is_empty() {
            let most = if wanted == 0 { usize::MAX } else { wanted };
            let screen: Vec<Point> = inner
                .screen()?
                .into_iter()
                .map(|(point, _)| point)
                .collect();
            self.evaluate(
                at,
                &mut variant,
                &mut inner,
                screen.into_iter().take(most),
                budget,
            );
        }
        // One that is wrong is wrong everywhere, and its screen shows it.
        while variant.right && variant.told.len() < wanted && self.spent < budget {
            let count = (wanted - variant.told.len()).min(BATCH);
            let points: Vec<Point> = inner
                .ask(count)?
                .into_iter()
                .map(|(point, _)| point)
                .collect();
            if points.is_empty() {
                break;
            }
            self.evaluate(at, &mut variant, &mut inner, points.into_iter(), budget);
        }
        if let Some(place) = self.variants.get_mut(at) {
            *place = variant;
        }
        Ok(())
    }

    fn evaluate(
        &mut self,
        at: usize,
        variant: &mut Variant,
        inner: &mut Inner,
        points: impl Iterator<Item = Point>,
        budget: u32,
    ) {
        for point in points {
            if self.spent >= budget {
                return;
            }
            self.spent += 1;
            let told = self.measured(variant, &point);
            inner.told(&point, told);
            if let Some(ratio) = told.ratio() {
                if variant.best.as_ref().is_none_or(|(best, _)| ratio < *best) {
                    variant.best = Some((ratio, point.clone()));
                }
                if self.best.is_none_or(|(best, _)| ratio < best) {
                    self.best = Some((ratio, at));
                }
            }
            variant.told.push((point, told));
            let truly = match self.best {
                Some((_, best)) if best == at => Some(&*variant),
                Some((_, best)) => self.variants.get(best),
                None => None,
            };
            let truly = truly.and_then(|best| {
                let (_, point) = best.best.as_ref()?;
                self.truth(best, point).ratio()
            });
            self.curve.push(truly.unwrap_or(1.0));
        }
    }

    fn truth(&self, variant: &Variant, point: &Point) -> Told {
        if !variant.right {
            return Told::Invalid(Verdict::Wrong);
        }
        let told = match &self.subject.source {
            Source::Effects(effects) => effects.with_powers(point, &variant.powers),
            _ => self
                .subject
                .truth(point)
                .unwrap_or(Told::Invalid(Verdict::Unjudged)),
        };
        match told.ratio() {
            Some(ratio) => Told::exactly(ratio * variant.log.exp()),
            None => told,
        }
    }

    fn measured(&self, variant: &Variant, point: &Point) -> Told {
        self.subject
            .with_noise(self.truth(variant, point), point, variant.seed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::inner::Halving;
    use crate::simulate::synthetic;

    fn subject() -> Subject {
        let text = include_str!("../../data/synthetic/lombscargle.toml");
        synthetic::read(Path::new("lombscargle.toml"), text).unwrap()
    }

    fn run<'s>(subject: &'s Subject, policy: &Policy, budget: u32) -> Run<'s> {
        let mut run = Run::new(subject, 0.05, 7);
        run.spend(policy, budget).unwrap();
        run
    }

    #[test]
    fn a_budget_is_spent_and_kept_and_the_same_seed_spends_it_alike() {
        let subject = subject();
        for policy in [Policy::Even(12), Policy::Halving(Halving::default())] {
            let once = run(&subject, &policy, 150);
            assert_eq!((once.spent, once.curve.len()), (150, 150), "{policy}");
            assert_eq!(once.curve, run(&subject, &policy, 150).curve, "{policy}");
        }
    }

    #[test]
    fn halving_looks_at_more_variants_and_still_searches_some_as_far() {
        let subject = subject();
        let even = run(&subject, &Policy::Even(36), 400);
        let halving = run(&subject, &Policy::Halving(Halving::default()), 400);
        assert!(halving.variants.len() > 2 * even.variants.len());
        let longest = halving.variants.iter().map(|one| one.told.len()).max();
        assert!(longest >= Some(36), "{longest:?}");
    }

    #[test]
    fn no_more_is_spent_on_a_wrong_variant_than_its_screen() {
        let subject = subject();
        let even = run(&subject, &Policy::Even(36), 400);
        let wrong = even.variants.iter().filter(|one| !one.right);
        assert!(wrong.clone().count() > 0);
        assert!(wrong.clone().all(|one| one.told.len() <= 3));
    }
}
