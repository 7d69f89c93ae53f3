use super::{SyntaxError, Unit, base_name};

const TEXT: &str = r#"
#include "sample.h"
namespace physics {
template <int R>
__global__ void __launch_bounds__(256, 2) step(const float *__restrict__ in, float (&out)[3], int n = 4, float) {
    in[0];
}
}
__host__ __device__ inline float2 *helper(float4 a) { return other(a); }
__device__ float other(float4 a) { return a.x; }
__device__ float unused(float4 a) { return a.x; }
extern "C" __global__ void plain(float *a) { *a = helper(*a); }
__global__ void declared_only(float *a);
int main() { return 0; }
"#;

#[test]
fn functions_have_names_kinds_and_parameters() {
    let unit = Unit::parse(TEXT).unwrap();
    let lines: Vec<String> = unit
        .functions()
        .iter()
        .map(|f| {
            let parameters: Vec<String> = f
                .parameters
                .iter()
                .map(|p| format!("{}|{}", p.ty, p.name))
                .collect();
            let first = unit
                .slice(f.span.clone())
                .lines()
                .next()
                .unwrap_or_default();
            format!(
                "{} kernel={} device={} host={} ({}) {first}",
                f.name,
                f.kernel,
                f.device,
                f.host,
                parameters.join("; ")
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_kernel_is_found_by_plain_qualified_and_mangled_name() {
    let unit = Unit::parse(TEXT).unwrap();
    for name in [
        "step",
        "physics::step<3>",
        "_ZN7physics4stepILi3EEEvPKfRA3_fif",
    ] {
        assert_eq!(unit.kernel(name).unwrap().name, "step", "{name}");
    }
    assert_eq!(
        base_name("_Z6dslash7LatticePK4LinkPK6SpinorPS3_if"),
        "dslash"
    );
    assert_eq!(base_name("_ZN12_GLOBAL__N_14stepEv"), "step");
    assert_eq!(base_name("_ZL4stepv"), "step");
}

#[test]
fn a_missing_kernel_is_an_error_that_names_those_there_are() {
    let unit = Unit::parse(TEXT).unwrap();
    let error = unit.kernel("dslash").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text has no kernel dslash with a body; it has step, plain"
    );
    let twice = Unit::parse("__global__ void k(int a) {} __global__ void k(float a) {}").unwrap();
    assert!(matches!(
        twice.kernel("k"),
        Err(SyntaxError::SeveralKernels { count: 2, .. })
    ));
}

#[test]
fn reached_functions_are_those_called_through_others() {
    let unit = Unit::parse(TEXT).unwrap();
    let kernel = unit.kernel("plain").unwrap();
    let names: Vec<String> = unit.reached(&kernel).into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["helper", "other"]);
}

#[test]
fn a_text_that_is_too_deep_is_refused_and_mangled_names_that_lie_do_no_harm() {
    let deep = format!("int a = {}1{};", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(Unit::parse(&deep).unwrap_err(), SyntaxError::Unparsable);
    for name in [
        "_Z",
        "_Z99999999999999999999a",
        "_ZN",
        "_Z5ab",
        "_ZN3abc",
        "_Z2é",
    ] {
        let _ = base_name(name);
    }
}
