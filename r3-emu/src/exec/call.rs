//! Calls and returns.
//!
//! A call gives its lanes a frame: registers of the callee, and local memory behind the caller's. Arguments are copied from
//! the caller's registers or `.param` variables to the callee's, results back when lanes return. Lanes that
//! call one function from one frame share a frame, whenever they come, so they meet in it as they would without a call.

use super::builtin::{self, Builtin};
use super::{Flow, LANES, Op, Slot, lanes};
use crate::block::{Frame, LOCAL_LIMIT, NoMemory, Path, State, Warp};
use crate::decode::{Code, Decoder, Formal, LOCAL_START, Place, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::program::FUNCTION_BASE;
use r3_ptx::typed::{Operand, Symbol};

/// Most calls of a thread that are open at once.
const DEPTH: u32 = 4096;

/// What a call says of itself.
#[derive(Debug)]
pub(crate) struct CallSite {
    /// Number of the callee; `None`: the op's `a` has its address.
    pub callee: Option<u32>,
    /// Where the results go.
    pub results: Vec<Formal>,
    /// Where the arguments are.
    pub arguments: Vec<Formal>,
}

/// `call (results), callee, (arguments), targets`
pub(super) fn decode(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Control, |warp, op, mask| {
        let site = warp.data::<CallSite>(op);
        match site.callee {
            Some(callee) => warp.call(op, mask, callee),
            None => warp.call_through(op, mask),
        }
    });
    let lists = [d.operand(0)?, d.operand(2)?].map(|o| d.elements(o));
    let results = places(d, &lists[0], true)?;
    let arguments = places(d, &lists[1], false)?;
    let callee = match d.operand(1)? {
        Operand::Address(Symbol::Function(id), _) => d.linked.function_id(d.function, id),
        register => {
            op.a = d.src_of::<u64>(register)?;
            None
        }
    };
    if let Some(callee) = callee
        && d.linked.function(callee).body.is_none()
    {
        let name = &d.linked.function(callee).name;
        let Some(known) = Builtin::of(name) else {
            return Err(Unsupported::new(format!("{name}, which no module defines")));
        };
        op.run = d
            .whole(Class::Control, |warp, op, mask| {
                builtin::run(warp, op, mask)
            })
            .run;
        op.imm = known as u64;
    }
    d.record(
        &mut op,
        CallSite {
            callee,
            results,
            arguments,
        },
    );
    Ok(op)
}

fn places(
    d: &mut Decoder<'_>,
    operands: &[Operand],
    results: bool,
) -> Result<Vec<Formal>, Unsupported> {
    let mut places = Vec::with_capacity(operands.len());
    for &operand in operands {
        let place = match operand {
            Operand::Address(symbol, _) => {
                let (offset, bytes) = d
                    .local_place(symbol)
                    .ok_or_else(|| Unsupported::new("argument of this kind"))?;
                Formal {
                    place: Place::Memory(offset),
                    bytes,
                }
            }
            Operand::Sink => Formal {
                place: Place::Nowhere,
                bytes: 0,
            },
            Operand::Number(bits) if !results => Formal {
                place: Place::Slot(d.number(bits, 8), 8),
                bytes: 8,
            },
            operand if d.is_predicate(operand) => Formal {
                place: Place::Predicate(d.predicate_of(operand)?),
                bytes: 1,
            },
            operand => {
                let width = d
                    .width(operand)
                    .ok_or_else(|| Unsupported::new("argument of this kind"))?;
                let slot = match width {
                    2 => d.src_of::<u16>(operand)?,
                    4 => d.src_of::<u32>(operand)?,
                    8 => d.src_of::<u64>(operand)?,
                    _ => d.src_of::<u128>(operand)?,
                };
                Formal {
                    place: Place::Slot(slot, width),
                    bytes: width,
                }
            }
        };
        places.push(place);
    }
    Ok(places)
}

/// One side of a copy: the memories of a frame.
#[derive(Clone, Copy)]
struct Side {
    bases: [*mut u8; 4],
    local_start: usize,
}

impl Side {
    /// The bytes of a value in one lane: at `host`, so many.
    fn bytes(&self, warp: &Warp, formal: Formal, lane: usize) -> Option<(*mut u8, usize)> {
        match formal.place {
            // SAFETY: slots lie in their memory, with 32 lanes of their width.
            Place::Slot(slot, width) => unsafe {
                let at = self.bases[slot.base()].add(slot.offset() + lane * width as usize);
                Some((at, width as usize))
            },
            Place::Memory(offset) => {
                let at = self.local_start + offset as usize;
                let len = formal.bytes as usize;
                // SAFETY: the call made local memory big enough for the variables of both.
                (at + len <= warp.local_size()).then(|| (unsafe { warp.local(lane).add(at) }, len))
            }
            Place::Predicate(_) | Place::Nowhere => None,
        }
    }

    fn predicate(&self, slot: Slot) -> *mut u32 {
        // SAFETY: as above.
        unsafe { self.bases[slot.base()].add(slot.offset()).cast() }
    }
}

impl Warp {
    fn side(&self, frame: usize) -> Option<Side> {
        let f = self.frames.get(frame)?;
        let mut bases = self.bases;
        // SAFETY: code lives as long as the launch.
        bases[1] = unsafe { (*f.code).constants.start() };
        bases[0] = f.registers.start();
        Some(Side {
            bases,
            local_start: f.local_start as usize,
        })
    }

    /// Copies values from one frame to another, of the lanes of `mask`.
    fn hand_over(&mut self, from: (usize, &[Formal]), to: (usize, &[Formal]), mask: u32) {
        let (Some(a), Some(b)) = (self.side(from.0), self.side(to.0)) else {
            return;
        };
        for (&source, &target) in from.1.iter().zip(to.1) {
            if let Place::Predicate(slot) = target.place {
                if let Place::Predicate(bits) = source.place {
                    let (p, q) = (a.predicate(bits), b.predicate(slot));
                    // SAFETY: words of their memories.
                    unsafe { q.write((q.read() & !mask) | (p.read() & mask)) };
                }
                continue;
            }
            for lane in lanes(mask) {
                let (Some((p, have)), Some((q, want))) =
                    (a.bytes(self, source, lane), b.bytes(self, target, lane))
                else {
                    continue;
                };
                // SAFETY: `bytes` gives valid memory of that length. A stack that was restored too far lets them overlap.
                unsafe {
                    std::ptr::copy(p, q, have.min(want));
                    if want > have {
                        std::ptr::write_bytes(q.add(have), 0, want - have);
                    }
                }
            }
        }
    }

    /// Value of an argument in one lane: its low 8 bytes.
    pub(super) fn argument(&self, formal: Formal, lane: usize) -> u64 {
        let mut value = [0u8; 8];
        if let Some(side) = self.side(self.frame)
            && let Some((at, len)) = side.bytes(self, formal, lane)
        {
            // SAFETY: `bytes` gives valid memory of that length.
            unsafe { std::ptr::copy_nonoverlapping(at, value.as_mut_ptr(), len.min(8)) };
        }
        u64::from_le_bytes(value)
    }

    /// Writes a result in one lane.
    pub(super) fn set_result(&mut self, formal: Formal, lane: usize, value: u64) {
        if let Some(side) = self.side(self.frame)
            && let Some((at, len)) = side.bytes(self, formal, lane)
        {
            let value = value.to_le_bytes();
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), at, len.min(8)) };
        }
    }

    /// Lanes call a function.
    fn call(&mut self, op: &Op, mask: u32, callee: u32) -> Flow {
        let first = mask.trailing_zeros() as usize;
        let Some(code) = self.launch().code(callee) else {
            let name = self.launch().function_name(callee).to_owned();
            let what = format!("{name}, which no module defines");
            return self.fault(first, FaultKind::Unsupported(what));
        };
        let stack = self.stack();
        let local_start = lanes(mask)
            .map(|l| stack[l])
            .max()
            .unwrap_or(0)
            .next_multiple_of(16);
        let end = u64::from(local_start) + u64::from(code.local_bytes);
        let depth = self.frames[self.frame].depth + 1;
        if end > u64::from(LOCAL_LIMIT) || depth > DEPTH {
            return self.fault(first, FaultKind::StackOverflow);
        }
        if code.entry {
            // Linking can give a declared function a kernel of that name.
            let name = self.launch().function_name(callee).to_owned();
            let what = format!("a call of {name}, which is a kernel");
            return self.fault(first, FaultKind::Invalid(what));
        }
        let caller = self.frame;
        let made = self
            .grow_local(end as usize)
            .and_then(|()| self.frame_for(code, mask, local_start, depth));
        let frame = match made {
            Ok(frame) => frame,
            Err(none) => return self.fault(first, none.into()),
        };
        let back = self.pc + 1;
        for lane in lanes(mask) {
            self.frames[frame].back[lane] = back;
        }
        let site = self.data::<CallSite>(op);
        self.hand_over((caller, &site.arguments), (frame, &code.params), mask);
        self.split_off(mask);
        let path = &mut self.paths[self.current];
        path.frame = frame as u32;
        path.pc = 0;
        self.enter(frame);
        Flow::Switch
    }

    /// Finds or makes the frame of a call from the current frame.
    fn frame_for(
        &mut self,
        code: &Code,
        mask: u32,
        local_start: u32,
        depth: u32,
    ) -> Result<usize, NoMemory> {
        let parent = self.frame as u32;
        let fits = |f: &Frame| std::ptr::eq(f.code, code);
        let shared = self.frames.iter().position(|f| {
            fits(f)
                && f.live != 0
                && f.live & mask == 0
                && f.parent == parent
                && f.local_start == local_start
                && f.stack.is_none()
        });
        let unused = || {
            self.frames
                .iter()
                .skip(1)
                .position(|f| fits(f) && f.live == 0)
        };
        let index = match shared.or_else(|| unused().map(|i| i + 1)) {
            Some(index) => index,
            None => {
                self.frames.push(Frame {
                    code,
                    registers: crate::block::Buffer::new(code.frame_bytes as usize)?,
                    parent,
                    depth,
                    live: 0,
                    back: [0; LANES],
                    local_start,
                    stack: None,
                });
                self.frames.len() - 1
            }
        };
        let frame = &mut self.frames[index];
        if frame.live == 0 {
            frame.parent = parent;
            frame.depth = depth;
            frame.local_start = local_start;
            frame.stack = None;
            // SAFETY: the frame of a device function begins with this slot.
            unsafe {
                let start = frame.registers.start().add(LOCAL_START.offset());
                start
                    .cast::<[u64; LANES]>()
                    .write([local_start.into(); LANES]);
            }
        }
        frame.live |= mask;
        Ok(index)
    }

    /// Lanes call what an address says, each target in turn.
    fn call_through(&mut self, op: &Op, mask: u32) -> Flow {
        let targets: [u64; LANES] = self.get(op.a);
        let first = mask.trailing_zeros() as usize;
        let target = targets[first];
        let same = lanes(mask)
            .filter(|&l| targets[l] == target)
            .fold(0, |m, l| m | 1 << l);
        let number = target.wrapping_sub(FUNCTION_BASE) / 16;
        let linked = &self.launch().linked;
        if target < FUNCTION_BASE
            || !target.is_multiple_of(16)
            || number >= linked.function_count() as u64
            || linked.function(number as u32).entry
        {
            let what = format!("a call of {target:#x}, which is no function's address");
            return self.fault(first, FaultKind::Invalid(what));
        }
        let number = number as u32;
        let others = mask & !same;
        if others != 0 {
            // They come back to this op for their own targets.
            let rest = self.active & !mask;
            let here = self.paths[self.current];
            let mut path = |pc, mask| {
                self.paths.push(Path {
                    pc,
                    mask,
                    state: State::Ready,
                    ..here
                });
            };
            path(self.pc, others);
            if rest != 0 {
                path(self.pc + 1, rest);
            }
            self.paths[self.current].mask = same;
            self.active = same;
        }
        if linked.function(number).body.is_none() {
            let name = &linked.function(number).name;
            let Some(known) = Builtin::of(name) else {
                let what = format!("{name}, which no module defines");
                return self.fault(first, FaultKind::Unsupported(what));
            };
            let op = Op {
                imm: known as u64,
                ..*op
            };
            let flow = builtin::run(self, &op, same);
            if others == 0 || flow != Flow::Next {
                return flow;
            }
            self.paths[self.current].pc = self.pc + 1;
            return Flow::Switch;
        }
        self.call(op, same, number)
    }

    /// Lanes return from a function; from the kernel, they end.
    pub(super) fn back(&mut self, mask: u32) -> Flow {
        let index = self.frame;
        if index == 0 {
            return self.exit(mask);
        }
        let parent = self.frames[index].parent as usize;
        let back = self.frames[index].back;
        self.leave(mask);
        let mut left = mask;
        while left != 0 {
            let pc = back[left.trailing_zeros() as usize];
            let same = lanes(left)
                .filter(|&l| back[l] == pc)
                .fold(0, |m, l| m | 1 << l);
            left &= !same;
            // SAFETY: code lives as long as the launch.
            let (callee, caller) =
                unsafe { (&*self.frames[index].code, &*self.frames[parent].code) };
            if let Some(op) = caller.ops.get(pc as usize - 1)
                && let Some(site) = caller.data.get(op.data as usize)
                && let Some(site) = site.downcast_ref::<CallSite>()
            {
                self.hand_over((index, &callee.results), (parent, &site.results), same);
            }
            self.paths.push(Path {
                pc,
                mask: same,
                frame: parent as u32,
                state: State::Ready,
                last: self.steps,
            });
        }
        self.frames[index].live &= !mask;
        self.enter(index);
        Flow::Switch
    }
}

impl Decoder<'_> {
    /// Offset and size of a variable in local memory of the call.
    fn local_place(&self, symbol: Symbol) -> Option<(u32, u32)> {
        use r3_ptx::isa::Space;
        if self.space_of(symbol) != Space::Local {
            return None;
        }
        self.place_in_local(symbol)
    }
}
