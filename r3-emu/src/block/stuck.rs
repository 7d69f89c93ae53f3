//! Finds endless polls: a cluster that is in a state in which it was before, and has looked at nothing but itself between,
//! will be in that state for ever.
//!
//! The state is all that decides what happens next: registers, local and shared memory, paths, barriers. Looked at are a few
//! states in doubling distances, so that it costs nothing to wait long.

use super::shared::BlockShared;
use super::unit::Block;
use super::warp::{State, Warp};
use crate::launch::Class;

/// Turns without progress after which states are looked at for the first time.
const FIRST: u64 = 32;
/// Turns in which a state must come back.
const CYCLE: u64 = 8;

/// What is remembered of a cluster that polls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Turns in which it only polled.
    turns: u64,
    /// When a state was kept, the state, and how much of the world outside had been looked at.
    kept: Option<(u64, u64, u64)>,
}

impl Watch {
    /// Whether it did something else in its last turn.
    pub fn is_new(&self) -> bool {
        self.turns == 0
    }

    /// Another turn ended in which all that ran only polled. Whether it will be so for ever.
    pub fn polled(&mut self, blocks: &[Block]) -> bool {
        self.turns += 1;
        if self.turns >= FIRST && self.turns.is_power_of_two() {
            self.kept = Some((self.turns, state(blocks), outside(blocks)));
            return false;
        }
        match self.kept {
            Some((turn, kept, seen)) if self.turns - turn <= CYCLE => {
                seen == outside(blocks) && kept == state(blocks)
            }
            _ => false,
        }
    }
}

/// Counts accesses to what others can change: global memory, textures, the heap.
fn outside(blocks: &[Block]) -> u64 {
    let of = |warp: &Warp| {
        let class = |class: Class| warp.counts.by_class[class as usize];
        warp.outside
            + warp.counts.global_sectors
            + class(Class::Texture)
            + class(Class::Matrix)
            + class(Class::Other)
    };
    blocks.iter().flat_map(|b| &b.warps).map(of).sum()
}

/// A number that stands for the state.
fn state(blocks: &[Block]) -> u64 {
    let mut hash = Hash(0);
    for block in blocks {
        block.shared.hash(&mut hash);
        for warp in &block.warps {
            warp.hash(&mut hash);
        }
    }
    hash.0
}

/// A simple hash: states are compared with states of the same kernel some turns before, not with what somebody made up.
pub(super) struct Hash(u64);

impl Hash {
    /// Adds a number.
    pub fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Adds a buffer.
    pub fn buffer(&mut self, buffer: &super::Buffer) {
        let (words, rest) = (buffer.len() / 8, buffer.len() % 8);
        // SAFETY: the buffer's own bytes, aligned to 64; nobody writes them while a unit does not run.
        unsafe {
            let start = buffer.start();
            for i in 0..words {
                self.word(start.cast::<u64>().add(i).read());
            }
            for i in 0..rest {
                self.word(start.add(8 * words + i).read().into());
            }
        }
    }
}

impl BlockShared {
    fn hash(&self, hash: &mut Hash) {
        hash.buffer(self.buffer());
        self.barriers.hash(hash);
        let cluster = self.cluster_ref();
        for n in [cluster.alive, cluster.arrived, cluster.phase] {
            hash.word(n.into());
        }
    }
}

impl Warp {
    fn hash(&self, hash: &mut Hash) {
        hash.word(self.alive().into());
        hash.buffer(&self.registers);
        hash.buffer(&self.local);
        for phase in self.cluster_phase {
            hash.word(phase.into());
        }
        for frame in self.frames.iter().filter(|f| f.live != 0) {
            hash.word(u64::from(frame.live) << 32 | u64::from(frame.depth));
            hash.word(u64::from(frame.parent) << 32 | u64::from(frame.local_start));
            frame.back.iter().for_each(|&pc| hash.word(pc.into()));
            if let Some(stack) = &frame.stack {
                stack.iter().for_each(|&end| hash.word(end.into()));
            }
            hash.buffer(&frame.registers);
        }
        for path in &self.paths {
            hash.word(u64::from(path.pc) << 32 | u64::from(path.mask));
            // Who ran longest ago runs next.
            let older = self.paths.iter().filter(|p| p.last < path.last).count();
            hash.word(older as u64 | u64::from(path.frame) << 32);
            hash.word(match path.state {
                State::Ready => 0,
                State::Released => 1,
                State::Retry => 2,
                State::Sync(wanted) => 3 | u64::from(wanted) << 32,
                State::Barrier(id, generation) => {
                    4 | u64::from(id) << 8 | u64::from(generation) << 32
                }
            });
        }
    }
}
