//! `selftest`: whether results can be believed on this machine.

use std::path::PathBuf;

use super::evaluator::EvaluatorArgs;
use super::output::Output;
use super::{DIFFERENT, Failure, OK};
use crate::evaluate::evaluator::Evaluator;
use crate::names::printable;
use crate::selftest::run::{self, CaseReport};

/// Try the evaluator on candidates with known verdicts: exploits, all of which must be caught, and rewrites that are right,
/// none of which may be refused.
///
/// docs/integrity.md has the table of exploits. Exit code: 0 when all is as it must be, 1 when an exploit passed or a
/// rewrite was refused, 2 when it could not run.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluator: EvaluatorArgs,

    /// Print as JSON.
    #[arg(long)]
    json: bool,

    /// Only write the archive that candidates are tried on.
    #[arg(long, value_name = "FILE")]
    write_archive: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    if let Some(path) = &args.write_archive {
        run::write_archive(path).map_err(Failure::new)?;
        return Ok(OK);
    }
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::Message(format!("no folder for temporary files: {error}")))?;
    let path = folder.path().join("selftest.r3");
    run::write_archive(&path).map_err(Failure::new)?;
    let mut options = args.evaluator.options(std::slice::from_ref(&path))?;
    options.engine.tolerances = run::tolerances().map_err(Failure::new)?;
    let evaluator = Evaluator::new(options).map_err(Failure::new)?;
    let report = run::run(&evaluator, &path, &mut |_| {});
    evaluator.shutdown();
    let report = report.map_err(Failure::new)?;
    if args.json {
        out.json(&report)?;
        return Ok(if report.ok() { OK } else { DIFFERENT });
    }
    let mut cases: Vec<&CaseReport> = report.cases.iter().collect();
    cases.sort_by_key(|case| (case.row.is_none(), case.row, case.name));
    out.table(
        &["row", "kernel", "candidate", "verdict", ""],
        &[0],
        cases.into_iter().map(row),
    )?;
    for name in &report.left_out {
        out.line(format!("left out, since it needs a GPU: {name}"))?;
    }
    for name in &report.not_compiled {
        out.line(format!(
            "left out, since no compiler of CUDA C++ is here: {name}"
        ))?;
    }
    let (exploits, harmless) = (report.exploits, report.harmless);
    out.line(format!(
        "{}: {} of {} exploits caught, {} of {} harmless rewrites passed",
        report.device, exploits.caught, exploits.count, harmless.passed, harmless.count
    ))?;
    Ok(if report.ok() { OK } else { DIFFERENT })
}

fn row(case: &CaseReport) -> Vec<String> {
    let row = case.row.map_or_else(String::new, |row| row.to_string());
    let why = match &case.reason {
        Some(reason) if !case.ok => reason.lines().next().unwrap_or_default(),
        _ => case.what,
    };
    let mark = if case.ok {
        ""
    } else {
        "  <- NOT AS IT MUST BE"
    };
    vec![
        row,
        case.kernel.to_owned(),
        case.name.to_owned(),
        format!("{}{mark}", case.verdict.word()),
        printable(why),
    ]
}
