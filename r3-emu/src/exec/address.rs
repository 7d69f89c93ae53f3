//! Addresses: `cvta`, `isspacep`, and the stack.

use super::{Body, Flow, LANES, Op};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::memory::window::{LOCAL_BASE, PARAM_BASE, SHARED_BASE, Window, shared_rank, window};
use r3_ptx::isa::{Mnemonic, Opcode, Space, Word};
use r3_ptx::typed::Operand;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Cvta => Some(convert(d, mnemonic)),
        Opcode::Isspacep => Some(is_in(d, mnemonic)),
        Opcode::Alloca => Some(allocate(d, mnemonic)),
        Opcode::Stacksave => Some(save(d, mnemonic)),
        Opcode::Stackrestore => Some(restore(d, mnemonic)),
        _ => None,
    }
}

/// Where the window of a space begins; the `.param`s of a function are local memory.
fn base(d: &Decoder<'_>, space: Option<Space>) -> u64 {
    match space {
        Some(Space::Shared | Space::SharedCta | Space::SharedCluster) => SHARED_BASE,
        Some(Space::Local) => LOCAL_BASE,
        Some(Space::Param) if !d.function().entry => LOCAL_BASE,
        Some(Space::Param | Space::ParamEntry) => PARAM_BASE,
        _ => 0,
    }
}

/// `d = a + imm`
struct Add;

impl Body for Add {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let add = op.imm;
        warp.map1(op, mask, |a: u64| a.wrapping_add(add))
    }
}

/// `d = a`, with an upper half where `a` has none: an address of 32 bits in constant memory.
struct Complete;

impl Body for Complete {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let upper = op.imm;
        warp.map1(op, mask, |a: u64| if a >> 32 == 0 { a | upper } else { a })
    }
}

fn convert(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let base = base(d, mnemonic.space());
    if mnemonic.ty().is_some_and(|t| t.bits() == 32) {
        if base != 0 {
            return Err(Unsupported::new(
                "generic addresses of 32 bits in this space",
            ));
        }
        return d.map1(Class::Alu, |a: u32| a);
    }
    let to = mnemonic.has(Word::To);
    let constant = mnemonic.space() == Some(Space::Const) && !to;
    let mut op = match constant {
        true => d.op::<Complete>(Class::Alu),
        false => d.op::<Add>(Class::Alu),
    };
    op.imm = match to {
        _ if constant => d.linked.constant_bank(),
        // To a space the window's start is taken away.
        true => base.wrapping_neg(),
        false => base,
    };
    op.a = match d.operand(1)? {
        // A symbol whose own space is the one of the instruction has its address in it.
        Operand::Address(symbol, offset) if to => d.generic_address(symbol, offset)?,
        _ => d.src::<u64>(1)?,
    };
    op.d = d.dst::<u64>(0)?;
    Ok(op)
}

const GLOBAL: u64 = 0;
const CONST: u64 = 1;
const LOCAL: u64 = 2;
const SHARED_CTA: u64 = 3;
const SHARED_CLUSTER: u64 = 4;
const PARAM: u64 = 5;

fn is_in(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        let addresses: [u64; LANES] = warp.get(op.a);
        let launch = warp.launch();
        let own = warp.block().rank;
        let constant = |address: u64| {
            let mut ranges = launch.linked.constants();
            ranges.any(|(start, len)| address.wrapping_sub(start) < len)
        };
        let mut value = 0;
        for (i, &address) in addresses.iter().enumerate() {
            let is = match (op.imm, window(address)) {
                (GLOBAL, Window::Global) => !constant(address),
                (CONST, Window::Global) => constant(address),
                (LOCAL, Window::Local) | (PARAM, Window::Param) => true,
                (SHARED_CLUSTER, Window::Shared) => true,
                (SHARED_CTA, Window::Shared) => {
                    shared_rank(address as u32).is_none_or(|rank| rank == own)
                }
                _ => false,
            };
            value |= u32::from(is) << i;
        }
        warp.set_predicate(op.d, mask, value);
        Flow::Next
    });
    op.imm = match mnemonic.space() {
        Some(Space::Global) => GLOBAL,
        Some(Space::Const) => CONST,
        Some(Space::Local) => LOCAL,
        Some(Space::Shared | Space::SharedCta) => SHARED_CTA,
        Some(Space::SharedCluster) => SHARED_CLUSTER,
        Some(Space::Param) if !d.function().entry => LOCAL,
        Some(Space::Param | Space::ParamEntry) => PARAM,
        _ => return Err(Unsupported::new("this space")),
    };
    op.a = match d.operand(1)? {
        Operand::Address(symbol, offset) => d.generic_address(symbol, offset)?,
        _ => d.src::<u64>(1)?,
    };
    op.d = d.dst_predicate(0)?;
    Ok(op)
}

fn wide(mnemonic: &Mnemonic) -> bool {
    mnemonic.ty().is_some_and(|t| t.bits() == 64)
}

/// `alloca d, size{, align}`: `d` is an address in local memory.
fn allocate(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Other, |warp, op, mask| {
        let sizes: [u64; LANES] = warp.get(op.a);
        let mut r = warp.stack();
        let mut stack = r;
        for i in super::lanes(mask) {
            r[i] = r[i].next_multiple_of(op.imm as u32);
            let end = u64::from(r[i]).saturating_add(sizes[i]);
            if end > u64::from(crate::block::LOCAL_LIMIT) {
                return warp.fault(i, FaultKind::StackOverflow);
            }
            stack[i] = end as u32;
        }
        warp.set_stack(mask, stack);
        let top = stack.iter().copied().max().unwrap_or(0);
        if let Err(none) = warp.grow_local(top as usize) {
            return warp.fault(mask.trailing_zeros() as usize, none.into());
        }
        if op.n == 1 {
            warp.put(op.d, mask, &r.map(u64::from));
        } else {
            warp.put(op.d, mask, &r);
        }
        Flow::Next
    });
    op.a = d.src::<u64>(1)?;
    op.imm = match d.operand_count() {
        3.. => match d.operand(2)? {
            Operand::Number(n) if n.is_power_of_two() && n <= 4096 => n,
            _ => return Err(Unsupported::new("this alignment")),
        },
        _ => 8,
    };
    op.n = u16::from(wide(mnemonic));
    op.d = if wide(mnemonic) {
        d.dst::<u64>(0)?
    } else {
        d.dst::<u32>(0)?
    };
    Ok(op)
}

fn save(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Other, |warp, op, mask| {
        let stack = warp.stack();
        if op.n == 1 {
            warp.put(op.d, mask, &stack.map(u64::from));
        } else {
            warp.put(op.d, mask, &stack);
        }
        Flow::Next
    });
    op.n = u16::from(wide(mnemonic));
    op.d = if wide(mnemonic) {
        d.dst::<u64>(0)?
    } else {
        d.dst::<u32>(0)?
    };
    Ok(op)
}

fn restore(d: &mut Decoder<'_>, _: &Mnemonic) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Other, |warp, op, mask| {
        let to: [u64; LANES] = warp.get(op.a);
        let mut stack = warp.stack();
        for i in super::lanes(mask) {
            if to[i] > u64::from(stack[i]) {
                let what = format!(
                    "stackrestore to {:#x}, beyond the stack's end {:#x}",
                    to[i], stack[i]
                );
                return warp.fault(i, FaultKind::Invalid(what));
            }
            stack[i] = to[i] as u32;
        }
        warp.set_stack(mask, stack);
        Flow::Next
    });
    op.a = d.src::<u64>(0)?;
    Ok(op)
}
