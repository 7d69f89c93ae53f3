//! Linking of CUDA's mathematical functions: with a library made here (functions by the same names, one that asks whether
//! subnormal numbers are flushed), and with the real one where a toolkit is present.

use std::path::{Path, PathBuf};

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use r3_codegen::libdevice::{self, LibdeviceError};
use r3_codegen::passes::{self, Diagnostics};

/// Like the real one in form: public functions, some of which need others, tables, and questions to the compiler.
const LIBRARY: &str = r#"
target triple = "nvptx64-nvidia-gpulibs"
@.str = private unnamed_addr constant [11 x i8] c"__CUDA_FTZ\00"
@table = internal addrspace(1) constant [2 x float] [float 1.0, float 2.0]
@unused = internal addrspace(1) constant [2 x float] [float 3.0, float 4.0]
declare i32 @__nvvm_reflect(ptr)
define float @__nv_expf(float %x) alwaysinline nounwind {
  %f = call i32 @__nvvm_reflect(ptr @.str)
  %c = icmp ne i32 %f, 0
  br i1 %c, label %a, label %b
a:
  %y = fmul float %x, 2.0
  ret float %y
b:
  %z = call float @__internal(float %x)
  ret float %z
}
define internal float @__internal(float %x) noinline {
  %t = load float, ptr addrspace(1) @table
  %y = fmul float %x, %t
  ret float %y
}
define float @__nv_sinf(float %x) {
  %t = load float, ptr addrspace(1) @unused
  ret float %t
}"#;

const CALLS: &str = r#"
declare float @__nv_expf(float)
declare float @__nv_unused(float)
define ptx_kernel void @k(ptr %p, float %x) ATTRIBUTES {
  %y = call float @__nv_expf(float %x)
  store float %y, ptr %p
  ret void
}"#;

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

/// The library as a file of bitcode.
fn library(folder: &Path, text: &str) -> PathBuf {
    passes::initialise().expect("LLVM");
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "library");
    let module = context.create_module_from_ir(buffer).expect("IR");
    let file = folder.join("libdevice.10.bc");
    std::fs::write(&file, module.write_bitcode_to_memory().as_slice()).expect("file");
    file
}

/// The module's text after linking.
fn linked(text: &str, file: &Path, flush: Option<bool>) -> Result<String, LibdeviceError> {
    let context = Context::create();
    let mut diagnostics = Diagnostics::of(&context);
    let module = module(&context, text);
    let done = libdevice::link(
        &context,
        &module,
        &machine(),
        &mut diagnostics,
        Some(file),
        flush,
    )?;
    module.verify().expect("valid");
    assert_eq!(libdevice::called(&module), Vec::<String>::new());
    let text = module.print_to_string().to_string();
    assert_eq!(
        done.is_some(),
        text.contains("@__internal") || text.contains("__nv_expf")
    );
    Ok(text)
}

#[test]
fn what_is_called_comes_in_hidden_and_the_rest_stays_out() {
    let folder = tempfile::tempdir().expect("folder");
    let file = library(folder.path(), LIBRARY);
    let text = linked(&CALLS.replace("ATTRIBUTES", ""), &file, None).expect("linked");
    assert!(text.contains("define internal float @__nv_expf"), "{text}");
    assert!(text.contains("define internal float @__internal"), "{text}");
    assert!(text.contains("@table"), "{text}");
    assert!(
        !text.contains("__nv_sinf") && !text.contains("@unused"),
        "{text}"
    );
    assert!(!text.contains("call i32 @__nvvm_reflect"), "{text}");
}

#[test]
fn flushing_is_decided_by_the_caller_the_flag_or_the_functions() {
    let folder = tempfile::tempdir().expect("folder");
    let file = library(folder.path(), LIBRARY);
    let flushes = |text: &str, flush| {
        let text = linked(text, &file, flush).expect("linked");
        // The branch that is taken.
        text.contains("br label %a")
    };
    let plain = CALLS.replace("ATTRIBUTES", "");
    let attribute = CALLS.replace(
        "ATTRIBUTES",
        r#""denormal-fp-math-f32"="preserve-sign,preserve-sign""#,
    );
    let flag = |value: u32| {
        format!(
            "{plain}\n!llvm.module.flags = !{{!0}}\n!0 = !{{i32 4, !\"nvvm-reflect-ftz\", i32 {value}}}"
        )
    };
    assert!(!flushes(&plain, None));
    assert!(flushes(&plain, Some(true)));
    assert!(flushes(&attribute, None));
    assert!(!flushes(&attribute, Some(false)));
    assert!(flushes(&flag(1), None));
    assert!(!flushes(&flag(0), Some(true)));
}

#[test]
fn code_that_calls_nothing_needs_no_library() {
    let text = linked(
        "define ptx_kernel void @k() { ret void }",
        Path::new("/nowhere"),
        None,
    )
    .expect("nothing to link");
    assert!(!text.contains("__nv"), "{text}");
}

#[test]
fn errors_name_functions_and_files() {
    let folder = tempfile::tempdir().expect("folder");
    let file = library(folder.path(), LIBRARY);
    let calls = CALLS.replace("ATTRIBUTES", "");
    let error = |text: &str, file: &Path| linked(text, file, None).expect_err("wrong").to_string();

    let lacks = error(&calls.replace("__nv_expf", "__nv_nosuch"), &file);
    assert!(lacks.contains("has no __nv_nosuch"), "{lacks}");

    let missing = error(&calls, &folder.path().join("missing.bc"));
    assert!(missing.contains("missing.bc"), "{missing}");

    let other = folder.path().join("other.bc");
    std::fs::write(&other, "no bitcode").expect("file");
    let invalid = error(&calls, &other);
    assert!(invalid.contains("not LLVM bitcode"), "{invalid}");
}

#[test]
fn a_file_that_is_named_and_missing_is_not_replaced_by_another() {
    // A process of its own: nextest runs each test in one, so that its environment is its own.
    // SAFETY: no other thread of this process reads the environment.
    unsafe { std::env::set_var("R3_LIBDEVICE", "/nowhere/libdevice.10.bc") };
    let tried = libdevice::find().expect_err("missing");
    assert_eq!(tried, ["as /nowhere/libdevice.10.bc (R3_LIBDEVICE)"]);
    let context = Context::create();
    let mut diagnostics = Diagnostics::of(&context);
    let module = module(&context, &CALLS.replace("ATTRIBUTES", ""));
    let error = libdevice::link(&context, &module, &machine(), &mut diagnostics, None, None)
        .expect_err("missing")
        .to_string();
    assert!(
        error.contains("__nv_expf") && error.contains("/nowhere/libdevice.10.bc"),
        "{error}"
    );
}

/// Only where CUDA's compiler is installed.
#[test]
fn the_real_library_gives_code_without_calls() {
    let Ok(file) = libdevice::find() else {
        eprintln!("no libdevice here: nothing to compare with");
        return;
    };
    let context = Context::create();
    let mut diagnostics = Diagnostics::of(&context);
    let module = module(&context, &CALLS.replace("ATTRIBUTES", ""));
    let machine = machine();
    libdevice::link(
        &context,
        &module,
        &machine,
        &mut diagnostics,
        Some(&file),
        Some(true),
    )
    .expect("linked");
    passes::run(
        &module,
        &r3_codegen::recipe::Pipeline::Preset(r3_codegen::recipe::Preset::O3),
        &machine,
    )
    .expect("passes");
    let text = module.print_to_string().to_string();
    assert!(text.contains("ex2.approx.ftz"), "{text}");
    assert!(!text.contains("__nv_"), "{text}");
}
