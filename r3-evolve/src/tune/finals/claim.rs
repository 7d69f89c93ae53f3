//! What outcomes of finals say.

use r3_archive::model::LaunchId;
use r3_replay::evaluate::outcome::{LaunchOutcome, Role, Timing};
use r3_replay::evaluate::plan::Regime;
use r3_replay::evaluate::{Outcome, Plan, Verdict};
use r3_replay::remix::pairs::Ratio;

use super::{Finalist, HeldOutResult};
use crate::tune::search::counted;
use crate::tune::statistics::{CONFIDENCE, interval, sign_test};

/// Why no gain is claimed for a candidate.
pub(super) fn refusal(
    finalist: &Finalist,
    outcome: &Outcome,
    floor: f64,
    threshold: f64,
) -> Option<String> {
    if finalist.verdict != Verdict::Right {
        let reason = outcome.reason.as_deref().unwrap_or("no reason was given");
        return Some(format!(
            "when it was measured at length it was {}: {reason}",
            finalist.verdict.word()
        ));
    }
    let Some(ratio) = finalist.ratio else {
        return Some("it was not timed".into());
    };
    let gain = 1.0 - ratio.median;
    if ratio.high >= 1.0 || finalist.probability > 1.0 - CONFIDENCE {
        return Some(format!(
            "measured at length, its interval does not exclude 1.0: {:.3} ({:.3} to {:.3})",
            ratio.median, ratio.low, ratio.high
        ));
    }
    if gain <= floor {
        return Some(format!(
            "its gain of {:.1} % is not above the noise of {:.1} %",
            100.0 * gain,
            100.0 * floor
        ));
    }
    if gain < threshold {
        return Some(format!(
            "its gain of {:.1} % is below {} %, which is the least that is claimed",
            100.0 * gain,
            100.0 * threshold
        ));
    }
    None
}

pub(super) fn held_out(outcome: &Outcome) -> Vec<HeldOutResult> {
    let rows = outcome
        .launches
        .iter()
        .filter(|launch| launch.role == Role::HeldOut);
    rows.map(|launch| HeldOutResult {
        launch: launch.launch,
        verdict: launch.verdict,
        ratio: launch
            .times
            .iter()
            .map(|timing| timing.ratio.median)
            .reduce(f64::max),
    })
    .collect()
}

/// The ratio over all launches that count, in the regime in which it is largest, with the sign test's probability.
pub(super) fn of_all_regimes(
    outcome: &Outcome,
    plan: &Plan,
    confidence: f64,
) -> Option<(Ratio, f64)> {
    let score = outcome.score?;
    if counted(outcome) {
        // Counts are exact: one pair is as good as a hundred.
        let probability = if score.ratio.median == 1.0 { 1.0 } else { 0.0 };
        return Some((score.ratio, probability));
    }
    let mut regimes: Vec<Regime> = Vec::new();
    let tuned = || {
        outcome
            .launches
            .iter()
            .filter(|launch| launch.role == Role::Tuned && launch.verdict == Verdict::Right)
    };
    for timing in tuned().flat_map(|launch| &launch.times) {
        if !regimes.contains(&timing.regime) {
            regimes.push(timing.regime);
        }
    }
    let each = regimes.into_iter().filter_map(|regime| {
        let logarithms = of_pairs(tuned(), regime, plan);
        Some((interval(&logarithms, confidence)?, sign_test(&logarithms)))
    });
    let each: Vec<(Ratio, f64)> = each.collect();
    let probability = each
        .iter()
        .map(|(_, probability)| *probability)
        .fold(0.0, f64::max);
    let slowest = each
        .into_iter()
        .max_by(|a, b| a.0.median.total_cmp(&b.0.median))?;
    Some((slowest.0, probability))
}

/// Pair by pair, the time of all launches with the candidate as a part of that with the original, each launch counting as
/// often as the application does it: logarithms.
fn of_pairs<'o>(
    launches: impl Iterator<Item = &'o LaunchOutcome>,
    regime: Regime,
    plan: &Plan,
) -> Vec<f64> {
    let weight = |launch: LaunchId| {
        let found = plan.launches.iter().find(|one| one.launch == launch);
        found.map_or(1.0, |one| one.weight)
    };
    let timings: Vec<(f64, &Timing)> = launches
        .flat_map(|launch| {
            let weight = weight(launch.launch);
            launch.times.iter().map(move |timing| (weight, timing))
        })
        .filter(|(_, timing)| timing.regime == regime)
        .collect();
    let shortest = timings
        .iter()
        .map(|(_, timing)| timing.samples.len())
        .min()
        .unwrap_or(0);
    (0..shortest)
        .filter_map(|pair| {
            let (mut original, mut candidate) = (0.0, 0.0);
            for (weight, timing) in &timings {
                let sample = timing.samples.get(pair)?;
                original += weight * sample.original;
                candidate += weight * sample.candidate;
            }
            (original > 0.0 && candidate > 0.0).then(|| (candidate / original).ln())
        })
        .collect()
}
