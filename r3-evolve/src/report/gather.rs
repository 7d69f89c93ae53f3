//! A report, from a run.

use std::collections::{BTreeMap, BTreeSet};

use r3_models::chat::Spent;
use r3_replay::remix::pairs::Ratio;
use r3_source::diff;

use super::data::{
    Claim, Curve, Finalist, HeldOut, Island, Launch, Model, Operator, Report, Step, Times, Tried,
    Variant,
};
use super::words;
use crate::evolve::slot::Opening;
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{Answers, RunView, VariantView};
use crate::prompt::Measured;
use crate::result::text::time;
use crate::store::Phase;
use crate::tune::Summary;
use crate::tune::settings::Approximation;
use crate::tune::summary::gain;

/// Configurations of a variant that are listed at most: its best ones.
const MOST_TRIED: usize = 60;

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
        let whole = whole_texts(run, best);
        Self {
            kernel: run.kernel.readable.clone(),
            file: run.program.name.clone(),
            device: run.environment.device.name.clone(),
            counts: counts(run),
            state: state(run),
            claim: claim(run),
            captured: summary.map(|one| time(one.original_ns, &one.unit)),
            source: source(run),
            best: best.map(|number| number.0),
            curve: curve(run),
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
                .map(|one| variant(run, one, whole.contains(&one.number)))
                .collect(),
            operators: operators(run),
            models: models(run),
            shared_prefix: run.shared(),
            verdicts: run
                .counts
                .verdicts
                .iter()
                .map(|(verdict, count)| (verdict.word().to_owned(), *count))
                .collect(),
            dropped: [
                ("text was known", run.counts.duplicates),
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
            environment: environment(run),
            settings: settings(run),
            notes: notes(run),
        }
    }
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
            Phase::Search => "the search is not at its end".to_owned(),
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

fn claim(run: &RunView) -> Claim {
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
                .replace("launchs", "launches")
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
    }
}

/// Variants whose whole text is in a report: elites, the best, finalists, and all that they come of. Of the others the difference
/// to the parent says what they are.
fn whole_texts(run: &RunView, best: Option<VariantNumber>) -> BTreeSet<VariantNumber> {
    let elites = run.islands.iter().flat_map(|island| &island.grid.cells);
    let mut open: Vec<VariantNumber> = elites.map(|cell| cell.number).chain(best).collect();
    open.push(VariantNumber(1));
    let finalists = finals(run).into_iter().filter_map(|one| one.variant);
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

fn variant(run: &RunView, of: &VariantView, whole: bool) -> Variant {
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
        checked: of.checked,
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

fn operators(run: &RunView) -> Vec<Operator> {
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

fn models(run: &RunView) -> Vec<Model> {
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

fn environment(run: &RunView) -> Vec<(String, String)> {
    let environment = &run.environment;
    let device = &environment.device;
    let mut rows = vec![("device", device.name.clone())];
    if !device.counts {
        rows.push(("identity of the device", device.uuid.clone()));
        rows.push(("architecture", format!("sm_{}", device.sm)));
        rows.push(("driver", driver(device.driver)));
    }
    rows.push(("R3", environment.r3.clone()));
    rows.push(("tools", environment.tools.join(", ")));
    rows.push(("archive", run.base.archive.display().to_string()));
    rows.push(("its UUID", environment.archive_uuid.clone()));
    rows.push(("hash of its file", environment.archive_hash.clone()));
    rows.push(("kernel", environment.kernel.clone()));
    let how = &run.program.how;
    let compiler = crate::inner::story::compiler(how.compiler);
    rows.push((
        "compiled by",
        format!("{compiler} {}", how.options.join(" "))
            .trim_end()
            .to_owned(),
    ));
    let launches = &run.launches;
    rows.push((
        "launches",
        format!(
            "{} that decide, {} held out",
            launches.tuned.len(),
            launches.held_out.len()
        ),
    ));
    rows.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn driver(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

fn settings(run: &RunView) -> Vec<(String, String)> {
    let settings = &run.settings;
    let axes: Vec<String> = settings
        .islands
        .grid
        .axes
        .iter()
        .map(ToString::to_string)
        .collect();
    let migration = &settings.islands.migration;
    let approximate = match run.base.approximate {
        Approximation::None => "none",
        Approximation::Division => "division, square root and reciprocal",
        Approximation::Flush => "these, and subnormal numbers become zero",
        Approximation::Functions => "all that -use_fast_math does",
    };
    let tolerances = run.base.tolerances.as_ref();
    [
        ("seed", run.base.seed.to_string()),
        ("islands", settings.islands.count.to_string()),
        ("axes of the map", axes.join(", ")),
        (
            "migration",
            format!(
                "{} elites, {}, every {}",
                migration.count,
                migration.topology.word(),
                migration.schedule
            ),
        ),
        (
            "part of new variants by models",
            words::share(settings.models.share),
        ),
        (
            "tolerance",
            tolerances.map_or_else(
                || "none: every byte".to_owned(),
                |(file, _)| file.display().to_string(),
            ),
        ),
        ("approximate arithmetic", approximate.to_owned()),
        (
            "what device code may do beyond the rules",
            match settings.allow.as_slice() {
                [] => "nothing".to_owned(),
                rules => {
                    let names: Vec<&str> = rules.iter().map(|rule| rule.words().name).collect();
                    names.join(", ")
                }
            },
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn notes(run: &RunView) -> Vec<String> {
    let summary = run.summary.iter().flat_map(|one| one.notes.clone());
    let mut notes: Vec<String> = run
        .program
        .notes
        .iter()
        .cloned()
        .chain(run.launches.notes.clone())
        .chain(summary)
        .collect();
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    notes
}
