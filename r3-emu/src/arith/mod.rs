//! Arithmetic of single values, as PTX defines it and hardware does it. No state of warps, no memory.
//!
//! Everything here is a small `#[inline(always)]` function from values to a value, so that a loop over 32 lanes around it
//! becomes vector instructions. What decides the operation (rounding, `.ftz`, `.sat`) is an argument
//! that callers give as a constant; it folds away.
//!
//! - [`single`] and [`double`]: `.f32` and `.f64`. Round-to-nearest is the host's own instruction. The other roundings of
//!   `.f32` come from the host's `.f64` and an error-free transformation; those of `.f64` from [`soft`].
//! - [`half`]: `.f16` and `.bf16`, on bits, rounded once.
//! - [`soft`]: exact arithmetic on integers for any format and rounding: what is rare, and what tests compare against.
//! - [`convert`]: between all types. [`small`]: formats of 8 bits and less, `.tf32`, stochastic rounding.
//! - [`approx`]: what PTX calls approximate. Here it is the correctly rounded value or close to it, with the
//!   ISA's special cases; `docs/emulator.md` has the table.
//! - [`video`]: SIMD within a register.
//!
//! NaN: a `.f32` result that is NaN is `0x7fffffff`, of `.f16` and `.bf16` `0x7fff`. For `.f64` see [`double`].
//! Subnormal numbers are kept; `.ftz` flushes inputs and the result by a select, never by a mode of the host.

pub mod approx;
pub mod convert;
pub mod double;
pub mod half;
pub mod single;
pub mod small;
pub mod soft;
pub mod video;

/// How to round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
    /// `.rn`: to nearest, ties to even.
    NearestEven,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards minus infinity.
    Down,
    /// `.rp`: towards plus infinity.
    Up,
}

impl Round {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::NearestEven,
        Self::NearestAway,
        Self::Zero,
        Self::Down,
        Self::Up,
    ];
}

/// A comparison of floating-point values: `setp`, `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// Equal. The six ordered ones are false when an operand is NaN.
    Eq,
    /// Not equal, neither NaN.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Equal, or an operand is NaN.
    Equ,
    /// Not equal, or an operand is NaN.
    Neu,
    /// Less, or an operand is NaN.
    Ltu,
    /// Less or equal, or an operand is NaN.
    Leu,
    /// Greater, or an operand is NaN.
    Gtu,
    /// Greater or equal, or an operand is NaN.
    Geu,
    /// Neither is NaN.
    Num,
    /// One is NaN.
    Nan,
}

/// Body of the comparisons: the host's operators have IEEE's meaning.
macro_rules! compare {
    ($relation:expr, $a:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        // A negated comparison is true of NaN, which is what is meant.
        #[allow(clippy::neg_cmp_op_on_partial_ord, clippy::double_comparisons)]
        match $relation {
            Compare::Eq => a == b,
            Compare::Ne => a < b || a > b,
            Compare::Lt => a < b,
            Compare::Le => a <= b,
            Compare::Gt => a > b,
            Compare::Ge => a >= b,
            Compare::Equ => !(a < b || a > b),
            Compare::Neu => a != b,
            Compare::Ltu => !(a >= b),
            Compare::Leu => !(a > b),
            Compare::Gtu => !(a <= b),
            Compare::Geu => !(a < b),
            Compare::Num => !(a.is_nan() || b.is_nan()),
            Compare::Nan => a.is_nan() || b.is_nan(),
        }
    }};
}
pub(crate) use compare;

/// A class of [`testp`](single::test).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// Neither infinite nor NaN.
    Finite,
    /// Infinite.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Neither subnormal, infinite nor NaN; zero is, as on an H200.
    Normal,
    /// Subnormal; zero is not.
    Subnormal,
}
