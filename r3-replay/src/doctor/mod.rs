//! `doctor`: in what two recordings of a launch differ, and what that means.
//!
//! In flow two launches, of two archives or of one; out flows a [`Report`] with what differs, part by part, what the bytes
//! look like, and what to do. No device is needed: nothing runs.
//!
//! 1. [`pairs`]: which launch of the one archive stands beside which of the other, and which memory beside which. Memory is
//!    found again by how the kernel gets at it, not by its address, which differs from run to run.
//! 2. [`memory`]: what differs in a pair of regions, before and after the launch. Words that point to the same place of paired
//!    regions are the same.
//! 3. [`looks`]: what the words that differ look like: addresses, a clock, a counter, roundings, random numbers, memory that
//!    nobody wrote.
//! 4. [`settings`]: code, shape, settings and arguments.
//! 5. [`advice`]: what follows from all that, for people.
//!
//! # Invariants
//!
//! - **Nothing is guessed that was recorded.** What differs is exact; what it looks like is said to be a look.
//! - **Archives are hostile.** Whatever they say, at most a chunk of each is in memory, and at most `MOST_CHUNKS` that
//!   differ are looked into for each region: the report says when there were more.

pub mod pairs;

pub mod memory;

pub mod looks;

pub mod settings;

pub mod advice;

mod chunks;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use r3_archive::model::{KernelRecord, LaunchId, LaunchRecord};
use r3_archive::{Archive, ReadError};
use serde::Serialize;

use crate::compare::InferredTypes;
use crate::names::readable;
use memory::{Compared, Moment};
use pairs::Regions;
use settings::Setting;

/// Most chunks that differ and are looked into, for each region and moment: 1 GiB.
const MOST_CHUNKS: u64 = 16_384;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// An archive cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An archive has no such launch.
    #[error("{path} has no launch {launch}: `r3-replay ls` lists them")]
    NoLaunch {
        /// The archive.
        path: String,
        /// What was asked for.
        launch: LaunchId,
    },
    /// A launch's kernel is not recorded.
    #[error(
        "{path}: launch {launch} is of a kernel that the archive does not have: `r3-replay fsck` says what is lost"
    )]
    NoKernel {
        /// The archive.
        path: String,
        /// The launch.
        launch: LaunchId,
    },
}

/// One of two launches.
pub struct Side<'a> {
    /// Its archive.
    pub archive: &'a Archive,
    /// With its memory.
    pub launch: LaunchRecord,
    /// Its kernel.
    pub kernel: &'a KernelRecord,
}

impl<'a> Side<'a> {
    /// A launch of an archive.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn new(archive: &'a Archive, launch: LaunchId) -> Result<Self, DoctorError> {
        let path = || archive.path().display().to_string();
        let known = archive.launch_heads().iter().any(|head| head.id == launch);
        if !known {
            return Err(DoctorError::NoLaunch {
                path: path(),
                launch,
            });
        }
        let record = archive.load_launch(launch)?;
        let kernel = archive
            .kernel(record.kernel)
            .ok_or_else(|| DoctorError::NoKernel {
                path: path(),
                launch,
            })?;
        Ok(Self {
            archive,
            launch: record,
            kernel,
        })
    }
}

/// A launch, for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The archive's file.
    pub archive: String,
    /// The launch.
    pub launch: LaunchId,
    /// Its kernel, readable.
    pub kernel: String,
    /// How often the kernel had been launched with this shape.
    pub occurrence: u64,
}

/// Memory that only one of the launches has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alone {
    /// Its names.
    pub name: String,
    /// Whether it is the first launch's.
    pub first: bool,
    /// Its length in bytes.
    pub len: u64,
}

/// In what two launches differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The first.
    pub a: Shown,
    /// The second.
    pub b: Shown,
    /// Code, shape, settings, arguments that differ.
    pub settings: Vec<Setting>,
    /// Memory that differs.
    pub memory: Vec<Compared>,
    /// Memory that one of them has alone.
    pub alone: Vec<Alone>,
    /// Regions that were found in both.
    pub regions: usize,
    /// What follows.
    pub advice: Vec<String>,
}

impl Report {
    /// Whether nothing differs that matters: addresses may.
    pub fn same(&self) -> bool {
        self.memory.is_empty()
            && self.alone.is_empty()
            && self.settings.iter().all(|setting| setting.harmless)
    }

    /// Whether what the launches were given is the same: code, shape, arguments and memory before them.
    pub fn same_inputs(&self) -> bool {
        let before = |compared: &&Compared| compared.moment == Moment::Before;
        self.settings.iter().all(|setting| setting.harmless)
            && self.alone.is_empty()
            && !self.memory.iter().any(|compared| before(&compared))
    }

    /// Whether memory after the launches differs.
    pub fn differs_after(&self) -> bool {
        let mut memory = self.memory.iter();
        memory.any(|compared| compared.moment == Moment::After)
    }
}

/// Compares two launches.
///
/// # Errors
/// When memory cannot be read.
pub fn examine(a: &Side<'_>, b: &Side<'_>) -> Result<Report, DoctorError> {
    let regions = Regions::new(a, b)?;
    let types = types(a);
    let mut compared: Vec<Compared> = Vec::new();
    for pair in regions.pairs() {
        for moment in [Moment::Before, Moment::After] {
            let found = memory::compare(a, b, &regions, pair, moment, &types)?;
            compared.extend(found);
        }
    }
    compared.sort_by_key(|found| found.moment);
    let mut report = Report {
        a: shown(a),
        b: shown(b),
        settings: settings::compare(a, b, &regions),
        memory: compared,
        alone: regions.alone(a, b),
        regions: regions.pairs().len(),
        advice: Vec::new(),
    };
    report.advice = advice::advice(&report, a, b);
    Ok(report)
}

fn shown(side: &Side<'_>) -> Shown {
    Shown {
        archive: side.archive.path().display().to_string(),
        launch: side.launch.id,
        kernel: readable(&side.kernel.name),
        occurrence: side.launch.occurrence,
    }
}

fn types(side: &Side<'_>) -> InferredTypes {
    let module = side.kernel.module.and_then(|id| side.archive.module(id));
    let image = module.and_then(|module| side.archive.read_blob(&module.image).ok());
    image.map_or_else(InferredTypes::default, |bytes| {
        InferredTypes::of(&r3_image::Image::from_vec(bytes), side.kernel)
    })
}

/// Names of regions in a report: shown once.
fn joined<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut seen = BTreeSet::new();
    let names: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
    names.join(", ")
}
