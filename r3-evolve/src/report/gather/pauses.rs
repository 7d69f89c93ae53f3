//! When a search did not go on.

use crate::evolve::view::RunView;
use crate::report::data::Pause;

/// Kinds of what happened.
const OUTAGE: &str = "outage";
const BACK: &str = "back";
const RESUME: &str = "resume";

/// Outages of models, and times in which the run was left, in their order.
pub(super) fn pauses(run: &RunView) -> Vec<Pause> {
    let mut pauses = Vec::new();
    let mut events = run.events.iter().peekable();
    while let Some(event) = events.next() {
        let (seconds, why) = match event.kind.as_str() {
            OUTAGE => {
                let next = events.peek().filter(|next| next.kind == BACK);
                let seconds = next.map(|next| (next.at - event.at).max(0.0));
                (
                    seconds,
                    format!("models could not be asked: {}", event.text),
                )
            }
            RESUME => (None, "the run was left, and went on here".to_owned()),
            _ => continue,
        };
        pauses.push(Pause {
            evaluations: told(run, event.at),
            seconds,
            why,
        });
    }
    pauses
}

/// Evaluations of the slots that were over at a time.
fn told(run: &RunView, at: f64) -> u64 {
    run.slots
        .iter()
        .filter(|slot| slot.told_at.is_some_and(|told| told <= at))
        .filter_map(|slot| slot.closing.as_ref())
        .map(|closing| closing.evaluations)
        .sum()
}
