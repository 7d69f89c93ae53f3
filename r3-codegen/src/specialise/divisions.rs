//! Integer divisions by what became a constant.
//!
//! A lifted division by a register is inline assembly: PTX gives division by zero a result, LLVM does not, and a guard
//! around each would cost time. Where the divisor follows from constants alone, the guard costs nothing, and LLVM can do
//! away with the division.

use inkwell::module::Module;
use inkwell::values::AsValueRef;
use llvm_sys::core::{
    LLVMBuildICmp, LLVMBuildNeg, LLVMBuildOr, LLVMBuildSDiv, LLVMBuildSRem, LLVMBuildSelect,
    LLVMBuildUDiv, LLVMBuildURem, LLVMInstructionEraseFromParent, LLVMIsConstant,
};
use llvm_sys::{LLVMIntPredicate, LLVMOpcode};

use super::ir::{Builder, Value, constant};

/// A division as PTX spells it.
#[derive(Clone, Copy)]
struct Division {
    remainder: bool,
    signed: bool,
    bits: u32,
}

/// Turns divisions by constants into LLVM's. Returns how many.
pub(super) fn open(module: &Module) -> usize {
    let mut found = Vec::new();
    for function in module.get_functions() {
        for block in function.get_basic_block_iter() {
            for instruction in block.get_instructions() {
                // SAFETY: the instruction is of the module that is borrowed.
                let call = unsafe { Value::from_raw(instruction.as_value_ref()) };
                if let Some(division) = call.assembly().and_then(Division::parse)
                    && call.ty().integer_bits() == Some(division.bits)
                    && is_fixed(call.argument(1), 0)
                {
                    found.push((call, division));
                }
            }
        }
    }
    let builder = Builder::of(module);
    for (call, division) in &found {
        builder.before(*call);
        let result = division.build(&builder, call.argument(0), call.argument(1));
        call.replace_all_uses_with(result);
        // SAFETY: nothing uses the call any more, and nothing here refers to it.
        unsafe { LLVMInstructionEraseFromParent(call.raw()) };
    }
    found.len()
}

impl Division {
    /// `div.s32 $0, $1, $2;` and the like.
    fn parse(text: &str) -> Option<Self> {
        let mnemonic = text.strip_suffix(" $0, $1, $2;")?;
        let (operation, ty) = mnemonic.split_once('.')?;
        let remainder = match operation {
            "div" => false,
            "rem" => true,
            _ => return None,
        };
        let (signed, bits) = match ty.split_at_checked(1)? {
            ("s", bits) => (true, bits),
            ("u", bits) => (false, bits),
            _ => return None,
        };
        Some(Self {
            remainder,
            signed,
            bits: bits.parse().ok()?,
        })
    }

    /// The division with PTX's results: all ones when the divisor is 0, and the wrapped one for the least number by -1.
    fn build<'m>(self, builder: &Builder<'m>, a: Value<'m>, b: Value<'m>) -> Value<'m> {
        let ty = b.ty();
        let zero = constant(ty, &[0; 8]);
        let one = constant(ty, &[1, 0, 0, 0, 0, 0, 0, 0]);
        let ones = constant(ty, &[0xff; 8]);
        let (at, name) = (builder.raw(), c"".as_ptr());
        let equal = LLVMIntPredicate::LLVMIntEQ;
        // SAFETY: all values are of the module and of one integer type.
        unsafe {
            let is_zero = LLVMBuildICmp(at, equal, b.raw(), zero.raw(), name);
            let is_minus = LLVMBuildICmp(at, equal, b.raw(), ones.raw(), name);
            let odd = if self.signed {
                LLVMBuildOr(at, is_zero, is_minus, name)
            } else {
                is_zero
            };
            let safe = LLVMBuildSelect(at, odd, one.raw(), b.raw(), name);
            let divide = match (self.remainder, self.signed) {
                (false, false) => LLVMBuildUDiv,
                (false, true) => LLVMBuildSDiv,
                (true, false) => LLVMBuildURem,
                (true, true) => LLVMBuildSRem,
            };
            let mut result = divide(at, a.raw(), safe, name);
            if self.signed && !self.remainder {
                let negated = LLVMBuildNeg(at, a.raw(), name);
                result = LLVMBuildSelect(at, is_minus, negated, result, name);
            }
            Value::from_raw(LLVMBuildSelect(at, is_zero, ones.raw(), result, name))
        }
    }
}

/// Whether a value follows from constants by arithmetic alone.
fn is_fixed(value: Value<'_>, depth: u32) -> bool {
    const DEEPEST: u32 = 12;
    // SAFETY: the value is of the module that is borrowed.
    if unsafe { LLVMIsConstant(value.raw()) != 0 } {
        return true;
    }
    if depth == DEEPEST {
        return false;
    }
    match value.opcode() {
        Some(
            LLVMOpcode::LLVMAdd
            | LLVMOpcode::LLVMSub
            | LLVMOpcode::LLVMMul
            | LLVMOpcode::LLVMUDiv
            | LLVMOpcode::LLVMSDiv
            | LLVMOpcode::LLVMURem
            | LLVMOpcode::LLVMSRem
            | LLVMOpcode::LLVMShl
            | LLVMOpcode::LLVMLShr
            | LLVMOpcode::LLVMAShr
            | LLVMOpcode::LLVMAnd
            | LLVMOpcode::LLVMOr
            | LLVMOpcode::LLVMXor
            | LLVMOpcode::LLVMICmp
            | LLVMOpcode::LLVMSelect
            | LLVMOpcode::LLVMTrunc
            | LLVMOpcode::LLVMZExt
            | LLVMOpcode::LLVMSExt
            | LLVMOpcode::LLVMFreeze,
        ) => (0..)
            .map_while(|index| value.operand(index))
            .all(|operand| is_fixed(operand, depth + 1)),
        Some(LLVMOpcode::LLVMCall) => {
            value.assembly().and_then(Division::parse).is_some()
                && is_fixed(value.argument(0), depth + 1)
                && is_fixed(value.argument(1), depth + 1)
        }
        _ => false,
    }
}
