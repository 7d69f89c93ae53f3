//! What is only screened, what is checked, and what may be the best.

use std::rc::Rc;

use r3_replay::evaluate::{Candidate, Verdict};
use xxhash_rust::xxh3::xxh3_64;

use super::bed::*;
use crate::evolve::check::check;
use crate::evolve::slot::Opening;
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{Integrity, RunView};
use crate::result::variant;
use crate::store::{EvaluationNumber, Phase, Reason, Store, key};
use crate::tune::tests::bed::Watcher;

/// Whether a configuration is wrong with perturbed inputs, whatever its text.
fn breaks(candidate: &Candidate) -> bool {
    let knobs = serde_json::to_string(&(&candidate.build, &candidate.launch)).unwrap();
    let plain = candidate.build == Default::default() && candidate.launch == Default::default();
    !plain && !xxh3_64(knobs.as_bytes()).is_multiple_of(3)
}

/// A run on a machine where most configurations are wrong with perturbed inputs.
fn run(evaluations: u64) -> (Bed, Store) {
    let bed = Bed::new(true, evaluations);
    let mut store = bed.create();
    let mut evaluator = evaluator(&bed);
    bed.run(&mut store, &mut evaluator, None, &mut Looker::default())
        .unwrap();
    (bed, store)
}

fn evaluator(bed: &Bed) -> crate::tune::tests::bed::Simulated {
    let mut evaluator = bed.evaluator();
    let table = judge(true);
    evaluator.judge = Rc::new(move |ask, times| {
        if ask.plan.perturbed > 0 && breaks(&ask.candidate) {
            let wrong = Verdict::Wrong;
            return crate::tune::tests::bed::outcome(ask, wrong, 1.0, 0.0, true);
        }
        table(ask, times)
    });
    evaluator
}

#[test]
fn what_is_the_best_at_any_time_was_checked_with_the_configuration_that_it_is_told_with() {
    let (_bed, store) = run(400);
    let rows = store.evaluations(Some(Phase::Search)).unwrap();
    let checked = |variant: VariantNumber, ratio: f64| {
        rows.iter().any(|row| {
            let timed = row.outcome.as_ref().and_then(|outcome| outcome.score);
            let same = timed.is_some_and(|score| score.ratio.median == ratio);
            same && row.variant == Some(variant)
                && rows.iter().any(|check| {
                    let whole = matches!(check.reason, Reason::Check | Reason::Given);
                    let outcome = check.outcome.as_ref();
                    whole
                        && check.candidate_number == row.candidate_number
                        && outcome.is_some_and(|outcome| outcome.verdict == Verdict::Right)
                })
        })
    };
    let view = RunView::of(&store).unwrap();
    assert!(view.timeline.len() > 2, "{:?}", view.timeline);
    for one in &view.timeline {
        assert!(checked(one.variant, one.ratio.median), "{one:?}");
    }
    let best = view.variant(view.best.unwrap()).unwrap();
    assert_eq!(best.integrity, Integrity::Checked);
    assert_eq!(best.ratio, view.timeline.last().map(|one| one.ratio));
    // The same variant was checked in several configurations, and in some of them it was wrong.
    let mut of_one: Vec<i64> = Vec::new();
    for row in store.slots().unwrap() {
        if let Opening::Check { variant } = row.opening {
            of_one.push(variant.0);
        }
    }
    let all = of_one.len();
    of_one.sort_unstable();
    of_one.dedup();
    assert!(of_one.len() < all, "no variant was checked twice");
    let summary = view.summary.unwrap();
    if let Some(best) = summary.best.filter(|_| summary.claim) {
        let candidate = rows
            .iter()
            .find(|row| row.candidate_number.0 == best.number);
        assert!(!breaks(&candidate.unwrap().candidate));
    }
}

#[test]
fn what_was_only_screened_says_so_wherever_it_is_shown() {
    let (_bed, store) = run(300);
    let view = RunView::of(&store).unwrap();
    let checks: Vec<_> = store
        .evaluations(Some(Phase::Search))
        .unwrap()
        .into_iter()
        .filter(|row| matches!(row.reason, Reason::Check | Reason::Given))
        .filter_map(|row| Some((row.candidate_number.0, row.outcome?.verdict)))
        .collect();
    let mut seen = [0; 3];
    for one in &view.variants {
        let shown = variant::variant(&view, one);
        let right = one.verdict == Some(Verdict::Right);
        let passed = one
            .candidate
            .is_some_and(|number| checks.contains(&(number, Verdict::Right)));
        match one.integrity {
            Integrity::Checked => {
                assert!(right && passed && shown.contains("\nchecked    on every launch"));
                seen[0] += 1;
            }
            Integrity::Screened | Integrity::CheckedOtherwise => {
                assert!(
                    right && !passed && shown.contains("\nnot checked: screened"),
                    "{shown}"
                );
                let other = one.checked_with.as_ref();
                assert_eq!(other.is_some(), shown.contains("\nchecked with  "));
                seen[1] += 1;
            }
            Integrity::Refused => {
                assert!(!right && one.checked && shown.contains("\nrefused    "));
                seen[2] += 1;
            }
            Integrity::NotRight => assert!(!right && !passed && !one.checked),
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    let table = variant::best(&view, 1000);
    let marked = table.lines().filter(|line| line.ends_with("; not checked"));
    assert_eq!(marked.count(), seen[1]);
}

#[test]
fn a_variant_that_somebody_wants_is_checked_outside_of_the_search_which_stays_as_it_was() {
    let (bed, mut store) = run(200);
    let before = repeatable(&store);
    let view = RunView::of(&store).unwrap();
    let screened: Vec<_> = view
        .variants
        .iter()
        .filter(|one| one.integrity == Integrity::Screened && one.equal.is_none())
        .collect();
    assert!(screened.len() > 2);
    let mut came = [0; 2];
    for one in screened {
        let found = one
            .evaluations
            .iter()
            .find(|row| Some(row.candidate) == one.candidate)
            .unwrap();
        let rows = store.rows(&[EvaluationNumber(found.number)]).unwrap();
        let expected = !breaks(&rows[0].candidate) && !only_seems_right(&one.text);
        let outcome = check(
            &mut store,
            &bed.tune.settings,
            &bed.ground(),
            &rows[0],
            &*bed.tune.clock,
            &mut evaluator(&bed),
            &mut Watcher::default(),
        )
        .unwrap();
        assert_eq!(outcome.verdict.is_right(), expected);
        let after = RunView::of(&store).unwrap();
        let now = after.variant(one.number).unwrap();
        let integrity = if expected {
            Integrity::Checked
        } else {
            Integrity::Refused
        };
        assert_eq!((now.integrity, now.checked), (integrity, true));
        assert_eq!(now.verdict == Some(Verdict::Right), expected);
        came[usize::from(expected)] += 1;
    }
    assert!(came.iter().all(|count| *count > 0), "{came:?}");
    assert_eq!(of_search(&store), before["slots"]);
    // Who goes on with the run does what it would have done.
    let mut evaluator = evaluator(&bed);
    bed.run(&mut store, &mut evaluator, None, &mut Looker::default())
        .unwrap();
    assert!(evaluator.submitted.borrow().is_empty());
}

/// A search can end before it has checked what the finals then choose.
#[test]
fn what_a_gain_is_claimed_of_is_checked_though_the_search_did_not_come_to_it() {
    let (_bed, store) = run(300);
    let view = RunView::of(&store).unwrap();
    let screened = |view: &RunView| -> Vec<VariantNumber> {
        let all = view.variants.iter();
        all.filter(|one| one.integrity == Integrity::Screened)
            .map(|one| one.number)
            .collect()
    };
    let before = screened(&view);
    let one = view.variant(before[0]).unwrap();
    let mut summary = view.summary.clone().unwrap();
    let best = summary.best.as_mut().unwrap();
    best.number = one.candidate.unwrap();
    best.variant = Some(one.number);
    for claim in [false, true] {
        summary.claim = claim;
        store.put(key::SUMMARY, &summary).unwrap();
        let after = RunView::of(&store).unwrap();
        assert_eq!(after.claimed(), claim.then_some(one.number));
        let now = after.variant(one.number).unwrap();
        assert_eq!(
            (now.integrity == Integrity::Checked, now.checked),
            (claim, claim)
        );
        // Nothing is said of others by that.
        let others = before.iter().skip(usize::from(claim)).copied();
        assert_eq!(screened(&after), others.collect::<Vec<_>>());
    }
}

/// Whoever leaves a check, or is killed in it, leaves nothing that is under way for ever: the next one who asks takes it up.
#[test]
fn a_check_that_somebody_left_is_the_one_that_the_next_one_does() {
    let (bed, mut store) = run(100);
    let view = RunView::of(&store).unwrap();
    let one = view
        .variants
        .iter()
        .find(|one| one.integrity == Integrity::Screened && one.equal.is_none())
        .unwrap();
    let found = one
        .evaluations
        .iter()
        .find(|row| Some(row.candidate) == one.candidate)
        .unwrap();
    let row = store.rows(&[EvaluationNumber(found.number)]).unwrap();
    let checked = |store: &mut Store, watch: &mut Watcher| {
        check(
            store,
            &bed.tune.settings,
            &bed.ground(),
            &row[0],
            &*bed.tune.clock,
            &mut evaluator(&bed),
            watch,
        )
    };
    let mut leaving = Watcher {
        leave_after: Some(0),
        ..Watcher::default()
    };
    checked(&mut store, &mut leaving).unwrap_err();
    checked(&mut store, &mut Watcher::default()).unwrap();
    let rows = store.evaluations_of(one.number).unwrap();
    let outside = rows
        .iter()
        .filter(|row| row.reason == Reason::Check && row.of.is_none());
    let outcomes: Vec<bool> = outside.map(|row| row.outcome.is_some()).collect();
    assert_eq!(outcomes, [true]);
}

fn of_search(store: &Store) -> serde_json::Value {
    let rows = store.slots().unwrap();
    let rows = rows.iter().map(|row| {
        serde_json::json!([
            row.slot,
            row.island,
            row.after,
            row.opening,
            row.told,
            row.closing
        ])
    });
    rows.collect()
}
