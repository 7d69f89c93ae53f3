//! Facts about launches in LLVM IR: what the code becomes, and what it then relies on.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use r3_codegen::passes;
use r3_codegen::recipe::{Guard, Pipeline, Specialisation, Unroll};
use r3_codegen::specialise::{self, SpecialiseError, Specialised};

/// A module from text, with the target's layout.
fn module<'ctx>(context: &'ctx Context, text: &str) -> Module<'ctx> {
    passes::initialise().expect("LLVM");
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
    let module = context.create_module_from_ir(buffer).expect("IR");
    passes::prepare(&module, &machine());
    module
}

fn machine() -> inkwell::targets::TargetMachine {
    passes::machine("sm_90", (7, 8), 3).expect("machine")
}

/// The IR after specialisation and a few passes, and what was done.
fn specialised(text: &str, facts: &Specialisation) -> (String, Specialised) {
    let context = Context::create();
    let module = module(&context, text);
    let done = specialise::apply(&module, "k", facts).expect("specialised");
    module.verify().expect("valid");
    passes::run(
        &module,
        &Pipeline::Text("function(sroa,instcombine,simplifycfg,adce)".to_owned()),
        &machine(),
    )
    .expect("passes");
    (module.print_to_string().to_string(), done)
}

/// Constant bytes of parameters.
fn params(facts: &[(u32, u32, &[u8])]) -> Specialisation {
    Specialisation {
        params: facts
            .iter()
            .map(|&(index, offset, bytes)| (index, offset, bytes.to_vec()))
            .collect(),
        ..Specialisation::default()
    }
}

const SCALARS: &str = r"
define ptx_kernel void @k(ptr %p, i32 %n, float %f, double %d, i64 %l) {
  store volatile i32 %n, ptr %p
  store volatile float %f, ptr %p
  store volatile double %d, ptr %p
  store volatile i64 %l, ptr %p
  ret void
}";

#[test]
fn scalars_become_constants_and_the_signature_stays() {
    let nan = 0x7f80_0001u32.to_le_bytes();
    let (text, done) = specialised(
        SCALARS,
        &params(&[
            (1, 0, &7i32.to_le_bytes()),
            (2, 0, &nan),
            (3, 0, &1.5f64.to_le_bytes()),
        ]),
    );
    assert!(text.contains("store volatile i32 7"), "{text}");
    // The very bits, signalling though they are.
    assert!(
        text.contains("store volatile float 0x7FF0000020000000"),
        "{text}"
    );
    assert!(text.contains("store volatile double 1.5"), "{text}");
    assert!(
        text.contains("@k(ptr %p, i32 %n, float %f, double %d, i64 %l)"),
        "{text}"
    );
    assert_eq!(done.guards.len(), 3);
    assert_eq!(
        done.guards.first(),
        Some(&Guard::Param {
            index: 1,
            offset: 0,
            bytes: vec![7, 0, 0, 0]
        })
    );
}

#[test]
fn part_of_a_scalar_is_blended_in() {
    let (text, done) = specialised(SCALARS, &params(&[(4, 4, &[1, 2, 3, 4])]));
    assert!(text.contains("and i64 %l, 4294967295"), "{text}");
    assert!(text.contains(", 289077004400066560"), "{text}"); // 0x0403_0201 in the high half.
    assert_eq!(done.guards.len(), 1);
}

const AGGREGATE: &str = r"
%struct = type { i32, [3 x float], i64, <2 x half> }
define ptx_kernel void @k(ptr %p, ptr byval(%struct) align 8 %s, i32 %i) {
  %n = load i32, ptr %s
  store volatile i32 %n, ptr %p
  %g = getelementptr inbounds %struct, ptr %s, i32 0, i32 1, i32 2
  %c = addrspacecast ptr %g to ptr addrspace(101)
  %f = load float, ptr addrspace(101) %c
  store volatile float %f, ptr %p
  %h = getelementptr i8, ptr %s, i64 16
  %l = load i64, ptr %h
  store volatile i64 %l, ptr %p
  %v = getelementptr i8, ptr %s, i64 24
  %w = load <2 x half>, ptr %v
  store volatile <2 x half> %w, ptr %p
  %d = getelementptr %struct, ptr %s, i32 0, i32 1, i32 %i
  %e = load float, ptr %d
  store volatile float %e, ptr %p
  ret void
}";

#[test]
fn loads_from_an_aggregate_become_constants_where_their_bytes_are_known() {
    let mut bytes = Vec::new();
    bytes.extend(11i32.to_le_bytes());
    bytes.extend(2.5f32.to_le_bytes());
    let (text, done) = specialised(
        AGGREGATE,
        &params(&[
            (1, 0, &bytes),
            (1, 12, &4.0f32.to_le_bytes()),
            (1, 18, &[9]),
            (1, 26, &[0, 0x3c]),
        ]),
    );
    assert!(text.contains("store volatile i32 11"), "{text}");
    assert!(text.contains("store volatile float 4.000000e+00"), "{text}");
    // One byte of eight, and one half of two.
    assert!(text.contains("and i64 %l, -16711681"), "{text}");
    assert!(
        text.contains("half 0xH3C00") || text.contains("1006632960"),
        "{text}"
    );
    // Which element is known at the launch only.
    assert!(text.contains("store volatile float %e"), "{text}");
    assert_eq!(done.guards.len(), 4);
    assert!(done.notes.is_empty(), "{:?}", done.notes);
}

#[test]
fn a_copy_of_an_aggregate_has_the_constants_too() {
    let (text, done) = specialised(
        r"
define ptx_kernel void @k(ptr %p, ptr byval([16 x i8]) align 8 %s) {
  %a = alloca [16 x i8], align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %a, ptr align 8 %s, i64 16, i1 false)
  %g = getelementptr i8, ptr %a, i64 4
  %n = load i32, ptr %g
  store volatile i32 %n, ptr %p
  %m = load i32, ptr %a
  store volatile i32 %m, ptr %p
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        &params(&[(1, 4, &5i32.to_le_bytes())]),
    );
    assert!(text.contains("store volatile i32 5"), "{text}");
    assert_eq!(text.matches("store volatile i32 5").count(), 1, "{text}");
    assert_eq!(done.guards.len(), 1);
}

#[test]
fn an_aggregate_that_is_written_keeps_its_loads() {
    let (text, done) = specialised(
        r"
define ptx_kernel void @k(ptr %p, ptr byval(i32) align 4 %s, i32 %v) {
  %n = load i32, ptr %s
  store i32 %v, ptr %s
  store volatile i32 %n, ptr %p
  ret void
}",
        &params(&[(1, 0, &5i32.to_le_bytes())]),
    );
    assert!(!text.contains("i32 5"), "{text}");
    assert!(done.guards.is_empty());
    assert_eq!(done.notes.len(), 1, "{:?}", done.notes);
}

#[test]
fn what_the_code_does_not_read_needs_no_guard() {
    let (_, done) = specialised(
        "define ptx_kernel void @k(i32 %unused, ptr byval([8 x i8]) %also) { ret void }",
        &params(&[(0, 0, &[1, 2, 3, 4]), (1, 2, &[1])]),
    );
    assert_eq!(done, Specialised::default());
}

const LAUNCH: &str = r"
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
define internal i32 @f() noinline {
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  ret i32 %n
}
define ptx_kernel void @k(ptr %p) {
  %n = call i32 @f()
  store volatile i32 %n, ptr %p
  %g = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  store volatile i32 %g, ptr %p
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  store volatile i32 %y, ptr %p
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %below = icmp ult i32 %x, 96
  br i1 %below, label %then, label %end
then:
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %small = icmp ult i32 %c, 1000
  %s = zext i1 %small to i32
  store volatile i32 %s, ptr %p
  br label %end
end:
  ret void
}";

#[test]
fn sizes_of_the_launch_replace_registers_and_bound_others() {
    let (text, done) = specialised(
        LAUNCH,
        &Specialisation {
            grid: Some([1000, 1, 1]),
            block: Some([96, 1, 1]),
            ..Specialisation::default()
        },
    );
    assert!(text.contains("ret i32 96"), "{text}");
    assert!(text.contains("store volatile i32 1000"), "{text}");
    // tid.y of a flat block, and two comparisons that always hold.
    assert!(text.contains("store volatile i32 0, ptr %p"), "{text}");
    assert!(text.contains("store volatile i32 1, ptr %p"), "{text}");
    assert!(!text.contains("br i1"), "{text}");
    assert_eq!(
        done.guards,
        [Guard::Block([96, 1, 1]), Guard::Grid([1000, 1, 1])]
    );
}

/// What PTX's divisions give where LLVM's give nothing, for divisors that became constants.
#[test]
fn divisions_by_constants_are_opened_with_their_odd_cases() {
    let code = |ty: &str, bits: u32, class: &str| {
        format!(
            "define ptx_kernel void @k(ptr %p, i{bits} %a, i{bits} %b) {{
               %n = add i{bits} %b, 0
               %q = call i{bits} asm \"div.{ty} $0, $1, $2;\", \"={class},{class},{class}\"(i{bits} %a, i{bits} %n)
               store volatile i{bits} %q, ptr %p
               %r = call i{bits} asm \"rem.{ty} $0, $1, $2;\", \"={class},{class},{class}\"(i{bits} %a, i{bits} %n)
               store volatile i{bits} %r, ptr %p
               ret void
             }}"
        )
    };
    let cases: [(&str, u32, &str, i64, i64, i64, i64); 8] = [
        ("s32", 32, "r", -7, 2, -3, -1),
        ("s32", 32, "r", -7, 0, -1, -1),
        (
            "s32",
            32,
            "r",
            i64::from(i32::MIN),
            -1,
            i64::from(i32::MIN),
            0,
        ),
        ("s32", 32, "r", 9, -1, -9, 0),
        ("u32", 32, "r", 9, 0, -1, -1),
        ("u32", 32, "r", 9, -1, 0, 9),
        ("s64", 64, "l", i64::MIN, -1, i64::MIN, 0),
        ("u16", 16, "h", 9, 4, 2, 1),
    ];
    for (ty, bits, class, a, b, quotient, remainder) in cases {
        let bytes = |value: i64| {
            value
                .to_le_bytes()
                .into_iter()
                .take(bits as usize / 8)
                .collect::<Vec<u8>>()
        };
        let (text, _) = specialised(
            &code(ty, bits, class),
            &params(&[(1, 0, &bytes(a)), (2, 0, &bytes(b))]),
        );
        for wanted in [quotient, remainder] {
            assert!(
                text.contains(&format!("store volatile i{bits} {wanted}, ptr %p")),
                "{ty} {a} {b}: {wanted}\n{text}"
            );
        }
    }
    // By what only the launch knows it stays what it was.
    let (text, _) = specialised(&code("s32", 32, "r"), &params(&[(1, 0, &[1, 0, 0, 0])]));
    assert_eq!(text.matches(" asm ").count(), 2, "{text}");
}

const POINTERS: &str = r"
define ptx_kernel void @k(ptr %a, ptr %b, i64 %c) {
  %x = load i32, ptr %a
  store i32 1, ptr %b
  %y = load i32, ptr %a
  %s = add i32 %x, %y
  store volatile i32 %s, ptr %b
  %q = inttoptr i64 %c to ptr
  %g = getelementptr i8, ptr %q, i64 16
  %z = load volatile i32, ptr %g, align 4
  ret void
}";

#[test]
fn memory_that_is_reached_once_is_loaded_once() {
    let facts = Specialisation {
        noalias: vec![0],
        ..Specialisation::default()
    };
    let context = Context::create();
    let module = module(&context, POINTERS);
    let done = specialise::apply(&module, "k", &facts).expect("specialised");
    passes::run(
        &module,
        &Pipeline::Text("function(gvn)".to_owned()),
        &machine(),
    )
    .expect("passes");
    let text = module.print_to_string().to_string();
    assert_eq!(text.matches("load i32, ptr %a").count(), 1, "{text}");
    assert_eq!(done.guards, [Guard::NoAlias { index: 0 }]);
}

#[test]
fn alignment_reaches_accesses_through_pointers_and_numbers() {
    let facts = Specialisation {
        align: vec![(0, 16), (2, 32), (1, 1)],
        ..Specialisation::default()
    };
    let context = Context::create();
    let module = module(&context, POINTERS);
    let done = specialise::apply(&module, "k", &facts).expect("specialised");
    module.verify().expect("valid");
    passes::run(
        &module,
        &Pipeline::Text("function(instcombine,infer-alignment)".to_owned()),
        &machine(),
    )
    .expect("passes");
    let text = module.print_to_string().to_string();
    assert!(text.contains("load i32, ptr %a, align 16"), "{text}");
    assert!(
        text.contains("load volatile i32, ptr %g, align 16"),
        "{text}"
    );
    assert_eq!(
        done.guards,
        [
            Guard::Align {
                index: 0,
                bytes: 16
            },
            Guard::Align {
                index: 2,
                bytes: 32
            }
        ]
    );
}

#[test]
fn facts_that_cannot_be_are_errors() {
    let context = Context::create();
    let module = module(&context, SCALARS);
    let apply = |facts: &Specialisation| specialise::apply(&module, "k", facts).expect_err("wrong");
    assert!(matches!(
        apply(&params(&[(9, 0, &[1])])),
        SpecialiseError::NoParameter { count: 5, .. }
    ));
    assert!(matches!(
        apply(&params(&[(1, 2, &[1, 2, 3])])),
        SpecialiseError::BeyondParameter { size: 4, .. }
    ));
    assert!(matches!(
        apply(&params(&[(1, 0, &[1]), (1, 0, &[2])])),
        SpecialiseError::Twice { .. }
    ));
    assert!(matches!(
        apply(&Specialisation {
            align: vec![(0, 3)],
            ..Specialisation::default()
        }),
        SpecialiseError::Alignment { bytes: 3, .. }
    ));
    assert!(matches!(
        apply(&Specialisation {
            block: Some([32, 0, 1]),
            ..Specialisation::default()
        }),
        SpecialiseError::Empty { .. }
    ));
    assert!(matches!(
        specialise::apply(&module, "other", &params(&[(0, 0, &[1])])),
        Err(SpecialiseError::OtherKernel { .. } | SpecialiseError::NoKernel { .. })
    ));
}

#[test]
fn another_kernel_in_the_module_is_an_error() {
    let context = Context::create();
    let module = module(
        &context,
        "define ptx_kernel void @k(i32 %n) { ret void }
         define ptx_kernel void @other(i32 %n) { ret void }",
    );
    assert!(matches!(
        specialise::apply(&module, "k", &params(&[(0, 0, &[1, 0, 0, 0])])),
        Err(SpecialiseError::OtherKernel { .. })
    ));
    assert_eq!(
        specialise::apply(&module, "k", &Specialisation::default()),
        Ok(Specialised::default())
    );
}

const LOOPS: &str = r#"
define ptx_kernel void @k(ptr %p, i32 %n) {
entry:
  br label %outer
outer:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  br label %inner
inner:
  %j = phi i32 [ 0, %outer ], [ %j1, %inner ]
  store volatile i32 %j, ptr %p
  %j1 = add i32 %j, 1
  %c = icmp ult i32 %j1, %n
  br i1 %c, label %inner, label %next, !llvm.loop !0
next:
  %i1 = add i32 %i, 1
  %d = icmp ult i32 %i1, %n
  br i1 %d, label %outer, label %end
end:
  ret void
}
!0 = distinct !{!0, !1, !2}
!1 = !{!"llvm.loop.unroll.disable"}
!2 = !{!"llvm.loop.mustprogress"}"#;

#[test]
fn marks_of_loops_are_kept_dropped_or_replaced_by_a_count() {
    let context = Context::create();
    let text = |what| {
        let module = module(&context, LOOPS);
        let changed = specialise::unroll(&module, what);
        module.verify().expect("valid");
        (changed, module.print_to_string().to_string())
    };
    let (changed, kept) = text(Unroll::Keep);
    assert_eq!(changed, 0);
    assert!(kept.contains("llvm.loop.unroll.disable"), "{kept}");

    let (changed, free) = text(Unroll::Free);
    assert_eq!(changed, 1);
    assert!(!free.contains("llvm.loop.unroll"), "{free}");
    assert!(free.contains("llvm.loop.mustprogress"), "{free}");

    let (changed, counted) = text(Unroll::Count(3));
    assert_eq!(changed, 2);
    assert!(!counted.contains("llvm.loop.unroll.disable"), "{counted}");
    assert_eq!(counted.matches("!llvm.loop !").count(), 2, "{counted}");
    assert_eq!(counted.matches("= distinct !{").count(), 2, "{counted}");
    assert!(
        counted.contains("!\"llvm.loop.unroll.count\", i32 3"),
        "{counted}"
    );
}

#[test]
fn a_count_unrolls() {
    let context = Context::create();
    let module = module(&context, LOOPS);
    specialise::unroll(&module, Unroll::Count(4));
    passes::run(
        &module,
        &Pipeline::Text("function(loop-unroll)".to_owned()),
        &machine(),
    )
    .expect("passes");
    let text = module.print_to_string().to_string();
    assert!(text.matches("store volatile").count() >= 4, "{text}");
}
