//! What can be varied for a kernel.
//!
//! In flow a [`KernelDescription`](r3_replay::evaluate::describe::KernelDescription) and what the user allows; out flow
//! [`Point`]s, each of which is a [`Candidate`](r3_replay::evaluate::Candidate). The modules in that order:
//!
//! - `value`: [`Value`] and [`Point`].
//! - `domain`: [`Domain`]: which values a parameter has, and which are near to each other.
//! - `facts`: what of the kernel a point needs to become a candidate.
//! - `shapes`: blocks that a kernel can be launched with.
//! - `derive`: [`Space::of_kernel`]: the parameters of a kernel, each with the reason why it is in or out.
//! - `source`: [`Space::of_source`]: the same for a source that is given.
//! - `candidate`: [`Space::candidate`], [`Space::candidate_of`].
//! - `enumerate`: how many points there are, and all of them.
//! - `text`: the space as TOML that people edit, and back.
//!
//! # Invariants
//!
//! - A parameter means something only where its conditions hold; they speak of parameters before it. A point has exactly
//!   the parameters that mean something there.
//! - What is known to be impossible beforehand (too many registers for the threads of a block) is in [`Never`], and no
//!   point that is drawn, enumerated or completed breaks it.
//! - The first value of every parameter is what the original has: the point of all first values is the recorded code, and of a
//!   source, what its text says.

mod candidate;
mod derive;
pub mod domain;
mod enumerate;
mod facts;
mod shapes;
mod source;
mod text;
mod value;

use std::collections::BTreeMap;

use r3_codegen::passes::Random;
use serde::{Deserialize, Serialize};

pub use candidate::CandidateError;
pub use derive::{Allowed, OptionError, SpaceOptions};
pub use domain::Domain;
pub use enumerate::Size;
pub use facts::KernelFacts;
pub use text::SpaceError;
pub use value::{Point, Value};

/// What can be varied. Two spaces are equal when the same can be tried, whatever is said about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// The kernel; `None` for spaces that are no kernel's, as those of test functions.
    #[serde(default)]
    pub kernel: Option<KernelFacts>,
    /// The parameters. Conditions speak of earlier ones.
    pub parameters: Vec<Parameter>,
    /// What can never be together.
    #[serde(default)]
    pub never: Vec<Never>,
    /// What is tried first, each as what differs from the original.
    #[serde(default)]
    pub start: Vec<BTreeMap<String, Value>>,
}

/// One thing that can be varied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its values.
    pub domain: Domain,
    /// Where it means something: where all of these hold.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// Whether it is varied. Where it is not, it has its original value.
    #[serde(default = "yes")]
    pub varied: bool,
    /// Values that are known and not tried: most were a waste on real kernels.
    #[serde(default)]
    pub dropped: Vec<String>,
    /// Why it is in or out, for people. Not part of what the space is.
    #[serde(default)]
    pub why: String,
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        let of = |one: &Self| {
            (
                one.name.clone(),
                one.domain.clone(),
                one.when.clone(),
                one.varied,
                one.dropped.clone(),
            )
        };
        of(self) == of(other)
    }
}

impl PartialEq for Never {
    fn eq(&self, other: &Self) -> bool {
        self.together == other.together
    }
}

fn yes() -> bool {
    true
}

/// A parameter has one of some values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The parameter.
    pub parameter: String,
    /// The values.
    pub values: Vec<String>,
}

impl Condition {
    /// Whether it holds of a point. Where the parameter means nothing it does not.
    #[must_use]
    pub fn holds(&self, point: &Point) -> bool {
        point
            .text(&self.parameter)
            .is_some_and(|value| self.values.iter().any(|one| one == value))
    }
}

/// Conditions that no point fulfils all at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Never {
    /// The conditions.
    pub together: Vec<Condition>,
    /// Why, for people.
    #[serde(default)]
    pub why: String,
}

impl Never {
    /// Whether a point breaks it.
    #[must_use]
    pub fn is_broken_by(&self, point: &Point) -> bool {
        !self.together.is_empty() && self.together.iter().all(|one| one.holds(point))
    }

    fn spell(&self) -> String {
        let names: Vec<&str> = self
            .together
            .iter()
            .map(|one| one.parameter.as_str())
            .collect();
        let what = format!("these values of {} never go together", names.join(" and "));
        if self.why.is_empty() {
            what
        } else {
            format!("{what}: {}", self.why)
        }
    }
}

/// Why a point is none of a space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// A parameter is missing.
    #[error("the point has no `{0}`, which means something here")]
    Missing(String),
    /// A parameter is there that means nothing.
    #[error(
        "`{0}` means nothing in this point: the space has no such parameter, or what it depends on is otherwise"
    )]
    Meaningless(String),
    /// A value is none.
    #[error("`{name}`: {reason}")]
    Value {
        /// The parameter.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// What can never be together is.
    #[error("{0}")]
    Never(String),
}

/// How often a valid point is looked for before it is given up.
const TRIES: usize = 1000;

impl Space {
    /// A parameter by its name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|one| one.name == name)
    }

    /// The original.
    #[must_use]
    pub fn original(&self) -> Point {
        self.complete(&Point::default())
    }

    /// A point out of some values: parameters that mean something and are not said have their original value, and what means
    /// nothing is left out. Values that are none are kept, for [`check`](Self::check) to find.
    #[must_use]
    pub fn complete(&self, some: &Point) -> Point {
        let mut point = Point::default();
        for parameter in &self.parameters {
            if !parameter.means_something(&point) {
                continue;
            }
            let value = match some.get(&parameter.name) {
                Some(value) => value.clone(),
                None => parameter.domain.default_value(),
            };
            point.0.insert(parameter.name.clone(), value);
        }
        point
    }

    /// Why a point is none of this space.
    pub fn check(&self, point: &Point) -> Result<(), PointError> {
        let mut seen = Point::default();
        for parameter in &self.parameters {
            if !parameter.means_something(&seen) {
                continue;
            }
            let Some(value) = point.get(&parameter.name) else {
                return Err(PointError::Missing(parameter.name.clone()));
            };
            let original = parameter.domain.default_value();
            let allowed = if parameter.varied || *value == original {
                parameter.domain.check(value)
            } else {
                Err(format!("it is not varied, and stays at {original}"))
            };
            allowed.map_err(|reason| PointError::Value {
                name: parameter.name.clone(),
                reason,
            })?;
            seen.0.insert(parameter.name.clone(), value.clone());
        }
        if let Some(name) = point.0.keys().find(|name| seen.get(name).is_none()) {
            return Err(PointError::Meaningless(name.clone()));
        }
        match self.never.iter().find(|never| never.is_broken_by(point)) {
            Some(never) => Err(PointError::Never(never.spell())),
            None => Ok(()),
        }
    }

    /// Whether a point is one of this space.
    #[must_use]
    pub fn has(&self, point: &Point) -> bool {
        self.check(point).is_ok()
    }

    /// The points that are tried first: the original, then those of [`start`](Self::start), each once, without those that the
    /// space does not have.
    #[must_use]
    pub fn start_points(&self) -> Vec<Point> {
        let original = self.original();
        let mut points = Vec::new();
        for values in std::iter::once(&BTreeMap::new()).chain(&self.start) {
            let point = self.complete(&original.with(values));
            let all_mean_something = values.keys().all(|name| point.get(name).is_some());
            if all_mean_something && self.has(&point) && !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    /// A point, every value of every parameter being equally likely; `None` when none is found.
    pub fn draw(&self, random: &mut Random) -> Option<Point> {
        (0..TRIES).find_map(|_| {
            let mut point = Point::default();
            for parameter in &self.parameters {
                if parameter.means_something(&point) {
                    let value = if parameter.varied {
                        parameter.domain.draw(random)
                    } else {
                        parameter.domain.default_value()
                    };
                    point.0.insert(parameter.name.clone(), value);
                }
            }
            self.has(&point).then_some(point)
        })
    }

    /// A point that differs from another in one parameter, and in what that gives or takes meaning; `None` when there is none.
    pub fn neighbour(&self, of: &Point, random: &mut Random) -> Option<Point> {
        let varied: Vec<&Parameter> = self
            .parameters
            .iter()
            .filter(|one| one.varied && one.domain.count() > 1.0 && of.get(&one.name).is_some())
            .collect();
        (0..TRIES).find_map(|_| {
            let parameter = random.pick(&varied)?;
            let value = of.get(&parameter.name)?;
            let mut point = of.clone();
            let other = parameter.domain.near(value, random);
            point.0.insert(parameter.name.clone(), other);
            let point = self.complete(&point);
            (point != *of && self.has(&point)).then_some(point)
        })
    }

    /// What of a point differs from the original, in the order of the parameters: name and value.
    #[must_use]
    pub fn knobs(&self, point: &Point) -> Vec<(String, String)> {
        self.parameters
            .iter()
            .filter_map(|parameter| {
                let value = point.get(&parameter.name)?;
                let text = match value {
                    Value::List(list) if list.is_empty() => "none".to_owned(),
                    value => value.to_string(),
                };
                (*value != parameter.domain.default_value())
                    .then_some((parameter.name.clone(), text))
            })
            .collect()
    }

    /// A point with one parameter as the original has it; `None` when it is so already, or when that is no point.
    #[must_use]
    pub fn with_original(&self, point: &Point, name: &str) -> Option<Point> {
        let parameter = self.parameter(name)?;
        let mut other = point.clone();
        other
            .0
            .insert(parameter.name.clone(), parameter.domain.default_value());
        let other = self.complete(&other);
        (other != *point && self.has(&other)).then_some(other)
    }
}

impl Parameter {
    /// Whether it means something, as far as the parameters before it say.
    #[must_use]
    pub fn means_something(&self, before: &Point) -> bool {
        self.when.iter().all(|condition| condition.holds(before))
    }
}
