//! What is claimed, and what not.

use std::rc::Rc;

use super::bed::*;
use crate::store::{Phase, Reason};
use crate::strategy::Kind;
use crate::tune::{Ask, BEST, Summary};
use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::outcome::Role;
use r3_replay::evaluate::{Outcome, Verdict};

/// A run on a device that measures; `change` has the last word on outcomes.
fn run(change: impl Fn(&Ask, &mut Outcome) + 'static) -> (Bed, Summary) {
    let bed = Bed::new(false, Kind::Random, 60);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    let table = measured();
    evaluator.judge = Rc::new(move |ask, times| {
        let mut outcome = table(ask, times);
        change(ask, &mut outcome);
        outcome
    });
    let summary = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap();
    drop(store);
    (bed, summary)
}

/// Whether it is one of the last, long measurements.
fn last(ask: &Ask) -> bool {
    ask.plan.fresh_process
}

#[test]
fn a_gain_is_claimed_with_all_that_it_stands_on() {
    let (bed, summary) = run(|_, _| {});
    assert!(summary.claim, "{}", summary.reason);
    let finals = summary.finals.as_ref().unwrap();
    let winner = &finals.finalists[finals.winner.unwrap()];
    assert!(winner.probability < 1e-12);
    let ratio = winner.ratio.unwrap();
    assert!(ratio.high < 0.72 && ratio.confidence >= 0.995, "{ratio:?}");
    assert_eq!(winner.held_out.len(), 1);
    assert!(winner.held_out[0].ratio.unwrap() < 1.0);
    assert!((finals.control.unwrap().median - 1.0).abs() < 0.01);
    assert!((finals.floor - 0.01).abs() < 1e-12 && (finals.threshold - 0.03).abs() < 1e-12);
    // What mattered: without its block it is slower than with it.
    let block = summary
        .mattered
        .iter()
        .find(|one| one.knob == "block")
        .unwrap();
    assert!((block.loss.unwrap() - 1.0 / 0.8).abs() < 0.02, "{block:?}");
    // All that is claimed was measured in a fresh process, twice compiled, on perturbed inputs.
    let store = bed.open();
    let rows = store.evaluations(Some(Phase::Final)).unwrap();
    let finalists = rows.iter().filter(|row| row.reason == Reason::Finalist);
    assert!(finalists.clone().count() <= 10);
    for row in finalists {
        let plan = &row.plan;
        assert!(plan.fresh_process && plan.compile_twice && plan.perturbed > 0 && plan.again);
    }
}

#[test]
fn the_recorded_code_in_another_shape_is_a_result_without_code() {
    // The whole space, of which only the launch pays.
    let bed = Bed::new(true, Kind::Grid, 1000);
    let mut evaluator = bed.evaluator();
    let table = counted();
    evaluator.judge = Rc::new(move |ask, times| {
        let mut outcome = table(ask, times);
        if !matches!(ask.candidate.code, CandidateCode::Recorded) {
            outcome.verdict = Verdict::Wrong;
            outcome.score = None;
        }
        outcome
    });
    let summary = bed
        .run(&mut bed.create(), &mut evaluator, &mut Watcher::default())
        .unwrap();
    assert!(summary.claim, "{}", summary.reason);
    assert_eq!(summary.best.as_ref().unwrap().knobs, ["block=128x1x1"]);
    let archive = r3_archive::Archive::open(bed.folder.path().join("run").join(BEST)).unwrap();
    let record = &archive.tuned()[0];
    assert!(record.code.is_empty());
    assert_eq!(record.launch.block, Some([128, 1, 1]));
    assert!(crate::result::text::tuned(&archive, record).contains("the application's own"));
}

#[test]
fn the_luckiest_of_many_is_not_claimed() {
    // Everything is as fast as the original; while the search runs some look faster.
    let (bed, summary) = run(|ask, found| {
        if found.verdict == Verdict::Right {
            let lucky = ask.candidate.launch.block.is_some() && !last(ask);
            let ratio = if lucky { 0.9 } else { 1.0 };
            *found = outcome(ask, Verdict::Right, ratio, 0.005, false);
        }
    });
    assert!(!summary.claim);
    assert!(
        summary.reason.starts_with("no gain found"),
        "{}",
        summary.reason
    );
    assert!(
        summary.reason.contains("does not exclude 1.0"),
        "{}",
        summary.reason
    );
    assert!(!bed.folder.path().join("run").join(BEST).exists());
}

#[test]
fn a_gain_below_what_is_worth_claiming_is_none() {
    let (_, summary) = run(|ask, found| {
        if found.verdict == Verdict::Right {
            let changed = ask.candidate.launch.block.is_some();
            *found = outcome(
                ask,
                Verdict::Right,
                if changed { 0.98 } else { 1.0 },
                0.002,
                false,
            );
        }
    });
    assert!(!summary.claim);
    assert!(summary.reason.contains("below 3 %"), "{}", summary.reason);
}

#[test]
fn a_gain_that_the_original_seems_to_have_too_is_noise() {
    let (_, summary) = run(|ask, found| {
        if found.verdict == Verdict::Right {
            // The machine is disturbed: all that is measured in the end seems faster.
            let ratio = if last(ask) { 0.7 } else { 0.71 };
            *found = outcome(ask, Verdict::Right, ratio, 0.002, false);
        }
    });
    assert!(!summary.claim);
    assert!(
        summary.reason.contains("not above the noise"),
        "{}",
        summary.reason
    );
}

#[test]
fn a_held_out_launch_that_is_wrong_or_slower_forbids_a_claim() {
    let held_out =
        |found: &mut Outcome, change: fn(&mut r3_replay::evaluate::outcome::LaunchOutcome)| {
            let rows = found.launches.iter_mut();
            rows.filter(|row| row.role == Role::HeldOut)
                .for_each(change);
        };
    let (_, wrong) = run(move |ask, found| {
        if last(ask) {
            held_out(found, |row| row.verdict = Verdict::Wrong);
        }
    });
    assert!(
        !wrong.claim && wrong.reason.contains("it is wrong"),
        "{}",
        wrong.reason
    );
    // Its own code, on the launches that did not decide.
    let (_, slower) = run(move |ask, found| {
        if matches!(ask.candidate.code, CandidateCode::Cubin(_)) {
            *found = outcome(ask, Verdict::Right, 1.2, 0.002, false);
        }
    });
    assert!(
        !slower.claim && slower.reason.contains("takes 1.200 of the original's time"),
        "{}",
        slower.reason
    );
    // Where guards exclude a launch the original runs: no harm, and it is said.
    let (_, guarded) = run(move |ask, found| {
        if last(ask) {
            held_out(found, |row| {
                row.verdict = Verdict::Guarded;
                row.times.clear();
            });
        }
    });
    assert!(
        guarded.claim && guarded.reason.contains("guards exclude"),
        "{}",
        guarded.reason
    );
}

#[test]
fn a_candidate_that_fails_in_the_end_leaves_the_next_one() {
    let (_, summary) = run(|ask, found| {
        let best = ask.candidate.build.bounds.maxnreg == Some(128);
        if last(ask) && best {
            *found = outcome(ask, Verdict::Wrong, 1.0, 0.0, false);
        }
    });
    assert!(summary.claim, "{}", summary.reason);
    assert!(
        !summary
            .best
            .unwrap()
            .knobs
            .contains(&"registers=max 128".to_owned())
    );
}

#[test]
fn nothing_that_is_faster_is_an_honest_answer() {
    let (_, summary) = run(|ask, found| {
        if found.verdict == Verdict::Right {
            let original = ask.candidate == Default::default();
            *found = outcome(
                ask,
                Verdict::Right,
                if original { 1.0 } else { 1.2 },
                0.002,
                false,
            );
        }
    });
    assert!(!summary.claim);
    assert_eq!(
        summary.reason,
        "no gain found: nothing was faster than the original"
    );
    assert!(summary.best.unwrap().knobs.is_empty());
    let (_, nothing) = run(|ask, found| *found = outcome(ask, Verdict::Wrong, 1.0, 0.0, false));
    assert_eq!(
        nothing.reason,
        "no gain found: nothing was right, not even the original"
    );
    assert_eq!(nothing.best, None);
}
