//! All cases, in several processes side by side.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::{Outcome, Tried};
use crate::case::Case;

/// A case with all its variants takes less.
const PATIENCE: Duration = Duration::from_secs(150);

/// The child: the cases that are its share, from `first` on, one line each, until the device is lost.
///
/// # Errors
/// When standard output is closed.
pub fn child(
    cases: &[&Case],
    first: usize,
    mut try_case: impl FnMut(&Case) -> Tried,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for case in cases.iter().skip(first) {
        let tried = try_case(case);
        serde_json::to_writer(&mut out, &tried)?;
        writeln!(out)?;
        out.flush()?;
        if tried.lost {
            break;
        }
    }
    Ok(())
}

/// Every `of`th case from `share` on.
pub fn share(cases: &[Case], share: usize, of: usize) -> Vec<&Case> {
    cases.iter().skip(share).step_by(of.max(1)).collect()
}

/// The parent: starts this program `processes` times, with `arguments`, the child's share and the number of the next case
/// of it.
///
/// # Errors
/// When a child cannot be started or says nothing.
pub fn parent(
    arguments: &[String],
    cases: &[Case],
    processes: usize,
) -> std::io::Result<Vec<Tried>> {
    let shares: Vec<std::io::Result<Vec<Tried>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processes)
            .map(|number| {
                scope.spawn(move || {
                    one_share(
                        arguments,
                        share(cases, number, processes),
                        number,
                        processes,
                    )
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(std::io::Error::other("a thread panicked")))
            })
            .collect()
    });
    let mut all = Vec::new();
    for share in shares {
        all.extend(share?);
    }
    Ok(all)
}

fn one_share(
    arguments: &[String],
    cases: Vec<&Case>,
    number: usize,
    of: usize,
) -> std::io::Result<Vec<Tried>> {
    let mut all: Vec<Tried> = Vec::new();
    while all.len() < cases.len() {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .args([number, of, all.len()].map(|number| number.to_string()))
            .stdout(Stdio::piped())
            .spawn()?;
        let before = all.len();
        let out = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => all.push(serde_json::from_str(&line?)?),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    let why = format!("not done after {} s", PATIENCE.as_secs());
                    all.extend(cases.get(all.len()).map(|case| Tried {
                        name: case.name.clone(),
                        error: None,
                        as_recorded: None,
                        variants: vec![("?".to_owned(), Outcome::Failed(why))],
                        lost: true,
                    }));
                    break;
                }
            }
        }
        let status = child.wait()?;
        drop(lines);
        _ = reader.join();
        if all.len() == before {
            let case = cases.get(before).map_or("?", |case| case.name.as_str());
            return Err(std::io::Error::other(format!(
                "{case}: nothing came, {status}"
            )));
        }
    }
    Ok(all)
}
