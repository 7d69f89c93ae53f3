//! What LLVM can do to a kernel.

use r3_codegen::passes::PASSES;

use super::{Allowed, LONGEST_SEQUENCE, View, choice, when};
use crate::space::{Domain, Parameter};

impl View<'_> {
    pub(super) fn lift_parameters(&self, allowed: Allowed) -> Vec<Parameter> {
        let lift = || when("route", &["lift"]);
        let optimised = || [lift(), when("passes", &["O3", "sequence"])].concat();
        let loops = !self.known || self.census.loops > 0;
        let guarded = self.census.guarded_accesses > 0;
        let calls = self.census.calls > 0;
        let items = PASSES
            .iter()
            .filter(|pass| pass.weight > 1)
            .map(|pass| {
                let fixed: Vec<String> = pass
                    .parameters
                    .iter()
                    .filter_map(|parameter| match parameter {
                        r3_codegen::passes::Parameter::Fixed(text) => Some((*text).to_owned()),
                        _ => None,
                    })
                    .collect();
                pass.text(&fixed)
            })
            .collect();
        vec![
            Parameter {
                why: "the code as PTX text, or through LLVM: what it is worth depends on what LLVM is told (constants)".to_owned(),
                ..choice("route", ["text", "lift"])
            },
            Parameter {
                when: lift(),
                dropped: ["none", "O1", "O2", "Os", "Oz", "O0"].map(str::to_owned).to_vec(),
                why: "sroa alone is within 3 % of O3 on 38 of 41 kernels whose code an optimiser has seen, and safer; a sequence \
                      of passes comes last. Dropped: levels beside O3, which were never better, and O0 (1.06 to 67)"
                    .to_owned(),
                ..choice("passes", ["sroa", "O3", "sequence"])
            },
            Parameter {
                name: "sequence".to_owned(),
                domain: Domain::Sequence {
                    items,
                    longest: LONGEST_SEQUENCE,
                    default: ["sroa", "early-cse", "instcombine<no-verify-fixpoint>", "simplifycfg", "gvn", "licm", "instcombine<no-verify-fixpoint>"]
                        .map(str::to_owned)
                        .to_vec(),
                },
                when: [lift(), when("passes", &["sequence"])].concat(),
                varied: true,
                dropped: Vec::new(),
                why: "passes in an order; six random pipelines gave 0.98 at best-of, 0.85 to 1.25".to_owned(),
            },
            Parameter {
                when: optimised(),
                varied: loops,
                why: if loops {
                    "`nounroll` marks as they are; dropped, with a threshold (0.73 to 1.19 without constants, 0.88 on average with \
                     them), or with a count (1.07 on average, up to 4.8)"
                } else {
                    "left alone: the kernel has no loops"
                }
                .to_owned(),
                ..choice("unroll", ["as marked", "threshold", "count", "free"])
            },
            Parameter {
                name: "unroll_threshold".to_owned(),
                domain: Domain::Integer {
                    low: 300,
                    high: 10_000,
                    log: true,
                    default: 2000,
                },
                when: [optimised(), when("unroll", &["threshold"])].concat(),
                varied: loops,
                dropped: Vec::new(),
                why: "how large an unrolled loop may be; LLVM's own is 300".to_owned(),
            },
            Parameter {
                when: [optimised(), when("unroll", &["count"])].concat(),
                varied: loops,
                why: "every loop so many times".to_owned(),
                ..choice("unroll_count", ["8", "2", "4", "16"])
            },
            Parameter {
                when: optimised(),
                varied: !self.of.params.is_empty() && self.of.params.iter().any(|param| param.pointer),
                why: "tells LLVM which pointers lead to memory of their own, and how they are aligned, where that is so in all \
                      recorded launches"
                    .to_owned(),
                ..choice("pointers", ["unknown", "noalias+align"])
            },
            Parameter {
                when: optimised(),
                varied: calls,
                why: if calls {
                    "the kernel calls functions that may be inlined"
                } else {
                    "left alone: the kernel calls no functions"
                }
                .to_owned(),
                ..choice("inline", ["no", "yes"])
            },
            Parameter {
                when: lift(),
                varied: guarded,
                why: if guarded {
                    "loads and stores under a predicate can stay one instruction each, as in code of Triton"
                } else {
                    "left alone: no load or store stands under a predicate"
                }
                .to_owned(),
                ..choice("guards", ["branches", "kept"])
            },
            Parameter {
                when: lift(),
                varied: allowed > Allowed::Exact && (!self.known || self.census.float_operations > 0),
                why: if allowed > Allowed::Exact {
                    "LLVM may fuse other multiplications and additions than the assembler: other roundings"
                } else {
                    "left alone: results must be exact, and LLVM would fuse other multiplications and additions"
                }
                .to_owned(),
                ..choice("contraction", ["assembler", "llvm"])
            },
        ]
    }
}
