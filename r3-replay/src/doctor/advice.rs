//! What follows from what differs, for people.

use super::looks::Kind;
use super::memory::{Compared, Moment};
use super::settings::{Part, Setting};
use super::{Report, Side};
use crate::names::printable;

/// What follows from memory that differs before a launch, by its look.
const BEFORE: &[(Kind, &str)] = &[
    (
        Kind::Pointers,
        "points into memory that does not stand beside each other, or is not recorded with the launch: if the kernel follows \
         it, capture with `--snapshot all`; if the order of allocations varies, it is no difference that matters",
    ),
    (
        Kind::Clock,
        "holds a time: what the application computes from it differs in every run. Give it a fixed one, or expect that \
         results which depend on it differ",
    ),
    (
        Kind::Rounding,
        "comes from an earlier kernel whose sums are added in another order each time (atomics): its results are not the same \
         twice, and tolerances are needed (`r3-replay noise` measures them)",
    ),
    (
        Kind::Counter,
        "looks like a count that goes on from launch to launch: compare the same launch of both runs, or start both from \
         the same state",
    ),
    (
        Kind::Unwritten,
        "was written in one run and not in the other, or never: memory holds then what lay there before. Clear it \
         (cudaMemset) where the kernel reads it; `compute-sanitizer --tool initcheck` says who does",
    ),
    (
        Kind::Random,
        "looks like random numbers or the state of a generator: give the generator a fixed seed",
    ),
    (
        Kind::Values,
        "differs in earnest: an earlier launch or copy made it. Compare all launches of both captures \
         (`r3-replay doctor A B`): the first one that was given the same and left something else is where it begins",
    ),
    (
        Kind::Length,
        "has another length: the runs worked on other data",
    ),
];

/// What follows from memory that differs after a launch that was given the same.
const AFTER: &[(Kind, &str)] = &[
    (
        Kind::Rounding,
        "differs by roundings: the kernel adds in another order each time (atomics, or blocks that race for work). Verify with \
         tolerances: `r3-replay noise` suggests them",
    ),
    (
        Kind::Clock,
        "holds a time that the kernel reads itself (clock64, %globaltimer): leave the buffer out of the comparison by a \
         tolerance",
    ),
    (
        Kind::Pointers,
        "holds addresses that the kernel made: of memory from the device's heap, or of memory that is not recorded",
    ),
    (
        Kind::Unwritten,
        "was written in one run alone: the kernel depends on something that is not recorded, or on which block comes first",
    ),
];

/// When no look says more.
const AFTER_ANY: &str = "differs although everything recorded was the same. Either the kernel is not the same twice (a race: \
    `r3-replay verify --device cpu --racecheck` looks for them), or it reads what is not recorded";

/// What a launch may read that captures do not have.
const UNTRACKED: &str = "What captures may lack: memory behind pointers that are computed or packed (capture with \
    `--snapshot all`), textures and surfaces, the device's heap, memory of other processes and devices";

/// Sentences, the most important first.
pub(super) fn advice(report: &Report, a: &Side<'_>, b: &Side<'_>) -> Vec<String> {
    let mut advice = Vec::new();
    let serious = |part: Part| {
        let settings = report.settings.iter();
        settings.filter(move |setting| setting.part == part && !setting.harmless)
    };
    let names =
        |part: Part| -> Vec<&str> { serious(part).map(|setting| setting.name.as_str()).collect() };
    if serious(Part::Code).next().is_some() {
        advice.push(
            "The code is not the same: build the application once, and capture both runs with that"
                .to_owned(),
        );
    }
    let shape: Vec<&str> = [names(Part::Shape), names(Part::Settings)].concat();
    if !shape.is_empty() {
        advice.push(format!(
            "These are two different launches: they differ in {}. `r3-replay ls` shows which ones are alike; --launch and \
             --other choose them",
            shape.join(", ")
        ));
    }
    arguments(serious(Part::Argument), &mut advice);
    for alone in &report.alone {
        advice.push(format!(
            "{} ({} bytes) is recorded with the {} launch alone: what it is reached by differs, or the scope of the capture \
             (--snapshot)",
            alone.name,
            alone.len,
            if alone.first { "first" } else { "second" }
        ));
    }
    memory(report, &mut advice);
    let notes: Vec<&String> = a.launch.notes.iter().chain(&b.launch.notes).collect();
    for note in notes.iter().take(3) {
        advice.push(format!("The capture left a note: {}", printable(note)));
    }
    let unexplained = report.same_inputs() && report.differs_after();
    if unexplained && notes.is_empty() {
        advice.push(UNTRACKED.to_owned());
    }
    advice
}

fn arguments<'r>(settings: impl Iterator<Item = &'r Setting>, advice: &mut Vec<String>) {
    let (untracked, others): (Vec<_>, Vec<_>) = settings.partition(|setting| setting.untracked);
    let names = |settings: &[&Setting]| {
        let names: Vec<&str> = settings
            .iter()
            .map(|setting| setting.name.as_str())
            .collect();
        names.join(", ")
    };
    if !untracked.is_empty() {
        advice.push(format!(
            "{} may be an address, and no recorded memory is there: this is the memory to look for. Host memory must be pinned or \
             registered to be recorded; handles of textures and of other objects are none",
            names(&untracked)
        ));
    }
    if !others.is_empty() {
        advice.push(format!(
            "The launches were given other arguments: {}. If they are meant to be the same launch, something before them differs: \
             compare all launches of both captures",
            names(&others)
        ));
    }
}

fn memory(report: &Report, advice: &mut Vec<String>) {
    let at = |moment: Moment| {
        report
            .memory
            .iter()
            .filter(move |found| found.moment == moment)
    };
    let after: Vec<&Compared> = at(Moment::After).collect();
    let inputs = report.same_inputs();
    let mut dead = Vec::new();
    for found in at(Moment::Before) {
        let still = after.iter().any(|after| after.name == found.name);
        let others = after.iter().any(|after| !after.inherited);
        if !others && (!still || report.settings.iter().all(|setting| setting.harmless)) {
            dead.push(found.name.as_str());
            continue;
        }
        advice.push(format!(
            "{} {}",
            found.name,
            sentence(BEFORE, found.look.kind, "")
        ));
    }
    if !dead.is_empty() {
        advice.push(format!(
            "{} before the launch changes nothing that the launch writes: the kernel does not read what differs, or overwrites it \
             (padding, scratch memory, results of an earlier launch)",
            dead.join(", ")
        ));
    }
    for found in after.iter().filter(|found| !found.inherited) {
        let text = match inputs {
            true => sentence(AFTER, found.look.kind, AFTER_ANY),
            false => "differs since what the launch was given differs",
        };
        advice.push(format!("{} after the launch {text}", found.name));
    }
}

fn sentence(table: &[(Kind, &'static str)], kind: Kind, otherwise: &'static str) -> &'static str {
    let found = table.iter().find(|(known, _)| *known == kind);
    found.map_or(otherwise, |(_, text)| text)
}
