//! Results of all cases from one device.
//!
//! A fault of a kernel leaves a CUDA context unusable for the rest of the process. So cases run in a child process,
//! which ends after a failed case, and the next child goes on behind it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use r3_replay::device::Device;

use crate::case::Case;
use crate::device;
use crate::record::{Entry, Head, Recorded, identity};

/// One case.
pub fn entry(device: &mut dyn Device, case: &Case, whole: bool) -> Entry {
    let (results, error) = match device::run(device, case) {
        Ok(results) => {
            let described = case
                .buffers
                .iter()
                .filter_map(|buffer| buffer.result.as_ref());
            let recorded = results
                .iter()
                .zip(described)
                .map(|(bytes, result)| Recorded::new(result, bytes, whole))
                .collect();
            (recorded, None)
        }
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Entry {
        name: case.name.clone(),
        case: identity(case),
        results,
        error,
    }
}

/// What a device is called.
pub fn head(device: &dyn Device) -> Head {
    Head {
        device: device.info().name.clone(),
        driver: device.info().driver_version,
    }
}

/// The child: cases from `first` on, one line each on standard output, until one fails.
///
/// # Errors
/// When standard output is closed.
pub fn child(
    device: &mut dyn Device,
    cases: &[Case],
    first: usize,
    whole: bool,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &head(device))?;
    writeln!(out)?;
    for case in cases.iter().skip(first) {
        let entry = entry(device, case, whole);
        serde_json::to_writer(&mut out, &entry)?;
        writeln!(out)?;
        if entry.error.is_some() {
            break;
        }
    }
    out.flush()
}

/// A case that takes longer than this hangs: the longest takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The parent: starts this program again, with `arguments` and the number of the next case, until all have run.
///
/// # Errors
/// When a child cannot be started or says nothing.
pub fn parent(arguments: &[String], cases: &[Case]) -> std::io::Result<(Head, Vec<Entry>)> {
    let mut head = None;
    let mut entries: Vec<Entry> = Vec::new();
    while entries.len() < cases.len() || head.is_none() {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .arg(entries.len().to_string())
            .stdout(Stdio::piped())
            .spawn()?;
        let before = entries.len();
        let out = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut started = false;
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if !started => {
                    head = Some(serde_json::from_str(&line?)?);
                    started = true;
                }
                Ok(line) => entries.push(serde_json::from_str(&line?)?),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    entries.extend(cases.get(entries.len()).map(|case| Entry {
                        name: case.name.clone(),
                        case: identity(case),
                        results: Vec::new(),
                        error: Some(format!("not done after {} s", PATIENCE.as_secs())),
                    }));
                    break;
                }
            }
        }
        let status = child.wait()?;
        drop(lines);
        _ = reader.join();
        if entries.len() == before {
            return Err(std::io::Error::other(format!(
                "case {before}: nothing came, {status}"
            )));
        }
    }
    Ok((head.ok_or(std::io::ErrorKind::UnexpectedEof)?, entries))
}
