//! What operators, rewrites and models brought, and what they took.

use std::collections::{BTreeMap, BTreeSet};

use r3_models::chat::Spent;

use crate::evolve::slot::Opening;
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{Answers, RunView};
use crate::report::data::{Model, Operator, Unanswered};
use crate::report::words;

/// What a slot's proposal was: its operator and who made it.
fn proposals(run: &RunView) -> BTreeMap<i64, (&'static str, &str)> {
    run.slots
        .iter()
        .filter_map(|slot| match &slot.opening {
            Opening::Propose(proposal) => {
                let operator = words::operator(proposal.operator);
                Some((slot.slot, (operator, proposal.by.name())))
            }
            _ => None,
        })
        .collect()
}

/// What the best of the run has of a slot's proposal.
#[derive(Clone, Copy, Default)]
struct Led {
    /// How much it gained, as a logarithm: by the text, and by configurations that were found for it later.
    gain: f64,
    /// Times that it took the place of another.
    times: u64,
}

/// What the best has of each slot. A variant is the best when it was checked, which is another slot than the one that made it.
fn led(run: &RunView) -> BTreeMap<i64, Led> {
    let mut led: BTreeMap<i64, Led> = BTreeMap::new();
    for pair in run.timeline.windows(2) {
        if let [before, after] = pair
            && let Some(variant) = run.variant(after.variant)
        {
            let of = led.entry(variant.slot).or_default();
            of.gain += (before.ratio.median / after.ratio.median).ln().max(0.0);
            of.times += u64::from(before.variant != after.variant);
        }
    }
    led
}

/// All of some slots.
fn sum(led: &BTreeMap<i64, Led>, is: &dyn Fn(&i64) -> bool) -> Led {
    let of = led.iter().filter(|(slot, _)| is(slot));
    of.fold(Led::default(), |all, (_, one)| Led {
        gain: all.gain + one.gain,
        times: all.times + one.times,
    })
}

pub(super) fn operators(run: &RunView) -> Vec<Operator> {
    let (proposals, led) = (proposals(run), led(run));
    let cost = |of: &dyn Fn(&i64) -> bool| -> f64 {
        let requests = run.requests.iter().filter(|one| of(&one.slot));
        requests
            .filter_map(|one| Some(one.spent.as_ref()?.cost))
            .sum()
    };
    let row = |name: &str, of: &str, answers: &Answers, is: &dyn Fn(&i64) -> bool| {
        let led = sum(&led, is);
        Operator {
            name: name.to_owned(),
            of: of.to_owned(),
            proposals: answers.proposals,
            right: answers.right,
            entered: answers.entered,
            best: led.times,
            duplicates: answers.duplicates,
            gain: led.gain,
            evaluations: answers.evaluations,
            cost: cost(is),
        }
    };
    let mut rows = Vec::new();
    // No proposal made it: the inner search found a better configuration for it.
    let given = run.variant(VariantNumber(1)).map(|one| one.slot);
    if let Some(led) = given.and_then(|slot| led.get(&slot)) {
        rows.push(Operator {
            name: "source as given".to_owned(),
            best: led.times,
            gain: led.gain,
            ..Operator::default()
        });
    }
    for (operator, answers) in &run.operators {
        let name = words::operator(*operator);
        let is = |slot: &i64| proposals.get(slot).is_some_and(|one| one.0 == name);
        rows.push(row(name, "", answers, &is));
        if *operator == crate::evolve::variant::Operator::Rewrite {
            for (rewrite, answers) in &run.rewrites {
                let is = |slot: &i64| {
                    let one = proposals.get(slot);
                    one.is_some_and(|one| *one == (name, rewrite.as_str()))
                };
                rows.push(row(rewrite, name, answers, &is));
            }
        }
    }
    rows
}

pub(super) fn models(run: &RunView) -> Vec<Model> {
    let (proposals, led) = (proposals(run), led(run));
    let names: BTreeSet<&str> = run
        .models
        .models
        .keys()
        .chain(run.answers.keys())
        .map(String::as_str)
        .collect();
    names
        .into_iter()
        .map(|name| {
            let nothing = (Spent::default(), Answers::default());
            let spent = run.models.models.get(name).unwrap_or(&nothing.0);
            let answers = run.answers.get(name).unwrap_or(&nothing.1);
            let asked = || run.requests.iter().filter(|one| one.model == name);
            let led = sum(&led, &|slot| {
                let one = proposals.get(slot);
                one.is_some_and(|one| one.0 != "rewrite" && one.1 == name)
            });
            Model {
                name: name.to_owned(),
                answers: asked().filter(|one| one.finish.is_some()).count() as u64,
                failures: asked().filter(|one| one.failure.is_some()).count() as u64,
                unusable: answers.unusable,
                right: answers.right,
                best: led.times,
                gain: led.gain,
                prompt: spent.usage.prompt,
                cached: spent.usage.cached,
                completion: spent.usage.completion,
                estimated: spent.usage.estimated,
                cost: spent.cost,
                seconds: spent.seconds,
            }
        })
        .collect()
}

/// What was sent and has no answer, by model.
pub(super) fn unanswered(run: &RunView) -> Vec<Unanswered> {
    let lost = run.unanswered.iter().filter(|(_, lost)| lost.requests > 0);
    lost.map(|(model, lost)| Unanswered {
        model: model.clone(),
        requests: lost.requests,
        prompt: lost.prompt,
        completion: lost.completion,
        cost: lost.cost,
    })
    .collect()
}
