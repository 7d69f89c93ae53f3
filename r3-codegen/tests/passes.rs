//! Target machine, options, pipelines and fenced contraction, each shown by the PTX that LLVM writes.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::targets::FileType;
use r3_codegen::passes::{self, PassError};
use r3_codegen::recipe::{Pipeline, Preset};

/// A module from text, with the target of the machine.
fn module<'ctx>(context: &'ctx Context, text: &str) -> Module<'ctx> {
    passes::initialise().expect("LLVM");
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
    context.create_module_from_ir(buffer).expect("IR")
}

/// PTX of a module.
fn ptx(module: &Module, level: u8) -> String {
    let machine = passes::machine("sm_90", (7, 8), level).expect("machine");
    passes::prepare(module, &machine);
    module.verify().expect("valid");
    let buffer = machine
        .write_to_memory_buffer(module, FileType::Assembly)
        .expect("PTX");
    String::from_utf8_lossy(buffer.as_slice()).into_owned()
}

#[test]
fn pointers_into_shared_constant_and_local_memory_have_32_bits() {
    let layout = passes::data_layout().expect("layout");
    let data = inkwell::targets::TargetData::create(layout);
    let bytes = |space: u16| data.get_pointer_byte_size(Some(inkwell::AddressSpace::from(space)));
    assert_eq!(
        [0, 1, 3, 4, 5, 101].map(bytes),
        [8, 8, 4, 4, 4, 8],
        "{layout}"
    );
}

#[test]
fn shared_memory_is_addressed_with_32_bit_registers() {
    let context = Context::create();
    let module = module(
        &context,
        r#"
@s = external addrspace(3) global [64 x i8], align 16
define ptx_kernel void @k(ptr %p, i32 %n) {
  %g = getelementptr i8, ptr addrspace(3) @s, i32 %n
  %v = load i32, ptr addrspace(3) %g
  store i32 %v, ptr %p
  ret void
}"#,
    );
    let text = ptx(&module, 3);
    assert!(text.contains("add.s32"), "{text}");
    assert!(!text.contains("add.s64"), "{text}");
}

#[test]
fn an_unknown_processor_and_an_impossible_version_are_errors() {
    assert!(matches!(
        passes::machine("sm_999", (7, 8), 3),
        Err(PassError::UnknownCpu { .. })
    ));
    assert!(matches!(
        passes::machine("sm_90a", (7, 8), 3),
        Err(PassError::PtxVersion { least: (8, 0), .. })
    ));
    assert!(matches!(
        passes::machine("sm_90", (9, 9), 3),
        Err(PassError::PtxVersion { .. })
    ));
    assert!(matches!(
        passes::machine("sm_90", (7, 8), 4),
        Err(PassError::Level { level: 4 })
    ));
}

#[test]
fn the_version_is_the_least_that_fits_both_code_and_target() {
    let version = |cpu, wanted| passes::ptx_version_for(cpu, wanted).expect("known");
    assert_eq!(version("sm_90", (7, 0)), (7, 8));
    assert_eq!(version("sm_90", (8, 3)), (8, 3));
    assert_eq!(version("sm_80", (8, 9)), (9, 0));
    assert_eq!(version("sm_80", (9, 3)), (9, 0));
}

#[test]
fn options_that_llvm_lacks_are_errors_and_the_process_lives() {
    let refused = |option: &str| {
        let error = passes::set_options(&[option.to_owned()]).expect_err(option);
        assert!(
            matches!(&error, PassError::Option { option: named, .. } if named == option),
            "{error}"
        );
    };
    refused("-no-such-option");
    refused("-unroll-threshold=many");
    refused("--help");
    refused("-version");
    refused("unroll-threshold=2");
    refused("-");
    refused("-a\0b");
}

#[test]
fn options_are_for_the_process_and_change_what_passes_do() {
    let set = vec!["-unroll-count=3".to_owned()];
    passes::set_options(&set).expect("known");
    passes::set_options(&set).expect("the same");
    passes::initialise().expect("LLVM");
    assert_eq!(passes::options_of_process(), Some(set));
    let error = passes::set_options(&[]).expect_err("others");
    assert!(matches!(error, PassError::OtherOptions { .. }), "{error}");

    let context = Context::create();
    let module = module(&context, LOOP);
    let machine = passes::machine("sm_90", (7, 8), 3).expect("machine");
    passes::prepare(&module, &machine);
    passes::run(
        &module,
        &Pipeline::Text("loop-unroll<runtime>".to_owned()),
        &machine,
    )
    .expect("passes");
    let text = module.print_to_string().to_string();
    let stores = text.matches("store volatile").count();
    // Three in the unrolled loop, and those of the remainder.
    assert!(stores > 3, "{text}");
}

/// A loop of a count that only the launch knows.
const LOOP: &str = r"
define ptx_kernel void @k(ptr %p, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  store volatile i32 %i, ptr %p
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}";

#[test]
fn a_wrong_pipeline_is_an_error_that_names_it() {
    let context = Context::create();
    let module = module(&context, LOOP);
    let machine = passes::machine("sm_90", (7, 8), 3).expect("machine");
    passes::prepare(&module, &machine);
    for wrong in [
        "nosuchpass",
        "sroa,,",
        "loop-unroll<full>",
        "sroa\0",
        "sroa)",
    ] {
        let error = passes::run(&module, &Pipeline::Text(wrong.to_owned()), &machine)
            .expect_err(wrong)
            .to_string();
        assert!(error.contains("pipeline `"), "{error}");
    }
}

/// One pass over this is not enough for `instcombine`, which then ends the process unless it is told not to look.
#[test]
fn instcombine_without_parameters_does_not_end_the_process() {
    let context = Context::create();
    let machine = passes::machine("sm_90", (7, 8), 3).expect("machine");
    for name in ["instcombine", "instcombine<max-iterations=1>"] {
        let module = module(&context, LOOP);
        passes::prepare(&module, &machine);
        passes::run(
            &module,
            &Pipeline::Text(format!("function({name}),globaldce")),
            &machine,
        )
        .expect("passes");
    }
}

/// Sums and differences of products, of one type.
fn arithmetic(ty: &str, flags: &str) -> String {
    format!(
        r"
declare {ty} @llvm.fma{suffix}({ty}, {ty}, {ty})
define ptx_kernel void @k(ptr %p, {ty} %a, {ty} %b, {ty} %c, {ty} %d) {{
  %m = fmul {flags} {ty} %a, %b
  %add = fadd {flags} {ty} %m, %c
  store volatile {ty} %add, ptr %p
  %m1 = fmul {flags} {ty} %a, %d
  %sub = fsub {flags} {ty} %c, %m1
  store volatile {ty} %sub, ptr %p
  %m2 = fmul {flags} {ty} %b, %d
  %rsub = fsub {flags} {ty} %m2, %c
  store volatile {ty} %rsub, ptr %p
  %m3 = fmul {flags} {ty} %c, %d
  %n = fneg {ty} %m3
  %nadd = fadd {flags} {ty} %n, %a
  store volatile {ty} %nadd, ptr %p
  %m4 = fmul {flags} {ty} %c, %a
  %m5 = fmul {flags} {ty} %add, %b
  %both = fadd {flags} {ty} %m4, %m5
  store volatile {ty} %both, ptr %p
  %m6 = fmul {flags} {ty} %both, %b
  %f = call {ty} @llvm.fma{suffix}({ty} %m6, {ty} %a, {ty} %m6)
  store volatile {ty} %f, ptr %p
  %square = fmul {flags} {ty} %f, %f
  %last = fmul {flags} {ty} %square, %square
  store volatile {ty} %last, ptr %p
  ret void
}}",
        suffix = suffix(ty)
    )
}

/// How intrinsics spell a type.
fn suffix(ty: &str) -> &'static str {
    match ty {
        "float" => ".f32",
        "double" => ".f64",
        "half" => ".f16",
        "bfloat" => ".bf16",
        "<2 x half>" => ".v2f16",
        "<2 x bfloat>" => ".v2bf16",
        "<2 x float>" => ".v2f32",
        _ => "",
    }
}

/// (multiplications, additions and subtractions, fused ones), and those with `.rn` among the first two.
fn count(text: &str) -> (usize, usize, usize, usize) {
    let lines = || text.lines().map(str::trim_start);
    let of = |name: &str| {
        lines()
            .filter(|line| {
                line.strip_prefix(name).is_some_and(|rest| {
                    rest.contains("f32") || rest.contains("f64") || rest.contains("f16")
                })
            })
            .count()
    };
    (
        of("mul."),
        of("add.") + of("sub."),
        of("fma."),
        of("mul.rn.") + of("add.rn.") + of("sub.rn."),
    )
}

#[test]
fn contraction_is_left_to_the_assembler_at_every_level() {
    let context = Context::create();
    let types = [
        ("float", 1),
        ("double", 1),
        ("half", 1),
        ("bfloat", 1),
        ("<2 x half>", 1),
        ("<2 x bfloat>", 1),
        ("<2 x float>", 2),
    ];
    for (ty, lanes) in types {
        for level in 0..=3 {
            for pipeline in [Pipeline::Nothing, Pipeline::Preset(Preset::O3)] {
                let module = module(&context, &arithmetic(ty, "contract"));
                let machine = passes::machine("sm_90", (7, 8), level).expect("machine");
                passes::prepare(&module, &machine);
                passes::run(&module, &pipeline, &machine).expect("passes");
                passes::fence_contraction(&module).expect("fences");
                module.verify().expect("valid");
                let text = ptx(&module, level);
                assert_eq!(
                    count(&text),
                    (9 * lanes, 5 * lanes, lanes, 0),
                    "{ty} at level {level} after {pipeline:?}\n{text}"
                );
            }
        }
    }
}

#[test]
fn what_was_rounded_in_the_original_stays_rounded() {
    let context = Context::create();
    for ty in ["float", "double"] {
        let module = module(&context, &arithmetic(ty, ""));
        assert_eq!(passes::fence_contraction(&module), Ok(0));
        let text = ptx(&module, 3);
        assert_eq!(count(&text), (9, 5, 1, 14), "{ty}\n{text}");
    }
}

/// Zeros of both signs, in both orders, and two values that are never NaN.
const SELECTIONS: &str = r"
define ptx_kernel void @k(ptr %p, float %a, i16 %b, i16 %c) {
  %lt = fcmp olt float %a, 0.0
  %min = select i1 %lt, float %a, float 0.0
  store volatile float %min, ptr %p
  %gt = fcmp ogt float %a, -0.0
  %max = select i1 %gt, float %a, float 0.0
  store volatile float %max, ptr %p
  %ult = fcmp ult float %a, 0.0
  %swapped = select i1 %ult, float 0.0, float %a
  store volatile float %swapped, ptr %p
  %x = uitofp i16 %b to float
  %y = sitofp i16 %c to float
  %less = fcmp olt float %x, %y
  %both = select i1 %less, float %x, float %y
  store volatile float %both, ptr %p
  %other = select i1 %lt, float %x, float 0.0
  store volatile float %other, ptr %p
  ret void
}";

#[test]
fn a_selection_stays_a_selection() {
    let context = Context::create();
    let kinds = |text: &str| {
        (
            text.matches("min.f32").count() + text.matches("max.f32").count(),
            text.matches("selp").count(),
        )
    };
    for level in 0..=3 {
        let module = module(&context, SELECTIONS);
        assert_eq!(passes::fence_selections(&module), Ok(4));
        let text = ptx(&module, level);
        assert_eq!(kinds(&text), (0, 5), "{text}");
    }
    // Without fences there are some.
    let text = ptx(&module(&context, SELECTIONS), 3);
    assert_ne!(kinds(&text).0, 0, "{text}");
}

#[test]
fn without_fences_llvm_fuses_by_itself() {
    let context = Context::create();
    let module = module(&context, &arithmetic("float", "contract"));
    let text = ptx(&module, 3);
    let (products, _, fused, _) = count(&text);
    assert!(products < 9 && fused > 1, "{text}");
}

#[test]
fn random_pipelines_are_the_same_for_a_seed_and_differ_between_seeds() {
    assert_eq!(passes::random_pipeline(7), passes::random_pipeline(7));
    let all: std::collections::BTreeSet<String> = (0..200).map(passes::random_pipeline).collect();
    assert_eq!(all.len(), 200);
    insta::assert_snapshot!(passes::random_pipeline(1));
}

/// A kernel with what passes work on: loops, memory of several kinds, a call, a barrier, a switch, vectors of accesses.
const KERNEL: &str = include_str!("fixtures/passes.ll");

#[test]
fn two_hundred_random_pipelines_run() {
    let machine = passes::machine("sm_90", (7, 8), 3).expect("machine");
    for seed in 0..200 {
        let context = Context::create();
        let module = module(&context, KERNEL);
        passes::prepare(&module, &machine);
        let text = passes::random_pipeline(seed);
        eprintln!("{seed}: {text}");
        passes::run(&module, &Pipeline::Text(text.clone()), &machine)
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        passes::fence_contraction(&module).expect("fences");
        let out = ptx(&module, 3);
        assert_eq!(out.matches(".entry").count(), 2, "{text}\n{out}");
        assert!(out.contains("bar"), "{text}\n{out}");
    }
}

#[test]
fn every_pass_of_the_list_runs_with_every_parameter() {
    let machine = passes::machine("sm_90", (7, 8), 3).expect("machine");
    let run = |pass: &passes::Pass, written: &[String]| {
        let context = Context::create();
        let module = module(&context, KERNEL);
        passes::prepare(&module, &machine);
        let text = pass.level.wrap(&pass.text(written));
        passes::run(&module, &Pipeline::Text(text), &machine).expect(pass.name);
    };
    for pass in passes::PASSES {
        let mut all = vec![vec![]];
        let mut fixed = Vec::new();
        for parameter in pass.parameters {
            match parameter {
                passes::Parameter::Fixed(text) => fixed.push((*text).to_owned()),
                passes::Parameter::Optional(text) => all.push(vec![(*text).to_owned()]),
                passes::Parameter::Flag(text) => {
                    all.push(vec![(*text).to_owned()]);
                    all.push(vec![format!("no-{text}")]);
                }
                passes::Parameter::Choice(of) => {
                    all.extend(of.iter().map(|text| vec![(*text).to_owned()]));
                }
                passes::Parameter::Number(name, of) => {
                    all.extend(of.iter().map(|value| vec![format!("{name}={value}")]));
                }
            }
        }
        for mut written in all {
            written.splice(0..0, fixed.iter().cloned());
            run(pass, &written);
        }
    }
}
