//! Recorded launches of a kernel, replayed with code that is to be attached.

use std::collections::VecDeque;

use r3_archive::Archive;
use r3_archive::model::{AttachedKernel, LaunchId, LaunchRecord};

use super::matching::Match;
use super::names;
use crate::code::Form;
use crate::device::DeviceError;
use crate::replay::{Replayer, Substitute};
use crate::verify::{LaunchReport, Outcome, VerifyOptions, verify_launch};

/// What became of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every launch left the recorded memory, or memory within tolerance.
    Accepted,
    /// Some launch did not.
    Different,
    /// Some launch could not be run with this code.
    Failed,
    /// This kind of device cannot run it.
    CannotRun,
    /// No launch of it was recorded, or selected.
    NoLaunch,
}

/// A kernel and its launches with the new code.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What became of it.
    pub verdict: Verdict,
    /// The launches, up to the first that did not verify.
    pub launches: Vec<LaunchReport>,
}

impl Checked {
    /// What the archive will say of it.
    pub fn entry(&self, matched: &Match) -> AttachedKernel {
        let ended = |outcome| {
            let launches = self.launches.iter();
            launches
                .filter(move |launch| launch.outcome == outcome)
                .map(|launch| launch.launch)
        };
        let within: Vec<LaunchId> = ended(Outcome::Within).collect();
        let mut verified: Vec<LaunchId> = ended(Outcome::Identical).collect();
        verified.extend(&within);
        verified.sort_unstable();
        AttachedKernel {
            kernel: matched.kernel,
            name: matched.name.clone(),
            verified,
            within,
        }
    }
}

/// Reports in the order in which they are made. A launch can leave the GPU useless for this process: another one then goes
/// on, and knows the reports so far.
pub struct Progress<'p> {
    known: VecDeque<LaunchReport>,
    done: Vec<LaunchReport>,
    start_over: &'p mut dyn FnMut(&[LaunchReport]),
}

impl<'p> Progress<'p> {
    /// With the reports of an earlier process. `start_over` is given those so far and returns only when another process
    /// cannot go on; what is left is then reported as not run.
    pub fn new(known: Vec<LaunchReport>, start_over: &'p mut dyn FnMut(&[LaunchReport])) -> Self {
        Self {
            known: known.into(),
            done: Vec::new(),
            start_over,
        }
    }

    fn verify(
        &mut self,
        archive: &Archive,
        replayer: &mut Replayer<'_>,
        id: LaunchId,
        options: VerifyOptions<'_>,
    ) -> LaunchReport {
        let report = match self.known.pop_front() {
            Some(known) => known,
            None => {
                if replayer.lost().is_some() {
                    (self.start_over)(&self.done);
                }
                verify_launch(archive, replayer, id, options)
            }
        };
        self.done.push(report.clone());
        report
    }
}

/// Replays those of `launches` that are of a kernel with PTX in place of its code. Stops at the first that does not
/// verify.
pub fn check(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    matched: &Match,
    (file, ptx): (&str, &str),
    launches: &[&LaunchRecord],
    options: VerifyOptions<'_>,
    progress: &mut Progress<'_>,
) -> Result<Checked, DeviceError> {
    let kernel = matched.kernel;
    let captured = archive.kernel(kernel).map(|kernel| kernel.name.clone());
    let renames: Vec<_> = captured
        .filter(|captured| *captured != matched.name)
        .map(|captured| (matched.name.clone(), captured))
        .into_iter()
        .collect();
    let code = Substitute {
        name: file.to_owned(),
        bytes: names::renamed(ptx, &renames).into_bytes(),
        form: Form::Ptx(target(ptx)),
    };
    replayer.substitute(kernel, Some(code))?;
    let mut checked = Checked {
        verdict: Verdict::NoLaunch,
        launches: Vec::new(),
    };
    for launch in launches.iter().filter(|launch| launch.kernel == kernel) {
        let report = progress.verify(archive, replayer, launch.id, options);
        checked.verdict = match report.outcome {
            Outcome::Identical | Outcome::Within => Verdict::Accepted,
            Outcome::Mismatch | Outcome::Sampled | Outcome::Undecided => Verdict::Different,
            Outcome::NotRun => Verdict::Failed,
            Outcome::CannotRun => Verdict::CannotRun,
        };
        checked.launches.push(report);
        if checked.verdict != Verdict::Accepted {
            break;
        }
    }
    // After a fault the context refuses everything; what is to be said was said above.
    match replayer.substitute(kernel, None) {
        Err(error) if replayer.lost().is_none() => Err(error),
        _ => Ok(checked),
    }
}

/// Architecture of PTX: 90 for `.target sm_90a`.
pub fn target(ptx: &str) -> u32 {
    let image = r3_image::Image::parse(ptx.as_bytes());
    image.entries().first().map_or(0, |entry| entry.sm)
}

#[cfg(test)]
mod tests {
    use r3_archive::model::{AllocationKind, KernelId};

    use super::*;
    use crate::compare::Tolerances;
    use crate::replay::ReplayOptions;
    use crate::testing::{TestArchive, TestDevice, TestRegion};

    const A: u64 = 0x7f00_0000_0000;

    fn archive() -> Archive {
        let mut archive = TestArchive::new();
        archive.allocation(1, A, 8, AllocationKind::Device);
        let (before, after) = (7u64.to_le_bytes().to_vec(), 8u64.to_le_bytes().to_vec());
        archive.launch(&[TestRegion::memory(1, A, before, after)]);
        archive.open()
    }

    /// Checks two files, and gives the reports with which it started over.
    fn two_files(
        mut device: TestDevice,
        known: Vec<LaunchReport>,
    ) -> (Vec<Verdict>, Vec<Vec<LaunchReport>>) {
        let archive = archive();
        let mut replayer = Replayer::new(&archive, &mut device, ReplayOptions::default());
        let launches: Vec<&LaunchRecord> = archive.launch_heads().iter().collect();
        replayer
            .reserve(launches.iter().map(|launch| launch.id))
            .unwrap();
        let mut started = Vec::new();
        let mut start_over = |reports: &[LaunchReport]| started.push(reports.to_vec());
        let mut progress = Progress::new(known, &mut start_over);
        let matched = Match {
            kernel: KernelId(1),
            name: "kernel".to_owned(),
        };
        let tolerances = Tolerances::exact();
        let options = VerifyOptions::exactly(&tolerances);
        let verdicts = ["first.ptx", "second.ptx"].map(|file| {
            let code = (file, ".version 8.0\n.target sm_80\n");
            let checked = check(
                &archive,
                &mut replayer,
                &matched,
                code,
                &launches,
                options,
                &mut progress,
            );
            checked.unwrap().verdict
        });
        (verdicts.to_vec(), started)
    }

    #[test]
    fn after_code_that_breaks_the_context_another_process_goes_on_with_what_is_left() {
        let broken =
            TestDevice::new().with_kernel("kernel", |memory, _| memory.load(16).map(|_| ()));
        let (verdicts, started) = two_files(broken, Vec::new());
        // Here nobody goes on.
        assert_eq!(verdicts, [Verdict::Failed, Verdict::Failed]);
        let [reports] = started.as_slice() else {
            panic!("{started:?}");
        };
        assert_eq!(reports.len(), 1);

        let right = TestDevice::new().with_kernel("kernel", |memory, params| {
            let at = u64::from_le_bytes(params[..8].try_into().unwrap());
            let value = memory.load(at)?;
            memory.store(at, value + 1)
        });
        let (verdicts, started) = two_files(right, reports.clone());
        assert_eq!(verdicts, [Verdict::Failed, Verdict::Accepted]);
        assert!(started.is_empty());
    }
}
