//! Recorded launches of a kernel, replayed with code that is to be attached.

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

/// Replays those of `launches` that are of a kernel with PTX in place of its code. Stops at the first that does not
/// verify.
pub fn check(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    matched: &Match,
    (file, ptx): (&str, &str),
    launches: &[&LaunchRecord],
    options: VerifyOptions<'_>,
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
        let report = verify_launch(archive, replayer, launch.id, options);
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
