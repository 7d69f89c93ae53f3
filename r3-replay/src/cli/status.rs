//! `status`: how a server is doing.

use std::path::PathBuf;

use super::output::{Output, bytes, count};
use super::serve::address;
use super::{Failure, OK};
use crate::serve::address::Address;
use crate::serve::client::Client;
use crate::serve::protocol::StatusAnswer;
use crate::serve::token::Token;

/// Show how a server (`r3-replay serve`) is doing.
///
/// Exit code: 0, or 2 when no server answers.
#[derive(clap::Args)]
pub struct Args {
    /// The server: `unix:PATH` or `tcp:HOST:PORT` [default: where `serve` listens without --listen].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    connect: Option<Address>,

    /// File with the server's token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let address = match &args.connect {
        Some(address) => address.clone(),
        None => Address::of_user().map_err(Failure::new)?,
    };
    let token = args.token_file.as_deref().map(Token::read);
    let token = token.transpose().map_err(Failure::new)?;
    let client = Client::connect(address, token).map_err(Failure::new)?;
    let status = client.status().map_err(Failure::new)?;
    if args.json {
        out.json(&status)?;
    } else {
        print(&status, client.address(), out)?;
    }
    Ok(OK)
}

fn print(status: &StatusAnswer, address: &Address, out: &mut Output) -> Result<(), Failure> {
    let StatusAnswer { server, evaluator } = status;
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let verdicts: Vec<String> = evaluator
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    let compiled = evaluator.cache_hits + evaluator.cache_misses;
    let rows = [
        (
            "server",
            format!(
                "{address}, process {}, version {}",
                server.process, server.version
            ),
        ),
        ("up for", duration(evaluator.uptime)),
        (
            "candidates",
            format!(
                "{} queued, {} compiling, {} waiting, {} running, {} done",
                evaluator.queued,
                evaluator.compiling,
                evaluator.waiting,
                evaluator.running,
                evaluator.done
            ),
        ),
        ("verdicts", verdicts.join(", ")),
        (
            "compilations",
            format!(
                "{compiled}, of which the cache had {}",
                evaluator.cache_hits
            ),
        ),
        (
            "equal code",
            count(evaluator.equal, "candidate", "candidates"),
        ),
        (
            "busy",
            format!(
                "compilers {}, devices {}",
                percent(evaluator.compilers_busy),
                percent(evaluator.devices_busy)
            ),
        ),
        (
            "memory",
            format!(
                "workers {}, devices {}, events {}",
                bytes(evaluator.worker_memory),
                bytes(evaluator.device_memory),
                bytes(server.event_bytes)
            ),
        ),
        ("workers restarted", evaluator.restarts.to_string()),
        (
            "connections",
            format!(
                "{} open, {} refused; {}, {} unauthorized",
                server.connections,
                server.refused_connections,
                count(server.requests, "request", "requests"),
                server.unauthorized
            ),
        ),
    ];
    let archives = evaluator
        .archives
        .iter()
        .map(|(id, path)| ("archive", format!("{}: {}", id.0, path.display())));
    for (name, value) in rows.into_iter().chain(archives) {
        if !value.is_empty() {
            out.line(format!("{name:<18} {}", crate::names::printable(&value)))?;
        }
    }
    Ok(())
}

/// A time for people: `12 s`, `3 min 20 s`, `5 h 2 min`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
