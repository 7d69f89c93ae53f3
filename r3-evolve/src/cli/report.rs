//! `r3-evolve report`.

use std::path::{Path, PathBuf};

use super::Failure;
use super::output::Output;
use crate::evolve::view::{self, RunView};
use crate::report::{self, Report};
use crate::store::Store;

/// File of the page in the folder of a run.
const PAGE: &str = "report.html";

/// Writes what a search over source found as one page of HTML, also while it goes on.
///
/// The page stands alone: it needs no network and no other file.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// Where the page is written; `-` for standard output. `report.html` in the folder of the run when it is left out.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print what is in the page as JSON instead.
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let store = Store::look(&args.run).map_err(Failure::new)?;
    if !view::is_evolve(&store).map_err(Failure::new)? {
        let folder = args.run.display();
        return Err(Failure::new(format!(
            "{folder} is a run of `tune`, which has no page: `r3-evolve show {folder}` says what it found"
        )));
    }
    let report = Report::of(&RunView::of(&store).map_err(Failure::new)?);
    if args.json {
        return out.json(&report);
    }
    let page = report::page(&report);
    match &args.output {
        Some(path) if path == Path::new("-") => out.text(&page),
        Some(path) => write(path, &page, out),
        None => write(&args.run.join(PAGE), &page, out),
    }
}

/// Whoever looks at the file meanwhile sees the old page or the new one.
fn write(path: &Path, page: &str, out: &mut Output) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, page).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)?;
    out.line(format!("written: {}", path.display()))
}
