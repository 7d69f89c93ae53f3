//! Races on the shared memory of a block.
//!
//! Every byte remembers who wrote it last and who has read it since: at most two readers of different warps, which is
//! enough to find one that is not the next writer. *When* is told by vector clocks, one for each warp: a barrier joins
//! the clocks of the warps that take part, so named barriers and producer/consumer pairs (`bar.arrive`) are ordered as
//! they should be, and only among those that take part.
//!
//! What counts as ordered:
//! - accesses of one warp by different instructions: lanes run in lock-step here, and `volatile` warp-synchronous code
//!   relied on that for ten years. Lanes of *one* instruction that write different values to one byte do race;
//! - what a barrier or an mbarrier separates;
//! - what passes through an atomic, `volatile`, `relaxed`, `acquire` or `release` access of the same location: it hands on
//!   the clock, and such accesses do not race with each other. (The ISA asks for fences with relaxed ones. They are
//!   taken for granted.)
//!
//! Accesses to the memory of another block of a cluster are not watched.

use crate::fault::Race;
use r3_ptx::source::Pos;
use std::collections::{HashMap, HashSet};

/// Races kept of one block. More say nothing new.
const KEPT: usize = 64;

/// Warps of a block.
const WARPS: usize = 32;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A plain load.
    Read,
    /// A plain store.
    Write,
    /// A load with an order, or a volatile one.
    OrderedRead,
    /// A store with an order, or a volatile one.
    OrderedWrite,
    /// An atomic.
    Atomic,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::OrderedWrite | Self::Atomic)
    }

    fn ordered(self) -> bool {
        !matches!(self, Self::Read | Self::Write)
    }
}

type Clock = [u32; WARPS];

/// One remembered access; `clock` 0 is none.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    clock: u32,
    thread: u16,
    ordered: bool,
    pos: Pos,
}

impl Mark {
    fn warp(&self) -> usize {
        usize::from(self.thread) / 32 % WARPS
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    writer: Mark,
    readers: [Mark; 2],
}

/// Shadow of a block's shared memory.
#[derive(Debug)]
pub struct Shadow {
    block: [u32; 3],
    threads: [u32; 3],
    clocks: Vec<Clock>,
    cells: Vec<Cell>,
    /// Clocks that atomics and ordered accesses hand on, by location.
    handed: HashMap<u32, Clock>,
    seen: HashSet<[Pos; 2]>,
    races: Vec<Race>,
}

impl Shadow {
    /// For the block at `block`, of `threads`, with so many bytes of shared memory.
    pub fn new(block: [u32; 3], threads: [u32; 3], shared_bytes: u32) -> Self {
        let clocks = (0..WARPS)
            .map(|w| {
                let mut clock = [0; WARPS];
                clock[w] = 1;
                clock
            })
            .collect();
        Self {
            block,
            threads,
            clocks,
            cells: vec![Cell::default(); shared_bytes as usize],
            handed: HashMap::new(),
            seen: HashSet::new(),
            races: Vec::new(),
        }
    }

    /// A lane of a warp touches `len` bytes at `offset`. Bytes beyond the end are ignored: they are faults.
    pub fn access(
        &mut self,
        warp: u32,
        lane: u32,
        offset: u32,
        len: u32,
        access: Access,
        pos: Pos,
    ) {
        let w = warp as usize % WARPS;
        if access.ordered()
            && let Some(handed) = self.handed.get(&offset)
        {
            join(&mut self.clocks[w], handed);
        }
        let now = self.clocks[w];
        let mark = Mark {
            clock: now[w],
            thread: (w as u16) * 32 + (lane % 32) as u16,
            ordered: access.ordered(),
            pos,
        };
        let mut found = None;
        for at in offset..offset.saturating_add(len) {
            let Some(cell) = self.cells.get_mut(at as usize) else {
                break;
            };
            let races = |old: &Mark| {
                old.clock != 0
                    && old.warp() != w
                    && now[old.warp()] < old.clock
                    && !(old.ordered && mark.ordered)
            };
            if races(&cell.writer) {
                found = found.or(Some((at, cell.writer, true)));
            }
            if access.writes() {
                for reader in &cell.readers {
                    if races(reader) {
                        found = found.or(Some((at, *reader, false)));
                    }
                }
                *cell = Cell {
                    writer: mark,
                    readers: Default::default(),
                };
            } else {
                // One that this read is ordered behind is no longer needed: who races with it races with this too.
                let known = |old: &Mark| now[old.warp()] >= old.clock;
                let [a, b] = &mut cell.readers;
                *(if known(a) { a } else { b }) = mark;
            }
        }
        if let Some((at, old, wrote)) = found {
            self.report(at, old, wrote, mark, access.writes());
        }
        if access.ordered() && access.writes() {
            // What this warp did until now is visible to who sees the location; what it does next is not.
            let clock = self.clocks[w];
            join(self.handed.entry(offset).or_insert([0; WARPS]), &clock);
            self.clocks[w][w] += 1;
        }
    }

    /// Two lanes of one store wrote different values to `offset`.
    pub fn same_store(&mut self, warp: u32, lanes: [u32; 2], offset: u32, pos: Pos) {
        let [a, b] = lanes.map(|lane| Mark {
            clock: 1,
            thread: (warp * 32 + lane) as u16,
            ordered: false,
            pos,
        });
        self.report(offset, a, true, b, true);
    }

    /// A barrier is complete: `arrived` (a bit for each warp) came, `waiting` go on.
    pub fn barrier(&mut self, arrived: u32, waiting: u32) {
        let all = WARPS as u32;
        let mut joined = [0; WARPS];
        for w in (0..all).filter(|w| (arrived | waiting) >> w & 1 != 0) {
            join(&mut joined, &self.clocks[w as usize]);
        }
        for w in (0..all).filter(|w| (arrived | waiting) >> w & 1 != 0) {
            let clock = &mut self.clocks[w as usize];
            if waiting >> w & 1 != 0 {
                *clock = joined;
            }
            clock[w as usize] += 1;
        }
    }

    /// A warp arrives at the mbarrier at `offset`: what it did is visible to those that wait there.
    pub fn release(&mut self, warp: u32, offset: u32) {
        let w = warp as usize % WARPS;
        let clock = self.clocks[w];
        join(self.handed.entry(offset).or_insert([0; WARPS]), &clock);
        self.clocks[w][w] += 1;
    }

    /// A warp has seen a phase of the mbarrier at `offset` complete.
    pub fn acquire(&mut self, warp: u32, offset: u32) {
        if let Some(handed) = self.handed.get(&offset) {
            join(&mut self.clocks[warp as usize % WARPS], handed);
        }
    }

    /// What was found.
    pub fn into_races(self) -> Vec<Race> {
        self.races
    }

    fn report(&mut self, offset: u32, old: Mark, old_wrote: bool, new: Mark, new_wrote: bool) {
        // Two places once, in whatever order they raced.
        let pair = [old.pos.min(new.pos), old.pos.max(new.pos)];
        if self.races.len() >= KEPT || !self.seen.insert(pair) {
            return;
        }
        let [x, y, _] = self.threads.map(|n| n.max(1));
        let place = |m: &Mark| {
            let t = u32::from(m.thread);
            [t % x, t / x % y, t / x / y]
        };
        self.races.push(Race {
            block: self.block,
            offset,
            threads: [place(&old), place(&new)],
            pos: [old.pos, new.pos],
            writes: [old_wrote, new_wrote],
        });
    }
}

fn join(into: &mut Clock, other: &Clock) {
    for (a, b) in into.iter_mut().zip(other) {
        *a = (*a).max(*b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32) -> Pos {
        Pos { line, column: 1 }
    }

    fn shadow() -> Shadow {
        Shadow::new([1, 0, 0], [64, 1, 1], 1024)
    }

    #[test]
    fn a_write_and_a_read_of_another_warp_race_without_a_barrier() {
        let mut s = shadow();
        s.access(0, 3, 100, 4, Access::Write, at(1));
        s.access(1, 2, 103, 1, Access::Read, at(2));
        let races = s.into_races();
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].offset, 103);
        assert_eq!(races[0].threads, [[3, 0, 0], [34, 0, 0]]);
        assert_eq!(races[0].writes, [true, false]);
        assert_eq!(races[0].pos, [at(1), at(2)]);
    }

    #[test]
    fn a_barrier_orders_and_only_those_that_take_part() {
        let mut s = shadow();
        s.access(0, 0, 0, 4, Access::Write, at(1));
        s.barrier(0b11, 0b11);
        s.access(1, 0, 0, 4, Access::Write, at(2));
        s.barrier(0b101, 0b101);
        s.access(0, 0, 0, 4, Access::Read, at(3));
        let races = s.into_races();
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].pos, [at(2), at(3)]);
    }

    #[test]
    fn arriving_without_waiting_orders_one_way() {
        let mut s = shadow();
        s.access(0, 0, 0, 4, Access::Write, at(1));
        s.access(1, 0, 8, 4, Access::Write, at(2));
        s.barrier(0b11, 0b10);
        s.access(1, 0, 0, 4, Access::Read, at(3));
        s.access(0, 0, 8, 4, Access::Read, at(4));
        let races = s.into_races();
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].pos, [at(2), at(4)]);
    }

    #[test]
    fn a_write_after_reads_of_several_warps_races_with_one_of_them() {
        let mut s = shadow();
        s.access(0, 0, 0, 4, Access::Read, at(1));
        s.access(1, 0, 0, 4, Access::Read, at(2));
        s.access(0, 5, 0, 4, Access::Write, at(3));
        assert_eq!(s.into_races()[0].pos, [at(2), at(3)]);
    }

    #[test]
    fn a_reader_of_before_the_barrier_does_not_hide_one_of_after_it() {
        let mut s = shadow();
        s.access(0, 0, 0, 4, Access::Read, at(1));
        s.barrier(0b111, 0b111);
        s.access(1, 0, 0, 4, Access::Read, at(2));
        s.access(2, 0, 0, 4, Access::Read, at(3));
        s.access(2, 0, 0, 4, Access::Write, at(4));
        assert_eq!(s.into_races()[0].pos, [at(2), at(4)]);
    }

    #[test]
    fn atomics_do_not_race_with_each_other_but_with_plain_stores() {
        let mut s = shadow();
        s.access(0, 0, 0, 4, Access::Atomic, at(1));
        s.access(1, 0, 0, 4, Access::Atomic, at(2));
        s.access(0, 0, 64, 4, Access::Write, at(3));
        s.access(1, 0, 64, 4, Access::Atomic, at(4));
        let races = s.into_races();
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].pos, [at(3), at(4)]);
    }

    #[test]
    fn a_lock_orders_what_it_protects() {
        let mut s = shadow();
        for (warp, line) in [(0, 1), (1, 2)] {
            s.access(warp, 0, 512, 4, Access::Atomic, at(10));
            s.access(warp, 0, 0, 4, Access::Write, at(line));
            s.access(warp, 0, 512, 4, Access::OrderedWrite, at(11));
        }
        assert_eq!(s.into_races(), []);
    }
}
