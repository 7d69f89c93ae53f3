//! What of a candidate can be had by telling `nvcc`, what by a line in the source, and what not at all.
//!
//! R3's candidates begin with compiled code. Somebody who has the source may want the same of their own build: much of it they
//! can have, and the rest is said.

use r3_codegen::recipe::{CacheOperators, Contraction, Unroll};
use r3_replay::evaluate::Candidate;
use r3_replay::evaluate::candidate::{CandidateCode, GridRule, Route, SharedRule};
use serde::Serialize;

/// A candidate in the words of `nvcc` and CUDA C++.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flags {
    /// Options of `nvcc`, for the file that the kernel is in.
    pub flags: Vec<String>,
    /// What is to be written in the source or at the launch.
    pub source: Vec<String>,
    /// What cannot be had by either.
    pub not_possible: Vec<String>,
}

/// What of a candidate can be had by `nvcc`. `block` is what the application launches with.
#[must_use]
pub fn nvcc_flags(candidate: &Candidate, block: [u32; 3]) -> Flags {
    let mut all = Flags::default();
    code(candidate, &mut all);
    arithmetic(candidate, &mut all);
    bounds(candidate, block, &mut all);
    launch(candidate, block, &mut all);
    all
}

fn code(candidate: &Candidate, all: &mut Flags) {
    let build = &candidate.build;
    match &candidate.code {
        CandidateCode::Recorded | CandidateCode::Captured { .. } => {}
        CandidateCode::Source(source) => {
            all.source.push(
                "the source is another one: `r3-evolve export --format source` writes it".into(),
            );
            all.flags.extend(source.options.iter().cloned());
        }
        CandidateCode::Ptx(_)
        | CandidateCode::Llvm(_)
        | CandidateCode::Bitcode(_)
        | CandidateCode::Cubin(_) => all
            .not_possible
            .push("the code was given as PTX, LLVM IR or machine code".into()),
    }
    for option in &build.assembler_options {
        all.flags.push(format!("-Xptxas {option}"));
    }
    if build.route == Route::Lift {
        let passes = if build.passes.is_empty() {
            "no passes".to_owned()
        } else {
            build.passes.clone()
        };
        all.not_possible.push(format!(
            "the code went through LLVM ({passes}{}), which nvcc does not let you choose",
            build
                .llvm_options
                .iter()
                .map(|option| format!(", {option}"))
                .collect::<String>()
        ));
    }
    for fact in &build.specialise {
        all.source.push(match fact.as_str() {
            "scalars" => "scalar parameters as constants: template parameters, or a copy of the kernel with them written in"
                .into(),
            "grid" => "gridDim as constants".into(),
            "block" => "blockDim as constants".into(),
            "noalias" => "`__restrict__` on pointer parameters that do not overlap".into(),
            "align" => "`__builtin_assume_aligned` on pointer parameters".into(),
            other => format!("{} as a constant", other.replace(':', " ")),
        });
    }
    if build.read_only_loads {
        all.source.push(
            "`const` and `__restrict__` on what is only read, or `__ldg` for its loads".into(),
        );
    }
    if build.cache_operators != CacheOperators::default() {
        all.source.push(
            "cache operators of loads and stores: `__ldcs`, `__ldcg`, `__stcs`, `__stcg`".into(),
        );
    }
    match build.unroll {
        Unroll::Keep => {}
        Unroll::Free => all
            .source
            .push("no `#pragma unroll 1`, which keeps loops as they are".into()),
        Unroll::Count(count) => all
            .source
            .push(format!("`#pragma unroll {count}` at loops")),
    }
    if build.inline_functions {
        all.source
            .push("`__forceinline__` on device functions".into());
    }
}

fn arithmetic(candidate: &Candidate, all: &mut Flags) {
    let build = &candidate.build;
    let approximate = &build.approximate;
    if approximate.functions {
        all.flags.push("-use_fast_math".into());
    } else {
        if approximate.division {
            all.flags.push("-prec-div=false -prec-sqrt=false".into());
        }
        if approximate.flush {
            all.flags.push("-ftz=true".into());
        }
    }
    if build.contraction == Contraction::Llvm {
        all.not_possible
            .push("LLVM's choice of which products are fused with sums".into());
    }
}

fn bounds(candidate: &Candidate, block: [u32; 3], all: &mut Flags) {
    let bounds = &candidate.build.bounds;
    if let Some(registers) = bounds.maxnreg.filter(|count| *count > 0) {
        if bounds.maxntid.is_none() && bounds.minnctapersm.is_none() {
            all.flags.push(format!("-maxrregcount={registers}"));
            all.source.push(format!(
                "or, for this kernel alone, `__maxnreg__({registers})`"
            ));
        } else {
            all.not_possible.push(format!(
                "{registers} registers at most together with launch bounds: nvcc takes one or the other"
            ));
        }
    }
    if let Some([x, y, z]) = bounds.reqntid {
        all.not_possible.push(format!(
            "a block of exactly {x}x{y}x{z} that the code demands (`.reqntid`); `__launch_bounds__` comes near"
        ));
    }
    let block = candidate.launch.block.unwrap_or(block);
    let threads = block
        .iter()
        .fold(1u32, |all, size| all.saturating_mul(*size));
    match (bounds.maxntid, bounds.minnctapersm) {
        (None, None) => {}
        (Some(0), None) => all.source.push("no `__launch_bounds__`".into()),
        (threads_of_bounds, blocks) => {
            let threads = threads_of_bounds
                .filter(|count| *count > 0)
                .unwrap_or(threads);
            let blocks = blocks
                .filter(|count| *count > 0)
                .map_or_else(String::new, |count| format!(", {count}"));
            all.source
                .push(format!("`__launch_bounds__({threads}{blocks})`"));
        }
    }
}

fn launch(candidate: &Candidate, block: [u32; 3], all: &mut Flags) {
    let launch = &candidate.launch;
    if let Some([x, y, z]) = launch.block {
        all.source.push(format!(
            "launch with `dim3({x}, {y}, {z})` threads in a block"
        ));
    }
    let names = ["x", "y", "z"];
    for (name, rule) in names.iter().zip(&launch.grid) {
        let text = match rule {
            GridRule::Cover => continue,
            GridRule::Same if launch.block.is_none() => continue,
            GridRule::Same => format!("as many blocks in {name} as before"),
            GridRule::Blocks(count) => format!("{count} blocks in {name}"),
            GridRule::Scale(by, of) => format!("{by}/{of} of the blocks in {name}, rounded up"),
        };
        all.source.push(text);
    }
    if let Some(to) = launch.block
        && launch.grid.contains(&GridRule::Cover)
    {
        // Where a block has one thread before and after, nothing changes.
        let covered: Vec<&str> = (names.iter().zip(&launch.grid))
            .zip(block.iter().zip(&to))
            .filter(|((_, rule), (from, to))| **rule == GridRule::Cover && **from.max(to) > 1)
            .map(|((name, _), _)| *name)
            .collect();
        let all_cover = launch.grid.iter().all(|rule| *rule == GridRule::Cover);
        let text = match covered.as_slice() {
            _ if all_cover => "as many blocks as cover at least the threads of before".to_owned(),
            [] => return,
            names => format!(
                "as many blocks in {} as cover at least the threads of before",
                names.join(" and ")
            ),
        };
        all.source.push(text);
    }
    match launch.shared {
        SharedRule::Same => {}
        SharedRule::PerThread => all
            .source
            .push("dynamic shared memory in proportion to the threads of a block".into()),
        SharedRule::Bytes(bytes) => all
            .source
            .push(format!("{bytes} bytes of dynamic shared memory")),
    }
    if let Some(percent) = launch.carveout {
        all.source.push(format!(
            "`cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, {percent})`"
        ));
    }
}

impl std::fmt::Display for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.flags.is_empty() {
            writeln!(f, "nvcc {}", self.flags.join(" "))?;
        }
        for line in &self.source {
            writeln!(f, "source: {line}")?;
        }
        for line in &self.not_possible {
            writeln!(f, "not possible with nvcc: {line}")?;
        }
        if *self == Self::default() {
            writeln!(f, "nothing: it is as the original")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use r3_codegen::recipe::Bounds;
    use r3_replay::evaluate::candidate::{Approximate, Build, LaunchChange};

    #[test]
    fn what_nvcc_can_do_is_told_apart_from_what_it_cannot() {
        let candidate = Candidate {
            code: CandidateCode::Captured { from: None },
            build: Build {
                route: Route::Lift,
                passes: "default<O3>".into(),
                specialise: vec!["scalars".into(), "param:3".into()],
                approximate: Approximate {
                    division: true,
                    flush: true,
                    functions: false,
                },
                bounds: Bounds {
                    maxntid: Some(128),
                    minnctapersm: Some(2),
                    ..Bounds::default()
                },
                assembler_options: vec!["-dlcm=cs".into()],
                ..Build::default()
            },
            launch: LaunchChange {
                block: Some([128, 1, 1]),
                carveout: Some(50),
                ..LaunchChange::default()
            },
        };
        insta::assert_snapshot!(nvcc_flags(&candidate, [256, 1, 1]));
        let capped = Candidate {
            build: Build {
                bounds: Bounds {
                    maxnreg: Some(64),
                    ..Bounds::default()
                },
                ..Build::default()
            },
            ..Candidate::default()
        };
        assert_eq!(nvcc_flags(&capped, [256, 1, 1]).flags, ["-maxrregcount=64"]);
        insta::assert_snapshot!(nvcc_flags(&Candidate::default(), [256, 1, 1]), @"nothing: it is as the original");
    }

    #[test]
    fn a_grid_is_said_once_for_each_dimension() {
        let shaped = |block, grid| {
            let candidate = Candidate {
                launch: LaunchChange {
                    block: Some(block),
                    grid,
                    ..LaunchChange::default()
                },
                ..Candidate::default()
            };
            nvcc_flags(&candidate, [256, 1, 1]).source[1..].to_vec()
        };
        let (cover, quarter) = (GridRule::Cover, GridRule::Scale(1, 4));
        let in_x = "1/4 of the blocks in x, rounded up";
        assert_eq!(shaped([64, 1, 1], [quarter, cover, cover]), [in_x]);
        assert_eq!(
            shaped([64, 4, 1], [quarter, cover, cover]),
            [
                in_x,
                "as many blocks in y as cover at least the threads of before"
            ]
        );
        assert_eq!(
            shaped([64, 1, 1], [cover; 3]),
            ["as many blocks as cover at least the threads of before"]
        );
    }
}
