//! How far an approximate result may be off: the ISA's bounds, from [`r3_emu::accuracy`].

use r3_emu::accuracy::{Accuracy, Bound, Precision, bound};
use r3_ptx::isa::{Mnemonic, ScalarType};

use crate::case::Element;

/// What is to be said of two results that have different bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// Within the bound; so many units in the last place apart.
    Within(f64),
    /// Where no bound holds.
    Unchecked,
    /// Further apart.
    Beyond(String),
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
    let units = (ours - theirs).abs() / precision.unit(ours);
    let inside = accuracy
        .domain
        .is_none_or(|(low, high)| (low..=high).contains(&argument.abs()));
    // Where the argument is not known, it may be where the bound of `lg2` is absolute.
    let allowed = accuracy.allows(argument, ours, theirs, precision)
        || (sources.is_empty() && accuracy.allows(1.0, ours, theirs, precision));
    if !allowed {
        Judgement::Beyond(format!("{units:.2} ULP apart, {:?}", accuracy.bound))
    } else if inside && units.is_finite() {
        Judgement::Within(units)
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
