//! The blocks that one host thread runs together: a cluster, or a single block.

use super::NoMemory;
use super::schedule::Pause;
use super::shared::{BlockShared, ClusterShared};
use super::stuck::Watch;
use super::warp::{State, Warp};
use crate::decode::Code;
use crate::fault::{Fault, FaultKind, Race};
use crate::launch::Counts;
use crate::memory::{View, racecheck};
use crate::run::Launch;
use std::fmt::Write;

/// Ops that a warp runs before the next one's turn.
const QUANTUM: u64 = 1 << 16;
/// Rounds in which all warps only polled or waited, before other blocks get their turn.
const ROUNDS: u32 = 4;

/// What became of a unit.
#[derive(Debug)]
pub(crate) enum UnitState {
    /// All threads have exited.
    Done,
    /// It polls: perhaps it waits for another block.
    Spinning,
    /// It faulted.
    Fault(Box<Fault>),
}

/// A cluster of blocks, or one block.
pub(crate) struct Unit {
    /// Number of its first block.
    pub number: u64,
    blocks: Vec<Block>,
    cluster: Box<ClusterShared>,
    watch: Watch,
}

pub(super) struct Block {
    pub(super) shared: Box<BlockShared>,
    pub(super) warps: Vec<Warp>,
}

/// What a unit did, for the report.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub counts: Counts,
    pub thread_instructions: u64,
    pub blocks: u64,
    pub races: Vec<Race>,
}

impl Unit {
    /// An empty unit. `launch` and `view` outlive it.
    pub fn new(launch: &Launch, view: *mut View) -> Result<Self, NoMemory> {
        let mut cluster = Box::new(ClusterShared::default());
        let [x, y, z] = launch.block;
        let warps = (x * y * z).div_ceil(32);
        let ranks = launch.cluster.iter().product::<u32>();
        let mut blocks = Vec::new();
        for rank in 0..ranks {
            let mut shared = Box::new(BlockShared::new(
                launch.shared_bytes as usize,
                warps as usize,
                rank,
                &raw mut *cluster,
            )?);
            let at = &raw mut *shared;
            cluster.blocks.push(at);
            let warps = (0..warps)
                .map(|index| Warp::new(index, at, launch, view))
                .collect::<Result<_, _>>()?;
            blocks.push(Block { shared, warps });
        }
        Ok(Self {
            number: 0,
            blocks,
            cluster,
            watch: Watch::default(),
        })
    }

    /// Puts it at the start of the cluster with number `number` (x fastest).
    pub fn reset(&mut self, launch: &Launch, code: &Code, number: u64) -> Result<(), NoMemory> {
        let [cx, cy, cz] = launch.cluster;
        let clusters = [launch.grid[0] / cx, launch.grid[1] / cy].map(u64::from);
        let at = [
            (number % clusters[0]) as u32 * cx,
            (number / clusters[0] % clusters[1]) as u32 * cy,
            (number / clusters[0] / clusters[1]) as u32 * cz,
        ];
        self.number = number;
        self.watch = Watch::default();
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            let rank = rank as u32;
            let index = [
                at[0] + rank % cx,
                at[1] + rank / cx % cy,
                at[2] + rank / (cx * cy),
            ];
            block.shared.reset(launch, index);
            if launch.racecheck {
                block.shared.racecheck = Some(Box::new(racecheck::Shadow::new(
                    index,
                    launch.block,
                    launch.shared_bytes,
                )));
            }
            for warp in &mut block.warps {
                warp.reset(code)?;
            }
            let alive = block.warps.iter().map(Warp::alive);
            block.shared.barriers.reset(alive);
        }
        let threads = launch.block.iter().product::<u32>();
        self.cluster.reset(threads * self.blocks.len() as u32);
        Ok(())
    }

    /// Runs until all threads have exited, or nothing but polling happens.
    pub fn run(&mut self, launch: &Launch) -> UnitState {
        let mut polling = 0;
        loop {
            let (mut running, mut progress, mut busy) = (false, false, false);
            for b in 0..self.blocks.len() {
                for w in 0..self.blocks[b].warps.len() {
                    let warp = &mut self.blocks[b].warps[w];
                    if warp.paths.is_empty() {
                        continue;
                    }
                    let before = warp.steps;
                    let pause = warp.run(QUANTUM.min(launch.limit_left() + 1));
                    let steps = warp.steps - before;
                    progress |= steps > 0;
                    match pause {
                        Pause::Done => busy = true,
                        Pause::Blocked => running = true,
                        Pause::Spin => (running, progress) = (true, true),
                        Pause::Quantum => (running, busy) = (true, true),
                        Pause::Fault => {
                            return UnitState::Fault(Box::new(self.fault_of(launch, b, w)));
                        }
                    }
                    if let Some(kind) = launch.account(steps) {
                        let kind = Some(kind);
                        return UnitState::Fault(Box::new(self.fault(launch, b, w, None, kind)));
                    }
                }
            }
            if !running && self.blocks.iter().all(Block::done) {
                return UnitState::Done;
            }
            if !progress {
                return UnitState::Fault(Box::new(self.deadlock(launch)));
            }
            polling = if busy { 0 } else { polling + 1 };
            if busy {
                self.watch = Watch::default();
            }
            // Who polled the last time, too, goes on polling most likely.
            let rounds = if self.watch.is_new() { ROUNDS } else { 1 };
            if polling >= rounds && self.polls() {
                if self.watch.polled(&self.blocks) {
                    return UnitState::Fault(Box::new(self.deadlock(launch)));
                }
                return UnitState::Spinning;
            }
        }
    }

    /// Whether something is not just waiting at a barrier.
    fn polls(&self) -> bool {
        let paths = |warp: &Warp| warp.paths.iter().any(|p| p.state == State::Ready);
        self.blocks.iter().any(|b| b.warps.iter().any(paths))
    }

    /// Adds what it did to a tally, and forgets it.
    pub fn take(&mut self, tally: &mut Tally) {
        for block in &mut self.blocks {
            tally.blocks += 1;
            for warp in &mut block.warps {
                let counts = std::mem::take(&mut warp.counts);
                tally.counts.add(&counts);
                tally.thread_instructions += std::mem::take(&mut warp.thread_instructions);
            }
            if let Some(shadow) = block.shared.racecheck.take() {
                tally.races.extend(shadow.into_races());
            }
        }
    }

    fn fault_of(&mut self, launch: &Launch, block: usize, warp: usize) -> Fault {
        let raised = self.blocks[block].warps[warp].raised.take();
        let (lane, kind) = raised.map_or((None, None), |r| (Some(r.0), Some(r.1)));
        self.fault(launch, block, warp, lane, kind)
    }

    fn fault(
        &self,
        launch: &Launch,
        block: usize,
        warp: usize,
        lane: Option<usize>,
        kind: Option<FaultKind>,
    ) -> Fault {
        let block = &self.blocks[block];
        let warp = &block.warps[warp];
        let code = warp.code();
        let instruction = code
            .ops
            .get(warp.pc as usize)
            .map_or(0, |op| op.instruction);
        let place = launch.place(code.function, instruction);
        Fault {
            kind: kind.unwrap_or_else(|| FaultKind::Internal("a fault without a reason".into())),
            kernel: launch.kernel_name().to_owned(),
            function: (!code.entry).then(|| launch.function_name(code.function).to_owned()),
            block: Some(block.shared.index),
            thread: lane.map(|lane| warp.thread(lane)),
            pos: place.as_ref().map(|p| p.0),
            instruction: place.map(|p| p.1),
        }
    }

    /// Everybody waits: says who, and where.
    fn deadlock(&self, launch: &Launch) -> Fault {
        let mut text = String::new();
        let mut first = None;
        for block in &self.blocks {
            for warp in block.warps.iter().filter(|w| !w.paths.is_empty()) {
                for path in &warp.paths {
                    let Some(frame) = warp.frames.get(path.frame as usize) else {
                        continue;
                    };
                    // SAFETY: code lives as long as the launch.
                    let code = unsafe { &*frame.code };
                    let op = code.ops.get(path.pc as usize);
                    let place = launch.place(code.function, op.map_or(0, |op| op.instruction));
                    let Some((pos, instruction)) = place else {
                        continue;
                    };
                    if first.is_none() {
                        first = Some((block.shared.index, pos, instruction.clone()));
                    }
                    if text.len() > 1500 {
                        continue;
                    }
                    if !text.is_empty() {
                        text.push_str("; ");
                    }
                    let _ = write!(
                        text,
                        "block {:?} warp {} lanes {:#010x} at {pos} ({instruction})",
                        block.shared.index, warp.index, path.mask
                    );
                    match path.state {
                        State::Barrier(id, _) => {
                            let (arrived, expected) = block.shared.barriers.waiting(id.into());
                            let _ = match expected {
                                Some(n) => write!(text, ": {arrived} of {n} threads arrived"),
                                None => write!(text, ": {arrived} threads of the block arrived"),
                            };
                        }
                        State::Sync(wanted) => {
                            let missing = wanted & warp.alive() & !path.mask;
                            let _ = write!(text, ": lanes {missing:#010x} do not come");
                        }
                        State::Ready => text.push_str(": polls what nobody changes any more"),
                        _ => {}
                    }
                }
            }
        }
        let (block, pos, instruction) = match first {
            Some((block, pos, instruction)) => (Some(block), Some(pos), Some(instruction)),
            None => (None, None, None),
        };
        Fault {
            kind: FaultKind::Deadlock(text),
            kernel: launch.kernel_name().to_owned(),
            function: None,
            block,
            thread: None,
            pos,
            instruction,
        }
    }
}

impl Block {
    fn done(&self) -> bool {
        self.warps.iter().all(|w| w.paths.is_empty())
    }
}
