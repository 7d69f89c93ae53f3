//! One launch with other code: right or not, and how fast.

use r3_archive::Archive;
use r3_archive::model::LaunchRecord;
use serde::{Deserialize, Serialize};

use super::pairs::{self, Pairs, Runs};
use crate::code::Form;
use crate::compare::Tolerances;
use crate::device::{Inexact, Platform};
use crate::error::ReplayError;
use crate::replay::{Replayer, Restored, Substitute};
use crate::verify::{LaunchReport, Outcome, VerifyOptions, verify_launch};

/// How other code came out on a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every byte is as it was recorded.
    Identical,
    /// Not as it was recorded, but every byte is as the original code leaves it on this device.
    AsOriginal,
    /// Every element is within its tolerance.
    Within,
    /// Something is out of tolerance.
    Mismatch,
    /// The code was made for other launches: it did not run.
    Guard,
    /// This kind of device cannot run the launch.
    CannotRun,
    /// It could not be run, or not be compiled.
    NotRun,
}

impl Verdict {
    /// Whether the results are right.
    pub fn is_right(self) -> bool {
        matches!(self, Self::Identical | Self::AsOriginal | Self::Within)
    }

    /// A word or two for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Identical => "ok",
            Self::AsOriginal => "ok, as the original here",
            Self::Within => "ok, within tolerance",
            Self::Mismatch => "MISMATCH",
            Self::Guard => "guard",
            Self::CannotRun => "cannot run here",
            Self::NotRun => "NOT RUN",
        }
    }
}

/// What code uses, as the device that loaded it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread, in bytes.
    pub local: u32,
    /// Static shared memory of a block, in bytes.
    pub shared: u32,
}

/// `CUfunction_attribute` numbers.
const SHARED_SIZE_BYTES: i32 = 1;
const LOCAL_SIZE_BYTES: i32 = 3;
const NUM_REGS: i32 = 4;

/// A launch with one code.
#[derive(Clone, Debug)]
pub struct Run {
    /// Compared with what was recorded.
    pub report: LaunchReport,
    /// Why bits may differ on this device.
    pub inexact: Vec<Inexact>,
    /// What it cost, on a device that counts.
    pub cost: Option<u64>,
    /// What the code uses, on a device that says it.
    pub used: Option<Used>,
}

/// How launches are judged.
#[derive(Clone, Copy, Debug)]
pub struct Judgement<'t> {
    /// Tolerances by kernel and buffer.
    pub tolerances: &'t Tolerances,
    /// Whether nothing is allowed for where the device's results may differ.
    pub strict: bool,
    /// How often each launch runs.
    pub repeat: u32,
}

/// Runs a launch with the kernel's own code.
pub fn original(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    launch: &LaunchRecord,
    judgement: Judgement<'_>,
) -> Run {
    run(archive, replayer, launch, None, judgement, None)
}

/// Runs a launch with other code, which is allowed what the original is.
pub fn substituted(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    launch: &LaunchRecord,
    code: &Substitute,
    judgement: Judgement<'_>,
    original: &Run,
) -> Run {
    let allowed = match original.report.outcome {
        Outcome::CannotRun | Outcome::NotRun => None,
        _ => Some(original.inexact.as_slice()),
    };
    run(archive, replayer, launch, Some(code), judgement, allowed)
}

fn run(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    launch: &LaunchRecord,
    code: Option<&Substitute>,
    judgement: Judgement<'_>,
    allowed: Option<&[Inexact]>,
) -> Run {
    let prepared = prepare(replayer, launch, code);
    let options = VerifyOptions {
        tolerances: judgement.tolerances,
        strict: judgement.strict,
        repeat: judgement.repeat,
        allowed,
        digest: true,
    };
    let mut report = verify_launch(archive, replayer, launch.id, options);
    if let Err(error) = prepared {
        report.outcome = Outcome::NotRun;
        report.error = Some(error);
    }
    let mut run = Run {
        cost: replayer.work().map(|work| work.cost),
        inexact: Vec::new(),
        used: None,
        report,
    };
    if matches!(run.report.outcome, Outcome::CannotRun | Outcome::NotRun) {
        run.cost = None;
        return run;
    }
    if let Ok(restored) = replayer.restore(launch) {
        run.inexact = replayer.inexact(&restored).unwrap_or_default();
        run.used = used(replayer, &restored);
    }
    run
}

/// On the CPU device, variables lie where they were recorded as long as no other code has that place.
fn prepare(
    replayer: &mut Replayer<'_>,
    launch: &LaunchRecord,
    code: Option<&Substitute>,
) -> Result<(), String> {
    let told = |error: crate::device::DeviceError| error.to_string();
    if replayer.device().info().platform == Platform::Cpu {
        replayer.unload().map_err(told)?;
    }
    replayer
        .substitute(launch.kernel, code.cloned())
        .map_err(told)
}

fn used(replayer: &mut Replayer<'_>, restored: &Restored<'_>) -> Option<Used> {
    if !replayer.device().runs_machine_code() {
        return None;
    }
    let mut attribute = |number| {
        let value = replayer.kernel_attribute(restored, number).ok()?;
        u32::try_from(value).ok()
    };
    Some(Used {
        registers: attribute(NUM_REGS)?,
        local: attribute(LOCAL_SIZE_BYTES)?,
        shared: attribute(SHARED_SIZE_BYTES)?,
    })
}

/// The verdict on other code, given what the original did.
pub fn verdict(original: &LaunchReport, other: &LaunchReport) -> Verdict {
    let same = other.left.is_some() && other.left == original.left;
    match other.outcome {
        Outcome::Identical => Verdict::Identical,
        _ if same => Verdict::AsOriginal,
        Outcome::Within => Verdict::Within,
        Outcome::Mismatch | Outcome::Sampled | Outcome::Undecided => Verdict::Mismatch,
        Outcome::CannotRun => Verdict::CannotRun,
        Outcome::NotRun => Verdict::NotRun,
    }
}

/// Times a launch with both codes in turn. `None` on a device that has no times.
pub fn time<'l, 'a: 'l>(
    replayer: &mut Replayer<'a>,
    launch: &'l LaunchRecord,
    code: &Substitute,
    runs: Runs,
) -> Result<Option<Pairs>, ReplayError> {
    replayer.substitute_for(launch, None)?;
    let original = replayer.restore(launch)?;
    replayer.substitute_for(launch, Some(code.clone()))?;
    let other = replayer.restore(launch)?;
    pairs::measure(replayer, &original, &other, runs)
}

/// Code that stands in for a kernel's, of a product: its cubin, else its PTX.
pub fn substitute(
    name: &str,
    product: &r3_codegen::recipe::Product,
    sm: u32,
    machine_code: bool,
) -> Substitute {
    match &product.cubin {
        Some(cubin) if machine_code => Substitute {
            name: name.to_owned(),
            bytes: cubin.bytes.clone(),
            form: Form::Sass(sm),
        },
        _ => Substitute {
            name: name.to_owned(),
            bytes: product.ptx.clone().into_bytes(),
            form: Form::Ptx(sm),
        },
    }
}
