//! Recipes to products: PTX, clang's and Triton's IR; failures; the same bytes every time.

use std::path::Path;
use std::process::Command;

use r3_codegen::compile::{compile, compile_reporting};
use r3_codegen::passes;
use r3_codegen::recipe::{
    Bounds, Code, Contraction, Emit, Failure, FailureKind, Guard, Pipeline, Preset, Recipe,
    Specialisation, Stage, Unroll,
};

/// A recipe that changes nothing.
fn recipe(code: Code) -> Recipe {
    Recipe::new(code)
}

/// Two kernels of clang, after `sroa`.
const CLANG: &str = include_str!("fixtures/passes.ll");

/// A kernel of Triton 3.9, whose LLVM is newer than ours.
const TRITON: &str = include_str!("fixtures/scale_rows.llir");

const PTX: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .f32 f)
.maxntid 256, 1, 1
{
  .reg .pred %q;
  .reg .b32 %r<6>;
  .reg .f32 %f<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [f];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, 0;
  mov.f32 %f3, %f1;
$loop:
  mul.f32 %f2, %f3, %f1;
  add.f32 %f3, %f2, %f1;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %q, %r3, %r1;
  @%q bra $loop;
  cvt.rn.f32.u32 %f4, %r2;
  mul.rn.f32 %f3, %f3, %f4;
  st.global.f32 [%rd1], %f3;
  ret;
}
.visible .entry other() { ret; }
";

/// PTX that this project's parser and checker take.
fn well_formed(ptx: &str) {
    let tree = r3_ptx::parse(ptx).unwrap_or_else(|errors| panic!("{}", errors.render(ptx)));
    r3_ptx::check(&tree).unwrap_or_else(|errors| panic!("{}", errors.render(ptx)));
}

fn failed(recipe: &Recipe) -> Failure {
    match compile(recipe) {
        Ok(product) => panic!("{}", product.ptx),
        Err(failure) => failure,
    }
}

#[test]
fn ptx_goes_through_every_preset() {
    for preset in [
        Preset::O0,
        Preset::O1,
        Preset::O2,
        Preset::O3,
        Preset::Os,
        Preset::Oz,
    ] {
        let product = compile(&Recipe {
            pipeline: Pipeline::Preset(preset),
            ..recipe(Code::Ptx(PTX.to_owned()))
        })
        .expect("compiled");
        well_formed(&product.ptx);
        assert!(product.ptx.contains(".target sm_80"), "{}", product.ptx);
        assert!(product.ptx.contains(".maxntid"), "{}", product.ptx);
        assert!(product.ptx.contains(".entry other"), "{}", product.ptx);
        assert!(product.guards.is_empty());
        // What may be fused stays so, what is rounded too.
        assert!(product.ptx.contains("mul.f32"), "{}", product.ptx);
        assert!(product.ptx.contains("mul.rn.f32"), "{}", product.ptx);
        assert!(!product.ptx.contains("fma"), "{}", product.ptx);
    }
}

#[test]
fn llvm_fuses_only_if_it_may() {
    let product = compile(&Recipe {
        pipeline: Pipeline::Preset(Preset::O2),
        contraction: Contraction::Llvm,
        ..recipe(Code::Ptx(PTX.to_owned()))
    })
    .expect("compiled");
    assert!(product.ptx.contains("fma.rn.f32"), "{}", product.ptx);
}

#[test]
fn facts_about_a_launch_are_used_and_guarded() {
    let product = compile(&Recipe {
        kernel: Some("k".to_owned()),
        pipeline: Pipeline::Preset(Preset::O3),
        specialisation: Specialisation {
            params: vec![(1, 0, 3u32.to_le_bytes().to_vec())],
            block: Some([128, 1, 1]),
            align: vec![(0, 16)],
            ..Specialisation::default()
        },
        bounds: Bounds {
            maxntid: Some(128),
            ..Bounds::default()
        },
        ..recipe(Code::Ptx(PTX.to_owned()))
    })
    .expect("compiled");
    well_formed(&product.ptx);
    assert!(!product.ptx.contains("bra"), "{}", product.ptx);
    assert!(!product.ptx.contains("%ntid"), "{}", product.ptx);
    assert!(!product.ptx.contains("other"), "{}", product.ptx);
    assert!(product.ptx.contains("0f43000000"), "{}", product.ptx); // 128.0
    assert!(product.guards.contains(&Guard::Block([128, 1, 1])));
    assert!(product.guards.contains(&Guard::Param {
        index: 1,
        offset: 0,
        bytes: vec![3, 0, 0, 0]
    }));
    // The signature is that of the launch.
    let tree = r3_ptx::parse(&product.ptx).expect("PTX");
    let module = r3_ptx::check(&tree).expect("PTX");
    let kernel = module
        .functions
        .iter()
        .find(|function| &*function.name == "k")
        .expect("kernel");
    assert_eq!(kernel.params.len(), 3);
}

#[test]
fn facts_need_one_kernel() {
    let failure = failed(&Recipe {
        specialisation: Specialisation {
            block: Some([128, 1, 1]),
            ..Specialisation::default()
        },
        ..recipe(Code::Ptx(PTX.to_owned()))
    });
    assert_eq!(failure.stage, Stage::Specialise);
    assert_eq!(failure.kind, FailureKind::Refused);
}

#[test]
fn counts_and_marks_decide_about_unrolling() {
    let marked = PTX.replace("$loop:", "$loop:\n.pragma \"nounroll\";");
    let adds = |unroll, text: &str| {
        let product = compile(&Recipe {
            kernel: Some("k".to_owned()),
            pipeline: Pipeline::Preset(Preset::O3),
            unroll,
            ..recipe(Code::Ptx(text.to_owned()))
        })
        .expect("compiled");
        product.ptx.matches("add.f32").count()
    };
    assert_eq!(adds(Unroll::Keep, &marked), 1);
    assert!(adds(Unroll::Free, &marked) > 1);
    assert!(adds(Unroll::Count(3), &marked) >= 3);
    assert_eq!(adds(Unroll::Count(1), PTX), 1);
}

#[test]
fn a_count_that_llvm_cannot_follow_is_noted() {
    let product = compile(&Recipe {
        kernel: Some("k".to_owned()),
        pipeline: Pipeline::Text("transform-warning".to_owned()),
        unroll: Unroll::Count(4),
        ..recipe(Code::Ptx(PTX.to_owned()))
    })
    .expect("compiled");
    assert_eq!(product.notes.len(), 1, "{:?}", product.notes);
    assert!(
        product
            .notes
            .iter()
            .all(|note| note.contains("not unrolled")),
        "{:?}",
        product.notes
    );
}

#[test]
fn the_target_and_the_version_can_be_others() {
    let product = compile(&Recipe {
        target: Some("sm_90a".to_owned()),
        ptx_version: Some((8, 4)),
        ..recipe(Code::Ptx(PTX.to_owned()))
    })
    .expect("compiled");
    assert!(product.ptx.contains(".version 8.4"), "{}", product.ptx);
    assert!(product.ptx.contains(".target sm_90a"), "{}", product.ptx);

    let failure = failed(&Recipe {
        target: Some("sm_7x".to_owned()),
        ..recipe(Code::Ptx(PTX.to_owned()))
    });
    assert!(failure.message.contains("sm_7x"), "{failure}");
}

#[test]
fn a_version_that_cannot_be_written_is_refused_and_one_that_is_too_low_is_told() {
    let asked = |version| Recipe {
        target: Some("sm_100".to_owned()),
        ptx_version: Some(version),
        ..recipe(Code::Ptx(PTX.to_owned()))
    };
    let failure = failed(&asked((99, 9)));
    assert!(failure.message.contains("99.9"), "{failure}");
    // The target came with PTX 8.6.
    let product = compile(&asked((8, 0))).expect("compiled");
    assert!(product.ptx.contains(".version 8.6"), "{}", product.ptx);
    assert!(
        product.notes.iter().any(|note| note.contains("8.0")),
        "{:?}",
        product.notes
    );
}

#[test]
fn stages_are_told_in_order_and_timed() {
    let stages = std::cell::RefCell::new(Vec::new());
    let product = compile_reporting(
        &Recipe {
            emit: Emit {
                llvm: true,
                cubin: false,
            },
            ..recipe(Code::Ptx(PTX.to_owned()))
        },
        &|stage| stages.borrow_mut().push(stage),
    )
    .expect("compiled");
    let mut stages = stages.into_inner();
    stages.dedup();
    let wanted = [
        Stage::Parse,
        Stage::Lift,
        Stage::Specialise,
        Stage::Passes,
        Stage::Emit,
    ];
    assert_eq!(stages, wanted);
    let timed: Vec<Stage> = product.timings.iter().map(|(stage, _)| *stage).collect();
    assert_eq!(timed, wanted);
    assert!(
        product
            .llvm
            .expect("IR")
            .contains("define ptx_kernel void @k")
    );
}

#[test]
fn clang_code_is_compiled_with_the_recipes_target() {
    let product = compile(&Recipe {
        pipeline: Pipeline::Preset(Preset::O3),
        target: Some("sm_100".to_owned()),
        ..recipe(Code::Llvm(CLANG.to_owned()))
    })
    .expect("compiled");
    well_formed(&product.ptx);
    assert!(product.ptx.contains(".target sm_100"), "{}", product.ptx);
    // Its own: sm_90 and PTX 8.8, as its attributes say.
    let product = compile(&recipe(Code::Llvm(CLANG.to_owned()))).expect("compiled");
    assert!(product.ptx.contains(".target sm_90\n"), "{}", product.ptx);
    assert!(product.ptx.contains(".version 8.8"), "{}", product.ptx);
}

#[test]
fn one_kernel_of_several_is_kept_with_what_it_needs() {
    let product = compile(&Recipe {
        kernel: Some("scan".to_owned()),
        ..recipe(Code::Llvm(CLANG.to_owned()))
    })
    .expect("compiled");
    well_formed(&product.ptx);
    assert!(product.ptx.contains(".entry scan"), "{}", product.ptx);
    assert!(!product.ptx.contains("stencil"), "{}", product.ptx);
    assert!(product.ptx.contains("_ZL2swi"), "{}", product.ptx);
    assert!(!product.ptx.contains("helper"), "{}", product.ptx);
    // A host program may copy into it.
    assert!(product.ptx.contains("table"), "{}", product.ptx);

    let failure = failed(&Recipe {
        kernel: Some("nosuch".to_owned()),
        ..recipe(Code::Llvm(CLANG.to_owned()))
    });
    assert!(
        failure.message.contains("nosuch") && failure.message.contains("stencil, scan"),
        "{failure}"
    );
}

// What `--emit llvm` writes of PTX with variables comes back like that.
#[test]
fn variables_that_are_declared_alone_are_told() {
    let text = r#"target triple = "nvptx64-nvidia-cuda"
@table = external addrspace(4) global [16 x i8], align 4
@tile = external addrspace(3) global [0 x i8], align 4
define ptx_kernel void @k(ptr addrspace(1) %to) {
  %t = load i32, ptr addrspace(4) @table
  %s = load i32, ptr addrspace(3) @tile
  %sum = add i32 %t, %s
  store i32 %sum, ptr addrspace(1) %to
  ret void
}
"#;
    let code = |text: String| Recipe {
        target: Some("sm_90".to_owned()),
        ..recipe(Code::Llvm(text))
    };
    let product = compile(&code(text.to_owned())).expect("compiled");
    let [note] = product.notes.as_slice() else {
        panic!("{:?}", product.notes);
    };
    assert!(
        note.starts_with("table is declared here and not defined"),
        "{note}"
    );
    let defined = text.replace(
        "external addrspace(4) global [16 x i8]",
        "addrspace(4) externally_initialized global [16 x i8] zeroinitializer",
    );
    let product = compile(&code(defined)).expect("compiled");
    assert_eq!(product.notes, [""; 0]);
}

#[test]
fn triton_code_of_a_newer_llvm_is_compiled() {
    let product = compile(&Recipe {
        pipeline: Pipeline::Preset(Preset::O3),
        target: Some("sm_90a".to_owned()),
        ..recipe(Code::Llvm(TRITON.to_owned()))
    })
    .expect("compiled");
    well_formed(&product.ptx);
    assert!(product.ptx.contains(".reqntid 64"), "{}", product.ptx);
    assert!(product.ptx.contains("0f3FB8AA3B"), "{}", product.ptx);
    assert!(!product.ptx.contains(".loc"), "{}", product.ptx);

    let failure = failed(&recipe(Code::Llvm(TRITON.to_owned())));
    assert!(failure.message.contains("which target"), "{failure}");
}

#[test]
fn bitcode_is_compiled_as_its_text_is() {
    let context = inkwell::context::Context::create();
    let buffer =
        inkwell::memory_buffer::MemoryBuffer::create_from_memory_range_copy(CLANG.as_bytes(), "");
    let module = context.create_module_from_ir(buffer).expect("IR");
    let bitcode = module.write_bitcode_to_memory().as_slice().to_vec();
    let of = |code| {
        compile(&Recipe {
            pipeline: Pipeline::Preset(Preset::O2),
            ..recipe(code)
        })
        .expect("compiled")
        .ptx
    };
    assert_eq!(of(Code::Bitcode(bitcode)), of(Code::Llvm(CLANG.to_owned())));
}

#[test]
fn older_marks_of_kernels_are_understood() {
    let old = r#"
target triple = "nvptx64-nvidia-cuda"
define void @k(ptr %p) #0 {
  store i32 1, ptr %p
  ret void
}
attributes #0 = { "target-cpu"="sm_80" }
!nvvm.annotations = !{!0, !1}
!0 = !{ptr @k, !"kernel", i32 1}
!1 = !{ptr @k, !"maxntidx", i32 128}
"#;
    let product = compile(&recipe(Code::Llvm(old.to_owned()))).expect("compiled");
    assert!(product.ptx.contains(".entry k"), "{}", product.ptx);
    assert!(product.ptx.contains(".maxntid 128"), "{}", product.ptx);

    // Marks that got lost: a function of the wanted name is taken as the kernel.
    let lost = old
        .lines()
        .filter(|line| !line.starts_with('!'))
        .collect::<Vec<_>>()
        .join("\n");
    let failure = failed(&recipe(Code::Llvm(lost.clone())));
    assert!(failure.message.contains("no kernel"), "{failure}");
    let product = compile(&Recipe {
        kernel: Some("k".to_owned()),
        ..recipe(Code::Llvm(lost))
    })
    .expect("compiled");
    assert!(product.ptx.contains(".entry k"), "{}", product.ptx);
    assert_eq!(product.notes.len(), 1, "{:?}", product.notes);
}

#[test]
fn code_that_was_not_to_be_optimised_can_be() {
    let kept = r#"
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr %p) noinline optnone "target-cpu"="sm_80" {
  %a = alloca i32
  store i32 7, ptr %a
  %v = load i32, ptr %a
  store i32 %v, ptr %p
  ret void
}"#;
    let product = compile(&Recipe {
        pipeline: Pipeline::Text("sroa".to_owned()),
        ..recipe(Code::Llvm(kept.to_owned()))
    })
    .expect("compiled");
    assert!(!product.ptx.contains("local"), "{}", product.ptx);
}

#[test]
fn wrong_input_is_a_failure_of_its_stage() {
    let parse = |code: Code, part: &str| {
        let failure = failed(&recipe(code));
        assert_eq!(failure.stage, Stage::Parse, "{failure}");
        assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
        assert!(
            failure.message.contains(part) || failure.log.contains(part),
            "{failure}\n{}",
            failure.log
        );
    };
    parse(Code::Ptx("nonsense".to_owned()), "nonsense");
    parse(Code::Ptx(PTX.replace("add.f32", "ad.f32")), "ad.f32");
    parse(Code::Bitcode(b"nonsense".to_vec()), "not LLVM bitcode");
    parse(Code::Bitcode(Vec::new()), "not LLVM bitcode");
    parse(Code::Bitcode(b"BC\xC0\xDE".to_vec()), "cannot read");
    parse(Code::Bitcode(vec![0xED, 0x43, 0x4E, 0x7F, 0, 0]), "LTO-IR");
    parse(Code::Llvm("nonsense".to_owned()), "cannot read");
    parse(Code::Llvm("\0".to_owned()), "zero bytes");
    parse(
        Code::Llvm("target triple = \"x86_64-unknown-linux-gnu\"".to_owned()),
        "x86_64",
    );
    // A value that does not dominate its use: what the reader takes and the verifier does not.
    parse(
        Code::Llvm(
            "define ptx_kernel void @k(i1 %c, ptr %p) {
               br i1 %c, label %a, label %b
             a:
               %v = add i32 1, 2
               br label %b
             b:
               store i32 %v, ptr %p
               ret void
             }"
            .to_owned(),
        ),
        "not valid",
    );
    // 64-bit pointers into shared memory that live in memory.
    parse(
        Code::Llvm(
            "define ptx_kernel void @k(ptr %p) \"target-cpu\"=\"sm_90\" {
               %s = load ptr addrspace(3), ptr %p
               store i32 1, ptr addrspace(3) %s
               ret void
             }"
            .to_owned(),
        ),
        "nvptx-short-ptr",
    );

    let lift = failed(&Recipe {
        kernel: Some("nosuch".to_owned()),
        ..recipe(Code::Ptx(PTX.to_owned()))
    });
    assert_eq!(lift.stage, Stage::Lift, "{lift}");

    let passes = failed(&Recipe {
        pipeline: Pipeline::Text("nosuchpass".to_owned()),
        ..recipe(Code::Ptx(PTX.to_owned()))
    });
    assert_eq!(passes.stage, Stage::Passes, "{passes}");
    assert!(passes.message.contains("nosuchpass"), "{passes}");
}

/// Where an assembler is present.
#[test]
fn a_cubin_comes_with_what_its_kernels_use() {
    let outcome = compile(&Recipe {
        pipeline: Pipeline::Preset(Preset::O3),
        bounds: Bounds {
            maxnreg: Some(32),
            ..Bounds::default()
        },
        emit: Emit {
            cubin: true,
            ..Emit::default()
        },
        ..recipe(Code::Ptx(PTX.to_owned()))
    });
    let product = match outcome {
        Err(failure) if failure.kind == FailureKind::MissingTool => {
            assert_eq!(failure.stage, Stage::Assemble);
            return;
        }
        outcome => outcome.expect("compiled"),
    };
    let cubin = product.cubin.expect("cubin");
    assert!(cubin.bytes.starts_with(b"\x7fELF"));
    let names: Vec<&str> = cubin
        .kernels
        .iter()
        .map(|kernel| kernel.kernel.as_str())
        .collect();
    assert_eq!(names, ["k", "other"]);
    assert!(
        cubin
            .kernels
            .iter()
            .all(|kernel| (1..=32).contains(&kernel.registers)),
        "{:?}",
        cubin.kernels
    );
    assert!(
        product
            .timings
            .iter()
            .any(|(stage, _)| *stage == Stage::Assemble)
    );
}

#[test]
fn a_source_needs_a_target() {
    let failure = failed(&recipe(Code::LtoIr(vec![0xED, 0x43, 0x4E, 0x7F])));
    assert_eq!(failure.stage, Stage::Source);
    assert!(failure.message.contains("target"), "{failure}");
}

#[test]
fn an_option_that_llvm_lacks_is_a_failure() {
    let failure = failed(&Recipe {
        llvm_options: vec!["-no-such-option".to_owned()],
        ..recipe(Code::Ptx(PTX.to_owned()))
    });
    assert_eq!(failure.stage, Stage::Passes);
    assert!(failure.message.contains("-no-such-option"), "{failure}");
}

/// Texts that LLVM's own reader meets with errors, cut at every place: none may end the process. (Bitcode is another matter: LLVM
/// aborts on some of what is broken, so that it is read in workers only.)
#[test]
fn broken_text_is_an_error_wherever_it_breaks() {
    let text: String = TRITON.lines().take(40).collect::<Vec<_>>().join("\n");
    for cut in (0..text.len()).step_by(7) {
        let part = text.get(..cut).expect("ASCII").to_owned();
        let _ = compile(&Recipe {
            target: Some("sm_90a".to_owned()),
            ..recipe(Code::Llvm(part))
        });
    }
}

/// Code for which `sm_80` has no instruction: LLVM's code generator gives up, and with it the process.
const IMPOSSIBLE: &str = r"
declare void @llvm.nvvm.wgmma.fence.sync.aligned()
define ptx_kernel void @k() {
  call void @llvm.nvvm.wgmma.fence.sync.aligned()
  ret void
}";

#[test]
fn a_process_that_llvm_ends_leaves_the_reason() {
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--ignored",
            "--exact",
            "compiles_the_impossible",
            "--nocapture",
        ])
        .output()
        .expect("started");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said
        .lines()
        .find_map(|line| line.strip_prefix(passes::FATAL))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(reason.contains("wgmma.fence"), "{reason}");
}

/// Started by the test above.
#[test]
#[ignore = "part of another test"]
fn compiles_the_impossible() {
    let outcome = compile(&Recipe {
        target: Some("sm_80".to_owned()),
        ..recipe(Code::Llvm(IMPOSSIBLE.to_owned()))
    });
    panic!("LLVM went on: {outcome:?}");
}

/// Recipes whose products are compared: all kinds of code, presets and random pipelines.
fn recipes() -> Vec<Recipe> {
    let mut all = Vec::new();
    for code in [
        Code::Ptx(PTX.to_owned()),
        Code::Llvm(CLANG.to_owned()),
        Code::Llvm(TRITON.to_owned()),
    ] {
        let pipelines = [Pipeline::Nothing, Pipeline::Preset(Preset::O3)]
            .into_iter()
            .chain((0..12).map(|seed| Pipeline::Text(passes::random_pipeline(seed))));
        for pipeline in pipelines {
            all.push(Recipe {
                pipeline,
                target: Some("sm_90a".to_owned()),
                emit: Emit {
                    llvm: true,
                    cubin: false,
                },
                ..recipe(code.clone())
            });
        }
    }
    all
}

/// Everything of the products but times.
fn products() -> String {
    recipes()
        .iter()
        .map(|recipe| {
            let product = compile(recipe).expect("compiled");
            format!(
                "{:?}\n{}\n{}\n",
                recipe.pipeline,
                product.llvm.unwrap_or_default(),
                product.ptx
            )
        })
        .collect()
}

#[test]
fn equal_recipes_give_equal_bytes_in_one_process_and_in_two() {
    let first = products();
    assert_eq!(first, products());
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("products");
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--ignored",
            "--exact",
            "writes_products_for_another_process",
        ])
        .env("R3_TEST_PRODUCTS", &file)
        .status()
        .expect("started");
    assert!(status.success());
    let other = std::fs::read_to_string(&file).expect("written");
    assert!(first == other, "another process gave other bytes");
}

/// Started by the test above.
#[test]
#[ignore = "part of another test"]
fn writes_products_for_another_process() {
    let file = std::env::var_os("R3_TEST_PRODUCTS").expect("started by another test");
    std::fs::write(Path::new(&file), products()).expect("written");
}
