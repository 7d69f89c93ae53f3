//! Cases in which the other side is known to be wrong.
//!
//! An entry needs evidence that this device follows the ISA and the other does not. Cases with an entry are reported
//! apart, and fail when they begin to agree: then the entry goes.

/// How the name of a case begins, and what is wrong there.
const KNOWN: &[(&str, &str)] = &[
    // `SHF.L.W.U32.HI R4, R3, 0x8, R2; SHF.L.W.U32.HI R5, R2, 0x8, R3`: no subtraction.
    (
        "integer/shift subtract",
        "the driver's assembler (13.0) makes a rotation of (x << 8) - (x >> 56)",
    ),
    // The operand is the lower word of R4:R5: `PRMT R5, R5, 0x5410, R5; HADD2 R0, R8.reuse.H1_H1, R5.H1_H1; HADD2 R9,
    // R8.H0_H0, R4.H0_H0`.
    (
        "kernels/atomic_single shared add.noftz.f16x2 32 b32",
        "the driver's assembler (13.0) takes the upper half of the operand from the upper word of the 64-bit register that it was cut from",
    ),
    // Code of ptxas 12.9, 13.0 and 13.5, with -O0 and with -O3, for `@%p1 testp.finite.f32 %p2, %f1`: `LOP3.LUT R0, R8,
    // 0x7fffffff …; ISETP.LT.U32.AND P0, PT, R0, R17, PT`, and P0 is what is used: %p1 does not appear.
    (
        "kernels/guarded_testp",
        "assemblers (12.9 to 13.5) do testp whatever its guard says",
    ),
    // For `@%p0 set.lt.f32.f32 %f0, %f1, %f2`: `@P0 FSETP.LT.AND P1, …; @P0 SEL R8, RZ, 0xffffffff, !P1; IABS R8, R8;
    // I2FP.F32.S32 R8, R8`: with the guard off, what was in the register is taken for an integer and converted.
    (
        "kernels/guarded_set",
        "assemblers (12.9 to 13.5) do the last step of set.f32.f32, a conversion, whatever its guard says",
    ),
];

/// Why a case is known to differ.
pub fn defect(name: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map(|(_, why)| *why)
}
