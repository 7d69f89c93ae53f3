//! What is known of the knobs first, then a model of what came out.
//!
//! 1. `design`: the start points, then what the prior names, each time from the best point so far.
//! 2. From then on a point is chosen out of a pool: drawn where good points lie, one change away from the best, crossed from
//!    good ones, and what an `additive` model thinks best. In turn it is the `density` model that chooses, the additive one,
//!    and either of them among the neighbours of the best point alone; now and then a point is drawn blindly.
//! 3. `feasible` has learned which values and pairs of values come to nothing, and keeps points with them back.
//!
//! Points that were asked for and are not told yet count among those that are not good, so that a batch spreads out.

mod additive;
mod density;
mod design;
mod encode;
mod feasible;

use std::collections::{BTreeMap, BTreeSet};

use r3_codegen::passes::Random;
use r3_replay::evaluate::Verdict;

use self::additive::{Additive, Observation};
use self::density::{Density, Shape};
use self::design::{Design, Next};
use self::encode::{Cell, Encoder, Row};
use self::feasible::Feasible;
use super::{Prior, Strategy, Told};
use crate::space::domain::{normal, unit};
use crate::space::{Domain, Point, Size, Space, Value};

/// The default strategy.
#[derive(Debug)]
pub struct Bayesian {
    space: Space,
    shape: Shape,
    encoder: Encoder,
    random: Random,
    design: Design,
    /// Every point that was asked for or told.
    seen: BTreeSet<Point>,
    /// Those that were asked for and not told yet.
    pending: BTreeMap<Point, Row>,
    right: BTreeMap<Point, Observed>,
    wrong: BTreeSet<Point>,
    feasible: Feasible,
    /// The additive model, and of how many observations.
    fitted: (usize, Additive),
    /// Points that a combining stage has still to give.
    combinations: usize,
    /// Whether the surroundings of the best point are where to look most: the prior's plan has looked around already, or there are
    /// only numbers and orders.
    smooth: bool,
    /// Points that were chosen by the models.
    turn: u64,
    /// All points of a small space that were not seen when it was last looked at.
    left: Option<Vec<Point>>,
}

#[derive(Clone, Debug)]
struct Observed {
    row: Row,
    /// Logarithm of the ratio, a little on the safe side of the median.
    log: f64,
    /// How exactly it is known.
    deviation: f64,
    /// Logarithm of the upper end of its interval.
    high: f64,
}

/// How likely a point may fail to be tried by plan.
const RISK: f64 = 0.74;

/// Points drawn where good ones lie.
const DRAWN: usize = 24;

/// Points crossed from good ones.
const CROSSED: usize = 12;

/// Points at a distance of one change from the best.
const NEIGHBOURS: usize = 32;

/// Points from which the additive model goes downhill, steps on each way, and changes that are looked at for a step.
const STARTS: usize = 3;
const STEPS: usize = 8;
const PROMISING: usize = 6;

/// Points of a small space that are looked at each time.
const LOOKED_AT: usize = 100;

/// A space is small with at most so many points.
const SMALL: u64 = 5000;

/// Good points at most.
const MOST_GOOD: usize = 25;

/// Other points at most: among more, some are left out evenly.
const MOST_REST: usize = 250;

/// The additive model is fitted anew when there is one observation more for so many.
const REFIT: usize = 32;

/// A point must be so much better than the original, as a logarithm, to be built upon.
const MARGIN: f64 = 0.01;

impl Bayesian {
    /// With a prior and a seed.
    #[must_use]
    pub fn new(space: Space, prior: Prior, seed: u64) -> Self {
        Self {
            shape: Shape::new(&space, &prior),
            encoder: Encoder::new(&space),
            random: Random::new(seed),
            design: Design::new(&space, &prior),
            smooth: !prior.stages.is_empty() || !has_names(&space),
            seen: BTreeSet::new(),
            pending: BTreeMap::new(),
            right: BTreeMap::new(),
            wrong: BTreeSet::new(),
            feasible: Feasible::default(),
            fitted: (0, Additive::default()),
            combinations: 0,
            turn: 0,
            left: match space.size() {
                Size::Exactly(count) if count <= SMALL => Some(Vec::new()),
                _ => None,
            },
            space,
        }
    }

    /// The point that others are built upon.
    fn best(&self) -> Point {
        let original = self.space.original();
        let bound = self
            .right
            .get(&original)
            .map_or(f64::INFINITY, |seen| seen.log - MARGIN);
        let best = self
            .right
            .iter()
            .filter(|(_, seen)| seen.high < bound)
            .min_by(|one, other| one.1.high.total_cmp(&other.1.high));
        best.map_or(original, |(point, _)| point.clone())
    }

    /// The best points, best first.
    fn ranked(&self) -> Vec<(&Point, &Observed)> {
        let mut all: Vec<(&Point, &Observed)> = self.right.iter().collect();
        all.sort_by(|one, other| one.1.log.total_cmp(&other.1.log).then(one.0.cmp(other.0)));
        all
    }

    fn next(&mut self) -> Option<Point> {
        loop {
            if self.combinations > 0 {
                self.combinations -= 1;
                if let Some(point) = self.combined() {
                    return Some(point);
                }
                self.combinations = 0;
            }
            let best = self.best();
            match self.design.next(&self.space, &best) {
                Some(Next::Combine(count)) => self.combinations = count,
                Some(Next::Draw) => {
                    if let Some(point) = self.blind() {
                        return Some(point);
                    }
                }
                Some(Next::Point(point)) => {
                    let new = !self.seen.contains(&point) && self.space.has(&point);
                    if new && self.feasible.risk(&self.encoder.row(&point)) < RISK {
                        return Some(point);
                    }
                }
                None => break,
            }
        }
        self.modelled().or_else(|| self.remaining())
    }

    /// Some point that was not seen.
    fn remaining(&mut self) -> Option<Point> {
        for _ in 0..100 {
            let point = self.space.draw(&mut self.random)?;
            if !self.seen.contains(&point) {
                return Some(point);
            }
        }
        self.space.unseen(&self.seen, &mut self.random)
    }

    /// The additive model. Of many observations a few more change little: it is fitted anew when there are some.
    fn additive(&mut self) -> Additive {
        let count = self.right.len();
        let (fitted, model) = &self.fitted;
        if *fitted > 0 && count <= fitted + fitted / REFIT {
            return model.clone();
        }
        let observations: Vec<Observation<'_>> = self
            .right
            .values()
            .map(|seen| (&seen.row, seen.log, seen.deviation))
            .collect();
        let model = Additive::of(&observations);
        self.fitted = (count, model.clone());
        model
    }

    /// The most promising combination of what was good by itself.
    fn combined(&mut self) -> Option<Point> {
        let model = self.additive();
        let pool = self.climbed(&model);
        self.choose(pool, |row| model.predict(row))
    }

    /// From the best points downhill, one change at a time, as a model sees it: everything on the way.
    fn climbed(&self, model: &Additive) -> Vec<Point> {
        let mut pool = Vec::new();
        for (start, _) in self.ranked().into_iter().take(STARTS) {
            let mut at = start.clone();
            let mut now = model.predict(&self.encoder.row(&at));
            for _ in 0..STEPS {
                let steps = self.promising(&at, model).into_iter().map(|point| {
                    let worth = model.predict(&self.encoder.row(&point));
                    (point, worth)
                });
                let Some((point, worth)) = steps.min_by(|one, other| one.1.total_cmp(&other.1))
                else {
                    break;
                };
                if worth >= now - 1e-9 {
                    break;
                }
                (at, now) = (point, worth);
                pool.push(at.clone());
            }
        }
        pool
    }

    /// Points with one other name, which a model thinks better by itself: the best few.
    fn promising(&self, from: &Point, model: &Additive) -> Vec<Point> {
        let row = self.encoder.row(from);
        let mut changes: Vec<(f64, u16, u16)> = Vec::new();
        for (column, cell) in (0..).zip(&row) {
            let Cell::Name(now) = cell else { continue };
            let names = self.shape.names(usize::from(column)).len();
            for name in 0..u16::try_from(names).unwrap_or(u16::MAX) {
                let gain = model.worth(column, name) - model.worth(column, *now);
                if gain < 0.0 {
                    changes.push((gain, column, name));
                }
            }
        }
        changes.sort_by(|one, other| one.0.total_cmp(&other.0));
        let points = changes.into_iter().filter_map(|(_, column, name)| {
            let parameter = self.space.parameters.get(usize::from(column))?;
            let Domain::Choice(values) = &parameter.domain else {
                return None;
            };
            let value = values.get(usize::from(name)).filter(|_| parameter.varied)?;
            let point = self.changed(from, &parameter.name, value);
            self.space.has(&point).then_some(point)
        });
        points.take(PROMISING).collect()
    }

    fn changed(&self, from: &Point, name: &str, value: &str) -> Point {
        let mut point = from.clone();
        point.0.insert(name.to_owned(), value.into());
        self.space.complete(&point)
    }

    /// All points that differ from one in one parameter with names.
    fn changes(&self, from: &Point) -> Vec<Point> {
        let mut all = Vec::new();
        for parameter in &self.space.parameters {
            let Domain::Choice(values) = &parameter.domain else {
                continue;
            };
            let Some(now) = from.text(&parameter.name).filter(|_| parameter.varied) else {
                continue;
            };
            for value in values.iter().filter(|value| *value != now) {
                let point = self.changed(from, &parameter.name, value);
                if self.space.has(&point) {
                    all.push(point);
                }
            }
        }
        all
    }

    /// The point of a pool that was not seen, is not feared to fail, and has the least `cost`.
    fn choose(&mut self, pool: Vec<Point>, cost: impl Fn(&Row) -> f64) -> Option<Point> {
        let mut best: Option<(f64, Point)> = None;
        for point in pool {
            if self.seen.contains(&point) || !self.space.has(&point) {
                continue;
            }
            let row = self.encoder.row(&point);
            let risk = self.feasible.risk(&row);
            // A point that will hardly do is looked at once in a while.
            if unit(&mut self.random) < risk {
                continue;
            }
            let cost = cost(&row);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, point));
            }
        }
        best.map(|(_, point)| point)
    }

    /// One in so many points is drawn blindly: more as long as little is known.
    fn blind_every(&self) -> u64 {
        if self.smooth || self.turn > 50 { 12 } else { 4 }
    }

    /// By the models.
    fn modelled(&mut self) -> Option<Point> {
        self.turn += 1;
        if self.right.is_empty() || self.turn.is_multiple_of(self.blind_every()) {
            return self.blind();
        }
        let ranked = self.ranked();
        // A tenth of all, and some more while there are few.
        let good = (ranked.len() / 10 + 3).min(MOST_GOOD).min(ranked.len());
        let (best, others) = ranked.split_at(good);
        let numbers = self.numbers();
        let centres: Vec<Row> = best.iter().map(|(_, seen)| seen.row.clone()).collect();
        let points: Vec<Point> = best.iter().map(|(point, _)| (*point).clone()).collect();
        let every = others.len().div_ceil(MOST_REST).max(1);
        let rest: Vec<Row> = others
            .iter()
            .step_by(every)
            .map(|(_, seen)| seen.row.clone())
            .chain(self.pending.values().cloned())
            .collect();
        let good = Density::of(centres, numbers);
        let rest = Density::of(rest, numbers);
        let incumbent = points.first()?.clone();
        let mut near = self.changes(&incumbent);
        while near.len() > NEIGHBOURS {
            let at = self.random.below(near.len() as u64) as usize;
            near.swap_remove(at);
        }
        for _ in 0..NEIGHBOURS / 4 {
            near.extend(self.space.neighbour(&incumbent, &mut self.random));
        }
        let local = self.turn % 4 == 1 || (self.smooth && self.turn % 4 == 3);
        let mut pool = near;
        let model = self.additive();
        if !local {
            for _ in 0..DRAWN {
                let at = self.random.below(points.len() as u64 + 1) as usize;
                pool.extend(match points.get(at) {
                    Some(centre) => self.around(centre, good.width),
                    None => self.weighted(),
                });
            }
            for _ in 0..CROSSED {
                pool.extend(self.crossed(&points));
            }
            pool.extend(self.climbed(&model));
            pool.extend(self.some_left());
        }
        let shape = self.shape.clone();
        let found = if self.turn % 4 == 2 || (self.turn % 8 == 3 && numbers == 0) {
            self.choose(pool, |row| model.predict(row))
        } else {
            self.choose(pool, |row| rest.log(&shape, row) - good.log(&shape, row))
        };
        found.or_else(|| self.blind())
    }

    fn numbers(&self) -> usize {
        let integer = |domain: &Domain| matches!(domain, Domain::Integer { .. });
        let parameters = self.space.parameters.iter();
        parameters.filter(|one| integer(&one.domain)).count()
    }

    /// A point that was not seen, drawn by the weights of the prior.
    fn blind(&mut self) -> Option<Point> {
        let pool: Vec<Point> = (0..8).filter_map(|_| self.weighted()).collect();
        self.choose(pool, |_| 0.0)
    }

    /// A point drawn by the weights of the prior.
    fn weighted(&mut self) -> Option<Point> {
        for _ in 0..100 {
            let mut point = Point::default();
            for (column, parameter) in self.space.parameters.iter().enumerate() {
                if !parameter.means_something(&point) {
                    continue;
                }
                let value = match &parameter.domain {
                    domain if !parameter.varied => domain.default_value(),
                    Domain::Choice(values) => {
                        let at = pick(self.shape.names(column), &mut self.random);
                        Value::Text(values.get(at).cloned().unwrap_or_default())
                    }
                    domain => domain.draw(&mut self.random),
                };
                point.0.insert(parameter.name.clone(), value);
            }
            if self.space.has(&point) {
                return Some(point);
            }
        }
        None
    }

    /// A point around another one.
    fn around(&mut self, centre: &Point, width: f64) -> Option<Point> {
        for _ in 0..20 {
            let mut point = Point::default();
            for (column, parameter) in self.space.parameters.iter().enumerate() {
                if !parameter.means_something(&point) {
                    continue;
                }
                let now = centre.get(&parameter.name);
                let random = &mut self.random;
                let value = match (&parameter.domain, now) {
                    (domain, None) if !parameter.varied => domain.default_value(),
                    (_, Some(now)) if !parameter.varied => now.clone(),
                    (Domain::Choice(values), None) => {
                        let at = pick(self.shape.names(column), random);
                        Value::Text(values.get(at).cloned().unwrap_or_default())
                    }
                    (domain, None) => domain.draw(random),
                    (Domain::Choice(values), Some(now)) => {
                        if random.once_in(6) {
                            let at = pick(self.shape.names(column), random);
                            Value::Text(values.get(at).cloned().unwrap_or_default())
                        } else {
                            now.clone()
                        }
                    }
                    (Domain::Integer { low, high, log, .. }, Some(now)) => {
                        Value::Number(spread((*low, *high), *log, now, width, random))
                    }
                    (domain, Some(now)) => {
                        let mut list = now.clone();
                        while random.once_in(2) {
                            list = domain.near(&list, random);
                        }
                        list
                    }
                };
                point.0.insert(parameter.name.clone(), value);
            }
            if self.space.has(&point) {
                return Some(point);
            }
        }
        None
    }

    /// A point with some values of one good point and some of another.
    fn crossed(&mut self, points: &[Point]) -> Option<Point> {
        let one = self.random.pick(points)?;
        let other = self.random.pick(points)?;
        let mut point = one.clone();
        for (name, value) in &other.0 {
            if self.random.once_in(2) {
                point.0.insert(name.clone(), value.clone());
            }
        }
        let point = self.space.complete(&point);
        self.space.has(&point).then_some(point)
    }

    /// Some points of a small space that were not seen.
    fn some_left(&mut self) -> Vec<Point> {
        let Some(left) = &mut self.left else {
            return Vec::new();
        };
        if left.is_empty() {
            let mut at = None;
            while let Some(point) = self.space.after(at.as_ref()) {
                if !self.seen.contains(&point) {
                    left.push(point.clone());
                }
                at = Some(point);
            }
        }
        left.retain(|point| !self.seen.contains(point));
        let mut some = Vec::new();
        for _ in 0..LOOKED_AT.min(left.len()) {
            some.extend(self.random.pick(left).cloned());
        }
        some
    }
}

/// Whether a space has parameters with names for values.
fn has_names(space: &Space) -> bool {
    let mut parameters = space.parameters.iter();
    parameters.any(|one| matches!(one.domain, Domain::Choice(_)))
}

/// A place in a list of weights whose sum is 1.
fn pick(weights: &[f64], random: &mut Random) -> usize {
    let mut at = unit(random);
    for (place, weight) in weights.iter().enumerate() {
        at -= weight;
        if at < 0.0 {
            return place;
        }
    }
    weights.len().saturating_sub(1)
}

/// A number around another one, with a width that is a part of the range.
fn spread((low, high): (i64, i64), log: bool, now: &Value, width: f64, random: &mut Random) -> i64 {
    let now = now.number().unwrap_or(low).clamp(low, high);
    let by = width * normal(random);
    let to = if log {
        let range = (high as f64).ln() - (low.max(1) as f64).ln();
        ((now.max(1) as f64).ln() + by * range).exp()
    } else {
        now as f64 + by * (high as f64 - low as f64)
    };
    (to.round() as i64).clamp(low, high)
}

impl Strategy for Bayesian {
    fn ask(&mut self, n: usize) -> Vec<Point> {
        let mut points = Vec::new();
        while points.len() < n {
            let Some(point) = self.next() else { break };
            self.seen.insert(point.clone());
            self.pending.insert(point.clone(), self.encoder.row(&point));
            points.push(point);
        }
        points
    }

    fn tell(&mut self, point: &Point, told: Told) {
        self.seen.insert(point.clone());
        let known = self.right.contains_key(point) || self.wrong.contains(point);
        let row = self.encoder.row(point);
        match told {
            Told::Ratio { median, low, high } if median > 0.0 && median.is_finite() => {
                let log = median.ln();
                let end = |end: f64| {
                    if end > 0.0 && end.is_finite() {
                        end.ln()
                    } else {
                        log
                    }
                };
                let (low, high) = (end(low).min(log), end(high).max(log));
                if !known {
                    self.feasible.add(&row, true);
                }
                self.pending.remove(point);
                self.wrong.remove(point);
                self.right.insert(
                    point.clone(),
                    Observed {
                        row,
                        log: log + (high - log) / 4.0,
                        // An interval of 95 % has some four standard deviations.
                        deviation: (high - low) / 4.0,
                        high,
                    },
                );
            }
            Told::Ratio { .. } => {}
            // Says nothing about the point.
            Told::Invalid(Verdict::Cancelled | Verdict::CannotRun | Verdict::Unjudged) => {}
            Told::Invalid(_) => {
                if !known {
                    self.feasible.add(&row, false);
                }
                self.pending.remove(point);
                self.right.remove(point);
                self.wrong.insert(point.clone());
            }
        }
    }
}
