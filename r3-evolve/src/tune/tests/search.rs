//! Proposals, budgets, and somebody who stops.

use super::bed::*;
use crate::store::{Phase, Reason, State};
use crate::strategy::Kind;
use crate::tune::{BEST, End};
use r3_archive::Archive;
use r3_replay::evaluate::Verdict;

#[test]
fn the_whole_space_is_searched_and_every_verdict_counted() {
    let bed = Bed::new(true, Kind::Grid, 1000);
    let mut store = bed.create();
    let summary = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    assert_eq!((summary.end, summary.evaluations), (End::Exhausted, 96));
    let best = summary.best.as_ref().unwrap();
    assert_eq!(
        best.knobs,
        ["block=128x1x1", "registers=max 128", "load_cache=cs"]
    );
    assert!((best.ratio.median - 0.8 * 0.9 * 0.97).abs() < 1e-12);
    assert!(summary.claim, "{}", summary.reason);
    let verdicts: Vec<&str> = summary
        .verdicts
        .iter()
        .map(|(word, _)| word.as_str())
        .collect();
    assert_eq!(
        verdicts,
        [
            "right",
            "wrong",
            "no code",
            "refused",
            "timeout",
            "fault",
            "cheat",
            "implausible",
            "guarded"
        ]
    );
    let count: u64 = summary.verdicts.iter().map(|(_, count)| count).sum();
    assert_eq!(count, 96);

    // The result is a file that stands alone.
    let file = Archive::open(store.folder().join(BEST)).unwrap();
    let tuned = &file.tuned()[0];
    assert_eq!(
        (tuned.kernel.as_str(), tuned.launch.block),
        ("k", Some([128, 1, 1]))
    );
    assert_eq!((tuned.shapes[0].tuned, tuned.shapes[0].held_out), (3, 1));
    let store = crate::store::Store::look(store.folder()).unwrap();
    assert!(store.count_samples().unwrap() > 0);
}

#[test]
fn each_strategy_finds_the_known_levers_within_60_evaluations() {
    for kind in [Kind::Bayesian, Kind::Random] {
        let bed = Bed::new(true, kind, 60);
        let (summary, _) = bed.whole();
        let ratio = summary.best.unwrap().ratio.median;
        assert!(ratio <= 0.8 * 0.9, "{}: {ratio}", kind.word());
        assert_eq!((summary.end, summary.evaluations), (End::Evaluations, 60));
    }
}

#[test]
fn how_fast_anything_is_changes_nothing() {
    type Delay = fn(u64) -> u64;
    let delays: [Delay; 3] = [
        |_| 1,
        |job| 1 + job % 7,
        |job| if job == 3 { 200 } else { 1 },
    ];
    let runs = delays.map(|delay| {
        let bed = Bed::new(true, Kind::Bayesian, 40);
        let mut store = bed.create();
        let mut evaluator = bed.evaluator();
        evaluator.delay = delay;
        evaluator.limit = if delay(3) == 1 { 2 } else { 64 };
        bed.run(&mut store, &mut evaluator, &mut Watcher::default())
            .unwrap();
        // The archive is made anew each time, and has an identity of its own.
        let text = repeatable(&store);
        let from = text.find("\"evaluations\": [").unwrap();
        text[from..].to_owned()
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
}

#[test]
fn a_slow_candidate_does_not_hold_up_a_device_that_measures() {
    let bed = Bed::new(false, Kind::Random, 40);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.delay = |job| if job == 2 { 60 } else { 1 };
    bed.run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap();
    let rows = store.evaluations(Some(Phase::Search)).unwrap();
    let told = |number: usize| rows[number].told.unwrap();
    assert!(told(1) > told(20), "{} and {}", told(1), told(20));
}

#[test]
fn time_ends_a_search_and_what_is_under_way_is_given_up() {
    let mut bed = Bed::new(false, Kind::Random, 1000);
    bed.settings.budget.evaluations = None;
    bed.settings.budget.seconds = Some(1.05);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.delay = |job| 1 + job % 5;
    let summary = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap();
    assert_eq!(summary.end, End::Time);
    let rows = store.evaluations(Some(Phase::Search)).unwrap();
    let given_up = rows.iter().filter(|row| row.state == State::Cancelled);
    assert!(given_up.clone().count() > 0);
    assert!(given_up.clone().all(|row| row.told.is_none()));
    assert_eq!(
        summary.evaluations,
        rows.iter()
            .filter(|row| row.told.is_some() && row.reason == Reason::Proposed)
            .count() as u64
    );
}

#[test]
fn finding_nothing_better_ends_a_search() {
    let mut bed = Bed::new(true, Kind::Random, 1000);
    bed.settings.budget.stagnation = Some(20);
    bed.settings.budget.evaluations = None;
    let (summary, _) = bed.whole();
    assert_eq!(summary.end, End::Stagnation);
    let best = summary.best.unwrap();
    assert!(summary.evaluations >= best.found_at + 20 && summary.evaluations < 96);
}

#[test]
fn the_best_is_measured_again_from_time_to_time() {
    let mut bed = Bed::new(false, Kind::Random, 60);
    bed.settings.fine.again_every = 10;
    let mut store = bed.create();
    bed.run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    let rows = store.evaluations(Some(Phase::Search)).unwrap();
    let again: Vec<_> = rows
        .iter()
        .filter(|row| row.reason == Reason::Again)
        .collect();
    assert!((4..=6).contains(&again.len()), "{}", again.len());
    assert!(
        again
            .iter()
            .all(|row| row.plan.again && row.same_as.is_none())
    );
}

#[test]
fn whoever_stops_gets_the_best_so_far() {
    let bed = Bed::new(true, Kind::Grid, 1000);
    let mut store = bed.create();
    let mut watch = Watcher {
        stop_after: Some(12),
        ..Watcher::default()
    };
    let mut evaluator = bed.evaluator();
    evaluator.limit = 2;
    let summary = bed.run(&mut store, &mut evaluator, &mut watch).unwrap();
    assert_eq!(summary.end, End::Stopped);
    assert!(summary.evaluations < 96 && summary.best.is_some());
    let finals = store.evaluations(Some(Phase::Final)).unwrap();
    let finalists = finals.iter().filter(|row| row.reason == Reason::Finalist);
    assert!(finalists.clone().count() <= 3, "{}", finalists.count());
}

#[test]
fn verdicts_that_say_nothing_of_a_candidate_are_not_told() {
    let bed = Bed::new(true, Kind::Grid, 1000);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    let table = counted();
    evaluator.judge = std::rc::Rc::new(move |ask, times| {
        if ask.candidate.launch.block == Some([32, 1, 1]) {
            return outcome(ask, Verdict::Cancelled, 1.0, 0.0, true);
        }
        table(ask, times)
    });
    let summary = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap();
    assert_eq!(summary.evaluations, 96);
    assert!(
        summary
            .verdicts
            .iter()
            .any(|(word, count)| word == "cancelled" && *count == 16)
    );
}
