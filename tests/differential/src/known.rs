//! Cases in which the other side is known to be wrong.
//!
//! An entry needs evidence that this device follows the ISA and the other does not. Cases with an entry are reported
//! apart, and fail when they begin to agree: then the entry goes.

/// A case, and what is wrong there.
const KNOWN: &[(&str, &str)] = &[
    (
        "integer/shift subtract",
        "the driver's assembler (13.0) makes a rotation of (x << 8) - (x >> 56)",
    ),
    (
        "kernels/atomic_single shared add.noftz.f16x2 32 b32",
        "the driver's assembler (13.0) takes the upper half of the operand from the upper word of the 64-bit register that it was cut from",
    ),
];

/// Why a case is known to differ.
pub fn defect(name: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(case, _)| *case == name)
        .map(|(_, why)| *why)
}
