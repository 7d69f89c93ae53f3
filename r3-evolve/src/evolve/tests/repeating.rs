//! Rewrites that change nothing are not made again and again, and nothing else changes.

use r3_replay::evaluate::Verdict;

use super::bed::*;
use crate::elites::Seen;
use crate::evolve::slot::{By, Ended, Opening};
use crate::evolve::view::RunView;
use crate::tune::tests::bed::outcome;

/// A compiler to which one of the two loops is the same however it is unrolled, and the other one is not.
fn image(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let kept = lines.iter().enumerate().filter(|(at, line)| {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        !(line.starts_with("#pragma") && next.contains("j < 8"))
    });
    let kept: Vec<&str> = kept.map(|(_, line)| *line).collect();
    kept.join("\n")
}

fn run(variants: u64) -> (RunView, Vec<(String, bool)>) {
    let mut bed = Bed::new(true, 1);
    bed.tune.settings.budget.evaluations = None;
    bed.settings.limits.variants = Some(variants);
    let mut store = bed.create();
    let mut evaluator = bed.evaluator();
    let table = judge(true);
    evaluator.judge = std::rc::Rc::new(move |ask, times| {
        let image = image(text(&ask.candidate).unwrap_or(SOURCE));
        let mut came = table(ask, times);
        if came.verdict != Verdict::Right {
            came = outcome(ask, Verdict::Right, 1.5, 0.0, true);
        }
        // What is evaluated anew has the code that the result is made of.
        if let Some(code) = &mut came.code
            && !ask.plan.again
        {
            code.image = image;
        }
        came
    });
    bed.run(&mut store, &mut evaluator, None, &mut Looker::default())
        .unwrap();
    let view = RunView::of(&store).unwrap();
    let made = view.slots.iter().filter_map(|slot| {
        let (Opening::Propose(proposal), Some(closing)) = (&slot.opening, &slot.closing) else {
            return None;
        };
        let By::Rewrite(name) = &proposal.by else {
            return None;
        };
        assert!(proposal.site.is_some());
        let parent = proposal.parents[0];
        let nothing = closing.ended == Ended::Duplicate(Seen::Code(parent));
        Some((name.clone(), nothing))
    });
    let made = made.collect();
    (view, made)
}

#[test]
fn what_changed_nothing_at_a_place_is_seldom_made_there_again() {
    let (view, made) = run(160);
    let nothing = |rows: &[(String, bool)]| rows.iter().filter(|(_, nothing)| *nothing).count();
    let (first, last) = made.split_at(made.len() / 2);
    assert!(
        nothing(first) > 0,
        "the table has loops that come out alike"
    );
    // One of twelve is made whatever is expected of it.
    assert!(
        nothing(last) * 6 < last.len(),
        "{} of {} and {} of {}",
        nothing(first),
        first.len(),
        nothing(last),
        last.len()
    );
    // The rewrite goes on elsewhere.
    let unrolled = last
        .iter()
        .filter(|(name, nothing)| name == "unroll" && !nothing);
    assert!(unrolled.count() > 0);
    assert!(view.counts.variants >= 160);
}
