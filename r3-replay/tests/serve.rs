//! `r3-replay serve` with the real evaluator on the CPU device, as other programs use it.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use r3_replay::evaluate::Candidate;
use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::evaluator::{ArchiveId, JobState, Priority, Request};
use r3_replay::evaluate::outcome::{Outcome, Verdict};
use r3_replay::evaluate::plan::Plan;
use r3_replay::evaluate::rules::Allowed;
use r3_replay::serve::address::Address;
use r3_replay::serve::child::{ChildError, ChildOptions, Ready, ServerChild};
use r3_replay::serve::client::{Client, EventsFrom, Update};
use r3_replay::serve::protocol::StatusAnswer;
use r3_replay::serve::token::Token;

const PROGRAM: &str = env!("CARGO_BIN_EXE_r3-replay");
const SAXPY: &str = "_Z5saxpyiiPKfPf";

fn archive(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives");
    Path::new(folder).join(name).canonicalize().unwrap()
}

/// Options of all servers here: nothing is left behind.
const CPU: [&str; 6] = ["--device", "cpu", "--cache-size", "0", "--workers", "2"];

fn child(archives: &[&str], more: &[&str]) -> ServerChild {
    ServerChild::start(&ChildOptions {
        program: PROGRAM.into(),
        archives: archives.iter().map(|name| archive(name)).collect(),
        arguments: CPU.iter().chain(more).map(Into::into).collect(),
        ..ChildOptions::default()
    })
    .unwrap()
}

fn request(archive: ArchiveId, kernel: &str, candidate: Candidate) -> Request {
    Request {
        archive,
        kernel: kernel.to_owned(),
        candidate,
        plan: Plan::default(),
        priority: Priority::default(),
    }
}

fn with_block(block: u32) -> Candidate {
    let mut candidate = Candidate::default();
    candidate.launch.block = Some([block, 1, 1]);
    candidate
}

fn with_ptx(ptx: &str) -> Candidate {
    Candidate {
        code: CandidateCode::Ptx(ptx.to_owned()),
        ..Candidate::default()
    }
}

/// PTX of a kernel with saxpy's interface that does nothing.
fn empty_kernel() -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 4 .u32 elements_done;\n.visible .entry {SAXPY}(\n.param .u32 a,\n.param .u32 b,\n.param .u64 c,\n\
         .param .u64 d\n)\n{{\n\tret;\n}}\n"
    )
}

/// Submits, and waits for all outcomes, in the order of the requests.
fn outcomes(client: &Client, requests: &[Request]) -> Vec<Outcome> {
    let submitted = client.submit(requests, Some("test")).unwrap();
    assert_eq!(submitted.problem, None);
    let mut all = vec![None; requests.len()];
    let from = EventsFrom {
        group: Some("test".to_owned()),
        done: true,
        ..EventsFrom::default()
    };
    for update in client.events(from) {
        let Update::Event(event) = update.unwrap() else {
            panic!("events are missing");
        };
        let JobState::Done(outcome) = event.state else {
            panic!("{:?}", event.state);
        };
        let place = submitted.jobs.iter().position(|job| *job == event.job);
        all[place.unwrap()] = Some(*outcome);
        if all.iter().all(Option::is_some) {
            break;
        }
    }
    all.into_iter().map(Option::unwrap).collect()
}

/// Waits until something is so.
fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes whose parent is this one, and theirs.
fn descendants(of: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // After the name, which may have anything in it: state, parent.
            let fields = stat.rsplit(") ").next().unwrap_or_default();
            if fields.split(' ').nth(1) == Some(&parent.to_string()) {
                found.push(id);
                parents.push(id);
            }
        }
    }
    found
}

fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

fn signal(id: u32, signal: i32) {
    let id = i32::try_from(id).unwrap();
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

/// A server by hand.
struct Served {
    process: Child,
    ready: Ready,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(PROGRAM)
            .arg("serve")
            .args(arguments)
            .args(CPU)
            .arg("--json")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        Self {
            process,
            ready: serde_json::from_str(&line).unwrap(),
        }
    }

    fn address(&self) -> Address {
        self.ready.listening[0].parse().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

#[test]
fn candidates_of_several_archives_are_judged_by_several_devices() {
    for devices in ["1", "2"] {
        let server = child(&["saxpy.r3", "reduction.r3"], &["--cpus", devices]);
        let client = server.client();
        let archives = client.archives().unwrap();
        let [saxpy, reduction] = archives.as_slice() else {
            panic!("{archives:?}");
        };
        let kernels = client.kernels(reduction.archive).unwrap();
        let other = &kernels[0].name;
        assert_eq!(
            client.open(&archive("saxpy.r3")).unwrap().archive,
            saxpy.archive
        );
        assert_eq!(client.describe(saxpy.archive, SAXPY).unwrap().name, SAXPY);
        let prepared = client.prepare(saxpy.archive, SAXPY, &[]).unwrap();
        assert_eq!(prepared.len(), 3);
        assert!(
            prepared.iter().all(|launch| launch.unusable.is_none()),
            "{prepared:?}"
        );

        let mut empty = request(saxpy.archive, SAXPY, with_ptx(&empty_kernel()));
        // It reads nothing that the original reads, which is a verdict of its own.
        empty.plan.allowed = Allowed::everything();
        let requests = [
            request(saxpy.archive, SAXPY, Candidate::default()),
            request(reduction.archive, other, Candidate::default()),
            request(saxpy.archive, SAXPY, with_block(64)),
            empty,
            request(saxpy.archive, SAXPY, with_ptx("no PTX")),
        ];
        let verdicts: Vec<Verdict> = outcomes(client, &requests)
            .iter()
            .map(|outcome| outcome.verdict)
            .collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Right,
                Verdict::Right,
                Verdict::Right,
                Verdict::Wrong,
                Verdict::NoCode,
            ]
        );
        let workers = descendants(server.process());
        assert!(workers.len() >= devices.parse().unwrap(), "{workers:?}");
        assert!(server.end().success());
        until(|| !workers.iter().any(|worker| is_alive(*worker)));
    }
}

#[test]
fn a_child_ends_with_whoever_holds_its_standard_input_and_takes_its_folder_along() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    std::fs::create_dir(&own).unwrap();
    let listen = format!("unix:{}", own.join("serve.sock").display());
    let mut server = Served::start(&["--listen", &listen, "--until-stdin-closes"]);
    let workers = descendants(server.process.id());
    Client::connect(server.address(), None).unwrap();
    drop(server.process.stdin.take());
    assert!(server.process.wait().unwrap().success());
    assert!(!own.exists());
    until(|| !workers.iter().any(|worker| is_alive(*worker)));
}

#[test]
fn a_child_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = ChildOptions {
        program: PROGRAM.into(),
        archives: vec![folder.path().join("missing.r3")],
        arguments: CPU.iter().map(Into::into).collect(),
        log: Some(log),
        ..ChildOptions::default()
    };
    let error = ServerChild::start(&options).unwrap_err();
    assert!(matches!(error, ChildError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("missing.r3"), "{error}");

    let options = ChildOptions {
        program: folder.path().join("no-program"),
        ..options
    };
    let error = ServerChild::start(&options).unwrap_err();
    assert!(error.to_string().contains("no-program"), "{error}");
}

#[test]
fn how_a_server_ended_is_told_by_name_with_its_last_words_and_what_to_do() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("serve.log");
    std::fs::write(&log, "words of another server\n").unwrap();
    let program = folder.path().join("server");
    let options = ChildOptions {
        program: program.clone(),
        archives: vec![archive("saxpy.r3")],
        arguments: CPU.iter().map(Into::into).collect(),
        log: Some(log.clone()),
        ..ChildOptions::default()
    };
    // A driver that crashes, no memory, a library that is missing, a fault of ours, something that says what is wrong.
    for (ends, told) in [
        ("kill -SEGV $$", &["SIGSEGV", "nvidia-smi"][..]),
        ("kill -ABRT $$", &["SIGABRT", "nvidia-smi"]),
        ("kill -KILL $$", &["SIGKILL", "memory"]),
        ("kill -TERM $$", &["SIGTERM"]),
        ("exit 127", &["exit code 127", "R3_REPLAY"]),
        ("exit 101", &["exit code 101", "report it"]),
        ("exit 2", &["exit code 2"]),
    ] {
        let text = format!("#!/bin/sh\necho the last words >&2\n{ends}\n");
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = loop {
            let error = ServerChild::start(&options).unwrap_err().to_string();
            // A child of another test may still have the file open, between its fork and its exec.
            if !error.contains("Text file busy") {
                break error;
            }
        };
        for words in told.iter().chain(&["the last words"]) {
            assert!(error.contains(words), "{ends}: {error}");
        }
        assert!(!error.contains("another server"), "{error}");
        // What says itself what is wrong needs no more.
        assert_eq!(ends != "exit 2", error.contains(" verify "), "{error}");
    }

    // One that was well, and dies.
    let mut child = ServerChild::start(&ChildOptions {
        program: PROGRAM.into(),
        ..options
    })
    .unwrap();
    assert_eq!(child.ending(Duration::ZERO), None);
    signal(child.process(), libc::SIGKILL);
    let ending = child.ending(Duration::from_secs(60)).unwrap().to_string();
    for words in ["SIGKILL", "memory", "--device cpu", "serve.log"] {
        assert!(ending.contains(words), "{ending}");
    }
}

#[test]
fn a_signal_ends_a_server_cleanly_and_a_killed_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("serve.sock");
    let listen = format!("unix:{}", socket.display());
    let saxpy = archive("saxpy.r3");
    let arguments = [saxpy.to_str().unwrap(), "--listen", &listen];
    let mut server = Served::start(&arguments);
    let client = Client::connect(server.address(), None).unwrap();
    let first = client.hello().instance.clone();
    let batch: Vec<Request> = (1..=64)
        .map(|block| request(ArchiveId(0), SAXPY, with_block(block)))
        .collect();
    client.submit(&batch, None).unwrap();
    let reading = client.events(EventsFrom {
        done: true,
        ..EventsFrom::default()
    });
    let workers = descendants(server.process.id());
    signal(server.process.id(), libc::SIGTERM);
    assert!(server.process.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    until(|| !workers.iter().any(|worker| is_alive(*worker)));
    drop(reading);

    let mut server = Served::start(&arguments);
    let second = run(&["serve", "--listen", &listen, "--device", "cpu"]);
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(
        said.contains(&format!("process {}", server.process.id())),
        "{said}"
    );
    let workers = descendants(server.process.id());
    signal(server.process.id(), libc::SIGKILL);
    server.process.wait().unwrap();
    until(|| !workers.iter().any(|worker| is_alive(*worker)));
    assert!(socket.exists());

    let third = Served::start(&arguments);
    let client = Client::connect(third.address(), None).unwrap();
    assert_ne!(client.hello().instance, first);
}

#[test]
fn jobs_that_run_at_the_end_are_told_as_cancelled() {
    let server = child(&["saxpy.r3"], &[]);
    let client = server.client().clone();
    let batch: Vec<Request> = (1..=200)
        .map(|block| request(ArchiveId(0), SAXPY, with_block(block)))
        .collect();
    let jobs = client.submit(&batch, None).unwrap().jobs.len();
    let mut events = client.events(EventsFrom {
        done: true,
        ..EventsFrom::default()
    });
    let verdict = |update| match update {
        Update::Event(event) => match event.state {
            JobState::Done(outcome) => outcome.verdict,
            other => panic!("{other:?}"),
        },
        missed => panic!("{missed:?}"),
    };
    let first = verdict(events.next().unwrap().unwrap());
    assert_eq!(first, Verdict::Right);
    let reader = std::thread::spawn(move || {
        let rest = events.map(|update| verdict(update.unwrap()));
        rest.collect::<Vec<Verdict>>()
    });
    client.shutdown().unwrap();
    let verdicts = reader.join().unwrap();
    assert_eq!(verdicts.len() + 1, jobs);
    assert!(verdicts.contains(&Verdict::Cancelled));
    assert!(server.end().success());
}

#[test]
fn status_is_a_table_or_json() {
    let server = child(&["saxpy.r3"], &[]);
    let address = server.client().address().to_string();
    let shown = run(&["status", "--connect", &address]);
    assert!(shown.status.success());
    let table = String::from_utf8(shown.stdout).unwrap();
    assert!(
        table.contains("0 queued, 0 compiling, 0 waiting, 0 running, 0 done"),
        "{table}"
    );
    assert!(table.contains("saxpy.r3"), "{table}");
    let shown = run(&["status", "--connect", &address, "--json"]);
    let status: StatusAnswer = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(status.server.process, server.process());

    let nobody = run(&["status", "--connect", "unix:/nonexistent/serve.sock"]);
    assert_eq!(nobody.status.code(), Some(2));
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(said.contains("`r3-replay serve` starts a server"), "{said}");
}

#[test]
fn over_tcp_a_token_is_made_up_or_read_from_a_private_file() {
    let server = Served::start(&["--listen", "tcp:127.0.0.1:0"]);
    let secret = server.ready.token.clone().unwrap();
    let token = Token::new(&secret, "the line").unwrap();
    Client::connect(server.address(), Some(token)).unwrap();
    Client::connect(server.address(), None).unwrap_err();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
    let file = path.to_str().unwrap();
    let mode = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&path, permissions).unwrap();
    };
    mode(0o644);
    let refused = run(&["serve", "--listen", "tcp:127.0.0.1:0", "--token-file", file]);
    assert_eq!(refused.status.code(), Some(2));
    mode(0o600);
    let server = Served::start(&["--listen", "tcp:127.0.0.1:0", "--token-file", file]);
    assert_eq!(server.ready.token, None);
    let shown = run(&[
        "status",
        "--connect",
        &server.ready.listening[0],
        "--token-file",
        file,
    ]);
    assert!(shown.status.success());
}

#[test]
fn the_example_in_python_tries_candidates() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/demo/evaluate.py");
    let example = |address: &str, kernel: &str, token: &str| {
        Command::new("python3")
            .arg(script)
            .arg(address)
            .arg(archive("saxpy.r3"))
            .arg(kernel)
            .env("R3_TOKEN", token)
            .output()
            .unwrap()
    };
    // A queue that does not hold all candidates at once.
    let unix = child(&[], &["--queue", "3"]);
    let address = unix.client().address().to_string();
    let tcp = Served::start(&["--listen", "tcp:127.0.0.1:0"]);
    let token = tcp.ready.token.clone().unwrap();
    for (address, token) in [(&address, ""), (&tcp.ready.listening[0], &token)] {
        let done = example(address, SAXPY, token);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}{wrong}");
        let right = said
            .lines()
            .filter(|line| line.starts_with("right"))
            .count();
        assert_eq!(said.lines().count(), 8, "{said}{wrong}");
        assert!(right >= 6, "{said}");
    }
    let refused = example(&address, "no_such_kernel", "");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("no_such_kernel"), "{said}");
}
