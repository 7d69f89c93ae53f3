//! A run that was killed goes on as if it had not been.

use r3_models::chat::Ask;

use super::bed::*;
use crate::evolve::slot::Ended;
use crate::evolve::{EvolveError, reopen};
use crate::tune::End;

/// Runs with a process that is killed before its n-th transaction, and then to the end.
fn killed_at(bed: &Bed, kills: &[u64]) -> serde_json::Value {
    let mut store = bed.create();
    for kill in kills {
        store.left.set(Some(*kill));
        let mut evaluator = bed.evaluator();
        evaluator.delay = |job| 1 + job % 3;
        let mut ask = bed.ask();
        let ask: Option<&mut dyn Ask> = bed.models.is_some().then_some(&mut ask as &mut dyn Ask);
        let over = bed.run(&mut store, &mut evaluator, ask, &mut Looker::default());
        if over.is_ok() {
            break;
        }
        drop(store);
        store = bed.open();
    }
    store.left.set(None);
    bed.go(&mut store).unwrap();
    repeatable(&store)
}

#[test]
fn killed_before_any_of_its_transactions_a_run_with_rewrites_ends_as_if_it_had_not_been() {
    let (summary, expected) = Bed::new(true, 40).whole();
    assert_eq!(summary.end, End::Evaluations);
    for kill in (0..170).step_by(7) {
        let killed = killed_at(&Bed::new(true, 40), &[kill]);
        assert_eq!(killed, expected, "killed before transaction {kill}");
    }
}

#[test]
fn killed_before_any_of_its_transactions_a_run_with_models_ends_as_if_it_had_not_been() {
    let bed = || Bed::new(true, 90).with_models();
    let (_, expected) = bed().whole();
    assert!(expected["requests"].as_array().unwrap().len() > 3);
    for kill in (1..260).step_by(11) {
        let killed = killed_at(&bed(), &[kill]);
        assert_eq!(killed, expected, "killed before transaction {kill}");
    }
}

#[test]
fn killed_again_and_again_it_ends_the_same() {
    let bed = || Bed::new(true, 60).with_models();
    let (_, expected) = bed().whole();
    for kills in [
        [5, 9, 14, 60, 3],
        [0, 0, 1, 2, 3],
        [31, 33, 35, 37, 39],
        [90, 7, 90, 7, 90],
    ] {
        assert_eq!(killed_at(&bed(), &kills), expected, "{kills:?}");
    }
}

#[test]
fn nothing_that_has_an_answer_is_asked_again() {
    let bed = Bed::new(true, 200).with_models();
    let mut store = bed.create();
    let mut watch = Looker {
        leave_after: Some(9),
        ..Looker::default()
    };
    let mut ask = bed.ask();
    let left = bed.run(&mut store, &mut bed.evaluator(), Some(&mut ask), &mut watch);
    assert!(matches!(left, Err(EvolveError::Left)));
    let answered = |store: &crate::store::Store| {
        let requests = store.requests().unwrap();
        requests.iter().filter(|row| row.answer.is_some()).count() as u64
    };
    let done = |store: &crate::store::Store| {
        let rows = store.evaluations(None).unwrap();
        rows.iter().filter(|row| row.outcome.is_some()).count()
    };
    let before = (answered(&store), done(&store));
    assert!(before.0 > 0 && before.1 > 0, "{before:?}");
    let mut ask = bed.ask();
    let mut evaluator = bed.evaluator();
    bed.run(
        &mut store,
        &mut evaluator,
        Some(&mut ask),
        &mut Looker::default(),
    )
    .unwrap();
    assert_eq!(ask.asked, answered(&store) - before.0);
    assert_eq!(evaluator.submitted.borrow().len(), done(&store) - before.1);
}

#[test]
fn a_search_that_was_stopped_keeps_what_was_paid_for_and_goes_on() {
    let mut bed = Bed::new(true, 100);
    let mut store = bed.create();
    let mut watch = Looker {
        stop_after: Some(8),
        ..Looker::default()
    };
    let mut evaluator = bed.evaluator();
    evaluator.delay = |job| 1 + job % 4;
    let first = bed
        .run(&mut store, &mut evaluator, None, &mut watch)
        .unwrap();
    assert_eq!(first.end, End::Stopped);
    // gepa#448: what was evaluated when the end came counts.
    let cut = store.slots().unwrap();
    let cut = cut.iter().filter_map(|row| row.closing.as_ref());
    assert!(cut.clone().any(|closing| closing.ended == Ended::CutOff));
    let told: u64 = cut.map(|closing| closing.evaluations).sum();
    assert!(reopen(&store, &bed.tune.settings, &bed.settings).unwrap());
    let second = bed.go(&mut store).unwrap();
    assert_eq!(second.end, End::Evaluations);
    assert!(second.evaluations > told);
    // Larger limits go on, the same ones do not.
    assert!(!reopen(&store, &bed.tune.settings, &bed.settings).unwrap());
    bed.tune.settings.budget.evaluations = Some(130);
    assert!(reopen(&store, &bed.tune.settings, &bed.settings).unwrap());
    store
        .put(crate::store::key::SETTINGS, &bed.tune.settings)
        .unwrap();
    let third = bed.go(&mut store).unwrap();
    assert!(third.evaluations > second.evaluations);
}

#[test]
fn gone_through_again_after_its_end_nothing_is_measured_or_asked() {
    let bed = Bed::new(true, 50).with_models();
    let mut store = bed.create();
    let first = bed.go(&mut store).unwrap();
    let mut evaluator = bed.evaluator();
    let mut ask = bed.ask();
    let again = bed
        .run(
            &mut store,
            &mut evaluator,
            Some(&mut ask),
            &mut Looker::default(),
        )
        .unwrap();
    assert_eq!(again.best, first.best);
    assert!(evaluator.submitted.borrow().is_empty() && ask.asked == 0);
}
