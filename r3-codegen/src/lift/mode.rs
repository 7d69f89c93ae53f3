//! How a function computes with floating-point numbers, as far as LLVM has one answer for all its instructions.
//!
//! PTX says `.ftz` and `.rn` on each instruction; LLVM's plain arithmetic has `.ftz` as an attribute of the function, and merges
//! an operation that may be fused with an equal one that may not. So both are decided for a function, by what most of its
//! instructions want; the others become intrinsics or inline assembly, which LLVM keeps apart.

use r3_ptx::isa::{Mnemonic, Opcode, Rounding, ScalarType};
use r3_ptx::typed;

/// The answers for one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// Plain `.f32` arithmetic of LLVM flushes subnormal numbers, and with it that of `.f16`.
    ftz: bool,
    /// Formats of which the function has additions or products with `.rn` besides ones that may be fused.
    mixed: [bool; FORMATS],
    /// The function has `sqrt.approx.f32`: LLVM would turn a division of 1 by it into `rsqrt.approx.f32`.
    approximate_root: bool,
}

const FORMATS: usize = 4;

/// Which entry of [`Mode::mixed`] a type has.
fn format(ty: ScalarType) -> Option<usize> {
    Some(match ty {
        ScalarType::F32 => 0,
        ScalarType::F64 => 1,
        ScalarType::F16 | ScalarType::F16x2 => 2,
        ScalarType::BF16 | ScalarType::BF16x2 => 3,
        _ => return None,
    })
}

impl Mode {
    /// Reads a function.
    pub fn of(module: &typed::Module, body: &typed::Body) -> Self {
        let (mut flushing, mut keeping) = (0_u64, 0_u64);
        let mut plain = [false; FORMATS];
        let mut nearest = [false; FORMATS];
        let mut approximate_root = false;
        for instruction in &body.instructions {
            let Some(mnemonic) = module.mnemonics.get(instruction.mnemonic.0 as usize) else {
                continue;
            };
            if depends_on_ftz(mnemonic) {
                match mnemonic.ftz() {
                    true => flushing += 1,
                    false => keeping += 1,
                }
            }
            let fusible = matches!(mnemonic.opcode(), Opcode::Add | Opcode::Sub | Opcode::Mul);
            if let Some(format) = mnemonic.ty().and_then(format).filter(|_| fusible) {
                let group = match mnemonic.rounding() {
                    None => &mut plain,
                    Some(_) => &mut nearest,
                };
                if let Some(flag) = group.get_mut(format) {
                    *flag = true;
                }
            }
            approximate_root |= mnemonic.opcode() == Opcode::Sqrt && mnemonic.rounding().is_none();
        }
        let mut mixed = [false; FORMATS];
        for ((mixed, plain), nearest) in mixed.iter_mut().zip(plain).zip(nearest) {
            *mixed = plain && nearest;
        }
        Self {
            ftz: flushing > keeping,
            mixed,
            approximate_root,
        }
    }

    /// Attributes of the function that say so: names and values.
    pub fn attributes(&self) -> &'static [(&'static str, &'static str)] {
        match self.ftz {
            true => &[("denormal-fp-math-f32", "preserve-sign,preserve-sign")],
            false => &[],
        }
    }

    /// Whether LLVM's plain arithmetic of `.f32` and `.f16`, and comparisons of `.bf16`, do what an instruction with or
    /// without `.ftz` does.
    pub fn plain_flushes(&self, ftz: bool) -> bool {
        self.ftz == ftz
    }

    /// Whether operations of a type with `.rn` have to be kept apart from those without.
    pub fn mixed(&self, ty: ScalarType) -> bool {
        let mixed = format(ty).and_then(|format| self.mixed.get(format));
        mixed.copied().unwrap_or(false)
    }

    /// See the field.
    pub fn approximate_root(&self) -> bool {
        self.approximate_root
    }
}

/// Whether an instruction becomes something whose flushing LLVM decides by the function's attribute.
fn depends_on_ftz(mnemonic: &Mnemonic) -> bool {
    use Opcode as O;
    let types = mnemonic.types();
    let rounded = matches!(mnemonic.rounding(), None | Some(Rounding::Nearest));
    let of_flushing_type = matches!(
        types,
        [ScalarType::F32 | ScalarType::F16 | ScalarType::F16x2]
    );
    match mnemonic.opcode() {
        O::Add | O::Sub | O::Mul | O::Fma | O::Mad => {
            of_flushing_type && rounded && !mnemonic.sat()
        }
        O::Div | O::Sqrt => {
            types == [ScalarType::F32] && mnemonic.rounding() == Some(Rounding::Nearest)
        }
        O::Min | O::Max | O::Neg => of_flushing_type,
        O::Set | O::Setp | O::Slct => types
            .last()
            .is_some_and(|ty| ty.is_float() && *ty != ScalarType::F64),
        O::Cvt => {
            types == [ScalarType::F64, ScalarType::F32]
                || types == [ScalarType::F32, ScalarType::F32]
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(instructions: &[&str]) -> Mode {
        let (text, _) = r3_ptx::generate::module("8.0", "sm_90", instructions);
        let tree = r3_ptx::parse(&text).expect("parses");
        let module = r3_ptx::check(&tree).expect("checks");
        let kernel = module.functions.iter().find(|f| f.entry).expect("kernel");
        Mode::of(&module, kernel.body.as_ref().expect("body"))
    }

    #[test]
    fn ftz_is_what_most_instructions_want() {
        let flushing = mode(&[
            "add.ftz.f32 %f1, %f2, %f3;",
            "mul.ftz.f32 %f1, %f2, %f3;",
            "add.f32 %f1, %f2, %f3;",
        ]);
        assert!(flushing.plain_flushes(true));
        assert!(!flushing.plain_flushes(false));
        assert_eq!(flushing.attributes().len(), 1);
        let keeping = mode(&["add.ftz.f32 %f1, %f2, %f3;", "setp.lt.f32 %p1, %f2, %f3;"]);
        assert!(keeping.plain_flushes(false));
        assert_eq!(keeping.attributes().len(), 0);
    }

    #[test]
    fn an_approximation_says_its_ftz_itself() {
        let mode = mode(&["ex2.approx.ftz.f32 %f1, %f2;", "rcp.rn.ftz.f32 %f1, %f2;"]);
        assert!(mode.plain_flushes(false));
    }

    #[test]
    fn rn_and_no_rn_are_mixed_by_format() {
        let mode = mode(&[
            "add.f32 %f1, %f2, %f3;",
            "mul.rn.f32 %f1, %f2, %f3;",
            "add.f64 %fd1, %fd2, %fd3;",
            "fma.rn.f64 %fd1, %fd2, %fd3, %fd4;",
        ]);
        assert!(mode.mixed(ScalarType::F32));
        assert!(!mode.mixed(ScalarType::F64));
        assert!(!mode.mixed(ScalarType::F16x2));
    }
}
