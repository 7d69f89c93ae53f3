//! What a comparison gave, by family.

use std::collections::BTreeMap;

use crate::bounds::Error;
use crate::case::Case;
use crate::compare::Verdict;
use crate::record::Head;

#[derive(Default, serde::Serialize)]
struct Family<'a> {
    family: &'a str,
    cases: usize,
    same_bits: usize,
    within_bound: usize,
    known: usize,
    failed: usize,
    /// Largest error as part of what is allowed.
    worst_of_allowed: f64,
    /// The same in the unit of its bound.
    worst_error: String,
    worst: &'a str,
}

/// Prints failures and known differences to standard error, and a table, or JSON lines, to standard output.
///
/// # Errors
/// When a line cannot be made.
pub fn print(
    head: &Head,
    device: &str,
    verdicts: &[(&Case, Verdict)],
    json: bool,
) -> std::io::Result<()> {
    let mut families: BTreeMap<&str, (Family<'_>, Error)> = BTreeMap::new();
    for (case, verdict) in verdicts {
        let (family, worst) = families.entry(case.family()).or_default();
        family.family = case.family();
        family.cases += 1;
        match (&verdict.failure, verdict.different) {
            (Some(_), _) => family.failed += 1,
            _ if verdict.known.is_some() => family.known += 1,
            (None, 0) => family.same_bits += 1,
            (None, _) => family.within_bound += 1,
        }
        if verdict.worst.of_allowed > worst.of_allowed {
            *worst = verdict.worst;
            family.worst_of_allowed = worst.of_allowed;
            family.worst_error = worst.to_string();
            family.worst = &case.name;
        }
        if let Some(failure) = &verdict.failure {
            eprintln!("FAIL {}: {failure}", case.name);
        }
        if let Some(why) = verdict.known {
            eprintln!("known {}: {why}", case.name);
        }
    }
    let families = families.values().map(|(family, _)| family);
    if json {
        for family in families {
            println!("{}", serde_json::to_string(family)?);
        }
        return Ok(());
    }
    println!("{device} against {} (driver {})", head.device, head.driver);
    println!(
        "{:14} {:>6} {:>10} {:>13} {:>6} {:>7}  worst error, of what is allowed",
        "family", "cases", "same bits", "within bound", "known", "failed"
    );
    for family in families {
        println!(
            "{:14} {:>6} {:>10} {:>13} {:>6} {:>7}  {:.2} {} {}",
            family.family,
            family.cases,
            family.same_bits,
            family.within_bound,
            family.known,
            family.failed,
            family.worst_of_allowed,
            family.worst_error,
            family.worst
        );
    }
    Ok(())
}
