//! How many points a space has, and all of them.

use std::collections::BTreeSet;

use r3_codegen::passes::Random;

use super::{Parameter, Point, Space, Value};

/// How many points a space has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// So many, counted.
    Exactly(u64),
    /// About so many, or fewer: what can never be together is not taken off.
    About(f64),
}

/// Points that are counted one by one at most.
const COUNTED: u64 = 20_000;

impl Space {
    /// How many points there are.
    #[must_use]
    pub fn size(&self) -> Size {
        let about = self.product(0, &mut Point::default());
        let complete = self
            .parameters
            .iter()
            .enumerate()
            .filter(|(at, one)| one.varied && self.is_reachable(*at))
            .all(|(_, one)| one.domain.grid_is_complete());
        // What can never be together may leave few of very many.
        if complete && about <= 20.0 * COUNTED as f64 {
            let mut count = 0;
            let mut at = None;
            while let Some(point) = self.after(at.as_ref()) {
                count += 1;
                if count > COUNTED {
                    return Size::About(about);
                }
                at = Some(point);
            }
            return Size::Exactly(count);
        }
        Size::About(about)
    }

    /// Whether some point may have the parameter at a place. Conditions speak of earlier ones.
    fn is_reachable(&self, at: usize) -> bool {
        let Some(parameter) = self.parameters.get(at) else {
            return false;
        };
        parameter.when.iter().all(|condition| {
            let mut earlier = self.parameters.iter().take(at);
            let Some(place) = earlier.position(|one| one.name == condition.parameter) else {
                return false;
            };
            let values = self.parameters.get(place).map(Parameter::grid);
            let holds = |value: &Value| {
                let text = value.text();
                condition
                    .values
                    .iter()
                    .any(|one| Some(one.as_str()) == text)
            };
            values.unwrap_or_default().iter().any(holds) && self.is_reachable(place)
        })
    }

    /// Points from a parameter on, without regard to what can never be together.
    fn product(&self, from: usize, before: &mut Point) -> f64 {
        let Some(parameter) = self.parameters.get(from) else {
            return 1.0;
        };
        if !parameter.means_something(before) {
            return self.product(from + 1, before);
        }
        let decides = self.parameters.iter().skip(from + 1).any(|later| {
            let mut when = later.when.iter();
            when.any(|condition| condition.parameter == parameter.name)
        });
        if !decides || !parameter.varied {
            let count = if parameter.varied {
                parameter.domain.count()
            } else {
                1.0
            };
            before
                .0
                .insert(parameter.name.clone(), parameter.domain.default_value());
            let rest = self.product(from + 1, before);
            before.0.remove(&parameter.name);
            return count * rest;
        }
        let mut sum = 0.0;
        for value in parameter.domain.grid() {
            before.0.insert(parameter.name.clone(), value);
            sum += self.product(from + 1, before);
        }
        before.0.remove(&parameter.name);
        sum
    }

    /// The point of the grid that follows another, the last parameter changing fastest; the first one for `None`. `None` when
    /// there is no more.
    #[must_use]
    pub fn after(&self, point: Option<&Point>) -> Option<Point> {
        let mut at = match point {
            None => self.first_from(Point::default(), 0),
            Some(point) => self.step(point)?,
        };
        loop {
            if self.has(&at) {
                return Some(at);
            }
            at = self.step(&at)?;
        }
    }

    /// The next combination, valid or not.
    fn step(&self, point: &Point) -> Option<Point> {
        for (index, parameter) in self.parameters.iter().enumerate().rev() {
            let Some(value) = point.get(&parameter.name) else {
                continue;
            };
            let Some(next) = parameter.grid_after(value) else {
                continue;
            };
            let mut before = Point::default();
            for earlier in self.parameters.iter().take(index) {
                if let Some(value) = point.get(&earlier.name) {
                    before.0.insert(earlier.name.clone(), value.clone());
                }
            }
            before.0.insert(parameter.name.clone(), next);
            return Some(self.first_from(before, index + 1));
        }
        None
    }

    /// The first values of the parameters from `index` on.
    fn first_from(&self, mut point: Point, index: usize) -> Point {
        for parameter in self.parameters.iter().skip(index) {
            if parameter.means_something(&point) {
                let first = parameter.grid().into_iter().next();
                let first = first.unwrap_or_else(|| parameter.domain.default_value());
                point.0.insert(parameter.name.clone(), first);
            }
        }
        point
    }

    /// A point of the grid that is not among `seen`, at random where the grid is small; `None` when all are.
    pub(crate) fn unseen(&self, seen: &BTreeSet<Point>, random: &mut Random) -> Option<Point> {
        let mut left = Vec::new();
        let mut at = None;
        let mut walked = 0;
        while let Some(point) = self.after(at.as_ref()) {
            walked += 1;
            if !seen.contains(&point) {
                left.push(point.clone());
            }
            if walked > COUNTED && !left.is_empty() {
                break;
            }
            at = Some(point);
        }
        random.pick(&left).cloned()
    }
}

impl Parameter {
    /// The values that a grid tries.
    pub(crate) fn grid(&self) -> Vec<Value> {
        if self.varied {
            self.domain.grid()
        } else {
            vec![self.domain.default_value()]
        }
    }

    fn grid_after(&self, value: &Value) -> Option<Value> {
        let grid = self.grid();
        let at = grid.iter().position(|one| one == value)?;
        grid.into_iter().nth(at + 1)
    }
}
