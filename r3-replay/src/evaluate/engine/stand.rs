//! A candidate and the original side by side on launches that are ready: run, timed, judged.

use std::rc::Rc;
use std::time::{Duration, Instant};

use r3_archive::model::LaunchId;

use super::gate::Table;
use super::keys::Keys;
use super::perturb::{self, Kind};
use super::race::{Side, Track};
use super::resident::{Bound, Facts, Judgement, Resident, Trouble};
use super::scrub::Scrub;
use super::shape::Shape;
use super::{Lost, Watch, gate};
use crate::device::Effort;
use crate::evaluate::outcome::{Parts, Verdict, Worst};
use crate::nvml::Nvml;

/// Why a candidate goes no further.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// It is judged.
    Verdict(Judged),
    /// The device cannot be used any more.
    Lost(Lost),
}

/// A verdict, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// Where it is wrong.
    pub worst: Option<Worst>,
}

impl Stop {
    /// A verdict without a place.
    pub fn new(verdict: Verdict, reason: impl Into<String>) -> Self {
        Self::Verdict(Judged {
            verdict,
            reason: reason.into(),
            worst: None,
        })
    }

    /// What befell a candidate's code.
    pub fn of_candidate(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(text) => Self::new(Verdict::Refused, text),
            Trouble::Fault(text) => Self::new(Verdict::Fault, text),
            Trouble::Timeout(text) => Self::new(Verdict::Timeout, text),
            Trouble::CannotRun(text) => Self::new(Verdict::CannotRun, text),
            Trouble::Machine(text) => Self::new(Verdict::Unjudged, text),
            Trouble::Lost(lost) => Self::Lost(lost),
        }
    }

    /// What befell the original, while a candidate was being judged: that is not the candidate's fault.
    pub fn of_original(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Lost(lost) => Self::Lost(lost),
            other => Self::new(Verdict::Unjudged, format!("the original: {other}")),
        }
    }

    /// What a run left that is not right.
    pub fn of_judgement(judgement: Judgement) -> Self {
        let reason = judgement
            .reason()
            .unwrap_or_else(|| "memory is not as it should be".to_owned());
        Self::Verdict(Judged {
            verdict: match judgement.is_cheat() {
                true => Verdict::Cheat,
                false => Verdict::Wrong,
            },
            reason,
            worst: judgement.worst,
        })
    }
}

/// A launch with the original and a candidate.
#[derive(Debug)]
pub struct Lane {
    /// The launch.
    pub launch: LaunchId,
    /// What is known of it.
    pub facts: Rc<Facts>,
    /// How long a run may take.
    pub limit: Duration,
    /// The original; bound when it is timed.
    pub original: Option<Bound>,
    /// The candidate.
    pub candidate: Bound,
    /// Whether its inputs stay as recorded: the original cannot take other ones.
    pub fixed: bool,
    /// A key under whose poison the candidate was right.
    pub right_under: Option<u64>,
    /// Variables of the candidate that are no memory of the launch: written anew before each run, so that nothing can be
    /// kept in them.
    pub tables: Vec<Table>,
}

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Time of kernels, as far as it is known: nanoseconds.
    pub kernels: f64,
    /// Runs.
    pub runs: u32,
    /// Other inputs that were tried.
    pub perturbed: u32,
    /// Other inputs that were given up, since the original has no certain result on them.
    pub dropped: u32,
    /// Where the time went.
    pub parts: Parts,
}

/// Milliseconds since then.
pub(super) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Where candidates run.
pub struct Stand<'s, 'a> {
    /// The launches.
    pub resident: &'s mut Resident<'a>,
    /// Keys of poison.
    pub keys: &'s mut Keys,
    /// Ends the process when a run hangs.
    pub watch: &'s dyn Watch,
    /// Clocks.
    pub nvml: Option<&'s Nvml>,
    /// Clears shared memory.
    pub scrub: Option<Scrub>,
    /// Launches side by side.
    pub lanes: Vec<Lane>,
    /// Out of how many blocks of timed rounds one has another snapshot in it.
    pub swap_one_in: u64,
    /// The key of the last timed run.
    pub last: u64,
    /// What was run.
    pub spent: Spent,
}

/// Bytes of inputs that are changed for a run amid timed ones.
const AMID: u64 = 4 << 20;

/// What stands for the inputs of a launch in [`Lost::poisoned`]: the original stopped the device when they were changed.
pub const PERTURBED: &str = "perturbed inputs";

impl Stand<'_, '_> {
    /// Runs the candidate once, from restored memory under a poison, and judges what it left.
    pub fn judge(&mut self, lane: usize, key: u64, what: &str) -> Result<Judgement, Stop> {
        let Some(lane) = self.lanes.get(lane) else {
            return Ok(Judgement::default());
        };
        let (resident, bound) = (&mut *self.resident, &lane.candidate);
        let parts = &mut self.spent.parts;
        let begun = Instant::now();
        let reset = scrub(resident, self.scrub, key)
            .and_then(|()| resident.reset(bound, key))
            .and_then(|()| renew(resident, &lane.tables));
        parts.restore += milliseconds(begun);
        parts.restored_bytes += lane.facts.restored;
        reset.map_err(Stop::of_candidate)?;
        let text = format!("the candidate on launch {}{what}", lane.launch);
        self.watch.within(lane.limit, &text);
        let begun = Instant::now();
        let ran = resident.run(bound);
        self.watch.idle();
        self.spent.runs += 1;
        self.spent.kernels += begun.elapsed().as_nanos() as f64;
        parts.run += milliseconds(begun);
        ran.map_err(Stop::of_candidate)?;
        compared(resident, bound, parts).map_err(Stop::of_candidate)
    }

    /// Whether memory as it is before a run, and a kernel that does nothing, is not taken for right.
    pub fn nothing_fails(&mut self, lane: usize) -> Result<bool, Stop> {
        let Some(lane) = self.lanes.get(lane) else {
            return Ok(false);
        };
        let key = self.keys.key();
        let bound = &lane.candidate;
        self.resident.reset(bound, key).map_err(Stop::of_original)?;
        let judgement = self.resident.judgement(bound).map_err(Stop::of_original)?;
        Ok(!judgement.is_right())
    }

    /// A run of a lane's candidate from which nothing is told but its time.
    pub fn untold(&mut self, lane: usize) -> Result<f64, Stop> {
        self.timed(lane, Side::Candidate, false)
            .map_err(Stop::of_original)
    }

    /// The candidate on other inputs, of which the original says what should come out. Whether there was such a run.
    pub fn perturbed(&mut self, lane: usize, kind: Kind, most: u64) -> Result<bool, Stop> {
        let of_candidate = |parts: &Parts| parts.restore + parts.run + parts.compare;
        let (begun, before) = (Instant::now(), of_candidate(&self.spent.parts));
        let told = self.perturbed_inner(lane, kind, most);
        let parts = &mut self.spent.parts;
        let whole = milliseconds(begun);
        parts.perturbed += whole;
        parts.inputs += whole - (of_candidate(parts) - before);
        told
    }

    fn perturbed_inner(&mut self, lane: usize, kind: Kind, most: u64) -> Result<bool, Stop> {
        let Some(at) = self.lanes.get(lane).filter(|lane| !lane.fixed) else {
            return Ok(false);
        };
        let (launch, facts) = (at.launch, Rc::clone(&at.facts));
        // Other inputs put everything back: what a run that nobody verified did would not be seen any more.
        if let Some(what) = self.resident.inspect().map_err(Stop::of_candidate)? {
            let why = format!("in a run that was not verified, {what}");
            return Err(Stop::new(Verdict::Cheat, why));
        }
        let inputs = perturb::inputs(&facts.buffers);
        let resident = &mut *self.resident;
        let edits = perturb::edits(&inputs, kind, most, self.keys, |buffer, offset, bytes| {
            resident.read_before(launch, buffer.region, offset, bytes)
        })
        .map_err(Stop::of_original)?;
        if edits.is_empty() {
            return Ok(false);
        }
        let before = self.not_finite(&facts)?;
        let altered = self.resident.alter(launch, edits, self.watch);
        self.watch.idle();
        let altered = altered.map_err(|trouble| match Stop::of_original(trouble) {
            Stop::Lost(lost) => Stop::Lost(lost.poisoned(launch, PERTURBED)),
            stop => stop,
        })?;
        if altered.is_err() {
            self.spent.dropped += 1;
            return Ok(false);
        }
        let after = self.not_finite(&facts);
        if !after.as_ref().is_ok_and(|after| *after <= before) {
            let back = self.resident.unalter(launch).map_err(Stop::of_original);
            after?;
            back?;
            self.spent.dropped += 1;
            return Ok(false);
        }
        let key = self.keys.key();
        let judged = self.judge(lane, key, " with perturbed inputs");
        let changed = self.resident.unalter(launch);
        // What befell the candidate comes first: putting things back may fail of the same.
        let judgement = judged?;
        let changed = changed.map_err(Stop::of_original)?;
        if let Some(what) = changed.filter(|_| judgement.is_right()) {
            let why = format!("in a run with perturbed inputs, {what}");
            return Err(Stop::new(Verdict::Cheat, why));
        }
        self.spent.perturbed += 1;
        match judgement.is_right() {
            true => Ok(true),
            false => Err(Stop::of_judgement(judgement)),
        }
    }

    /// Results of the original that are not finite, as far as they are looked at.
    fn not_finite(&mut self, facts: &Facts) -> Result<usize, Stop> {
        let mut count = 0;
        for (buffer, len) in perturb::results(&facts.buffers) {
            let mut bytes = vec![0; len as usize];
            self.resident
                .read_expected(facts.launch, buffer.region, 0, &mut bytes)
                .map_err(Stop::of_original)?;
            count += perturb::not_finite(&bytes, buffer.element);
        }
        Ok(count)
    }

    /// What it means that the original is wrong beside a candidate. One that varies may be so now and then.
    fn wrong_original(&mut self, lane: usize, found: Judgement) -> Result<(), Stop> {
        let Some(lane) = self.lanes.get(lane) else {
            return Ok(());
        };
        let Some(original) = &lane.original else {
            return Ok(());
        };
        let reason = found.reason().unwrap_or_default();
        let cheats = || {
            Err(Stop::new(
                Verdict::Cheat,
                format!(
                    "the original, run beside it, is not right any more: something that is the original's own was \
                     changed; {reason}"
                ),
            ))
        };
        if lane.facts.deterministic && (found.strays.is_some() || found.is_cheat()) {
            return cheats();
        }
        let text = format!("the original on launch {}, once more", lane.launch);
        let mut right = |resident: &mut Resident<'_>, bound: &Bound| {
            resident.reset(bound, self.keys.key())?;
            self.watch.within(lane.limit, &text);
            let ran = resident.run(bound);
            self.watch.idle();
            ran?;
            Ok::<_, Trouble>(resident.judgement(bound)?.is_right())
        };
        for _ in 0..2 {
            if right(self.resident, original).map_err(Stop::of_original)? {
                return Ok(());
            }
        }
        let shape = Shape::recorded(&lane.facts.record);
        let fresh = self
            .resident
            .bind(lane.launch, None, &shape)
            .map_err(Stop::of_original)?;
        let is_right = right(self.resident, &fresh);
        let unbound = self.resident.unbind(fresh);
        let is_right = is_right.map_err(Stop::of_original)?;
        unbound.map_err(Stop::of_original)?;
        match is_right {
            true => cheats(),
            false => Err(Stop::new(
                Verdict::Unjudged,
                format!("the original varies more than several runs of it showed; {reason}"),
            )),
        }
    }

    /// Takes all code off the device.
    pub fn unbind(&mut self) -> Result<(), Trouble> {
        let mut result = Ok(());
        for lane in std::mem::take(&mut self.lanes) {
            for bound in [Some(lane.candidate), lane.original].into_iter().flatten() {
                result = self.resident.unbind(bound).and(result);
            }
        }
        result
    }

    fn timed(&mut self, lane: usize, side: Side, cold: bool) -> Result<f64, Trouble> {
        let nothing = || Trouble::Machine("no original is bound".to_owned());
        let lane = self.lanes.get(lane).ok_or_else(nothing)?;
        let (bound, who) = match side {
            Side::Candidate => (&lane.candidate, "the candidate"),
            Side::Original => (lane.original.as_ref().ok_or_else(nothing)?, "the original"),
        };
        let key = self.keys.key();
        self.last = key;
        let begun = Instant::now();
        // Before anything else: a multiprocessor divides its memory anew for a kernel with much shared memory, and that
        // it does so once more must not fall into the timed run.
        scrub(self.resident, self.scrub, key)?;
        self.resident.reset(bound, key)?;
        if side == Side::Candidate {
            renew(self.resident, &lane.tables)?;
        }
        if cold {
            let device = self.resident.device();
            device
                .reset_persisting()
                .and_then(|()| device.flush_cache())
                .map_err(|error| Trouble::of_device(error, false))?;
        }
        let text = format!("{who} on launch {}, timed", lane.launch);
        self.watch.within(lane.limit, &text);
        let effort = self.resident.run_timed(bound);
        self.watch.idle();
        self.spent.runs += 1;
        let parts = &mut self.spent.parts;
        parts.restored_bytes += lane.facts.restored;
        let whole = milliseconds(begun);
        let (kernel, told) = match effort? {
            Effort::Nanoseconds(time) => (time, time),
            Effort::Work(work) => (work.wall.as_nanos() as f64, work.cost as f64),
        };
        self.spent.kernels += kernel;
        // What the device did before the kernel is waited for with it.
        let run = (kernel / 1e6).min(whole);
        parts.run += run;
        parts.restore += whole - run;
        Ok(told)
    }
}

/// Compares what a run left, and counts what that took.
fn compared(
    resident: &mut Resident<'_>,
    bound: &Bound,
    parts: &mut Parts,
) -> Result<Judgement, Trouble> {
    let begun = Instant::now();
    let judgement = resident.judgement(bound);
    parts.compare += milliseconds(begun);
    parts.compared_bytes += resident.compared_bytes(bound.launch());
    judgement
}

fn renew(resident: &mut Resident<'_>, tables: &[Table]) -> Result<(), Trouble> {
    for table in tables {
        resident
            .device()
            .write(table.address, &table.bytes)
            .map_err(|error| Trouble::of_device(error, true))?;
    }
    Ok(())
}

fn scrub(resident: &mut Resident<'_>, scrub: Option<Scrub>, key: u64) -> Result<(), Trouble> {
    match scrub {
        // Not the bytes that memory is poisoned with.
        Some(scrub) => scrub
            .run(resident.device(), !key.rotate_left(29))
            .map_err(|error| Trouble::of_device(error, false)),
        None => Ok(()),
    }
}

impl Track for Stand<'_, '_> {
    type Stop = Stop;

    fn time(&mut self, lane: usize, side: Side, cold: bool, check: bool) -> Result<f64, Stop> {
        let time = self.timed(lane, side, cold).map_err(match side {
            Side::Candidate => Stop::of_candidate,
            Side::Original => Stop::of_original,
        })?;
        let Some(at) = self.lanes.get(lane).filter(|_| check) else {
            return Ok(time);
        };
        let bound = match (side, &at.original) {
            (Side::Candidate, _) => &at.candidate,
            (Side::Original, Some(original)) => original,
            (Side::Original, None) => return Ok(time),
        };
        let judgement = compared(self.resident, bound, &mut self.spent.parts);
        let judgement = judgement.map_err(Stop::of_candidate)?;
        match (judgement.is_right(), side) {
            (true, _) => Ok(time),
            (false, Side::Candidate) => {
                let key = self.last;
                Err(gate::explain(self, lane, key, judgement))
            }
            (false, Side::Original) => self.wrong_original(lane, judgement).map(|()| time),
        }
    }

    fn elsewhere(&mut self, lane: usize) -> Result<(), Stop> {
        if self.swap_one_in == 0 || self.keys.below(self.swap_one_in) > 0 {
            return Ok(());
        }
        let kind = Kind::nth(self.keys.below(3) as u32);
        self.perturbed(lane, kind, AMID).map(|_| ())
    }

    fn clock(&mut self) -> Option<u32> {
        let begun = Instant::now();
        let clock = self.nvml?.sm_clock();
        self.spent.parts.clocks += milliseconds(begun);
        clock
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.spent.parts.clocks += time.as_secs_f64() * 1e3;
    }
}
