//! What a comparison gave, by family.

use std::collections::BTreeMap;

use crate::bounds::Error;
use crate::case::Case;
use crate::compare::Verdict;
use crate::lifted::{Outcome, Tried, reproducer};
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

/// One pipeline over all its cases.
#[derive(Default, serde::Serialize)]
struct OfPipeline {
    pipeline: String,
    cases: usize,
    same_bits: usize,
    within_bound: usize,
    other_nans: usize,
    known: usize,
    stopped: usize,
    failed: usize,
}

/// Prints failures, with the command that shows each again, to standard error, and a table, or JSON lines, to standard
/// output. Whether there are none.
///
/// # Errors
/// When a line cannot be made.
pub fn lifted(device: &str, tried: &[Tried], json: bool) -> std::io::Result<bool> {
    // In the order of the pipelines, as far as that is known.
    let mut pipelines: Vec<OfPipeline> = Vec::new();
    let mut good = true;
    for case in tried {
        if let Some(error) = &case.error {
            good = false;
            eprintln!("FAIL {}, as it is: {error}", case.name);
        }
        if case.as_recorded == Some(false) {
            good = false;
            eprintln!("FAIL {}, as it is: not what was recorded", case.name);
        }
        for (pipeline, outcome) in &case.variants {
            let at = pipelines.iter().position(|of| of.pipeline == *pipeline);
            let at = at.unwrap_or_else(|| {
                pipelines.push(OfPipeline {
                    pipeline: pipeline.clone(),
                    ..OfPipeline::default()
                });
                pipelines.len() - 1
            });
            let Some(of) = pipelines.get_mut(at) else {
                continue;
            };
            of.cases += 1;
            match outcome {
                Outcome::Same => of.same_bits += 1,
                Outcome::Within => of.within_bound += 1,
                Outcome::Nans => of.other_nans += 1,
                Outcome::Known(why) => {
                    of.known += 1;
                    eprintln!("known {}, {pipeline}: {why}", case.name);
                }
                Outcome::Stopped(why) => {
                    of.stopped += 1;
                    eprintln!("stopped {}, {pipeline}: {why}", case.name);
                }
                Outcome::Failed(why) => {
                    of.failed += 1;
                    good = false;
                    eprintln!(
                        "FAIL {}, {pipeline}: {why}\n  {}",
                        case.name,
                        reproducer(&case.name, pipeline, device)
                    );
                }
            }
        }
    }
    if json {
        for of in &pipelines {
            println!("{}", serde_json::to_string(of)?);
        }
        return Ok(good);
    }
    println!(
        "{:14} {:>6} {:>10} {:>13} {:>10} {:>6} {:>8} {:>7}",
        "pipeline",
        "cases",
        "same bits",
        "within bound",
        "other NaNs",
        "known",
        "stopped",
        "failed"
    );
    for of in &pipelines {
        println!(
            "{:14} {:>6} {:>10} {:>13} {:>10} {:>6} {:>8} {:>7}",
            of.pipeline,
            of.cases,
            of.same_bits,
            of.within_bound,
            of.other_nans,
            of.known,
            of.stopped,
            of.failed
        );
    }
    Ok(good)
}
