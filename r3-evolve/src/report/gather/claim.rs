//! What is claimed of a run, what it stands on, and what is not claimed.

use super::{best, counts, source};
use crate::evolve::view::RunView;
use crate::report::data::{Claim, Times};
use crate::report::words;
use crate::tune::Summary;
use crate::tune::summary::gain;

pub(super) fn claim(run: &RunView) -> Claim {
    let mut not_said = Vec::new();
    let mut said = Vec::new();
    let headline = match &run.summary {
        None => {
            not_said.push(
                "Nothing yet: what is claimed is measured again when the search is over."
                    .to_owned(),
            );
            match best(run).and_then(|number| run.variant(number)?.ratio) {
                Some(ratio) => format!("So far: {} than the captured binary", gain(ratio.median)),
                None => "So far nothing is right".to_owned(),
            }
        }
        Some(summary) => {
            let headline = headline(summary);
            if summary.claim {
                said.extend(stands_on(run, summary));
            } else {
                not_said.push(format!("{}.", sentence(&summary.reason)));
            }
            headline
        }
    };
    if counts(run) {
        not_said.push(
            "Times. This device counts instructions by weight: the figures tell what code does, not how long a GPU takes for it."
                .to_owned(),
        );
    }
    not_said.push(
        "What the map, the curve and the tables of operators and models show: these are figures of the search, in which the best of many is partly the luckiest."
            .to_owned(),
    );
    if let Some(source) = source(run).filter(|source| (source.median - 1.0).abs() > 0.01) {
        not_said.push(format!(
            "That all of it comes from the search: the unchanged source, compiled anew, has {} of the captured binary's time.",
            words::times(&source)
        ));
    }
    not_said.push(
        "Anything of other inputs than the recorded ones, and of other GPUs, drivers or compilers than those named below."
            .to_owned(),
    );
    if let Some((file, _)) = &run.base.tolerances {
        not_said.push(format!(
            "That results are the same bytes: they are within the tolerances of {}.",
            file.display()
        ));
    }
    Claim {
        claimed: run.summary.as_ref().is_some_and(|one| one.claim),
        headline,
        said,
        not_said,
    }
}

fn headline(summary: &Summary) -> String {
    match &summary.best {
        Some(best) if summary.claim => format!(
            "{} than the captured binary, {}",
            gain(best.ratio.median),
            words::speed(best.ratio.median)
        ),
        _ => "No gain is claimed".to_owned(),
    }
}

fn stands_on(run: &RunView, summary: &Summary) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(best) = &summary.best {
        let times = words::times(&Times::from(best.ratio));
        let interval = if counts(run) {
            String::new()
        } else {
            format!(", at {:.1} % confidence", 100.0 * best.ratio.confidence)
        };
        said.push(format!(
            "Variant {} has {times} of the captured binary's time{interval}.",
            best.variant
                .map_or_else(|| "of no source".to_owned(), |number| number.0.to_string())
        ));
        if let Some(source) = source(run) {
            said.push(format!(
                "Against the unchanged source, compiled by {}, that is {:.3}: {}.",
                summary
                    .source
                    .as_ref()
                    .map_or("the same compiler", |source| source.compiler.as_str()),
                best.ratio.median / source.median.max(1e-9),
                gain(best.ratio.median / source.median.max(1e-9))
            ));
        }
    }
    said.push(format!("It was {}.", summary.reason));
    if run.base.fine.perturbed > 0 {
        said.push(format!(
            "It was right on {} with perturbed inputs, on which the captured binary is the oracle.",
            words::count(u64::from(run.base.fine.perturbed), "launch")
        ));
    }
    said
}

/// With a capital at the beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
