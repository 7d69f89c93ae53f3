//! The 16 barriers of a block.

/// How many barriers a block has.
pub(crate) const BARRIERS: usize = 16;

/// What lanes bring to a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The warp.
    pub warp: usize,
    /// Its lanes.
    pub mask: u32,
    /// Threads after which the barrier completes; `None`: all of the block.
    pub expected: Option<u32>,
    /// Lanes whose predicate is true (`bar.red`).
    pub votes: u32,
}

/// The warps, a bit for each, that were at a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Those that arrived.
    pub arrived: u32,
    /// Those of them that waited.
    pub waiting: u32,
}

/// The state of one barrier.
#[derive(Debug, Default)]
struct Barrier {
    /// Lanes that arrived, by warp.
    arrived: Vec<u32>,
    any: bool,
    who: Completed,
    expected: Option<u32>,
    /// Threads that arrived again before it completed.
    again: u32,
    trues: u32,
    voters: u32,
    generation: u32,
    /// Votes of the last generations: how many were true, how many voted.
    results: [(u32, u32); 4],
}

/// The barriers of a block, and which of its threads are alive.
#[derive(Debug)]
pub(crate) struct Barriers {
    alive: Vec<u32>,
    barriers: [Barrier; BARRIERS],
}

impl Barriers {
    /// For so many warps.
    pub fn new(warps: usize) -> Self {
        let mut barriers: [Barrier; BARRIERS] = Default::default();
        for barrier in &mut barriers {
            barrier.arrived = vec![0; warps];
        }
        Self {
            alive: vec![0; warps],
            barriers,
        }
    }

    /// A new block, in which these lanes are alive.
    pub fn reset(&mut self, alive: impl Iterator<Item = u32>) {
        self.alive.clear();
        self.alive.extend(alive);
        for barrier in &mut self.barriers {
            barrier.complete();
        }
    }

    /// Adds their state to a hash.
    pub(super) fn hash(&self, hash: &mut super::stuck::Hash) {
        for barrier in &self.barriers {
            barrier.arrived.iter().for_each(|&n| hash.word(n.into()));
            let counts = [barrier.again, barrier.trues, barrier.voters];
            counts.iter().for_each(|&n| hash.word(n.into()));
            hash.word(u64::from(barrier.generation) << 1 | u64::from(barrier.any));
            hash.word(barrier.expected.map_or(u64::MAX, u64::from));
        }
    }

    /// How often a barrier completed.
    pub fn generation(&self, id: usize) -> u32 {
        self.barriers[id % BARRIERS].generation
    }

    /// Of the generation that completed behind `generation`: how many votes were true, and how many there were.
    pub fn result(&self, id: usize, generation: u32) -> (u32, u32) {
        self.barriers[id % BARRIERS].results[generation as usize % 4]
    }

    /// Lanes that have arrived and how many threads are expected, for messages.
    pub fn waiting(&self, id: usize) -> (u32, Option<u32>) {
        let barrier = &self.barriers[id % BARRIERS];
        let arrived = barrier.arrived.iter().map(|m| m.count_ones()).sum();
        (arrived, barrier.expected)
    }

    /// Lanes arrive, and wait or not. Who came, when that completes the barrier.
    pub fn arrive(&mut self, id: usize, waits: bool, arrival: Arrival) -> Option<Completed> {
        let barrier = &mut self.barriers[id % BARRIERS];
        let all = 32 * self.alive.len() as u32;
        // A count of all threads is the same as none: threads that exit do not hold it up.
        barrier.expected = arrival.expected.filter(|&n| n < all);
        barrier.any = true;
        let (trues, voters) = (arrival.votes & arrival.mask, arrival.mask);
        barrier.trues = barrier.trues.saturating_add(trues.count_ones());
        barrier.voters = barrier.voters.saturating_add(voters.count_ones());
        let warp = 1u32.checked_shl(arrival.warp as u32).unwrap_or(0);
        barrier.who.arrived |= warp;
        if waits {
            barrier.who.waiting |= warp;
        }
        let who = barrier.who;
        if let Some(arrived) = barrier.arrived.get_mut(arrival.warp) {
            let again = *arrived & arrival.mask;
            if again == 0 {
                *arrived |= arrival.mask;
            } else if self.alive.get(arrival.warp) == Some(&arrival.mask) {
                barrier.again = barrier.again.saturating_add(32);
            } else {
                barrier.again = barrier.again.saturating_add(arrival.mask.count_ones());
            }
        }
        barrier.settle(&self.alive).then_some(who)
    }

    /// Lanes exit. They count as arrived. `completed` hears of barriers that completes.
    pub fn exit(&mut self, warp: usize, mask: u32, mut completed: impl FnMut(Completed)) {
        if let Some(alive) = self.alive.get_mut(warp) {
            *alive &= !mask;
        }
        for barrier in &mut self.barriers {
            let who = barrier.who;
            if barrier.any && barrier.settle(&self.alive) {
                completed(who);
            }
        }
    }
}

impl Barrier {
    /// Completes the barrier when enough have arrived.
    fn settle(&mut self, alive: &[u32]) -> bool {
        let pairs = self.arrived.iter().zip(alive);
        let done = match self.expected {
            None => pairs.clone().all(|(arrived, alive)| alive & !arrived == 0),
            Some(expected) => {
                // A warp all of whose lanes have arrived counts as 32, as the missing and exited ones count too.
                let threads: u32 = pairs
                    .map(|(&arrived, alive)| match (arrived, alive & !arrived) {
                        (0, _) => 0,
                        (_, 0) => 32,
                        _ => arrived.count_ones(),
                    })
                    .sum();
                threads.saturating_add(self.again) >= expected
            }
        };
        if done {
            self.complete();
        }
        done
    }

    fn complete(&mut self) {
        self.results[self.generation as usize % 4] = (self.trues, self.voters);
        self.generation = self.generation.wrapping_add(1);
        self.arrived.fill(0);
        self.any = false;
        self.who = Completed::default();
        self.expected = None;
        self.again = 0;
        self.trues = 0;
        self.voters = 0;
    }
}
