//! `mbarrier`: barriers in shared memory that count arrivals and bytes of asynchronous copies.
//!
//! `try_wait` does not block here: it answers at once, and when the phase is not complete the warp gives way. (The ISA lets
//! it come back early.)

mod state;

use state::{BadBarrier, State};

use super::access::{self, GENERIC, Kind, SHARED, Shape};
use super::{Flow, LANES, Op, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::memory::SHARED_BASE;
use crate::memory::window::{self, Window};
use r3_ptx::isa::{Mnemonic, Opcode, Word};

/// Shared address (32 bits) of a lane's address of `kind`.
pub(super) fn shared_address(
    warp: &mut Warp,
    lane: usize,
    address: u64,
    kind: Kind,
) -> Result<u64, Flow> {
    match kind {
        SHARED => Ok(address),
        GENERIC if window::window(address) == Window::Shared => Ok(address - SHARED_BASE),
        _ => Err(warp.fault(
            lane,
            FaultKind::OutOfBounds {
                space: "shared",
                address,
                len: 8,
                write: true,
                nearby: Some("the address is not in shared memory".to_owned()),
            },
        )),
    }
}

/// Host address of the mbarrier at a shared address.
fn find(warp: &mut Warp, lane: usize, address: u64) -> Result<*mut u8, Flow> {
    access::one(warp, 0, lane, address, Shape::natural(8, true), SHARED)
}

/// Changes the mbarrier at a shared address; returns its word of before.
pub(super) fn update(
    warp: &mut Warp,
    lane: usize,
    address: u64,
    f: impl FnOnce(State) -> Result<State, BadBarrier>,
) -> Result<u64, Flow> {
    let at = find(warp, lane, address)?;
    // SAFETY: `find` checked bounds and alignment; one host thread runs all blocks of a cluster.
    let old = unsafe { at.cast::<u64>().read() };
    match State::unpack(old).and_then(f) {
        Ok(new) => {
            // SAFETY: as above.
            unsafe { at.cast::<u64>().write(new.pack()) };
            if window::shared_rank(address as u32).is_none() {
                let index = warp.index;
                if let Some(shadow) = &mut warp.block().racecheck {
                    shadow.release(index, address as u32);
                }
            }
            Ok(old)
        }
        Err(bad) => Err(invalid(warp, lane, bad)),
    }
}

/// `bytes` of a copy have arrived at the mbarrier at a shared address.
pub(super) fn complete_bytes(
    warp: &mut Warp,
    lane: usize,
    address: u64,
    bytes: u32,
) -> Result<(), Flow> {
    update(warp, lane, address, |s| s.complete(bytes)).map(|_| ())
}

#[cold]
fn invalid(warp: &mut Warp, lane: usize, bad: BadBarrier) -> Flow {
    warp.fault(lane, FaultKind::Invalid(bad.to_string()))
}

/// What an operation does with each lane's mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Init,
    Inval,
    Expect,
    Complete,
    Arrive {
        drop: bool,
        expect: bool,
        no_complete: bool,
    },
}

/// The record of an op: the kind of the address, and what to do. `op.b` is the count.
struct How {
    kind: Kind,
    what: What,
}

fn change(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<How>(op);
    let all = access::addresses(warp, op);
    let count = warp.get::<u32>(op.b);
    let mut states = [0u64; LANES];
    for lane in lanes(mask) {
        let n = count[lane];
        let address = shared_address(warp, lane, all[lane], how.kind)?;
        states[lane] = match how.what {
            What::Init | What::Inval => {
                let word = match how.what {
                    What::Init => State::new(n).map(State::pack),
                    _ => Ok(0),
                };
                let at = find(warp, lane, address)?;
                match word {
                    // SAFETY: `find` checked bounds and alignment.
                    Ok(word) => unsafe { at.cast::<u64>().write(word) },
                    Err(bad) => return Err(invalid(warp, lane, bad)),
                }
                0
            }
            What::Expect => update(warp, lane, address, |s| s.expect(n))?,
            What::Complete => update(warp, lane, address, |s| s.complete(n))?,
            What::Arrive {
                drop, expect: true, ..
            } => update(warp, lane, address, |s| s.expect(n)?.arrive(1, drop))?,
            What::Arrive {
                drop, no_complete, ..
            } => update(warp, lane, address, |s| {
                if no_complete && n >= s.pending && s.bytes == 0 {
                    return Err(BadBarrier::WouldComplete {
                        arriving: n,
                        pending: s.pending,
                    });
                }
                s.arrive(n, drop)
            })?,
        };
    }
    if let What::Arrive { .. } = how.what {
        warp.put(op.d, mask, &states);
    }
    Ok(())
}

/// The record of a wait.
struct Wait {
    kind: Kind,
    parity: bool,
    /// `try_wait`
    patient: bool,
}

fn wait(warp: &mut Warp, op: &Op, mask: u32) -> Result<Flow, Flow> {
    let how = warp.data::<Wait>(op);
    let all = access::addresses(warp, op);
    let mut complete = 0;
    for lane in lanes(mask) {
        let address = shared_address(warp, lane, all[lane], how.kind)?;
        let at = find(warp, lane, address)?;
        // SAFETY: `find` checked bounds and alignment.
        let word = unsafe { at.cast::<u64>().read() };
        let state = match State::unpack(word) {
            Ok(state) => state,
            Err(bad) => return Err(invalid(warp, lane, bad)),
        };
        let waits_for = if how.parity {
            warp.lane::<u32>(op.b, lane) & 1 != 0
        } else {
            let token = warp.lane::<u64>(op.b, lane);
            match state::parity_of(token) {
                Some(parity) => parity,
                None => {
                    let bad = FaultKind::Invalid(format!(
                        "{token:#x} is no state that mbarrier.arrive returned"
                    ));
                    return Err(warp.fault(lane, bad));
                }
            }
        };
        if state.parity != waits_for {
            complete |= 1 << lane;
            let index = warp.index;
            if let Some(shadow) = &mut warp.block().racecheck {
                shadow.acquire(index, address as u32);
            }
        }
    }
    warp.set_predicate(op.d, mask, complete);
    if complete == mask {
        return Ok(Flow::Next);
    }
    warp.spin();
    Ok(if how.patient { Flow::Yield } else { Flow::Next })
}

fn flow(result: Result<(), Flow>) -> Flow {
    match result {
        Ok(()) => Flow::Next,
        Err(flow) => flow,
    }
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Mbarrier => Some(barrier(d, mnemonic)),
        Opcode::Cp if mnemonic.has(Word::Mbarrier) => Some(copies_arrive(d, mnemonic)),
        _ => None,
    }
}

fn barrier(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let has = |word| mnemonic.has(word);
    if has(Word::PendingCount) {
        return d.map1(Class::Alu, |state: u64| {
            (state & u64::from(state::MOST)) as u32
        });
    }
    if has(Word::TestWait) || has(Word::TryWait) {
        let (address, kind) = access::decode_address(d, 1, mnemonic.space())?;
        let mut op = d.whole(Class::Barrier, |warp, op, mask| {
            wait(warp, op, mask).unwrap_or_else(|flow| flow)
        });
        access::set_address(&mut op, &address);
        let how = Wait {
            kind,
            parity: has(Word::Parity),
            patient: has(Word::TryWait),
        };
        op.d = d.dst_predicate(0)?;
        op.b = if how.parity {
            d.src::<u32>(2)?
        } else {
            d.src::<u64>(2)?
        };
        d.record(&mut op, how);
        return Ok(op);
    }
    let arrives = has(Word::Arrive) || has(Word::ArriveDrop);
    let what = if arrives {
        What::Arrive {
            drop: has(Word::ArriveDrop),
            expect: has(Word::ExpectTx),
            no_complete: has(Word::NoComplete),
        }
    } else if has(Word::Init) {
        What::Init
    } else if has(Word::Inval) {
        What::Inval
    } else if has(Word::ExpectTx) {
        What::Expect
    } else if has(Word::CompleteTx) {
        What::Complete
    } else {
        return Err(Unsupported::new("mbarrier operation of this kind"));
    };
    let at = usize::from(arrives);
    let (address, kind) = access::decode_address(d, at, mnemonic.space())?;
    let mut op = d.whole(Class::Barrier, |warp, op, mask| {
        flow(change(warp, op, mask))
    });
    access::set_address(&mut op, &address);
    op.b = if d.operand_count() > at + 1 {
        d.src::<u32>(at + 1)?
    } else {
        d.number(1, 4)
    };
    if arrives {
        op.d = d.dst::<u64>(0)?;
    }
    d.record(&mut op, How { kind, what });
    Ok(op)
}

/// `cp.async.mbarrier.arrive`: the copies before it are done, since they are done when they are issued. With `.noinc` that is
/// an arrival; without it the arrival is one more than the phase expects, so nothing is left of it.
fn copies_arrive(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let (address, kind) = access::decode_address(d, 0, mnemonic.space())?;
    let mut op = if mnemonic.has(Word::Noinc) {
        d.whole(Class::Barrier, |warp, op, mask| {
            flow(change(warp, op, mask))
        })
    } else {
        d.whole(Class::Barrier, |warp, op, mask| flow(check(warp, op, mask)))
    };
    access::set_address(&mut op, &address);
    op.b = d.number(1, 4);
    op.d = d.dst_of::<u64>(r3_ptx::typed::Operand::Sink)?;
    let what = What::Arrive {
        drop: false,
        expect: false,
        no_complete: false,
    };
    d.record(&mut op, How { kind, what });
    Ok(op)
}

/// Only that there is an mbarrier.
fn check(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let kind = warp.data::<How>(op).kind;
    let all = access::addresses(warp, op);
    for lane in lanes(mask) {
        let address = shared_address(warp, lane, all[lane], kind)?;
        update(warp, lane, address, Ok)?;
    }
    Ok(())
}
