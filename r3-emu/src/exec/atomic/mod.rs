//! Atomics and reductions on memory: `atom`, `red`.
//!
//! Lanes go one after the other, the lowest first, so that a launch on one host thread is deterministic. Global memory
//! needs the host's atomics, as blocks on other threads may be there; all orders and scopes are sequentially consistent.

mod ops;
mod rmw;

pub(crate) use ops::{Function, function};
pub(crate) use rmw::{Word as RmwWord, update_128};

use super::access::{self, GENERIC, Kind, SHARED, Shape};
use super::load::Cell;
use super::{Body, Flow, LANES, Op, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use crate::memory::racecheck::Access;
use crate::memory::window::{self, Window};
use r3_ptx::isa::{Mnemonic, Opcode, Operation, ScalarType, Word};
use r3_ptx::typed::Operand;
use std::marker::PhantomData;

/// What an atomic needs to know.
struct How {
    kind: Kind,
    /// In shared memory, and elsewhere: they differ for `add.f32`.
    shared: Function,
    global: Function,
    /// Elements.
    n: usize,
}

impl How {
    #[inline(always)]
    fn function(&self, address: u64) -> Function {
        let shared = match self.kind {
            SHARED => true,
            GENERIC => window::window(address) == Window::Shared,
            _ => false,
        };
        if shared { self.shared } else { self.global }
    }
}

/// `op.list`: destinations, then operands. `op.c`: what `cas` stores.
struct Atomic<T>(PhantomData<T>);

impl<T: rmw::Word + Cell> Body for Atomic<T>
where
    T::Register: Into<u64>,
{
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let how = warp.data::<How>(op);
        let size = T::SIZE * how.n as u64;
        let all = access::addresses(warp, op);
        let shape = Shape::natural(size, true);
        let hint = op.instruction as usize;
        let spots = match access::spots_of(warp, hint, mask, &all, shape, how.kind) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        if access::watched(warp, how.kind) {
            access::watch(warp, op, mask, &all, size, how.kind, Access::Atomic);
        }
        let slots = warp.slots(op);
        let (to, from) = slots.split_at(how.n.min(slots.len()));
        let c = warp.get::<T::Register>(op.c);
        let mut changed = false;
        for (i, (to, from)) in to.iter().zip(from).enumerate() {
            let b = warp.get::<T::Register>(*from);
            let mut r = [T::Register::default(); LANES];
            for lane in lanes(mask) {
                let at = spots.lane(lane, size).wrapping_add(i * T::SIZE as usize);
                let f = how.function(all[lane]);
                let (b, c) = (b[lane].into(), c[lane].into());
                // SAFETY: `spots` checked bounds and alignment; host memory is aligned as the device's is.
                let old = unsafe { T::update(at, |old| f(old, b, c)) };
                changed |= T::cut(f(old.bits(), b, c)) != old;
                r[lane] = old.widen();
            }
            warp.put(*to, mask, &r);
        }
        if !changed {
            warp.spin();
        }
        Flow::Next
    }
}

/// `exch` and `cas` of 128 bits.
struct Wide<const CAS: bool>;

impl<const CAS: bool> Body for Wide<CAS> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let kind = *warp.data::<Kind>(op);
        let all = access::addresses(warp, op);
        let shape = Shape::natural(16, true);
        let hint = op.instruction as usize;
        let spots = match access::spots_of(warp, hint, mask, &all, shape, kind) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        if access::watched(warp, kind) {
            access::watch(warp, op, mask, &all, 16, kind, Access::Atomic);
        }
        let (b, c) = (warp.get::<u128>(op.b), warp.get::<u128>(op.c));
        let mut r = [0; LANES];
        let mut changed = false;
        for lane in lanes(mask) {
            let new = |old| match CAS {
                true if old == b[lane] => c[lane],
                true => old,
                false => b[lane],
            };
            // SAFETY: `spots` checked bounds and alignment.
            r[lane] = unsafe { update_128(spots.lane(lane, 16), new) };
            changed |= new(r[lane]) != r[lane];
        }
        warp.put(op.d, mask, &r);
        if !changed {
            warp.spin();
        }
        Flow::Next
    }
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Atom => Some(atomic(d, mnemonic, true)),
        Opcode::Red if !mnemonic.has(Word::Async) => Some(atomic(d, mnemonic, false)),
        Opcode::Multimem => Some(Err(Unsupported::new(
            "multimem (memory of several devices at once)",
        ))),
        _ => None,
    }
}

fn atomic(d: &mut Decoder<'_>, mnemonic: &Mnemonic, result: bool) -> Result<Op, Unsupported> {
    let (Some(operation), Some(ty)) = (mnemonic.operation(), mnemonic.ty()) else {
        return Err(Unsupported::new("atomic without operation or type"));
    };
    let at = usize::from(result);
    let (address, kind) = access::decode_address(d, at, mnemonic.space())?;
    let to = if result { d.operand(0)? } else { Operand::Sink };
    let from = d.operand(at + 1)?;
    if ty.bytes() == 16 {
        let cas = match operation {
            Operation::Cas => true,
            Operation::Exch => false,
            _ => return Err(none(operation, ty)),
        };
        let mut op = if cas {
            d.op::<Wide<true>>(Class::Atomic)
        } else {
            d.op::<Wide<false>>(Class::Atomic)
        };
        access::set_address(&mut op, &address);
        op.d = d.dst_of::<u128>(to)?;
        op.b = d.src_of::<u128>(from)?;
        op.c = if cas { d.src::<u128>(at + 2)? } else { op.b };
        d.record(&mut op, kind);
        return Ok(op);
    }
    let (Some(shared), Some(global)) = (
        function(operation, ty, true),
        function(operation, ty, false),
    ) else {
        return Err(none(operation, ty));
    };
    let n = usize::from(mnemonic.vector());
    let mut to = d.elements(to);
    to.resize(n, Operand::Sink);
    let from = d.elements(from);
    if from.len() != n {
        return Err(Unsupported::new("vector with another number of elements"));
    }
    let mut slots = Vec::with_capacity(2 * n);
    let mut op = match ty.bytes() {
        2 => d.op::<Atomic<u16>>(Class::Atomic),
        4 => d.op::<Atomic<u32>>(Class::Atomic),
        8 => d.op::<Atomic<u64>>(Class::Atomic),
        _ => return Err(none(operation, ty)),
    };
    for operand in to {
        slots.push(match ty.bytes() {
            2 => d.dst_of::<u16>(operand)?,
            4 => d.dst_of::<u32>(operand)?,
            _ => d.dst_of::<u64>(operand)?,
        });
    }
    let mut sources = from;
    if operation == Operation::Cas {
        sources.push(d.operand(at + 2)?);
    }
    for operand in sources {
        slots.push(match ty.bytes() {
            2 => d.src_of::<u16>(operand)?,
            4 => d.src_of::<u32>(operand)?,
            _ => d.src_of::<u64>(operand)?,
        });
    }
    // Without a third operand any slot does: it is not used.
    op.c = slots.get(2 * n).copied().unwrap_or(slots[n]);
    slots.truncate(2 * n);
    access::set_address(&mut op, &address);
    d.list(&mut op, &slots);
    let how = How {
        kind,
        shared,
        global,
        n,
    };
    d.record(&mut op, how);
    Ok(op)
}

fn none(operation: Operation, ty: ScalarType) -> Unsupported {
    Unsupported::new(format!("atomic {operation:?} on .{}", ty.text()))
}
