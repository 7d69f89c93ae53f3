//! Equal code is measured once.
//!
//! Two candidates are equal when what is loaded is the same but for notes of tools, and is launched in the same way under
//! the same conditions. The outcome of one stands for the other when it was judged at least as thoroughly as asked.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use r3_archive::model::KernelId;
use xxhash_rust::xxh3::Xxh3;

use super::types::{ArchiveId, JobId};
use crate::code::Form;
use crate::evaluate::engine::Image;
use crate::evaluate::outcome::Outcome;
use crate::evaluate::plan::{Plan, Regime};

/// Outcomes that are kept.
const KEPT: usize = 8192;

/// What makes candidates equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CodeKey {
    pub(super) archive: ArchiveId,
    pub(super) kernel: KernelId,
    /// Hash of the code; 0 is the recorded one.
    pub(super) code: u128,
    /// Hash of how its launches are done and under which conditions.
    pub(super) launch: u128,
}

/// Hash of code without what tools note about themselves: two sets of options may make the same instructions, and a cubin
/// says with which it was made.
pub(super) fn code_hash(image: &Image) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(image.name.as_bytes());
    hasher.update(&[0]);
    let mut whole = || -> Option<()> {
        let Form::Sass(_) = image.form else {
            return None;
        };
        let mut sections = Vec::new();
        each_section(&image.bytes, |name, kind, bytes| {
            sections.push((name.to_vec(), kind, bytes));
        })?;
        // `e_flags`: the architecture.
        hasher.update(image.bytes.get(0x30..0x34)?);
        for (name, kind, bytes) in sections {
            if [&b".note"[..], b".debug", b".nv_debug"]
                .iter()
                .any(|tool| name.starts_with(tool))
            {
                continue;
            }
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(&name);
            hasher.update(&kind.to_le_bytes());
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
        Some(())
    };
    if whole().is_none() {
        let mut hasher = Xxh3::new();
        hasher.update(image.name.as_bytes());
        hasher.update(&[1]);
        hasher.update(&image.bytes);
        return hasher.digest128();
    }
    hasher.digest128()
}

/// The sections of a 64-bit little-endian ELF file: name, type, bytes. `None` when it is no such file.
fn each_section<'b>(bytes: &'b [u8], mut found: impl FnMut(&'b [u8], u32, &'b [u8])) -> Option<()> {
    const HEADER: usize = 64;
    /// `SHT_NOBITS`: nothing in the file.
    const NO_BITS: u32 = 8;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let u16_at = |at: usize| {
        let word = bytes.get(at..)?.first_chunk::<2>()?;
        Some(u16::from_le_bytes(*word))
    };
    let u64_at = |at: usize| {
        let word = bytes.get(at..)?.first_chunk::<8>()?;
        usize::try_from(u64::from_le_bytes(*word)).ok()
    };
    let u32_at = |at: usize| {
        let word = bytes.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*word))
    };
    // The program headers say where segments are; a file without them is no whole one.
    let segments = usize::from(u16_at(0x36)?).checked_mul(usize::from(u16_at(0x38)?))?;
    bytes.get(u64_at(0x20)?..)?.get(..segments)?;
    let (table, size) = (u64_at(0x28)?, usize::from(u16_at(0x3a)?));
    let (count, names) = (usize::from(u16_at(0x3c)?), usize::from(u16_at(0x3e)?));
    if size < HEADER || count == 0 {
        return None;
    }
    let section = |index: usize| {
        let at = table.checked_add(index.checked_mul(size)?)?;
        let kind = u32_at(at.checked_add(4)?)?;
        let (offset, len) = (u64_at(at.checked_add(24)?)?, u64_at(at.checked_add(32)?)?);
        let content = match kind {
            NO_BITS => &bytes[..0],
            _ => bytes.get(offset..offset.checked_add(len)?)?,
        };
        Some((u32_at(at)?, kind, content))
    };
    let (_, _, strings) = section(names)?;
    for index in 0..count {
        let (name, kind, content) = section(index)?;
        let name = strings.get(usize::try_from(name).ok()?..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        found(name.get(..end)?, kind, content);
    }
    Some(())
}

/// Whether what was or will be found out by `done` answers `asked`.
fn covers(done: &Plan, dropped: Option<bool>, asked: &Plan) -> bool {
    let launches = done.launches == asked.launches
        && asked.held_out.iter().all(|id| done.held_out.contains(id))
        && done.perturbed >= asked.perturbed;
    let checks = (done.compile_twice || !asked.compile_twice)
        && (done.fresh_process || !asked.fresh_process);
    launches && checks && (!asked.time || times_cover(done, dropped, asked))
}

fn times_cover(done: &Plan, dropped: Option<bool>, asked: &Plan) -> bool {
    // One that was dropped against a better incumbent than there is now might not be dropped again.
    let kept = match (dropped, done.incumbent, asked.incumbent) {
        (Some(false), _, _) | (None, None, _) => true,
        (_, Some(then), Some(now)) => now <= then,
        (Some(true), None, _) => done.drop_ratio >= asked.drop_ratio,
        (_, Some(_), None) => false,
    };
    done.time
        && (done.time_held_out || !asked.time_held_out)
        && done.least_pairs >= asked.least_pairs
        && done.most_pairs >= asked.most_pairs
        && (done.regime == asked.regime || done.regime == Regime::Both)
        && kept
}

/// Outcomes by code.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_code: HashMap<CodeKey, Vec<(Plan, Arc<Outcome>)>>,
    order: VecDeque<CodeKey>,
}

impl Known {
    /// An outcome that answers a plan for equal code.
    pub(super) fn find(&self, key: &CodeKey, asked: &Plan) -> Option<Arc<Outcome>> {
        let of_code = self.by_code.get(key)?;
        let answers = |(plan, outcome): &&(Plan, Arc<Outcome>)| {
            // What is not right has no times, and is dropped for good.
            let dropped = outcome.score.is_some_and(|score| score.dropped);
            match outcome.verdict.is_right() {
                true => covers(plan, Some(dropped), asked),
                false => {
                    let untimed = Plan {
                        time: false,
                        ..asked.clone()
                    };
                    covers(plan, Some(false), &untimed)
                }
            }
        };
        // The last one was asked for since the others were not enough.
        let found = of_code.iter().rev().find(answers)?;
        Some(found.1.clone())
    }

    pub(super) fn insert(&mut self, key: CodeKey, plan: Plan, outcome: Arc<Outcome>) {
        if self.order.len() >= KEPT
            && let Some(old) = self.order.pop_front()
            && let Some(of_code) = self.by_code.get_mut(&old)
        {
            of_code.remove(0);
            if of_code.is_empty() {
                self.by_code.remove(&old);
            }
        }
        self.order.push_back(key.clone());
        self.by_code.entry(key).or_default().push((plan, outcome));
    }
}

/// A job whose outcome others wait for.
#[derive(Debug)]
struct Group {
    leader: JobId,
    plan: Plan,
    followers: Vec<JobId>,
}

/// Equal code that waits or runs.
#[derive(Debug, Default)]
pub(super) struct Groups(HashMap<CodeKey, Vec<Group>>);

impl Groups {
    /// Has a job wait for an equal one that is under way. `false` when there is none.
    pub(super) fn follow(&mut self, key: &CodeKey, asked: &Plan, job: JobId) -> bool {
        let of_code = self.0.get_mut(key);
        let group = of_code
            .into_iter()
            .flatten()
            .find(|group| covers(&group.plan, None, asked));
        match group {
            Some(group) => {
                group.followers.push(job);
                true
            }
            None => false,
        }
    }

    /// A job is under way.
    pub(super) fn lead(&mut self, key: &CodeKey, plan: &Plan, leader: JobId) {
        self.lead_all(key, plan, leader, Vec::new());
    }

    /// A job is under way, and others wait for it.
    pub(super) fn lead_all(
        &mut self,
        key: &CodeKey,
        plan: &Plan,
        leader: JobId,
        followers: Vec<JobId>,
    ) {
        self.0.entry(key.clone()).or_default().push(Group {
            leader,
            plan: plan.clone(),
            followers,
        });
    }

    /// A job does not wait any more. `false` when it did not.
    pub(super) fn leave(&mut self, key: &CodeKey, job: JobId) -> bool {
        for group in self.0.get_mut(key).into_iter().flatten() {
            let before = group.followers.len();
            group.followers.retain(|follower| *follower != job);
            if group.followers.len() < before {
                return true;
            }
        }
        false
    }

    /// A leader is over. Those who waited for it, in the order in which they came; `None` when it was no leader.
    pub(super) fn end(&mut self, key: &CodeKey, leader: JobId) -> Option<Vec<JobId>> {
        let of_code = self.0.get_mut(key)?;
        let at = of_code.iter().position(|group| group.leader == leader)?;
        let group = of_code.remove(at);
        if of_code.is_empty() {
            self.0.remove(key);
        }
        Some(group.followers)
    }

    /// Whether somebody waits for a job.
    pub(super) fn has_followers(&self, leader: JobId) -> bool {
        let mut groups = self.0.values().flatten();
        groups.any(|group| group.leader == leader && !group.followers.is_empty())
    }

    /// Jobs that wait for others.
    pub(super) fn following(&self) -> usize {
        let groups = self.0.values().flatten();
        groups.map(|group| group.followers.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::Verdict;
    use crate::evaluate::candidate::CandidateId;

    /// A cubin of `ptxas` 13.0, which notes its command line.
    static CUBIN: &[u8] = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../r3-image/tests/fixtures/saxpy-13.0-sm_90a.cubin"
    ));

    fn image(bytes: &[u8]) -> Image {
        Image {
            name: "saxpy".to_owned(),
            bytes: bytes.to_vec(),
            form: Form::Sass(90),
        }
    }

    /// The cubin with one byte changed in the middle of the first section whose name begins so.
    fn changed(section: &str) -> Vec<u8> {
        let mut place = None;
        each_section(CUBIN, |name, _, content| {
            if name.starts_with(section.as_bytes()) && !content.is_empty() && place.is_none() {
                let start = content.as_ptr() as usize - CUBIN.as_ptr() as usize;
                place = Some(start + content.len() / 2);
            }
        })
        .unwrap();
        let mut bytes = CUBIN.to_vec();
        bytes[place.unwrap()] ^= 1;
        bytes
    }

    #[test]
    fn code_is_equal_whatever_tools_note_about_themselves() {
        let own = code_hash(&image(CUBIN));
        assert_eq!(own, code_hash(&image(&changed(".note.nv.tkinfo"))));
        assert_ne!(own, code_hash(&image(&changed(".text."))));
        assert_ne!(own, code_hash(&image(&changed(".nv.info"))));
        let other = Image {
            name: "other".to_owned(),
            ..image(CUBIN)
        };
        assert_ne!(own, code_hash(&other));
    }

    #[test]
    fn damaged_code_has_a_hash_as_well() {
        for len in [0, 3, 64, 70, CUBIN.len() / 2, CUBIN.len() - 1] {
            assert_ne!(code_hash(&image(&CUBIN[..len])), code_hash(&image(CUBIN)));
        }
        let mut wild = CUBIN.to_vec();
        // The table of sections is where no file reaches.
        wild[0x28..0x30].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_ne!(code_hash(&image(&wild)), code_hash(&image(CUBIN)));
    }

    #[test]
    fn an_outcome_stands_for_what_was_asked_no_more_thoroughly() {
        let search = Plan::default();
        let last = Plan::final_claim();
        let judged = Plan::judge_only();
        assert!(covers(&search, Some(false), &search));
        assert!(covers(&search, Some(false), &judged));
        assert!(covers(&last, Some(false), &judged));
        assert!(!covers(&judged, Some(false), &search));
        assert!(!covers(&search, Some(false), &last));
        let held_out = Plan {
            held_out: vec![r3_archive::model::LaunchId(3)],
            ..Plan::default()
        };
        assert!(covers(&held_out, Some(false), &search));
        assert!(!covers(&search, Some(false), &held_out));
    }

    #[test]
    fn what_was_dropped_against_a_better_one_may_be_measured_again() {
        let against = |incumbent| Plan {
            incumbent,
            ..Plan::default()
        };
        let dropped = Some(true);
        assert!(covers(&against(Some(0.8)), dropped, &against(Some(0.7))));
        assert!(!covers(&against(Some(0.8)), dropped, &against(Some(0.9))));
        assert!(!covers(&against(Some(0.8)), dropped, &against(None)));
        assert!(covers(&against(Some(0.8)), Some(false), &against(None)));
        // Of one that still runs, nobody knows whether it will be dropped.
        assert!(!covers(&against(Some(0.8)), None, &against(None)));
    }

    #[test]
    fn outcomes_are_kept_up_to_a_number() {
        let key = |code| CodeKey {
            archive: ArchiveId(0),
            kernel: KernelId(1),
            code,
            launch: 0,
        };
        let mut known = Known::default();
        for code in 0..=KEPT as u128 {
            let outcome = Outcome::without_run(CandidateId(code), Verdict::Wrong, "");
            known.insert(key(code), Plan::default(), Arc::new(outcome));
        }
        assert!(known.find(&key(0), &Plan::default()).is_none());
        let last = known.find(&key(KEPT as u128), &Plan::default()).unwrap();
        assert_eq!(last.candidate, CandidateId(KEPT as u128));
        assert_eq!(known.by_code.len(), KEPT);
    }
}
