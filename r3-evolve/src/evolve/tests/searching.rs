//! Slots, budgets, outages.

use std::collections::BTreeMap;

use r3_models::scripted::Scripted;
use r3_models::settings::Part;
use r3_replay::evaluate::Verdict;

use super::bed::*;
use crate::evolve::slot::{By, Ended, Opening};
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{RunView, VariantView};
use crate::evolve::{EvolveError, Models};
use crate::store::Reason;
use crate::tune::{BEST, End};

#[test]
fn a_search_with_rewrites_finds_something_better_and_every_island_has_its_part() {
    let bed = Bed::new(true, 120);
    let mut store = bed.create();
    let summary = bed.go(&mut store).unwrap();
    assert_eq!(summary.end, End::Evaluations);
    assert!(summary.evaluations <= 120);
    let best = summary.best.as_ref().unwrap();
    assert!(best.ratio.median < 0.9, "{}", best.ratio.median);
    assert!(summary.claim, "{}", summary.reason);
    assert!(store.folder().join(BEST).exists());
    let view = RunView::of(&store).unwrap();
    for island in &view.islands {
        // openevolve#391: everything on island 0.
        assert!(island.occupancy.born > 0, "{:?}", island.occupancy);
    }
    assert!(
        view.timeline
            .windows(2)
            .all(|two| two[1].ratio.median < two[0].ratio.median)
    );
    assert!(view.source.unwrap().median > 1.0);
}

#[test]
fn what_is_wrong_on_held_out_or_perturbed_inputs_never_becomes_the_best() {
    let mut refused = 0;
    for seed in 1..=6 {
        let mut bed = Bed::new(true, 200);
        bed.tune.settings.seed = seed;
        let mut store = bed.create();
        bed.go(&mut store).unwrap();
        let view = RunView::of(&store).unwrap();
        let failed = |one: &&VariantView| one.checked && one.verdict == Some(Verdict::Wrong);
        for one in view.variants.iter().filter(failed) {
            refused += 1;
            assert!(only_seems_right(&one.text));
            assert!(one.cell.is_none(), "{:?} is still an elite", one.number);
        }
        assert!(view.timeline.iter().all(|one| {
            let variant = view.variant(one.variant).unwrap();
            !only_seems_right(&variant.text) && verdict(&variant.text) == Verdict::Right
        }));
    }
    assert!(refused > 0);
}

#[test]
fn wrong_variants_are_kept_with_their_reasons_and_are_no_elites() {
    let bed = Bed::new(true, 120);
    let mut store = bed.create();
    bed.go(&mut store).unwrap();
    let view = RunView::of(&store).unwrap();
    let wrong: Vec<_> = view
        .variants
        .iter()
        .filter(|one| one.verdict.is_some_and(|verdict| !verdict.is_right()))
        .collect();
    assert!(!wrong.is_empty());
    assert!(
        wrong
            .iter()
            .all(|one| one.reason.is_some() && one.cell.is_none())
    );
}

#[test]
fn how_fast_anything_is_changes_nothing_on_a_device_that_counts() {
    type Delay = fn(u64) -> u64;
    let delays: [Delay; 3] = [
        |_| 1,
        |job| 1 + job % 7,
        |job| if job == 3 { 200 } else { 1 },
    ];
    let runs = delays.map(|delay| {
        let bed = Bed::new(true, 60).with_models();
        let mut store = bed.create();
        let mut evaluator = bed.evaluator();
        evaluator.delay = delay;
        evaluator.limit = if delay(3) == 1 { 2 } else { 64 };
        bed.run(
            &mut store,
            &mut evaluator,
            Some(&mut bed.ask()),
            &mut Looker::default(),
        )
        .unwrap();
        repeatable(&store)
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
}

#[test]
fn a_slow_slot_does_not_hold_up_a_device_that_measures() {
    let bed = Bed::new(false, 80);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.delay = |job| if job == 3 { 60 } else { 1 };
    bed.run(&mut store, &mut evaluator, None, &mut Looker::default())
        .unwrap();
    let slots = store.slots().unwrap();
    let told = |slot: usize| slots[slot].told.unwrap();
    assert!(told(1).max(told(2)) > told(12), "{} {}", told(1), told(2));
}

#[test]
fn an_outage_of_models_pauses_the_run_and_costs_no_candidate() {
    // openevolve#288.
    let calm = Bed::new(true, 160).with_models();
    let (_, expected) = calm.whole();
    let bed = Bed::new(true, 160).with_models();
    let mut store = bed.create();
    let mut ask = bed.ask();
    ask.down = 2..400;
    let mut watch = Looker::default();
    bed.run(&mut store, &mut bed.evaluator(), Some(&mut ask), &mut watch)
        .unwrap();
    assert!(watch.paused > 0);
    assert!(
        watch
            .said
            .iter()
            .any(|line| line.contains("cannot be asked"))
    );
    assert!(watch.said.iter().any(|line| line.contains("again")));
    assert_eq!(repeatable(&store), expected);
}

#[test]
fn an_outage_without_end_leaves_a_run_that_goes_on_later() {
    let mut bed = Bed::new(true, 160).with_models();
    bed.settings.models.outage = 5.0;
    let mut store = bed.create();
    let mut ask = bed.ask();
    ask.down = 2..u64::MAX;
    let mut watch = Looker {
        clock: Some(std::rc::Rc::clone(&bed.tune.clock)),
        ..Looker::default()
    };
    let error = bed
        .run(&mut store, &mut bed.evaluator(), Some(&mut ask), &mut watch)
        .unwrap_err();
    assert!(matches!(error, EvolveError::Models { .. }), "{error}");
    bed.go(&mut store).unwrap();
    let (_, expected) = Bed::new(true, 160).with_models().whole();
    let mut expected = expected;
    let mut found = repeatable(&store);
    // But for what is set.
    for all in [&mut expected, &mut found] {
        all.as_object_mut().unwrap().remove("settings");
    }
    assert_eq!(found, expected);
}

#[test]
fn an_outage_of_the_evaluator_costs_no_candidate() {
    let (_, expected) = Bed::new(true, 50).whole();
    let bed = Bed::new(true, 50);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.gone_at = vec![9, 30];
    evaluator.gone_for = 2;
    let mut watch = Looker::default();
    bed.run(&mut store, &mut evaluator, None, &mut watch)
        .unwrap();
    assert!(
        watch
            .said
            .iter()
            .any(|line| line.contains("evaluator is gone"))
    );
    assert_eq!(repeatable(&store), expected);
}

#[test]
fn proposals_that_failed_are_not_counted_as_variants() {
    // ShinkaEvolve#98.
    let mut bed = Bed::new(true, 100_000).with_models();
    bed.tune.settings.budget.evaluations = None;
    bed.settings.limits.variants = Some(12);
    bed.settings.models.repairs = 0;
    bed.settings.islands.each = vec![crate::islands::IslandSettings {
        operators: vec![crate::evolve::variant::Operator::Improve],
        ..Default::default()
    }];
    let mut store = bed.create();
    let mut count = 0;
    let mut ask = Slow::new(Scripted::texts(move |request| {
        count += 1;
        if count % 2 == 0 {
            "no".to_owned()
        } else {
            answer(request)
        }
    }));
    let summary = bed
        .run(
            &mut store,
            &mut bed.evaluator(),
            Some(&mut ask),
            &mut Looker::default(),
        )
        .unwrap();
    let view = RunView::of(&store).unwrap();
    assert!(view.counts.unusable >= 5, "{:?}", view.counts);
    assert!(
        summary.end == End::Variants && view.counts.variants == 12,
        "{:?}: {:?}",
        summary.end,
        view.counts
    );
}

#[test]
fn a_model_that_takes_little_gets_prompts_that_leave_room_for_an_answer() {
    // Bytes of the longest first question, and of the longest repair.
    let longest = |context: Option<u32>| {
        let mut bed = Bed::new(true, 300).with_models();
        let settings = bed.models.as_mut().unwrap();
        for model in &mut settings.models {
            model.context = context;
        }
        let mut store = bed.create();
        bed.go(&mut store).unwrap();
        let requests = store.requests().unwrap();
        let of = |is_repair: bool| {
            requests
                .iter()
                .filter(|one| (one.turn > 0) == is_repair)
                .map(|one| crate::prompt::bytes(&one.messages))
                .max()
                .unwrap()
        };
        (of(false), of(true))
    };
    let mut small = r3_models::settings::Model::new("m", Part::Accurate);
    small.context = Some(4096);
    let most = small.prompt_bytes().unwrap();
    let (question, repair) = longest(Some(4096));
    assert!(question <= most, "{question} of {most}");
    // What is wrong with an answer is worth more than the length of the next one, some of whose room it takes.
    let with_repair = most + most * 3 / 8 + 400;
    assert!(repair <= with_repair, "{repair} of {with_repair}");
    assert!(longest(None).0 > most);
}

#[test]
fn what_was_sent_and_never_answered_is_told_apart_from_what_models_took() {
    let bed = Bed::new(true, 60).with_models();
    let mut store = bed.create();
    bed.go(&mut store).unwrap();
    assert!(RunView::of(&store).unwrap().unanswered.is_empty());
    let sent = |number: u64| {
        format!(
            "{{\"sent\":{{\"number\":{number},\"model\":\"m\",\"prompt\":1000,\"completion\":500,\"cost\":0.25}}}}\n"
        )
    };
    let ledger = store.folder().join(r3_models::ledger::FILE);
    // Killed with one under way, went on, and ended with another one.
    let text = format!(
        "{{\"begin\":{{}}}}\n{}{{\"begin\":{{}}}}\n{}",
        sent(0),
        sent(0)
    );
    std::fs::write(ledger, text).unwrap();
    let view = RunView::of(&store).unwrap();
    let lost = view.unanswered["m"];
    assert_eq!(
        (lost.requests, lost.prompt, lost.completion),
        (2, 2000, 1000)
    );
    assert!(!view.models.models.contains_key("m"));
}

#[test]
fn a_question_that_a_service_refuses_costs_nobody_anything() {
    let bed = Bed::new(true, 160).with_models();
    let mut store = bed.create();
    let mut ask = Slow::new(Scripted::new(|_| Err(refused())));
    bed.run(
        &mut store,
        &mut bed.evaluator(),
        Some(&mut ask),
        &mut Looker::default(),
    )
    .unwrap();
    let view = RunView::of(&store).unwrap();
    assert!(view.counts.unanswered > 0);
    assert!(view.operators.values().all(|one| one.unusable == 0));
    let by_model: BTreeMap<_, _> = view.answers.iter().collect();
    assert!(by_model.values().all(|one| one.proposals == one.unanswered));
}

#[test]
fn a_model_is_told_what_was_wrong_and_its_next_answer_is_a_variant_of_its_own() {
    let bed = Bed::new(true, 200).with_models();
    let mut store = bed.create();
    bed.go(&mut store).unwrap();
    let variants = store.variants().unwrap();
    let repaired: Vec<_> = variants.iter().filter(|row| row.turn > 0).collect();
    assert!(!repaired.is_empty());
    for row in repaired {
        let before = variants
            .iter()
            .rfind(|one| one.slot == row.slot && one.turn < row.turn);
        if let Some(before) = before {
            assert_ne!(verdict(&before.text), Verdict::Right);
            assert!(row.lineage.parents.contains(&before.number));
        }
    }
}

#[test]
fn texts_that_are_known_are_dropped_before_they_are_evaluated() {
    // openevolve#439: the check came after the evaluation.
    let bed = Bed::new(true, 300).with_models();
    let mut store = bed.create();
    bed.go(&mut store).unwrap();
    let slots = store.slots().unwrap();
    let known: Vec<_> = slots
        .iter()
        .filter(|row| {
            let closing = row.closing.as_ref();
            closing
                .is_some_and(|one| matches!(one.ended, Ended::Duplicate(_)) && one.evaluations == 0)
        })
        .collect();
    assert!(!known.is_empty());
    assert!(known.iter().all(|row| {
        matches!(&row.opening, Opening::Propose(one) if matches!(one.by, By::Model(_)))
    }));
}

#[test]
fn a_source_that_is_not_right_is_refused_with_its_reasons() {
    let bed = Bed::new(true, 60);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    evaluator.judge = std::rc::Rc::new(|ask, _| {
        crate::tune::tests::bed::outcome(ask, Verdict::Wrong, 1.0, 0.0, true)
    });
    let error = bed
        .run(&mut store, &mut evaluator, None, &mut Looker::default())
        .unwrap_err();
    assert!(matches!(error, EvolveError::Given(_)), "{error}");
    assert!(
        error.to_string().contains("the table says wrong"),
        "{error}"
    );
}

#[test]
fn a_machine_that_judges_nothing_ends_the_run_and_takes_nothing_from_it() {
    let bed = Bed::new(true, 60);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    let table = judge(true);
    evaluator.judge = std::rc::Rc::new(move |ask, times| {
        if text(&ask.candidate) == Some(SOURCE) {
            return table(ask, times);
        }
        crate::tune::tests::bed::outcome(ask, Verdict::Unjudged, 1.0, 0.0, true)
    });
    let error = bed
        .run(&mut store, &mut evaluator, None, &mut Looker::default())
        .unwrap_err();
    assert!(error.to_string().contains("could not be judged"), "{error}");
    let summary = bed.go(&mut store).unwrap();
    assert!(summary.best.is_some());
}

#[test]
fn a_promising_variant_is_searched_further_and_evaluations_stay_within_the_budget() {
    let bed = Bed::new(true, 90);
    let mut store = bed.create();
    bed.go(&mut store).unwrap();
    let slots = store.slots().unwrap();
    assert!(
        slots
            .iter()
            .any(|row| matches!(row.opening, Opening::Promote { .. }))
    );
    let rows = store
        .evaluations(Some(crate::store::Phase::Search))
        .unwrap();
    assert!(rows.len() <= 90, "{}", rows.len());
    let of_first = rows
        .iter()
        .filter(|row| row.variant == Some(VariantNumber(1)) && row.reason == Reason::Proposed);
    assert!(of_first.count() > 0);
}

#[test]
fn time_ends_a_search() {
    let mut bed = Bed::new(false, 1000);
    bed.tune.settings.budget.evaluations = None;
    bed.tune.settings.budget.seconds = Some(3.05);
    let mut store = bed.create();
    let summary = bed.go(&mut store).unwrap();
    assert_eq!(summary.end, End::Time);
    assert!(summary.best.is_some());
}

#[test]
fn a_run_that_asked_models_does_not_go_on_without_them() {
    let bed = Bed::new(true, 160).with_models();
    let mut store = bed.create();
    let mut watch = Looker {
        leave_after: Some(6),
        ..Looker::default()
    };
    let _ = bed.run(
        &mut store,
        &mut bed.evaluator(),
        Some(&mut bed.ask()),
        &mut watch,
    );
    let error = bed
        .run(
            &mut store,
            &mut bed.evaluator(),
            None,
            &mut Looker::default(),
        )
        .unwrap_err();
    assert!(matches!(error, EvolveError::NoModels), "{error}");
    let _: Option<Models<'_>> = None;
}

#[test]
fn a_search_that_ends_before_its_source_was_judged_says_so_and_claims_nothing() {
    for stops in [false, true] {
        let mut bed = Bed::new(false, 1000);
        bed.tune.settings.budget.evaluations = None;
        bed.tune.settings.budget.seconds = Some(if stops { 1e6 } else { 0.35 });
        let mut store = bed.create();
        let mut evaluator = bed.evaluator();
        evaluator.delay = |_| 50;
        let mut watch = Looker {
            stop_after: stops.then_some(3),
            ..Looker::default()
        };
        let error = bed
            .run(&mut store, &mut evaluator, None, &mut watch)
            .unwrap_err();
        assert!(matches!(error, EvolveError::Early), "{error}");
        assert!(RunView::of(&store).unwrap().summary.is_none());
        // With more time it goes on from there.
        bed.tune.settings.budget.seconds = Some(4.0);
        assert!(bed.go(&mut store).unwrap().best.is_some());
    }
}
