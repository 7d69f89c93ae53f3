//! What results depend on, and how the search was set.

use std::collections::BTreeSet;

use crate::evolve::view::RunView;
use crate::report::words;
use crate::tune::settings::Approximation;

pub(super) fn environment(run: &RunView) -> Vec<(String, String)> {
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

pub(super) fn settings(run: &RunView) -> Vec<(String, String)> {
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

pub(super) fn notes(run: &RunView) -> Vec<String> {
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
