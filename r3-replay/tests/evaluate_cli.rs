//! `r3-replay evaluate` as its users meet it: real archives on the CPU device, through the real processes.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

fn archive(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives");
    PathBuf::from(folder).join(format!("{name}.r3"))
}

fn command(folder: &Path, name: &str, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_r3-replay"));
    command
        .current_dir(folder)
        .arg("evaluate")
        .arg(archive(name))
        .args(["--device", "cpu", "--cache-size", "0"])
        .args(line.split(' ').filter(|word| !word.is_empty()));
    command
}

/// Exit code, standard output, standard error.
fn evaluate(folder: &Path, name: &str, line: &str) -> (i32, String, String) {
    let done = command(folder, name, line).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

/// Exit code, outcomes by label, and the summary.
fn json(name: &str, line: &str, candidates: &[Value]) -> (i32, Vec<Value>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for candidate in candidates {
        text.push_str(&format!("{candidate}\n"));
    }
    std::fs::write(folder.path().join("candidates"), text).unwrap();
    let line = format!("{line} --candidates candidates --json");
    let (code, said, complaints) = evaluate(folder.path(), name, &line);
    let mut lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}{complaints}")))
        .collect();
    let last = lines.pop().unwrap_or_else(|| panic!("{complaints}"));
    lines.sort_by_key(|line| line["label"].as_str().unwrap().to_owned());
    (code, lines, last["summary"].clone())
}

fn verdict(line: &Value) -> &str {
    line["outcome"]["verdict"].as_str().unwrap()
}

#[test]
fn without_candidates_the_original_is_right_and_no_faster() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said, complaints) = evaluate(folder.path(), "saxpy", "");
    assert_eq!(code, 0, "{said}{complaints}");
    assert!(said.contains("original              right"), "{said}");
    assert!(said.contains("1.0000 … 1.0000"), "{said}");
    assert!(said.contains("1 candidate in"), "{said}");
}

#[test]
fn candidates_get_the_verdicts_that_they_deserve_each_for_itself() {
    let ptx = |body: &str| {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry \
             _Z7advancePji(.param .u64 x, .param .u32 n)\n{{\n{body}\n}}\n"
        );
        json!({"code": {"ptx": text}})
    };
    // They do without a variable that the original reads, which is a verdict of its own.
    let ruled = json!({"allowed": {"rules": ["inputs"]}});
    let candidates = [
        json!({"label": "a original", "candidate": {}}),
        json!({"label": "b text", "candidate": {"code": {"captured": {}}}}),
        json!({"label": "c lifted", "candidate": {"code": {"captured": {}},
            "build": {"route": "lift", "passes": "default<O3>"}}}),
        json!({"label": "d block", "candidate": {"launch": {"block": [64, 1, 1]}}}),
        json!({"label": "e nothing", "candidate": ptx("ret;"), "plan": ruled}),
        json!({"label": "f endless", "candidate": ptx("again: bra again;"), "plan": ruled}),
        json!({"label": "g trap", "candidate": ptx("trap;"), "plan": ruled}),
        json!({"label": "h stray", "candidate": ptx(
            ".reg .b64 %rd<2>;\nmov.u64 %rd1, 64;\nst.global.u32 [%rd1], 1;\nret;"), "plan": {"allowed": {"rules": ["inputs", "addresses"]}}}),
        json!({"label": "i garbage", "candidate": ptx("no.such.thing;")}),
        json!({"label": "j large block", "candidate": {"launch": {"block": [2048, 1, 1]}}}),
        json!({"label": "k pass", "candidate": {"code": {"captured": {}},
            "build": {"route": "lift", "passes": "no-such-pass"}}}),
        json!({"label": "l too few", "candidate": {"launch": {"grid": [{"blocks": 1}, "same", "same"]}}}),
        json!({"label": "m original", "candidate": {}}),
    ];
    let (code, lines, summary) = json("managed", "--launch-limit 1 --plan judge", &candidates);
    let got: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| (line["label"].as_str().unwrap(), verdict(line)))
        .collect();
    assert_eq!(
        got,
        [
            ("a original", "right"),
            ("b text", "right"),
            ("c lifted", "right"),
            ("d block", "right"),
            ("e nothing", "wrong"),
            ("f endless", "timeout"),
            ("g trap", "fault"),
            ("h stray", "fault"),
            ("i garbage", "no_code"),
            ("j large block", "refused"),
            ("k pass", "no_code"),
            ("l too few", "wrong"),
            ("m original", "right"),
        ],
        "{lines:#?}"
    );
    assert_eq!(code, 1);
    assert_eq!(summary["candidates"], 13);
    assert_eq!(summary["verdicts"]["right"], 5);
    assert_eq!(summary["status"]["equal"], 1);
    let failure = &lines[10]["outcome"]["failure"];
    assert_eq!(failure["stage"], "Passes", "{failure}");
    assert!(
        failure["message"]
            .as_str()
            .unwrap()
            .contains("no-such-pass")
    );
}

#[test]
fn times_are_those_of_the_launches_weighted_and_the_same_each_time() {
    let candidates = [
        json!({"label": "1", "candidate": {"launch": {"block": [32, 1, 1]}}}),
        json!({"label": "2", "candidate": {"launch": {"block": [32, 1, 1]}}, "plan": {"again": true}}),
        json!({"label": "3", "candidate": {"code": {"captured": {}},
            "build": {"route": "lift", "passes": "default<O3>", "specialise": ["scalars", "grid", "block"]}},
            "plan": {"launches": [{"launch": 1, "weight": 1.0}], "held_out": [2]}}),
    ];
    let (code, lines, summary) = json("saxpy", "", &candidates);
    assert_eq!(code, 0, "{lines:#?}");
    let score = |line: &Value| {
        line["outcome"]["score"]["ratio"]["median"]
            .as_f64()
            .unwrap()
    };
    assert_eq!(score(&lines[0]), score(&lines[1]));
    assert!(lines[1]["outcome"]["code"]["equal_to"].is_null());
    // Constants of one launch: it does less, and does not run on the other one.
    assert!(score(&lines[2]) < 1.0, "{}", lines[2]);
    assert!(!lines[2]["outcome"]["guards"].as_array().unwrap().is_empty());
    let launches = lines[2]["outcome"]["launches"].as_array().unwrap();
    let of = |role: &str| {
        let mut found = launches.iter().filter(|launch| launch["role"] == role);
        found.next().unwrap_or_else(|| panic!("{launches:?}"))["verdict"].clone()
    };
    assert_eq!(of("tuned"), "right");
    assert_eq!(of("held_out"), "guarded");
    assert!(summary["memory"]["late"]["worker"].as_u64().unwrap() > 0);
}

#[test]
fn samples_are_their_own_equals() {
    for (name, kernel) in [
        ("matmul", ""),
        ("reduction", "--kernel block_sums"),
        ("nbody_ptx", ""),
        ("cooperative", ""),
        ("managed", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("--plan judge {kernel}");
        let (code, said, complaints) = evaluate(folder.path(), name, &line);
        assert_eq!(code, 0, "{name}: {said}{complaints}");
    }
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad"), "{}\n{\"lunch\": {}}\n").unwrap();
    std::fs::write(folder.path().join("plan.toml"), "least_pears = 3\n").unwrap();
    for (line, told) in [
        ("--candidates none", "--candidates none: No such file"),
        (
            "--candidates bad",
            "--candidates bad, line 2: unknown field `lunch`",
        ),
        ("--plan-file plan.toml", "least_pears"),
        ("--kernel nothing", "has no kernel `nothing`"),
    ] {
        let (code, said, complaints) = evaluate(folder.path(), "saxpy", line);
        assert_eq!(code, 2, "{line}: {said}{complaints}");
        assert!(complaints.contains(told), "{line}: {complaints}");
    }
}

/// A run that reads candidates from its standard input.
struct Running {
    process: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn new(folder: &Path) -> Self {
        let mut process = command(folder, "saxpy", "--candidates - --json --plan judge")
            .env("TMPDIR", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        Self { process, out }
    }

    fn give(&mut self, candidate: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        writeln!(input, "{candidate}").unwrap();
        input.flush().unwrap();
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: takes numbers; the process was not waited for.
        unsafe { libc::kill(self.process.id().cast_signed(), signal) };
    }

    /// Its processes, and those that they started.
    fn children(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut parents = vec![self.process.id()];
        while let Some(parent) = parents.pop() {
            let tasks = std::fs::read_dir(format!("/proc/{parent}/task"));
            for task in tasks.into_iter().flatten().flatten() {
                let text = std::fs::read_to_string(task.path().join("children"));
                for child in text.unwrap_or_default().split_whitespace() {
                    let child = child.parse().unwrap();
                    found.push(child);
                    parents.push(child);
                }
            }
        }
        found
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn assert_gone(processes: &[u32]) {
    let is_alive = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    };
    let until = Instant::now() + Duration::from_secs(20);
    while processes.iter().any(is_alive) {
        assert!(Instant::now() < until, "{processes:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn candidates_are_taken_as_they_come_and_an_interrupt_ends_with_what_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::new(folder.path());
    for block in [32, 64] {
        running.give(&format!(r#"{{"launch": {{"block": [{block}, 1, 1]}}}}"#));
        assert_eq!(verdict(&running.line()), "right");
    }
    let children = running.children();
    assert!(!children.is_empty());
    running.signal(libc::SIGINT);
    let last = running.line();
    assert_eq!(last["summary"]["interrupted"], true);
    assert_eq!(last["summary"]["candidates"], 2);
    assert_eq!(running.process.wait().unwrap().code(), Some(2));
    assert_gone(&children);
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn no_worker_survives_a_parent_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::new(folder.path());
    running.give(r#"{"code": {"captured": {}}}"#);
    assert_eq!(verdict(&running.line()), "right");
    let children = running.children();
    // One for the device and one that compiles.
    assert!(children.len() >= 2, "{children:?}");
    running.signal(libc::SIGKILL);
    _ = running.process.wait();
    assert_gone(&children);
    let until = Instant::now() + Duration::from_secs(10);
    while std::fs::read_dir(folder.path()).unwrap().count() > 0 {
        assert!(Instant::now() < until, "folders of workers are left");
        std::thread::sleep(Duration::from_millis(10));
    }
}
