//! What can be varied for a kernel, and what becomes of a point.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use r3_archive::model::LaunchId;
use r3_codegen::passes::Random;
use r3_codegen::recipe::{Bounds, Unroll};
use r3_evolve::space::{Allowed, Domain, Point, PointError, Size, Space, SpaceOptions, Value};
use r3_replay::evaluate::Candidate;
use r3_replay::evaluate::candidate::{CandidateCode, GridRule, Route};
use r3_replay::evaluate::describe::{
    Census, DeviceDescription, KernelDescription, LaunchDescription, ParamDescription,
};
use r3_replay::remix::trial::Used;

/// A kernel with one thread for each element: two pointers, two scalars of which one changes, a loop, a division.
fn kernel() -> KernelDescription {
    let param = |index, pointer, constant| ParamDescription {
        index,
        offset: 8 * index,
        size: if pointer { 8 } else { 4 },
        pointer,
        constant,
        values: 1,
        target: None,
    };
    KernelDescription {
        archive: "a".to_owned(),
        name: "_Z4stepPKfPfii".to_owned(),
        readable: "step(float const*, float*, int, int)".to_owned(),
        device: DeviceDescription {
            name: "NVIDIA H200".to_owned(),
            sm: 90,
            multiprocessors: 132,
            max_threads_per_block: 1024,
            max_threads_per_multiprocessor: 2048,
            registers_per_multiprocessor: 65_536,
            ..DeviceDescription::default()
        },
        forms: vec!["PTX compute_90 of the image".to_owned()],
        compilable: true,
        recorded_runs: true,
        used: Some(Used {
            registers: 40,
            local: 0,
            shared: 0,
        }),
        max_threads: 1024,
        bounds: Bounds::default(),
        required_block: None,
        census: Some(Census {
            instructions: 90,
            loops: 1,
            reads_block: [true, false, false],
            reads_block_index: [true, false, false],
            global_loads: 3,
            global_stores: 1,
            exact_divisions: 1,
            unflushed: 4,
            float_operations: 6,
            ..Census::default()
        }),
        params: vec![
            param(0, true, None),
            param(1, true, None),
            param(2, false, Some(vec![0, 4, 0, 0])),
            param(3, false, None),
        ],
        source: None,
        launches: vec![LaunchDescription {
            launch: LaunchId(1),
            grid: [512, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            weight: 10.0,
            bytes: 1 << 20,
            caveats: Vec::new(),
        }],
    }
}

fn space(kernel: &KernelDescription) -> Space {
    Space::of_kernel(kernel, &SpaceOptions::default()).unwrap()
}

fn with_census(change: impl FnOnce(&mut Census)) -> KernelDescription {
    let mut kernel = kernel();
    change(kernel.census.as_mut().unwrap());
    kernel
}

fn varied(space: &Space) -> Vec<&str> {
    let varied = space.parameters.iter().filter(|one| one.varied);
    varied.map(|one| one.name.as_str()).collect()
}

fn values<'s>(space: &'s Space, name: &str) -> &'s [String] {
    match &space.parameter(name).unwrap().domain {
        Domain::Choice(values) => values,
        other => panic!("{other:?}"),
    }
}

fn point(space: &Space, values: &[(&str, Value)]) -> Point {
    let mut point = space.original();
    for (name, value) in values {
        point.0.insert((*name).to_owned(), value.clone());
    }
    space.complete(&point)
}

#[test]
fn the_space_of_a_kernel_is_printed_with_reasons() {
    insta::assert_snapshot!(space(&kernel()).to_toml());
}

#[test]
fn what_is_printed_is_read_and_comments_do_not_count() {
    for options in [
        SpaceOptions::default(),
        SpaceOptions {
            approximate: Allowed::FastMath,
            with: vec!["load_cache=cg".to_owned(), "assembler".to_owned()],
            without: vec!["block".to_owned()],
        },
    ] {
        let space = Space::of_kernel(&kernel(), &options).unwrap();
        let text = space.to_toml();
        let again = Space::from_toml(&text).unwrap();
        assert_eq!(again, space);
        assert_eq!(again.digest(), space.digest());
        assert_eq!(again.start_points(), space.start_points());
        let edited = text.replace("\"128x1x1\", ", "");
        assert_ne!(Space::from_toml(&edited).unwrap().digest(), space.digest());
    }
}

#[test]
fn mistakes_in_an_edited_space_are_named_with_their_line() {
    let text = space(&kernel()).to_toml();
    let line = |needle: &str| text.lines().position(|line| line.contains(needle)).unwrap() + 1;
    let cases = [
        ("\"max 64\"", "\"max lots\"", line("\"max 64\""), "max lots"),
        (
            "\"128x1x1\"",
            "\"128x1x1x1\"",
            line("\"128x1x1\""),
            "128x1x1x1",
        ),
        (
            "name = \"route\"",
            "name = \"rout\"",
            line("name = \"route\""),
            "rout",
        ),
        ("low = 300", "low = 30000", line("low = 300"), "30000"),
        (
            "[\"none\", \"scalars\"]",
            "[\"scalars\", \"none\"]",
            line("\"scalars\"]"),
            "`none`",
        ),
        (
            "[[parameter]]\nname = \"grid\"",
            "[[parameter]]\nnam = \"grid\"",
            line("name = \"grid\""),
            "nam",
        ),
        ("\"gvn\",", "\"gvm\",", 0, "gvm"),
    ];
    for (from, to, line, what) in cases {
        assert!(text.contains(from), "{from}");
        let error = Space::from_toml(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.message.contains(what), "{from}: {error}");
        if line > 0 {
            assert_eq!(error.line, line, "{from}: {error}");
        }
    }
    let none = text.replace(
        "when = { route = [\"lift\"] }",
        "when = { root = [\"lift\"] }",
    );
    let error = Space::from_toml(&none).unwrap_err();
    assert!(
        error.message.contains("there is no parameter `root`"),
        "{error}"
    );
}

#[test]
fn the_original_is_the_recorded_code() {
    let space = space(&kernel());
    assert_eq!(
        space.candidate(&space.original()).unwrap(),
        Candidate::default()
    );
    assert_eq!(space.start_points()[0], space.original());
    // Where the recorded code does not run, the original is the same code, compiled.
    let elsewhere = KernelDescription {
        recorded_runs: false,
        ..kernel()
    };
    let space = Space::of_kernel(&elsewhere, &SpaceOptions::default()).unwrap();
    let candidate = space.candidate(&space.original()).unwrap();
    assert_eq!(candidate.code, CandidateCode::Captured { from: None });
    assert_eq!(candidate.build, Candidate::default().build);
}

#[test]
fn a_point_becomes_what_its_values_say() {
    let space = space(&kernel());
    let point = point(
        &space,
        &[
            ("block", "128x1x1".into()),
            ("registers", "min-blocks 2".into()),
            ("constants", "scalars".into()),
            ("load_cache", "cs".into()),
            ("route", "lift".into()),
            ("passes", "O3".into()),
            ("unroll", "threshold".into()),
        ],
    );
    space.check(&point).unwrap();
    let candidate = space.candidate(&point).unwrap();
    assert_eq!(candidate.code, CandidateCode::Captured { from: None });
    assert_eq!(candidate.launch.block, Some([128, 1, 1]));
    assert_eq!(candidate.launch.grid, [GridRule::Cover; 3]);
    let build = candidate.build;
    assert_eq!(build.route, Route::Lift);
    assert_eq!(build.passes, "default<O3>");
    assert_eq!(build.unroll, Unroll::Free);
    assert_eq!(build.llvm_options, ["-unroll-threshold=2000"]);
    assert_eq!(build.specialise, ["scalars"]);
    assert_eq!(build.assembler_options, ["-dlcm=cs"]);
    // The least number of blocks means something only with the threads of one.
    assert_eq!(
        (build.bounds.maxntid, build.bounds.minnctapersm),
        (Some(128), Some(2))
    );
    assert_eq!(build.bounds.maxnreg, None);
}

#[test]
fn only_the_launch_changes_where_only_it_is_varied() {
    let space = space(&kernel());
    let candidate = space
        .candidate(&point(&space, &[("block", "64x1x1".into())]))
        .unwrap();
    assert_eq!(candidate.code, CandidateCode::Recorded);
    assert_eq!(candidate.build, Candidate::default().build);
}

#[test]
fn a_sequence_of_passes_becomes_a_pipeline_by_levels() {
    let space = space(&kernel());
    let passes = ["sroa", "gvn", "licm", "indvars", "always-inline"];
    let items = match &space.parameter("sequence").unwrap().domain {
        Domain::Sequence { items, .. } => items.clone(),
        other => panic!("{other:?}"),
    };
    let passes: Vec<String> = passes
        .iter()
        .filter(|pass| items.iter().any(|item| item == *pass))
        .map(|pass| (*pass).to_owned())
        .collect();
    let point = point(
        &space,
        &[
            ("route", "lift".into()),
            ("passes", "sequence".into()),
            ("sequence", Value::List(passes)),
        ],
    );
    let candidate = space.candidate(&point).unwrap();
    assert_eq!(
        candidate.build.passes,
        "function(sroa,gvn),function(loop-mssa(licm)),function(loop(indvars))"
    );
}

#[test]
fn more_threads_than_the_recorded_code_allows_need_it_compiled_for_them() {
    let limited = KernelDescription {
        max_threads: 640,
        ..kernel()
    };
    let space = space(&limited);
    let large = point(&space, &[("block", "1024x1x1".into())]);
    let candidate = space.candidate(&large).unwrap();
    assert_eq!(candidate.build.bounds.maxntid, Some(1024));
    assert_eq!(candidate.code, CandidateCode::Captured { from: None });
    let only_recorded = KernelDescription {
        compilable: false,
        forms: Vec::new(),
        ..limited
    };
    let space = Space::of_kernel(&only_recorded, &SpaceOptions::default()).unwrap();
    assert!(
        !values(&space, "block")
            .iter()
            .any(|block| block == "1024x1x1")
    );
    assert_eq!(varied(&space), ["block"]);
}

#[test]
fn a_kernel_whose_threads_work_together_keeps_its_block_unless_the_user_says_so() {
    type Change = fn(&mut Census);
    let changes: [(Change, &str); 5] = [
        (|census| census.barriers = 1, "barriers"),
        (|census| census.static_shared = 64, "shared memory"),
        (|census| census.warp_exchanges = 1, "exchange"),
        (|census| census.reads_block = [false; 3], "%ntid"),
        (|census| census.grid_wide = true, "blocks work together"),
    ];
    for (change, reason) in changes {
        let kernel = with_census(change);
        let space = space(&kernel);
        let block = space.parameter("block").unwrap();
        assert!(!block.varied && block.why.contains(reason), "{}", block.why);
        let other = point(&space, &[("block", "64x1x1".into())]);
        assert!(matches!(space.check(&other), Err(PointError::Value { .. })));
        let options = SpaceOptions {
            with: vec!["block".to_owned()],
            ..SpaceOptions::default()
        };
        let space = Space::of_kernel(&kernel, &options).unwrap();
        assert!(space.has(&other));
    }
    let unknown = KernelDescription {
        census: None,
        ..kernel()
    };
    assert!(!space(&unknown).parameter("block").unwrap().varied);
    assert!(space(&kernel()).parameter("block").unwrap().varied);
}

#[test]
fn a_grid_is_varied_only_where_threads_step_by_it() {
    assert!(!space(&kernel()).parameter("grid").unwrap().varied);
    let stepping = with_census(|census| census.reads_grid = [true, false, false]);
    let space = space(&stepping);
    assert!(space.parameter("grid").unwrap().varied);
    let point = point(&space, &[("grid", "blocks 264".into())]);
    let launch = space.candidate(&point).unwrap().launch;
    assert_eq!(
        launch.grid,
        [GridRule::Blocks(264), GridRule::Cover, GridRule::Cover]
    );
}

#[test]
fn what_was_a_waste_on_real_kernels_is_dropped_and_can_be_switched_on() {
    let plain = space(&kernel());
    for (name, value) in [
        ("load_cache", "cg"),
        ("load_cache", "cv"),
        ("constants", "geometry"),
        ("registers", "max 32"),
        ("registers", "threads"),
        ("passes", "Oz"),
        ("passes", "O1"),
        ("assembler", "-O0"),
    ] {
        assert!(
            !values(&plain, name).iter().any(|one| one == value),
            "{name} {value}"
        );
        let options = SpaceOptions {
            with: vec![format!("{name}={value}")],
            ..SpaceOptions::default()
        };
        let space = Space::of_kernel(&kernel(), &options).unwrap();
        assert!(
            values(&space, name).iter().any(|one| one == value),
            "{name} {value}"
        );
    }
    let wrong = |with: &str| {
        let options = SpaceOptions {
            with: vec![with.to_owned()],
            ..SpaceOptions::default()
        };
        Space::of_kernel(&kernel(), &options)
            .unwrap_err()
            .to_string()
    };
    assert!(wrong("blok").contains("block"));
    assert!(wrong("load_cache=xx").contains("cs"));
}

#[test]
fn a_low_register_cap_is_tried_where_nothing_would_spill() {
    let mut small = kernel();
    small.used = Some(Used {
        registers: 30,
        local: 0,
        shared: 0,
    });
    let space = space(&small);
    let registers = values(&space, "registers");
    assert!(registers.iter().any(|one| one == "max 32"));
    assert!(!registers.iter().any(|one| one == "max 24"));
}

#[test]
fn only_scalars_with_one_value_become_constants() {
    assert_eq!(values(&space(&kernel()), "constants"), ["none", "scalars"]);
    let mut changing = kernel();
    changing.params[2].constant = None;
    let space = space(&changing);
    assert!(!space.parameter("constants").unwrap().varied);
    let mut several = kernel();
    several.params[3].constant = Some(vec![1, 0, 0, 0]);
    let space = Space::of_kernel(&several, &SpaceOptions::default()).unwrap();
    assert_eq!(
        values(&space, "constants"),
        ["none", "scalars", "param 2", "param 3"]
    );
    let candidate = space.candidate(&point(&space, &[("constants", "param 3".into())]));
    assert_eq!(candidate.unwrap().build.specialise, ["param:3"]);
}

#[test]
fn inexact_arithmetic_is_tried_only_as_far_as_it_is_allowed() {
    let of = |approximate| {
        let options = SpaceOptions {
            approximate,
            ..SpaceOptions::default()
        };
        Space::of_kernel(&kernel(), &options).unwrap()
    };
    let exact = of(Allowed::Exact);
    assert!(!varied(&exact).contains(&"approximate") && !varied(&exact).contains(&"contraction"));
    assert_eq!(
        values(&of(Allowed::Division), "approximate"),
        ["exact", "division"]
    );
    assert_eq!(
        values(&of(Allowed::Flush), "approximate"),
        ["exact", "division", "division+flush"]
    );
    // The last step is for source, of which there is none here.
    assert_eq!(values(&of(Allowed::FastMath), "approximate").len(), 3);
}

#[test]
fn a_device_that_counts_has_no_registers_and_caches_to_vary() {
    let mut kernel = kernel();
    kernel.device.counts = true;
    let space = space(&kernel);
    for name in ["registers", "load_cache", "read_only", "carveout"] {
        assert!(!varied(&space).contains(&name), "{name}");
    }
    assert!(varied(&space).contains(&"block"));
}

#[test]
fn what_does_not_fit_on_a_multiprocessor_is_never_proposed() {
    let space = space(&kernel());
    // 1024 threads with 96 registers each are more than 65,536; four blocks of them more than 2048 threads.
    for bound in ["max 96", "max 128", "min-blocks 4"] {
        let point = point(
            &space,
            &[("block", "1024x1x1".into()), ("registers", bound.into())],
        );
        assert!(
            matches!(space.check(&point), Err(PointError::Never(_))),
            "{bound}"
        );
    }
    let fits = point(
        &space,
        &[("block", "1024x1x1".into()), ("registers", "max 64".into())],
    );
    space.check(&fits).unwrap();
    let mut random = Random::new(1);
    let mut at = space.original();
    for _ in 0..1000 {
        space.check(&space.draw(&mut random).unwrap()).unwrap();
        let near = space.neighbour(&at, &mut random).unwrap();
        space.check(&near).unwrap();
        assert_ne!(near, at);
        at = near;
    }
}

#[test]
fn a_parameter_is_there_exactly_where_it_means_something() {
    let space = space(&kernel());
    let text = space.original();
    assert_eq!(text.get("passes"), None);
    let lifted = point(&space, &[("route", "lift".into())]);
    assert_eq!(lifted.text("passes"), Some("sroa"));
    assert_eq!(lifted.get("unroll"), None);
    let mut wrong = lifted.clone();
    wrong.0.insert("unroll".to_owned(), "free".into());
    assert_eq!(
        space.check(&wrong),
        Err(PointError::Meaningless("unroll".to_owned()))
    );
    let back = space.with_original(&lifted, "route").unwrap();
    assert_eq!(back, text);
    assert_eq!(
        space.knobs(&lifted),
        [("route".to_owned(), "lift".to_owned())]
    );
    assert_eq!(space.with_original(&text, "route"), None);
}

#[test]
fn the_grid_has_every_point_of_a_small_space_once() {
    let options = SpaceOptions {
        without: ["passes", "unroll", "pointers", "read_only"]
            .map(str::to_owned)
            .to_vec(),
        ..SpaceOptions::default()
    };
    let space = Space::of_kernel(&kernel(), &options).unwrap();
    let mut all = BTreeSet::new();
    let mut at = None;
    while let Some(point) = space.after(at.as_ref()) {
        space.check(&point).unwrap();
        assert!(all.insert(point.clone()));
        at = Some(point);
    }
    // 6 blocks, 9 register settings, 2 constants, 2 cache operators, 2 routes; not 1024 threads with 3 of the settings.
    assert_eq!(all.len(), (6 * 9 - 3) * 2 * 2 * 2);
    assert_eq!(space.size(), Size::Exactly(all.len() as u64));
    let Size::About(large) = self::space(&kernel()).size() else {
        panic!("sequences of passes are more than can be counted");
    };
    assert!(large > 1e12);
}

#[test]
fn points_pass_through_json_as_they_are() {
    let space = space(&kernel());
    let mut random = Random::new(4);
    for _ in 0..200 {
        let point = space.draw(&mut random).unwrap();
        let text = serde_json::to_string(&point).unwrap();
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
        space.candidate(&point).unwrap();
    }
}
