//! An estimate of the registers that a kernel needs.

use r3_ptx::typed::{Body, Function, Operand, RegId};

/// Most pairs of a register and a loop that are looked at.
const MOST_STEPS: usize = 1 << 26;
/// Most registers of a thread.
const MOST: u32 = 255;

/// Registers of 32 bits that are in use at once: each from its first to its last mention in the text, where one that is
/// mentioned before and in a loop is in use to the loop's end.
pub(super) fn registers(function: &Function) -> u32 {
    let Some(body) = &function.body else {
        return 0;
    };
    let ranges = ranges(body);
    let mut change = vec![0i64; body.instructions.len() + 2];
    for (register, range) in body.registers.iter().zip(&ranges) {
        let Some((first, last)) = *range else {
            continue;
        };
        let words = match register.ty {
            r3_ptx::isa::ScalarType::Pred => 0,
            ty => ty.bytes().div_ceil(4) as i64,
        };
        change[first as usize] += words;
        change[last as usize + 1] -= words;
    }
    let (mut now, mut most) = (0, 0);
    for step in change {
        now += step;
        most = most.max(now);
    }
    // What the machine's code needs for addresses and the stack.
    (most as u32).saturating_add(2).clamp(8, MOST)
}

/// First and last instruction at which each register is in use.
fn ranges(body: &Body) -> Vec<Option<(u32, u32)>> {
    let mut ranges = vec![None; body.registers.len()];
    let mut loops = Vec::new();
    for (i, ins) in body.instructions.iter().enumerate() {
        let at = i as u32;
        let mut mention = |RegId(r): RegId| {
            if let Some(range) = ranges.get_mut(r as usize) {
                *range = range.map_or(Some((at, at)), |(first, _)| Some((first, at)));
            }
        };
        if let Some((guard, _)) = ins.guard {
            mention(guard);
        }
        visit(body, body.operands(ins), &mut |operand| match operand {
            Operand::Register(r)
            | Operand::NotRegister(r)
            | Operand::MemoryRegister(r, _)
            | Operand::Selected { register: r, .. } => mention(r),
            Operand::Label(target) if target <= at => loops.push((target, at)),
            _ => {}
        });
    }
    // This is an estimate; of huge functions a coarse one.
    if loops.len().saturating_mul(ranges.len()) > MOST_STEPS {
        return ranges;
    }
    // Outer loops last, so that what an inner one extends is extended by the outer one too.
    loops.sort_by_key(|&(start, end)| end - start);
    for range in ranges.iter_mut().flatten() {
        for &(start, end) in &loops {
            if range.0 < start && range.1 >= start && range.1 < end {
                range.1 = end;
            }
        }
    }
    ranges
}

/// Visits operands and what is nested in them.
fn visit(body: &Body, operands: &[Operand], f: &mut impl FnMut(Operand)) {
    for &operand in operands {
        match operand {
            Operand::Vector(first, len)
            | Operand::List(first, len)
            | Operand::MemoryList(first, len) => visit(body, body.list(first, len), f),
            Operand::Pair(first) => visit(body, body.list(first, 2), f),
            other => f(other),
        }
    }
}
