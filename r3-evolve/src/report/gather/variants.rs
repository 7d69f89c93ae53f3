//! Variants, with what was measured of them.

use std::collections::BTreeSet;

use r3_source::diff;

use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{RunView, VariantView};
use crate::prompt::Measured;
use crate::report::data::{Launch, Times, Tried, Variant};
use crate::report::words;

/// Configurations of a variant that are listed at most: its best ones.
const MOST_TRIED: usize = 60;

/// Variants whose whole text is in a report: elites, the best, finalists, and all that they come of, and what has no parent. Of the
/// others the difference to the parent says what they are.
pub(super) fn whole_texts(run: &RunView, best: Option<VariantNumber>) -> BTreeSet<VariantNumber> {
    let elites = run.islands.iter().flat_map(|island| &island.grid.cells);
    let mut open: Vec<VariantNumber> = elites.map(|cell| cell.number).chain(best).collect();
    let orphans = run.variants.iter().filter(|one| {
        let parent = one.lineage.parents.first();
        parent.is_none_or(|parent| run.variant(*parent).is_none())
    });
    open.extend(orphans.map(|one| one.number));
    let finalists = super::finals(run).into_iter().filter_map(|one| one.variant);
    open.extend(finalists.map(VariantNumber));
    let mut whole = BTreeSet::new();
    while let Some(number) = open.pop() {
        if whole.insert(number)
            && let Some(variant) = run.variant(number)
        {
            open.extend(&variant.lineage.parents);
        }
    }
    whole
}

pub(super) fn variant(run: &RunView, of: &VariantView, whole: bool) -> Variant {
    let parent = of
        .lineage
        .parents
        .first()
        .and_then(|parent| run.variant(*parent));
    let names = |number: VariantNumber| format!("variant {}", number.0);
    let outcome = of.outcome.as_ref();
    let code = outcome.and_then(|outcome| outcome.code.as_ref());
    let elite = run
        .islands
        .iter()
        .flat_map(|island| &island.grid.cells)
        .any(|cell| cell.number == of.number);
    Variant {
        number: of.number.0,
        island: of.lineage.island.0,
        operator: words::operator(of.lineage.operator).to_owned(),
        by: of.lineage.by.clone(),
        what: of.lineage.what.clone(),
        parents: of.lineage.parents.iter().map(|one| one.0).collect(),
        verdict: match (of.verdict, of.equal) {
            (_, Some(_)) => "known".to_owned(),
            (Some(verdict), None) => verdict.word().to_owned(),
            (None, None) => "under way".to_owned(),
        },
        reason: match of.equal {
            Some(seen) => Some(seen.words()),
            None => outcome.and_then(words::wrong).or_else(|| of.reason.clone()),
        },
        // A claim is made of nothing else, and its variant may be checked in the finals only.
        checked: of.checked || run.claimed() == Some(of.number),
        elite,
        times: of.ratio.map(Times::from),
        tokens: of.described.tokens,
        distance: of.described.distance,
        text: if whole {
            of.text.clone()
        } else {
            String::new()
        },
        diff: parent.map_or_else(String::new, |parent| {
            let (before, after) = (names(parent.number), names(of.number));
            diff::unified(&parent.text, &of.text, (&before, &after))
        }),
        configuration: of.knobs.clone(),
        code: code
            .and_then(|code| code.behaviour.as_ref())
            .map_or_else(Vec::new, words::behaviour),
        limits: outcome
            .filter(|outcome| outcome.verdict.is_right())
            .map_or_else(Vec::new, |outcome| {
                Measured::of(outcome, &run.kernel, None, None).limits
            }),
        launches: outcome.map_or_else(Vec::new, launches),
        tried: tried(of),
    }
}

fn launches(outcome: &r3_replay::evaluate::Outcome) -> Vec<Launch> {
    let mut rows = Vec::new();
    for launch in &outcome.launches {
        let row = Launch {
            launch: launch.launch.to_string(),
            role: words::role(launch.role).to_owned(),
            verdict: launch.verdict.word().to_owned(),
            ..Launch::default()
        };
        if launch.times.is_empty() {
            rows.push(row);
            continue;
        }
        rows.extend(launch.times.iter().map(|timing| Launch {
            took: Some(words::took(timing)),
            times: Some(timing.ratio.into()),
            ..row.clone()
        }));
    }
    rows
}

fn tried(of: &VariantView) -> Vec<Tried> {
    let mut rows: Vec<Tried> = of
        .evaluations
        .iter()
        .map(|row| Tried {
            number: row.number,
            why: row.reason.word().replace('_', " "),
            configuration: row.knobs.clone(),
            verdict: row.verdict.map(|verdict| verdict.word().to_owned()),
            reason: row.why.clone(),
            times: row.ratio.map(Times::from),
            pairs: row.pairs.unwrap_or(0),
        })
        .collect();
    if rows.len() > MOST_TRIED {
        let time = |row: &Tried| row.times.map_or(f64::INFINITY, |times| times.median);
        rows.sort_by(|a, b| time(a).total_cmp(&time(b)).then(a.number.cmp(&b.number)));
        rows.truncate(MOST_TRIED);
        rows.sort_by_key(|row| row.number);
    }
    rows
}
