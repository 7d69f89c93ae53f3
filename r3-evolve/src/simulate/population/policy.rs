//! Ways of spending evaluations, and what they showed.

use std::fmt;

use serde::Serialize;

use crate::inner::Halving;

/// How evaluations are spent.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Every variant gets so many.
    Even(u32),
    /// By halving.
    Halving(Halving),
}

impl Policy {
    /// Those that are compared.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let halving = |eta: u32, budgets: &[u32], elites: u32| {
            Self::Halving(Halving {
                eta,
                budgets: budgets.to_vec(),
                elites,
            })
        };
        vec![
            Self::Even(2),
            Self::Even(4),
            Self::Even(8),
            Self::Even(12),
            Self::Even(36),
            halving(2, &[4, 12, 36], 0),
            halving(3, &[4, 12, 36], 0),
            halving(3, &[4, 12, 36], 1),
            halving(3, &[4, 12, 36], 2),
            halving(3, &[4, 12, 36], 3),
            halving(3, &[12, 36], 0),
            halving(3, &[6, 18, 54], 0),
            halving(4, &[8, 32], 0),
            halving(5, &[4, 12, 36], 0),
            halving(9, &[4, 12, 36], 0),
            halving(9, &[4, 12, 36], 1),
            halving(9, &[12, 36], 0),
            halving(9, &[36], 0),
            halving(1000, &[4, 12, 36], 0),
            halving(1000, &[12, 36], 0),
        ]
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even(count) => write!(f, "{count} each"),
            Self::Halving(halving) => {
                write!(f, "1 of {}:", halving.eta)?;
                for budget in &halving.budgets {
                    write!(f, " {budget}")?;
                }
                match halving.elites {
                    0 => Ok(()),
                    rung => write!(f, ", elites to rung {rung}"),
                }
            }
        }
    }
}

/// What policies showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spent {
    /// Part of the right variants that are better than their parents by their text.
    pub better: f64,
    /// Runs of each policy on each space.
    pub seeds: u32,
    /// Evaluations after which it was looked at.
    pub marks: Vec<u32>,
    /// By space and policy.
    pub rows: Vec<Row>,
}

/// A policy on a space.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The space.
    pub space: String,
    /// The policy.
    pub policy: String,
    /// Variants that were looked at, mean.
    pub variants: f64,
    /// At each mark the true time of what is taken for the best, as a part of the source's as given: geometric mean.
    pub best: Vec<f64>,
    /// The same over the best of all policies at that mark, minus one: what is lost.
    pub lost: Vec<f64>,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:.0} % of the right variants are better than their parents; {} seeds. True time of what is taken for the best, as a part of the source's as given, and what is lost against the best \
             policy, after so many evaluations",
            100.0 * self.better,
            self.seeds
        )?;
        let width = |of: &dyn Fn(&Row) -> usize| self.rows.iter().map(of).max().unwrap_or(8);
        let space = width(&|row| row.space.chars().count());
        let policy = width(&|row| row.policy.chars().count());
        write!(f, "{:space$}  {:policy$}  variants", "space", "policy")?;
        for mark in &self.marks {
            write!(f, "  {mark:>14}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(
                f,
                "{:space$}  {:policy$}  {:>8.0}",
                row.space, row.policy, row.variants
            )?;
            for (best, lost) in row.best.iter().zip(&row.lost) {
                write!(f, "  {best:.3} {:>+7.1} %", 100.0 * lost)?;
            }
            writeln!(f)?;
        }
        // Over all spaces.
        let mut policies: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        for name in policies {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.policy == name).collect();
            write!(f, "{:space$}  {name:policy$}  {:>8}", "all", "")?;
            for at in 0..self.marks.len() {
                let lost = rows.iter().filter_map(|row| row.lost.get(at));
                let mean = lost.sum::<f64>() / rows.len().max(1) as f64;
                write!(f, "  {:>5} {:>+7.1} %", "", 100.0 * mean)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
