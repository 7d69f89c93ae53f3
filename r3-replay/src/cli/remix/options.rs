//! Options about compiling, as a recipe.

use std::path::PathBuf;
use std::time::Duration;

use r3_codegen::assemble::arch_for;
use r3_codegen::recipe::{
    Assembler, AssemblerKind, Bounds, Contraction, Emit, Pipeline, Preset, Recipe, Specialisation,
    Unroll,
};
use r3_codegen::worker::Limits;

use crate::remix::facts::Wanted;
use crate::remix::origin::{From, Origin};

/// How kernels are compiled.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Compiling")]
pub struct CompileArgs {
    /// Code to begin with, instead of what the archive has: PTX, LLVM bitcode (.bc) or text (.ll), CUDA C++ (.cu).
    #[arg(long, value_name = "FILE")]
    pub code: Option<PathBuf>,

    /// Begin with this form of what the archive has [default: PTX when there is any].
    #[arg(long, value_name = "FORM", value_enum, conflicts_with = "code")]
    pub from: Option<From>,

    /// A pipeline of LLVM passes, in the syntax of `opt -passes=`.
    #[arg(long, value_name = "TEXT", conflicts_with = "level")]
    pub passes: Option<String>,

    /// One of LLVM's own pipelines [default: 3].
    #[arg(short = 'O', value_name = "LEVEL", value_enum)]
    pub level: Option<Level>,

    /// Also this many pipelines of random passes.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub random_pipelines: u64,

    /// Of the random pipelines: the same number gives the same ones.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// An option of LLVM, e.g. `-unroll-threshold=2000`. May be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub llvm_option: Vec<String>,

    /// Most registers of a thread; 0 removes the limit that the code has.
    #[arg(long, value_name = "N")]
    pub maxnreg: Option<u32>,

    /// Most threads of a block; 0 removes the limit that the code has.
    #[arg(long, value_name = "N")]
    pub maxntid: Option<u32>,

    /// Blocks that must fit on a multiprocessor; 0 removes what the code asks for.
    #[arg(long, value_name = "N")]
    pub minnctapersm: Option<u32>,

    /// Facts of the first selected launch to compile for: scalars, grid, block, noalias, align, all, param:N. The code
    /// is not run for launches that they do not hold for.
    #[arg(long, visible_alias = "specialise", value_name = "LIST")]
    pub specialize: Option<Wanted>,

    /// Loops: as the code asks for (keep), as LLVM likes (free), or so many times.
    #[arg(long, value_name = "keep|free|N", default_value = "keep", value_parser = unroll)]
    pub unroll: Unroll,

    /// Who may fuse multiplications and additions: only the assembler, as in the original, or LLVM too, with other
    /// roundings.
    #[arg(long, value_name = "WHO", value_enum, default_value_t)]
    pub contract: Contract,

    /// Inline functions that the code keeps apart.
    #[arg(long)]
    pub inline: bool,

    /// Keep guarded loads and stores as one instruction each, as Triton writes them, instead of branches around them.
    #[arg(long)]
    pub keep_guards: bool,

    /// Architecture to compile for, e.g. `sm_90a` [default: that of the code].
    #[arg(long, value_name = "SM")]
    pub target: Option<String>,

    /// Version of PTX to write, e.g. `8.8` [default: the least that does].
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub ptx_version: Option<(u16, u16)>,

    /// How hard LLVM's code generator tries.
    #[arg(long, value_name = "0..3", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub codegen_level: u8,

    /// What makes machine code of PTX. `any` is ptxas, else nvJitLink, else the driver.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub assembler: AssemblerArg,

    /// An option of the assembler, in the spelling of ptxas. May be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub assembler_option: Vec<String>,

    /// Seconds that a compilation may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub time_limit: u64,

    /// MiB of memory that a compilation may use.
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(64..))]
    pub memory_limit: u64,
}

/// LLVM's pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// Nothing but what is needed.
    #[value(name = "0")]
    O0,
    /// Quick.
    #[value(name = "1")]
    O1,
    /// Usual.
    #[value(name = "2")]
    O2,
    /// All.
    #[value(name = "3")]
    O3,
    /// Small.
    #[value(name = "s")]
    Os,
    /// Smaller.
    #[value(name = "z")]
    Oz,
}

impl Level {
    fn preset(self) -> Preset {
        match self {
            Self::O0 => Preset::O0,
            Self::O1 => Preset::O1,
            Self::O2 => Preset::O2,
            Self::O3 => Preset::O3,
            Self::Os => Preset::Os,
            Self::Oz => Preset::Oz,
        }
    }
}

/// Who fuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Contract {
    /// The assembler.
    #[default]
    Assembler,
    /// LLVM too.
    Llvm,
}

/// An assembler, or the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AssemblerArg {
    /// The first that is there.
    #[default]
    Any,
    /// NVIDIA's linker.
    #[value(name = "nvjitlink")]
    NvJitLink,
    /// NVIDIA's assembler.
    Ptxas,
    /// The driver compiles the PTX.
    Driver,
}

fn unroll(text: &str) -> Result<Unroll, String> {
    match text {
        "keep" => Ok(Unroll::Keep),
        "free" => Ok(Unroll::Free),
        text => match text.parse() {
            Ok(count @ 1..) => Ok(Unroll::Count(count)),
            _ => Err("keep, free, or a count from 1".to_owned()),
        },
    }
}

fn version(text: &str) -> Result<(u16, u16), String> {
    let parts = text.split_once('.');
    parts
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .ok_or_else(|| "two numbers are expected, e.g. 8.8".to_owned())
}

impl CompileArgs {
    /// What a worker may use.
    pub fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_secs(self.time_limit),
            memory: self.memory_limit.saturating_mul(1 << 20),
            ..Limits::default()
        }
    }

    /// The recipes for a kernel, by name. `sm` is the architecture of the device, and `runs` whether the code runs there.
    pub fn recipes(
        &self,
        origin: &Origin,
        specialisation: &Specialisation,
        (sm, runs): (u32, bool),
        emit: Emit,
    ) -> Vec<(String, Recipe)> {
        let base = self.recipe(origin, specialisation, (sm, runs), emit);
        let mut recipes = vec![(self.base_name(), base.clone())];
        for number in 0..self.random_pipelines {
            let seed = self.seed.wrapping_add(number);
            let passes = r3_codegen::passes::random_pipeline(seed);
            let recipe = Recipe {
                pipeline: Pipeline::Text(passes),
                ..base.clone()
            };
            recipes.push((format!("random {seed}"), recipe));
        }
        recipes
    }

    fn base_name(&self) -> String {
        match (&self.passes, self.level) {
            (Some(_), _) => "--passes".to_owned(),
            (None, level) => format!("-{:?}", level.unwrap_or(Level::O3)),
        }
    }

    fn recipe(
        &self,
        origin: &Origin,
        specialisation: &Specialisation,
        (sm, runs): (u32, bool),
        emit: Emit,
    ) -> Recipe {
        let device = format!("sm_{sm}");
        let without_target = (!origin.names_target()).then(|| device.clone());
        let target = self.target.as_ref().or(origin.target.as_ref());
        let arch = match target {
            // What is only written is for what was asked for, whatever device is here.
            Some(target) if !runs && self.target.is_some() => target.clone(),
            Some(target) => arch_for(target, &device).unwrap_or_else(|_| target.clone()),
            None => device,
        };
        Recipe {
            kernel: Some(origin.kernel.clone()),
            target: self.target.clone().or(without_target),
            ptx_version: self.ptx_version,
            pipeline: match (&self.passes, self.level) {
                (Some(passes), _) => Pipeline::Text(passes.clone()),
                (None, level) => Pipeline::Preset(level.unwrap_or(Level::O3).preset()),
            },
            llvm_options: self.llvm_option.clone(),
            codegen_level: self.codegen_level,
            contraction: match self.contract {
                Contract::Assembler => Contraction::Assembler,
                Contract::Llvm => Contraction::Llvm,
            },
            unroll: self.unroll,
            inline_functions: self.inline,
            keep_guards: self.keep_guards,
            specialisation: specialisation.clone(),
            bounds: Bounds {
                maxnreg: self.maxnreg,
                maxntid: self.maxntid,
                minnctapersm: self.minnctapersm,
                reqntid: None,
            },
            assembler: Assembler {
                kind: match self.assembler {
                    AssemblerArg::Any | AssemblerArg::Driver => AssemblerKind::Any,
                    AssemblerArg::NvJitLink => AssemblerKind::NvJitLink,
                    AssemblerArg::Ptxas => AssemblerKind::Ptxas,
                },
                arch: Some(arch),
                options: self.assembler_option.clone(),
            },
            emit,
            ..Recipe::new(origin.code.clone())
        }
    }
}
