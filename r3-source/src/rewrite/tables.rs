//! Names of the language and its headers, so far as operators know them.

/// Variables that say which thread this is.
pub const GEOMETRY: &[&str] = &["threadIdx", "blockIdx", "blockDim", "gridDim"];

/// Casts that are written like calls.
pub const CASTS: &[&str] = &["static_cast", "reinterpret_cast", "const_cast"];

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `int`.
    Int,
    /// `unsigned int`.
    Unsigned,
    /// `float` of `float`, `double` of anything else.
    Overloaded,
    /// What arithmetic makes of its arguments.
    Same,
    /// What its first argument points to.
    Pointee,
}

/// Functions that have no effect and no memory, by what they give. Functions of a mathematical name alone are overloaded; with
/// an `f` after it they are those of `float`.
const MATHEMATICAL: &[&str] = &[
    "sqrt",
    "rsqrt",
    "cbrt",
    "rcbrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "hypot",
    "rhypot",
    "fabs",
    "floor",
    "ceil",
    "trunc",
    "round",
    "rint",
    "nearbyint",
    "fmin",
    "fmax",
    "fmod",
    "fma",
    "erf",
    "erfc",
    "tgamma",
    "lgamma",
    "copysign",
    "fdim",
    "sinpi",
    "cospi",
    "norm3d",
    "rnorm3d",
];

/// Others without effect.
const OTHERS: &[(&str, Result)] = &[
    ("__sinf", Result::Float),
    ("__cosf", Result::Float),
    ("__tanf", Result::Float),
    ("__expf", Result::Float),
    ("__exp10f", Result::Float),
    ("__logf", Result::Float),
    ("__log2f", Result::Float),
    ("__log10f", Result::Float),
    ("__powf", Result::Float),
    ("__fdividef", Result::Float),
    ("__fsqrt_rn", Result::Float),
    ("__frsqrt_rn", Result::Float),
    ("__frcp_rn", Result::Float),
    ("__fadd_rn", Result::Float),
    ("__fmul_rn", Result::Float),
    ("__fmaf_rn", Result::Float),
    ("__saturatef", Result::Float),
    ("__int_as_float", Result::Float),
    ("__dsqrt_rn", Result::Double),
    ("__dadd_rn", Result::Double),
    ("__dmul_rn", Result::Double),
    ("__fma_rn", Result::Double),
    ("__float_as_int", Result::Int),
    ("__popc", Result::Int),
    ("__clz", Result::Int),
    ("__float2int_rn", Result::Int),
    ("__float2int_rz", Result::Int),
    ("__float2int_rd", Result::Int),
    ("__umulhi", Result::Unsigned),
    ("min", Result::Same),
    ("max", Result::Same),
    ("abs", Result::Same),
    ("__ldg", Result::Pointee),
];

/// What a function of the language gives, if it is one without effect.
pub fn result(name: &str) -> Option<Result> {
    if let Some((_, result)) = OTHERS.iter().find(|(other, _)| *other == name) {
        return Some(*result);
    }
    if MATHEMATICAL.contains(&name) {
        return Some(Result::Overloaded);
    }
    let single = name
        .strip_suffix('f')
        .is_some_and(|name| MATHEMATICAL.contains(&name));
    single.then_some(Result::Float)
}

/// Whether a call of a function of the language has no effect: it neither writes nor waits.
pub fn is_pure(name: &str) -> bool {
    result(name).is_some()
        || name
            .strip_prefix("make_")
            .is_some_and(|name| super::types::vector(name).is_some())
}
