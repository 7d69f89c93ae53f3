//! Kernels against themselves, compiled anew: lifted with nothing but what is needed, and with LLVM's `O3`, on the CPU
//! device. The same bytes must come out.
//!
//! Pieces, so that they run at the same time. A failure says which case and pipeline, and how to see it again.

#![allow(clippy::unwrap_used)]

use r3_codegen::compile::compile;
use r3_codegen::recipe::Preset;
use r3_differential::case::Case;
use r3_differential::lifted::{Outcome, Variant, reproducer, try_case};
use r3_differential::{cases, random};
use r3_replay::device::cpu::{CpuDevice, CpuOptions};

/// Random programs in all.
const PROGRAMS: u64 = 10_000;
const PIECES: u64 = 20;

fn check(cases: &[Case]) {
    assert!(!cases.is_empty());
    let options = CpuOptions {
        threads: 1,
        instruction_limit: Some(1 << 30),
        ..CpuOptions::default()
    };
    let mut device = CpuDevice::new(options, Box::new(|_| ()));
    let variants = [Variant::preset(Preset::O0), Variant::preset(Preset::O3)];
    let mut wrong = Vec::new();
    for case in cases {
        let tried = try_case(&mut device, case, &variants, None, &compile);
        assert_eq!(tried.error, None, "{}", case.name);
        for (pipeline, outcome) in tried.variants {
            // The CPU device has one result for each instruction, approximate or not.
            if outcome != Outcome::Same {
                wrong.push(format!(
                    "{}, {pipeline}: {outcome:?}\n  cargo run -p r3-differential --bin {}",
                    case.name,
                    reproducer(&case.name, &pipeline, "cpu").replacen(
                        "r3-ptx-differential",
                        "r3-ptx-differential --",
                        1
                    )
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}\n{}",
        wrong.len(),
        2 * cases.len(),
        wrong.join("\n")
    );
}

/// A piece of the random programs.
fn programs(piece: u64) {
    let each = PROGRAMS / PIECES;
    check(&random::small(piece * each + 1..=(piece + 1) * each));
}

macro_rules! pieces {
    ($($name:ident: $piece:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                programs($piece);
            }
        )*
        #[test]
        fn the_pieces_are_all() {
            let pieces = [$($piece),*];
            assert!(pieces.into_iter().eq(0..PIECES));
        }
    };
}

pieces!(
    programs_00: 0, programs_01: 1, programs_02: 2, programs_03: 3, programs_04: 4, programs_05: 5, programs_06: 6,
    programs_07: 7, programs_08: 8, programs_09: 9, programs_10: 10, programs_11: 11, programs_12: 12, programs_13: 13,
    programs_14: 14, programs_15: 15, programs_16: 16, programs_17: 17, programs_18: 18, programs_19: 19,
);

macro_rules! families {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                let name = stringify!($name);
                let mut all = cases::all(&[format!("{name}/")], 0);
                all.retain(|case| case.family() == name);
                check(&all);
            }
        )*
    };
}

families!(
    approximate,
    bits,
    compare,
    convert,
    float,
    half,
    integer,
    kernels,
    matrix,
    video,
    warp,
);
