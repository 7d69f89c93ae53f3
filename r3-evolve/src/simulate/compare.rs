//! Runs of strategies, and their score.
//!
//! The score is that of the methodology for comparing auto-tuners (Willemsen et al., 2024): after each evaluation, how far a
//! strategy has come from what random search is expected to have (0) to the best there is (1), averaged over the evaluations.
//! Random search's expectation is worked out from the distribution of all values, not run.

use std::fmt;

use serde::Serialize;

use super::Subject;
use crate::space::Point;
use crate::strategy::{Kind, build};

/// A gain counts as found when so much of it is reached.
pub const FOUND: f64 = 0.95;

/// No score is less: where random search is expected to be nearly there, the distance to it is measured in nothing.
const WORST: f64 = -1.0;

/// Evaluations after which the curve is told.
const MARKS: [usize; 7] = [10, 20, 40, 60, 100, 150, 200];

/// One run of a strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The best ratio after each evaluation, by what points are truly worth; infinite as long as none was right.
    pub best: Vec<f64>,
    /// The points that were evaluated, in order.
    pub points: Vec<Point>,
    /// Evaluations that came to nothing.
    pub invalid: usize,
}

/// What strategies showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Runs of each strategy on each space.
    pub seeds: u32,
    /// Evaluations in each run.
    pub evaluations: usize,
    /// By space and strategy.
    pub rows: Vec<Row>,
}

/// A strategy on a space.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The space.
    pub space: String,
    /// Whether nothing of it was measured.
    pub synthetic: bool,
    /// The strategy.
    pub strategy: &'static str,
    /// What the original has.
    pub original: Option<f64>,
    /// The best there is.
    pub optimum: f64,
    /// The best that was found, median over the seeds.
    pub best: f64,
    /// Evaluations until 95 % of the gain was reached, median over the seeds; `None` when half of them did not get there.
    pub found: Option<usize>,
    /// Part of the seeds that got there.
    pub found_by: f64,
    /// The score, mean over seeds and evaluations: 0 is random search's expectation, 1 is the best from the start.
    pub score: f64,
    /// The score after so many evaluations, mean over the seeds.
    pub curve: Vec<(usize, f64)>,
    /// Evaluations that came to nothing, as a part.
    pub invalid: f64,
}

/// Runs a strategy once, one point after the other.
#[must_use]
pub fn trial(subject: &Subject, kind: Kind, seed: u64, evaluations: usize) -> Trial {
    let mut strategy = build(kind, &subject.space, seed);
    let mut trial = Trial {
        best: Vec::new(),
        points: Vec::new(),
        invalid: 0,
    };
    let mut best = f64::INFINITY;
    while trial.best.len() < evaluations {
        let Some(point) = strategy.ask(1).pop() else {
            break;
        };
        let told = subject.told(&point, seed);
        strategy.tell(&point, told);
        match subject.truth(&point).and_then(|told| told.ratio()) {
            Some(ratio) => best = best.min(ratio),
            None => trial.invalid += 1,
        }
        trial.best.push(best);
        trial.points.push(point);
    }
    trial
}

/// Runs strategies on spaces, with seeds from 1 on.
#[must_use]
pub fn compare(subjects: &[Subject], kinds: &[Kind], seeds: u32, evaluations: usize) -> Report {
    let mut rows = Vec::new();
    for subject in subjects {
        let field = Field::of(subject, evaluations);
        for &kind in kinds {
            let trials: Vec<Trial> = (1..=u64::from(seeds.max(1)))
                .map(|seed| trial(subject, kind, seed, evaluations))
                .collect();
            rows.push(field.row(subject, kind, &trials));
        }
    }
    Report {
        seeds,
        evaluations,
        rows,
    }
}

/// What scores are relative to.
struct Field {
    original: Option<f64>,
    optimum: f64,
    /// What random search is expected to have after each evaluation.
    expected: Vec<f64>,
}

impl Field {
    fn of(subject: &Subject, evaluations: usize) -> Self {
        let original = subject.truth(&subject.space.original());
        let original = original.and_then(|told| told.ratio());
        let mut all = subject.distribution();
        all.sort_by(f64::total_cmp);
        let optimum = subject.optimum();
        // What is no better than the original, or not right, leaves the original.
        let worst = original.unwrap_or_else(|| {
            let finite = all.iter().rev().find(|value| value.is_finite());
            finite.copied().unwrap_or(1.0)
        });
        Self {
            original,
            optimum,
            expected: (0..evaluations)
                .map(|draws| expected_least(&all, draws, worst))
                .collect(),
        }
    }

    /// From where to where a search can come.
    fn start(&self) -> f64 {
        self.original
            .or(self.expected.first().copied())
            .unwrap_or(1.0)
    }

    /// 0 for what random search has, 1 for the best.
    fn score(&self, best: f64, at: usize) -> f64 {
        let expected = self.expected.get(at).copied().unwrap_or(self.optimum);
        let best = best.min(self.start());
        let room = expected - self.optimum;
        // Random search is there too: what counts is whether this one is.
        if room <= 1e-9 * self.optimum.abs().max(1e-9) {
            return if best <= expected * (1.0 + 1e-9) {
                1.0
            } else {
                0.0
            };
        }
        ((expected - best) / room).max(WORST)
    }

    fn row(&self, subject: &Subject, kind: Kind, trials: &[Trial]) -> Row {
        let goal = self.start() - FOUND * (self.start() - self.optimum);
        let last = |trial: &Trial| trial.best.last().copied().unwrap_or(f64::INFINITY);
        let mut best: Vec<f64> = trials.iter().map(last).collect();
        best.sort_by(f64::total_cmp);
        let mut found: Vec<Option<usize>> = trials
            .iter()
            .map(|trial| {
                let at = trial.best.iter().position(|best| *best <= goal + 1e-12);
                at.map(|at| at + 1)
            })
            .collect();
        found.sort_by_key(|found| found.unwrap_or(usize::MAX));
        let evaluations = self.expected.len();
        let at = |at: usize| {
            let scores = trials.iter().map(|trial| {
                // A search that has seen all keeps what it has.
                let best = trial.best.get(at).copied().unwrap_or_else(|| last(trial));
                self.score(best, at)
            });
            scores.sum::<f64>() / trials.len().max(1) as f64
        };
        let curve: Vec<f64> = (0..evaluations).map(at).collect();
        let count = trials.len().max(1) as f64;
        Row {
            space: subject.name.clone(),
            synthetic: subject.synthetic,
            strategy: kind.word(),
            original: self.original,
            optimum: self.optimum,
            best: best
                .get((best.len().saturating_sub(1)) / 2)
                .copied()
                .unwrap_or(f64::INFINITY),
            found: found
                .get((found.len().saturating_sub(1)) / 2)
                .copied()
                .flatten(),
            found_by: found.iter().flatten().count() as f64 / count,
            score: curve.iter().sum::<f64>() / evaluations.max(1) as f64,
            curve: MARKS
                .into_iter()
                .filter(|mark| *mark <= evaluations)
                .filter_map(|mark| Some((mark, *curve.get(mark - 1)?)))
                .collect(),
            invalid: trials
                .iter()
                .map(|trial| trial.invalid as f64 / trial.best.len().max(1) as f64)
                .sum::<f64>()
                / count,
        }
    }
}

/// What the least of some draws without replacement is on average, and at most `worst`. `all` is sorted.
fn expected_least(all: &[f64], draws: usize, worst: f64) -> f64 {
    let count = all.len();
    if draws == 0 || count == 0 {
        return worst;
    }
    let draws = draws.min(count);
    let mut expected = 0.0;
    // How likely it is that none of the first so many is drawn.
    let mut none = 1.0;
    for (at, value) in all.iter().enumerate() {
        let left = count - at;
        if left < draws || none < 1e-12 {
            break;
        }
        // Given that none of those before was drawn, this one is with draws / left.
        let here = none * draws as f64 / left as f64;
        expected += here * value.min(worst);
        none -= here;
    }
    expected + none * worst
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} seeds, {} evaluations. found: evaluations until 95 % of the gain (median); P: 0 = random search's expectation, 1 = the best",
            self.seeds, self.evaluations
        )?;
        let width = self
            .rows
            .iter()
            .map(|row| row.space.chars().count() + 2)
            .max()
            .unwrap_or(8);
        write!(
            f,
            "{:width$} {:9} {:>8} {:>8} {:>8} {:>7} {:>6} {:>7}",
            "space", "strategy", "original", "optimum", "best", "found", "by", "P"
        )?;
        for mark in MARKS.iter().filter(|mark| **mark <= self.evaluations) {
            write!(f, " {:>7}", format!("P({mark})"))?;
        }
        writeln!(f)?;
        for row in &self.rows {
            let name = if row.synthetic {
                format!("{} *", row.space)
            } else {
                row.space.clone()
            };
            let number =
                |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
            write!(
                f,
                "{name:width$} {:9} {:>8} {:>8} {:>8} {:>7} {:>6} {:>7.3}",
                row.strategy,
                number(row.original),
                number(Some(row.optimum)),
                number(Some(row.best)),
                row.found.map_or("-".to_owned(), |found| found.to_string()),
                format!("{:.0} %", row.found_by * 100.0),
                row.score
            )?;
            for (_, score) in &row.curve {
                write!(f, " {score:>7.3}")?;
            }
            writeln!(f)?;
        }
        if self.rows.iter().any(|row| row.synthetic) {
            writeln!(
                f,
                "* worked out from a table of effects or a formula, not measured point by point"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_least_is_that_of_draws_without_replacement() {
        // Two of 1, 2, 3, 4: the least is 1 in three of six pairs, 2 in two, 3 in one.
        let expected = expected_least(&[1.0, 2.0, 3.0, 4.0], 2, 10.0);
        assert!((expected - (3.0 + 4.0 + 3.0) / 6.0).abs() < 1e-12);
        assert_eq!(expected_least(&[1.0, 2.0], 2, 10.0), 1.0);
        assert_eq!(expected_least(&[1.0, 2.0], 0, 10.0), 10.0);
        // What is not right leaves what there was.
        let with_failures = expected_least(&[1.0, f64::INFINITY], 1, 5.0);
        assert!((with_failures - 3.0).abs() < 1e-12);
    }
}
