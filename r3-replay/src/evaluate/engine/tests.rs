//! Candidates in PTX for recorded launches, on the CPU device.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchId};
use r3_codegen::recipe::Guard;

use super::run::{Engine, EngineOptions};
use super::{Image, Prepared, Task, TaskResult, Watch};
use crate::code::Form;
use crate::device::Device;
use crate::device::cpu::{CpuDevice, CpuOptions};
use crate::evaluate::candidate::{GridRule, LaunchChange, SharedRule};
use crate::evaluate::outcome::{LaunchOutcome, Role, Unit, Verdict};
use crate::evaluate::plan::{Plan, Weighted};

mod timed;

/// Keeps what it was told.
#[derive(Default)]
struct Diary(RefCell<Vec<(Duration, String)>>);

impl Watch for Diary {
    fn within(&self, limit: Duration, what: &str) {
        self.0.borrow_mut().push((limit, what.to_owned()));
    }

    fn idle(&self) {}
}

/// A recorded archive with one kernel, and the PTX in it.
struct Sample {
    archive: Archive,
    kernel: KernelId,
    name: String,
    ptx: String,
}

impl Sample {
    fn open(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives");
        let archive = Archive::open(Path::new(folder).join(format!("{name}.r3"))).unwrap();
        let head = &archive.launch_heads()[0];
        let kernel = archive.kernel(head.kernel).unwrap();
        let module = archive.module(kernel.module.unwrap()).unwrap();
        let image = r3_image::Image::from_vec(archive.read_blob(&module.image).unwrap());
        let entries = image.entries().iter();
        let ptx = entries
            .filter(|entry| entry.form == r3_image::CodeForm::Ptx)
            .map(|entry| String::from_utf8(entry.payload().unwrap().into_owned()).unwrap())
            .next()
            .unwrap();
        Self {
            kernel: kernel.id,
            name: kernel.name.clone(),
            ptx: ptx.trim_end_matches('\0').to_owned(),
            archive,
        }
    }

    /// The recorded PTX with some text in place of other text, which must be there.
    fn with(&self, changes: &[(&str, &str)]) -> Task {
        let mut text = self.ptx.clone();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        Task {
            code: Some(Image {
                name: self.name.clone(),
                bytes: text.into_bytes(),
                form: Form::Ptx(90),
            }),
            ..self.original()
        }
    }

    /// The recorded code, on the first launch.
    fn original(&self) -> Task {
        Task {
            kernel: self.kernel,
            code: None,
            change: LaunchChange::default(),
            guards: Vec::new(),
            plan: Plan {
                launches: vec![tuned(1)],
                ..Plan::default()
            },
            idle: Vec::new(),
        }
    }

    /// What comes of some tasks, one after the other in one engine.
    fn evaluate(&self, tasks: &[Task], seed: u64) -> Vec<TaskResult> {
        let mut device = device();
        let options = EngineOptions {
            seed: Some(seed),
            ..EngineOptions::default()
        };
        let mut engine = Engine::new(&self.archive, &mut device, options);
        tasks
            .iter()
            .map(|task| engine.evaluate(task, &Diary::default()).unwrap())
            .collect()
    }

    fn one(&self, task: Task) -> TaskResult {
        self.evaluate(&[task], 1).remove(0)
    }

    fn prepare(&self, launches: &[u64]) -> Vec<Prepared> {
        let mut device = device();
        let mut engine = Engine::new(&self.archive, &mut device, EngineOptions::default());
        let launches: Vec<LaunchId> = launches.iter().copied().map(LaunchId).collect();
        engine
            .prepare(self.kernel, &launches, &Diary::default())
            .unwrap()
    }
}

fn device() -> impl Device {
    let options = CpuOptions {
        instruction_limit: Some(2_000_000),
        ..CpuOptions::default()
    };
    CpuDevice::new(options, Box::new(|_| {}))
}

fn tuned(launch: u64) -> Weighted {
    Weighted {
        launch: LaunchId(launch),
        weight: 1.0,
    }
}

fn block(threads: u32) -> LaunchChange {
    LaunchChange {
        block: Some([threads, 1, 1]),
        ..LaunchChange::default()
    }
}

/// The end of a condition in `saxpy`, behind which its threads with an element go on.
const INSIDE: &str = "cvta.to.global.u64 %rd3, %rd2;";

#[test]
fn a_launch_is_made_ready_with_what_it_writes_and_what_it_costs() {
    let saxpy = Sample::open("saxpy");
    let prepared = saxpy.prepare(&[1, 2]);
    for launch in &prepared {
        assert_eq!(launch.unusable, None);
        assert!(launch.deterministic && launch.original > 0.0, "{launch:?}");
        // A device that counts has no noise.
        assert_eq!(launch.noise, 0.0);
    }
    let reverse = Sample::open("vmm").prepare(&[1]);
    assert_eq!(reverse[0].unusable, None);
    assert!(reverse[0].written > 0);
    // Launches that are not there, or are another kernel's, are no reason to stop.
    let absent = saxpy.prepare(&[77]);
    assert!(absent[0].unusable.is_some());
}

#[test]
fn the_original_is_right_and_as_fast_as_itself() {
    let saxpy = Sample::open("saxpy");
    let of_all = Task {
        plan: Plan {
            launches: vec![tuned(1), tuned(2)],
            held_out: vec![LaunchId(3)],
            ..Plan::default()
        },
        ..saxpy.with(&[])
    };
    for result in saxpy.evaluate(&[saxpy.original(), of_all], 1) {
        assert_eq!((result.verdict, &result.reason), (Verdict::Right, &None));
        let score = result.score.unwrap();
        let ratio = score.ratio;
        assert_eq!(
            (ratio.median, ratio.low, ratio.high, ratio.confidence),
            (1.0, 1.0, 1.0, 1.0)
        );
        assert!(!score.is_faster() && !score.dropped);
        assert!(result.image != 0 && result.runs > 0);
        for launch in &result.launches {
            let times = usize::from(launch.role == Role::Tuned);
            assert_eq!(
                (launch.verdict, launch.times.len()),
                (Verdict::Right, times)
            );
            assert!(launch.times.iter().all(|timing| timing.unit == Unit::Cost));
        }
    }
}

#[test]
fn another_block_covers_the_same_threads() {
    let reverse = Sample::open("vmm");
    let shapes: Vec<Task> = [32, 256, 1024]
        .into_iter()
        .map(|threads| Task {
            change: block(threads),
            ..reverse.original()
        })
        .collect();
    for result in reverse.evaluate(&shapes, 1) {
        assert_eq!((result.verdict, result.reason), (Verdict::Right, None));
    }
    // Half of the threads leave half of the elements.
    let half = Task {
        change: LaunchChange {
            grid: [GridRule::Scale(1, 2), GridRule::Same, GridRule::Same],
            ..LaunchChange::default()
        },
        ..reverse.original()
    };
    assert_eq!(reverse.one(half).verdict, Verdict::Wrong);
}

#[test]
fn less_work_has_a_lower_ratio() {
    let reverse = Sample::open("vmm");
    // An instruction more before the end of each thread that is counted.
    let more = reverse.with(&[(
        "not.b32 %r6, %r1;",
        "not.b32 %r6, %r1;\nnot.b32 %r6, %r6;\nnot.b32 %r6, %r6;",
    )]);
    let result = reverse.one(more);
    let score = result.score.unwrap();
    assert_eq!(result.verdict, Verdict::Right);
    assert!(score.ratio.median > 1.0 && score.ratio.low == score.ratio.high);
    let timing = &result.launches[0].times[0];
    assert_eq!(timing.ratio.median, timing.candidate / timing.original);
    assert_eq!(timing.samples.len(), 1);
}

#[test]
fn wrong_partial_and_idle_candidates_are_wrong_and_say_where() {
    let saxpy = Sample::open("saxpy");
    let wrong = saxpy.with(&[("add.f32 %f6, %f4, %f5;", "sub.f32 %f6, %f4, %f5;")]);
    let partial = saxpy.with(&[(
        INSIDE,
        "setp.eq.s32 %p1, %r1, 5000;\n@%p1 bra $L__BB0_2;\ncvta.to.global.u64 %rd3, %rd2;",
    )]);
    let no_count = saxpy.with(&[("atom.global.add.u32 %r8, [%rd15], 1;", "")]);
    let idle = saxpy.with(&[(
        "mov.u32 %r4, %ctaid.x;",
        "bra $L__BB0_2;\nmov.u32 %r4, %ctaid.x;",
    )]);
    let right = saxpy.with(&[]);
    let results = saxpy.evaluate(&[wrong, partial, no_count, idle, right], 1);
    for result in &results[..4] {
        assert_eq!(result.verdict, Verdict::Wrong);
        assert_eq!(result.score, None);
        let reason = result.reason.as_deref().unwrap();
        assert!(reason.starts_with("launch 1: "), "{reason}");
    }
    let worst = results[1].launches[0].worst.clone().unwrap();
    assert_eq!(
        (worst.buffer.as_str(), worst.offset, worst.out),
        ("arg3", 20_000, 2),
        "{worst:?}"
    );
    assert_eq!(
        results[4].verdict,
        Verdict::Right,
        "what came before leaves nothing"
    );
}

#[test]
fn what_is_right_on_the_tuned_launch_alone_fails_on_the_held_out_one() {
    let saxpy = Sample::open("saxpy");
    // The coefficient of the first launch, as a constant.
    let fitted = saxpy.with(&[("ld.const.f32 %f2, [%rd6];", "mov.f32 %f2, 0f3F000000;")]);
    let held = Task {
        plan: Plan {
            held_out: vec![LaunchId(2)],
            ..fitted.plan.clone()
        },
        ..fitted.clone()
    };
    let [alone, held] = saxpy.evaluate(&[fitted, held], 1).try_into().unwrap();
    assert_eq!(alone.verdict, Verdict::Right);
    assert_eq!(held.verdict, Verdict::Wrong);
    assert!(held.reason.unwrap().contains("held out"));
    let roles: Vec<_> = held
        .launches
        .iter()
        .map(|launch| (launch.role, launch.verdict))
        .collect();
    assert_eq!(
        roles,
        [
            (Role::Tuned, Verdict::Right),
            (Role::HeldOut, Verdict::Wrong)
        ]
    );
}

#[test]
fn what_is_right_on_the_recorded_numbers_alone_fails_on_other_ones() {
    let saxpy = Sample::open("saxpy");
    // All inputs are multiples of 1/64: rounding to those changes nothing that was recorded.
    let rounding = saxpy.with(&[(
        "ld.const.f32 %f2, [%rd6];",
        "ld.const.f32 %f2, [%rd6];\nmul.f32 %f1, %f1, 0f42800000;\ncvt.rni.f32.f32 %f1, %f1;\nmul.f32 %f1, %f1, 0f3C800000;",
    )]);
    let perturbed = |task: &Task| Task {
        plan: Plan {
            perturbed: 3,
            ..task.plan.clone()
        },
        ..task.clone()
    };
    let tasks = [perturbed(&saxpy.with(&[])), perturbed(&rounding), rounding];
    let [original, found, unseen] = saxpy.evaluate(&tasks, 1).try_into().unwrap();
    assert_eq!((original.verdict, original.reason), (Verdict::Right, None));
    assert!(
        original
            .notes
            .iter()
            .any(|note| note.contains("3 of 3 perturbed")),
        "{:?}",
        original.notes
    );
    assert_eq!(found.verdict, Verdict::Wrong);
    let last = found.launches.last().unwrap();
    assert_eq!((last.role, last.verdict), (Role::Perturbed, Verdict::Wrong));
    assert_eq!(unseen.verdict, Verdict::Right);
}

#[test]
fn indices_are_not_perturbed() {
    let chase = Sample::open("vmm");
    let task = Task {
        plan: Plan {
            perturbed: 2,
            ..chase.original().plan
        },
        ..chase.original()
    };
    let result = chase.one(task);
    assert_eq!(result.verdict, Verdict::Right);
    assert!(
        result
            .notes
            .iter()
            .any(|note| note.contains("no inputs could be perturbed")),
        "{:?}",
        result.notes
    );
}

#[test]
fn a_write_beyond_a_buffer_is_seen() {
    let saxpy = Sample::open("saxpy");
    // Thread 0 also writes right behind the 10,000 elements of y.
    let beyond = saxpy.with(&[(
        "add.s64 %rd10, %rd3, %rd8;",
        "setp.eq.s32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd3+40000], %r1;\nadd.s64 %rd10, %rd3, %rd8;",
    )]);
    let result = saxpy.one(beyond);
    // This device has nothing behind a buffer.
    assert_eq!(result.verdict, Verdict::Fault, "{:?}", result.reason);
    assert!(result.reason.unwrap().contains("behind"));
}

#[test]
fn a_write_to_an_input_is_wrong() {
    let saxpy = Sample::open("saxpy");
    let input = saxpy.with(&[(
        "add.s64 %rd10, %rd3, %rd8;",
        "st.global.u32 [%rd9], 0;\nadd.s64 %rd10, %rd3, %rd8;",
    )]);
    let result = saxpy.one(input);
    assert_eq!(result.verdict, Verdict::Wrong, "{:?}", result.reason);
    assert!(result.reason.unwrap().contains("arg2"));
}

#[test]
fn memory_of_its_own_is_a_cheat() {
    let saxpy = Sample::open("saxpy");
    let counting = |variable: &str| {
        saxpy.with(&[
            (".global .align 4 .u32 elements_done;", &format!(".global .align 4 .u32 elements_done;\n{variable}")),
            ("mov.u64 %rd15, elements_done;", "mov.u64 %rd15, seen;\natom.global.add.u32 %r8, [%rd15], 1;\nmov.u64 %rd15, elements_done;"),
        ])
    };
    let own = counting(".visible .global .align 4 .u32 seen;");
    let table = counting(".visible .global .align 4 .u32 seen = 7;");
    let constant = saxpy.with(&[(
        ".global .align 4 .u32 elements_done;",
        ".global .align 4 .u32 elements_done;\n.visible .global .align 4 .u32 table[2] = {7, 9};",
    )]);
    let [own, table, constant] = saxpy
        .evaluate(&[own, table, constant], 1)
        .try_into()
        .unwrap();
    assert_eq!(own.verdict, Verdict::Cheat);
    assert!(own.reason.unwrap().contains("outlives a launch"));
    assert_eq!(table.verdict, Verdict::Cheat);
    assert!(table.reason.unwrap().contains("wrote to seen"));
    assert_eq!((constant.verdict, constant.reason), (Verdict::Right, None));
}

#[test]
fn what_depends_on_memory_that_is_overwritten_is_found() {
    let reverse = Sample::open("vmm");
    // Wrong wherever the poison is odd: at once.
    let everywhere = reverse.with(&[(
        "st.global.u32 [%rd8], %r9;",
        "ld.global.u32 %r2, [%rd8];\nand.b32 %r2, %r2, 1;\nadd.s32 %r9, %r9, %r2;\nst.global.u32 [%rd8], %r9;",
    )]);
    assert_eq!(reverse.one(everywhere).verdict, Verdict::Wrong);
    // By one bit of one element: right under half of all poisons.
    let by_a_bit = reverse.with(&[(
        "st.global.u32 [%rd8], %r9;",
        "ld.global.u32 %r2, [%rd8];\nand.b32 %r2, %r2, 1;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 mov.u32 %r2, 0;\n\
         add.s32 %r9, %r9, %r2;\nst.global.u32 [%rd8], %r9;",
    )]);
    let mut verdicts = Vec::new();
    for result in reverse.evaluate(&vec![by_a_bit; 12], 1) {
        if result.verdict == Verdict::Cheat {
            assert!(result.reason.unwrap().contains("never wrote"));
        }
        verdicts.push(result.verdict);
    }
    assert!(
        verdicts.contains(&Verdict::Cheat) && verdicts.contains(&Verdict::Wrong),
        "{verdicts:?}"
    );
    // Three runs are judged: one in eight gets through, and not one more.
    assert!(
        verdicts.iter().filter(|verdict| verdict.is_right()).count() <= 3,
        "{verdicts:?}"
    );
}

#[test]
fn what_cannot_be_launched_is_refused_before_it_is() {
    let saxpy = Sample::open("saxpy");
    let bounded = saxpy.with(&[("_param_3\n)\n{", "_param_3\n)\n.maxntid 128, 1, 1\n{")]);
    let tasks = [
        Task {
            change: block(2048),
            ..saxpy.original()
        },
        Task {
            change: block(256),
            ..bounded.clone()
        },
        Task {
            change: LaunchChange {
                shared: SharedRule::Bytes(1 << 20),
                ..LaunchChange::default()
            },
            ..saxpy.original()
        },
        bounded,
    ];
    let results = saxpy.evaluate(&tasks, 1);
    for result in &results[..2] {
        assert_eq!(result.verdict, Verdict::Refused, "{:?}", result.reason);
        assert!(result.reason.as_deref().unwrap().contains("threads"));
    }
    assert!(
        matches!(results[2].verdict, Verdict::Refused | Verdict::CannotRun),
        "{:?}",
        results[2]
    );
    assert_eq!(results[3].verdict, Verdict::Right);
}

#[test]
fn faults_hangs_and_code_that_is_none_are_told_and_the_next_candidate_is_right() {
    let saxpy = Sample::open("saxpy");
    let fault = saxpy.with(&[("add.s64 %rd10, %rd3, %rd8;", "add.s64 %rd10, %rd8, 64;")]);
    let hang = saxpy.with(&[(
        "mov.u32 %r4, %ctaid.x;",
        "again:\nmov.u32 %r4, %ctaid.x;\nbra again;",
    )]);
    let mut none = saxpy.with(&[]);
    none.code.as_mut().unwrap().bytes = b"this is no PTX".to_vec();
    let mut nameless = saxpy.with(&[]);
    nameless.code.as_mut().unwrap().name = "another".to_owned();
    let right = saxpy.with(&[]);
    let tasks = [
        fault,
        right.clone(),
        hang,
        right.clone(),
        none,
        nameless,
        right,
    ];
    let verdicts: Vec<Verdict> = saxpy
        .evaluate(&tasks, 1)
        .iter()
        .map(|result| result.verdict)
        .collect();
    use Verdict::{CannotRun, Fault, Refused, Right, Timeout};
    assert_eq!(
        verdicts,
        [Fault, Right, Timeout, Right, CannotRun, Refused, Right]
    );
}

#[test]
fn launches_that_guards_exclude_are_left_out() {
    let saxpy = Sample::open("saxpy");
    // The second parameter says which coefficient; it is the launch's number, from 0.
    let which = |which: u8| Guard::Param {
        index: 1,
        offset: 0,
        bytes: vec![which, 0, 0, 0],
    };
    let task = |guards: Vec<Guard>| Task {
        guards,
        plan: Plan {
            launches: vec![tuned(1), tuned(2)],
            ..Plan::default()
        },
        ..saxpy.with(&[])
    };
    let blocks = Task {
        change: block(64),
        ..task(vec![Guard::Block([64, 1, 1])])
    };
    let tasks = [task(vec![which(0)]), task(vec![which(9)]), blocks];
    let [first, none, blocks] = saxpy.evaluate(&tasks, 1).try_into().unwrap();
    assert_eq!(first.verdict, Verdict::Right);
    let verdict = |launch: &LaunchOutcome| (launch.launch.0, launch.verdict);
    let mut verdicts: Vec<_> = first.launches.iter().map(verdict).collect();
    verdicts.sort_unstable();
    assert_eq!(verdicts, [(1, Verdict::Right), (2, Verdict::Guarded)]);
    assert_eq!((none.verdict, none.score), (Verdict::Guarded, None));
    assert_eq!(
        blocks.verdict,
        Verdict::Right,
        "guards are about the launch as it is done"
    );
}

#[test]
fn each_run_has_a_limit_and_says_whose_it_is() {
    let saxpy = Sample::open("saxpy");
    let mut device = device();
    let mut engine = Engine::new(&saxpy.archive, &mut device, EngineOptions::default());
    let diary = Diary::default();
    engine
        .prepare(saxpy.kernel, &[LaunchId(1)], &diary)
        .unwrap();
    diary.0.borrow_mut().clear();
    let result = engine.evaluate(&saxpy.with(&[]), &diary).unwrap();
    let diary = diary.0.into_inner();
    let of = |who: &str| {
        diary
            .iter()
            .filter(|(_, what)| what.starts_with(who))
            .count()
    };
    // Judged twice, and timed with the original once.
    assert_eq!(
        (
            of("the candidate on launch 1"),
            of("the original on launch 1")
        ),
        (3, 1),
        "{diary:?}"
    );
    assert_eq!(result.runs, 4);
    assert!(
        diary
            .iter()
            .all(|(limit, _)| *limit >= Duration::from_secs(4))
    );
}

#[test]
fn without_times_a_candidate_is_only_judged() {
    let saxpy = Sample::open("saxpy");
    let task = Task {
        plan: Plan {
            launches: vec![tuned(1)],
            ..Plan::judge_only()
        },
        ..saxpy.with(&[])
    };
    let result = saxpy.one(task);
    assert_eq!(
        (result.verdict, result.score, result.runs),
        (Verdict::Right, None, 2)
    );
}

#[test]
fn held_out_launches_are_timed_when_that_is_wanted_and_do_not_count() {
    let saxpy = Sample::open("saxpy");
    let mut task = saxpy.with(&[]);
    task.plan.held_out = vec![LaunchId(2)];
    task.plan.time_held_out = true;
    task.plan.perturbed = 2;
    let result = saxpy.one(task);
    assert_eq!((result.verdict, result.reason), (Verdict::Right, None));
    let times = |role| {
        let mut of = result
            .launches
            .iter()
            .filter(move |launch| launch.role == role);
        of.next().map(|launch| launch.times.len())
    };
    assert_eq!(
        (times(Role::Tuned), times(Role::HeldOut)),
        (Some(1), Some(1))
    );
    assert!(
        result
            .launches
            .iter()
            .all(|launch| launch.role != Role::Perturbed || launch.launch == LaunchId(1))
    );
    assert_eq!(result.score.unwrap().ratio.median, 1.0);
}

#[test]
fn two_engines_one_after_the_other_share_a_device() {
    let saxpy = Sample::open("saxpy");
    let reverse = Sample::open("vmm");
    let mut device = device();
    for sample in [&saxpy, &reverse, &saxpy] {
        let mut engine = Engine::new(&sample.archive, &mut device, EngineOptions::default());
        let result = engine
            .evaluate(&sample.original(), &Diary::default())
            .unwrap();
        assert_eq!((result.verdict, result.reason), (Verdict::Right, None));
    }
}
