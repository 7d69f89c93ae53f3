//! What can be varied for a source that is given: the same as for the kernel that it stands for, as far as its text allows.

use r3_codegen::recipe::Bounds;
use r3_replay::evaluate::candidate::{GridRule, LaunchChange, SharedRule};
use r3_replay::evaluate::describe::{Census, KernelDescription};

use r3_source::syntax::Unit;
use r3_source::tokens::tokens;

use super::derive::{choice, when};
use super::{Domain, OptionError, Parameter, Point, Space, SpaceOptions, Value};

impl Space {
    /// What can be varied for a source that stands for a kernel. `launch` is what its text wishes: what the first values of the
    /// launch's parameters are.
    pub fn of_source(
        kernel: &KernelDescription,
        text: &str,
        launch: &LaunchChange,
        options: &SpaceOptions,
    ) -> Result<Self, OptionError> {
        let recorded = Self::of_kernel(kernel, &SpaceOptions::default())?;
        let mut space = Self::of_kernel(&as_described(kernel, text, launch), options)?;
        if let Some(facts) = &mut space.kernel {
            facts.source = true;
            // More threads than it is given for need bounds that say so.
            facts.max_threads = facts.block.iter().product::<u32>().max(1);
            facts.recorded_block = recorded
                .kernel
                .map(|recorded| recorded.block)
                .filter(|block| *block != facts.block);
        }
        space.is_always_optimised(&options.with);
        if *launch != LaunchChange::default() {
            space.may_be_launched_as_recorded(launch);
        }
        Ok(space)
    }

    /// What a compiler makes of a text may be code that no pass has seen: through LLVM it is optimised, whatever comes after that.
    fn is_always_optimised(&mut self, with: &[String]) {
        let Some(passes) = self.parameters.iter_mut().find(|one| one.name == "passes") else {
            return;
        };
        let Domain::Choice(values) = &mut passes.domain else {
            return;
        };
        let wanted = |value: &str| with.iter().any(|one| *one == format!("passes={value}"));
        let (kept, dropped) = std::mem::take(values)
            .into_iter()
            .partition(|value| matches!(value.as_str(), "O3" | "sequence") || wanted(value));
        *values = kept;
        let dropped: Vec<String> = dropped;
        self.start.retain(|point| {
            let passes = point.get("passes").and_then(Value::text);
            passes.is_none_or(|passes| !dropped.iter().any(|one| one == passes))
        });
        passes.dropped.extend(dropped);
        values.sort_by_key(|value| value != "O3");
        passes.why = "O3, alone or with a sequence of passes after it. Dropped: less than O3, which leaves what clang makes of a text as slow \
                      as it is written"
            .to_owned();
    }

    /// A parameter that sets back what the text wishes of its launch.
    fn may_be_launched_as_recorded(&mut self, launch: &LaunchChange) {
        let given = [
            ("grid", launch.grid != [GridRule::Cover; 3]),
            ("shared", launch.shared != SharedRule::Same),
        ];
        for parameter in &mut self.parameters {
            if !matches!(parameter.name.as_str(), "block" | "grid" | "shared") {
                continue;
            }
            parameter.when.extend(when("launch", &["as given"]));
            let Domain::Choice(values) = &mut parameter.domain else {
                continue;
            };
            if given.contains(&(parameter.name.as_str(), true)) {
                values.insert(0, "as given".to_owned());
            }
        }
        self.parameters.insert(
            0,
            Parameter {
                why: "the text wishes another launch than the recorded one, and may do without"
                    .to_owned(),
                ..choice("launch", ["as given", "as recorded"])
            },
        );
        self.sort_conditions();
    }

    /// Makes these, the best ones of what a text came of, the first points after the original, as far as they mean something here,
    /// and adds the recorded launch where the text wishes another one. Returns all points that say whether a variant is worth more: the original, the first of
    /// `points`, and the recorded launch.
    pub fn begin_with(&mut self, points: &[Point]) -> Vec<Point> {
        let original = self.original();
        let mut first = vec![original.clone()];
        let mut start: Vec<Point> = Vec::new();
        for point in points {
            let adapted = self.adapted(point);
            if adapted != original && !start.contains(&adapted) {
                start.push(adapted);
            }
        }
        first.extend(start.first().cloned());
        if self.parameter("launch").is_some() {
            let recorded = self.complete(&Point::from([("launch", "as recorded".into())]));
            if !start.contains(&recorded) && self.has(&recorded) {
                first.push(recorded.clone());
                start.insert(start.len().min(1), recorded);
            }
        }
        if !points.is_empty() {
            // What is tried first of a text that nothing is known of was tried of one that it came of.
            self.start.clear();
        }
        let starts = start.into_iter().map(|point| point.0);
        self.start.splice(0..0, starts);
        first
    }

    /// A point of another variant's space as one of this one: what means nothing here, or can have no such value, is as the text
    /// says.
    #[must_use]
    pub fn adapted(&self, point: &Point) -> Point {
        let mut known = Point::default();
        for parameter in &self.parameters {
            if !parameter.means_something(&known) {
                continue;
            }
            let value = point
                .get(&parameter.name)
                .filter(|value| parameter.varied && parameter.domain.check(value).is_ok());
            let value = value.cloned().unwrap_or(parameter.domain.default_value());
            known.0.insert(parameter.name.clone(), value);
        }
        if self.has(&known) {
            known
        } else {
            self.original()
        }
    }
}

/// The kernel as the source has it: launched as the text wishes, and compiled from it.
fn as_described(
    kernel: &KernelDescription,
    text: &str,
    launch: &LaunchChange,
) -> KernelDescription {
    let mut described = kernel.clone();
    for one in &mut described.launches {
        if let Some(block) = launch.block {
            one.block = block;
        }
        if let SharedRule::Bytes(bytes) = launch.shared {
            one.dynamic_shared = bytes;
        }
    }
    described.forms = vec!["source".to_owned()];
    described.compilable = true;
    described.recorded_runs = false;
    described.bounds = Bounds::default();
    described.required_block = None;
    described.census = Some(census(
        &of_kernel(text, &kernel.name),
        kernel.census.as_ref(),
    ));
    described
}

/// A text without the other kernels that are in it.
fn of_kernel(text: &str, name: &str) -> String {
    let functions = Unit::parse(text)
        .map(|unit| unit.functions())
        .unwrap_or_default();
    // A mangled name has in it what it is made of.
    let others = functions
        .iter()
        .filter(|one| one.kernel && !name.contains(one.name.as_str()));
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for other in others {
        kept.push_str(text.get(at..other.span.start).unwrap_or_default());
        at = at.max(other.span.end);
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    kept
}

/// What a text does, as far as its words say. Where it includes files of its own, what the recorded code does counts too: they may
/// do it.
fn census(text: &str, recorded: Option<&Census>) -> Census {
    let words = tokens(text);
    let count = |matches: &dyn Fn(&str) -> bool| {
        let found = words.iter().filter(|word| matches(word));
        u32::try_from(found.count()).unwrap_or(u32::MAX)
    };
    let any = |list: &[&str]| count(&|word| list.contains(&word)) > 0;
    let starts = |list: &[&str]| count(&|word| list.iter().any(|start| word.starts_with(start)));
    // `blockDim.x`, or all of it where it is handed on.
    let reads = |name: &str| {
        let mut dimensions = [false; 3];
        for at in words.iter().enumerate().filter(|(_, word)| **word == name) {
            let after = |steps: usize| words.get(at.0 + steps).copied();
            match (after(1), after(2)) {
                (Some("."), Some(axis @ ("x" | "y" | "z"))) => {
                    for (dimension, name) in dimensions.iter_mut().zip(["x", "y", "z"]) {
                        *dimension |= name == axis;
                    }
                }
                _ => dimensions = [true; 3],
            }
        }
        dimensions
    };
    let shared = words
        .iter()
        .enumerate()
        .filter(|(_, word)| **word == "__shared__");
    let (dynamic, fixed): (Vec<_>, Vec<_>) = shared
        .partition(|(at, _)| at.checked_sub(1).and_then(|at| words.get(at)) == Some(&"extern"));
    let own = Census {
        loops: count(&|word| matches!(word, "for" | "while" | "do")),
        barriers: starts(&["__syncthreads", "__barrier", "__cluster_barrier"])
            + count(&|word| matches!(word, "this_thread_block" | "barrier" | "asm")),
        warp_exchanges: starts(&[
            "__shfl",
            "__ballot",
            "__any",
            "__all",
            "__match_",
            "__reduce_",
        ]) + count(&|word| {
            matches!(
                word,
                "__activemask"
                    | "__syncwarp"
                    | "tiled_partition"
                    | "coalesced_threads"
                    | "warpSize"
            )
        }),
        static_shared: u32::try_from(fixed.len()).unwrap_or(u32::MAX),
        dynamic_shared: !dynamic.is_empty(),
        reads_block: reads("blockDim"),
        reads_grid: reads("gridDim"),
        reads_block_index: reads("blockIdx"),
        grid_wide: any(&[
            "this_grid",
            "this_cluster",
            "__cluster_dims__",
            "cluster_group",
        ]),
        // What is of use only for what the text does not tell is taken as there.
        global_loads: 1,
        global_stores: 1,
        exact_divisions: 1,
        unflushed: 1,
        float_operations: 1,
        ..Census::default()
    };
    match recorded {
        Some(recorded) if includes_its_own(text) => Census {
            loops: own.loops.max(recorded.loops),
            barriers: own.barriers.max(recorded.barriers),
            warp_exchanges: own.warp_exchanges.max(recorded.warp_exchanges),
            static_shared: own.static_shared.max(recorded.static_shared),
            dynamic_shared: own.dynamic_shared || recorded.dynamic_shared,
            grid_wide: own.grid_wide || recorded.grid_wide,
            ..own
        },
        _ => own,
    }
}

/// Whether a text includes files that are no system's: `#include "tile.cuh"`.
fn includes_its_own(text: &str) -> bool {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix('#'))
        .filter_map(|line| line.trim_start().strip_prefix("include"))
        .any(|rest| rest.trim_start().starts_with('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::kernel_for_tests;

    const PLAIN: &str = "__global__ void k(const float* a, float* b, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; // no __syncthreads() here
        if (i < n) b[i] = 2.0f * a[i];
    }";

    fn space(text: &str, launch: LaunchChange) -> Space {
        Space::of_source(&kernel_for_tests(), text, &launch, &SpaceOptions::default()).unwrap()
    }

    fn varied(space: &Space, name: &str) -> bool {
        space.parameter(name).is_some_and(|one| one.varied)
    }

    #[test]
    fn the_block_is_varied_only_where_the_text_asks_for_its_size_and_shares_nothing() {
        assert!(varied(&space(PLAIN, LaunchChange::default()), "block"));
        for fixed in [
            PLAIN.replace("blockDim.x", "256"),
            PLAIN.replace("if (i", "__syncthreads(); if (i"),
            PLAIN.replace("if (i", "__shared__ float t[256]; if (i"),
            PLAIN.replace("2.0f *", "__shfl_xor_sync(~0u, 1.0f, 1) *"),
        ] {
            assert!(
                !varied(&space(&fixed, LaunchChange::default()), "block"),
                "{fixed}"
            );
        }
    }

    #[test]
    fn what_another_kernel_of_the_file_does_is_not_held_against_this_one() {
        let other = "__global__ void other(float* a) { __syncthreads(); }";
        let text = format!("{other}\n{PLAIN}");
        assert!(varied(&space(&text, LaunchChange::default()), "block"));
    }

    #[test]
    fn the_first_values_are_what_the_text_wishes() {
        let launch = LaunchChange {
            block: Some([128, 1, 1]),
            grid: [GridRule::Scale(1, 4), GridRule::Cover, GridRule::Cover],
            shared: SharedRule::Bytes(4096),
            carveout: None,
        };
        let space = space(PLAIN, launch);
        let base = base(launch);
        assert_eq!(space.candidate_of(&base, &space.original()).unwrap(), base);
        assert_eq!(space.original().text("block"), Some("128x1x1"));
    }

    fn base(launch: LaunchChange) -> r3_replay::evaluate::Candidate {
        r3_replay::evaluate::Candidate {
            code: r3_replay::evaluate::candidate::CandidateCode::Source(Default::default()),
            launch,
            ..Default::default()
        }
    }

    #[test]
    fn a_quarter_of_the_threads_stays_a_quarter_in_another_block() {
        // Recorded with 256 threads; each thread does four elements.
        let launch = LaunchChange {
            grid: [GridRule::Scale(1, 4), GridRule::Cover, GridRule::Cover],
            ..LaunchChange::default()
        };
        let space = space(PLAIN, launch);
        let point = space.complete(&Point::from([("block", "64x1x1".into())]));
        let candidate = space.candidate_of(&base(launch), &point).unwrap();
        assert_eq!(candidate.launch.block, Some([64, 1, 1]));
        assert_eq!(candidate.launch.grid[0], GridRule::Scale(1, 1));
        let point = space.complete(&Point::from([("block", "512x1x1".into())]));
        let candidate = space.candidate_of(&base(launch), &point).unwrap();
        assert_eq!(candidate.launch.grid[0], GridRule::Scale(1, 8));
    }

    #[test]
    fn the_recorded_launch_is_tried_where_the_text_wishes_another_one() {
        let launch = LaunchChange {
            block: Some([1024, 1, 1]),
            ..LaunchChange::default()
        };
        let mut space = space(PLAIN, launch);
        let screen = space.begin_with(&[]);
        assert_eq!(screen.len(), 2);
        let recorded = space.candidate_of(&base(launch), &screen[1]).unwrap();
        assert_eq!(recorded.launch, LaunchChange::default());
        assert_eq!(space.start_points()[..2], screen[..]);
    }

    #[test]
    fn a_parent_s_best_point_is_taken_as_far_as_it_means_something() {
        let fixed = PLAIN.replace("if (i", "__syncthreads(); if (i");
        let mut space = space(&fixed, LaunchChange::default());
        let parent = Point::from([
            ("block", "64x1x1".into()),
            ("registers", "max 64".into()),
            ("never heard of", "x".into()),
        ]);
        let screen = space.begin_with(&[parent]);
        assert_eq!(screen.len(), 2);
        assert_eq!(screen[1].text("registers"), Some("max 64"));
        assert_eq!(screen[1].text("block"), Some("256x1x1"));
        assert!(space.has(&screen[1]));
    }

    #[test]
    fn a_text_through_llvm_is_always_optimised() {
        let launch = LaunchChange::default();
        let space = space(PLAIN, launch);
        let passes = |values: &[(&str, &str)]| {
            let mut point = Point::default();
            for (name, value) in values {
                point.0.insert((*name).to_owned(), (*value).into());
            }
            let point = space.complete(&point);
            space.check(&point).unwrap();
            space
                .candidate_of(&base(launch), &point)
                .unwrap()
                .build
                .passes
        };
        assert_eq!(passes(&[("route", "lift")]), "default<O3>");
        let sequence = passes(&[("route", "lift"), ("passes", "sequence")]);
        assert!(sequence.starts_with("default<O3>,function("), "{sequence}");
        let sroa = Point::from([("route", "lift".into()), ("passes", "sroa".into())]);
        assert!(!space.has(&space.complete(&sroa)));
        assert!(space.start_points().len() > 1);
    }

    #[test]
    fn a_block_larger_than_the_text_s_own_gets_bounds() {
        let space = space(PLAIN, LaunchChange::default());
        let point = space.complete(&Point::from([("block", "512x1x1".into())]));
        let candidate = space
            .candidate_of(&base(LaunchChange::default()), &point)
            .unwrap();
        assert_eq!(candidate.build.bounds.maxntid, Some(512));
    }

    #[test]
    fn fast_math_of_a_source_is_that_source_s() {
        let options = SpaceOptions {
            approximate: crate::space::Allowed::FastMath,
            ..SpaceOptions::default()
        };
        let launch = LaunchChange::default();
        let space = Space::of_source(&kernel_for_tests(), PLAIN, &launch, &options).unwrap();
        let point = space.complete(&Point::from([("approximate", "fast-math".into())]));
        let candidate = space.candidate_of(&base(launch), &point).unwrap();
        assert_eq!(candidate.code, base(launch).code);
        assert!(candidate.build.approximate.functions);
    }

    #[test]
    fn what_an_included_file_may_do_counts() {
        let text = format!("#include \"tile.cuh\"\n{PLAIN}");
        let mut kernel = kernel_for_tests();
        kernel.census = Some(Census {
            barriers: 1,
            ..Census::default()
        });
        let options = SpaceOptions::default();
        let launch = LaunchChange::default();
        let of = |text: &str| Space::of_source(&kernel, text, &launch, &options).unwrap();
        assert!(!varied(&of(&text), "block"));
        assert!(varied(&of(PLAIN), "block"));
    }

    #[test]
    fn a_space_with_a_directive_goes_through_its_text() {
        let launch = LaunchChange {
            block: Some([64, 1, 1]),
            grid: [GridRule::Same; 3],
            shared: SharedRule::Bytes(64),
            ..LaunchChange::default()
        };
        let space = space(PLAIN, launch);
        assert_eq!(Space::from_toml(&space.to_toml()).unwrap(), space);
    }
}
