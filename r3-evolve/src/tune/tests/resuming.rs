//! A run that was killed goes on as if it had not been.

use proptest::prelude::*;

use super::bed::*;
use crate::strategy::Kind;
use crate::tune::{End, TuneError, reopen};

/// What is the same for every archive: the evaluations and what was found.
fn found(text: &str) -> String {
    let from = text.find("\"evaluations\": [").unwrap();
    text[from..].to_owned()
}

/// Runs with a process that is killed before its n-th transaction, for each n in turn, until one comes to the end.
fn killed_at(bed: &Bed, kills: &[u64]) -> String {
    let mut store = bed.create();
    for kill in kills {
        store.left.set(Some(*kill));
        let mut evaluator = bed.evaluator();
        evaluator.delay = |job| 1 + job % 3;
        if bed
            .run(&mut store, &mut evaluator, &mut Watcher::default())
            .is_ok()
        {
            break;
        }
        drop(store);
        store = bed.open();
    }
    store.left.set(None);
    bed.run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    found(&repeatable(&store))
}

#[test]
fn killed_before_any_of_its_transactions_a_run_ends_as_if_it_had_not_been() {
    let expected = found(&Bed::new(true, Kind::Bayesian, 12).whole().1);
    // A whole run has some 60 transactions.
    for kill in 0..70 {
        let bed = Bed::new(true, Kind::Bayesian, 12);
        assert_eq!(
            killed_at(&bed, &[kill]),
            expected,
            "killed before transaction {kill}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn killed_again_and_again_it_ends_the_same(kills in prop::collection::vec(0u64..60, 1..6)) {
        let expected = found(&Bed::new(true, Kind::Bayesian, 24).whole().1);
        prop_assert_eq!(killed_at(&Bed::new(true, Kind::Bayesian, 24), &kills), expected);
    }
}

#[test]
fn somebody_who_leaves_finds_everything_that_was_measured() {
    let bed = Bed::new(true, Kind::Bayesian, 40);
    let mut store = bed.create();
    let mut watch = Watcher {
        leave_after: Some(6),
        ..Watcher::default()
    };
    let mut evaluator = bed.evaluator();
    evaluator.limit = 2;
    let error = bed.run(&mut store, &mut evaluator, &mut watch).unwrap_err();
    assert!(matches!(error, TuneError::Left), "{error}");
    let done = store.evaluations(None).unwrap();
    assert!(done.iter().any(|row| row.outcome.is_some()));
}

#[test]
fn a_search_that_was_stopped_goes_on_in_a_new_round() {
    let bed = Bed::new(true, Kind::Grid, 1000);
    let mut store = bed.create();
    let mut watch = Watcher {
        stop_after: Some(8),
        ..Watcher::default()
    };
    let mut evaluator = bed.evaluator();
    evaluator.limit = 2;
    let first = bed.run(&mut store, &mut evaluator, &mut watch).unwrap();
    assert_eq!(first.end, End::Stopped);
    assert!(reopen(&store, &bed.settings).unwrap());
    let evaluator = &mut bed.evaluator();
    let second = bed
        .run(&mut store, evaluator, &mut Watcher::default())
        .unwrap();
    assert_eq!((second.end, second.evaluations), (End::Exhausted, 96));
    // At its end there is nothing to reopen, and running it again measures nothing.
    assert!(!reopen(&store, &bed.settings).unwrap());
    let evaluator = &mut bed.evaluator();
    let third = bed
        .run(&mut store, evaluator, &mut Watcher::default())
        .unwrap();
    assert_eq!(third.best, second.best);
    assert!(evaluator.submitted.borrow().is_empty());
}

#[test]
fn more_evaluations_go_on_where_the_search_ended() {
    let mut bed = Bed::new(true, Kind::Grid, 20);
    let mut store = bed.create();
    let first = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    assert_eq!(first.evaluations, 20);
    bed.settings.budget.evaluations = Some(50);
    assert!(reopen(&store, &bed.settings).unwrap());
    let evaluator = &mut bed.evaluator();
    let second = bed
        .run(&mut store, evaluator, &mut Watcher::default())
        .unwrap();
    assert_eq!((second.end, second.evaluations), (End::Evaluations, 50));
    // 30 new ones, and what is measured in the end: nothing twice.
    let searched = store
        .evaluations(Some(crate::store::Phase::Search))
        .unwrap();
    assert_eq!(searched.len(), 50);
}

#[test]
fn a_strategy_that_proposes_something_else_is_noticed() {
    let mut bed = Bed::new(true, Kind::Random, 20);
    let mut store = bed.create();
    let mut watch = Watcher {
        leave_after: Some(3),
        ..Watcher::default()
    };
    bed.run(&mut store, &mut bed.evaluator(), &mut watch)
        .unwrap_err();
    bed.settings.seed = 8;
    let error = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap_err();
    assert!(matches!(error, TuneError::OtherProposals(_)), "{error}");
}
