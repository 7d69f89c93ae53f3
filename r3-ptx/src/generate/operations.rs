//! Operations of random kernels, as templates.
//!
//! `(a|b)` is one of these, `{x}` is there or not. Operands, the first is written: `R` 32 bits, `L` 64 bits, `F` f32,
//! `D` f64, `H` 16 bits, `P` predicate, `Q` predicate that may be negated, `X` an f32 that only leaves the kernel,
//! `#` a number.
//!
//! Left out, because the ISA leaves their results open or they depend on timing: division and remainder by zero
//! and of the least number by -1 (divisors are made positive and odd), shuffles from lanes that do not take part
//! (their results are replaced), `fns`, `activemask`, results of atomics, `atom.exch` and `atom.cas`, clocks, and
//! `add`, `sub`, `mul` of floats without a rounding mode, which may be fused.

/// A family of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Arithmetic of integers.
    Integer,
    /// Chains of carries.
    Carry,
    /// Logic, shifts, bit fields.
    Bits,
    /// Comparison and selection.
    Select,
    /// f32, exactly rounded.
    Single,
    /// f64, exactly rounded.
    Double,
    /// f16, f16x2, bf16, bf16x2, exactly rounded.
    Half,
    /// Conversions.
    Convert,
    /// Video instructions.
    Video,
    /// f32, approximate.
    Approximate,
    /// Divergent branches and loops.
    Branch,
    /// Shuffles, votes, reductions of the lanes that take part.
    Warp,
    /// Shared arrays between barriers.
    Barrier,
    /// Atomics whose end does not depend on their order.
    Atomic,
    /// Local arrays.
    Local,
    /// Calls.
    Call,
    /// `brx.idx`.
    Table,
}

impl Family {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Integer,
        Self::Carry,
        Self::Bits,
        Self::Select,
        Self::Single,
        Self::Double,
        Self::Half,
        Self::Convert,
        Self::Video,
        Self::Approximate,
        Self::Branch,
        Self::Warp,
        Self::Barrier,
        Self::Atomic,
        Self::Local,
        Self::Call,
        Self::Table,
    ];

    /// Operations that are one instruction; none for families with a shape of their own.
    pub(super) fn templates(self) -> &'static [&'static str] {
        match self {
            Self::Integer => INTEGER,
            Self::Bits => BITS,
            Self::Select => SELECT,
            Self::Single => SINGLE,
            Self::Double => DOUBLE,
            Self::Half => HALF,
            Self::Convert => CONVERT,
            Self::Video => VIDEO,
            Self::Approximate => APPROXIMATE,
            _ => &[],
        }
    }
}

const INTEGER: &[&str] = &[
    "(add|sub|min|max|mul.lo|mul.hi).(u32|s32) R, R, R",
    "(add|sub|min|max|mul.lo|mul.hi).(u64|s64) L, L, L",
    "(add|sub|min|max|mul.lo|mul.hi).(u16|s16) H, H, H",
    "(add|sub).s32 R, R, #",
    "(add|sub).sat.s32 R, R, R",
    "(add|min|max).(u16x2|s16x2) R, R, R",
    "(min|max).relu.(s32|s16x2) R, R, R",
    "(mad.lo|mad.hi).(u32|s32) R, R, R, R",
    "(mad.lo|mad.hi).(u64|s64) L, L, L, L",
    "mad.hi.sat.s32 R, R, R, R",
    "mul.wide.(u32|s32) L, R, R",
    "mul.wide.(u16|s16) R, H, H",
    "mad.wide.(u32|s32) L, R, R, L",
    "(mul24|mad24).lo.(u32|s32) R, R, R",
    "sad.(u32|s32) R, R, R, R",
    "sad.(u64|s64) L, L, L, L",
    "(abs|neg).s32 R, R",
    "(abs|neg).s64 L, L",
    "dp4a.(u32|s32).(u32|s32) R, R, R, R",
    "dp2a.(lo|hi).(u32|s32).(u32|s32) R, R, R, R",
];

const BITS: &[&str] = &[
    "(and|or|xor).b32 R, R, R",
    "(and|or|xor).b64 L, L, L",
    "(and|or|xor).b16 H, H, H",
    "(not|cnot).b32 R, R",
    "(not|cnot).b64 L, L",
    "lop3.b32 R, R, R, R, 0x(1b|e8|96|ca|7f|01|d8)",
    "(shl.b32|shr.u32|shr.s32) R, R, R",
    "(shl.b64|shr.u64|shr.s64) L, L, R",
    "(shl.b16|shr.u16|shr.s16) H, H, R",
    "shf.(l|r).(clamp|wrap).b32 R, R, R, R",
    "(popc|clz).b32 R, R",
    "(popc|clz).b64 R, L",
    "brev.b32 R, R",
    "brev.b64 L, L",
    "bfind{.shiftamt}.(u32|s32) R, R",
    "bfind{.shiftamt}.(u64|s64) R, L",
    "bfe.(u32|s32) R, R, R, R",
    "bfe.(u64|s64) L, L, R, R",
    "bfi.b32 R, R, R, R, R",
    "bfi.b64 L, L, L, R, R",
    "bmsk.(clamp|wrap).b32 R, R, R",
    "szext.(clamp|wrap).(u32|s32) R, R, R",
    "prmt.b32 R, R, R, R",
    "prmt.b32.(f4e|b4e|rc8|ecl|ecr|rc16) R, R, R, R",
];

const SELECT: &[&str] = &[
    "setp.(eq|ne|lt|le|gt|ge).s32 P, R, R",
    "setp.(eq|ne|lo|ls|hi|hs).u32 P, R, R",
    "setp.(eq|ne|lt|le|gt|ge).(s64|u64) P, L, L",
    "setp.(eq|ne|lt|le|gt|ge).(s16|u16) P, H, H",
    "setp.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan){.ftz}.f32 P, F, F",
    "setp.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan).f64 P, D, D",
    "setp.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan){.ftz}.f16 P, H, H",
    "setp.(eq|lt|ge).(and|or|xor).s32 P, R, R, Q",
    "set.(eq|ne|lt|le|gt|ge).(u32|s32).s32 R, R, R",
    "set.(eq|lt|gtu|nan).f32.f32 F, F, F",
    "selp.b32 R, R, R, P",
    "selp.b64 L, L, L, P",
    "selp.f32 F, F, F, P",
    "selp.f64 D, D, D, P",
    "slct.b32.s32 R, R, R, R",
    "slct.f32.f32 F, F, F, F",
    "(and|or|xor).pred P, P, P",
    "not.pred P, P",
    "testp.(finite|infinite|number|notanumber|normal|subnormal).f32 P, F",
    "testp.(finite|infinite|number|notanumber|normal|subnormal).f64 P, D",
];

const SINGLE: &[&str] = &[
    "(add|sub|mul).(rn|rz|rm|rp){.ftz}{.sat}.f32 F, F, F",
    "fma.(rn|rz|rm|rp){.ftz}{.sat}.f32 F, F, F, F",
    "div.(rn|rz|rm|rp){.ftz}.f32 F, F, F",
    "(rcp|sqrt).(rn|rz|rm|rp){.ftz}.f32 F, F",
    "(min|max){.ftz}{.NaN}.f32 F, F, F",
    "(min|max){.ftz}.xorsign.abs.f32 F, F, F",
    "(abs|neg){.ftz}.f32 F, F",
    "copysign.f32 F, F, F",
    "mov.b32 F, R",
    "mov.b32 R, F",
];

const DOUBLE: &[&str] = &[
    "(add|sub|mul).(rn|rz|rm|rp).f64 D, D, D",
    "fma.(rn|rz|rm|rp).f64 D, D, D, D",
    "div.(rn|rz|rm|rp).f64 D, D, D",
    "(rcp|sqrt).(rn|rz|rm|rp).f64 D, D",
    "(min|max).f64 D, D, D",
    "(abs|neg).f64 D, D",
    "copysign.f64 D, D, D",
    "mov.b64 D, L",
    "mov.b64 L, D",
];

const HALF: &[&str] = &[
    "(add|sub|mul).rn{.ftz}{.sat}.f16 H, H, H",
    "(add|sub|mul).rn{.ftz}{.sat}.f16x2 R, R, R",
    "(add|sub|mul).rn.bf16 H, H, H",
    "(add|sub|mul).rn.bf16x2 R, R, R",
    "fma.rn{.ftz}(.sat|.relu|).f16 H, H, H, H",
    "fma.rn{.ftz}(.sat|.relu|).f16x2 R, R, R, R",
    "fma.rn{.relu}.bf16 H, H, H, H",
    "fma.rn{.relu}.bf16x2 R, R, R, R",
    "(min|max){.ftz}{.NaN}{.xorsign.abs}.f16 H, H, H",
    "(min|max){.ftz}{.NaN}{.xorsign.abs}.f16x2 R, R, R",
    "(min|max){.NaN}{.xorsign.abs}.bf16 H, H, H",
    "(min|max){.NaN}{.xorsign.abs}.bf16x2 R, R, R",
    "(abs|neg).(f16|bf16) H, H",
    "(abs|neg).(f16x2|bf16x2) R, R",
];

const CONVERT: &[&str] = &[
    "cvt.(u32|s32).(u8|s8|u16|s16) R, R",
    "cvt.(u16|s16).(u32|s32) H, R",
    "cvt.sat.(u16|s16).(u32|s32) H, R",
    "cvt.(u64|s64).(u32|s32) L, R",
    "cvt.(u32|s32).(u64|s64) R, L",
    "cvt.sat.(u32|s32).(u64|s64) R, L",
    "cvt.(rn|rz|rm|rp).f32.(u32|s32) F, R",
    "cvt.(rn|rz|rm|rp).f32.(u64|s64) F, L",
    "cvt.rn.f64.(u32|s32) D, R",
    "cvt.(rn|rz|rm|rp).f64.(u64|s64) D, L",
    "cvt.(rni|rzi|rmi|rpi){.ftz}.(u32|s32).f32 R, F",
    "cvt.(rni|rzi|rmi|rpi){.ftz}.(u64|s64).f32 L, F",
    "cvt.(rni|rzi|rmi|rpi).(u32|s32).f64 R, D",
    "cvt.(rni|rzi|rmi|rpi).(u64|s64).f64 L, D",
    "cvt.(rni|rzi|rmi|rpi){.ftz}{.sat}.f32.f32 F, F",
    "cvt.(rni|rzi|rmi|rpi){.sat}.f64.f64 D, D",
    "cvt{.ftz}{.sat}.f64.f32 D, F",
    "cvt.(rn|rz|rm|rp){.ftz}{.sat}.f32.f64 F, D",
    "cvt.(rn|rz|rm|rp){.ftz}.f16.f32 H, F",
    "cvt.(rn|rz){.relu}.bf16.f32 H, F",
    "cvt.(rn|rz){.relu}.(f16x2|bf16x2).f32 R, F, F",
    "cvt.f32.(f16|bf16) F, H",
    "cvt.(rni|rzi|rmi|rpi).(s32|u32).f16 R, H",
    "cvt.(rn|rz).f16.(u32|s32) H, R",
    "cvt.rn.satfinite{.relu}.(e4m3x2|e5m2x2).f32 H, F, F",
    "cvt.rn{.relu}.f16x2.(e4m3x2|e5m2x2) R, H",
    "cvt.rna.tf32.f32 R, F",
    "cvt.pack.sat.(u16|s16).s32 R, R, R",
    "cvt.pack.sat.(u8|s8).s32.b32 R, R, R, R",
];

const VIDEO: &[&str] = &[
    "(vadd|vsub|vabsdiff|vmin|vmax).(u32|s32).(u32|s32).(u32|s32){.sat} R, R, R",
    "(vadd|vsub|vmin|vmax).s32.(u32|s32).(u32|s32){.sat}.(add|min|max) R, R, R, R",
    "vset.(u32|s32).(u32|s32).(eq|ne|lt|le|gt|ge) R, R, R",
    "(vshl|vshr).u32.u32.u32.(clamp|wrap) R, R, R",
    "(vadd4|vsub4|vabsdiff4|vmin4|vmax4).(u32|s32).(u32|s32).(u32|s32){.sat} R, R, R, R",
    "(vadd2|vsub2|vabsdiff2|vmin2|vmax2).(u32|s32).(u32|s32).(u32|s32){.sat} R, R, R, R",
    "vabsdiff4.u32.u32.u32.add R, R, R, R",
];

const APPROXIMATE: &[&str] = &[
    "(ex2|lg2|rcp|sqrt|rsqrt).approx{.ftz}.f32 X, F",
    "tanh.approx.f32 X, F",
    "div.(approx|full){.ftz}.f32 X, F, F",
];
