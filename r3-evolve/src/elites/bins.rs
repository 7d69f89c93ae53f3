//! Values of a descriptor, cut into bins.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::descriptor;

/// How an axis is cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bins {
    /// Into so many bins at most, so that each holds about as many of the values that were seen as any other. Equal values count
    /// once: a property with few values has a bin for each of them.
    Quantiles(u16),
    /// At these values, which rise.
    Fixed(Vec<f64>),
}

/// An axis of a grid, as it is set: `tokens:10`, `registers:32,64,128`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name of the descriptor.
    pub descriptor: String,
    /// How it is cut.
    pub bins: Bins,
}

/// Bins where nothing is said.
pub const DEFAULT_BINS: u16 = 10;
/// Most bins of an axis: cells are listed one by one.
pub const MOST_BINS: u16 = 64;

/// Why an axis cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// There is no such descriptor.
    #[error("`{0}` is no descriptor: there are {known}", known = known())]
    Unknown(String),
    /// The cut cannot be read.
    #[error(
        "`{0}`: expected the number of bins (`tokens:10`) or edges that rise (`registers:32,64,128`)"
    )]
    Cut(String),
    /// Too few or too many bins.
    #[error("`{0}`: an axis has 2 to {MOST_BINS} bins")]
    Count(String),
}

fn known() -> String {
    descriptor::names().collect::<Vec<_>>().join(", ")
}

impl Axis {
    /// With bins by quantiles.
    #[must_use]
    pub fn quantiles(descriptor: &str, bins: u16) -> Self {
        Self {
            descriptor: descriptor.to_owned(),
            bins: Bins::Quantiles(bins),
        }
    }

    /// Whether it can be.
    pub fn check(&self) -> Result<(), AxisError> {
        if descriptor::built_in(&self.descriptor).is_none() {
            return Err(AxisError::Unknown(self.descriptor.clone()));
        }
        let bins = match &self.bins {
            Bins::Quantiles(bins) => usize::from(*bins),
            Bins::Fixed(edges) => {
                let finite = edges.iter().all(|edge| edge.is_finite());
                if !finite || !edges.is_sorted_by(|a, b| a < b) {
                    return Err(AxisError::Cut(self.to_string()));
                }
                edges.len() + 1
            }
        };
        if (2..=usize::from(MOST_BINS)).contains(&bins) {
            Ok(())
        } else {
            Err(AxisError::Count(self.to_string()))
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.descriptor)?;
        match &self.bins {
            Bins::Quantiles(bins) => write!(f, "{bins}"),
            Bins::Fixed(edges) => {
                let edges: Vec<String> = edges.iter().map(f64::to_string).collect();
                // One edge alone would read as a number of bins.
                let end = if edges.len() == 1 { "," } else { "" };
                write!(f, "{}{end}", edges.join(","))
            }
        }
    }
}

impl FromStr for Axis {
    type Err = AxisError;

    fn from_str(text: &str) -> Result<Self, AxisError> {
        let cut = || AxisError::Cut(text.to_owned());
        let (name, bins) = match text.split_once(':') {
            None => (text, Bins::Quantiles(DEFAULT_BINS)),
            Some((name, bins)) if bins.contains([',', '.']) => {
                let edges = bins.trim_end_matches(',').split(',');
                let edges: Result<Vec<f64>, _> = edges.map(|edge| edge.trim().parse()).collect();
                (name, Bins::Fixed(edges.map_err(|_| cut())?))
            }
            Some((name, bins)) => (
                name,
                Bins::Quantiles(bins.trim().parse().map_err(|_| cut())?),
            ),
        };
        let axis = Self {
            descriptor: name.trim().to_owned(),
            bins,
        };
        axis.check()?;
        Ok(axis)
    }
}

/// Edges between bins for values that were seen: so many different ones, and each by its place in their order. A value on an edge
/// lies in the bin above it.
pub(super) fn edges(bins: &Bins, count: usize, value: impl Fn(usize) -> Option<f64>) -> Vec<f64> {
    let bins = match bins {
        Bins::Fixed(edges) => return edges.clone(),
        Bins::Quantiles(bins) => usize::from(*bins),
    };
    let bins = bins.min(count);
    let mut edges: Vec<f64> = (1..bins)
        .filter_map(|bin| {
            let first = (bin * count).div_ceil(bins);
            let (below, above) = (value(first.checked_sub(1)?)?, value(first)?);
            let middle = f64::midpoint(below, above);
            // Between neighbouring floating-point numbers there is no middle.
            Some(if middle > below { middle } else { above })
        })
        .collect();
    edges.dedup();
    edges
}

/// The bin of a value.
pub(super) fn bin(edges: &[f64], value: f64) -> u16 {
    let bin = edges.partition_point(|edge| *edge <= value);
    u16::try_from(bin).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::values::Values;
    use super::*;
    use crate::evolve::variant::VariantNumber;

    #[test]
    fn an_axis_reads_as_it_is_written() {
        for text in [
            "tokens:10",
            "registers:32,64,128",
            "distance:0.1,0.5",
            "width:8,",
        ] {
            assert_eq!(text.parse::<Axis>().unwrap().to_string(), text);
        }
        assert_eq!(
            "tokens".parse::<Axis>().unwrap(),
            Axis::quantiles("tokens", 10)
        );
    }

    #[test]
    fn an_axis_that_cannot_be_says_why() {
        let error = |text: &str| text.parse::<Axis>().unwrap_err().to_string();
        assert!(error("colour:3").starts_with("`colour` is no descriptor: there are tokens, "));
        insta::assert_snapshot!(error("tokens:many"), @"`tokens:many`: expected the number of bins (`tokens:10`) or edges that rise (`registers:32,64,128`)");
        insta::assert_snapshot!(error("tokens:1"), @"`tokens:1`: an axis has 2 to 64 bins");
        insta::assert_snapshot!(error("registers:64,32"), @"`registers:64,32`: expected the number of bins (`tokens:10`) or edges that rise (`registers:32,64,128`)");
        insta::assert_snapshot!(error("registers:1,NaN"), @"`registers:1,NaN`: expected the number of bins (`tokens:10`) or edges that rise (`registers:32,64,128`)");
    }

    #[test]
    fn quantiles_part_values_evenly_and_equal_ones_count_once() {
        let cut = |values: &[f64], bins| {
            let mut seen = Values::default();
            for (number, value) in (1..).zip(values) {
                seen.add(*value, VariantNumber(number));
            }
            seen.edges(&Bins::Quantiles(bins))
        };
        assert_eq!(cut(&[1.0, 2.0, 3.0, 4.0], 2), [2.5]);
        assert_eq!(cut(&[32.0, 32.0, 32.0, 64.0], 10), [48.0]);
        assert!(cut(&[], 10).is_empty() && cut(&[5.0, 5.0], 10).is_empty());
        let many: Vec<f64> = (0..1000).map(|i| f64::from(i).powi(3)).collect();
        let edges = cut(&many, 10);
        let mut counts = [0; 10];
        for value in &many {
            counts[usize::from(bin(&edges, *value))] += 1;
        }
        assert_eq!(counts, [100; 10]);
    }
}
