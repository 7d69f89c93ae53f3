//! Two codes of one kernel, run in turn, and what their times say.
//!
//! Clocks and temperature drift, and both codes drift with them: a ratio is taken within a pair of neighbouring runs, each
//! code first every other time. What is told is the median of the ratios, taken as logarithms, with the interval of the
//! sign test, which asks nothing of their distribution.

use serde::{Deserialize, Serialize};

use crate::bench::{Times, times};
use crate::device::Effort;
use crate::error::ReplayError;
use crate::replay::{Golden, Replayer, Restored};

/// Time of other code as a part of the original's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Median over the pairs.
    pub median: f64,
    /// Lower end of the interval that holds the true median with at least `confidence`.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Confidence of the interval.
    pub confidence: f64,
}

/// What pairs of runs showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// Times of the original, in nanoseconds.
    pub original: Times,
    /// Times of the other code, in nanoseconds.
    pub other: Times,
    /// Their ratio.
    pub ratio: Ratio,
    /// Every pair, in order: original, other.
    pub samples: Vec<(f64, f64)>,
}

/// How many runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Pairs before those that count.
    pub warmup: u32,
    /// Pairs that count.
    pub counted: u32,
}

/// Runs two codes in pairs. Both are restored, and nothing ran since. `None` on a device that has no times.
pub fn measure(
    replayer: &mut Replayer<'_>,
    original: &Restored<'_>,
    other: &Restored<'_>,
    runs: Runs,
) -> Result<Option<Pairs>, ReplayError> {
    // Where words in memory were rewritten, the two have not the same memory.
    let same_memory = original.rewritten.memory == 0 && other.rewritten.memory == 0;
    let mut copies = Vec::new();
    if same_memory {
        for restored in [original, other] {
            match replayer.keep_copy(restored) {
                Ok(copy) => copies.push((restored, copy)),
                Err(_) => break,
            }
        }
    }
    let sides = match copies.as_slice() {
        [(_, first), (_, second)] => [(original, Some(first)), (other, Some(second))],
        // There is no room: slower, and just as right.
        _ => [(original, None), (other, None)],
    };
    let measured = run_pairs(replayer, sides, runs);
    for (restored, copy) in copies {
        replayer.drop_copy(restored, copy)?;
    }
    Ok(summary(measured?))
}

type Side<'s, 'l> = (&'s Restored<'l>, Option<&'s Golden>);

fn run_pairs(
    replayer: &mut Replayer<'_>,
    sides: [Side<'_, '_>; 2],
    runs: Runs,
) -> Result<Vec<(f64, f64)>, ReplayError> {
    let mut samples = Vec::new();
    for pair in 0..runs.warmup.saturating_add(runs.counted) {
        let mut took = [0.0; 2];
        let first = (pair % 2) as usize;
        for index in [first, 1 - first] {
            let [original, other] = sides;
            let (restored, copy) = if index == 0 { original } else { other };
            match copy {
                Some(copy) => replayer.put_back(restored, copy)?,
                None => replayer.put_back_from_archive(restored)?,
            }
            match replayer.launch_timed(restored)? {
                Effort::Nanoseconds(time) => {
                    if let Some(place) = took.get_mut(index) {
                        *place = time;
                    }
                }
                Effort::Work(_) => return Ok(Vec::new()),
            }
        }
        if pair >= runs.warmup {
            let [original, other] = took;
            samples.push((original, other));
        }
    }
    Ok(samples)
}

/// Medians and the ratio; `None` without pairs.
fn summary(samples: Vec<(f64, f64)>) -> Option<Pairs> {
    let logarithms: Vec<f64> = samples
        .iter()
        .filter(|(original, other)| *original > 0.0 && *other > 0.0)
        .map(|(original, other)| (other / original).ln())
        .collect();
    let of = times(&logarithms)?;
    let column =
        |pick: fn(&(f64, f64)) -> f64| times(&samples.iter().map(pick).collect::<Vec<_>>());
    Some(Pairs {
        original: column(|pair| pair.0)?,
        other: column(|pair| pair.1)?,
        ratio: Ratio {
            median: of.median.exp(),
            low: of.low.exp(),
            high: of.high.exp(),
            confidence: of.confidence,
        },
        samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_that_both_share_is_not_in_the_ratio() {
        // The clock falls to half of what it was while the pairs run.
        let samples = (0..20).map(|pair| {
            let slow = 1.0 + f64::from(pair) / 20.0;
            (1000.0 * slow, 900.0 * slow)
        });
        let found = summary(samples.collect()).unwrap();
        assert!((found.ratio.median - 0.9).abs() < 1e-12);
        assert!((found.ratio.high - found.ratio.low).abs() < 1e-12);
        assert!(found.original.max / found.original.min > 1.9);
    }

    #[test]
    fn the_interval_of_a_ratio_is_that_of_the_sign_test() {
        // Ten ratios from 1.1 to 2.0: the 2nd and the 9th hold the median with 97.9 %.
        let samples = (1..=10).map(|pair| (10.0, f64::from(10 + pair)));
        let found = summary(samples.collect()).unwrap().ratio;
        assert!((found.low - 1.2).abs() < 1e-12 && (found.high - 1.9).abs() < 1e-12);
        assert!((found.median - (1.5f64 * 1.6).sqrt()).abs() < 1e-12);
        assert_eq!(summary(Vec::new()), None);
    }
}
