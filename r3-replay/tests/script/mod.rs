//! A device that does what candidates tell it to, and the candidates that do.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchId};
use r3_codegen::worker::WorkerCommand;
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::evaluate::Verdict;
use r3_replay::evaluate::candidate::{Candidate, CandidateCode};
use r3_replay::evaluate::describe::{self, DeviceDescription, KernelDescription};
use r3_replay::evaluate::engine::{Lost, Prepared, Task, TaskResult, Watch};
use r3_replay::evaluate::evaluator::Workers;
use r3_replay::evaluate::outcome::Score;
use r3_replay::evaluate::worker::{ArchiveRef, DeviceEngine, Engines, Setup, serve_with};
use r3_replay::remix::pairs::Ratio;
use r3_replay::restore::reexec;
use xxhash_rust::xxh3::xxh3_128;

/// The kernel of the archive.
pub const KERNEL: &str = "saxpy";

/// Says to a worker that it is one, and where its stage is.
const VARIABLE: &str = "R3_TEST_STAGE";

/// What a candidate has the device do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Right,
    Wrong,
    Cheat,
    /// It does not compile.
    NoCode,
    /// It runs past its limit.
    Hang,
    /// The original runs past its limit.
    OriginalHangs,
    /// It breaks the device.
    Fault,
    /// It ends the process, whenever it runs.
    Die,
    /// It ends the process the first time.
    DieOnce,
    /// The engine panics.
    Panic,
    /// Other code is run than was sent.
    Lie,
    /// It prints to standard output.
    Shout,
    /// The whole process is stopped.
    Stop,
    /// It takes 20 ms, 400 ms, 30 s.
    Short,
    Slow,
    VerySlow,
}

const ACTS: &[Act] = &[
    Act::Right,
    Act::Wrong,
    Act::Cheat,
    Act::NoCode,
    Act::Hang,
    Act::OriginalHangs,
    Act::Fault,
    Act::Die,
    Act::DieOnce,
    Act::Panic,
    Act::Lie,
    Act::Shout,
    Act::Stop,
    Act::Short,
    Act::Slow,
    Act::VerySlow,
];

/// Numbers in candidates' code are act × this + number + `BASE`.
const RANGE: u32 = 100_000;
const BASE: u32 = 1_000_000_000;

/// The archive whose launches are scripted.
pub fn archive() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../capture-samples/archives/saxpy.r3"
    ))
}

/// The block of the archive's launches.
pub fn recorded_block() -> [u32; 3] {
    Archive::open(archive()).unwrap().launch_heads()[0].block
}

/// A kernel that takes saxpy's parameters and has a number in it.
pub fn candidate(act: Act, number: u32) -> Candidate {
    let archive = Archive::open(archive()).unwrap();
    let kernel = &archive.kernels()[0];
    let params: Vec<String> = kernel
        .params
        .iter()
        .enumerate()
        .map(|(index, param)| format!(".param .b{} p{index}", 8 * param.size))
        .collect();
    let act_number = ACTS.iter().position(|of| *of == act).unwrap() as u32;
    let told = BASE + act_number * RANGE + number;
    let end = if act == Act::NoCode {
        "no.such.thing;"
    } else {
        "ret;"
    };
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry {}({})\n{{\n.reg .b32 %r<2>;\nmov.u32 %r1, {told};\n{end}\n}}\n",
        kernel.name,
        params.join(", ")
    );
    Candidate {
        code: CandidateCode::Ptx(text),
        ..Candidate::default()
    }
}

/// The time of a candidate, by its number.
pub fn ratio(number: u32) -> f64 {
    1.0 / f64::from(number + 2)
}

/// What a test and its workers share: a folder.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Programs of this stage: this one, which the shell tells so since nothing else of the environment arrives. Its
    /// standard output is of the test harness, and not the connection.
    pub fn workers(&self) -> Workers {
        let program = std::env::current_exe().unwrap();
        let line = format!(
            "{VARIABLE}='{}' exec '{}' --exact worker_of_other_tests --nocapture 1>&2",
            self.folder.path().display(),
            program.display()
        );
        Workers {
            device: WorkerCommand {
                program: "/bin/sh".into(),
                arguments: vec!["-c".into(), line.into()],
            },
            compile: WorkerCommand {
                program: env!("CARGO_BIN_EXE_r3-replay").into(),
                arguments: vec![r3_replay::remix::WORKER.into()],
            },
        }
    }

    /// Has something be so.
    pub fn set(&self, what: &str) {
        std::fs::write(self.folder.path().join(what), "").unwrap();
    }

    /// Whether something is so.
    pub fn is(&self, what: &str) -> bool {
        self.folder.path().join(what).exists()
    }

    /// Numbers of candidates that ran, in order.
    pub fn ran(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.folder.path().join("ran")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

/// Becomes a worker, if it was started as one.
pub fn serve_if_asked() {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let folder = PathBuf::from(folder);
        serve_with(move || Script {
            folder,
            left_out: 0,
        });
    }
}

struct Script {
    folder: PathBuf,
    left_out: usize,
}

impl Script {
    fn unusable(&self, launch: LaunchId) -> Option<String> {
        let unusable = self.is("unusable") && launch.0 == 2;
        unusable.then(|| "the script says so".to_owned())
    }

    fn is(&self, what: &str) -> bool {
        self.folder.join(what).exists()
    }
}

impl Engines for Script {
    fn open(&mut self, setup: &Setup) -> Result<DeviceDescription, String> {
        self.left_out = setup.leave_out.len();
        if self.is("no device") {
            return Err("the script has no device".to_owned());
        }
        Ok(DeviceDescription {
            name: "script".to_owned(),
            counts: true,
            sm: 90,
            ..DeviceDescription::default()
        })
    }

    fn describe(
        &mut self,
        archive: &ArchiveRef,
        kernel: KernelId,
    ) -> Result<KernelDescription, String> {
        let archive = Archive::open(&archive.path).map_err(|error| error.to_string())?;
        let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
        describe::describe(&archive, kernel, &mut device).map_err(|error| error.to_string())
    }

    fn with_engine(
        &mut self,
        _: &ArchiveRef,
        work: &mut dyn FnMut(&mut dyn DeviceEngine),
    ) -> Result<(), String> {
        work(self);
        Ok(())
    }

    fn shares_addresses(&self) -> bool {
        self.is("collide")
    }
}

impl DeviceEngine for Script {
    fn reserve(&mut self) -> Result<Vec<String>, Lost> {
        if self.is("collide") && reexec::started_over() == 0 {
            std::fs::write(self.folder.join("collided"), "").unwrap();
            return Ok(vec!["a library lies where a buffer was".to_owned()]);
        }
        Ok(Vec::new())
    }

    fn prepare(
        &mut self,
        _: KernelId,
        launches: &[LaunchId],
        watch: &dyn Watch,
    ) -> Result<Vec<Prepared>, Lost> {
        watch.within(Duration::from_secs(5), "the original");
        if self.is("poison") && self.left_out == 0 {
            let first = launches.first().copied().unwrap();
            return Err(Lost::of_machine("it faulted under poison").poisoned(first, "arg0"));
        }
        watch.idle();
        let prepared = launches.iter().map(|launch| Prepared {
            launch: *launch,
            unusable: self.unusable(*launch),
            written: 4,
            restored: 4,
            kept: 4,
            deterministic: true,
            original: 100.0,
            noise: 0.0,
            notes: Vec::new(),
        });
        Ok(prepared.collect())
    }

    fn evaluate(&mut self, task: &Task, watch: &dyn Watch) -> Result<TaskResult, Lost> {
        let (act, number) = told(task);
        watch.within(Duration::from_secs(60), "the candidate");
        let mut ran = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("ran"))
            .unwrap();
        if task.code.is_some() {
            writeln!(ran, "{number}").unwrap();
        }
        let mut verdict = Verdict::Right;
        let mut image = task.code.as_ref().map_or(1, |image| xxh3_128(&image.bytes));
        let wait = |ms| std::thread::sleep(Duration::from_millis(ms));
        match act {
            Act::Right | Act::NoCode => {}
            Act::Wrong => verdict = Verdict::Wrong,
            Act::Cheat => verdict = Verdict::Cheat,
            Act::Hang => {
                watch.within(Duration::from_millis(200), "the candidate on launch 1");
                wait(60_000);
            }
            Act::OriginalHangs => {
                watch.within(Duration::from_millis(200), "the original on launch 1");
                wait(60_000);
            }
            Act::Fault => return Err(Lost::of_candidate("an illegal address")),
            Act::Die => std::process::abort(),
            Act::DieOnce => {
                let mark = self.folder.join(format!("died {number}"));
                if !mark.exists() {
                    std::fs::write(mark, "").unwrap();
                    std::process::abort();
                }
            }
            Act::Panic => panic!("as the script says"),
            Act::Lie => image ^= 1,
            Act::Shout => {
                for _ in 0..100 {
                    println!("{}", "shout ".repeat(1000));
                }
                std::io::stdout().flush().unwrap();
            }
            Act::Stop => {
                // SAFETY: takes numbers.
                unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
                wait(60_000);
            }
            Act::Short => wait(20),
            Act::Slow => wait(400),
            Act::VerySlow => wait(30_000),
        }
        watch.idle();
        let median = ratio(number);
        let right = verdict == Verdict::Right;
        Ok(TaskResult {
            verdict,
            reason: None,
            image,
            blocks_per_multiprocessor: None,
            launches: Vec::new(),
            score: right.then_some(Score {
                ratio: Ratio {
                    median,
                    low: median,
                    high: median,
                    confidence: 1.0,
                },
                worst: median,
                pairs: 1,
                dropped: false,
                noise: 0.0,
            }),
            kernels_ms: 0.1,
            runs: 1,
            parts: Default::default(),
            notes: Vec::new(),
        })
    }

    fn device_memory(&mut self) -> u64 {
        1 << 20
    }
}

/// What a candidate's code says.
fn told(task: &Task) -> (Act, u32) {
    let Some(image) = &task.code else {
        return (Act::Right, 0);
    };
    let text = String::from_utf8_lossy(&image.bytes);
    let number = text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse::<u32>().ok())
        .find(|number| *number >= BASE)
        .unwrap_or(BASE);
    let act = ((number - BASE) / RANGE) as usize;
    (
        ACTS.get(act).copied().unwrap_or(Act::Right),
        (number - BASE) % RANGE,
    )
}
