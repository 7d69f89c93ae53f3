//! Which steps on the way to a variant mattered, by what was measured in the search.

use std::collections::BTreeSet;

use r3_replay::evaluate::Verdict;
use r3_replay::remix::pairs::Ratio;

use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{RunView, VariantView};
use crate::report::data::{Seen, Stage};
use crate::report::words;
use crate::store::Phase;

/// The steps on the way from the source as given to a variant, oldest first, each against its first parent.
///
/// Nothing is measured for it: a step has the times of the two variants that it lies between. So it says what came with a step where
/// it was made, and not what the step would bring alone, or what the variant would lose without it.
#[must_use]
pub fn way(run: &RunView, to: VariantNumber) -> Vec<Stage> {
    let mut open = vec![to];
    let mut all = BTreeSet::new();
    while let Some(number) = open.pop() {
        if let Some(one) = run.variant(number)
            && all.insert(number)
        {
            open.extend(&one.lineage.parents);
        }
    }
    all.into_iter()
        .filter_map(|number| stage(run, run.variant(number)?))
        .collect()
}

fn stage(run: &RunView, of: &VariantView) -> Option<Stage> {
    let (first, others) = of.lineage.parents.split_first()?;
    let parent = run.variant(*first)?;
    let noise = [parent.noise, of.noise].into_iter().flatten();
    let noise = noise.fold(0.0, f64::max);
    Some(Stage {
        variant: of.number.0,
        from: parent.number.0,
        with: others.iter().map(|other| other.0).collect(),
        operator: words::operator(of.lineage.operator).to_owned(),
        by: of.lineage.by.clone(),
        what: of.lineage.what.clone(),
        best: seen(parent.ratio, of.ratio, noise),
        plain: seen(plain(parent), plain(of), noise),
    })
}

/// Its time as the text is: where it was measured several times, the one that stands on most pairs.
fn plain(of: &VariantView) -> Option<Ratio> {
    of.evaluations
        .iter()
        .filter(|row| row.phase == Phase::Search && row.knobs.is_empty())
        .filter(|row| row.verdict.is_some_and(Verdict::is_right))
        .filter_map(|row| Some((row.pairs, row.ratio?)))
        .reduce(|most, one| if one.0 > most.0 { one } else { most })
        .map(|(_, ratio)| ratio)
}

/// What was seen of a step.
fn seen(before: Option<Ratio>, after: Option<Ratio>, noise: f64) -> Seen {
    let seen = match (&before, &after) {
        (Some(before), Some(after)) => {
            let beyond = (after.median / before.median - 1.0).abs() > noise;
            if beyond && after.high < before.low {
                words::GAINED
            } else if beyond && after.low > before.high {
                words::WORSE
            } else {
                words::NO_DIFFERENCE
            }
        }
        _ => words::NOT_MEASURED,
    };
    Seen {
        before: before.map(Into::into),
        after: after.map(Into::into),
        seen: seen.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, median: f64, high: f64) -> Option<Ratio> {
        Some(Ratio {
            median,
            low,
            high,
            confidence: 0.95,
        })
    }

    #[test]
    fn a_step_gained_only_where_intervals_are_apart_and_the_noise_is_exceeded() {
        let before = ratio(0.89, 0.90, 0.91);
        let said = |after, noise| seen(before, after, noise).seen;
        assert_eq!(said(ratio(0.79, 0.80, 0.81), 0.01), words::GAINED);
        assert_eq!(said(ratio(0.99, 1.00, 1.01), 0.01), words::WORSE);
        // They touch, or one is within the other.
        assert_eq!(said(ratio(0.87, 0.88, 0.89), 0.0), words::NO_DIFFERENCE);
        assert_eq!(said(ratio(0.80, 0.85, 0.95), 0.0), words::NO_DIFFERENCE);
        // Apart, but nearer than what the same code differs by.
        assert_eq!(said(ratio(0.87, 0.875, 0.88), 0.05), words::NO_DIFFERENCE);
        assert_eq!(said(None, 0.0), words::NOT_MEASURED);
        assert_eq!(seen(None, before, 0.0).seen, words::NOT_MEASURED);
    }

    #[test]
    fn what_is_counted_differs_when_it_is_not_the_same() {
        let counted = |value| ratio(value, value, value);
        let said = |before, after| seen(counted(before), counted(after), 0.0).seen;
        assert_eq!(said(0.9, 0.8999), words::GAINED);
        assert_eq!(said(0.9, 0.9), words::NO_DIFFERENCE);
        assert_eq!(said(0.9, 0.9001), words::WORSE);
    }
}
