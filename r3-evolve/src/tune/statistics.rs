//! What times say when the best of several is picked.
//!
//! Nothing is asked of how times are distributed: all of this stands on the sign test. The ratio of a pair is below 1 or above
//! it; were both codes equally fast, each would be as likely.

use r3_replay::remix::pairs::Ratio;

/// Confidence of intervals that are not corrected.
pub const CONFIDENCE: f64 = 0.95;

/// Probability that of `n` fair coins at most `k` show heads.
#[must_use]
pub fn binomial_tail(n: usize, k: usize) -> f64 {
    if k >= n {
        return 1.0;
    }
    // Terms from the largest exponent down, as logarithms: 2^-n is 0 for n > 1074.
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut sum = log_term.exp();
    for i in 0..k {
        log_term += ((n - i) as f64).ln() - ((i + 1) as f64).ln();
        sum += log_term.exp();
    }
    sum.min(1.0)
}

/// Probability of logarithms of ratios that lie on one side of 0 as much as these, or more, were both codes equally fast.
/// Pairs of equal times say nothing.
#[must_use]
pub fn sign_test(logarithms: &[f64]) -> f64 {
    let below = logarithms.iter().filter(|ratio| **ratio < 0.0).count();
    let above = logarithms.iter().filter(|ratio| **ratio > 0.0).count();
    (2.0 * binomial_tail(below + above, below.min(above))).min(1.0)
}

/// The median of the ratios and the interval that holds the true one with `confidence`. With too few pairs for it the
/// interval reaches from the least to the greatest, and says which confidence that is. `None` without pairs.
#[must_use]
pub fn interval(logarithms: &[f64], confidence: f64) -> Option<Ratio> {
    let mut sorted: Vec<f64> = logarithms
        .iter()
        .copied()
        .filter(|ratio| ratio.is_finite())
        .collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (lower, upper) = (sorted.get((n.checked_sub(1)?) / 2)?, sorted.get(n / 2)?);
    // [x(j+1), x(n-j)], counted from 1, misses the median with twice the probability of at most j heads.
    let missed = |j: usize| 2.0 * binomial_tail(n, j);
    let mut j = 0;
    while j + 1 < n / 2 && missed(j + 1) <= 1.0 - confidence {
        j += 1;
    }
    Some(Ratio {
        median: f64::midpoint(*lower, *upper).exp(),
        low: sorted.get(j)?.exp(),
        high: sorted.get(n - 1 - j)?.exp(),
        confidence: (1.0 - missed(j)).max(0.0),
    })
}

/// Holm's correction: probabilities of several tests, made so large that each may be compared with the level that holds for all
/// of them together.
#[must_use]
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    let at = |index: &usize| probabilities.get(*index).copied().unwrap_or(1.0);
    order.sort_by(|a, b| at(a).total_cmp(&at(b)));
    let mut corrected = vec![1.0; probabilities.len()];
    let mut largest = 0.0f64;
    for (rank, index) in order.iter().enumerate() {
        let left = probabilities.len() - rank;
        largest = largest.max((at(index) * left as f64).min(1.0));
        if let Some(place) = corrected.get_mut(*index) {
            *place = largest;
        }
    }
    corrected
}

/// Several measurements of one candidate as one: the geometric mean of medians and of both ends.
#[must_use]
pub fn combined(ratios: &[Ratio]) -> Option<Ratio> {
    let first = ratios.first()?;
    if ratios.len() == 1 {
        return Some(*first);
    }
    let mean = |of: fn(&Ratio) -> f64| {
        let sum: f64 = ratios.iter().map(|ratio| of(ratio).max(1e-12).ln()).sum();
        (sum / ratios.len() as f64).exp()
    };
    Some(Ratio {
        median: mean(|ratio| ratio.median),
        low: mean(|ratio| ratio.low),
        high: mean(|ratio| ratio.high),
        confidence: first.confidence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_the_binomial_distribution_are_those_of_tables() {
        assert!((binomial_tail(10, 1) - 11.0 / 1024.0).abs() < 1e-12);
        assert!((binomial_tail(20, 5) - 0.020_694_732_666).abs() < 1e-9);
        assert!((binomial_tail(100, 39) - 0.017_600_100).abs() < 1e-7);
        assert!((binomial_tail(9, 9) - 1.0).abs() < 1e-12);
        assert!((binomial_tail(4001, 2000) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_sign_test_counts_sides_and_leaves_out_ties() {
        let mut ratios = vec![-0.1; 9];
        ratios.extend([0.1, 0.0, 0.0]);
        assert!((sign_test(&ratios) - 2.0 * 11.0 / 1024.0).abs() < 1e-12);
        assert!((sign_test(&[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_interval_of_ten_reaches_from_the_second_to_the_ninth() {
        let ratios: Vec<f64> = (1..=10).map(|i| f64::from(i).ln()).collect();
        let found = interval(&ratios, 0.95).unwrap();
        assert!((found.low - 2.0).abs() < 1e-9 && (found.high - 9.0).abs() < 1e-9);
        assert!((found.confidence - (1.0 - 22.0 / 1024.0)).abs() < 1e-12);
        // Not enough for 99.9 %: all of them, and what that is worth.
        let wide = interval(&ratios, 0.999).unwrap();
        assert!((wide.low - 1.0).abs() < 1e-9 && (wide.high - 10.0).abs() < 1e-9);
        assert!((wide.confidence - (1.0 - 2.0 / 1024.0)).abs() < 1e-12);
        assert_eq!(interval(&[], 0.95), None);
        let one = interval(&[0.5f64.ln()], 0.95).unwrap();
        assert!((one.median - 0.5).abs() < 1e-12 && one.confidence < 0.95);
    }

    #[test]
    fn holm_is_that_of_the_textbook_example() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }
}
