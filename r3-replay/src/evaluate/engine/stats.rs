//! What pairs of times say: a ratio and its interval, for one launch and for many.
//!
//! A pair is an original's and a candidate's run, one right after the other, so that a drift of clocks is in both. Times
//! are skewed and have outliers: nothing here is a mean. The ratio of a launch is the median of its pairs' ratios, its
//! interval that of the sign test, which holds for any distribution.
//!
//! # Many launches
//!
//! A round is one pair of each launch. With `w` the weight of a launch, `T` the original's median time, `m` the median of
//! the logarithms `d` of the ratios, what remains of the kernel's whole time is
//!
//! ```text
//! R = Σ s·exp(m)    with the shares  s = w·T / Σ w·T
//! ```
//!
//! A change of all `d` by small amounts changes `ln R` by `Σ u·d`, with `u = s·exp(m) / Σ s·exp(m)`. So the interval of R is
//! that of the sign test on the rounds' `Σ u·d`, moved so that `Σ u·m` is at R. For one launch that is the interval of its
//! ratio; for an original against itself `Σ u·d` is as likely above 0 as below, however skewed the times are.

use crate::bench::times;
use crate::evaluate::outcome::Sample;
use crate::remix::pairs::Ratio;

/// Slowest ÷ fastest run of one code from which on its times are not of one kind: another program, or another clock, was
/// at work in some of them.
pub const WIDE: f64 = 1.1;

/// The pairs of one launch in one regime.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'s> {
    /// How often the application does the launch, in any unit.
    pub weight: f64,
    /// The pairs, by round.
    pub samples: &'s [Sample],
}

/// What a launch's pairs say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Candidate ÷ original.
    pub ratio: Ratio,
    /// The original's median time.
    pub original: f64,
    /// The candidate's.
    pub candidate: f64,
    /// Slowest ÷ fastest, of the code for which that is more.
    pub spread: f64,
    /// Median of the pairs' ratios, whatever their spread.
    pub typical: f64,
    /// The candidate's fastest run ÷ the original's.
    pub fastest: f64,
}

/// A ratio for one launch. `None` without pairs, or with times that are none.
pub fn launch(samples: &[Sample]) -> Option<Found> {
    let of = times(&logarithms(samples)?)?;
    let original = times(&column(samples, |pair| pair.original))?;
    let candidate = times(&column(samples, |pair| pair.candidate))?;
    let mut ratio = Ratio {
        median: of.median.exp(),
        low: of.low.exp(),
        high: of.high.exp(),
        confidence: of.confidence,
    };
    let spread = (original.max / original.min).max(candidate.max / candidate.min);
    let fastest = candidate.min / original.min;
    let typical = ratio.median;
    widen(&mut ratio, spread, fastest);
    Some(Found {
        ratio,
        typical,
        original: original.median,
        candidate: candidate.median,
        spread,
        fastest,
    })
}

/// A difference of medians of times that are not of one kind must show in the fastest runs, too: where a disturbance
/// happened to meet one code more than the other, it does not. Of both, what is nearer to no difference is told.
fn widen(ratio: &mut Ratio, spread: f64, fastest: f64) {
    if spread > WIDE {
        ratio.low = ratio.low.min(fastest);
        ratio.high = ratio.high.max(fastest);
        if fastest.ln().abs() < ratio.median.ln().abs() {
            ratio.median = fastest;
        }
    }
}

/// What remains of the time of all launches. `None` when a launch has no pairs, or none counts.
pub fn combined(launches: &[Pairs<'_>]) -> Option<Ratio> {
    let mut parts = Vec::with_capacity(launches.len());
    for pairs in launches.iter().filter(|pairs| pairs.weight > 0.0) {
        let found = launch(pairs.samples)?;
        parts.push((
            pairs.weight * found.original,
            found,
            logarithms(pairs.samples)?,
        ));
    }
    let whole: f64 = parts.iter().map(|(time, _, _)| time).sum();
    if !(whole > 0.0 && whole.is_finite()) {
        return None;
    }
    let remains = |of: fn(&Found) -> f64| -> f64 {
        parts
            .iter()
            .map(|(time, found, _)| time / whole * of(found))
            .sum()
    };
    let median = remains(|found| found.typical);
    let rounds = parts.iter().map(|(_, _, logs)| logs.len()).min()?;
    let mut sums = vec![0.0; rounds];
    let mut centre = 0.0;
    for (time, found, logs) in &parts {
        let part = time / whole * found.typical / median;
        centre += part * found.typical.ln();
        for (sum, log) in sums.iter_mut().zip(logs) {
            *sum += part * log;
        }
    }
    let of = times(&sums)?;
    let mut ratio = Ratio {
        median,
        low: (median * (of.low - centre).exp()).min(median),
        high: (median * (of.high - centre).exp()).max(median),
        confidence: of.confidence,
    };
    let spread = parts
        .iter()
        .map(|(_, found, _)| found.spread)
        .fold(1.0, f64::max);
    let fastest = remains(|found| match found.spread > WIDE {
        true => found.fastest,
        false => found.typical,
    });
    widen(&mut ratio, spread, fastest);
    Some(ratio)
}

/// The larger of two ratios: what can be claimed of both. Its upper end is right wherever the upper end of the larger
/// one is; its lower end may be wrong wherever either is.
pub fn slower(one: Ratio, other: Ratio) -> Ratio {
    let confidence = one.confidence.min(other.confidence);
    Ratio {
        median: one.median.max(other.median),
        low: one.low.max(other.low),
        high: one.high.max(other.high),
        confidence: (1.0 - 1.5 * (1.0 - confidence)).max(0.0),
    }
}

/// The value that a part of the values is not above.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

fn logarithms(samples: &[Sample]) -> Option<Vec<f64>> {
    samples
        .iter()
        .map(|pair| {
            let log = (pair.candidate / pair.original).ln();
            (pair.original > 0.0 && log.is_finite()).then_some(log)
        })
        .collect()
}

fn column(samples: &[Sample], of: fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
