//! `serve`: the evaluator for other programs.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::evaluator::{EvaluatorArgs, size};
use super::output::{Output, complain};
use super::{FAILED, Failure, OK};
use crate::evaluate::evaluator::Evaluator;
use crate::evaluate::evaluator::signals::Terminations;
use crate::serve::address::Address;
use crate::serve::child::Ready;
use crate::serve::server::{Server, ServerOptions, Stopper};
use crate::serve::token::Token;

/// Compile, judge and time candidates for other programs, over a Unix socket or TCP.
///
/// Ends on Ctrl-C, SIGTERM, or by `POST /v1/shutdown`: running candidates are cancelled and workers end with it.
/// docs/serve.md describes the protocol. Exit code: 0, or 2 when it could not start.
#[derive(clap::Args)]
pub struct Args {
    /// Archives to open at the start. Clients can open more.
    #[arg(value_name = "ARCHIVE")]
    archives: Vec<PathBuf>,

    /// Where to listen: `unix:PATH` or `tcp:HOST:PORT` (port 0 for any). May be repeated [default: unix:r3-replay/serve.sock
    /// in XDG_RUNTIME_DIR, else in a private folder among the temporary files].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Vec<Address>,

    /// File with the token that clients must know; nobody else may be able to read it. Without it, a token is made up and
    /// shown when there is TCP; a Unix socket is this user's alone and needs none.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    evaluator: EvaluatorArgs,

    /// Memory for events and outcomes that clients may still ask for.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    history: u64,

    /// Connections at a time.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: u32,

    /// Say with one line of JSON that it is ready.
    #[arg(long)]
    json: bool,

    /// End when standard input does: for whoever starts this program and holds the other end.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

pub(super) fn address(text: &str) -> Result<Address, String> {
    text.parse()
        .map_err(|error: crate::serve::address::AddressError| error.to_string())
}

/// Events of the evaluator itself: the server takes them at once, and keeps them.
const EVALUATOR_HISTORY: usize = 1 << 14;

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    // Before threads are started.
    let terminations = Terminations::block().map_err(Failure::new)?;
    let server: Arc<OnceLock<Stopper>> = Arc::default();
    // The parent removes it, unless it was killed. Anything in it keeps it.
    let folder = args
        .until_stdin_closes
        .then(|| own_folder(&args.listen))
        .flatten();
    watch(&server, folder.clone(), move || {
        terminations.wait(None);
        true
    })?;
    if args.until_stdin_closes {
        watch(&server, folder.clone(), || {
            let mut nothing = [0; 64];
            while matches!(std::io::stdin().read(&mut nothing), Ok(1..)) {}
            false
        })?;
    }

    let listen = match args.listen.as_slice() {
        [] => vec![Address::of_user().map_err(Failure::new)?],
        given => given.to_vec(),
    };
    let tcp = listen
        .iter()
        .any(|address| matches!(address, Address::Tcp(..)));
    let (token, made_up) = match &args.token_file {
        Some(path) => (Some(Token::read(path).map_err(Failure::new)?), false),
        None if tcp => (Some(Token::generate().map_err(Failure::new)?), true),
        None => (None, false),
    };
    let options = ServerOptions {
        listen,
        token: token.clone(),
        history: usize::try_from(args.history).unwrap_or(usize::MAX),
        connections: args.connections as usize,
        ..ServerOptions::default()
    };

    let mut evaluator = args.evaluator.options(&args.archives)?;
    evaluator.history = EVALUATOR_HISTORY;
    let evaluator = Evaluator::new(evaluator).map_err(Failure::new)?;
    for path in &args.archives {
        evaluator.open(path).map_err(Failure::new)?;
    }
    let running = Server::start(Arc::new(evaluator), &options).map_err(Failure::new)?;
    // Set once.
    let _ = server.set(running.stopper());

    let shown = token.as_ref().filter(|_| made_up).map(Token::secret);
    announce(args, &running, shown, out)?;
    running.wait();
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir(folder);
    }
    Ok(OK)
}

/// Says that it is ready.
fn announce(
    args: &Args,
    server: &Server,
    token: Option<&str>,
    out: &mut Output,
) -> Result<(), Failure> {
    let listening: Vec<String> = server.addresses().iter().map(Address::to_string).collect();
    if server.is_public() {
        complain(
            "the connection is not encrypted: the token and all code can be read on the network. \
             An SSH tunnel to a server on tcp:127.0.0.1 is safer",
        );
    }
    if args.json {
        out.json_line(&Ready {
            listening,
            instance: server.instance().to_owned(),
            process: std::process::id(),
            token: token.map(str::to_owned),
        })?;
    } else {
        for address in &listening {
            out.line(format!("listening on {address}"))?;
        }
        if let Some(token) = token {
            out.line(format!("token: {token}"))?;
        }
    }
    match out.flush() {
        // Whoever started it does not want to know.
        Err(Failure::BrokenPipe) => Ok(()),
        other => other,
    }
}

/// Waits for something in a thread, then ends the server; without one, the process. What says `true` may come again, and
/// then ends the process too.
fn watch(
    server: &Arc<OnceLock<Stopper>>,
    folder: Option<PathBuf>,
    mut something: impl FnMut() -> bool + Send + 'static,
) -> Result<(), Failure> {
    let server = Arc::clone(server);
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || {
            let again = something();
            if let Some(stopper) = server.get() {
                stopper.stop();
                if !again {
                    return;
                }
                something();
            }
            if let Some(folder) = &folder {
                let _ = std::fs::remove_dir(folder);
            }
            // Workers end with this process.
            std::process::exit(i32::from(FAILED));
        })
        .map(|_| ())
        .map_err(Failure::new)
}

/// The folder of the only socket.
fn own_folder(addresses: &[Address]) -> Option<PathBuf> {
    match addresses {
        [Address::Unix(path)] => path.parent().map(Path::to_owned),
        _ => None,
    }
}
