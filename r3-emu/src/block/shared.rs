//! What the threads of a block share, and the blocks of a cluster.

use super::barrier::{Arrival, Barriers};
use super::{Buffer, NoMemory, special};
use crate::run::Launch;
use r3_ptx::isa::SpecialRegister as S;

/// What the threads of a block share.
pub(crate) struct BlockShared {
    /// Index of the block in the grid.
    pub index: [u32; 3],
    /// Its number, x fastest.
    pub number: u64,
    /// Its rank in its cluster.
    pub rank: u32,
    /// Barriers.
    pub barriers: Barriers,
    /// Shadow of shared memory, when races are looked for.
    pub racecheck: Option<Box<crate::memory::racecheck::Shadow>>,
    memory: Buffer,
    slots: Buffer,
    cluster: *mut ClusterShared,
}

/// What the blocks of a cluster share.
#[derive(Debug, Default)]
pub(crate) struct ClusterShared {
    /// Blocks, by rank.
    pub blocks: Vec<*mut BlockShared>,
    /// `barrier.cluster`: threads that have not exited, of all blocks.
    pub alive: u32,
    /// Threads that have arrived.
    pub arrived: u32,
    /// How many times all had arrived.
    pub phase: u32,
}

impl ClusterShared {
    /// A new cluster with so many threads.
    pub fn reset(&mut self, threads: u32) {
        self.alive = threads;
        self.arrived = 0;
        self.phase = 0;
    }

    /// Arrivals of `barrier.cluster`, or exits, may have completed its phase.
    pub fn settle(&mut self) {
        if self.arrived >= self.alive && self.arrived > 0 {
            self.arrived = 0;
            self.phase = self.phase.wrapping_add(1);
        }
    }
}

impl BlockShared {
    /// A block of `warps` warps with `bytes` of shared memory.
    pub fn new(
        bytes: usize,
        warps: usize,
        rank: u32,
        cluster: *mut ClusterShared,
    ) -> Result<Self, NoMemory> {
        Ok(Self {
            index: [0; 3],
            number: 0,
            rank,
            barriers: Barriers::new(warps),
            racecheck: None,
            memory: Buffer::new(bytes)?,
            slots: Buffer::new(special::BLOCK_BYTES)?,
            cluster,
        })
    }

    /// Makes it the block at `index`.
    pub fn reset(&mut self, launch: &Launch, index: [u32; 3]) {
        let [gx, gy, gz] = launch.grid;
        let [cx, cy, cz] = launch.cluster;
        let [bx, by, bz] = launch.block;
        self.index = index;
        self.number = u64::from(index[0])
            + u64::from(gx) * (u64::from(index[1]) + u64::from(gy) * u64::from(index[2]));
        self.memory.clear();
        let in_cluster = [index[0] % cx, index[1] % cy, index[2] % cz];
        let values = [
            (S::NtidX, bx),
            (S::NtidY, by),
            (S::NtidZ, bz),
            (S::CtaidX, index[0]),
            (S::CtaidY, index[1]),
            (S::CtaidZ, index[2]),
            (S::NctaidX, gx),
            (S::NctaidY, gy),
            (S::NctaidZ, gz),
            (S::ClusteridX, index[0] / cx),
            (S::ClusteridY, index[1] / cy),
            (S::ClusteridZ, index[2] / cz),
            (S::NclusteridX, gx / cx),
            (S::NclusteridY, gy / cy),
            (S::NclusteridZ, gz / cz),
            (S::ClusterCtaidX, in_cluster[0]),
            (S::ClusterCtaidY, in_cluster[1]),
            (S::ClusterCtaidZ, in_cluster[2]),
            (S::ClusterNctaidX, cx),
            (S::ClusterNctaidY, cy),
            (S::ClusterNctaidZ, cz),
            (S::ClusterCtarank, self.rank),
            (S::ClusterNctarank, cx * cy * cz),
            (S::NwarpId, (bx * by * bz).div_ceil(32)),
            // One multiprocessor for each block, as many as a big GPU has.
            (S::SmId, (self.number % u64::from(SM_COUNT)) as u32),
            (S::NsmId, SM_COUNT),
            (S::TotalSmemSize, self.memory.len() as u32),
            (S::AggrSmemSize, self.memory.len() as u32),
            (S::DynamicSmemSize, launch.dynamic_shared),
            (S::Envreg(1), (launch.workspace >> 32) as u32),
            (S::Envreg(2), launch.workspace as u32),
        ];
        for (register, value) in values {
            special::fill(self.slots.start(), register, u64::from(value));
        }
        special::fill(self.slots.start(), S::GridId, launch.id);
        let explicit = if launch.cluster == [1, 1, 1] {
            0
        } else {
            u32::MAX
        };
        // SAFETY: the slot lies in the memory of slots.
        unsafe {
            let at = self.slots.start().add(special::EXPLICIT_CLUSTER.offset());
            at.cast::<u32>().write(explicit);
        }
    }

    /// Lanes arrive at a barrier.
    pub fn arrive(&mut self, id: usize, waits: bool, arrival: Arrival) {
        if let Some(done) = self.barriers.arrive(id, waits, arrival)
            && let Some(shadow) = &mut self.racecheck
        {
            shadow.barrier(done.arrived, done.waiting);
        }
    }

    /// Lanes of a warp exit.
    pub fn exit(&mut self, warp: usize, mask: u32) {
        let shadow = &mut self.racecheck;
        self.barriers.exit(warp, mask, |done| {
            if let Some(shadow) = shadow {
                shadow.barrier(done.arrived, done.waiting);
            }
        });
    }

    /// Its shared memory.
    #[inline(always)]
    pub fn shared(&self) -> (*mut u8, usize) {
        (self.memory.start(), self.memory.len())
    }

    /// The cluster.
    #[inline(always)]
    pub fn cluster<'c>(&mut self) -> &'c mut ClusterShared {
        // SAFETY: the unit owns both; one host thread runs all of it.
        unsafe { &mut *self.cluster }
    }

    /// The cluster, to look at.
    pub(super) fn cluster_ref(&self) -> &ClusterShared {
        // SAFETY: as in `cluster`.
        unsafe { &*self.cluster }
    }

    /// The bytes of its shared memory.
    pub(super) fn buffer(&self) -> &Buffer {
        &self.memory
    }

    /// Another block of the cluster, or this one.
    #[inline(always)]
    pub fn peer<'c>(&mut self, rank: u32) -> Option<&'c mut BlockShared> {
        let peer = *self.cluster().blocks.get(rank as usize)?;
        // SAFETY: as in `cluster`.
        Some(unsafe { &mut *peer })
    }

    /// Memory of the special registers.
    pub fn slots(&self) -> *mut u8 {
        self.slots.start()
    }
}

/// Multiprocessors that `%nsmid` tells.
const SM_COUNT: u32 = 132;
