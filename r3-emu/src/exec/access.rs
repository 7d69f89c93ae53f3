//! How an operation addresses memory: from the address of each lane to host pointers, with all checks.
//!
//! A handler asks for the [`Spots`] of its lanes. Three shapes are told apart, because they differ in speed: side by side
//! ([`Spots::Run`], a copy), all the same ([`Spots::Same`], a broadcast), and the rest. Bounds and alignment of all lanes are
//! checked in one pass without branches; only when that fails, or when lanes are in different mappings or
//! spaces, each lane is looked at on its own, and the first that is wrong is the fault.

use super::{Flow, LANES, Op, Slot, lanes};
use crate::block::Warp;
use crate::decode::{Address, Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::memory::racecheck::Access;
use crate::memory::window::{self, Window};
use crate::memory::{LOCAL_BASE, PARAM_BASE, SHARED_BASE, Span};
use r3_ptx::isa::Space;

/// A space, as a const parameter of handlers.
pub(crate) type Kind = u8;
/// Global and constant memory.
pub(crate) const GLOBAL: Kind = 0;
/// Shared memory; addresses of other blocks of the cluster are allowed.
pub(crate) const SHARED: Kind = 1;
/// The thread's local memory, and the parameters of device functions.
pub(crate) const LOCAL: Kind = 2;
/// The kernel's parameters.
pub(crate) const PARAM: Kind = 3;
/// Any of them, by the address.
pub(crate) const GENERIC: Kind = 4;

/// What the faults call a space.
pub(crate) fn name(kind: Kind) -> &'static str {
    ["global", "shared", "local", "param", "generic"][usize::from(kind).min(4)]
}

/// The kind of a decoded address.
pub(crate) fn kind(address: &Address) -> Result<Kind, Unsupported> {
    Ok(match address.space {
        Space::Global | Space::Const => GLOBAL,
        Space::Shared | Space::SharedCta | Space::SharedCluster => SHARED,
        Space::Local => LOCAL,
        Space::ParamEntry => PARAM,
        Space::Generic => GENERIC,
        other => return Err(Unsupported::new(format!("access to .{}", other.text()))),
    })
}

/// What an access of a kind counts as.
pub(crate) fn class(kind: Kind) -> Class {
    match kind {
        SHARED => Class::Shared,
        LOCAL => Class::Local,
        PARAM => Class::Alu,
        _ => Class::Global,
    }
}

/// Puts a decoded address where [`spots`] looks for it: base in `a`, width of the base in `f`, offset in `imm`.
pub(crate) fn set_address(op: &mut Op, address: &Address) {
    op.a = address.base;
    op.f = if address.wide {
        Slot::TRUE
    } else {
        Slot::FALSE
    };
    op.imm = address.offset as u64;
}

/// A further address of an op, in its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    base: Slot,
    wide: bool,
    offset: u64,
}

impl Parts {
    /// Of a decoded address.
    pub fn of(address: &Address) -> Self {
        Self {
            base: address.base,
            wide: address.wide,
            offset: address.offset as u64,
        }
    }

    /// Addresses of all lanes.
    pub fn addresses(&self, warp: &Warp) -> [u64; LANES] {
        base_addresses(warp, self.base, self.wide, self.offset)
    }
}

/// Where the lanes' bytes are. Pointers are valid for the lanes of the mask only.
#[allow(clippy::large_enum_variant)] // It lives in registers and on the stack of an inlined handler only.
pub(crate) enum Spots {
    /// Side by side: lane `i` at `i` times the size.
    Run(*mut u8),
    /// All at the same place.
    Same(*mut u8),
    /// Each at its own.
    Each([*mut u8; LANES]),
}

impl Spots {
    /// The place of a lane.
    #[inline(always)]
    pub fn lane(&self, lane: usize, size: u64) -> *mut u8 {
        match self {
            Self::Run(p) => p.wrapping_add(lane * size as usize),
            Self::Same(p) => *p,
            Self::Each(all) => all[lane % LANES],
        }
    }
}

/// Addresses of all lanes, for an op that [`set_address`] made.
#[inline(always)]
pub(crate) fn addresses(warp: &Warp, op: &Op) -> [u64; LANES] {
    base_addresses(warp, op.a, op.f == Slot::TRUE, op.imm)
}

/// Addresses of all lanes: a slot of 64 or 32 bits and an offset, for 32 bits with the upper half of the addresses.
#[inline(always)]
pub(crate) fn base_addresses(warp: &Warp, base: Slot, wide: bool, offset: u64) -> [u64; LANES] {
    let mut all = [0; LANES];
    if wide {
        let base = warp.slot::<u64>(base);
        for (i, a) in all.iter_mut().enumerate() {
            // SAFETY: a 64-bit slot has 32 lanes.
            *a = unsafe { base.add(i).read() }.wrapping_add(offset);
        }
    } else {
        let base = warp.slot::<u32>(base);
        for (i, a) in all.iter_mut().enumerate() {
            // SAFETY: a 32-bit slot has 32 lanes.
            let low = unsafe { base.add(i).read() }.wrapping_add(offset as u32);
            *a = u64::from(low) | offset >> 32 << 32;
        }
    }
    all
}

/// What an access is, apart from its addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of a lane.
    pub size: u64,
    /// Alignment, a power of two.
    pub align: u64,
    /// Whether it writes.
    pub write: bool,
}

impl Shape {
    /// Of a naturally aligned access.
    pub const fn natural(size: u64, write: bool) -> Self {
        Self {
            size,
            align: size,
            write,
        }
    }
}

/// Finds the bytes of the lanes of `mask` for an op that [`set_address`] made, and counts the access.
#[inline(always)]
pub(crate) fn spots<const KIND: Kind>(
    warp: &mut Warp,
    op: &Op,
    mask: u32,
    shape: Shape,
) -> Result<Spots, Flow> {
    let all = addresses(warp, op);
    spots_at::<KIND>(warp, op.instruction as usize, mask, &all, shape)
}

/// The same for a kind that is known at run time only.
#[inline(never)]
pub(crate) fn spots_of(
    warp: &mut Warp,
    hint: usize,
    mask: u32,
    all: &[u64; LANES],
    shape: Shape,
    kind: Kind,
) -> Result<Spots, Flow> {
    match kind {
        GLOBAL => spots_at::<GLOBAL>(warp, hint, mask, all, shape),
        SHARED => spots_at::<SHARED>(warp, hint, mask, all, shape),
        LOCAL => spots_at::<LOCAL>(warp, hint, mask, all, shape),
        PARAM => spots_at::<PARAM>(warp, hint, mask, all, shape),
        _ => spots_at::<GENERIC>(warp, hint, mask, all, shape),
    }
}

/// Finds the bytes of the lanes of `mask`, and counts the access.
#[inline(always)]
pub(crate) fn spots_at<const KIND: Kind>(
    warp: &mut Warp,
    hint: usize,
    mask: u32,
    all: &[u64; LANES],
    shape: Shape,
) -> Result<Spots, Flow> {
    let Shape { size, align, .. } = shape;
    let first = mask.trailing_zeros() as usize % LANES;
    let last = 31 - mask.leading_zeros() as usize % LANES;
    let a0 = all[first];
    if KIND == LOCAL {
        return local_spots(warp, mask, all, shape);
    }
    // All bytes of the space around the first lane's address.
    let (at, span) = match KIND {
        GLOBAL => (GLOBAL, warp.view().span(hint, a0, size)),
        SHARED => (SHARED, Some(shared(warp, 0))),
        PARAM => (PARAM, Some(params(warp, 0))),
        _ => match window::window(a0) {
            Window::Global => (GLOBAL, warp.view().span(hint, a0, size)),
            Window::Shared => (SHARED, Some(shared(warp, SHARED_BASE))),
            Window::Param => (PARAM, Some(params(warp, PARAM_BASE))),
            Window::Local => (LOCAL, None),
        },
    };
    // Parameters cannot be written; the slow way says so.
    let span = span.filter(|_| !(shape.write && at == PARAM));
    let Some(span) = span else {
        return each_alone::<KIND>(warp, hint, mask, all, shape);
    };
    let origin = a0.wrapping_sub(first as u64 * size);
    let (mut run, mut same) = (0, 0);
    if mask == u32::MAX {
        for (i, a) in all.iter().enumerate() {
            run |= a ^ origin.wrapping_add(i as u64 * size);
            same |= a ^ a0;
        }
    } else {
        for (i, a) in all.iter().enumerate() {
            let on = u64::from(mask >> i & 1).wrapping_neg();
            run |= (a ^ origin.wrapping_add(i as u64 * size)) & on;
            same |= (a ^ a0) & on;
        }
    }
    let aligned = a0 & (align - 1) == 0;
    if same == 0 && aligned && span.holds(a0, size) {
        count_run(warp, at, a0, size);
        return Ok(Spots::Same(span.host(a0)));
    }
    let length = (last - first + 1) as u64 * size;
    if run == 0 && aligned && span.holds(a0, length) {
        count_run(warp, at, a0, length);
        return Ok(Spots::Run(span.host(origin)));
    }
    // The last place at which an access may begin.
    let most = span.len.wrapping_sub(size);
    let mut wrong = span.len < size;
    for (i, a) in all.iter().enumerate() {
        let bad = (a.wrapping_sub(span.start) > most) | (a & (align - 1) != 0);
        wrong |= bad & (mask >> i & 1 != 0);
    }
    if wrong {
        return each_alone::<KIND>(warp, hint, mask, all, shape);
    }
    match at {
        GLOBAL => warp.counts.global_sectors += sectors(all, mask, size),
        SHARED if !one_round(all, mask, size) => {
            warp.counts.bank_conflicts += conflicts(all, mask, size);
        }
        _ => {}
    }
    let mut hosts = [std::ptr::null_mut(); LANES];
    for (host, a) in hosts.iter_mut().zip(all) {
        *host = span.host(*a);
    }
    Ok(Spots::Each(hosts))
}

/// The block's own shared memory, as if it began at `base`.
#[inline(always)]
fn shared(warp: &mut Warp, base: u64) -> Span {
    let (host, len) = warp.block().shared();
    Span {
        start: base,
        len: len as u64,
        delta: (host as u64).wrapping_sub(base),
    }
}

#[inline(always)]
fn params(warp: &mut Warp, base: u64) -> Span {
    let params = warp.params();
    Span {
        start: base,
        len: params.len() as u64,
        delta: (params.as_ptr() as u64).wrapping_sub(base),
    }
}

/// Local memory of each lane is apart.
#[inline(always)]
fn local_spots(
    warp: &mut Warp,
    mask: u32,
    all: &[u64; LANES],
    shape: Shape,
) -> Result<Spots, Flow> {
    let len = warp.local_size();
    let most = (len as u64).wrapping_sub(shape.size);
    let mut wrong = (len as u64) < shape.size;
    for (i, a) in all.iter().enumerate() {
        let bad = (*a > most) | (a & (shape.align - 1) != 0);
        wrong |= bad & (mask >> i & 1 != 0);
    }
    if wrong {
        return each_alone::<LOCAL>(warp, 0, mask, all, shape);
    }
    let mut hosts = [std::ptr::null_mut(); LANES];
    for (i, (host, a)) in hosts.iter_mut().zip(all).enumerate() {
        *host = warp.local(i).wrapping_add(*a as usize);
    }
    Ok(Spots::Each(hosts))
}

/// Each lane on its own: they are in several mappings or spaces, or one is wrong.
#[cold]
#[inline(never)]
fn each_alone<const KIND: Kind>(
    warp: &mut Warp,
    hint: usize,
    mask: u32,
    all: &[u64; LANES],
    shape: Shape,
) -> Result<Spots, Flow> {
    let mut hosts = [std::ptr::null_mut(); LANES];
    for lane in lanes(mask) {
        hosts[lane] = one(warp, hint, lane, all[lane], shape, KIND)?;
    }
    let of = |w: Window| {
        lanes(mask)
            .filter(|&l| match KIND {
                GLOBAL => w == Window::Global,
                SHARED => w == Window::Shared,
                GENERIC => window::window(all[l]) == w,
                _ => false,
            })
            .fold(0, |m, l| m | 1 << l)
    };
    let (global, shared) = (of(Window::Global), of(Window::Shared));
    if global != 0 {
        warp.counts.global_sectors += sectors(all, global, shape.size);
    }
    if shared != 0 {
        warp.counts.bank_conflicts += conflicts(all, shared, shape.size);
    }
    Ok(Spots::Each(hosts))
}

/// Host address of one lane's bytes. Not counted.
pub(crate) fn one(
    warp: &mut Warp,
    hint: usize,
    lane: usize,
    address: u64,
    shape: Shape,
    kind: Kind,
) -> Result<*mut u8, Flow> {
    let Shape { size, align, write } = shape;
    let (kind, address) = match kind {
        GENERIC => match window::window(address) {
            Window::Global => (GLOBAL, address),
            Window::Shared => (SHARED, address - SHARED_BASE),
            Window::Local => (LOCAL, address - LOCAL_BASE),
            Window::Param => (PARAM, address - PARAM_BASE),
        },
        other => (other, address),
    };
    let within = |len: usize, at: u64| at <= len as u64 && len as u64 - at >= size;
    let size_of = |what: &str, len: usize| Some(format!("{what} has {len} bytes"));
    let (found, nearby) = match kind {
        GLOBAL => {
            let found = warp.view().locate(hint, address, size);
            (found, None)
        }
        SHARED => {
            let narrow = u32::try_from(address).ok();
            let offset = u64::from(window::shared_offset(address as u32));
            match narrow.map(window::shared_rank) {
                Some(None) => {
                    let (host, len) = warp.block().shared();
                    let found = within(len, offset).then(|| host.wrapping_add(offset as usize));
                    (found, size_of("shared memory of the block", len))
                }
                Some(Some(rank)) => match warp.block().peer(rank) {
                    Some(peer) => {
                        let (host, len) = peer.shared();
                        let found = within(len, offset).then(|| host.wrapping_add(offset as usize));
                        (
                            found,
                            size_of(
                                &format!("shared memory of block {rank} of the cluster"),
                                len,
                            ),
                        )
                    }
                    None => (None, Some(format!("the cluster has no block {rank}"))),
                },
                None => (None, Some("no shared address".to_owned())),
            }
        }
        LOCAL => {
            let len = warp.local_size();
            let host = warp.local(lane).wrapping_add(address as usize);
            (
                within(len, address).then_some(host),
                size_of("local memory of the thread", len),
            )
        }
        _ => {
            let params = warp.params();
            if write {
                (None, Some("kernel parameters cannot be written".to_owned()))
            } else {
                let found = within(params.len(), address)
                    .then(|| params.as_ptr().cast_mut().wrapping_add(address as usize));
                (found, size_of("the parameter buffer", params.len()))
            }
        }
    };
    // A misaligned address is the more likely reason where both are wrong.
    if address & (align - 1) != 0 {
        return Err(warp.fault(
            lane,
            FaultKind::Misaligned {
                space: name(kind),
                address,
                align: align as u32,
            },
        ));
    }
    match found {
        Some(host) => Ok(host),
        None => {
            let nearby = match kind {
                GLOBAL => warp.view().nearby(address),
                _ => nearby,
            };
            Err(warp.fault(
                lane,
                FaultKind::OutOfBounds {
                    space: name(kind),
                    address,
                    len: size as u32,
                    write,
                    nearby,
                },
            ))
        }
    }
}

/// Counts bytes that lie side by side.
#[inline(always)]
fn count_run(warp: &mut Warp, kind: Kind, address: u64, len: u64) {
    if kind == GLOBAL {
        let last = address.wrapping_add(len - 1);
        warp.counts.global_sectors += (last >> 5).wrapping_sub(address >> 5) + 1;
    }
}

/// 32-byte sectors that the lanes of `mask` touch.
#[inline(never)]
pub(crate) fn sectors(all: &[u64; LANES], mask: u32, size: u64) -> u64 {
    // An aligned access of at most 32 bytes is in one sector.
    let each = size.div_ceil(32);
    let mut seen = [0; LANES];
    let mut n = 0;
    let mut ordered = true;
    for lane in lanes(mask) {
        let sector = all[lane] >> 5;
        if n > 0 && sector == seen[n - 1] {
            continue;
        }
        ordered &= n == 0 || sector > seen[n - 1];
        seen[n] = sector;
        n += 1;
    }
    if !ordered {
        let seen = &mut seen[..n];
        seen.sort_unstable();
        n = 1 + seen.windows(2).filter(|w| w[0] != w[1]).count();
    }
    n as u64 * each
}

/// Whether lanes of words or less want no two words of one bank: all are within one round of the banks. The frequent case.
#[inline(always)]
fn one_round(all: &[u64; LANES], mask: u32, size: u64) -> bool {
    let first = (all[mask.trailing_zeros() as usize % LANES] >> 2) as u32;
    let (mut low, mut high) = (first, first);
    for (i, a) in all.iter().enumerate() {
        let on = (mask >> i & 1).wrapping_neg();
        let word = ((a >> 2) as u32 & on) | (first & !on);
        low = low.min(word);
        high = high.max(word);
    }
    size <= 4 && high - low < 32
}

/// Extra passes because lanes want different words of the same bank of shared memory. Wide accesses go by half and quarter
/// warps, as on the hardware.
#[inline(never)]
pub(crate) fn conflicts(all: &[u64; LANES], mask: u32, size: u64) -> u64 {
    let words = size.div_ceil(4).max(1);
    let group = (LANES as u64 / words).max(1) as u32;
    let mut extra = 0;
    for start in (0..LANES as u32).step_by(group as usize) {
        let part = mask & (u32::MAX >> (32 - group)) << start;
        if part != 0 {
            extra += conflicts_of(all, part, words);
        }
    }
    extra
}

fn conflicts_of(all: &[u64; LANES], mask: u32, words: u64) -> u64 {
    let (mut low, mut high) = (u64::MAX, 0);
    for lane in lanes(mask) {
        let word = all[lane] >> 2;
        low = low.min(word);
        high = high.max(word + words - 1);
    }
    if high - low < 32 {
        // All within one round of the banks.
        return 0;
    }
    // The different words of each bank are a chain of lanes. Aligned wide accesses start at a multiple of their words, so the
    // first word stands for all.
    const END: u8 = LANES as u8;
    let mut heads = [END; 32];
    let mut next = [END; LANES];
    let mut counts = [0u8; 32];
    for lane in lanes(mask) {
        let word = all[lane] >> 2;
        let bank = (word % 32) as usize;
        let mut at = heads[bank];
        while at != END && all[usize::from(at) % LANES] >> 2 != word {
            at = next[usize::from(at) % LANES];
        }
        if at == END {
            next[lane % LANES] = heads[bank];
            heads[bank] = lane as u8;
            counts[bank] += 1;
        }
    }
    u64::from(counts.iter().copied().max().unwrap_or(1).saturating_sub(1))
}

/// Tells the race check of an access to shared memory. Addresses are those of `kind`.
#[cold]
#[inline(never)]
pub(crate) fn watch(
    warp: &mut Warp,
    op: &Op,
    mask: u32,
    all: &[u64; LANES],
    size: u64,
    kind: Kind,
    access: Access,
) {
    let base = match kind {
        SHARED => 0,
        GENERIC => SHARED_BASE,
        _ => return,
    };
    let (pos, index) = (warp.pos(op), warp.index);
    let Some(shadow) = &mut warp.block().racecheck else {
        return;
    };
    for lane in lanes(mask) {
        let at = all[lane].wrapping_sub(base);
        if at < u64::from(window::SHARED_LIMIT) {
            shadow.access(index, lane as u32, at as u32, size as u32, access, pos);
        }
    }
}

/// Whether races are looked for.
#[inline(always)]
pub(crate) fn watched(warp: &mut Warp, kind: Kind) -> bool {
    (kind == SHARED || kind == GENERIC) && warp.block().racecheck.is_some()
}

/// Decodes the address in operand `index`; space as the mnemonic says.
pub(crate) fn decode_address(
    d: &mut Decoder<'_>,
    index: usize,
    space: Option<Space>,
) -> Result<(Address, Kind), Unsupported> {
    let address = d.address(index, space)?;
    let kind = kind(&address)?;
    Ok((address, kind))
}

/// Tells the race check of lanes of one store that write the same place with different values (`differ`).
pub(crate) fn watch_same_store(
    warp: &mut Warp,
    op: &Op,
    mask: u32,
    all: &[u64; LANES],
    size: u64,
    kind: Kind,
    differ: impl Fn(&Warp, usize, usize) -> bool,
) {
    let base = if kind == GENERIC { SHARED_BASE } else { 0 };
    let (pos, index) = (warp.pos(op), warp.index);
    for a in lanes(mask) {
        for b in lanes(mask & (u32::MAX << a) & !(1 << a)) {
            let at = all[a].wrapping_sub(base);
            let overlap = all[a].abs_diff(all[b]) < size && at < u64::from(window::SHARED_LIMIT);
            if !overlap || (all[a] == all[b] && !differ(warp, a, b)) {
                continue;
            }
            if let Some(shadow) = &mut warp.block().racecheck {
                shadow.same_store(index, [a as u32, b as u32], at as u32, pos);
            }
            return;
        }
    }
}
