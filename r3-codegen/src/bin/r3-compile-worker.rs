//! A worker process of [`r3_codegen::worker`], for tests and benchmarks of this crate. Programs that link the crate start
//! themselves as workers instead.
//!
//! `r3-compile-worker bench [OPTION…] FILE.ptx…` measures how many candidates a pool of such processes compiles in a second:
//!
//! ```text
//! --workers N             as many at a time (default: one for each CPU)
//! --seconds S             for so long (default: 10)
//! --limit S               time for a candidate (default: 60)
//! --pipeline random|TEXT  random pipelines (default), or one in the syntax of opt -passes=
//! --cubin                 as far as a cubin
//! --assembler ptxas|nvjitlink
//! ```
//!
//! The answer is one line of JSON.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use r3_codegen::passes::random_pipeline;
use r3_codegen::recipe::{Assembler, AssemblerKind, Code, Emit, Pipeline, Recipe};
use r3_codegen::worker::{Limits, Pool, WorkerCommand, serve, throughput};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != "bench") {
        serve()
    }
    match Bench::parse(arguments).and_then(|bench| bench.run()) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("r3-compile-worker bench: {message}");
            ExitCode::from(2)
        }
    }
}

struct Bench {
    limits: Limits,
    time: Duration,
    /// `None`: random ones.
    pipeline: Option<String>,
    emit: Emit,
    assembler: AssemblerKind,
    files: Vec<String>,
}

impl Bench {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Bench, String> {
        let mut bench = Bench {
            limits: Limits::default(),
            time: Duration::from_secs(10),
            pipeline: None,
            emit: Emit::default(),
            assembler: AssemblerKind::Any,
            files: Vec::new(),
        };
        let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--workers" => bench.limits.workers = number(&value()?)?,
                "--seconds" => bench.time = Duration::from_secs(number(&value()?)? as u64),
                "--limit" => bench.limits.time = Duration::from_secs(number(&value()?)? as u64),
                "--pipeline" => bench.pipeline = Some(value()?).filter(|text| text != "random"),
                "--cubin" => bench.emit.cubin = true,
                "--assembler" => {
                    bench.assembler = match value()?.as_str() {
                        "ptxas" => AssemblerKind::Ptxas,
                        "nvjitlink" => AssemblerKind::NvJitLink,
                        other => return Err(format!("{other} is neither ptxas nor nvjitlink")),
                    }
                }
                option if option.starts_with('-') => return Err(format!("what is {option}?")),
                file => bench.files.push(
                    std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?,
                ),
            }
        }
        if bench.files.is_empty() {
            return Err("no PTX file is given".into());
        }
        Ok(bench)
    }

    fn run(&self) -> Result<String, String> {
        let command = WorkerCommand::this_program("worker").map_err(|error| error.to_string())?;
        let pool = Pool::new(command, self.limits.clone());
        let found = throughput(&pool, self.time, |number| self.recipe(number));
        if found.compiled == 0 {
            let why = pool.compile(&self.recipe(0));
            return Err(why.map_or_else(
                |failure| format!("nothing was compiled: {failure}\n{}", failure.log),
                |_| "nothing was compiled".to_owned(),
            ));
        }
        let failed: Vec<_> = found
            .failed
            .iter()
            .map(|((stage, kind), count)| format!("\"{stage:?}: {kind}\":{count}"))
            .collect();
        Ok(format!(
            "{{\"workers\":{},\"seconds\":{:.3},\"files\":{},\"cubin\":{},\"compiled\":{},\"failed\":{{{}}},\"started\":{},\"per_second\":{:.2}}}",
            self.limits.workers,
            found.time.as_secs_f64(),
            self.files.len(),
            self.emit.cubin,
            found.compiled,
            failed.join(","),
            pool.started(),
            found.per_second(),
        ))
    }

    /// Recipe number `number`: the files take turns.
    fn recipe(&self, number: u64) -> Recipe {
        let turn = usize::try_from(number).unwrap_or(0) % self.files.len().max(1);
        let pipeline = match &self.pipeline {
            Some(text) => text.clone(),
            None => random_pipeline(number),
        };
        Recipe {
            pipeline: Pipeline::Text(pipeline),
            assembler: Assembler {
                kind: self.assembler,
                ..Assembler::default()
            },
            emit: self.emit,
            ..Recipe::new(Code::Ptx(self.files.get(turn).cloned().unwrap_or_default()))
        }
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&number| number > 0)
        .ok_or(format!("{text} is no number above 0"))
}
