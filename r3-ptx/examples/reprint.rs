//! Reads PTX files, prints what was read, and reads that again.
//!
//!     reprint FILE.ptx                 the module to stdout
//!     reprint --to FOLDER FILE.ptx…    each module to a file of the same name in FOLDER
//!
//! Fails when a file cannot be read as PTX, or when the printed text does not give the same tree.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let folder = match files.first().map(String::as_str) {
        Some("--to") if files.len() >= 2 => {
            let folder = files.swap_remove(1);
            files.remove(0);
            Some(folder)
        }
        _ => None,
    };
    if files.is_empty() {
        eprintln!("usage: reprint [--to FOLDER] FILE.ptx…");
        return ExitCode::FAILURE;
    }
    let mut failed = 0;
    for file in &files {
        if let Err(why) = reprint(Path::new(file), folder.as_deref().map(Path::new)) {
            eprintln!("{file}: {why}");
            failed += 1;
        }
    }
    if folder.is_some() {
        println!("{} of {} files", files.len() - failed, files.len());
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn reprint(file: &Path, folder: Option<&Path>) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let mut module = r3_ptx::parse(&text).map_err(|errors| errors.render(&text))?;
    let printed = module.to_string();
    let mut again = r3_ptx::parse(&printed)
        .map_err(|errors| format!("printed text:\n{}", errors.render(&printed)))?;
    module.clear_positions();
    again.clear_positions();
    if module != again {
        return Err("the printed text gives another tree".into());
    }
    match folder {
        Some(folder) => {
            let to = folder.join(file.file_name().unwrap_or_default());
            std::fs::write(&to, printed).map_err(|error| format!("{}: {error}", to.display()))
        }
        None => std::io::stdout()
            .write_all(printed.as_bytes())
            .map_err(|error| error.to_string()),
    }
}
