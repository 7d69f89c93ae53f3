use super::simulated::{Disturbance, Simulated, rules};
use super::*;
use crate::evaluate::outcome::Score;

/// Jitter of a quiet GPU with now and then an outlier.
const ORDINARY: Disturbance = Disturbance {
    jitter: 0.01,
    outliers: 0.05,
    drift: 0.5,
    switching: 0.0,
    slow: 1.0,
    unfair: false,
};

/// The same on a short kernel: times are far apart.
const SHORT: Disturbance = Disturbance {
    jitter: 0.05,
    outliers: 0.1,
    ..ORDINARY
};

fn score(raced: &Raced, noise: f64) -> Score {
    Score {
        ratio: raced.ratio,
        worst: raced.ratio.median,
        pairs: 0,
        dropped: raced.dropped,
        noise,
    }
}

#[test]
fn the_original_against_itself_does_not_win_beyond_the_stated_confidence() {
    for (disturbance, launches) in [(ORDINARY, 1), (SHORT, 1), (SHORT, 3)] {
        let seeds = 600;
        let (mut wins, mut outside, mut stated) = (0, 0, 0.0);
        for seed in 0..seeds {
            let times = [100.0, 40.0, 3.0];
            let mut device = Simulated::new(&times[..launches], 1.0, disturbance, seed);
            let noise = device.floor(32);
            let raced = device.race(&rules(launches, 4), seed + 1_000_000);
            stated += 1.0 - raced.ratio.confidence;
            outside += u32::from(raced.ratio.high < 1.0);
            wins += u32::from(score(&raced, noise).is_faster());
        }
        // Half of what is outside of an interval is below it. Three standard deviations of luck are allowed.
        let expected = stated / 2.0;
        let limit = expected + 3.0 * expected.sqrt();
        assert!(
            f64::from(outside) <= limit,
            "{outside} of {seeds}, {limit} are allowed"
        );
        assert!(
            wins <= outside && f64::from(wins) <= 0.005 * seeds as f64,
            "{wins} wins"
        );
    }
}

#[test]
fn a_win_of_three_percent_is_found() {
    let mut found = 0;
    for seed in 0..100 {
        let mut device = Simulated::new(&[100.0], 0.97, ORDINARY, seed);
        let noise = device.floor(32);
        let raced = device.race(&rules(1, 4), seed);
        assert_eq!((raced.dropped, raced.samples[0].len() >= 32), (false, true));
        found += u32::from(score(&raced, noise).is_faster());
    }
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn the_interval_holds_the_true_ratio_as_often_as_it_says() {
    // Three launches with different ratios and weights, skewed noise: what remains of the whole is known.
    let (times, ratios, weights) = ([100.0, 40.0, 3.0], [0.9, 1.2, 0.5], [1.0, 2.0, 10.0]);
    let (mut whole, mut left) = (0.0, 0.0);
    for launch in 0..3 {
        whole += weights[launch] * times[launch];
        left += weights[launch] * times[launch] * ratios[launch];
    }
    for least in [8, 32] {
        let seeds = 500;
        let (mut held, mut stated) = (0, 0.0);
        for seed in 0..seeds {
            let mut device = Simulated::new(&times, 1.0, SHORT, seed);
            for launch in 0..3 {
                device.candidate[launch] = times[launch] * ratios[launch];
            }
            let rules = Rules {
                weights: weights.to_vec(),
                most: least,
                screen: 0,
                ..rules(3, least)
            };
            let ratio = device.race(&rules, seed).ratio;
            held += u32::from(ratio.low <= left / whole && left / whole <= ratio.high);
            stated += ratio.confidence;
        }
        let luck = 3.0 * (stated * (1.0 - stated / f64::from(seeds as u32))).sqrt();
        assert!(
            f64::from(held) >= stated - luck,
            "{held} of {seeds}, {stated} were promised"
        );
    }
}

#[test]
fn a_drift_that_both_share_is_not_in_the_ratio() {
    let drifting = Disturbance {
        drift: 50.0,
        ..Disturbance::default()
    };
    let mut device = Simulated::new(&[100.0], 0.9, drifting, 1);
    let raced = device.race(&rules(1, 32), 1);
    // Within a pair there is drift, too: alternating order puts it on both sides of the ratio.
    assert!(raced.ratio.low <= 0.9 && 0.9 <= raced.ratio.high);
    assert!((raced.ratio.median - 0.9).abs() < 0.01, "{:?}", raced.ratio);
    let times: Vec<f64> = raced.samples[0].iter().map(|pair| pair.original).collect();
    assert!(times.iter().copied().fold(0.0, f64::max) > 2.0 * times[0]);
}

#[test]
fn a_slow_mode_that_meets_the_original_more_often_is_no_win() {
    // As it was seen: medians of 783 and 1142, and the fastest runs of both at 780.
    let shared = Disturbance {
        jitter: 0.003,
        switching: 0.2,
        slow: 1.46,
        unfair: true,
        ..Disturbance::default()
    };
    let mut tempted = 0;
    for seed in 0..200 {
        let mut device = Simulated::new(&[780.0], 1.0, shared, seed);
        let raced = device.race(&rules(1, 8), seed);
        tempted += u32::from(raced.launches[0].typical < 0.8);
        assert!(
            !score(&raced, 0.01).is_faster(),
            "seed {seed}: {:?}",
            raced.ratio
        );
        if !raced.dropped {
            assert!(raced.launches[0].spread > WIDE, "the slow mode was seen");
            if raced.launches[0].typical < 0.98 {
                assert_eq!(raced.samples[0].len(), 64, "pairs were run once more");
                assert!(raced.notes[0].contains("once more"));
            }
        }
    }
    assert!(
        tempted > 20,
        "medians alone would have been taken for wins: {tempted}"
    );
}

#[test]
fn what_is_far_slower_is_dropped_after_the_screen_and_what_is_slower_soon() {
    let mut device = Simulated::new(&[100.0], 3.0, ORDINARY, 1);
    let raced = device.race(&rules(1, 4), 1);
    assert_eq!((raced.dropped, raced.samples[0].len()), (true, 3));
    let mut device = Simulated::new(&[100.0], 1.2, ORDINARY, 1);
    let raced = device.race(&rules(1, 4), 1);
    assert_eq!((raced.dropped, raced.samples[0].len()), (true, 4));
    // Faster than the original, and slower than the best.
    let against = Rules {
        incumbent: Some(0.5),
        ..rules(1, 4)
    };
    let raced = Simulated::new(&[100.0], 0.8, ORDINARY, 1).race(&against, 1);
    assert!(raced.dropped && raced.samples[0].len() < 32);
    let raced = Simulated::new(&[100.0], 0.45, ORDINARY, 1).race(&against, 1);
    assert!(!raced.dropped && raced.samples[0].len() >= 32);
}

#[test]
fn the_last_timed_run_of_each_launch_is_verified_and_warm_ups_cannot_be_foreseen() {
    let mut warm_ups = Vec::new();
    for seed in 0..20 {
        let mut device = Simulated::new(&[100.0, 50.0], 0.9, Disturbance::default(), seed);
        let raced = device.race(&rules(2, 8), seed);
        let pairs = raced.samples[0].len() as u32;
        warm_ups.push(device.runs - 4 * pairs);
        for launch in 0..2 {
            // The original's last run as well: it must not have been slowed down.
            let original = |run: &&(usize, Side, bool)| (run.0, run.1) == (launch, Side::Original);
            assert!(device.log.iter().rfind(original).is_some_and(|run| run.2));
            let last = device
                .log
                .iter()
                .rev()
                .find(|run| run.0 == launch && run.1 == Side::Candidate);
            assert_eq!(last, Some(&(launch, Side::Candidate, true)));
        }
        assert!(device.elsewhere >= 3, "once in each block of rounds");
        let first = raced.samples[0]
            .iter()
            .filter(|pair| pair.candidate_first)
            .count();
        assert_eq!(
            first as u32,
            pairs / 2,
            "each code is first as often as the other"
        );
    }
    warm_ups.sort_unstable();
    warm_ups.dedup();
    assert!(warm_ups.len() > 1, "{warm_ups:?}");
}

#[test]
fn pairs_under_a_low_clock_are_run_again_and_never_all_thrown_away() {
    let once = Rules {
        least: 4,
        most: 4,
        screen: 0,
        ..rules(1, 4)
    };
    // The last one is taken first: a high clock, a low one, then high ones.
    let mut device = Simulated::new(&[100.0], 1.0, Disturbance::default(), 1);
    device.clocks = vec![1980; 20];
    device.clocks.extend([1000, 1980, 1980, 1980, 1980]);
    let raced = device.race(&once, 1);
    assert!(
        raced.samples[0]
            .iter()
            .all(|pair| pair.sm_clock_mhz == Some(1980))
    );
    assert!(!device.paused.is_empty() && raced.notes.is_empty());
    // Held down for good after the first.
    let mut device = Simulated::new(&[100.0], 1.0, Disturbance::default(), 1);
    device.clocks = vec![1000; 100];
    device.clocks.push(1980);
    let mut clocks = Clocks { highest: 1980 };
    let Ok(raced) = race(&mut device, &mut Keys::new(Some(1)), &mut clocks, &once);
    let raced = raced.unwrap();
    assert_eq!(raced.samples[0].len(), 4);
    assert!(
        raced.notes[0].contains("in 4 of 4 pairs") || raced.notes[0].contains("in 3 of 4 pairs"),
        "{:?}",
        raced.notes
    );
}

#[test]
fn counts_need_one_round() {
    let counting = Rules {
        counts: true,
        ..rules(2, 4)
    };
    let mut device = Simulated::new(&[100.0, 300.0], 0.5, Disturbance::default(), 1);
    let raced = device.race(&counting, 1);
    assert_eq!(device.runs, 4);
    assert_eq!(
        (raced.ratio.low, raced.ratio.high, raced.ratio.confidence),
        (0.5, 0.5, 1.0)
    );
    assert!(device.log.iter().all(|run| run.2));
}
