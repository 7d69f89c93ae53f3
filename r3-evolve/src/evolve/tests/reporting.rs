//! Reports on a search over source: what they say is what the run has.

use std::collections::BTreeSet;

use super::bed::Bed;
use crate::evolve::slot::{Ended, Opening};
use crate::evolve::view::RunView;
use crate::report::{self, Report};
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
