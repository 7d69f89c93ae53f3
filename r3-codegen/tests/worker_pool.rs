//! What a pool of workers makes of children that misbehave.

#![allow(clippy::unwrap_used, reason = "a test that is wrong stops")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use r3_codegen::recipe::{Code, Compiler, Failure, FailureKind, Product, Recipe, Source, Stage};
use r3_codegen::worker::{Limits, Pool, WorkerCommand};

fn recipe(what: &str) -> Recipe {
    Recipe::new(Code::Ptx(what.into()))
}

fn faulty() -> WorkerCommand {
    WorkerCommand {
        program: env!("CARGO_BIN_EXE_r3-faulty-worker").into(),
        arguments: Vec::new(),
    }
}

fn limits() -> Limits {
    Limits {
        workers: 2,
        time: Duration::from_secs(60),
        memory: 1 << 30,
        ..Limits::default()
    }
}

fn pool() -> Pool {
    Pool::new(faulty(), limits())
}

fn impatient(time: Duration) -> Pool {
    Pool::new(faulty(), Limits { time, ..limits() })
}

fn said(outcome: Result<Product, Failure>) -> String {
    outcome.unwrap().ptx
}

/// A process that is there and not only its number, which somebody has not asked for yet.
fn runs(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    })
}

/// Waits for what another process does. Whoever never sees it is stopped by the test runner.
fn until(mut what: impl FnMut() -> bool) {
    while !what() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn children_of_mine() -> Vec<u32> {
    let mine = std::process::id();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|process| {
            std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
                let after = stat.rsplit(')').next().unwrap_or_default();
                after.split_whitespace().nth(1) == Some(&mine.to_string())
            })
        })
        .collect()
}

fn my_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_child_answers_many_recipes() {
    let pool = pool();
    assert_eq!(pool.started(), 0, "children are started when needed");
    for number in 0..20 {
        let text = format!("{number}");
        assert_eq!(said(pool.compile(&recipe(&format!("echo {text}")))), text);
    }
    assert_eq!(pool.started(), 1);
}

#[test]
fn a_recipe_longer_than_a_pipe_and_its_answer_pass() {
    let long = "x".repeat(5_000_000);
    assert_eq!(said(pool().compile(&recipe(&format!("echo {long}")))), long);
}

#[test]
fn a_refusal_is_handed_on_and_the_child_lives() {
    let pool = pool();
    let failure = pool.compile(&recipe("refuse no such pass")).unwrap_err();
    assert_eq!(failure.stage, Stage::Passes);
    assert_eq!(failure.kind, FailureKind::Refused);
    assert_eq!(failure.message, "no such pass");
    assert_eq!(said(pool.compile(&recipe("echo on"))), "on");
    assert_eq!(pool.started(), 1);
}

#[test]
fn each_way_to_die_is_a_failure_of_its_stage_and_the_next_recipe_is_compiled() {
    let pool = pool();
    let ways = [
        ("abort", "the worker died of SIGABRT"),
        ("segfault", "the worker died of SIGSEGV"),
        (
            "exit 3",
            "the worker ended with exit code 3 and without an answer",
        ),
        (
            "overflow",
            "the stack overflowed: something is nested too deeply",
        ),
        (
            "say-and-abort LLVM ERROR: Cannot select: i64 = BlockAddress",
            "LLVM ERROR: Cannot select: i64 = BlockAddress",
        ),
        ("panic index out of range", "panic: index out of range"),
    ];
    for (way, message) in ways {
        let failure = pool.compile(&recipe(way)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Crash, "{way}");
        assert_eq!(failure.stage, Stage::Passes, "{way}");
        assert_eq!(failure.message, message);
        assert_eq!(said(pool.compile(&recipe("echo next"))), "next", "{way}");
    }
    assert_eq!(pool.started(), 1 + ways.len() as u64);
}

#[test]
fn a_log_is_kept_from_its_end_and_bounded() {
    let failure = pool().compile(&recipe("babble 2000")).unwrap_err();
    assert!(failure.log.ends_with("the end"));
    assert!(failure.log.len() <= 16 << 10);
}

#[test]
fn what_a_library_prints_is_log_and_never_an_answer() {
    let pool = pool();
    let failure = pool.compile(&recipe("print Hello from C")).unwrap_err();
    assert_eq!(failure.message, "see the log");
    assert_eq!(failure.log, "Hello from C");
    // A log belongs to one recipe.
    let failure = pool.compile(&recipe("refuse")).unwrap_err();
    assert_eq!(failure.log, "");
}

#[test]
fn nothing_can_be_read_from_the_connection() {
    assert_eq!(said(pool().compile(&recipe("read"))), "");
}

#[test]
fn a_recipe_that_hangs_is_stopped_and_its_stage_is_named() {
    let pool = impatient(Duration::from_secs(3));
    let failure = pool.compile(&recipe("hang-in assemble")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert_eq!(failure.stage, Stage::Assemble);
    assert_eq!(said(pool.compile(&recipe("echo next"))), "next");
    assert_eq!(pool.started(), 2);
}

#[test]
fn a_limit_for_stages_begins_anew_with_each() {
    let limits = Limits {
        stage_time: Some(Duration::from_secs(2)),
        ..limits()
    };
    let pool = Pool::new(faulty(), limits);
    // Four stages, together longer than the limit.
    assert_eq!(said(pool.compile(&recipe("slow-stages 600"))), "");
    let failure = pool.compile(&recipe("hang-in emit")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert_eq!(failure.stage, Stage::Emit);
    assert!(failure.message.contains("stage"), "{}", failure.message);
}

#[test]
fn a_timeout_ends_the_programs_that_the_child_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let pool = impatient(Duration::from_secs(3));
    let order = format!("hang-in-program {}", file.display());
    let failure = pool.compile(&recipe(&order)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    let program: u32 = std::fs::read_to_string(file).unwrap().parse().unwrap();
    until(|| !runs(program));
}

#[test]
fn a_compiler_of_source_runs_in_a_child_and_ends_with_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (file, compiler) = (folder.path().join("said"), folder.path().join("clang++"));
    // Says its version; then, like nvcc, starts a program that works for long, in the folder for temporary files.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--version*) echo clang version 22.1.8; exit;; esac\nsleep 1000 &\n\
         echo $! $TMPDIR > {0}.part; mv {0}.part {0}; wait\n",
        file.display()
    );
    std::fs::write(&compiler, script).unwrap();
    std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).unwrap();
    let source = Source {
        text: "__global__ void k() {}".into(),
        name: "k.cu".into(),
        headers: Vec::new(),
        name_expressions: Vec::new(),
        compiler: Compiler::Clang,
        program: Some(compiler),
        options: Vec::new(),
        directory: None,
    };
    let pool = impatient(Duration::from_secs(3));
    let failure = pool.compile_source(&source, "sm_90").unwrap_err();
    assert_eq!(
        (failure.kind, failure.stage),
        (FailureKind::Timeout, Stage::Source),
        "{failure:?}"
    );
    let said = std::fs::read_to_string(file).unwrap();
    let (program, temporary) = said.trim().split_once(' ').unwrap();
    until(|| !runs(program.parse().unwrap()));
    until(|| !Path::new(temporary).exists());
}

#[test]
fn too_much_memory_is_a_failure_of_that_kind() {
    let limits = Limits {
        memory: 256 << 20,
        ..limits()
    };
    let pool = Pool::new(faulty(), limits);
    assert_eq!(said(pool.compile(&recipe("allocate 100"))), "100");
    let failure = pool.compile(&recipe("allocate 2000")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Memory);
    assert_eq!(failure.stage, Stage::Passes);
    assert!(failure.message.contains("256 MiB"), "{}", failure.message);
    assert_eq!(said(pool.compile(&recipe("allocate 100"))), "100");
}

#[test]
fn a_child_killed_at_work_costs_its_recipe_and_no_other() {
    let pool = Arc::new(pool());
    let victim = {
        let pool = pool.clone();
        std::thread::spawn(move || pool.compile(&recipe("hang")))
    };
    until(|| pool.processes().len() == 1);
    let process = pool.processes()[0];
    // While it hangs the other worker serves.
    for number in 0..10 {
        let text = format!("{number}");
        assert_eq!(said(pool.compile(&recipe(&format!("echo {text}")))), text);
    }
    let killed = Command::new("kill")
        .args(["-9", &process.to_string()])
        .status();
    assert!(killed.unwrap().success());
    let failure = victim.join().unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Crash);
    assert!(failure.message.contains("SIGKILL"), "{}", failure.message);
    assert_eq!(said(pool.compile(&recipe("echo next"))), "next");
}

#[test]
fn a_child_killed_while_it_waits_costs_no_recipe() {
    let pool = pool();
    let process = said(pool.compile(&recipe("pid")));
    let killed = Command::new("kill").args(["-9", &process]).status();
    assert!(killed.unwrap().success());
    let next = said(pool.compile(&recipe("pid")));
    assert_ne!(next, process);
    assert_eq!(pool.started(), 2);
}

#[test]
fn children_are_kept_apart_by_llvm_options() {
    let pool = pool();
    let with = |option: &str| Recipe {
        llvm_options: vec![option.into()],
        ..recipe("pid")
    };
    let a = said(pool.compile(&with("-unroll-threshold=1")));
    let b = said(pool.compile(&with("-unroll-threshold=2")));
    let plain = said(pool.compile(&recipe("pid")));
    assert_ne!(a, b);
    assert_ne!(a, plain);
    // Each is still there and used again.
    assert_eq!(said(pool.compile(&with("-unroll-threshold=1"))), a);
    assert_eq!(said(pool.compile(&with("-unroll-threshold=2"))), b);
    assert_eq!(said(pool.compile(&recipe("pid"))), plain);
    // But not without end.
    for option in 3..20 {
        said(pool.compile(&with(&format!("-unroll-threshold={option}"))));
    }
    assert!(pool.processes().len() <= 2 * pool.limits().workers);
}

#[test]
fn a_child_is_replaced_after_its_jobs_and_when_it_has_grown() {
    let few_jobs = Pool::new(
        faulty(),
        Limits {
            jobs: 3,
            ..limits()
        },
    );
    for _ in 0..9 {
        said(few_jobs.compile(&recipe("echo")));
    }
    assert_eq!(few_jobs.started(), 3);
    let small = Pool::new(
        faulty(),
        Limits {
            resident: 1,
            ..limits()
        },
    );
    said(small.compile(&recipe("echo")));
    said(small.compile(&recipe("echo")));
    assert_eq!(small.started(), 2);
}

#[test]
fn a_child_sees_only_what_it_needs() {
    // SAFETY: the runner gives each test a process, and no other thread runs in it yet.
    unsafe {
        std::env::set_var("LD_PRELOAD", "/nonexistent/libr3.so");
        std::env::set_var("SOME_TOKEN", "secret");
        std::env::set_var("R3_PTXAS", "tools/ptxas");
    }
    let here = std::env::current_dir().unwrap();
    let pool = pool();
    std::env::set_current_dir("/").unwrap();
    let seen = said(pool.compile(&recipe("environment")));
    assert!(!seen.contains("LD_PRELOAD"), "{seen}");
    assert!(!seen.contains("SOME_TOKEN"), "{seen}");
    assert!(seen.contains("LC_ALL=C\n"), "{seen}");
    let ptxas = here.join("tools/ptxas");
    assert!(
        seen.contains(&format!("R3_PTXAS={}\n", ptxas.display())),
        "{seen}"
    );
}

#[test]
fn a_child_has_no_descriptor_of_its_parent() {
    // The standard ones, two of the connection, and that of signals. This is inherited by whatever does not close it:
    let file = std::fs::File::open("/proc/self/stat").unwrap();
    // SAFETY: takes numbers; the copy is left to this process.
    unsafe { libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file)) };
    assert_eq!(said(pool().compile(&recipe("descriptors"))), "6");
}

#[test]
fn a_childs_folder_is_its_own_and_removed_with_it() {
    let pool = pool();
    let folder = PathBuf::from(said(pool.compile(&recipe("litter"))));
    assert_eq!(
        said(pool.compile(&recipe("folder"))),
        folder.display().to_string()
    );
    assert!(folder.join("litter").exists());
    pool.compile(&recipe("abort")).unwrap_err();
    assert!(!folder.exists());
}

#[test]
fn two_threads_and_many_recipes_leave_no_process_and_no_descriptor() {
    let before = my_descriptors();
    let pool = Arc::new(Pool::new(
        faulty(),
        Limits {
            jobs: 20,
            ..limits()
        },
    ));
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let pool = pool.clone();
            std::thread::spawn(move || {
                for number in 0..100 {
                    let text = format!("{thread}.{number}");
                    match number % 10 {
                        3 => assert!(pool.compile(&recipe("abort")).is_err()),
                        7 => assert!(pool.compile(&recipe("refuse")).is_err()),
                        _ => {
                            assert_eq!(said(pool.compile(&recipe(&format!("echo {text}")))), text);
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(children_of_mine().len(), pool.processes().len());
    drop(pool);
    assert_eq!(children_of_mine(), [0u32; 0]);
    assert_eq!(my_descriptors(), before);
}

#[test]
fn more_threads_than_workers_wait_for_their_turn() {
    let pool = Arc::new(pool());
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let pool = pool.clone();
            std::thread::spawn(move || {
                let text = format!("{number}");
                assert_eq!(said(pool.compile(&recipe(&format!("echo {text}")))), text);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(pool.started() <= 2);
}

#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    let pool = Arc::new(pool());
    let first = {
        let pool = pool.clone();
        std::thread::spawn(move || said(pool.compile(&recipe("pid")))).join()
    };
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(said(pool.compile(&recipe("pid"))), first.unwrap());
}

#[test]
fn a_program_that_is_not_there_or_no_worker_is_named() {
    let start = |program: &str| {
        let command = WorkerCommand {
            program: program.into(),
            arguments: Vec::new(),
        };
        Pool::new(command, limits())
            .compile(&recipe("echo"))
            .unwrap_err()
    };
    let failure = start("/nonexistent/worker");
    assert_eq!(failure.kind, FailureKind::MissingTool);
    assert_eq!(failure.stage, Stage::Worker);
    assert!(failure.message.contains("/nonexistent/worker"));
    let failure = start("true");
    assert_eq!(failure.kind, FailureKind::Crash);
    assert_eq!(failure.stage, Stage::Worker);
    // It answers with what it was sent.
    let failure = start("cat");
    assert_eq!(failure.kind, FailureKind::Crash);
    assert!(failure.message.contains("answer"), "{}", failure.message);
}

#[test]
fn no_child_survives_a_parent_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    // The parent is this test program, run anew with the one test below.
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "parent_of_a_child_that_hangs",
            "--ignored",
            "--nocapture",
        ])
        .env("FAULTY_PARENT_FILE", &file)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let program = |file: &Path| std::fs::read_to_string(file).ok()?.parse::<u32>().ok();
    until(|| program(&file).is_some());
    let program = program(&file).unwrap();
    let child = parent_of(program);
    assert!(runs(program) && runs(child));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(|| !runs(child) && !runs(program));
    // The folder of the child goes, too; what is left is the file of this test.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
#[ignore = "part of no_child_survives_a_parent_that_is_killed"]
fn parent_of_a_child_that_hangs() {
    let Ok(file) = std::env::var("FAULTY_PARENT_FILE") else {
        return;
    };
    _ = pool().compile(&recipe(&format!("hang-in-program {file}")));
}

fn parent_of(process: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after = stat.rsplit(')').next().unwrap();
    after.split_whitespace().nth(1).unwrap().parse().unwrap()
}
