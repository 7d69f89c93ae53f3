//! A warp: its lanes' registers, the paths that its lanes are on, and what handlers ask it.

use super::shared::BlockShared;
use super::special::Dynamic;
use super::{Buffer, NoMemory, special};
use crate::decode::Code;
use crate::exec::{Flow, LANES, Op, Slot};
use crate::fault::FaultKind;
use crate::launch::Counts;
use crate::memory::View;
use crate::run::Launch;
use r3_ptx::isa::SpecialRegister;
use r3_ptx::source::Pos;
use std::any::Any;

/// Most bytes of local memory of a thread, its calls' together: what a GPU allows.
pub(crate) const LOCAL_LIMIT: u32 = 512 << 10;

/// Lanes that are at the same place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The next op.
    pub pc: u32,
    /// The lanes.
    pub mask: u32,
    /// Index of the frame that they run in.
    pub frame: u32,
    /// Whether they can go on.
    pub state: State,
    /// When it ran last, for fairness.
    pub last: u64,
}

/// Whether a path can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Yes.
    Ready,
    /// It waits at its op for lanes of this mask that are elsewhere.
    Sync(u32),
    /// As above, and it may go on with the lanes it has.
    Released,
    /// Its op was tried and asked to be tried again.
    Retry,
    /// It arrived at a barrier: id, and the barrier's generation then.
    Barrier(u8, u32),
}

/// A call: registers, and who called. Lanes that call the same function from the same frame share one, also when they
/// call at different times, so that they can meet in it.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The code that runs. It lives as long as the launch.
    pub code: *const Code,
    /// Registers.
    pub registers: Buffer,
    /// Index of the caller's frame.
    pub parent: u32,
    /// 0 for the kernel.
    pub depth: u32,
    /// Lanes that are in it or in a frame above it.
    pub live: u32,
    /// Where each lane goes on in the caller's code: behind the call.
    pub back: [u32; LANES],
    /// Where its local memory begins.
    pub local_start: u32,
    /// Where its local memory ends, in each lane that used `alloca`.
    pub stack: Option<Box<[u32; LANES]>>,
}

/// 32 lanes, or fewer in the last warp of a block. It is what handlers work on.
pub(crate) struct Warp {
    /// Where slots are, by [`Base`](crate::exec::Base).
    pub(crate) bases: [*mut u8; 4],
    /// Lanes of the current path.
    pub active: u32,
    /// Lanes whose registers in this frame are nobody's.
    pub(crate) idle: u32,
    /// The current op; a handler that returns [`Flow::Jump`] sets it.
    pub pc: u32,
    /// The op before which the current path meets another.
    pub(crate) stop: u32,
    /// Warp instructions executed.
    pub(crate) steps: u64,
    /// Instructions times lanes.
    pub(crate) thread_instructions: u64,
    /// Accesses that may be polls, since the last turn.
    pub(crate) spins: u32,
    /// Counts looks at what is not the cluster's own, as far as `counts` does not tell.
    pub(crate) outside: u64,
    /// Counts of this warp.
    pub counts: Counts,
    /// All paths, the current one too.
    pub(crate) paths: Vec<Path>,
    /// Index of the current path.
    pub(crate) current: usize,
    /// The current path was released from a wait for lanes that are at another place.
    pub(crate) released: bool,
    /// All calls. Frame 0 is the kernel's.
    pub(crate) frames: Vec<Frame>,
    /// Index of the current frame.
    pub(crate) frame: usize,
    /// Lanes that exist and have not exited.
    alive: u32,
    /// Number of the warp in its block.
    pub index: u32,
    /// `barrier.cluster`: the cluster's phase in which each lane arrived last.
    pub cluster_phase: [u32; LANES],
    /// What was raised: the lane, and why.
    pub(crate) raised: Option<Box<(usize, FaultKind)>>,
    code: *const Code,
    pub(super) registers: Buffer,
    pub(super) local: Buffer,
    local_stride: usize,
    local_size: usize,
    block: *mut BlockShared,
    launch: *const Launch,
    view: *mut View,
}

impl Warp {
    /// A warp that is not set to a block yet.
    ///
    /// The pointers stay valid while the warp is used: the unit owns the block and the warp, the worker the view and
    /// (through an `Arc`) the launch.
    pub fn new(
        index: u32,
        block: *mut BlockShared,
        launch: *const Launch,
        view: *mut View,
    ) -> Result<Self, NoMemory> {
        Ok(Self {
            bases: [std::ptr::null_mut(); 4],
            active: 0,
            idle: 0,
            pc: 0,
            stop: u32::MAX,
            steps: 0,
            thread_instructions: 0,
            spins: 0,
            outside: 0,
            counts: Counts::default(),
            paths: Vec::new(),
            current: 0,
            released: false,
            frames: Vec::new(),
            frame: 0,
            alive: 0,
            index,
            cluster_phase: [0; LANES],
            raised: None,
            code: std::ptr::null(),
            registers: Buffer::new(special::WARP_BYTES)?,
            local: Buffer::empty(),
            local_stride: 0,
            local_size: 0,
            block,
            launch,
            view,
        })
    }

    /// Puts all its lanes at the start of the kernel.
    pub fn reset(&mut self, code: &Code) -> Result<(), NoMemory> {
        let [x, y, z] = self.launch().block;
        let threads = x * y * z;
        self.alive = 0;
        for lane in 0..LANES {
            let thread = self.index * 32 + lane as u32;
            if thread < threads {
                self.alive |= 1 << lane;
            }
            let bit = 1u32 << lane;
            let values = [
                (SpecialRegister::TidX, thread % x),
                (SpecialRegister::TidY, thread / x % y),
                (SpecialRegister::TidZ, thread / (x * y)),
                (SpecialRegister::LaneId, lane as u32),
                (SpecialRegister::WarpId, self.index),
                (SpecialRegister::LanemaskEq, bit),
                (SpecialRegister::LanemaskLe, bit | (bit - 1)),
                (SpecialRegister::LanemaskLt, bit - 1),
                (SpecialRegister::LanemaskGe, !(bit - 1)),
                (SpecialRegister::LanemaskGt, !(bit | (bit - 1))),
            ];
            for (register, value) in values {
                special::fill_lane(self.registers.start(), register, lane, value);
            }
        }
        self.steps = 0;
        self.spins = 0;
        self.raised = None;
        self.cluster_phase = [0; LANES];
        self.paths.clear();
        self.paths.push(Path {
            pc: 0,
            mask: self.alive,
            frame: 0,
            state: State::Ready,
            last: 0,
        });
        match self.frames.first_mut() {
            Some(frame) if std::ptr::eq(frame.code, code) => {
                frame.registers.clear();
                frame.live = self.alive;
                frame.stack = None;
                for frame in self.frames.iter_mut().skip(1) {
                    frame.live = 0;
                }
            }
            _ => {
                self.frames.clear();
                self.frames.push(Frame {
                    code,
                    registers: Buffer::new(code.frame_bytes as usize)?,
                    parent: 0,
                    depth: 0,
                    live: self.alive,
                    back: [0; LANES],
                    local_start: 0,
                    stack: None,
                });
            }
        }
        self.grow_local(code.local_bytes as usize)?;
        self.local.clear_small();
        self.enter(0);
        Ok(())
    }

    /// Makes a frame the current one.
    pub(crate) fn enter(&mut self, frame: usize) {
        let Some(f) = self.frames.get(frame) else {
            return;
        };
        self.frame = frame;
        self.code = f.code;
        self.idle = !f.live;
        // SAFETY: the code lives as long as the launch.
        let constants = unsafe { (*f.code).constants.start() };
        self.bases = [
            f.registers.start(),
            constants,
            self.block_ref().slots(),
            self.registers.start(),
        ];
    }

    /// Code of the current frame.
    #[inline(always)]
    pub fn code<'c>(&self) -> &'c Code {
        // SAFETY: set by `enter`, before anything runs; the code lives as long as the launch, longer than any handler.
        unsafe { &*self.code }
    }

    /// Further slots of an op.
    #[inline(always)]
    pub fn slots<'c>(&self, op: &Op) -> &'c [Slot] {
        let start = op.list as usize;
        self.code()
            .lists
            .get(start..start + op.n as usize)
            .unwrap_or(&[])
    }

    /// The record of an op.
    ///
    /// # Panics
    /// When the op has no record of this type: a bug in its family.
    #[inline(always)]
    pub fn data<'c, T: Any>(&self, op: &Op) -> &'c T {
        match self.code().data[op.data as usize].downcast_ref() {
            Some(record) => record,
            None => panic!("op without its record"),
        }
    }

    /// What all blocks of the launch share.
    #[inline(always)]
    pub fn launch<'l>(&self) -> &'l Launch {
        // SAFETY: see `new`; handlers do not keep it.
        unsafe { &*self.launch }
    }

    /// What the threads of the block share.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub fn block<'b>(&mut self) -> &'b mut BlockShared {
        // SAFETY: see `new`; one host thread runs all of the block, and no two handlers at once.
        unsafe { &mut *self.block }
    }

    fn block_ref(&self) -> &BlockShared {
        // SAFETY: as in `block`.
        unsafe { &*self.block }
    }

    /// This worker's view of memory.
    #[inline(always)]
    pub fn view<'v>(&mut self) -> &'v mut View {
        // SAFETY: see `new`; the worker lends it to one warp at a time.
        unsafe { &mut *self.view }
    }

    /// The kernel's parameter buffer.
    #[inline(always)]
    pub fn params<'l>(&self) -> &'l [u8] {
        &self.launch().params
    }

    /// Lanes that exist and have not exited.
    #[inline(always)]
    pub fn alive(&self) -> u32 {
        self.alive
    }

    /// Takes lanes out of the warp.
    pub(crate) fn remove(&mut self, mask: u32) {
        self.alive &= !mask;
        for frame in &mut self.frames {
            frame.live &= !mask;
        }
        self.idle |= mask;
    }

    /// Index of a lane's thread in the block.
    pub fn thread(&self, lane: usize) -> [u32; 3] {
        let [x, y, _] = self.launch().block;
        let thread = self.index * 32 + lane as u32;
        [thread % x, thread / x % y, thread / (x * y)]
    }

    /// Raises a fault in a lane; the handler returns what this returns.
    #[cold]
    pub fn fault(&mut self, lane: usize, kind: FaultKind) -> Flow {
        self.raised = Some(Box::new((lane, kind)));
        Flow::Fault
    }

    /// Place of an op in the text.
    pub fn pos(&self, op: &Op) -> Pos {
        let function = self.launch().linked.function(self.code().function);
        let instructions = function.body.as_ref().map(|b| &b.instructions);
        instructions
            .and_then(|i| i.get(op.instruction as usize))
            .map_or(function.pos, |i| i.pos)
    }

    /// An access that may be a poll was made.
    #[inline(always)]
    pub fn spin(&mut self) {
        self.spins += 1;
    }

    /// Waits until the lanes of `wanted` that are alive are all in `mask`. `None`: they are; go on. Lanes that wait at
    /// different ops for each other go on too, each path with its own lanes in `mask`.
    #[inline(always)]
    pub fn converge(&mut self, mask: u32, wanted: u32) -> Option<Flow> {
        if wanted & self.alive & !mask == 0 || self.released {
            return None;
        }
        Some(self.wait_for_lanes(mask, wanted))
    }

    #[cold]
    fn wait_for_lanes(&mut self, mask: u32, wanted: u32) -> Flow {
        self.split_off(mask);
        self.paths[self.current].state = State::Sync(wanted);
        Flow::Switch
    }

    /// Lets the lanes of the current path that are not in `mask` go on behind the current op, as a path of their own.
    pub(crate) fn split_off(&mut self, mask: u32) {
        let rest = self.active & !mask;
        let here = &mut self.paths[self.current];
        here.pc = self.pc;
        here.mask = mask;
        if rest != 0 {
            let path = Path {
                pc: self.pc + 1,
                mask: rest,
                state: State::Ready,
                ..*here
            };
            self.paths.push(path);
        }
        self.active = mask;
    }

    /// Host address of a lane's local memory.
    #[inline(always)]
    pub fn local(&self, lane: usize) -> *mut u8 {
        debug_assert!(lane < LANES);
        // SAFETY: the buffer has 32 strides.
        unsafe { self.local.start().add(lane * self.local_stride) }
    }

    /// Bytes of local memory of each lane.
    #[inline(always)]
    pub fn local_size(&self) -> usize {
        self.local_size
    }

    /// Where local memory of the current call ends, in each lane.
    pub(crate) fn stack(&self) -> [u32; LANES] {
        let Some(frame) = self.frames.get(self.frame) else {
            return [0; LANES];
        };
        match &frame.stack {
            Some(stack) => **stack,
            None => [frame.local_start.saturating_add(self.code().local_bytes); LANES],
        }
    }

    /// Sets that of the lanes of `mask`.
    pub(crate) fn set_stack(&mut self, mask: u32, ends: [u32; LANES]) {
        let mut stack = self.stack();
        for lane in crate::exec::lanes(mask) {
            stack[lane] = ends[lane];
        }
        if let Some(frame) = self.frames.get_mut(self.frame) {
            frame.stack = Some(Box::new(stack));
        }
    }

    /// Makes local memory at least so big. What is in it stays.
    pub(crate) fn grow_local(&mut self, size: usize) -> Result<(), NoMemory> {
        if size <= self.local_size {
            return Ok(());
        }
        // At least twice as much: calls grow it step by step.
        let size = size.max(2 * self.local_size).next_multiple_of(64);
        // An odd number of cache lines, so that the lanes' memories do not share cache sets.
        let stride = size + if size.is_multiple_of(128) { 64 } else { 0 };
        let new = Buffer::new(stride * LANES)?;
        for lane in 0..LANES {
            // SAFETY: both have room for the old size in each lane.
            unsafe {
                let to = new.start().add(lane * stride);
                std::ptr::copy_nonoverlapping(self.local(lane), to, self.local_size);
            }
        }
        self.local = new;
        self.local_stride = stride;
        self.local_size = size;
        Ok(())
    }

    /// Value of a special register that changes.
    pub(crate) fn dynamic(&self, which: u64) -> u64 {
        if which == Dynamic::ClockHigh as u64 {
            self.steps >> 32
        } else {
            self.steps
        }
    }
}
