//! What operations do: the handlers, by family.
//!
//! # How a kernel runs
//! [`decode`](crate::decode) turns each instruction of a function into one [`Op`], once. An op holds a function pointer,
//! the handler, and slots. A handler works on the 32 lanes of a [`Warp`] at once, under a mask. It knows nothing of
//! operand kinds: numbers, special registers and addresses are slots like registers; the decoder made them so.
//!
//! # A family
//! A family is a file with a function `decode`. All are asked in the order of [`FAMILIES`]; the first that does not
//! answer `None` has the instruction. This is all of a 32-bit integer addition:
//!
//! ```ignore
//! pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
//!     match (mnemonic.opcode(), mnemonic.ty()?) {
//!         (Opcode::Add, ScalarType::U32 | ScalarType::S32) if !mnemonic.sat() => {
//!             Some(d.map2(Class::Alu, |a: u32, b: u32| a.wrapping_add(b)))
//!         }
//!         _ => None,
//!     }
//! }
//! ```
//!
//! `d` knows the current instruction. [`Decoder::map1`], [`map2`](Decoder::map2), [`map3`](Decoder::map3) take operand 0 as
//! destination and 1, 2, 3 as sources; the Rust types of the closure's arguments ([`Lane`]: `u16 i16 u32 i32 u64 i64 f32
//! f64 u128`) say how wide each is. Closures must not capture (they become function pointers) and must be total: lanes
//! that are not in the mask are computed too and thrown away, so no panic, no `/` that may trap. 8-bit values live in
//! 16-bit slots.
//!
//! What the decoder does for a family:
//! - [`d.src::<T>(i)`](Decoder::src): slot of operand `i`, 32 lanes of `T`. A number or address becomes a constant slot, a
//!   special register its slot; a register of another width is cut or zero-extended (an op is added in front).
//! - [`d.dst::<T>(i)`](Decoder::dst): slot to write. A wider register is sign- or zero-extended (by the signedness of `T`)
//!   by an op that is added behind; `_` is a slot that nobody reads.
//! - [`d.predicate(i)`](Decoder::predicate), [`d.dst_predicate(i)`](Decoder::dst_predicate): a `u32` with a bit a lane; `!p` is
//!   handled.
//! - [`d.operand(i)`](Decoder::operand), [`d.elements(operand)`](Decoder::elements) for vectors, pairs and lists, with
//!   `src_of`, `dst_of`, `predicate_of`, `dst_predicate_of` for an operand that is not at top level.
//! - [`d.address(i)`](Decoder::address): base slot, whether it is 64 bits wide, offset, and the space it really is in (the
//!   `.param` of a function is local memory; the kernel's parameters are [`Space::ParamEntry`](r3_ptx::isa::Space)).
//! - [`d.list(&slots)`](Decoder::list): more slots than an op has; [`d.record(value)`](Decoder::record): any other data. They
//!   go to `op.list`/`op.n` and `op.data`, and the handler reads them with [`Warp::slots`] and [`Warp::data`].
//!
//! A family whose operation is not lane by lane builds its op itself:
//!
//! ```ignore
//! let mut op = d.whole(Class::Warp, |warp, op, mask| {
//!     let a: [u32; 32] = warp.get(op.a);          // all lanes
//!     let mut r = [0u32; 32];
//!     for lane in lanes(mask) { r[lane] = a[31 - lane]; }
//!     warp.put(op.d, mask, &r);                    // only the lanes of the mask change
//!     Flow::Next
//! });
//! op.a = d.src::<u32>(1)?;  op.d = d.dst::<u32>(0)?;
//! ```
//! ([`d.op::<B>(class)`](Decoder::op) takes a type that implements [`Body`], for handlers that are generic.) Everything that is called
//! from a handler and should use AVX2/FMA must be inlined into it: mark it `#[inline(always)]`. `f32::mul_add` in
//! an inlined function is one instruction.
//!
//! # In a handler
//! - Lanes: [`Warp::get`], [`Warp::put`], [`Warp::lane`], [`lanes(mask)`](lanes). Predicates:
//!   [`Warp::predicate`], [`Warp::set_predicate`] and [`bits`] (flags to mask). `mask` is never 0. [`Warp::alive`]: lanes that have
//!   not exited; [`Warp::active`]: those of this path, guarded off or not.
//! - Faults: `return warp.fault(lane, FaultKind::…)`. Kernel, block, thread, place and text are added by the caller.
//! - Memory: [`Warp::view`] gives the [`View`](crate::memory::View) of this worker; [`Warp::params`] the kernel's parameter
//!   buffer; [`Warp::block`] what its threads share: `shared()` (pointer, length), `peer(rank)` (a block of the cluster), `racecheck`.
//!   Local memory of a lane: [`Warp::local`]. Counters: `warp.counts.global_sectors`, `.bank_conflicts`.
//! - Lanes that must meet: `if let Some(flow) = warp.converge(mask, wanted) { return flow; }` waits until all lanes of `wanted`
//!   that are alive have reached this op (together in `mask`); then the handler goes on with all of them.
//! - Waiting: return [`Flow::Retry`] with no effect done: the op is tried again when others have made progress. When nobody
//!   can, the block has a deadlock, and the message says where everybody waits. [`Flow::Yield`]: done, but let others run.
//! - Polling loops: call [`Warp::spin`] where an access may be a poll: a volatile, relaxed or acquire load; an atomic that
//!   left the value as it was (failed `cas`, `exch` of an equal value). After some of them in a loop other lanes, warps and
//!   blocks get their turn.
//!
//! # Where the rest is
//! [`block`](crate::block) has warps, paths, barriers; [`run`](crate::run) distributes blocks over host threads.

mod lanes;
mod op;

mod address;
mod barrier;
mod bits;
mod builtin;
mod call;
mod carry;
mod compare;
mod control;
mod integer;
mod moves;

mod convert;
mod float;
mod packed;
mod special;
mod video;

mod access;
mod async_copy;
mod atomic;
mod bulk;
mod cache;
mod load;
mod mbarrier;
mod store;
mod surface;
mod texture;

mod cluster;
mod matrix;
mod shuffle;
mod vote;

pub(crate) use control::{TARGET, end_of_function};
pub(crate) use lanes::{LANES, Lane, Map1, Map2, Map3, Whole, Zst, bits, lanes};
pub(crate) use op::{Base, Body, Flow, Level, Op, Slot};

use crate::decode::{Decoder, Unsupported};
use r3_ptx::isa::Mnemonic;

/// Answers for the instructions of a family, `None` for all others.
type Family = fn(&mut Decoder<'_>, &Mnemonic) -> Option<Result<Op, Unsupported>>;

/// All families, in the order in which they are asked.
pub(crate) const FAMILIES: &[Family] = &[
    moves::decode,
    integer::decode,
    compare::decode,
    bits::decode,
    carry::decode,
    address::decode,
    control::decode,
    barrier::decode,
    load::decode,
    store::decode,
    float::decode,
    convert::decode,
    special::decode,
    packed::decode,
    atomic::decode,
    shuffle::decode,
    vote::decode,
    matrix::decode,
    async_copy::decode,
    mbarrier::decode,
    cluster::decode,
    bulk::decode,
    cache::decode,
    texture::decode,
    surface::decode,
    video::decode,
];
