//! What a search over source leaves: finals with both baselines, the result with its source, and what is made of it.

use std::collections::BTreeMap;

use r3_archive::Archive;
use r3_replay::evaluate::Verdict;

use super::bed::{Bed, SOURCE};
use crate::evolve::variant::{Operator, VariantNumber};
use crate::evolve::view::{RunView, VariantView};
use crate::result::export::{BestSource, json, source, t4};
use crate::result::{text, variant};
use crate::store::{CandidateNumber, Phase, Reason, Store};
use crate::tune::summary::Ancestor;
use crate::tune::{BEST, Summary};

fn run(counts: bool, evaluations: u64) -> (Bed, Store, Summary) {
    let mut bed = Bed::new(counts, evaluations);
    bed.tune.settings.fine.top = 8;
    bed.tune.settings.fine.ablation = true;
    let mut store = bed.create();
    let summary = bed.go(&mut store).unwrap();
    (bed, store, summary)
}

fn of_candidates(store: &Store) -> BTreeMap<CandidateNumber, VariantNumber> {
    let rows = store.evaluations(Some(Phase::Search)).unwrap();
    rows.iter()
        .filter_map(|row| Some((row.candidate_number, row.variant?)))
        .collect()
}

#[test]
fn finals_have_the_captured_binary_and_the_source_as_given_as_baselines() {
    let (_bed, store, summary) = run(false, 120);
    let finals = summary.finals.as_ref().unwrap();
    assert!((finals.control.unwrap().median - 1.0).abs() < 0.02);
    let given = finals.given.unwrap().median;
    let rows = store.evaluations(Some(Phase::Final)).unwrap();
    let given_row = rows.iter().find(|row| row.reason == Reason::Given).unwrap();
    assert_eq!(super::bed::text(&given_row.candidate), Some(SOURCE));
    assert!((given - super::bed::ratio(&given_row.candidate)).abs() < 0.02);
    assert!(summary.claim, "{}", summary.reason);
    let shown = text::summary(&summary);
    assert!(shown.contains("as given"), "{shown}");
}

#[test]
fn no_variant_fills_the_finals_alone() {
    let (_bed, store, summary) = run(false, 120);
    let variants = of_candidates(&store);
    let mut counts: BTreeMap<VariantNumber, usize> = BTreeMap::new();
    for finalist in &summary.finals.as_ref().unwrap().finalists {
        *counts.entry(variants[&finalist.number]).or_default() += 1;
    }
    assert!(counts.len() > 1, "{counts:?}");
    assert!(counts.values().all(|count| *count <= 3), "{counts:?}");
}

#[test]
fn the_result_has_the_source_what_was_given_and_how_one_came_of_the_other() {
    let (_bed, store, summary) = run(true, 120);
    let best = summary.best.as_ref().unwrap();
    let found = summary.source.as_ref().unwrap();
    assert_eq!(best.variant, Some(found.variant));
    let row = store.variant(found.variant).unwrap().unwrap();
    assert_ne!(row.text, SOURCE);

    let archive = Archive::open(store.folder().join(BEST)).unwrap();
    let record = &archive.tuned()[0];
    let kept = record.source.as_ref().unwrap();
    let read = |blob| String::from_utf8(archive.read_blob(blob).unwrap()).unwrap();
    assert_eq!(read(&kept.text), row.text);
    assert_eq!(read(&kept.given), SOURCE);
    assert_eq!(kept.compiler, "nvrtc");
    assert!(kept.diff.contains("@@"), "{}", kept.diff);
    let lineage: Vec<Ancestor> = serde_json::from_str(&kept.lineage).unwrap();
    assert_eq!(lineage[0].lineage.operator, Operator::Original);
    assert_eq!(lineage.last().unwrap().variant, found.variant);
    for step in &lineage[1..] {
        let parents = &step.lineage.parents;
        assert!(!parents.is_empty() && parents.iter().all(|parent| *parent < step.variant));
    }
    // The text is there once.
    assert!(!record.candidate.contains("__global__"));
    let shown = text::tuned(&archive, record);
    assert!(
        shown.contains("compiled by nvrtc") && shown.contains("\n-"),
        "{shown}"
    );
}

#[test]
fn the_exported_source_says_how_to_compile_it_and_is_the_best_text() {
    let (_bed, store, summary) = run(true, 120);
    let found = summary.source.as_ref().unwrap();
    let text = store.variant(found.variant).unwrap().unwrap().text;
    let number = CandidateNumber(summary.best.as_ref().unwrap().number);
    let rows = store.evaluations(Some(Phase::Search)).unwrap();
    let row = rows
        .iter()
        .find(|row| row.candidate_number == number)
        .unwrap();
    let file = source(&BestSource {
        summary: &summary,
        found,
        text: &text,
        candidate: &row.candidate,
        block: [256, 1, 1],
        sm: 90,
    });
    let (comment, body) = file.split_once("\n\n").unwrap();
    assert_eq!(body, text);
    assert!(
        comment.lines().all(|line| line.starts_with("//")),
        "{comment}"
    );
    assert!(comment.contains("nvcc -arch=sm_90"), "{comment}");
    assert!(!comment.contains("// r3:"), "{comment}");
}

#[test]
fn t4_has_the_variant_among_the_parameters_of_every_entry() {
    let (_bed, store, _) = run(true, 80);
    let toml = store.text(crate::store::key::SPACE).unwrap().unwrap();
    let space = crate::space::Space::from_toml(&toml).unwrap();
    let exported = serde_json::to_value(t4(&store, &space).unwrap()).unwrap();
    assert_eq!(exported["metadata"]["strategy"], "evolve");
    let results = exported["results"].as_array().unwrap();
    let keys = |entry: &serde_json::Value| -> Vec<String> {
        let all = entry["configuration"].as_object().unwrap();
        all.keys().cloned().collect()
    };
    assert!(results.iter().all(|entry| keys(entry) == keys(&results[0])));
    let variants: std::collections::BTreeSet<i64> = results
        .iter()
        .filter_map(|entry| entry["configuration"]["variant"].as_i64())
        .collect();
    assert!(variants.len() > 5 && !variants.contains(&0), "{variants:?}");
}

#[test]
fn json_has_every_text_once_and_names_it_at_every_evaluation() {
    let (_bed, store, _) = run(true, 80);
    let all = json(&store).unwrap();
    assert!(all.variants.iter().any(|one| one.text == SOURCE));
    let numbers: Vec<_> = all.variants.iter().map(|one| one.variant).collect();
    let of_variants = all.evaluations.iter().filter_map(|one| one.variant);
    let known: Vec<_> = of_variants.collect();
    assert!(!known.is_empty());
    assert!(known.iter().all(|number| numbers.contains(number)));
}

#[test]
fn a_variant_is_shown_with_why_it_is_wrong_where_it_comes_from_and_its_text() {
    let (_bed, store, _) = run(true, 120);
    let view = RunView::of(&store).unwrap();
    let wrong = view
        .variants
        .iter()
        .find(|one| one.verdict == Some(Verdict::Cheat))
        .unwrap();
    let shown = variant::variant(&view, wrong);
    assert!(shown.contains("why "), "{shown}");
    assert!(shown.contains("may not do"), "{shown}");
    assert!(shown.contains("lineage\n"), "{shown}");
    assert!(shown.ends_with(&wrong.text), "{shown}");
    let best = variant::best(&view, 3);
    assert_eq!(best.lines().count(), 3, "{best}");
    // One that failed its check has a time, and is not among the best.
    let right = |one: &&VariantView| one.verdict == Some(Verdict::Right);
    let least = view
        .variants
        .iter()
        .filter(right)
        .filter_map(|one| one.ratio);
    let least = least.map(|found| found.median).reduce(f64::min).unwrap();
    assert!(best.starts_with(&format!("  {least:.4}")), "{best}");
}

#[test]
fn what_each_knob_of_the_best_variant_was_good_for_is_measured_with_its_source() {
    let (_bed, store, summary) = run(true, 200);
    let best = summary.best.as_ref().unwrap();
    assert!(
        !best.knobs.is_empty(),
        "the table has better ones with knobs"
    );
    assert!(!summary.mattered.is_empty());
    let winner = store.variant(best.variant.unwrap()).unwrap().unwrap().text;
    for row in store.evaluations(Some(Phase::Ablation)).unwrap() {
        assert_eq!(super::bed::text(&row.candidate), Some(winner.as_str()));
    }
}
