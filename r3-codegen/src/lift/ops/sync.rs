//! Barriers and fences.

use llvm_sys::LLVMAtomicOrdering as Ordering;
use r3_ptx::isa::{Mnemonic, Opcode, Operation, Order, ScalarType, Scope, Word};
use r3_ptx::typed::Operand;

use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    match opcode {
        Opcode::Bar | Opcode::Barrier => Some(barrier),
        Opcode::Membar => Some(membar),
        Opcode::Fence => Some(fence),
        _ => None,
    }
}

/// Barriers are intrinsics, which LLVM neither copies nor moves memory accesses across.
fn barrier<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    if mnemonic.has(Word::Warp) {
        let [mask] = operands else {
            return Ok(false);
        };
        let mask = lifter.integer(mask, 32)?;
        let made = lifter.intrinsic("llvm.nvvm.bar.warp.sync", &[], &[mask.into()])?;
        return Ok(made.is_some());
    }
    if mnemonic.has(Word::Cluster) {
        return cluster(lifter, mnemonic);
    }
    // `bar` is the short form of `barrier.….aligned`.
    let aligned = mnemonic.opcode() == Opcode::Bar || mnemonic.has(Word::Aligned);
    let aligned = if aligned { ".aligned" } else { "" };
    let reduces = mnemonic.has(Word::Red);
    let (to, rest) = match operands {
        [to, rest @ ..] if reduces => (Some(to), rest),
        rest => (None, rest),
    };
    let (predicate, rest) = match rest {
        [rest @ .., predicate] if reduces => (Some(predicate), rest),
        rest => (None, rest),
    };
    let what = match (reduces, mnemonic.operation()) {
        (true, Some(Operation::Popc)) => "red.popc",
        (true, Some(Operation::And)) => "red.and",
        (true, Some(Operation::Or)) => "red.or",
        (false, _) if mnemonic.has(Word::Arrive) => "arrive",
        (false, _) if mnemonic.has(Word::Sync) => "sync",
        _ => return Ok(false),
    };
    let count = match rest {
        [_] => "all",
        [_, _] => "count",
        _ => return Ok(false),
    };
    let mut arguments = Vec::with_capacity(3);
    for operand in rest {
        arguments.push(lifter.integer(operand, 32)?.into());
    }
    if let Some(predicate) = predicate {
        arguments.push(lifter.predicate(predicate)?.into());
    }
    let name = format!("llvm.nvvm.barrier.cta.{what}{aligned}.{count}");
    let Some(made) = lifter.intrinsic(&name, &[], &arguments)? else {
        return Ok(false);
    };
    if let Some(to) = to {
        let ty = match what {
            "red.popc" => ScalarType::U32,
            _ => ScalarType::Pred,
        };
        lifter.set(to, made, ty)?;
    }
    Ok(true)
}

fn cluster(lifter: &mut Lifter<'_, '_>, mnemonic: &Mnemonic) -> Handled {
    let aligned = match mnemonic.has(Word::Aligned) {
        true => ".aligned",
        false => "",
    };
    // Release and acquire are what is meant when nothing is said.
    let what = match (mnemonic.has(Word::Arrive), mnemonic.has(Word::Relaxed)) {
        (true, true) => "arrive.relaxed",
        (true, false) => "arrive",
        (false, _) => "wait",
    };
    let name = format!("llvm.nvvm.barrier.cluster.{what}{aligned}");
    Ok(lifter.intrinsic(&name, &[], &[])?.is_some())
}

fn membar<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    _operands: &'m [Operand],
) -> Handled {
    let name = match mnemonic.words() {
        [Word::Cta] => "llvm.nvvm.membar.cta",
        [Word::Gl] => "llvm.nvvm.membar.gl",
        [Word::Sys] => "llvm.nvvm.membar.sys",
        _ => return Ok(false),
    };
    Ok(lifter.intrinsic(name, &[], &[])?.is_some())
}

/// Fences without a proxy. LLVM prints `.acq_rel` for those that only acquire or release.
fn fence<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    _operands: &'m [Operand],
) -> Handled {
    let known =
        |word: &Word| Scope::from_word(*word).is_some() || Order::from_word(*word).is_some();
    let ordering = match mnemonic.order() {
        None | Some(Order::AcqRel) => Ordering::LLVMAtomicOrderingAcquireRelease,
        Some(Order::SeqCst) => Ordering::LLVMAtomicOrderingSequentiallyConsistent,
        _ => return Ok(false),
    };
    let (Some(scope), true) = (mnemonic.scope(), mnemonic.words().iter().all(known)) else {
        return Ok(false);
    };
    lifter.fence(ordering, scope);
    Ok(true)
}
