//! How far an approximate result may be off: the ISA's bounds, from [`r3_emu::accuracy`].

use std::fmt;

use r3_emu::accuracy::{Accuracy, Bound, Precision, bound};
use r3_ptx::isa::{Mnemonic, ScalarType};

use crate::case::Element;

/// What is to be said of two results that have different bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// Within the bound.
    Within(Error),
    /// Where no bound holds.
    Unchecked,
    /// Further apart.
    Beyond(String),
}

/// How far two results are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Error {
    /// As part of what is allowed: the bound, and half a unit for each rounding.
    pub of_allowed: f64,
    /// In the unit of the bound.
    pub amount: f64,
    /// The unit.
    pub unit: Unit,
}

/// What a bound is stated in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Units in the last place of the format.
    #[default]
    Ulp,
    /// The magnitude of the result.
    Relative,
    /// 1.
    Absolute,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            _ if self.amount == 0.0 => f.write_str("0"),
            Unit::Ulp => write!(f, "{:.2} ULP", self.amount),
            Unit::Relative => write!(f, "2^{:.1} relative", self.amount.log2()),
            Unit::Absolute => write!(f, "2^{:.1} absolute", self.amount.log2()),
        }
    }
}

/// Whether results of an instruction are the same bits everywhere. What cannot be parsed is a body of several, all exact.
pub fn is_exact(mnemonic: &str) -> bool {
    accuracy(mnemonic).is_none_or(|accuracy| accuracy.bound == Bound::Exact)
}

fn accuracy(mnemonic: &str) -> Option<Accuracy> {
    Mnemonic::parse(mnemonic)
        .ok()
        .map(|mnemonic| bound(&mnemonic))
}

/// Judges one number of a result; `sources` are the numbers that it was made from.
pub fn judge(
    mnemonic: &str,
    element: Element,
    sources: &[f64],
    ours: f64,
    theirs: f64,
) -> Judgement {
    let (Some(accuracy), Some(precision)) = (accuracy(mnemonic), precision(element)) else {
        return Judgement::Beyond("no bound is known".into());
    };
    let argument = sources.last().copied().unwrap_or(f64::NAN);
    if ours.is_nan() && theirs.is_nan() {
        return Judgement::Unchecked;
    }
    // Where the argument is not known, it may be where the bound of `lg2` is absolute.
    let argument = if sources.is_empty() && !accuracy.allows(argument, ours, theirs, precision) {
        1.0
    } else {
        argument
    };
    let difference = (ours - theirs).abs();
    let absolute = match accuracy.bound {
        Bound::Absolute(_) | Bound::Steps(_) => true,
        Bound::Split { from, to, .. } => (from..=to).contains(&argument),
        _ => false,
    };
    let (amount, unit) = match accuracy.bound {
        _ if absolute => (difference, Unit::Absolute),
        Bound::Ulp(_) => (difference / precision.unit(ours), Unit::Ulp),
        _ => (difference / ours.abs(), Unit::Relative),
    };
    let error = Error {
        of_allowed: accuracy.distance(argument, ours, theirs, precision),
        amount,
        unit,
    };
    let inside = accuracy
        .domain
        .is_none_or(|(low, high)| (low..=high).contains(&argument.abs()));
    if !accuracy.allows(argument, ours, theirs, precision) {
        Judgement::Beyond(format!("{error} apart, {:?} allowed", accuracy.bound))
    } else if inside && error.of_allowed.is_finite() && amount.is_finite() {
        Judgement::Within(error)
    } else {
        Judgement::Unchecked
    }
}

fn precision(element: Element) -> Option<Precision> {
    Precision::of(match element {
        Element::F16 | Element::F16x2 => ScalarType::F16,
        Element::Bf16 | Element::Bf16x2 => ScalarType::BF16,
        Element::F32 => ScalarType::F32,
        Element::F64 => ScalarType::F64,
        Element::Bits(_) => return None,
    })
}
