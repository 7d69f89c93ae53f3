//! Which place of a form each operand fills.

use r3_ptx::isa::{Count, Form, Mnemonic, Numbers, OperandKind, OperandSpec, ScalarType};
use r3_ptx::typed::Operand;

use super::Assembly;
use crate::lift::function::Lifter;

/// Which place of the form each operand fills: places may be left out.
pub(super) fn align<'f>(
    lifter: &Lifter<'_, '_>,
    form: &'f Form,
    mnemonic: &Mnemonic,
    operands: &[Operand],
) -> Vec<&'f OperandSpec> {
    let there: Vec<(&OperandSpec, bool)> = form
        .operands
        .iter()
        .filter_map(|spec| Some((spec, spec.needed_by(mnemonic)?)))
        .collect();
    let mut aligned = Vec::with_capacity(operands.len());
    if there.len() != operands.len() && assign(lifter, mnemonic, &there, operands, &mut aligned) {
        return aligned;
    }
    there.iter().map(|(spec, _)| *spec).collect()
}

fn assign<'f>(
    lifter: &Lifter<'_, '_>,
    mnemonic: &Mnemonic,
    specs: &[(&'f OperandSpec, bool)],
    operands: &[Operand],
    aligned: &mut Vec<&'f OperandSpec>,
) -> bool {
    let Some((operand, rest)) = operands.split_first() else {
        return specs.iter().all(|(_, optional)| *optional);
    };
    let Some((&(spec, optional), specs)) = specs.split_first() else {
        return false;
    };
    if fits(lifter, mnemonic, spec, operand) {
        aligned.push(spec);
        if assign(lifter, mnemonic, specs, rest, aligned) {
            return true;
        }
        aligned.pop();
    }
    optional && assign(lifter, mnemonic, specs, operands, aligned)
}

/// Whether an operand may stand in a place.
fn fits(
    lifter: &Lifter<'_, '_>,
    mnemonic: &Mnemonic,
    spec: &OperandSpec,
    operand: &Operand,
) -> bool {
    use OperandKind as K;
    let like = |ty: ScalarType, relaxed: bool| match *operand {
        Operand::Register(register) => {
            let has = Assembly::register_type(lifter, register);
            let pred = (has == ScalarType::Pred) == (ty == ScalarType::Pred);
            let mixed = (has.is_float() && ty.is_integer()) || (has.is_integer() && ty.is_float());
            let wide = match relaxed {
                true => has.bits() >= ty.bits(),
                false => has.bytes() == ty.bytes(),
            };
            pred && !mixed && wide
        }
        Operand::NotRegister(_) => ty == ScalarType::Pred,
        Operand::Number(_) | Operand::Special(_) | Operand::Address(..) | Operand::Sink => true,
        _ => false,
    };
    match spec.kind {
        K::Value {
            ty, relaxed, count, ..
        } => {
            let vector = matches!(
                operand,
                Operand::Vector(..) | Operand::Pair(_) | Operand::Special(_) | Operand::Sink
            );
            let one = mnemonic.resolve(ty).is_some_and(|ty| like(ty, relaxed));
            let many = !matches!(count, Count::One) || spec.second.is_some();
            one || (vector && many)
        }
        K::Predicate => like(ScalarType::Pred, false),
        K::Immediate(numbers) => number_fits(numbers, operand),
        K::Bounded(numbers, ty) => number_fits(numbers, operand) || like(ty, false),
        K::Selected(..) => matches!(
            operand,
            Operand::Selected { .. } | Operand::Register(_) | Operand::Number(_) | Operand::Sink
        ),
        K::Fragment(_) => true,
        K::Memory(_) => matches!(
            operand,
            Operand::MemoryRegister(..) | Operand::MemorySymbol(..) | Operand::MemoryAbsolute(_)
        ),
        K::TensorMap | K::Texture | K::Surface => matches!(operand, Operand::MemoryList(..)),
        K::Handle | K::GenericAddress => true,
        K::Im2colOffsets | K::LaneMask => matches!(operand, Operand::Vector(..)),
        K::SourceSize => like(ScalarType::Pred, false) || like(ScalarType::U32, false),
        K::Gradient => like(ScalarType::F32, false) || matches!(operand, Operand::Vector(..)),
        K::TexelOffset => like(ScalarType::S32, false) || matches!(operand, Operand::Vector(..)),
        K::Depth => like(ScalarType::F32, false),
        K::Label | K::BranchTargets | K::Call => false,
    }
}

fn number_fits(numbers: Numbers, operand: &Operand) -> bool {
    matches!(operand, Operand::Number(bits) if numbers.contains(*bits as i64))
}
