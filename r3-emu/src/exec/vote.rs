//! Votes, matches, reductions and elections: lanes of a warp decide or compute something together.
//!
//! The forms with `.sync` wait until all lanes of their mask that have not exited are there, and are about those; lanes that
//! execute the same instruction with different masks form groups that know nothing of each other. The old forms are about
//! the lanes that happen to be active. Which lanes are active together is the scheduler's choice
//! (see [`block`](crate::block)), and so is what `activemask` gives. `elect` takes the lowest lane.

use super::{Body, Flow, LANES, Lane, Op, Slot, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, Operation, ScalarType, Word};
use std::marker::PhantomData;

/// Lanes that all lanes of `mask` name in the register `slot`.
#[inline(always)]
pub(super) fn members(warp: &Warp, slot: Slot, mask: u32) -> u32 {
    let named: [u32; LANES] = warp.get(slot);
    lanes(mask).fold(0, |all, lane| all | named[lane])
}

/// Lanes of `mask` with the same mask register, group by group.
#[inline(always)]
fn groups(warp: &Warp, slot: Slot, mask: u32) -> impl Iterator<Item = u32> + use<> {
    let named: [u32; LANES] = warp.get(slot);
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let first = named[left.trailing_zeros() as usize];
            let group = lanes(left)
                .filter(|&lane| named[lane] == first)
                .fold(0, |group, lane| group | 1 << lane);
            left &= !group;
            group
        })
    })
}

/// In [`Op::imm`]: lanes of a mask meet.
const SYNC: u64 = 1;

/// What a vote says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

#[inline(always)]
fn vote(kind: Vote, warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    let source = warp.predicate(op.a);
    if op.imm & SYNC == 0 {
        decide(kind, warp, op, source, mask);
        return Flow::Next;
    }
    let wanted = members(warp, op.b, mask);
    if let Some(flow) = warp.converge(mask, wanted) {
        return flow;
    }
    for group in groups(warp, op.b, mask) {
        decide(kind, warp, op, source, group);
    }
    Flow::Next
}

#[inline(always)]
fn decide(kind: Vote, warp: &mut Warp, op: &Op, source: u32, group: u32) {
    let yes = source & group;
    let result = match kind {
        Vote::All => yes == group,
        Vote::Any => yes != 0,
        Vote::Uni => yes == group || yes == 0,
        Vote::Ballot => {
            warp.put(op.d, group, &[yes; LANES]);
            return;
        }
    };
    warp.set_predicate(op.d, group, if result { u32::MAX } else { 0 });
}

fn votes(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let ballot = mnemonic.has(Word::Ballot);
    let mut op = match mnemonic.any_of(&[Word::All, Word::Any, Word::Uni]) {
        _ if ballot => d.whole(Class::Warp, |w, op, m| vote(Vote::Ballot, w, op, m)),
        Some(Word::All) => d.whole(Class::Warp, |w, op, m| vote(Vote::All, w, op, m)),
        Some(Word::Any) => d.whole(Class::Warp, |w, op, m| vote(Vote::Any, w, op, m)),
        _ => d.whole(Class::Warp, |w, op, m| vote(Vote::Uni, w, op, m)),
    };
    op.a = d.predicate(1)?;
    if mnemonic.has(Word::Sync) {
        op.imm |= SYNC;
        op.b = d.src::<u32>(2)?;
    }
    op.d = if ballot {
        d.dst::<u32>(0)?
    } else {
        d.dst_predicate(0)?
    };
    Ok(op)
}

/// `match.any`: lanes of the group with the same value.
struct MatchAny<T>(PhantomData<T>);

impl<T: Lane + PartialEq> Body for MatchAny<T> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let wanted = members(warp, op.b, mask);
        if let Some(flow) = warp.converge(mask, wanted) {
            return flow;
        }
        let value: [T; LANES] = warp.get(op.a);
        let mut result = [0; LANES];
        for group in groups(warp, op.b, mask) {
            for lane in lanes(group) {
                result[lane] = lanes(group)
                    .filter(|&other| value[other] == value[lane])
                    .fold(0, |equal, other| equal | 1 << other);
            }
        }
        warp.put(op.d, mask, &result);
        Flow::Next
    }
}

/// `match.all`: the group and true when all have the same value, else zero and false.
struct MatchAll<T>(PhantomData<T>);

impl<T: Lane + PartialEq> Body for MatchAll<T> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let wanted = members(warp, op.b, mask);
        if let Some(flow) = warp.converge(mask, wanted) {
            return flow;
        }
        let value: [T; LANES] = warp.get(op.a);
        for group in groups(warp, op.b, mask) {
            let first = value[group.trailing_zeros() as usize & 31];
            let equal = lanes(group).all(|lane| value[lane] == first);
            warp.put(op.d, group, &[if equal { group } else { 0 }; LANES]);
            if op.imm & PREDICATE != 0 {
                warp.set_predicate(op.e, group, if equal { u32::MAX } else { 0 });
            }
        }
        Flow::Next
    }
}

/// In [`Op::imm`]: there is a predicate to write.
const PREDICATE: u64 = 2;

fn matches(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let wide = mnemonic.ty() == Some(ScalarType::B64);
    let mut op = match (mnemonic.has(Word::Any), wide) {
        (true, false) => d.op::<MatchAny<u32>>(Class::Warp),
        (true, true) => d.op::<MatchAny<u64>>(Class::Warp),
        (false, false) => d.op::<MatchAll<u32>>(Class::Warp),
        (false, true) => d.op::<MatchAll<u64>>(Class::Warp),
    };
    op.a = if wide {
        d.src::<u64>(1)?
    } else {
        d.src::<u32>(1)?
    };
    op.b = d.src::<u32>(2)?;
    let (value, predicate) = super::shuffle::destinations(d)?;
    op.d = d.dst_of::<u32>(value)?;
    if let Some(predicate) = predicate {
        op.imm |= PREDICATE;
        op.e = d.dst_predicate_of(predicate)?;
    }
    Ok(op)
}

/// One reduction: combines two values.
trait Combine: 'static {
    fn combine(a: u32, b: u32) -> u32;
    /// What a single value becomes.
    #[inline(always)]
    fn prepare(a: u32) -> u32 {
        a
    }
}

macro_rules! combine {
    ($($name:ident($a:ident, $b:ident) $body:expr;)*) => { $(
        struct $name;
        impl Combine for $name {
            #[inline(always)]
            fn combine($a: u32, $b: u32) -> u32 { $body }
        }
    )* };
}
combine! {
    Add(a, b) a.wrapping_add(b);
    And(a, b) a & b;
    Or(a, b) a | b;
    Xor(a, b) a ^ b;
    MinU(a, b) a.min(b);
    MaxU(a, b) a.max(b);
    MinS(a, b) a.cast_signed().min(b.cast_signed()).cast_unsigned();
    MaxS(a, b) a.cast_signed().max(b.cast_signed()).cast_unsigned();
}

/// The smaller or larger of two singles, with NaN as the result when one is (`NAN`), else as missing data; -0 is smaller
/// than +0. `ABS` takes absolute values first.
struct Single<const MAX: bool, const ABS: bool, const NAN: bool>;

impl<const MAX: bool, const ABS: bool, const NAN: bool> Combine for Single<MAX, ABS, NAN> {
    #[inline(always)]
    fn combine(a: u32, b: u32) -> u32 {
        const CANONICAL: u32 = 0x7fff_ffff;
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        if x.is_nan() || y.is_nan() {
            return if NAN || (x.is_nan() && y.is_nan()) {
                CANONICAL
            } else if x.is_nan() {
                b
            } else {
                a
            };
        }
        // Ordered as integers, sign and magnitude.
        let key = |bits: u32| {
            let bits = bits.cast_signed();
            bits ^ ((bits >> 31) & i32::MAX)
        };
        if (key(a) > key(b)) == MAX { a } else { b }
    }

    #[inline(always)]
    fn prepare(a: u32) -> u32 {
        let a = if ABS { a & i32::MAX.cast_unsigned() } else { a };
        if f32::from_bits(a).is_nan() {
            0x7fff_ffff
        } else {
            a
        }
    }
}

struct Reduce<C>(PhantomData<C>);

impl<C: Combine> Body for Reduce<C> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let wanted = members(warp, op.b, mask);
        if let Some(flow) = warp.converge(mask, wanted) {
            return flow;
        }
        let value: [u32; LANES] = warp.get(op.a);
        for group in groups(warp, op.b, mask) {
            let mut all = lanes(group).map(|lane| C::prepare(value[lane]));
            let first = all.next().unwrap_or(0);
            let result = all.fold(first, C::combine);
            warp.put(op.d, group, &[result; LANES]);
        }
        Flow::Next
    }
}

fn reductions(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let class = Class::Warp;
    let signed = mnemonic.ty() == Some(ScalarType::S32);
    let single = mnemonic.ty() == Some(ScalarType::F32);
    let absolute = mnemonic.has(Word::Abs);
    let nan = mnemonic.has(Word::NanResult);
    let mut op = match (mnemonic.operation(), single) {
        (Some(Operation::Min), true) => match (absolute, nan) {
            (false, false) => d.op::<Reduce<Single<false, false, false>>>(class),
            (false, true) => d.op::<Reduce<Single<false, false, true>>>(class),
            (true, false) => d.op::<Reduce<Single<false, true, false>>>(class),
            (true, true) => d.op::<Reduce<Single<false, true, true>>>(class),
        },
        (Some(Operation::Max), true) => match (absolute, nan) {
            (false, false) => d.op::<Reduce<Single<true, false, false>>>(class),
            (false, true) => d.op::<Reduce<Single<true, false, true>>>(class),
            (true, false) => d.op::<Reduce<Single<true, true, false>>>(class),
            (true, true) => d.op::<Reduce<Single<true, true, true>>>(class),
        },
        (Some(Operation::Add), _) => d.op::<Reduce<Add>>(class),
        (Some(Operation::And), _) => d.op::<Reduce<And>>(class),
        (Some(Operation::Or), _) => d.op::<Reduce<Or>>(class),
        (Some(Operation::Xor), _) => d.op::<Reduce<Xor>>(class),
        (Some(Operation::Min), _) if signed => d.op::<Reduce<MinS>>(class),
        (Some(Operation::Min), _) => d.op::<Reduce<MinU>>(class),
        (Some(Operation::Max), _) if signed => d.op::<Reduce<MaxS>>(class),
        (Some(Operation::Max), _) => d.op::<Reduce<MaxU>>(class),
        _ => return Err(Unsupported::new("this reduction over lanes")),
    };
    op.a = d.src::<u32>(1)?;
    op.b = d.src::<u32>(2)?;
    op.d = d.dst::<u32>(0)?;
    Ok(op)
}

#[inline(always)]
fn elect(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    let wanted = members(warp, op.b, mask);
    if let Some(flow) = warp.converge(mask, wanted) {
        return flow;
    }
    for group in groups(warp, op.b, mask) {
        let leader = group.trailing_zeros();
        warp.put(op.d, group, &[leader; LANES]);
        warp.set_predicate(op.e, group, 1 << (leader & 31));
    }
    Flow::Next
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    Some(match mnemonic.opcode() {
        Opcode::Vote => votes(d, mnemonic),
        Opcode::Match => matches(d, mnemonic),
        Opcode::Redux => reductions(d, mnemonic),
        Opcode::Activemask => active(d),
        Opcode::Elect => elections(d),
        _ => return None,
    })
}

fn active(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Warp, |warp, op, mask| {
        warp.put(op.d, mask, &[mask; LANES]);
        Flow::Next
    });
    op.d = d.dst::<u32>(0)?;
    Ok(op)
}

fn elections(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Warp, elect);
    op.b = d.src::<u32>(1)?;
    let (value, predicate) = super::shuffle::destinations(d)?;
    op.d = d.dst_of::<u32>(value)?;
    let Some(predicate) = predicate else {
        return Err(Unsupported::new("`elect` without a predicate"));
    };
    op.e = d.dst_predicate_of(predicate)?;
    Ok(op)
}
