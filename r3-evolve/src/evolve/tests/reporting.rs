//! Reports on a search over source: what they say is what the run has.

use std::collections::BTreeSet;

use r3_models::scripted::Scripted;
use r3_replay::evaluate::Verdict;
use xxhash_rust::xxh3::xxh3_64;

use super::bed::{Bed, Looker, SOURCE, Slow, only_seems_right, verdict};
use crate::evolve::slot::{Ended, Opening};
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::RunView;
use crate::report::{self, Report, words};
use crate::store::Store;

fn run(counts: bool) -> (Bed, Store, RunView) {
    let bed = Bed::new(counts, 150).with_models();
    let mut store = bed.create();
    bed.go(&mut store).unwrap();
    let view = RunView::of(&store).unwrap();
    (bed, store, view)
}

#[test]
fn operators_share_the_whole_gain_of_the_search_and_every_proposal() {
    let (.., view) = run(true);
    let report = Report::of(&view);
    let operators = || report.operators.iter().filter(|one| one.of.is_empty());
    let gain: f64 = operators().map(|one| one.gain).sum();
    let (first, last) = (&view.timeline[0], view.timeline.last().unwrap());
    let whole = (first.ratio.median / last.ratio.median).ln();
    assert!(whole > 0.05, "nothing was gained");
    assert!((gain - whole).abs() < 1e-9, "{gain} of {whole}");
    // Who was the best when it was checked is counted where it was made.
    let led: u64 = operators().map(|one| one.best).sum();
    let changes = view.timeline.windows(2);
    let changes = changes.filter(|pair| pair[0].variant != pair[1].variant);
    assert_eq!(led, changes.count() as u64);
    assert!(led > 0);
    let proposals: u64 = operators().map(|one| one.proposals).sum();
    let closed = view
        .slots
        .iter()
        .filter(|slot| matches!(slot.opening, Opening::Propose(_)) && slot.closing.is_some());
    assert_eq!(proposals, closed.count() as u64);
    // Rewrites one by one are the operator of all of them.
    let of_rewrites = report.operators.iter().filter(|one| one.of == "rewrite");
    let of_rewrites: u64 = of_rewrites.map(|one| one.proposals).sum();
    let all = operators().find(|one| one.name == "rewrite");
    assert_eq!(all.map_or(0, |one| one.proposals), of_rewrites);
    let paid: f64 = operators().map(|one| one.cost).sum();
    let models: f64 = report.models.iter().map(|one| one.cost).sum();
    assert!((paid - models).abs() < 1e-9);
}

#[test]
fn what_can_be_chosen_has_its_text_and_what_is_left_out_has_a_difference() {
    let (.., view) = run(true);
    let report = Report::of(&view);
    let numbers: BTreeSet<i64> = report.variants.iter().map(|one| one.number).collect();
    assert_eq!(numbers.len(), view.variants.len());
    for island in &report.islands {
        assert!(island.occupancy.born > 0, "island {:?}", island.occupancy);
        for cell in &island.grid.cells {
            let one = report
                .variants
                .iter()
                .find(|one| one.number == cell.number.0)
                .unwrap();
            assert!(one.elite && !one.text.is_empty());
            assert_eq!(one.verdict, "right");
        }
    }
    for one in &report.variants {
        let known = one.parents.iter().all(|parent| numbers.contains(parent));
        assert!(known, "{one:?}");
        assert!(!one.text.is_empty() || !one.diff.is_empty(), "{one:?}");
        if one.verdict != "right" && one.verdict != "under way" {
            assert!(one.reason.is_some(), "{one:?}");
        }
    }
}

#[test]
fn a_claim_names_both_baselines_and_what_is_not_claimed() {
    let (.., view) = run(false);
    let report = Report::of(&view);
    let summary = view.summary.as_ref().unwrap();
    assert_eq!(report.claim.claimed, summary.claim);
    let said = report.claim.said.join("\n");
    assert!(
        said.contains("captured binary") && said.contains("unchanged source"),
        "{said}"
    );
    assert!(said.contains("fresh process"), "{said}");
    let not_said = report.claim.not_said.join("\n");
    assert!(not_said.contains("other inputs"), "{not_said}");
    assert!(!not_said.contains("counts instructions"), "{not_said}");
    let given = summary.finals.as_ref().unwrap().given.unwrap();
    assert_eq!(report.source.unwrap().median, given.median);
    let page = report::page(&report);
    assert!(page.contains(&crate::report::escape::html(&report.claim.headline)));
}

#[test]
fn a_device_that_counts_claims_no_times() {
    let (.., view) = run(true);
    let report = Report::of(&view);
    let not_said = report.claim.not_said.join("\n");
    assert!(not_said.contains("counts instructions"), "{not_said}");
}

#[test]
fn a_run_that_goes_on_has_a_report_that_claims_nothing() {
    let bed = Bed::new(true, 40);
    let mut store = bed.create();
    bed.go(&mut store).unwrap();
    let mut view = RunView::of(&store).unwrap();
    view.summary = None;
    view.phase = crate::store::Phase::Search;
    let report = Report::of(&view);
    assert!(!report.claim.claimed && report.claim.said.is_empty());
    assert!(
        report.claim.headline.starts_with("So far"),
        "{}",
        report.claim.headline
    );
    assert!(report.finals.is_empty() && report.models.is_empty());
    assert!(report::page(&report).contains("not at its end"));
}

#[test]
fn the_status_has_a_line_for_every_island_operator_and_model() {
    let (.., view) = run(true);
    let status = report::status(&view);
    let lines = ["island 0", "island 1", "source as given", "best"];
    let operators = view
        .operators
        .keys()
        .map(|operator| report::words::operator(*operator));
    let models: Vec<String> = view
        .answers
        .keys()
        .map(|name| format!("model {name}"))
        .collect();
    assert!(!models.is_empty());
    let lines = lines.into_iter().chain(models.iter().map(String::as_str));
    for begin in operators.chain(lines) {
        assert!(
            status.lines().any(|line| line.starts_with(begin)),
            "{begin} in\n{status}"
        );
    }
    let ended = |what: fn(&Ended) -> bool| {
        let closings = view.slots.iter().filter_map(|slot| slot.closing.as_ref());
        closings.filter(|closing| what(&closing.ended)).count()
    };
    let unusable = ended(|ended| matches!(ended, Ended::Unusable(_)));
    if unusable > 0 {
        assert!(
            status.contains(&format!(
                "{unusable} not evaluated since the answer was of no use"
            )),
            "{status}"
        );
    }
}

#[test]
fn a_proposal_has_a_verdict_or_is_told_as_not_evaluated_and_never_both() {
    let (.., view) = run(true);
    let report = Report::of(&view);
    let closings = || view.slots.iter().filter_map(|slot| slot.closing.as_ref());
    let known = |evaluated: bool| {
        closings()
            .filter(|one| matches!(one.ended, Ended::Duplicate(_)))
            .filter(|one| one.variant.is_some() == evaluated)
            .count() as u64
    };
    assert!(known(true) > 0, "nothing compiled to code that was known");
    let told = report.dropped.iter().find(|one| one.0 == "text was known");
    assert_eq!(told.map_or(0, |one| one.1), known(false));
}

#[test]
fn each_step_on_the_way_to_the_best_has_the_times_before_and_after() {
    for counts in [true, false] {
        let (.., view) = run(counts);
        let report = Report::of(&view);
        let best = report.best.unwrap();
        assert!(best > 1, "the search found nothing");
        assert_eq!(report.way.last().unwrap().variant, best);
        for stage in &report.way {
            let of = |number| view.variant(VariantNumber(number)).unwrap();
            let (before, after) = (of(stage.from), of(stage.variant));
            assert_eq!(after.lineage.parents[0].0, stage.from);
            let median = |of: &Option<report::data::Times>| of.map(|times| times.median);
            assert_eq!(
                median(&stage.best.before),
                before.ratio.map(|ratio| ratio.median)
            );
            assert_eq!(
                median(&stage.best.after),
                after.ratio.map(|ratio| ratio.median)
            );
            if let (Some(before), Some(after)) = (stage.best.before, stage.best.after) {
                let apart = before.low > after.high || before.high < after.low;
                let told = stage.best.seen != words::NO_DIFFERENCE;
                // Apart, and yet nearer than noise, is no difference; what is told apart is apart.
                assert!(apart || !told, "{stage:?}");
            }
        }
        // As text and in the page: every step, with what it changed.
        let text = report::steps(&view, VariantNumber(best));
        let page = report::page(&report);
        for stage in &report.way {
            assert!(text.contains(&format!("{:>4} of {}", stage.variant, stage.from)));
            assert!(page.contains(&format!("Step to variant {}", stage.variant)));
            assert!(text.contains(&stage.best.seen) && page.contains(&stage.best.seen));
        }
        assert!(
            text.lines().any(|line| line.starts_with("       @@")),
            "{text}"
        );
    }
    let (.., view) = run(true);
    assert_eq!(report::steps(&view, VariantNumber(1)), "");
}

#[test]
fn a_run_that_was_left_says_what_was_under_way_and_when_it_stood_still() {
    let bed = Bed::new(true, 400).with_models();
    let mut store = bed.create();
    let mut ask = bed.ask();
    ask.down = 3..8;
    let mut watch = Looker {
        leave_after: Some(14),
        clock: Some(bed.tune.clock.clone()),
        ..Looker::default()
    };
    let left = bed.run(&mut store, &mut bed.evaluator(), Some(&mut ask), &mut watch);
    assert!(left.is_err(), "it was to be left");
    let view = RunView::of(&store).unwrap();
    let open = view.slots.iter().filter(|slot| slot.closing.is_none());
    let open = open.count() as u64;
    assert!(open > 0);
    let report = Report::of(&view);
    assert!(
        report.open.contains(&("slot".to_owned(), open)),
        "{:?}",
        report.open
    );
    let said = words::count(open, "slot");
    assert!(report::status(&view).contains(&format!("not over: {said}")));
    assert!(report::page(&report).contains(&said));
    let pause = &report.curve.pauses[0];
    assert!(
        pause.seconds.is_some_and(|seconds| seconds > 0.0),
        "{pause:?}"
    );
    assert!(pause.why.contains("the test took it away"), "{pause:?}");
    assert!(pause.evaluations <= report.curve.evaluations);
}

#[test]
fn what_was_sent_and_has_no_answer_is_told_apart_from_what_was_paid() {
    let (.., mut view) = run(true);
    let calm = Report::of(&view);
    assert!(calm.unanswered.is_empty() && !report::status(&view).contains("no answer ("));
    let lost = r3_models::ledger::Lost {
        requests: 3,
        prompt: 12_345,
        completion: 6000,
        cost: 0.02,
    };
    view.unanswered.insert("a <model>".to_owned(), lost);
    let report = Report::of(&view);
    let said = "3 requests to a <model> have no answer (they were under way when the run ended, or still are): \
                up to 12345 tokens in, 6000 out and $ 0.0200 are not counted";
    assert!(report::status(&view).contains(&format!("note: {said}")));
    assert!(report::page(&report).contains(&report::escape::html(said)));
    assert_eq!(report.models, calm.models);
}

/// The last text of a prompt in which the kernel is, changed in a line: longer and longer, each another one.
fn changed(prompt: &str, by: u64) -> String {
    let begin = prompt.rfind("__global__ void k(").unwrap();
    let kernel = &prompt[begin..];
    let kernel = kernel.split("\n}\n").next().unwrap();
    let mut lines: Vec<String> = kernel.lines().map(str::to_owned).collect();
    let places: Vec<usize> = (0..lines.len())
        .filter(|place| lines[*place].contains("sum +="))
        .collect();
    let place = places[(by % places.len() as u64) as usize];
    if by.is_multiple_of(3) && places.len() > 8 {
        lines.remove(place);
    } else {
        lines.insert(
            place,
            format!(
                "            sum += x[i] * {}.{}f;",
                by / 8 % 100,
                by / 1000 % 1000
            ),
        );
    }
    format!("```cuda\n{}\n}}\n```\n", lines.join("\n"))
}

/// Leaves a run with thousands of variants in the folder that `R3_LONG_RUN` names, for the figures of `docs/performance.md`:
/// `R3_LONG_RUN=long cargo test -p r3-evolve a_long_run -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_run() {
    let mut bed = Bed::new(false, 10_800).with_models();
    let helpers = include_str!("../../../../capture-samples/programs/nbody.cu");
    bed.program.text = format!("{helpers}\n{SOURCE}");
    // The table knows the right source by its text.
    while verdict(&bed.program.text) != Verdict::Right || only_seems_right(&bed.program.text) {
        bed.program.text.push('\n');
    }
    bed.settings.islands.count = 3;
    let mut store = bed.create();
    let mut ask = Slow::new(Scripted::texts(|request| {
        let all = request.messages.iter();
        let all: String = all.map(|one| one.content.as_str()).collect();
        changed(&all, xxh3_64(all.as_bytes()))
    }));
    bed.run(
        &mut store,
        &mut bed.evaluator(),
        Some(&mut ask),
        &mut Looker::default(),
    )
    .unwrap();
    let view = RunView::of(&store).unwrap();
    let page = report::page(&Report::of(&view));
    eprintln!("{} variants, {} bytes", view.variants.len(), page.len());
    assert!(view.variants.len() > 3000);
    drop(store);
    if let Some(folder) = std::env::var_os("R3_LONG_RUN") {
        let from = bed.tune.folder.path().join("run");
        std::fs::create_dir_all(&folder).unwrap();
        for file in std::fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(
                file.path(),
                std::path::Path::new(&folder).join(file.file_name()),
            )
            .unwrap();
        }
    }
}
