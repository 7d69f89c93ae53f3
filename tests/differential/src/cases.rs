//! All cases, in the order in which they run.

use crate::case::Case;
use crate::{forms, hand, kernel, matrix, random};

/// Random programs in the record that belongs to the repository.
pub const RECORDED_PROGRAMS: u64 = 500;

/// Every case, with so many random programs, whose name contains one of `filters`; all, when there are none.
pub fn all(filters: &[String], programs: u64) -> Vec<Case> {
    let exact = |mnemonic: &str| crate::bounds::is_exact(mnemonic);
    let mut cases = hand::all();
    cases.extend(matrix::all());
    cases.extend(forms::all().iter().map(|form| kernel::case(form, &exact)));
    cases.extend(random::all(programs));
    cases.retain(|case| {
        filters.is_empty() || filters.iter().any(|filter| case.name.contains(filter))
    });
    cases
}
