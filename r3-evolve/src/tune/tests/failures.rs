//! What fails of the machine is no candidate's failure.

use std::rc::Rc;

use super::bed::*;
use crate::store::Phase;
use crate::strategy::Kind;
use crate::tune::TuneError;
use r3_replay::evaluate::Verdict;

#[test]
fn an_evaluator_that_is_gone_is_waited_for_and_costs_no_candidate_anything() {
    let calm = Bed::new(true, Kind::Bayesian, 40);
    let (expected, _) = calm.whole();

    let bed = Bed::new(true, Kind::Bayesian, 40);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.gone_at = vec![5, 30, 61];
    evaluator.gone_for = 3;
    evaluator.delay = |job| 1 + job % 3;
    let mut watch = Watcher::default();
    let summary = bed.run(&mut store, &mut evaluator, &mut watch).unwrap();
    assert_eq!(summary.verdicts, expected.verdicts);
    assert_eq!(summary.best, expected.best);
    assert_eq!(
        watch
            .said
            .iter()
            .filter(|line| line.contains("is gone"))
            .count(),
        3
    );
    assert!(
        summary
            .notes
            .iter()
            .any(|note| note.contains("gone 3 times")),
        "{:?}",
        summary.notes
    );
}

#[test]
fn the_time_of_an_outage_does_not_count() {
    let mut bed = Bed::new(true, Kind::Random, 1000);
    bed.settings.budget.evaluations = None;
    bed.settings.budget.seconds = Some(1.0);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.gone_at = vec![12];
    evaluator.gone_for = 4;
    let summary = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap();
    assert!(summary.seconds < 1.3, "{}", summary.seconds);
    assert!(summary.evaluations > 20, "{}", summary.evaluations);
}

#[test]
fn an_evaluator_that_stays_away_ends_the_run_which_can_go_on() {
    let mut bed = Bed::new(true, Kind::Bayesian, 40);
    bed.settings.fine.outage = 20.0;
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.gone_at = vec![20];
    evaluator.gone_for = 1000;
    let error = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap_err();
    assert!(error.to_string().contains("--resume"), "{error}");
    let summary = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    let calm = Bed::new(true, Kind::Bayesian, 40);
    assert_eq!(summary.best, calm.whole().0.best);
}

#[test]
fn an_evaluator_that_dies_after_each_start_ends_the_run_which_can_go_on() {
    let bed = Bed::new(true, Kind::Bayesian, 40);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    // It starts again each time, and is lost before it has judged anything.
    evaluator.delay = |_| u64::MAX;
    evaluator.gone_at = (20..10_000).step_by(10).collect();
    let mut watch = Watcher::default();
    let error = bed
        .run(&mut store, &mut evaluator, &mut watch)
        .unwrap_err()
        .to_string();
    for words in ["nothing was judged in between", "--resume"] {
        assert!(error.contains(words), "{error}");
    }
    let summary = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    let calm = Bed::new(true, Kind::Bayesian, 40);
    assert_eq!(summary.best, calm.whole().0.best);
}

#[test]
fn what_the_machine_could_not_judge_is_tried_again() {
    let bed = Bed::new(true, Kind::Grid, 1000);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    let table = counted();
    evaluator.judge = Rc::new(move |ask, times| {
        if times <= 2 {
            return outcome(ask, Verdict::Unjudged, 1.0, 0.0, true);
        }
        table(ask, times)
    });
    let summary = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap();
    assert!(!summary.verdicts.iter().any(|(word, _)| word == "unjudged"));
    assert_eq!(summary.evaluations, 96);
}

#[test]
fn a_machine_that_can_judge_nothing_ends_the_run_and_fails_no_candidate() {
    let bed = Bed::new(true, Kind::Random, 60);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.judge = Rc::new(|ask, _| outcome(ask, Verdict::Unjudged, 1.0, 0.0, true));
    let error = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap_err();
    assert!(
        matches!(error, TuneError::Machine { count: 5, .. }),
        "{error}"
    );
    let summary = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    // What could not be judged stays so, and is not counted twice.
    let unjudged = summary.verdicts.iter().find(|(word, _)| word == "unjudged");
    assert_eq!(unjudged.map(|(_, count)| *count), Some(5));
    assert_eq!(summary.evaluations, 60);
    let told = store.evaluations(Some(Phase::Search)).unwrap();
    assert_eq!(told.iter().filter(|row| row.told.is_some()).count(), 60);
}

#[test]
fn a_full_queue_is_waited_for() {
    let bed = Bed::new(true, Kind::Grid, 1000);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.limit = 1;
    let summary = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap();
    assert_eq!(summary.evaluations, 96);
}

#[test]
fn finals_in_which_not_even_the_original_can_be_judged_say_nothing_and_go_on_later() {
    let bed = Bed::new(true, Kind::Grid, 1000);
    let (whole, _) = Bed::new(true, Kind::Grid, 1000).whole();
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    let table = counted();
    // As when the archive is replaced: what asks for a fresh process finds nothing.
    evaluator.judge = Rc::new(move |ask, times| {
        let mut outcome = table(ask, times);
        if ask.plan.fresh_process {
            outcome.verdict = Verdict::Unjudged;
            outcome.reason = Some("the archive has no kernel 2".into());
            outcome.score = None;
            outcome.launches.clear();
        }
        outcome
    });
    let error = bed
        .run(&mut store, &mut evaluator, &mut Watcher::default())
        .unwrap_err();
    assert!(matches!(error, TuneError::Machine { .. }), "{error}");
    assert!(error.to_string().contains("no kernel 2"), "{error}");
    let summary = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    assert!(summary.claim, "{}", summary.reason);
    assert_eq!(summary.best.unwrap().knobs, whole.best.unwrap().knobs);
}
