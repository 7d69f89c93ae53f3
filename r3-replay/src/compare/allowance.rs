//! How far a device's results may be off where PTX leaves a result open.
//!
//! No bound on the results of a kernel follows from the bounds of its instructions without knowing how errors add up
//! and cancel in it. The rule is therefore one that a person can judge: an element may be off by [`STEPS`] times
//! the largest bound of the kernel's instructions, relative to the element, or to the largest element of its buffer
//! (differences of large numbers are small, and keep the large numbers' errors). A wrong instruction, index or
//! constant is off by orders of magnitude more, and what was found is told in any case.

use super::{ElementType, Tolerance};
use crate::device::Inexact;

/// How many errors of the size of the largest one may add up.
pub const STEPS: f64 = 64.0;

/// What follows from the instructions of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// The largest bound of an instruction, relative to its result.
    pub relative: f64,
    /// Type of buffers whose type is not known otherwise: the only one that the kernel stores.
    pub element: Option<ElementType>,
}

impl Allowance {
    /// From the reasons of a kernel; `None` when there are none.
    pub fn new(reasons: &[Inexact]) -> Option<Self> {
        let relative = reasons
            .iter()
            .map(|reason| reason.relative)
            .reduce(f64::max)?;
        let element = reasons.first().and_then(|reason| reason.stored);
        Some(Self { relative, element })
    }

    /// The tolerance for a buffer whose largest element has this magnitude.
    pub fn tolerance(self, element: ElementType, largest: f64) -> Tolerance {
        // What is stored in a narrower format than it was computed in has that format's rounding.
        let relative = STEPS * self.relative.max(element.rounding());
        Tolerance {
            absolute: relative * largest,
            relative,
            ulp: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(relative: f64) -> Inexact {
        Inexact {
            what: String::new(),
            line: 1,
            count: 1,
            relative,
            stored: None,
        }
    }

    #[test]
    fn the_largest_bound_counts_and_the_format_of_the_buffer() {
        let allowance = Allowance::new(&[reason(1e-7), reason(1e-5)]).unwrap();
        let single = allowance.tolerance(ElementType::F32, 100.0);
        assert_eq!((single.relative, single.absolute), (64e-5, 64e-3));
        let half = allowance.tolerance(ElementType::F16, 0.0);
        assert_eq!(half.relative, 64.0 / 2048.0);
        assert_eq!(Allowance::new(&[]), None);
    }
}
