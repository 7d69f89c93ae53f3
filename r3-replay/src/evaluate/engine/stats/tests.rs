use super::*;

fn sample(original: f64, candidate: f64) -> Sample {
    Sample {
        original,
        candidate,
        candidate_first: false,
        sm_clock_mhz: None,
    }
}

#[test]
fn a_kernel_s_whole_time_is_weighted_by_how_often_and_how_long_a_launch_runs() {
    // 9 launches of 100 that become 50, one of 100 that stays: 550 of 1000 remain.
    let half = vec![sample(100.0, 50.0); 8];
    let same = vec![sample(100.0, 100.0); 8];
    let pairs = |weight, samples| Pairs { weight, samples };
    let of = combined(&[pairs(9.0, &half), pairs(1.0, &same)]).unwrap();
    for end in [of.median, of.low, of.high] {
        assert!((end - 0.55).abs() < 1e-12, "{of:?}");
    }
    // A launch of weight 0 does not count, and nothing else is nothing.
    let of = combined(&[pairs(0.0, &same), pairs(1.0, &half)]).unwrap();
    assert!((of.median - 0.5).abs() < 1e-12);
    assert_eq!(combined(&[pairs(0.0, &half)]), None);
    assert_eq!(combined(&[pairs(1.0, &[])]), None);
}

#[test]
fn one_launch_alone_has_the_interval_of_its_own_pairs() {
    let samples: Vec<Sample> = (0..10)
        .map(|pair| sample(100.0, 90.0 + f64::from(pair)))
        .collect();
    let alone = launch(&samples).unwrap();
    let whole = combined(&[Pairs {
        weight: 3.0,
        samples: &samples,
    }])
    .unwrap();
    assert!((alone.ratio.low - 0.91).abs() < 1e-12 && (alone.ratio.high - 0.98).abs() < 1e-12);
    assert!((whole.low - alone.ratio.low).abs() < 1e-12);
    assert!((whole.high - alone.ratio.high).abs() < 1e-12);
}

#[test]
fn times_that_are_none_give_no_ratio() {
    assert_eq!(launch(&[sample(0.0, 1.0)]), None);
    assert_eq!(launch(&[sample(1.0, f64::NAN)]), None);
    assert_eq!(launch(&[]), None);
}

#[test]
fn of_two_regimes_the_slower_one_is_claimed() {
    let ratio = |median, low, high| Ratio {
        median,
        low,
        high,
        confidence: 0.96,
    };
    let both = slower(ratio(0.9, 0.8, 1.1), ratio(0.95, 0.94, 0.96));
    assert_eq!((both.median, both.low, both.high), (0.95, 0.94, 1.1));
    assert!((both.confidence - 0.94).abs() < 1e-12);
}
