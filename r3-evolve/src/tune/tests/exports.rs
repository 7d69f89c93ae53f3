//! A run in the forms of other tools.

use serde_json::Value as Json;

use super::bed::*;
use crate::result::export::{json, t4};
use crate::result::text;
use crate::store::Store;
use crate::strategy::Kind;
use crate::tune::Summary;

fn run(counts: bool) -> (Bed, Store, Summary) {
    let bed = Bed::new(counts, Kind::Grid, 1000);
    let mut store = bed.create();
    let summary = bed
        .run(&mut store, &mut bed.evaluator(), &mut Watcher::default())
        .unwrap();
    (bed, store, summary)
}

#[test]
fn t4_is_what_its_schema_asks_for_and_says_failures_as_they_are() {
    let (bed, store, summary) = run(false);
    let exported = serde_json::to_value(t4(&store, &bed.space).unwrap()).unwrap();
    assert_eq!(exported["schema_version"], "1.0.0");
    let results = exported["results"].as_array().unwrap();
    assert_eq!(results.len() as u64, summary.evaluations);
    let mut kinds = std::collections::BTreeMap::<&str, u64>::new();
    for entry in results {
        // The schema's own list.
        for required in ["configuration", "times", "invalidity", "correctness"] {
            assert!(!entry[required].is_null(), "{required} of {entry}");
        }
        let kind = entry["invalidity"].as_str().unwrap();
        assert!(
            [
                "timeout",
                "compile",
                "runtime",
                "correctness",
                "constraints",
                "correct"
            ]
            .contains(&kind),
            "{kind}"
        );
        *kinds.entry(kind).or_default() += 1;
        // Correctness is no constant: 1 exactly where results were compared and right.
        assert_eq!(
            entry["correctness"].as_f64().unwrap() == 1.0,
            kind == "correct"
        );
        assert!(
            entry["configuration"]
                .as_object()
                .unwrap()
                .values()
                .all(|value| !value.is_array())
        );
        assert_eq!(entry["configuration"].as_object().unwrap().len(), 4);
        assert!(entry["times"]["compilation_time"].is_number());
        assert_eq!(
            entry["times"]["runtimes"].as_array().unwrap().is_empty(),
            kind != "correct"
        );
    }
    let right = summary
        .verdicts
        .iter()
        .find(|(word, _)| word == "right")
        .unwrap()
        .1;
    assert_eq!(kinds["correct"], right);
    assert_eq!(kinds.len(), 6, "{kinds:?}");
    let first: Vec<&Json> = results.iter().take(2).collect();
    insta::assert_json_snapshot!(first);
}

#[test]
fn a_device_that_counts_has_no_runtimes_to_export() {
    let (bed, store, _) = run(true);
    let exported = t4(&store, &bed.space).unwrap();
    assert!(
        exported
            .results
            .iter()
            .all(|entry| entry.times.runtimes.is_empty())
    );
    let counted = |entry: &crate::result::export::T4Entry| {
        entry.measurements.iter().any(|one| one.name == "cost")
    };
    assert!(exported.results.iter().any(counted));
}

#[test]
fn a_summary_reads_as_people_read() {
    let (_bed, store, summary) = run(false);
    insta::assert_snapshot!(text::summary(&summary));
    let rows = store.evaluations(None).unwrap();
    let winner = summary.best.unwrap().number;
    let mut rows: Vec<_> = rows
        .into_iter()
        .filter(|row| row.candidate_number.0 == winner)
        .collect();
    rows.truncate(2);
    insta::assert_snapshot!(text::candidate(&rows[0].candidate.clone(), &[], &rows));
}

#[test]
fn everything_of_a_run_is_in_its_json() {
    let (_bed, store, summary) = run(true);
    let all = serde_json::to_value(json(&store).unwrap()).unwrap();
    assert_eq!(all["format"], 1);
    assert_eq!(all["phase"], "done");
    assert_eq!(all["summary"]["claim"], summary.claim);
    let evaluations = all["evaluations"].as_array().unwrap();
    let samples: usize = evaluations
        .iter()
        .filter_map(|row| row["outcome"]["launches"].as_array())
        .flatten()
        .filter_map(|launch| launch["times"].as_array())
        .flatten()
        .filter_map(|timing| timing["samples"].as_array())
        .map(Vec::len)
        .sum();
    assert_eq!(samples as u64, store.count_samples().unwrap());
}

#[test]
fn a_result_says_how_it_is_used_and_when() {
    let (_bed, store, _) = run(true);
    let path = store.folder().join(crate::tune::BEST);
    let archive = r3_archive::Archive::open(path).unwrap();
    let shown = text::tuned(&archive, &archive.tuned()[0]);
    insta::assert_snapshot!(shown.replace(env!("CARGO_PKG_VERSION"), "(this version)"));
    let report = r3_archive::ops::check(&archive).unwrap();
    assert!(report.is_sound(), "{report}");
}
