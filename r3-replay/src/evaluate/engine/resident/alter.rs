//! A launch with other inputs, for which the original is the oracle.

use std::rc::Rc;

use r3_archive::chunk::CHUNK_SIZE;
use r3_archive::model::LaunchId;

use super::kept::{Altered, Expected};
use super::layout::regions;
use super::{Bound, Resident, Trouble, Watch, not_ready};
use crate::device::COMPARE_CHUNK;
use crate::evaluate::engine::Lost;
use crate::replay::Shape;

/// What stands for a buffer's name in [`Lost::poisoned`](super::super::Lost::poisoned) when the original lost the device
/// with other inputs.
pub const PERTURBED: &str = "perturbed inputs";

/// Bytes in place of recorded ones, before the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Index of the region in the record.
    pub region: usize,
    /// Where in it.
    pub offset: u64,
    /// What is there instead.
    pub bytes: Vec<u8>,
}

impl Resident<'_> {
    /// Gives a launch other inputs, runs the original on them, and judges by what it leaves from now on. Bytes that are
    /// poisoned anyway stay poisoned. The inner error is why nothing can be judged by these inputs (the launch is as
    /// recorded then): the original stops, or does not leave the same twice.
    pub fn alter(
        &mut self,
        launch: LaunchId,
        edits: Vec<Edit>,
        watch: &dyn Watch,
    ) -> Result<Result<(), String>, Trouble> {
        self.unalter(launch)?;
        // What a candidate changed must not become what candidates are judged by.
        self.inspect()?;
        self.activate(launch)?;
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        kept.altered = Some(Altered {
            edits: Rc::new(edits),
            untouched: kept.untouched.clone(),
            variables: kept.variables.clone(),
            expected: kept.expected,
            aside: None,
        });
        let why = match self.oracle(launch, watch) {
            Ok(None) => {
                self.variables_differ();
                return Ok(Ok(()));
            }
            Ok(Some(why)) => why,
            Err(Trouble::Lost(lost)) => {
                return Err(Trouble::Lost(Lost {
                    poisoned: Some((launch, PERTURBED.to_owned())),
                    ..lost
                }));
            }
            Err(trouble @ Trouble::Machine(_)) => {
                // Copies may be half made: what comes next begins from what was recorded.
                self.distrust();
                let _ = self.unalter(launch);
                return Err(trouble);
            }
            Err(trouble) => trouble.to_string(),
        };
        self.distrust();
        self.unalter(launch)?;
        Ok(Err(why))
    }

    fn oracle(&mut self, launch: LaunchId, watch: &dyn Watch) -> Result<Option<String>, Trouble> {
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let record = Rc::clone(&kept.record);
        let edits = kept.altered.as_ref().map(|a| Rc::clone(&a.edits));
        let edits = edits.unwrap_or_default();
        let code = self
            .replayer
            .bind(&record, None, &Shape::recorded(&record))
            .map_err(|error| Trouble::of_replay(error, false))?;
        let bound = Bound::original(code);
        let told = self
            .write_variables(&bound, true)
            .and_then(|()| self.restore_plainly(&bound))
            .and_then(|()| self.put_aside(launch, &edits))
            .and_then(|()| self.write_edits(&edits))
            .and_then(|()| self.oracle_of(&bound, watch));
        let unbound = self.unbind(bound);
        let told = told?;
        unbound?;
        Ok(told)
    }

    fn oracle_of(&mut self, bound: &Bound, watch: &dyn Watch) -> Result<Option<String>, Trouble> {
        let launch = bound.launch();
        self.seal(bound, false)?;
        self.sum_untouched(bound)?;
        self.original(bound, "with other inputs", watch)?;
        self.seal(bound, true)?;
        if let Some(kept) = self.launches.get_mut(&launch) {
            kept.expected = Expected::Local;
        }
        self.keep_variables(bound)?;
        self.sum(launch)?;
        for _ in 0..2 {
            let key = self.keys.key();
            self.reset(bound, key)?;
            self.original(bound, "with other inputs, once more", watch)?;
            let judgement = self.judgement(bound)?;
            if !judgement.is_right() {
                return Ok(Some(format!(
                    "the original does not leave the same again with these inputs: {}",
                    judgement.reason().unwrap_or_default()
                )));
            }
        }
        Ok(None)
    }

    /// Gives a launch its recorded inputs again. Returns what a candidate did in between that no judgement saw, for people.
    pub fn unalter(&mut self, launch: LaunchId) -> Result<Option<&'static str>, Trouble> {
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Ok(None);
        };
        let Some(altered) = kept.altered.take() else {
            return Ok(None);
        };
        kept.untouched = altered.untouched;
        kept.variables = altered.variables;
        kept.expected = altered.expected;
        self.variables_differ();
        if let Some(aside) = altered.aside {
            return self.take_back(launch, aside);
        }
        // Memory and copies are made from the archive again when the launch is needed.
        if let Some(kept) = self.launches.get_mut(&launch) {
            kept.damaged = true;
        }
        if self.live.as_ref().is_some_and(|live| live.launch == launch) {
            self.distrust();
        }
        Ok(None)
    }

    /// Other variables are changed with other inputs: the next reset of each code writes all of its own.
    fn variables_differ(&mut self) {
        self.distrusted += 1;
    }

    /// Writes other inputs into the memory in place.
    pub(super) fn write_edits(&mut self, edits: &[Edit]) -> Result<(), Trouble> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        for edit in edits {
            let target = live.place.targets.get(edit.region).copied().flatten();
            let Some(target) = target else {
                return Err(Trouble::Machine(format!(
                    "region {} is no memory of its own: its bytes cannot be changed",
                    edit.region
                )));
            };
            let end = edit.offset.checked_add(edit.bytes.len() as u64);
            if end.is_none_or(|end| end > target.len()) {
                return Err(Trouble::Machine(format!(
                    "{} bytes at byte {} of a buffer of {}",
                    edit.bytes.len(),
                    edit.offset,
                    target.len()
                )));
            }
            self.replayer
                .device()
                .write(target.start() + edit.offset, &edit.bytes)
                .map_err(|error| Trouble::of_device(error, false))?;
        }
        Ok(())
    }

    /// Bytes of a region as they were recorded before the launch.
    pub fn read_before(
        &self,
        launch: LaunchId,
        region: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let regions = regions(&kept.record)?;
        let outside = || Trouble::Machine(format!("no such bytes in region {region}"));
        let found = regions
            .iter()
            .find(|found| found.index == region)
            .ok_or_else(outside)?;
        let end = offset.checked_add(out.len() as u64).ok_or_else(outside)?;
        if end > found.range.len() {
            return Err(outside());
        }
        let mut bytes = vec![0; CHUNK_SIZE];
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let chunk = at / COMPARE_CHUNK;
            let (start, len) = found.chunk(chunk);
            let bytes = bytes.get_mut(..len as usize).ok_or_else(outside)?;
            self.archive()
                .read_chunk(found.before(chunk), bytes)
                .map_err(|error| Trouble::Machine(error.to_string()))?;
            let inside = bytes.get((at - start) as usize..).unwrap_or_default();
            let count = inside.len().min(rest.len());
            if count == 0 {
                return Err(outside());
            }
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(inside.get(..count).unwrap_or_default());
            rest = later;
            at += count as u64;
        }
        Ok(())
    }

    /// Bytes of a region as they are expected after the launch, its present inputs being what they are.
    pub fn read_expected(
        &mut self,
        launch: LaunchId,
        region: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Trouble> {
        self.activate(launch)?;
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let targets = self.live.as_ref().map(|live| &live.place.targets);
        let target = targets.and_then(|targets| targets.get(region).copied().flatten());
        let end = offset.saturating_add(out.len() as u64);
        let Some(target) = target.filter(|target| end <= target.len()) else {
            return Err(Trouble::Machine(format!(
                "no such bytes in region {region}"
            )));
        };
        // What the launch does not write is in place.
        let mut parts = vec![(offset, end, None)];
        for piece in kept.pieces.iter().filter(|piece| piece.region == region) {
            let (from, to) = (
                piece.offset.max(offset),
                (piece.offset + piece.len).min(end),
            );
            if from < to {
                let source = kept.expected_source(piece);
                parts.push((from, to, source.map(|s| s.after(from - piece.offset))));
            }
        }
        for (from, to, source) in parts {
            let range = (from - offset) as usize..(to - offset) as usize;
            let part = out.get_mut(range).unwrap_or_default();
            let address = match source {
                Some(source) => source.memory.unwrap_or_default(),
                None => target.start() + from,
            };
            self.replayer
                .device()
                .read(address, part)
                .map_err(|error| Trouble::of_device(error, false))?;
            if let Some(stream) = source.and_then(|source| source.stream) {
                stream.apply(part);
            }
        }
        Ok(())
    }
}
