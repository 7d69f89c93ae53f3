//! `r3-evolve simulate`.

use std::path::PathBuf;

use super::Failure;
use super::output::Output;
use crate::simulate;
use crate::simulate::population::{self, Policy};
use crate::strategy::Kind;

/// Compares strategies on spaces whose points are known, without a device.
///
/// A space is recorded by `r3-evolve export --format recorded`, best from a run with --strategy grid, or is worked out from
/// tables of effects (TOML).
#[derive(clap::Args)]
pub struct Args {
    /// Recorded (.jsonl) or synthetic (.toml) spaces.
    #[arg(required = true)]
    spaces: Vec<PathBuf>,

    /// Strategies, with commas between them [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    strategy: Vec<Kind>,

    /// Runs of each.
    #[arg(long, value_name = "N", default_value_t = 10)]
    seeds: u32,

    /// Evaluations of each run.
    #[arg(long, value_name = "N", default_value_t = 100)]
    evaluations: usize,

    /// Compare how evaluations are spent on many variants of a source instead: halving, and evenly. For synthetic spaces.
    #[arg(long)]
    variants: bool,

    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    if args.variants {
        return variants(args, out);
    }
    let kinds = if args.strategy.is_empty() {
        Kind::ALL.to_vec()
    } else {
        args.strategy.clone()
    };
    let report =
        simulate::run(&args.spaces, &kinds, args.seeds, args.evaluations).map_err(Failure::new)?;
    if args.json {
        return out.json(&report);
    }
    out.text(&report.to_string())
}

fn variants(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let mut subjects = Vec::new();
    for path in &args.spaces {
        subjects.push(simulate::read(path).map_err(Failure::new)?);
    }
    let all = u32::try_from(args.evaluations).unwrap_or(u32::MAX);
    let marks: Vec<u32> = [10, 3, 1].iter().map(|part| all / part).collect();
    let mut all = Vec::new();
    for better in population::BETTER {
        let spent = population::compare(&subjects, better, &Policy::all(), args.seeds, &marks)
            .map_err(Failure::new)?;
        if !args.json {
            out.text(&format!("{spent}\n"))?;
        }
        all.push(spent);
    }
    if args.json {
        return out.json(&all);
    }
    Ok(())
}
