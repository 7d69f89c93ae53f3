//! What is tried before there is a model: the start points, then the stages of the prior, each from the best point so far.

use std::collections::VecDeque;

use crate::space::{Domain, Point, Space};
use crate::strategy::Prior;
use crate::strategy::prior::Stage;

/// What comes next of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// This point, if it is one and was not tried.
    Point(Point),
    /// The most promising combinations, so many.
    Combine(usize),
    /// A point at random.
    Draw,
}

/// The plan, as far as it is still to be done.
#[derive(Clone, Debug)]
pub(super) struct Design {
    queue: VecDeque<Point>,
    stages: VecDeque<Stage>,
    /// Points that are drawn at last.
    drawn: usize,
}

/// Points that are drawn where nothing is known beforehand.
const DRAWN: usize = 10;

impl Design {
    pub fn new(space: &Space, prior: &Prior) -> Self {
        Self {
            queue: space.start_points().into(),
            stages: prior.stages.clone().into(),
            drawn: if prior.stages.is_empty() { DRAWN } else { 0 },
        }
    }

    /// The next step; `None` when the plan is done. A stage begins at what `best` is by then.
    pub fn next(&mut self, space: &Space, best: &Point) -> Option<Next> {
        loop {
            if let Some(point) = self.queue.pop_front() {
                return Some(Next::Point(point));
            }
            let Some(stage) = self.stages.pop_front() else {
                self.drawn = self.drawn.checked_sub(1)?;
                return Some(Next::Draw);
            };
            if stage.combine > 0 {
                return Some(Next::Combine(stage.combine));
            }
            self.queue = points(space, &stage, best);
        }
    }
}

/// The points of a stage.
fn points(space: &Space, stage: &Stage, base: &Point) -> VecDeque<Point> {
    let mut all = VecDeque::new();
    if let Some(name) = &stage.sweep {
        for value in values(space, name, stage.most.unwrap_or(usize::MAX), base) {
            let mut point = base.clone();
            point.0.insert(name.clone(), value.as_str().into());
            all.push_back(space.complete(&point));
        }
    }
    for change in &stage.changes {
        let point = space.complete(&base.with(change));
        // A change of what is not there, or means nothing, is none.
        if change
            .iter()
            .all(|(name, value)| point.get(name) == Some(value))
        {
            all.push_back(point);
        }
    }
    all
}

/// The values of a parameter other than the one that it has.
fn values(space: &Space, name: &str, most: usize, base: &Point) -> Vec<String> {
    let Some(parameter) = space.parameter(name).filter(|parameter| parameter.varied) else {
        return Vec::new();
    };
    let Domain::Choice(values) = &parameter.domain else {
        return Vec::new();
    };
    let now = base.text(name);
    let others = values.iter().filter(|value| Some(value.as_str()) != now);
    others.take(most).cloned().collect()
}
