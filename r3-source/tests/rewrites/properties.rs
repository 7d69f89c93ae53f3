//! What holds for every rewrite of every sample.

use std::ops::Range;

use proptest::prelude::*;
use r3_source::directive;
use r3_source::rewrite::{self, RewriteError, Rewritten, Scene, Site};
use r3_source::syntax::Unit;

use crate::samples::{self, Sample};

/// The text outside some spans.
fn outside(text: &str, spans: &[Range<usize>]) -> String {
    let mut out = String::new();
    let mut from = 0;
    for span in spans {
        if span.start > from {
            out.push_str(&text[from..span.start]);
        }
        out.push('\u{1}');
        from = from.max(span.end);
    }
    out.push_str(&text[from..]);
    out
}

/// Calls `visit` with all sites of a text.
fn with_sites<T>(sample: &Sample, text: &str, visit: impl FnOnce(&Scene<'_>, Vec<Site>) -> T) -> T {
    let unit = Unit::parse(text).unwrap();
    let kernel = unit.kernel(sample.kernel).unwrap();
    let spans = samples::spans(&unit, &kernel);
    let scene = Scene {
        unit: &unit,
        kernel: &kernel,
        spans: &spans,
        facts: &sample.facts,
    };
    let sites = rewrite::all_sites(&scene);
    visit(&scene, sites)
}

fn check(sample: &Sample, scene: &Scene<'_>, site: &Site) -> Rewritten {
    let at = format!("{} {}: {site:?}", sample.program(), sample.kernel);
    let done = rewrite::apply(scene, site).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_ne!(done.text, scene.unit.text(), "{at}");
    let unit = Unit::parse(&done.text).unwrap();
    assert!(unit.errors() <= scene.unit.errors(), "{at}");
    let kernel = unit.kernel(sample.kernel).unwrap();
    let spans = samples::spans(&unit, &kernel);
    assert_eq!(
        outside(&done.text, &spans),
        outside(scene.unit.text(), scene.spans),
        "{at}"
    );
    let said = directive::read(&done.text).unwrap_or_else(|error| panic!("{at}: {error}"));
    if done.directive.is_some() {
        assert_eq!(said, done.directive, "{at}");
    } else {
        assert_eq!(said, directive::read(scene.unit.text()).unwrap(), "{at}");
    }
    done
}

#[test]
fn every_rewrite_of_every_sample_parses_and_changes_its_region_only() {
    let mut count = 0;
    for sample in samples::all() {
        with_sites(&sample, &sample.text, |scene, sites| {
            assert!(!sites.is_empty(), "{}", sample.program());
            for site in &sites {
                check(&sample, scene, site);
                count += 1;
            }
        });
    }
    assert!(count > 300, "{count}");
}

#[test]
fn every_operator_but_those_for_rare_forms_applies_to_a_sample() {
    let mut missing: Vec<&str> = rewrite::all()
        .iter()
        .map(|operator| operator.name())
        .collect();
    for sample in samples::all() {
        with_sites(&sample, &sample.text, |_, sites| {
            missing.retain(|name| !sites.iter().any(|site| site.operator == *name));
        });
    }
    insta::assert_debug_snapshot!(missing);
}

#[test]
fn without_a_tolerance_nothing_inexact_is_offered_or_done() {
    for mut sample in samples::all() {
        let site = with_sites(&sample, &sample.text, |_, sites| {
            sites
                .into_iter()
                .find(|site| !rewrite::operator(&site.operator).unwrap().exact())
        });
        sample.facts.tolerant = false;
        with_sites(&sample, &sample.text, |scene, sites| {
            for site in sites {
                assert!(rewrite::operator(&site.operator).unwrap().exact());
            }
            if let Some(site) = site {
                assert!(matches!(
                    rewrite::apply(scene, &site),
                    Err(RewriteError::NoOperator(_))
                ));
            }
        });
    }
}

#[test]
fn what_may_not_be_changed_is_not() {
    let sample = samples::all()
        .into_iter()
        .find(|sample| sample.kernel == "step")
        .unwrap();
    let unit = Unit::parse(&sample.text).unwrap();
    let kernel = unit.kernel("step").unwrap();
    // The kernel alone: the root is in a helper.
    let spans = [kernel.span.clone()];
    let scene = Scene {
        unit: &unit,
        kernel: &kernel,
        spans: &spans,
        facts: &sample.facts,
    };
    let sites = rewrite::all_sites(&scene);
    assert!(sites.iter().all(|site| site.operator != "rsqrt"));
    assert!(sites.iter().any(|site| site.operator == "unroll"));
    for site in &sites {
        let done = rewrite::apply(&scene, site).unwrap();
        assert!(
            done.text.starts_with(&sample.text[..kernel.span.start]),
            "{site:?}"
        );
        assert!(
            done.text.ends_with(&sample.text[kernel.span.end..]),
            "{site:?}"
        );
    }
}

#[test]
fn a_site_of_another_text_is_refused_with_what_to_do() {
    let sample = samples::all()
        .into_iter()
        .find(|sample| sample.kernel == "dslash")
        .unwrap();
    let site = Site {
        operator: "rsqrt".to_owned(),
        at: 3..5,
        choice: String::new(),
        what: String::new(),
    };
    with_sites(&sample, &sample.text, |scene, _| {
        let error = rewrite::apply(scene, &site).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rsqrt does not apply at bytes 3 to 5 of this text: ask for its sites anew"
        );
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rewrites_can_follow_each_other(which in 0usize..64, choices in prop::collection::vec(any::<prop::sample::Index>(), 1..7)) {
        let all = samples::all();
        let sample = &all[which % all.len()];
        let mut text = sample.text.clone();
        for choice in choices {
            let next = with_sites(sample, &text, |scene, sites| {
                (!sites.is_empty()).then(|| check(sample, scene, choice.get(&sites)).text)
            });
            match next {
                Some(next) => text = next,
                None => break,
            }
        }
    }

    #[test]
    fn a_damaged_program_gives_no_panic(which in 0usize..64, cut in any::<prop::sample::Index>(), length in 0usize..40) {
        let all = samples::all();
        let sample = &all[which % all.len()];
        let from = cut.index(sample.text.len());
        let to = (from + length).min(sample.text.len());
        let Some(text) = sample.text.get(..from).zip(sample.text.get(to..)).map(|(a, b)| format!("{a}{b}")) else {
            return Ok(());
        };
        let Ok(unit) = Unit::parse(&text) else { return Ok(()) };
        let Ok(kernel) = unit.kernel(sample.kernel) else { return Ok(()) };
        let spans = samples::spans(&unit, &kernel);
        let scene = Scene { unit: &unit, kernel: &kernel, spans: &spans, facts: &sample.facts };
        for site in rewrite::all_sites(&scene) {
            let _ = rewrite::apply(&scene, &site);
        }
    }
}
