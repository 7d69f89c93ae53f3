//! A report, from a run.

mod claim;
mod credit;
mod pauses;
mod setting;
mod variants;
mod way;

use r3_replay::remix::pairs::Ratio;

pub use way::way;

use super::data::{Curve, Finalist, HeldOut, Island, Report, Step, Times};
use super::words;
use crate::evolve::slot::Ended;
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{RunView, VariantView};
use crate::result::text::time;
use crate::store::Phase;

impl From<Ratio> for Times {
    fn from(of: Ratio) -> Self {
        Self {
            median: of.median,
            low: of.low,
            high: of.high,
        }
    }
}

impl Report {
    /// Of a run.
    #[must_use]
    pub fn of(run: &RunView) -> Self {
        let summary = run.summary.as_ref();
        let best = best(run);
        let whole = variants::whole_texts(run, best);
        Self {
            kernel: run.kernel.readable.clone(),
            file: run.program.name.clone(),
            device: run.environment.device.name.clone(),
            counts: counts(run),
            state: state(run),
            claim: claim::claim(run),
            captured: summary.map(|one| time(one.original_ns, &one.unit)),
            source: source(run),
            best: best.map(|number| number.0),
            curve: curve(run),
            way: best.map_or_else(Vec::new, |best| way(run, best)),
            open: open(run),
            islands: run
                .islands
                .iter()
                .map(|island| Island {
                    occupancy: island.occupancy.clone(),
                    grid: island.grid.clone(),
                    mix: island
                        .operators
                        .iter()
                        .map(|(operator, share)| (words::operator(*operator).to_owned(), *share))
                        .collect(),
                })
                .collect(),
            variants: run
                .variants
                .iter()
                .map(|one| variants::variant(run, one, whole.contains(&one.number)))
                .collect(),
            operators: credit::operators(run),
            models: credit::models(run),
            unanswered: credit::unanswered(run),
            shared_prefix: run.shared(),
            verdicts: run
                .counts
                .verdicts
                .iter()
                .map(|(verdict, count)| (verdict.word().to_owned(), *count))
                .collect(),
            dropped: [
                ("text was known", known_texts(run)),
                ("answer was of no use", run.counts.unusable),
                ("no answer came", run.counts.unanswered),
            ]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(why, count)| (why.to_owned(), count))
            .collect(),
            finals: finals(run),
            held_out: summary.map_or_else(Vec::new, |one| {
                let launches = one.held_out.iter();
                launches
                    .map(|launch| HeldOut {
                        launch: launch.launch.to_string(),
                        verdict: launch.verdict.word().to_owned(),
                        ratio: launch.ratio,
                    })
                    .collect()
            }),
            load: load(run),
            environment: setting::environment(run),
            settings: setting::settings(run),
            notes: setting::notes(run),
        }
    }
}

/// Proposals whose text was known. What only compiles to code that was known was evaluated, and has a verdict.
fn known_texts(run: &RunView) -> u64 {
    let ended = run.slots.iter().filter_map(|slot| slot.closing.as_ref());
    let known = ended.filter(|closing| {
        matches!(closing.ended, Ended::Duplicate(_)) && closing.variant.is_none()
    });
    known.count() as u64
}

fn counts(run: &RunView) -> bool {
    run.environment.device.counts
}

/// The variant that the run ends with, or that is best so far.
fn best(run: &RunView) -> Option<VariantNumber> {
    let found = run.summary.as_ref().and_then(|one| one.best.as_ref());
    found.and_then(|found| found.variant).or(run.best)
}

/// The source as given: as it was measured at length, else as it was measured first.
fn source(run: &RunView) -> Option<Times> {
    let at_length = run
        .summary
        .as_ref()
        .and_then(|one| one.finals.as_ref()?.given);
    at_length.or(run.source).map(Times::from)
}

fn state(run: &RunView) -> String {
    use crate::tune::End;
    let Some(summary) = &run.summary else {
        return match run.phase {
            Phase::Search => format!(
                "{} and {} so far; the search is not at its end",
                words::count(run.counts.variants, "variant"),
                words::count(run.counts.evaluations, "evaluation")
            ),
            Phase::Final | Phase::Ablation => {
                "the best ones are being measured at length".to_owned()
            }
            Phase::Done => "the run is at its end, without a result".to_owned(),
        };
    };
    let why = match summary.end {
        End::Time => "its time was over",
        End::Evaluations => "it had its evaluations",
        End::Variants => "it had its variants",
        End::Cost => "models had cost what they may",
        End::Stagnation => "nothing better was found for long",
        End::Exhausted => "there was nothing new to be tried",
        End::Stopped => "somebody stopped it",
    };
    format!(
        "{} and {} in {}; the search ended since {why}",
        words::count(run.counts.variants, "variant"),
        words::count(run.counts.evaluations, "evaluation"),
        words::duration(run.elapsed)
    )
}

fn curve(run: &RunView) -> Curve {
    Curve {
        steps: run
            .timeline
            .iter()
            .map(|step| Step {
                evaluations: step.evaluations,
                seconds: step.seconds,
                variant: step.variant.0,
                times: step.ratio.into(),
            })
            .collect(),
        evaluations: run.counts.evaluations,
        variants: run.counts.variants,
        seconds: run.elapsed,
        pauses: pauses::pauses(run),
    }
}

/// What is under way, or was when the run was left: what, and how many.
fn open(run: &RunView) -> Vec<(String, u64)> {
    let count = |what: &str, many: usize| (what.to_owned(), many as u64);
    let slots = run.slots.iter().filter(|slot| slot.closing.is_none());
    let rows = run.variants.iter().flat_map(|one| &one.evaluations);
    let requests = run.requests.iter();
    [
        count("slot", slots.count()),
        count(
            "evaluation",
            rows.filter(|row| row.verdict.is_none()).count(),
        ),
        count(
            "question to a model",
            requests
                .filter(|one| one.finish.is_none() && one.failure.is_none())
                .count(),
        ),
    ]
    .into_iter()
    .filter(|(_, many)| *many > 0)
    .collect()
}

fn finals(run: &RunView) -> Vec<Finalist> {
    let Some(finals) = run.summary.as_ref().and_then(|one| one.finals.as_ref()) else {
        return Vec::new();
    };
    let variant_of = |candidate: i64| {
        let has = |one: &&VariantView| one.evaluations.iter().any(|row| row.candidate == candidate);
        run.variants.iter().find(has).map(|one| one.number.0)
    };
    finals
        .finalists
        .iter()
        .map(|one| Finalist {
            variant: variant_of(one.number.0),
            candidate: one.number.0,
            verdict: one.verdict.word().to_owned(),
            times: one.ratio.map(Times::from),
            refused: one.refused.clone(),
        })
        .collect()
}

fn load(run: &RunView) -> Vec<(String, f64)> {
    let load = &run.load;
    let mut rows = vec![
        ("compilers".to_owned(), load.compilers),
        ("devices".to_owned(), load.devices),
        ("the search itself".to_owned(), load.search),
    ];
    rows.extend(load.models.map(|part| ("models".to_owned(), part)));
    rows
}
