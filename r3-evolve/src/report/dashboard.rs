//! The lines of somebody who watches a search.

use super::data::Times;
use super::words;
use crate::evolve::progress::Dashboard;
use crate::store::Phase;
use crate::tune::summary::gain;

/// How a search is doing, in lines of at most `width` characters.
#[must_use]
pub fn dashboard(of: &Dashboard, width: usize) -> Vec<String> {
    let lines = [progress(of), population(of), load(of), best(of)];
    lines
        .into_iter()
        .filter(|line| !line.is_empty())
        .map(|line| cut(&line, width))
        .collect()
}

fn progress(of: &Dashboard) -> String {
    let word = match of.phase {
        Phase::Search => "search",
        Phase::Final => "measuring the best",
        Phase::Ablation => "setting knobs back",
        Phase::Done => "done",
    };
    if let Some(why) = &of.paused {
        return format!("{word}: waiting, {why}");
    }
    let of_all = |all: Option<u64>| all.map_or_else(String::new, |all| format!(" of {all}"));
    let left = of.left.map_or_else(String::new, |left| {
        format!(", {} left", words::duration(left))
    });
    format!(
        "{word}: {}{} variants at {:.0}/min, {}{} evaluations at {:.0}/min{left}",
        of.counts.variants,
        of_all(of.of_variants),
        of.variants_per_minute,
        of.counts.evaluations,
        of_all(of.of_evaluations),
        of.evaluations_per_minute
    )
}

/// What came of variants, and what is in the grids.
fn population(of: &Dashboard) -> String {
    let mut parts: Vec<String> = of
        .counts
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{count} {}", verdict.word()))
        .collect();
    if of.counts.duplicates > 0 {
        parts.push(format!("{} known", of.counts.duplicates));
    }
    if of.counts.unusable > 0 {
        parts.push(format!("{} of no use", of.counts.unusable));
    }
    let cells: Vec<String> = of
        .islands
        .iter()
        .map(|(filled, size)| format!("{filled}/{size}"))
        .collect();
    if !cells.is_empty() {
        parts.push(format!("cells {}", cells.join(" ")));
    }
    parts.join(", ")
}

fn load(of: &Dashboard) -> String {
    if of.phase != Phase::Search {
        return String::new();
    }
    let mut parts = vec![
        format!("compilers {}", words::share(of.load.compilers)),
        format!("device {}", words::share(of.load.devices)),
    ];
    if let Some(models) = of.load.models {
        parts.push(format!("models {}", words::share(models)));
    }
    parts.push(format!("search {}", words::share(of.load.search)));
    if let Some(spent) = &of.spent {
        let usage = &spent.usage;
        let cached = usage.cached as f64 / usage.prompt.max(1) as f64;
        parts.push(format!(
            "{}, {} requests, {} tokens in ({} cached), {} out",
            words::dollars(spent.cost),
            spent.requests,
            usage.prompt,
            words::share(cached),
            usage.completion
        ));
    }
    parts.push(format!(
        "{} open, {} asking, {} under way",
        of.open, of.asking, of.under_way
    ));
    parts.join(", ")
}

fn best(of: &Dashboard) -> String {
    let source = of.source.map_or_else(String::new, |source| {
        format!("; source as given: {:.3}", source.median)
    });
    match &of.best {
        None => format!("best: none yet{source}"),
        Some(best) => format!(
            "best: variant {}, {}, {}: {}{source}",
            best.variant.0,
            words::times(&Times::from(best.ratio)),
            gain(best.ratio.median),
            if best.what.is_empty() {
                "the source as given"
            } else {
                &best.what
            }
        ),
    }
}

/// `text` with at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use r3_models::chat::{Spent, Usage};
    use r3_replay::evaluate::Verdict;
    use r3_replay::remix::pairs::Ratio;

    use super::*;
    use crate::evolve::population::Counts;
    use crate::evolve::progress::{BestSoFar, Load};
    use crate::evolve::variant::VariantNumber;

    fn example() -> Dashboard {
        let ratio = |median: f64| Ratio {
            median,
            low: median - 0.01,
            high: median + 0.01,
            confidence: 0.95,
        };
        Dashboard {
            phase: Phase::Search,
            counts: Counts {
                slots: 60,
                evaluations: 240,
                variants: 50,
                verdicts: BTreeMap::from([
                    (Verdict::Right, 41),
                    (Verdict::Wrong, 6),
                    (Verdict::Cheat, 3),
                ]),
                duplicates: 7,
                unusable: 2,
                ..Counts::default()
            },
            open: 8,
            asking: 3,
            under_way: 11,
            of_variants: None,
            of_evaluations: Some(2000),
            islands: vec![(12, 100), (9, 81)],
            source: Some(ratio(1.02)),
            best: Some(BestSoFar {
                variant: VariantNumber(37),
                ratio: ratio(0.712),
                what: "a/sqrt(b) becomes a*rsqrt(b)".to_owned(),
                steps: 3,
            }),
            variants_per_minute: 31.4,
            evaluations_per_minute: 150.0,
            left: Some(187.0),
            load: Load {
                compilers: 0.93,
                devices: 0.41,
                models: Some(0.5),
                search: 0.04,
            },
            spent: Some(Spent {
                requests: 70,
                usage: Usage {
                    prompt: 200_000,
                    cached: 150_000,
                    completion: 30_000,
                    estimated: false,
                },
                cost: 0.42,
                ..Spent::default()
            }),
            paused: None,
        }
    }

    #[test]
    fn the_lines_say_how_it_is_going_and_fit() {
        insta::assert_snapshot!(dashboard(&example(), 200).join("\n"));
        for width in [1, 20, 79] {
            let lines = dashboard(&example(), width);
            assert!(lines.iter().all(|line| line.chars().count() <= width));
        }
    }

    #[test]
    fn a_search_that_waits_says_why() {
        let mut waiting = example();
        waiting.paused = Some("no model answers".to_owned());
        waiting.best = None;
        let lines = dashboard(&waiting, 200);
        assert_eq!(lines[0], "search: waiting, no model answers");
        assert!(lines[3].starts_with("best: none yet"), "{lines:?}");
    }
}
