//! `best.r3t`: an archive with one record, the tuned kernel.

use std::path::Path;

use r3_archive::model::{
    ModuleRecord, TunedCode, TunedForm, TunedGrid, TunedGuard, TunedId, TunedKernelRecord,
    TunedLaunch, TunedShape, TunedShared, TunedSource,
};
use r3_archive::{Archive, ArchiveWriter, WriterOptions};
use r3_codegen::recipe::Guard;
use r3_replay::evaluate::candidate::{
    Approximate, CandidateCode, GridRule, LaunchChange, SharedRule,
};
use r3_replay::evaluate::describe::LaunchDescription;
use r3_replay::evaluate::outcome::{LaunchOutcome, Role};
use r3_replay::remix::pairs::Ratio;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use crate::store::{Evaluation, Store, key};
use crate::tune::conclude::Story;
use crate::tune::{ArchiveFile, Artifact, Environment, Ground, Settings, Summary, TuneError};

/// Why a result cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// What comes back is not what was measured.
    #[error(
        "the evaluator's code for the winner has the hash {found}, and what was verified and timed has {measured}: it is not written as a result"
    )]
    OtherCode {
        /// What was measured.
        measured: String,
        /// What came back.
        found: String,
    },
    /// The archive.
    #[error("the archive: {0}")]
    Archive(String),
    /// The file.
    #[error("{0}")]
    File(String),
}

/// What a tuned kernel stands on.
#[derive(Serialize)]
struct Evidence<'a> {
    summary: &'a Summary,
    environment: &'a Environment,
    plan: &'a r3_replay::evaluate::Plan,
    outcome: &'a r3_replay::evaluate::Outcome,
}

/// What is written.
pub(crate) struct Winner<'a> {
    /// As it was judged at length.
    pub evaluation: &'a Evaluation,
    /// Its code.
    pub artifact: &'a Artifact,
    /// What the run found.
    pub summary: &'a Summary,
    /// Its source, in a search over source.
    pub story: Option<&'a Story>,
}

/// Writes the winner. The file gets its name when it is whole.
pub(crate) fn write(
    path: &Path,
    store: &Store,
    ground: &Ground,
    won: &Winner<'_>,
    unix: f64,
) -> Result<(), TuneError> {
    let Winner {
        evaluation: winner,
        artifact,
        summary,
        story,
    } = won;
    let failed = |error: ResultError| TuneError::Result {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let settings: Settings = store.need(key::SETTINGS)?;
    let environment: Environment = store.need(key::ENVIRONMENT)?;
    let mut outcome = winner.outcome.clone();
    if let Some(outcome) = &mut outcome {
        store.with_samples(winner.number, outcome)?;
    }
    let Some(outcome) = outcome else {
        return Err(TuneError::Contradiction(winner.number.0));
    };
    let measured = outcome.code.as_ref().map_or("", |code| code.image.as_str());
    // The recorded code is none of the result's: of it, devices load what they can run, and the evaluator tells the image of
    // the archive.
    let recorded = matches!(winner.candidate.code, CandidateCode::Recorded);
    if !recorded && !measured.is_empty() && measured != artifact.image {
        return Err(failed(ResultError::OtherCode {
            measured: measured.to_owned(),
            found: artifact.image.clone(),
        }));
    }
    let captured = Captured::read(&settings.archive, &ground.kernel.name).map_err(failed)?;
    let now = ArchiveFile::read(&settings.archive)
        .map_err(|error| failed(ResultError::Archive(error.to_string())))?;
    if now.hash != environment.archive_hash {
        return Err(failed(ResultError::Archive(
            "it is not the one that the run began with any more".to_owned(),
        )));
    }
    let ratio = summary.best.as_ref().map(|best| best.ratio);
    let evidence = Evidence {
        summary,
        environment: &environment,
        plan: &winner.plan,
        outcome: &outcome,
    };
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| failed(ResultError::File(error.to_string())))
    };
    let build = &winner.candidate.build;
    let device = &ground.kernel.device;
    let mut tried = winner.candidate.clone();
    if let (Some(_), CandidateCode::Source(source)) = (story, &mut tried.code) {
        // It is in the record by itself.
        source.text.clear();
    }
    let record = |code: Vec<TunedCode>,
                  source: Option<TunedSource>|
     -> Result<TunedKernelRecord, TuneError> {
        Ok(TunedKernelRecord {
            id: TunedId(1),
            kernel: ground.kernel.name.clone(),
            module_hash: captured.module_hash,
            params: captured.params.clone(),
            archive: captured.uuid,
            archive_hash: bytes_of(&environment.archive_hash),
            code,
            launch: launch(&winner.candidate.launch),
            guards: artifact.guards.iter().map(guard).collect(),
            shapes: shapes(&ground.kernel.launches, &outcome.launches),
            ratio: ratio.map_or([1.0; 3], |ratio| [ratio.median, ratio.low, ratio.high]),
            confidence: ratio.map_or(0.0, |ratio| ratio.confidence),
            device: device.name.clone(),
            compute_capability: (
                (device.sm / 10).cast_signed(),
                (device.sm % 10).cast_signed(),
            ),
            driver_version: device.driver,
            approximate: build.approximate != Approximate::default(),
            candidate: json(serde_json::to_string(&tried))?,
            evidence: json(serde_json::to_string(&evidence))?,
            r3_version: env!("CARGO_PKG_VERSION").to_owned(),
            unix_ns: (unix * 1e9) as u64,
            source,
        })
    };
    let unfinished = path.with_extension("r3t.new");
    let _ = std::fs::remove_file(&unfinished);
    let wrong = |error: &dyn std::fmt::Display| failed(ResultError::File(error.to_string()));
    let options = WriterOptions {
        workers: 0,
        ..WriterOptions::default()
    };
    let writer = ArchiveWriter::create(&unfinished, options).map_err(|error| wrong(&error))?;
    let code = code(&writer, artifact).map_err(|error| wrong(&error))?;
    let source = match story {
        Some(story) => {
            let lineage = json(serde_json::to_string(&story.found.lineage))?;
            let given = summary.finals.as_ref().and_then(|finals| finals.given);
            Some(source(&writer, story, lineage, given).map_err(|error| wrong(&error))?)
        }
        None => None,
    };
    writer
        .append(&record(code, source)?)
        .and_then(|()| writer.finish())
        .map_err(|error| wrong(&error))?;
    std::fs::rename(&unfinished, path).map_err(|error| wrong(&error))
}

/// What of the capture goes into the result.
struct Captured {
    uuid: [u8; 16],
    module_hash: [u8; 16],
    params: Vec<r3_archive::model::ParamLayout>,
}

impl Captured {
    fn read(path: &Path, kernel: &str) -> Result<Self, ResultError> {
        let wrong = |error: &dyn std::fmt::Display| ResultError::Archive(error.to_string());
        let archive = Archive::open(path).map_err(|error| wrong(&error))?;
        let record = archive
            .kernels()
            .iter()
            .find(|record| record.name == kernel)
            .ok_or_else(|| wrong(&format!("it has no kernel {kernel}")))?;
        let module: Option<&ModuleRecord> = record.module.and_then(|id| archive.module(id));
        let module_hash = match module {
            Some(module) => {
                let image = archive
                    .read_blob(&module.image)
                    .map_err(|error| wrong(&error))?;
                xxh3_128(&image).to_le_bytes()
            }
            None => [0; 16],
        };
        Ok(Self {
            uuid: archive.uuid(),
            module_hash,
            params: record.params.clone(),
        })
    }
}

fn code(
    writer: &ArchiveWriter,
    artifact: &Artifact,
) -> Result<Vec<TunedCode>, r3_archive::WriteError> {
    let target = artifact
        .ptx
        .as_deref()
        .and_then(target)
        .unwrap_or_default()
        .to_owned();
    let forms = [
        (TunedForm::Cubin, artifact.cubin.as_deref()),
        (TunedForm::Ptx, artifact.ptx.as_deref().map(str::as_bytes)),
        (TunedForm::Llvm, artifact.llvm.as_deref().map(str::as_bytes)),
    ];
    let present = forms
        .into_iter()
        .filter_map(|(form, bytes)| Some((form, bytes?)));
    present
        .map(|(form, bytes)| {
            Ok(TunedCode {
                form,
                name: artifact.name.clone(),
                target: target.clone(),
                code: writer.put_bytes(bytes)?,
            })
        })
        .collect()
}

fn source(
    writer: &ArchiveWriter,
    story: &Story,
    lineage: String,
    given: Option<Ratio>,
) -> Result<TunedSource, r3_archive::WriteError> {
    let name = &story.found.name;
    Ok(TunedSource {
        name: name.clone(),
        text: writer.put_bytes(story.text.as_bytes())?,
        given: writer.put_bytes(story.given.as_bytes())?,
        diff: story.diff(),
        compiler: story.found.compiler.clone(),
        options: story.found.options.clone(),
        lineage,
        given_ratio: given.map(|ratio| [ratio.median, ratio.low, ratio.high]),
    })
}

/// What PTX is for: its `.target`.
fn target(ptx: &str) -> Option<&str> {
    let line = ptx
        .lines()
        .find_map(|line| line.trim().strip_prefix(".target"))?;
    line.split(',').next().map(str::trim)
}

fn launch(change: &LaunchChange) -> TunedLaunch {
    TunedLaunch {
        block: change.block,
        grid: change.grid.map(|rule| match rule {
            GridRule::Cover => TunedGrid::Cover,
            GridRule::Same => TunedGrid::Same,
            GridRule::Blocks(count) => TunedGrid::Blocks(count),
            GridRule::Scale(by, of) => TunedGrid::Scale(by, of),
        }),
        shared: match change.shared {
            SharedRule::Same => TunedShared::Same,
            SharedRule::PerThread => TunedShared::PerThread,
            SharedRule::Bytes(bytes) => TunedShared::Bytes(bytes),
        },
        carveout: change.carveout,
    }
}

fn guard(guard: &Guard) -> TunedGuard {
    match guard {
        Guard::Param {
            index,
            offset,
            bytes,
        } => TunedGuard::Param {
            index: *index,
            offset: *offset,
            bytes: bytes.clone(),
        },
        Guard::Grid(grid) => TunedGuard::Grid(*grid),
        Guard::Block(block) => TunedGuard::Block(*block),
        Guard::NoAlias { index } => TunedGuard::NoAlias { index: *index },
        Guard::Align { index, bytes } => TunedGuard::Align {
            index: *index,
            bytes: *bytes,
        },
    }
}

/// Shapes on which it was right, with the time over their launches.
fn shapes(launches: &[LaunchDescription], outcomes: &[LaunchOutcome]) -> Vec<TunedShape> {
    let mut shapes: Vec<(TunedShape, Vec<f64>)> = Vec::new();
    for launch in launches {
        let of_launch = outcomes.iter().filter(|outcome| {
            outcome.launch == launch.launch
                && outcome.verdict.is_right()
                && outcome.role != Role::Perturbed
        });
        for outcome in of_launch {
            let same = |shape: &TunedShape| {
                shape.grid == launch.grid
                    && shape.block == launch.block
                    && shape.dynamic_shared == launch.dynamic_shared
            };
            let place = match shapes.iter().position(|(shape, _)| same(shape)) {
                Some(place) => place,
                None => {
                    shapes.push((
                        TunedShape {
                            grid: launch.grid,
                            block: launch.block,
                            dynamic_shared: launch.dynamic_shared,
                            tuned: 0,
                            held_out: 0,
                            ratio: 0.0,
                        },
                        Vec::new(),
                    ));
                    shapes.len() - 1
                }
            };
            let Some((shape, ratios)) = shapes.get_mut(place) else {
                continue;
            };
            match outcome.role {
                Role::HeldOut => shape.held_out += 1,
                _ => shape.tuned += 1,
            }
            let slowest = outcome.times.iter().map(|timing| timing.ratio.median);
            ratios.extend(slowest.reduce(f64::max));
        }
    }
    shapes
        .into_iter()
        .map(|(mut shape, mut ratios)| {
            ratios.sort_by(f64::total_cmp);
            shape.ratio = ratios.get(ratios.len() / 2).copied().unwrap_or(0.0);
            shape
        })
        .collect()
}

/// 16 bytes, little endian, of a number in hexadecimal digits.
fn bytes_of(hexadecimal: &str) -> [u8; 16] {
    u128::from_str_radix(hexadecimal, 16)
        .unwrap_or_default()
        .to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_ptx_is_the_first_of_its_directive() {
        assert_eq!(
            target(".version 8.0\n.target sm_90a, debug\n"),
            Some("sm_90a")
        );
        assert_eq!(target("// nothing"), None);
    }

    #[test]
    fn a_hash_in_digits_is_stored_as_bytes_from_the_lowest() {
        let bytes = bytes_of("000000000000000000000000000001ff");
        assert_eq!((bytes[0], bytes[1], bytes[2]), (0xff, 1, 0));
    }
}
