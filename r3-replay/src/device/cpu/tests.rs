//! Launches on the CPU device, from archives made here.

use std::sync::{Arc, Mutex};

use r3_archive::Archive;
use r3_archive::model::{
    AllocationKind, ImageKind, LaunchAttribute, LaunchId, LaunchRecord, ModuleId, RegionOwner,
};
use r3_image::Image;

use super::{CpuDevice, CpuOptions};
use crate::compare::Tolerances;
use crate::device::BlockRange;
use crate::replay::{Attached, ReplayOptions, Replayer};
use crate::testing::{TestArchive, TestRegion};
use crate::trust::Caveat;
use crate::verify::{LaunchReport, Outcome, VerifyOptions, verify_launch};

const A: u64 = 0x7f12_3460_0000;
const B: u64 = 0x7f12_3480_0000;

/// A module with `kernel(u64)`: `%rd0` is the argument, `%r0` the index of the thread in the grid.
fn module(before: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{before}\n\
         .visible .entry kernel(.param .u64 kernel_param_0)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n\
         ld.param.u64 %rd0, [kernel_param_0];\n\
         mov.u32 %r6, %ctaid.x;\nmov.u32 %r7, %ntid.x;\nmov.u32 %r8, %tid.x;\n\
         mad.lo.s32 %r0, %r6, %r7, %r8;\n\
         {body}\nret;\n}}\n"
    )
}

/// Adds one to the word of each thread.
const INCREMENT: &str = "mad.wide.u32 %rd1, %r0, 4, %rd0;\n\
                         ld.global.u32 %r1, [%rd1];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%rd1], %r1;";

fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    words(values.iter().map(|value| value.to_bits()))
}

/// An archive of one launch whose only memory is behind its argument.
fn one(
    code: &str,
    before: Vec<u8>,
    after: Vec<u8>,
    change: impl FnOnce(&mut LaunchRecord),
) -> Archive {
    let mut archive = TestArchive::with_code(code.as_bytes(), ImageKind::Ptx);
    archive.allocation(1, A, before.len() as u64, AllocationKind::Device);
    archive.launch_with(&[TestRegion::memory(1, A, before, after)], change);
    archive.open()
}

fn threads(grid: u32, block: u32) -> impl FnOnce(&mut LaunchRecord) {
    move |launch| {
        launch.grid = [grid, 1, 1];
        launch.block = [block, 1, 1];
    }
}

/// Verifies all launches of an archive, with all that can be chosen.
struct Run<'t> {
    device: CpuOptions,
    replay: ReplayOptions,
    strict: bool,
    attached: Option<&'t str>,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Self {
            device: CpuOptions {
                threads: 1,
                instruction_limit: Some(1_000_000),
                ..CpuOptions::default()
            },
            replay: ReplayOptions::default(),
            strict: false,
            attached: None,
            printed: Arc::default(),
        }
    }
}

impl Run<'_> {
    fn blocks(text: &str) -> Self {
        Self {
            replay: ReplayOptions {
                blocks: Some(text.parse::<BlockRange>().unwrap()),
                ..ReplayOptions::default()
            },
            ..Self::default()
        }
    }

    fn verify(&self, archive: &Archive) -> Vec<LaunchReport> {
        let printed = Arc::clone(&self.printed);
        let print = move |text: &[u8]| printed.lock().unwrap().extend(text);
        let mut device = CpuDevice::new(self.device, Box::new(print));
        let mut replayer = Replayer::new(archive, &mut device, self.replay);
        if let Some(ptx) = self.attached {
            replayer.attach(Attached {
                name: "other.ptx".to_owned(),
                image: Image::parse(ptx.as_bytes()),
            });
        }
        let ids: Vec<LaunchId> = archive.launch_heads().iter().map(|l| l.id).collect();
        replayer.reserve(ids.iter().copied()).unwrap();
        let exact = Tolerances::exact();
        let options = VerifyOptions {
            strict: self.strict,
            ..VerifyOptions::exactly(&exact)
        };
        let reports = ids
            .iter()
            .map(|id| verify_launch(archive, &mut replayer, *id, options))
            .collect();
        replayer.clear().unwrap();
        reports
    }
}

fn verify(archive: &Archive) -> LaunchReport {
    Run::default().verify(archive).remove(0)
}

#[track_caller]
fn assert_outcome(report: &LaunchReport, outcome: Outcome) {
    assert_eq!(report.outcome, outcome, "{report:#?}");
}

#[test]
fn a_launch_that_does_the_same_again_verifies() {
    let code = module("", INCREMENT);
    let archive = one(&code, words(0..64), words(1..65), threads(2, 32));
    let report = verify(&archive);
    assert_outcome(&report, Outcome::Identical);
    assert_eq!(report.code.as_deref(), Some("PTX compute_90"));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let wrong = one(&code, words(0..64), words(0..64), threads(2, 32));
    assert_outcome(&verify(&wrong), Outcome::Mismatch);
}

#[test]
fn one_byte_behind_an_allocation_is_a_fault_and_the_next_launch_runs() {
    // 63 words for 64 threads, and a second launch with enough.
    let code = module("", INCREMENT);
    let mut archive = TestArchive::with_code(code.as_bytes(), ImageKind::Ptx);
    archive.allocation(1, A, 63 * 4, AllocationKind::Device);
    archive.allocation(2, B, 64 * 4, AllocationKind::Device);
    archive.launch_with(
        &[TestRegion::memory(1, A, words(0..63), words(1..64))],
        threads(2, 32),
    );
    archive.launch_with(
        &[TestRegion::memory(2, B, words(0..64), words(1..65))],
        threads(2, 32),
    );
    let reports = Run::default().verify(&archive.open());
    assert_outcome(&reports[0], Outcome::NotRun);
    insta::assert_snapshot!(reports[0].error.as_deref().unwrap());
    assert_outcome(&reports[1], Outcome::Identical);
}

#[test]
fn variables_lie_where_they_were_and_pointers_to_them_hold() {
    // The variable `v` is at B in the recording; memory holds its address.
    let code = module(
        ".visible .global .align 4 .u32 v = 5;\n",
        "ld.global.u64 %rd1, [%rd0];\nld.global.u32 %r1, [%rd1];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [v], %r1;",
    );
    let pointer = B.to_le_bytes().to_vec();
    let mut archive = TestArchive::with_code(code.as_bytes(), ImageKind::Ptx);
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, pointer.clone(), pointer),
        TestRegion {
            owner: RegionOwner::Global {
                module: ModuleId(1),
                name: "v".to_owned(),
            },
            address: B,
            before: words([41]),
            after: words([42]),
        },
    ]);
    let report = verify(&archive.open());
    assert_outcome(&report, Outcome::Identical);
    assert_eq!((report.rewritten.params, report.rewritten.memory), (0, 0));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn host_memory_and_neighbours_need_no_room_of_their_own() {
    // Allocations that touch, one of them on the host, at addresses that this process uses itself.
    let here = std::ptr::from_ref(&A) as u64 & !0xfff;
    let mut archive = TestArchive::with_code(module("", INCREMENT).as_bytes(), ImageKind::Ptx);
    archive.allocation(1, here, 128, AllocationKind::Host);
    archive.allocation(2, here + 128, 128, AllocationKind::Device);
    archive.launch_with(
        &[
            TestRegion::memory(1, here, words(0..32), words(1..33)),
            TestRegion::memory(2, here + 128, words(0..32), words(1..33)),
        ],
        threads(2, 32),
    );
    assert_outcome(&verify(&archive.open()), Outcome::Identical);
}

#[test]
fn a_sample_judges_what_its_blocks_wrote_and_claims_no_more() {
    let archive = one(
        &module("", INCREMENT),
        words(0..256),
        words(1..257),
        threads(8, 32),
    );
    let report = Run::blocks("2..4").verify(&archive).remove(0);
    assert_outcome(&report, Outcome::Sampled);
    let sample = report.sample.unwrap();
    assert_eq!((sample.blocks.to_string().as_str(), sample.of), ("2..4", 8));
    // Every word changes in its first byte, and one of 256 in its second.
    let changed = |from: u32, to: u32| {
        let pairs = words(from..to).into_iter().zip(words(from + 1..to + 1));
        pairs.filter(|(before, after)| before != after).count() as u64
    };
    assert_eq!(sample.written_bytes, changed(64, 128));
    assert_eq!(sample.untouched_bytes, changed(0, 64) + changed(128, 256));
    // All blocks are no sample.
    assert_outcome(&Run::blocks("0..").verify(&archive)[0], Outcome::Identical);
    let none = Run::blocks("8..").verify(&archive).remove(0);
    assert_eq!(
        none.error.as_deref(),
        Some("--blocks 8..18446744073709551615: the grid has 8 blocks, 0 to 7")
    );
}

#[test]
fn a_sample_finds_a_wrong_value_of_its_blocks_only() {
    let mut after: Vec<u32> = (1..257).collect();
    after[70] = 7;
    let archive = one(
        &module("", INCREMENT),
        words(0..256),
        words(after),
        threads(8, 32),
    );
    let wrong = Run::blocks("2").verify(&archive).remove(0);
    assert_outcome(&wrong, Outcome::Mismatch);
    assert_eq!(wrong.buffers[0].found.first[0].offset, 70 * 4);
    assert_outcome(&Run::blocks("3..5").verify(&archive)[0], Outcome::Sampled);
}

#[test]
fn a_sample_of_blocks_that_add_to_one_place_is_undecided() {
    let code = module("", "red.global.add.u32 [%rd0], 1;");
    let archive = one(&code, words([0]), words([64]), threads(2, 32));
    assert_outcome(&verify(&archive), Outcome::Identical);
    let report = Run::blocks("0").verify(&archive).remove(0);
    assert_outcome(&report, Outcome::Undecided);
    let error = report.error.unwrap();
    assert!(error.contains("red.global.add.u32 at line"), "{error}");
}

#[test]
fn a_sample_that_changes_nothing_is_vacuous() {
    let code = module(
        "",
        &format!("setp.eq.u32 %p0, %r6, 0;\n@%p0 ret;\n{INCREMENT}"),
    );
    let after = (0..32).chain(33..65);
    let archive = one(&code, words(0..64), words(after), threads(2, 32));
    let report = Run::blocks("0").verify(&archive).remove(0);
    assert_outcome(&report, Outcome::Sampled);
    assert!(report.caveats.contains(&Caveat::Vacuous));
}

/// `x` becomes 2^x.
const EXP2: &str =
    "ld.global.f32 %f0, [%rd0];\nex2.approx.ftz.f32 %f1, %f0;\nst.global.f32 [%rd0], %f1;";

#[test]
fn approximate_kernels_may_be_off_a_little_and_say_why() {
    let run = |recorded: f32, strict| {
        let archive = one(
            &module("", EXP2),
            floats(&[3.0]),
            floats(&[recorded]),
            |_| {},
        );
        let run = Run {
            strict,
            ..Run::default()
        };
        run.verify(&archive).remove(0)
    };
    assert_outcome(&run(8.0, false), Outcome::Identical);
    let near = f32::from_bits(8f32.to_bits() + 2);
    let within = run(near, false);
    assert_outcome(&within, Outcome::Within);
    assert_eq!(within.buffers[0].found.largest_ulp, Some(2));
    assert_eq!(
        within
            .inexact
            .iter()
            .map(|i| (i.what.as_str(), i.count))
            .collect::<Vec<_>>(),
        [("ex2.approx.ftz.f32", 1)]
    );
    assert_outcome(&run(near, true), Outcome::Mismatch);
    assert_outcome(&run(8.01, false), Outcome::Mismatch);
}

#[test]
fn exactly_rounded_kernels_are_compared_bit_for_bit() {
    let body = "ld.global.f32 %f0, [%rd0];\nmul.rn.f32 %f1, %f0, %f0;\nadd.rn.f32 %f1, %f1, %f0;\n\
                sqrt.rn.f32 %f1, %f1;\nst.global.f32 [%rd0], %f1;";
    let right = (3f32 * 3.0 + 3.0).sqrt();
    let report = |recorded: f32| {
        verify(&one(
            &module("", body),
            floats(&[3.0]),
            floats(&[recorded]),
            |_| {},
        ))
    };
    let same = report(right);
    assert_outcome(&same, Outcome::Identical);
    assert!(same.inexact.is_empty());
    assert_outcome(
        &report(f32::from_bits(right.to_bits() + 1)),
        Outcome::Mismatch,
    );
}

#[test]
fn a_product_and_a_sum_without_rounding_may_have_been_fused() {
    let body = "ld.global.f32 %f0, [%rd0];\nmul.f32 %f1, %f0, %f0;\nneg.f32 %f2, %f1;\nadd.f32 %f1, %f2, %f0;\n\
                st.global.f32 [%rd0], %f1;";
    let x = 1.000_061_f32;
    let fused = (-x).mul_add(x, x);
    assert_ne!(fused, x - x * x, "the two must differ here");
    // What is left after cancellation is small beside the values before it, so that it is off by more than any step
    // relative to itself: the largest value in the buffer is what counts.
    let report = verify(&one(
        &module("", body),
        floats(&[x, 1.0]),
        floats(&[fused, 1.0]),
        |_| {},
    ));
    assert_outcome(&report, Outcome::Within);
    assert_eq!(
        report.inexact[0].what,
        "mul and add.f32, which may be fused"
    );
}

#[test]
fn machine_code_alone_cannot_run_here_and_attached_ptx_stands_in() {
    let cubin = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../r3-image/tests/fixtures/saxpy-13.0-sm_90a.cubin"
    ))
    .unwrap();
    let mut archive = TestArchive::with_code(&cubin, ImageKind::Cubin);
    archive.allocation(1, A, 128, AllocationKind::Device);
    archive.launch_with(
        &[TestRegion::memory(1, A, words(0..32), words(1..33))],
        threads(1, 32),
    );
    let archive = archive.open();
    let report = verify(&archive);
    assert_outcome(&report, Outcome::CannotRun);
    assert!(report.error.unwrap().contains("--device cuda"));
    let code = module("", INCREMENT);
    let run = Run {
        attached: Some(&code),
        ..Run::default()
    };
    let report = run.verify(&archive).remove(0);
    assert_outcome(&report, Outcome::Identical);
    assert_eq!(
        report.notes,
        ["other.ptx runs instead of the recorded code"]
    );
}

#[test]
fn what_the_device_does_not_have_is_told_apart_from_what_fails() {
    let outcome = |body: &str| {
        let report = verify(&one(&module("", body), words([0]), words([1]), |_| {}));
        (report.outcome, report.error.unwrap_or_default())
    };
    let (failed, why) = outcome("trap;");
    assert_eq!(failed, Outcome::NotRun, "{why}");
    let (failed, why) = outcome("L: bra L;");
    assert_eq!(failed, Outcome::NotRun, "{why}");
    let (failed, why) = outcome("add.u32 %r1, %r2, %nothing;");
    assert_eq!(failed, Outcome::NotRun);
    assert!(why.contains("%nothing") && why.contains('^'), "{why}");
    let (cannot, why) =
        outcome("griddepcontrol.launch_dependents;\ntcgen05.fence::before_thread_sync;");
    assert_eq!(cannot, Outcome::CannotRun, "{why}");
}

#[test]
fn races_on_shared_memory_are_reported_when_asked_for() {
    let body = "mov.u32 %r1, s;\nand.b32 %r2, %r0, 31;\nmad.lo.u32 %r3, %r8, 4, %r1;\nst.shared.u32 [%r3], %r8;\n\
                xor.b32 %r4, %r8, 32;\nmad.lo.u32 %r4, %r4, 4, %r1;\nld.shared.u32 %r5, [%r4];\n\
                mad.wide.u32 %rd1, %r8, 4, %rd0;\nst.global.u32 [%rd1], %r8;";
    let code = module(".shared .align 4 .b8 s[256];", body);
    let archive = one(&code, words([0; 64]), words(0..64), threads(1, 64));
    assert!(verify(&archive).races.is_empty());
    let mut run = Run::default();
    run.device.racecheck = true;
    let report = run.verify(&archive).remove(0);
    assert_outcome(&report, Outcome::Identical);
    assert!(!report.races.is_empty());
    assert!(report.races[0].starts_with("race on shared memory at offset "));
}

#[test]
fn what_kernels_print_is_handed_on() {
    let body = "{\n.param .b64 p0;\n.param .b64 p1;\n.param .b32 r;\n\
                cvta.global.u64 %rd1, text;\nst.param.b64 [p0], %rd1;\nmov.u64 %rd2, 0;\nst.param.b64 [p1], %rd2;\n\
                call.uni (r), vprintf, (p0, p1);\n}\nst.global.u32 [%rd0], 1;";
    let before = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
                  .global .align 1 .b8 text[4] = {104, 105, 10, 0};";
    let archive = one(&module(before, body), words([0]), words([1]), |_| {});
    let run = Run::default();
    assert_outcome(&run.verify(&archive)[0], Outcome::Identical);
    assert_eq!(*run.printed.lock().unwrap(), b"hi\n");
}

#[test]
fn clusters_come_from_the_attribute_of_the_launch() {
    let code = module(
        "",
        "mov.u32 %r1, %cluster_nctarank;\nmad.wide.u32 %rd1, %r0, 4, %rd0;\nst.global.u32 [%rd1], %r1;",
    );
    let mut value = words([2, 1, 1]);
    value.resize(64, 0);
    let archive = one(&code, words([0; 4]), words([2; 4]), |launch| {
        threads(4, 1)(launch);
        launch.attributes = vec![LaunchAttribute { id: 4, value }];
    });
    assert_outcome(&verify(&archive), Outcome::Identical);
}

#[test]
fn too_much_shared_memory_is_refused_before_the_launch() {
    let archive = one(&module("", INCREMENT), words([0]), words([1]), |launch| {
        launch.dynamic_shared = 300 << 10;
    });
    let report = verify(&archive);
    assert_outcome(&report, Outcome::CannotRun);
    assert!(report.error.unwrap().contains("307200 bytes"));
}

#[test]
fn each_fault_says_what_went_wrong_and_where() {
    let functions = ".extern .func missing();\n\
        .extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);\n\
        .global .align 1 .b8 text[6] = {105, 32, 60, 32, 110, 0};\n\
        .global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};\n\
        .func deeper() { .local .b8 room[512]; .reg .b32 %v; st.local.u32 [room], %v; call deeper; ret; }";
    let cases = [
        (
            "misaligned",
            "add.u64 %rd1, %rd0, 2;\nld.global.u32 %r1, [%rd1];",
        ),
        ("null", "mov.u64 %rd1, 0;\nst.global.u32 [%rd1+8], %r1;"),
        (
            "freed",
            "add.u64 %rd1, %rd0, 0x200000;\nld.global.v2.u32 {%r1, %r2}, [%rd1];",
        ),
        (
            "shared",
            ".shared .b8 s[16];\nmad.lo.u32 %r1, %r8, 4, 0;\nld.shared.u32 %r2, [%r1];",
        ),
        ("stack", "call deeper;"),
        ("trap", "setp.eq.u32 %p1, %r0, 33;\n@%p1 trap;"),
        (
            "assert",
            "setp.ne.u32 %p1, %r0, 40;\n@%p1 bra FINE;\n{\n\
             .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n\
             cvta.global.u64 %rd1, text;\nst.param.b64 [m], %rd1;\ncvta.global.u64 %rd1, file;\nst.param.b64 [f], %rd1;\n\
             st.param.b32 [l], 12;\nst.param.b64 [n], %rd1;\nst.param.b64 [s], 1;\n\
             call __assertfail, (m, f, l, n, s);\n}\nFINE:",
        ),
        ("unsupported", "tcgen05.fence::before_thread_sync;"),
        ("missing function", "call missing;"),
        (
            "barrier",
            "setp.lt.u32 %p1, %r8, 8;\n@%p1 bar.sync 1, 64;\n@!%p1 bar.sync 2;",
        ),
        (
            "mbarrier",
            ".shared .align 8 .b64 bar;\nmbarrier.init.shared.b64 [bar], 99;\n\
             W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;\n@!%p1 bra W;",
        ),
    ];
    let text: Vec<String> = cases
        .iter()
        .map(|(name, body)| {
            let code = module(functions, body).replace(".version 8.0", ".version 8.6");
            let code = code.replace(
                "sm_90",
                if *name == "unsupported" {
                    "sm_100a"
                } else {
                    "sm_90"
                },
            );
            let mut run = Run::default();
            run.device.compute_capability = if *name == "unsupported" {
                (10, 0)
            } else {
                (9, 0)
            };
            let report = run.verify(&one(&code, words([0; 64]), words([1; 64]), threads(2, 32)));
            format!(
                "{name}: {}",
                report[0].error.as_deref().unwrap_or("no error")
            )
        })
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn a_variable_bigger_than_the_host_is_refused() {
    let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| {}));
    let code = module(".global .b8 x[4611686018427387904];", "mov.u64 %rd1, x;");
    let error = crate::device::Device::load(&mut device, code.as_bytes(), &[], &[]).unwrap_err();
    assert!(
        error.to_string().contains("are left on this device"),
        "{error}"
    );
}
