//! CUDA C++ by the compilers that are here: clang without a toolkit, which the set-up script brings, and NVIDIA's where
//! they are found.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use r3_codegen::recipe::{Code, Compiler, FailureKind, Source, Stage};
use r3_codegen::source::{Compiled, compile, find};

const KERNEL: &str = r#"
#include <cmath>
#ifndef SCALE
#define SCALE 2.0f
#endif
struct Pair { float a; double b; };
template <class T> __device__ T twice(T x) { return x + x; }
__constant__ float table[4];
__global__ void __launch_bounds__(128) k(Pair pair, const float *in, float *out, int n) {
    __shared__ float tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    float x = tile[threadIdx.x ^ 1] * SCALE + sqrtf(fabsf(tile[threadIdx.x])) + table[threadIdx.x & 3];
    x += __shfl_xor_sync(0xffffffffu, x, 1) + twice(pair.a) + std::fmax(x, float(pair.b)) + __popc(n) + min(n, 3);
    if (i < n) { out[i] = rsqrtf(x); atomicAdd(out, x); }
}
"#;

fn source(compiler: Compiler, text: &str, options: &[&str]) -> Source {
    Source {
        text: text.to_owned(),
        name: PathBuf::from("k.cu"),
        headers: Vec::new(),
        name_expressions: Vec::new(),
        compiler,
        program: None,
        options: options.iter().map(|&option| option.to_owned()).collect(),
        directory: None,
    }
}

/// `None` when this compiler is not here. clang is always.
fn compiled(source: &Source) -> Option<Compiled> {
    match compile(source, "sm_90") {
        Ok(compiled) => Some(compiled),
        Err(failure) => {
            assert_eq!(
                failure.kind,
                FailureKind::MissingTool,
                "{failure}\n{}",
                failure.log
            );
            assert_ne!(source.compiler, Compiler::Clang, "{failure}");
            None
        }
    }
}

fn layout(code: &Code) -> Vec<(u32, u32)> {
    let Code::Ptx(ptx) = code else {
        panic!("not PTX");
    };
    let image = r3_image::Image::parse(ptx.as_bytes());
    let name = image.kernel_names().first().cloned().unwrap();
    assert_eq!(name, "_Z1k4PairPKfPfi");
    image.kernel_layout(&name).unwrap()
}

const LAYOUT: [(u32, u32); 4] = [(0, 16), (16, 8), (24, 8), (32, 4)];

#[test]
fn clang_compiles_a_plain_kernel_without_a_toolkit() {
    let compiled = compiled(&source(Compiler::Clang, KERNEL, &["--cuda-path=none"])).unwrap();
    let Code::Bitcode(bitcode) = compiled.code else {
        panic!("clang 22 gives bitcode");
    };
    assert!(bitcode.starts_with(b"BC"));
    assert!(
        compiled.compiler.starts_with("clang "),
        "{}",
        compiled.compiler
    );
    assert!(
        compiled.notes[0].contains("no CUDA toolkit"),
        "{:?}",
        compiled.notes
    );
    // Nothing of libdevice is left to be linked.
    let text = String::from_utf8_lossy(&bitcode);
    assert!(text.contains("_Z1k4PairPKfPfi"));
    assert!(!compiled.command.iter().any(|word| word == "-o"));
}

#[test]
fn the_sample_programs_with_plain_kernels_need_no_toolkit() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/programs");
    for name in [
        "wilson",
        "saxpy",
        "matmul",
        "reduction",
        "pointer_chase",
        "global_pointers",
        "nbody",
        "managed",
        "threads",
        "large_params",
        "printf_heap",
    ] {
        let path = PathBuf::from(folder).join(format!("{name}.cu"));
        let source = Source {
            text: std::fs::read_to_string(&path).unwrap(),
            name: path,
            ..source(Compiler::Clang, "", &["--cuda-path=none", "-std=c++17"])
        };
        assert!(compiled(&source).is_some(), "{name}");
    }
}

#[test]
fn what_needs_a_toolkit_says_so() {
    let text = "#include <cooperative_groups.h>\n";
    let failure = compile(
        &source(Compiler::Clang, text, &["--cuda-path=none"]),
        "sm_90",
    )
    .unwrap_err();
    assert_eq!(
        (failure.stage, failure.kind),
        (Stage::Source, FailureKind::Refused)
    );
    assert!(
        failure
            .message
            .contains("'cooperative_groups.h' file not found"),
        "{failure}"
    );
    assert!(failure.message.contains("no CUDA toolkit"), "{failure}");
}

#[test]
fn the_first_error_is_the_message_and_the_log_has_the_rest() {
    let text = "__global__ void k(int *p) { *p = first_mistake; second_mistake(); }";
    for compiler in [Compiler::Clang, Compiler::Nvcc, Compiler::Nvrtc] {
        let Err(failure) = compile(&source(compiler, text, &[]), "sm_90") else {
            panic!("{compiler:?} takes it");
        };
        if failure.kind == FailureKind::MissingTool {
            continue;
        }
        assert_eq!(
            (failure.stage, failure.kind),
            (Stage::Source, FailureKind::Refused)
        );
        assert!(failure.message.contains("first_mistake"), "{failure}");
        assert!(failure.log.contains("second_mistake"), "{}", failure.log);
    }
}

#[test]
fn every_compiler_gives_the_kernel_with_its_parameters() {
    for compiler in [Compiler::Nvcc, Compiler::Nvrtc] {
        // NVRTC has no standard library.
        let text = match compiler {
            Compiler::Nvrtc => {
                KERNEL.replace("#include <cmath>", "namespace std { using ::fmax; }")
            }
            _ => KERNEL.to_owned(),
        };
        let Some(compiled) = compiled(&source(compiler, &text, &["-DSCALE=3.0f", "-O3"])) else {
            continue;
        };
        assert_eq!(layout(&compiled.code), LAYOUT, "{}", compiled.compiler);
        let Code::Ptx(ptx) = &compiled.code else {
            unreachable!()
        };
        assert!(ptx.contains(".target sm_90"));
        assert!(ptx.contains("0f40400000"), "SCALE is 3");
        assert!(compiled.command.iter().any(|word| word == "-DSCALE=3.0f"));
    }
}

#[test]
fn headers_beside_the_file_and_given_by_name_are_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("beside.h"), "#define A 1\n").unwrap();
    let text = "#include \"beside.h\"\n#include \"given/by_name.h\"\n__global__ void k(int *p) { *p = A + B; }";
    for compiler in [Compiler::Clang, Compiler::Nvcc, Compiler::Nvrtc] {
        let source = Source {
            // A variant of a file that is there.
            name: folder.path().join("k.cu"),
            headers: vec![("given/by_name.h".to_owned(), "#define B 2\n".to_owned())],
            ..source(compiler, text, &[])
        };
        compiled(&source);
    }
    let outside = Source {
        headers: vec![("../escape.h".to_owned(), String::new())],
        ..source(Compiler::Clang, "", &[])
    };
    let failure = compile(&outside, "sm_90").unwrap_err();
    assert!(
        failure.message.contains("leads out of its folder"),
        "{failure}"
    );
}

#[test]
fn a_folder_of_another_machine_is_named() {
    let source = Source {
        directory: Some("/nonexistent/build".into()),
        ..source(Compiler::Clang, KERNEL, &[])
    };
    let failure = compile(&source, "sm_90").unwrap_err();
    assert!(
        failure
            .message
            .contains("/nonexistent/build, is not on this machine"),
        "{failure}"
    );
}

#[test]
fn nvrtc_makes_the_instances_that_are_named() {
    let text = "namespace n { template <class T> __global__ void scale(T *p, T a) { *p *= a; } }";
    let source = Source {
        name_expressions: vec!["n::scale<float>".to_owned(), "&n::scale<double>".to_owned()],
        ..source(Compiler::Nvrtc, text, &["--std=c++17", "-default-device"])
    };
    let Some(compiled) = compiled(&source) else {
        return;
    };
    let Code::Ptx(ptx) = &compiled.code else {
        panic!("NVRTC gives PTX")
    };
    for name in ["_ZN1n5scaleIfEEvPT_S1_", "_ZN1n5scaleIdEEvPT_S1_"] {
        assert!(ptx.contains(name), "{ptx}");
    }
}

#[test]
fn any_takes_what_is_there() {
    let compiled = compiled(&source(Compiler::Any, KERNEL, &["--cuda-path=none"])).unwrap();
    let first = [Compiler::Nvcc, Compiler::Nvrtc, Compiler::Clang]
        .into_iter()
        .find(|compiler| {
            find::kind(compiled.compiler.split(' ').next().unwrap().as_ref()) == Some(*compiler)
        });
    assert!(first.is_some(), "{}", compiled.compiler);
}

#[test]
fn the_same_source_comes_out_the_same_each_time() {
    // Each compilation has a folder of its own: neither names of what one file sees nor `__FILE__` may tell it.
    let text = "namespace { __device__ float kept[4]; __global__ void k(float *x, char *at) {\n\
                x[0] = kept[1]; kept[2] = x[1]; at[0] = __FILE__[at[1]]; } }\n\
                void launch() { k<<<1, 1>>>(nullptr, nullptr); }\n";
    for (compiler, options) in [
        (Compiler::Clang, &["--cuda-path=none"][..]),
        (Compiler::Nvcc, &[]),
    ] {
        let source = source(compiler, text, options);
        let Some(first) = compiled(&source) else {
            continue;
        };
        let second = compiled(&source).unwrap();
        assert_eq!(first.kernels, second.kernels);
        assert_eq!(first.kernels.len(), 1);
        assert!(first.code == second.code, "{compiler:?}");
    }
    let device = text.split("void launch").next().unwrap();
    let source = Source {
        name_expressions: vec!["k".to_owned()],
        ..source(Compiler::Nvrtc, device, &[])
    };
    if let Some(first) = compiled(&source) {
        assert!(first.code == compiled(&source).unwrap().code);
    }
}

#[test]
fn messages_of_compilers_name_the_file_and_no_folder_of_ours() {
    for (compiler, options) in [
        (Compiler::Clang, &["--cuda-path=none"][..]),
        (Compiler::Nvcc, &[]),
        (Compiler::Nvrtc, &[]),
    ] {
        let source = source(compiler, "\n__global__ void k() { x = 1; }\n", options);
        let failure = compile(&source, "sm_90").unwrap_err();
        if failure.kind == FailureKind::MissingTool {
            continue;
        }
        let all = format!("{}\n{}", failure.message, failure.log);
        assert!(all.contains("k.cu"), "{all}");
        assert!(!all.contains("r3-compile-"), "{all}");
    }
}
