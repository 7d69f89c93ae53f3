//! Which path of a warp runs next, and the loop that runs it.
//!
//! The path with the lowest next op runs, of the deepest call first: then lanes that took different ways meet where the
//! ways meet. Lanes at the same op of the same call are one path. A path that polls memory many times in a
//! loop gives way to the one that ran longest ago, so that lanes of a warp can wait for each other; then other
//! warps and blocks get their turn.

use super::warp::{Path, State, Warp};
use crate::exec::Flow;

/// Why a warp stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All lanes have exited.
    Done,
    /// No path can go on.
    Blocked,
    /// It polls, or asked to let others run.
    Spin,
    /// It has run for long enough.
    Quantum,
    /// A fault was raised.
    Fault,
}

/// Possible polls in a loop after which others get their turn.
const POLLS: u32 = 24;

impl Warp {
    /// Runs until it cannot go on, polls, or has executed some `quantum` of ops.
    pub fn run(&mut self, quantum: u64) -> Pause {
        let limit = self.steps + quantum;
        self.spins = 0;
        let mut rotate = false;
        for path in &mut self.paths {
            if path.state == State::Retry {
                path.state = State::Ready;
            }
        }
        let mut turns = 0;
        loop {
            if !self.choose(rotate) {
                return match self.paths.is_empty() {
                    true => Pause::Done,
                    false => Pause::Blocked,
                };
            }
            rotate = false;
            let before = self.steps;
            let end = self.execute(limit);
            if let Some(path) = self.paths.get_mut(self.current) {
                path.last = self.steps;
            }
            match end {
                End::Fault => return Pause::Fault,
                End::Choose => {}
                End::Retry => {
                    if self.steps == before {
                        // Nothing was done: its turn comes when another path has done something.
                        continue;
                    }
                }
                End::Yield => return Pause::Spin,
                End::Turn => {
                    // Polling paths of one warp take turns; then the others of the block.
                    turns += 1;
                    self.spins = 0;
                    if self.paths.len() < 2 || turns >= 2 * self.paths.len() {
                        return if self.steps >= limit {
                            Pause::Quantum
                        } else {
                            Pause::Spin
                        };
                    }
                    if self.steps >= limit {
                        return Pause::Quantum;
                    }
                    rotate = true;
                }
            }
            if self.steps != before {
                for path in &mut self.paths {
                    if path.state == State::Retry {
                        path.state = State::Ready;
                    }
                }
                if end == End::Retry
                    && let Some(path) = self.paths.get_mut(self.current)
                {
                    path.state = State::Retry;
                }
            }
        }
    }

    /// Merges paths that are at the same op, and makes one that can run the current one.
    fn choose(&mut self, rotate: bool) -> bool {
        if self.paths.len() == 1 {
            return self.choose_only();
        }
        self.wake();
        self.merge();
        let mut best: Option<(usize, (u64, u32, u32))> = None;
        for (i, path) in self.paths.iter().enumerate() {
            if !self.can_run(path) {
                continue;
            }
            let depth = self.frames.get(path.frame as usize).map_or(0, |f| f.depth);
            let age = if rotate { path.last } else { 0 };
            let key = (age, u32::MAX - depth, path.pc);
            if best.is_none_or(|(_, k)| key < k) {
                best = Some((i, key));
            }
        }
        if best.is_none() && self.release() {
            return self.choose(rotate);
        }
        let Some((i, _)) = best else {
            return false;
        };
        self.make_current(i);
        true
    }

    /// As `choose`, of a warp with one path.
    fn choose_only(&mut self) -> bool {
        self.wake();
        let path = self.paths[0];
        if !self.can_run(&path) && !self.release() {
            return false;
        }
        self.make_current(0);
        true
    }

    fn can_run(&self, path: &Path) -> bool {
        match path.state {
            State::Ready | State::Released => true,
            State::Sync(wanted) => wanted & self.alive() & !path.mask == 0,
            State::Retry | State::Barrier(..) => false,
        }
    }

    fn make_current(&mut self, i: usize) {
        let path = self.paths[i];
        self.current = i;
        self.pc = path.pc;
        self.active = path.mask;
        self.released = path.state == State::Released;
        self.paths[i].state = State::Ready;
        if path.frame as usize != self.frame {
            self.enter(path.frame as usize);
        }
        self.stop = self
            .paths
            .iter()
            .filter(|p| {
                p.frame == path.frame && p.pc > path.pc && !matches!(p.state, State::Barrier(..))
            })
            .map(|p| p.pc)
            .min()
            .unwrap_or(u32::MAX);
    }

    /// Paths whose barrier completed go on behind it.
    fn wake(&mut self) {
        for i in 0..self.paths.len() {
            if let State::Barrier(id, generation) = self.paths[i].state {
                let barriers = &self.block().barriers;
                if barriers.generation(id as usize) != generation {
                    let path = &mut self.paths[i];
                    path.state = State::Ready;
                    path.pc += 1;
                    let path = *path;
                    self.barrier_result(path, id, generation);
                }
            }
        }
    }

    /// Paths at the same op of the same call become one.
    fn merge(&mut self) {
        let mut i = 0;
        while i < self.paths.len() {
            let mut j = i + 1;
            while j < self.paths.len() {
                let (a, b) = (self.paths[i], self.paths[j]);
                let meet = a.pc == b.pc
                    && a.frame == b.frame
                    && !matches!(a.state, State::Barrier(..) | State::Released)
                    && !matches!(b.state, State::Barrier(..) | State::Released);
                if meet {
                    self.paths[i].mask |= b.mask;
                    self.paths[i].state = State::Ready;
                    self.paths[i].last = a.last.min(b.last);
                    self.paths.swap_remove(j);
                } else {
                    j += 1;
                }
            }
            i += 1;
        }
    }

    /// Lanes that wait at different ops for each other, and are all that are wanted, are released.
    #[cold]
    fn release(&mut self) -> bool {
        let waiting = self
            .paths
            .iter()
            .filter(|p| matches!(p.state, State::Sync(_)))
            .fold(0, |mask, p| mask | p.mask);
        let alive = self.alive();
        let mut any = false;
        for path in &mut self.paths {
            if let State::Sync(wanted) = path.state
                && wanted & alive & !waiting == 0
            {
                path.state = State::Released;
                any = true;
            }
        }
        any
    }

    /// Runs the current path.
    fn execute(&mut self, limit: u64) -> End {
        loop {
            let code = self.code();
            let ops = code.ops.as_ptr();
            let lanes = u64::from(self.active.count_ones());
            let active = self.active;
            let mut pc = self.pc;
            let stop = self.stop;
            let flow = loop {
                if pc == stop {
                    self.save(pc);
                    return End::Choose;
                }
                // SAFETY: a path's op is an op of its frame's code: targets are checked when they are decoded, and the last
                // op never goes on to the next.
                let op = unsafe { &*ops.add(pc as usize) };
                self.pc = pc;
                let weight = u64::from(op.weight);
                self.steps += weight;
                self.thread_instructions += weight * lanes;
                self.counts.by_class[op.class as usize] += weight;
                let mask = active & (self.predicate(op.guard) ^ op.guard_flip);
                if mask != 0 {
                    // SAFETY: an op of this code, decoded for this host.
                    let flow = unsafe { (op.run)(self, op, mask) };
                    if flow != Flow::Next {
                        break flow;
                    }
                }
                pc += 1;
            };
            self.released = false;
            match flow {
                Flow::Jump => {
                    let back = self.pc <= pc;
                    if back && (self.spins > POLLS || self.steps >= limit) {
                        self.save(self.pc);
                        return End::Turn;
                    }
                    if self.paths.len() > 1 && (back || self.pc >= stop) {
                        self.save(self.pc);
                        return End::Choose;
                    }
                }
                Flow::Switch => return End::Choose,
                Flow::Next => self.pc = pc + 1,
                Flow::Yield => {
                    self.save(pc + 1);
                    return End::Yield;
                }
                Flow::Retry => {
                    // SAFETY: as above.
                    let op = unsafe { &*ops.add(pc as usize) };
                    let weight = u64::from(op.weight);
                    self.steps -= weight;
                    self.thread_instructions -= weight * lanes;
                    self.counts.by_class[op.class as usize] -= weight;
                    let mask = active & (self.predicate(op.guard) ^ op.guard_flip);
                    self.split_off(mask);
                    self.paths[self.current].state = State::Retry;
                    return End::Retry;
                }
                Flow::Fault => {
                    self.save(pc);
                    return End::Fault;
                }
            }
        }
    }

    fn save(&mut self, pc: u32) {
        if let Some(path) = self.paths.get_mut(self.current) {
            path.pc = pc;
            path.mask = self.active;
        }
        self.pc = pc;
    }
}

/// Why the current path stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Paths met, split, or changed.
    Choose,
    /// Its op could not be done yet.
    Retry,
    /// It asked to let others run.
    Yield,
    /// It polled often enough, or ran long enough.
    Turn,
    /// A fault was raised.
    Fault,
}
