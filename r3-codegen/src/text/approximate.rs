//! Faster and less exact arithmetic in single precision.

use r3_ptx::isa::{Boolean, Comparison, Mnemonic, Opcode, Rounding, ScalarType, Word};

use super::words::spelled;

/// `div.rn.f32`, `div.full.f32`, `rcp.rn.f32` and `sqrt.rn.f32` as their `.approx` forms. Other roundings are somebody's
/// intention.
pub(super) fn division(mnemonic: &Mnemonic) -> Option<String> {
    let (opcode, words) = (mnemonic.opcode(), mnemonic.words());
    let exact = match opcode {
        Opcode::Div => &[Word::Rn, Word::Full][..],
        Opcode::Rcp | Opcode::Sqrt => &[Word::Rn],
        _ => return None,
    };
    if mnemonic.types() != [ScalarType::F32] || mnemonic.any_of(exact).is_none() {
        return None;
    }
    let words = words.iter().map(|word| match exact.contains(word) {
        true => Word::Approx.text(),
        false => word.text(),
    });
    Some(spelled(opcode.text(), words))
}

/// Opcodes that have `.ftz` of which it is about the type that comes first.
const PLAIN: &[Opcode] = &[
    Opcode::Abs,
    Opcode::Add,
    Opcode::Cos,
    Opcode::Div,
    Opcode::Ex2,
    Opcode::Fma,
    Opcode::Lg2,
    Opcode::Mad,
    Opcode::Max,
    Opcode::Min,
    Opcode::Mul,
    Opcode::Neg,
    Opcode::Rcp,
    Opcode::Rsqrt,
    Opcode::Setp,
    Opcode::Sin,
    Opcode::Sqrt,
    Opcode::Sub,
];

/// The same instruction with `.ftz`, for single precision.
pub(super) fn flush(mnemonic: &Mnemonic) -> Option<String> {
    use ScalarType as T;
    let (opcode, words, types) = (mnemonic.opcode(), mnemonic.words(), mnemonic.types());
    if mnemonic.ftz() {
        return None;
    }
    let single = match (opcode, types) {
        (Opcode::Set, [_, from]) | (Opcode::Slct, [_, from]) => *from == T::F32,
        // To narrower formats, what is flushed would be zero anyway, or stays as compilers leave it.
        (Opcode::Cvt, [to, T::F32]) => to.is_integer() || matches!(to, T::F32 | T::F64),
        (Opcode::Cvt, [T::F32, from]) => *from == T::F64,
        (opcode, [T::F32 | T::F32x2]) => PLAIN.contains(&opcode),
        _ => false,
    };
    if !single {
        return None;
    }
    // After what says how to round or compare, before all else.
    let leads = |word: &&Word| {
        Rounding::from_word(**word).is_some()
            || Comparison::from_word(**word).is_some()
            || Boolean::from_word(**word).is_some()
            || matches!(word, Word::Approx | Word::Full)
    };
    let at = words.iter().take_while(leads).count();
    let (before, after) = words.split_at_checked(at)?;
    let texts = before
        .iter()
        .chain([&Word::Ftz])
        .chain(after)
        .map(|word| word.text());
    Some(spelled(opcode.text(), texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(change: fn(&Mnemonic) -> Option<String>, text: &str) -> Option<String> {
        change(&Mnemonic::parse(text).unwrap())
    }

    /// Pairs from the grammar of the PTX ISA: where `.approx` stands, and which forms have it.
    #[test]
    fn divisions_that_round_to_nearest_become_approximate() {
        let cases = [
            ("div.rn.f32", Some("div.approx.f32")),
            ("div.rn.ftz.f32", Some("div.approx.ftz.f32")),
            ("div.full.ftz.f32", Some("div.approx.ftz.f32")),
            ("rcp.rn.f32", Some("rcp.approx.f32")),
            ("sqrt.rn.ftz.f32", Some("sqrt.approx.ftz.f32")),
            ("div.rz.f32", None),
            ("div.approx.f32", None),
            ("div.rn.f64", None),
            ("rcp.rn.f64", None),
            ("div.s32", None),
            ("add.rn.f32", None),
        ];
        for (text, expected) in cases {
            assert_eq!(changed(division, text).as_deref(), expected, "{text}");
        }
    }

    /// What nvcc writes with and without `-ftz=true`.
    #[test]
    fn flushing_stands_where_compilers_put_it() {
        let cases = [
            ("add.f32", Some("add.ftz.f32")),
            ("add.rn.f32", Some("add.rn.ftz.f32")),
            ("add.rn.sat.f32", Some("add.rn.ftz.sat.f32")),
            ("fma.rn.f32", Some("fma.rn.ftz.f32")),
            ("setp.gtu.f32", Some("setp.gtu.ftz.f32")),
            ("setp.lt.and.f32", Some("setp.lt.and.ftz.f32")),
            ("set.lt.u32.f32", Some("set.lt.ftz.u32.f32")),
            ("min.NaN.f32", Some("min.ftz.NaN.f32")),
            ("ex2.approx.f32", Some("ex2.approx.ftz.f32")),
            ("cvt.rzi.s32.f32", Some("cvt.rzi.ftz.s32.f32")),
            ("cvt.sat.f32.f32", Some("cvt.ftz.sat.f32.f32")),
            ("cvt.f64.f32", Some("cvt.ftz.f64.f32")),
            ("cvt.rn.f32.f64", Some("cvt.rn.ftz.f32.f64")),
            ("cvt.rn.f32.s32", None),
            ("cvt.rn.f16.f32", None),
            ("cvt.rn.bf16x2.f32", None),
            ("add.f64", None),
            ("add.f16", None),
            ("add.ftz.f32", None),
            ("mov.f32", None),
            ("copysign.f32", None),
            ("testp.finite.f32", None),
            ("tanh.approx.f32", None),
            ("atom.global.add.f32", None),
        ];
        for (text, expected) in cases {
            let made = changed(flush, text);
            assert_eq!(made.as_deref(), expected, "{text}");
            if let Some(made) = made {
                let form = Mnemonic::parse(&made).unwrap().form();
                assert!(form.is_some(), "{made}");
            }
        }
    }
}
