//! All points, one after the other.

use std::collections::BTreeSet;

use super::{Strategy, Told};
use crate::space::{Point, Space};

/// Every point of the grid in the order of the parameters, the last one changing fastest. It begins with the original.
#[derive(Debug)]
pub struct Grid {
    space: Space,
    /// Where the walk is; `None` before the first point.
    at: Option<Point>,
    over: bool,
    seen: BTreeSet<Point>,
}

impl Grid {
    /// From the beginning.
    #[must_use]
    pub fn new(space: Space) -> Self {
        Self {
            space,
            at: None,
            over: false,
            seen: BTreeSet::new(),
        }
    }
}

impl Strategy for Grid {
    fn ask(&mut self, n: usize) -> Vec<Point> {
        let mut points = Vec::new();
        while points.len() < n && !self.over {
            match self.space.after(self.at.as_ref()) {
                Some(point) => {
                    if self.seen.insert(point.clone()) {
                        points.push(point.clone());
                    }
                    self.at = Some(point);
                }
                None => self.over = true,
            }
        }
        points
    }

    fn tell(&mut self, point: &Point, _: Told) {
        self.seen.insert(point.clone());
    }
}
