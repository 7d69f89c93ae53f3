//! Device memory for copies: a budget, and host memory for what does not fit into it.

use r3_archive::model::LaunchId;

use super::kept::{Copies, Kept, Spilled};
use super::{Resident, Trouble};
use crate::device::HostCopy;
use crate::device::pool::Buffer;

impl Resident<'_> {
    /// Takes the copies of launches off the device until they are within the budget. `but` stays.
    pub(super) fn keep_to_budget(&mut self, but: LaunchId) -> Result<(), Trouble> {
        let trouble = |error| Trouble::of_device(error, false);
        let Some(budget) = self.options.memory_budget else {
            return Ok(());
        };
        while self.pool.in_use() > budget {
            let oldest = self
                .launches
                .iter()
                .filter(|(id, kept)| **id != but && kept.is_here() && kept.bytes() > 0)
                .min_by_key(|(_, kept)| kept.used)
                .map(|(id, _)| *id);
            let Some(oldest) = oldest else { break };
            self.spill(oldest)?;
        }
        if self.pool.in_use() + self.pool.kept() > budget {
            self.pool.trim(self.replayer.device()).map_err(trouble)?;
        }
        Ok(())
    }

    /// Copies go to host memory, or are given up.
    pub(super) fn spill(&mut self, launch: LaunchId) -> Result<(), Trouble> {
        let on_host: u64 = self
            .launches
            .values()
            .filter_map(|kept| kept.spilled.as_ref())
            .map(|spilled| spilled.bytes.len())
            .sum();
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Ok(());
        };
        let lengths = lengths(kept);
        let len: u64 = lengths.iter().sum();
        let copies = std::mem::take(&mut kept.copies);
        let mut offset = 0;
        let mut moves = Vec::new();
        for buffer in copies.parts() {
            moves.push(HostCopy {
                device: buffer.address(),
                offset,
                len: buffer.len(),
            });
            offset += buffer.len();
        }
        let device = self.replayer.device();
        let room = self.options.host_budget.saturating_sub(on_host);
        let spilled = match len <= room {
            true => device.host_buffer(len).ok().and_then(|mut bytes| {
                device.copy_out(&moves, &mut bytes).ok()?;
                device.synchronize().ok()?;
                Some(Spilled { bytes, lengths })
            }),
            false => None,
        };
        kept.damaged |= spilled.is_none();
        kept.spilled = spilled;
        copies.give(&mut self.pool);
        Ok(())
    }

    /// Copies from host memory; `None` when they cannot be had.
    pub(super) fn fetch(&mut self, spilled: &Spilled) -> Result<Option<Copies>, Trouble> {
        let copies = self.allocate(spilled.lengths)?;
        let mut offset = 0;
        let mut moves = Vec::new();
        for buffer in copies.parts() {
            moves.push(HostCopy {
                device: buffer.address(),
                offset,
                len: buffer.len(),
            });
            offset += buffer.len();
        }
        let device = self.replayer.device();
        device
            .copy_in(&spilled.bytes, &moves)
            .and_then(|()| device.synchronize())
            .map_err(|error| Trouble::of_device(error, false))?;
        Ok(Some(copies))
    }

    /// Device memory for copies. When there is none, copies of other launches make room.
    pub(super) fn allocate(&mut self, lengths: [u64; 4]) -> Result<Copies, Trouble> {
        let mut copies = Copies::default();
        let slots = [
            &mut copies.before,
            &mut copies.expected,
            &mut copies.mask,
            &mut copies.inputs,
        ];
        let mut failed = None;
        for (slot, len) in slots.into_iter().zip(lengths) {
            if len == 0 || failed.is_some() {
                continue;
            }
            match self.take(len) {
                Ok(buffer) => *slot = Some(buffer),
                Err(trouble) => failed = Some(trouble),
            }
        }
        match failed {
            None => Ok(copies),
            Some(trouble) => {
                copies.give(&mut self.pool);
                Err(trouble)
            }
        }
    }

    /// Device memory. When there is none, copies of launches that are not in place make room.
    pub(super) fn take(&mut self, len: u64) -> Result<Buffer, Trouble> {
        loop {
            let error = match self.pool.take(self.replayer.device(), len) {
                Ok(buffer) => return Ok(buffer),
                Err(error) => error,
            };
            let present = self.live.as_ref().map(|live| live.launch);
            let oldest = self
                .launches
                .iter()
                .filter(|(id, kept)| Some(**id) != present && kept.is_here() && kept.bytes() > 0)
                .min_by_key(|(_, kept)| kept.used)
                .map(|(id, _)| *id);
            match oldest {
                Some(oldest) => self.spill(oldest)?,
                None => return Err(Trouble::of_device(error, false)),
            }
        }
    }
}

/// Lengths of the copies: before, expected, mask, inputs.
pub(super) fn lengths(kept: &Kept) -> [u64; 4] {
    let end = |ends: &mut dyn Iterator<Item = u64>| ends.max().unwrap_or(0);
    [
        end(&mut kept
            .pieces
            .iter()
            .filter_map(|piece| Some(piece.before? + piece.len))),
        end(&mut kept.pieces.iter().map(|piece| piece.expected + piece.len)),
        kept.mask.len() as u64,
        end(&mut kept.inputs.iter().map(|input| input.at + input.len)),
    ]
}
