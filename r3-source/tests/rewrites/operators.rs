//! Each operator on small kernels: what it does, and where it must leave things alone.

use r3_source::rewrite::{self, Facts, Known};
use similar::{ChangeTag, TextDiff};

use crate::samples;

/// Four pointers of their own, 4096, an unknown number.
fn facts() -> Facts {
    samples::facts([256, 1, 1], [16, 1, 1], &["p", "p", "p", "4096", "u"])
}

/// What an operator does to a text, as differences.
fn does_with(operator: &str, text: &str, facts: &Facts) -> String {
    samples::with_k(text, facts, |scene| {
        let operator = rewrite::operator(operator).unwrap();
        let mut out = String::new();
        for site in rewrite::sites(operator, scene) {
            let done = rewrite::apply(scene, &site).unwrap();
            out.push_str(&format!("[{}] {}\n", site.choice, site.what));
            for change in TextDiff::from_lines(text, &done.text).iter_all_changes() {
                let sign = match change.tag() {
                    ChangeTag::Delete => "-",
                    ChangeTag::Insert => "+",
                    ChangeTag::Equal => continue,
                };
                out.push_str(&format!("{sign} {}\n", change.value().trim_end()));
            }
        }
        out
    })
}

fn does(operator: &str, text: &str) -> String {
    does_with(operator, text, &facts())
}

/// A kernel with a body.
fn kernel(body: &str) -> String {
    format!(
        "__global__ void k(const float *a, const float *b, float *c, int n, float s) {{\n{body}\n}}\n"
    )
}

#[test]
fn rsqrt() {
    insta::assert_snapshot!(does(
        "rsqrt",
        &kernel(
            "    int i = threadIdx.x;
    double d = a[i];
    c[0] = s / sqrtf(a[i]);
    c[1] = 1.0f / sqrt(s);
    c[2] = 1 / (sqrt(d) * 2.0);
    c[2] += 1 / (sqrtf(s) * n) + 7 / 2 / (n * sqrtf(s)) + 1 / (n * n * sqrtf(s));
    c[3] = (a[i] + 1.0f) / (s * (sqrtf(s)));
    c[4] = sqrtf(1.0f / s) + 3.0f / (s * s * std::sqrt(s));
    float r = sqrtf(s + 1.0f);
    c[5] = a[i] / r + b[i] / (r) + r;"
        )
    ));
}

#[test]
fn power() {
    insta::assert_snapshot!(does("power", &kernel(
        "    c[0] = powf(s, 2.0f) + powf(s + 1.0f, -0.5f) + pow(s, 3) + powf(s, -1.5f) + powf(s, 0.5f);
    c[1] = powf(s, a[0]) + powf(s, 2.5f) + powf(s, 7.0f);"
    )));
}

#[test]
fn exponentials() {
    insta::assert_snapshot!(does(
        "merge-exponentials",
        &kernel(
            "    float near = expf(-s * s);
    float alike = expf(s - (s > 0.0f ? 1.0f : 2.0f));
    float weight = s * near * alike;
    c[0] = weight + expf(s) * expf(a[0]);"
        )
    ));
}

#[test]
fn divisions() {
    let text = kernel(
        "    const float third = 3.0f;
    constexpr float table = 1.0f / 4.0f;
    c[0] = s / 2.0f + a[0] / -0.25f + s / 8 + n / 2 + table;
    c[1] = s / 3.0f + s / third + 1.0f / 3.0f;
    for (int i = 0; i < n; ++i) {
        c[i] = a[i] / s + b[i] / (s * 2.0f) + 1.0f / s;
    }",
    );
    insta::assert_snapshot!(does("divide-by-power-of-two", &text));
    insta::assert_snapshot!(does("divide-by-constant", &text));
    insta::assert_snapshot!(does("invert-divisor", &text));
}

#[test]
fn fast_functions() {
    let text = kernel(
        "    float x, y;
    sincosf(s, &x, &y);
    c[0] = sinf(x) + cos(y) + exp(1.0) + std::log(s) / tanhf(s) + x / y;
    c[1] += a[0] * b[0];
    c[2] = a[0] * 0.5 + 2.0 * s - 1e-60 * s;",
    );
    insta::assert_snapshot!(does("fast-intrinsics", &text));
    insta::assert_snapshot!(does("fast-division", &text));
    insta::assert_snapshot!(does("fused-multiply-add", &text));
    insta::assert_snapshot!(does("single-precision-literals", &text));
}

#[test]
fn unroll() {
    insta::assert_snapshot!(does(
        "unroll",
        &kernel(
            "    for (int i = 0; i < n; ++i) c[i] = 0.0f;
#pragma unroll 4
    for (int j = 0; j < 6; ++j) { c[j] = 1.0f; } for (int q = 0; q < 2; ++q) { c[q] = 2.0f; }"
        )
    ));
}

#[test]
fn bounds() {
    insta::assert_snapshot!(does("launch-bounds", &kernel("    c[0] = s;")));
    insta::assert_snapshot!(does(
        "launch-bounds",
        "__global__ void __launch_bounds__(128) k(float *c) { c[0] = 1; }\n"
    ));
    insta::assert_snapshot!(does(
        "force-inline",
        "__device__ float f(float x) { return x; }
static __device__ __noinline__ float g(float x) { return f(x); }
__device__ int again(int n) { return n > 0 ? again(n - 1) : 0; }
__device__ float unused(float x) { return x; }
__global__ void k(float *c) { c[0] = g(c[1]) + again(3); }
"
    ));
}

#[test]
fn pointers() {
    let text = "extern \"C\" __global__ void k(float *a, float *b, float *c, int n, float s) {
    int i = threadIdx.x;
    c[i] = a[i] + *b;
    c[i + 1] += a[i + 1];
}
";
    for operator in ["restrict", "const", "read-only-loads"] {
        insta::assert_snapshot!(does(operator, text));
    }
}

#[test]
fn pointers_into_one_allocation_stay_as_they_are_when_one_is_written() {
    let mut facts = facts();
    // The first and the third: one that is read and one that is written.
    facts.parameters[2] = facts.parameters[0];
    let text = kernel("    int i = threadIdx.x;\n    c[i] = a[i] + b[i];");
    insta::assert_snapshot!(does_with("restrict", &text, &facts));
    insta::assert_snapshot!(does_with("read-only-loads", &text, &facts));
    // Nothing is known of them.
    facts.parameters.clear();
    assert_eq!(does_with("restrict", &text, &facts), "");
    assert_eq!(does_with("read-only-loads", &text, &facts), "");
}

#[test]
fn padding() {
    insta::assert_snapshot!(does(
        "pad-shared-memory",
        &kernel(
            "    __shared__ float tile[16][16], line[16], seen[4][4], big[96][128];
    tile[threadIdx.y][threadIdx.x] = s;
    line[0] = tile[0][1];
    float *p = &seen[0][0];
    c[0] = p[0] + big[0][0];"
        )
    ));
}

#[test]
fn grid_stride() {
    insta::assert_snapshot!(does(
        "grid-stride",
        &kernel(
            "    // r3: launch block=64
    const int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n) return;
    c[i] = a[i];"
        )
    ));
}

#[test]
fn vectors() {
    insta::assert_snapshot!(does(
        "vector-access",
        &kernel(
            "    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = a[i];
        if (x > 0.0f) {
            c[i] = x;
        }
    }"
        )
    ));
    insta::assert_snapshot!(does(
        "vector-access",
        &kernel(
            "    float sum = 0.0f;
    for (int j = 0; j < n; ++j) {
        sum += a[threadIdx.x * n + j] * b[j + 1];
    }
    c[threadIdx.x] = sum;"
        )
    ));
    insta::assert_snapshot!(does(
        "vector-sums",
        &kernel(
            "    float sum = 0.0f;
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x) {
        sum += a[j];
    }
    atomicAdd(c, sum);"
        )
    ));
}

#[test]
fn narrow() {
    insta::assert_snapshot!(does(
        "narrow-integers",
        &kernel(
            "    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (long long j = 0; j < n; ++j) {
        c[i] += a[(size_t)j * n + 1] + b[static_cast<size_t>(j) * n * n];
    }"
        )
    ));
}

#[test]
fn nests() {
    insta::assert_snapshot!(does(
        "interchange",
        &kernel(
            "    int sum = 0;
    for (int i = 0; i < 8; ++i) {
        for (int j = 0; j < 32; ++j) {
            c[i * 32 + j] = a[j] + b[i];
            sum += j;
        }
    }
    c[0] = sum;"
        )
    ));
    let sums = kernel(
        "    float sum = 0.0f;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            sum += a[i] * b[j];
    c[0] = sum;",
    );
    assert_eq!(does("interchange", &sums), "");
    insta::assert_snapshot!(does("interchange-sums", &sums));
    insta::assert_snapshot!(does(
        "fuse-loops",
        &kernel(
            "    float t = 0.0f;
    for (int i = 0; i < n; ++i) {
        c[i] = a[i];
    }
    // And then
    for (int j = 0; j < n; ++j) {
        c[j] *= b[j];
        t += c[j];
    }
    c[0] = t;"
        )
    ));
}

#[test]
fn registers() {
    insta::assert_snapshot!(does(
        "hold-in-register",
        &kernel(
            "    int row = threadIdx.x;
    for (int j = 0; j < n; ++j) {
        c[row] += a[j] * b[row];
    }"
        )
    ));
}

#[test]
fn sums() {
    insta::assert_snapshot!(does(
        "split-sums",
        &kernel(
            "    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += a[j];
    c[0] = sum;"
        )
    ));
}

#[test]
fn alignment() {
    let text = "struct C { float re, im; C operator+(C o) const; };
struct Pair { C both[2]; int tag[2]; };
struct Odd { float x[3]; };
__global__ void k(const C *a, Pair *b, const Odd *c) { b[0].both[0].re = a[0].re + c[0].x[0]; }
";
    insta::assert_snapshot!(does("align-structure", text));
    let mut known = facts();
    known.parameters[1] = Known::Pointer {
        alignment: 4,
        bytes: 1024,
        allocation: 2,
    };
    assert_eq!(does_with("align-structure", text, &known), "");
}

/// Where an operator must leave things alone: the operator, the body, and why.
const NOT: &[(&str, &str, &str)] = &[
    (
        "rsqrt",
        "auto sqrtf = [](float x) { return x; }; c[0] = s / sqrtf(s);",
        "a local name hides the function",
    ),
    ("rsqrt", "c[0] = n / sqrtf2(s);", "another function"),
    (
        "rsqrt",
        "float r = sqrtf(s); r += 1.0f; c[0] = s / r;",
        "the root changes",
    ),
    (
        "rsqrt",
        "float r = sqrtf(c[1]++); c[0] = s / r;",
        "its argument has an effect",
    ),
    (
        "rsqrt",
        "half r; c[0] = r / sqrt(r);",
        "types that are not known",
    ),
    (
        "power",
        "c[0] = powf(c[1]++, 2.0f);",
        "the base has an effect",
    ),
    ("divide-by-power-of-two", "c[0] = n / 2;", "whole numbers"),
    (
        "divide-by-power-of-two",
        "c[0] = s / 3.0f + s / 0.0f;",
        "no powers of two",
    ),
    (
        "divide-by-power-of-two",
        "c[0] = s / 1e-40f;",
        "the reciprocal is no normal number",
    ),
    ("divide-by-constant", "c[0] = s / 0.0f;", "zero"),
    (
        "invert-divisor",
        "for (int i = 0; i < n; ++i) { s += 1.0f; c[i] = a[i] / s + b[i] / s; }",
        "the divisor changes",
    ),
    (
        "invert-divisor",
        "for (int i = 0; i < n; ++i) { c[i] = b[i] / a[0]; }",
        "memory could change",
    ),
    (
        "merge-exponentials",
        "float x = expf(s); s = 1.0f; c[0] = x * expf(s);",
        "what it is of changes in between",
    ),
    (
        "fast-intrinsics",
        "double d = s; c[0] = sin(d);",
        "double precision",
    ),
    (
        "fast-division",
        "c[0] = n / 3; double d = s / 2.0;",
        "no floats",
    ),
    (
        "pad-shared-memory",
        "__shared__ float t[8][8]; float (*p)[8] = t; c[0] = p[0][0];",
        "the array decays",
    ),
    (
        "pad-shared-memory",
        "__shared__ float t[8][8]; c[0] = sizeof(t);",
        "its size is asked for",
    ),
    (
        "pad-shared-memory",
        "volatile __shared__ float t[8][8]; c[0] = t[0][0];",
        "volatile",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; __syncthreads(); c[i] = s;",
        "a barrier",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[i] = __shfl_sync(~0u, s, 0); }",
        "a shuffle",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { if (s > 1) return; c[i] = s; }",
        "it returns early",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[i] = s; } c[0] = 1;",
        "something comes after it",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { i++; c[i] = s; }",
        "the counter changes",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < c[0]) { c[i] = s; }",
        "the bound is memory",
    ),
    (
        "grid-stride",
        "int threadIdx = 0; int i = blockIdx.x * blockDim.x + threadIdx; if (i < n) { c[i] = s; }",
        "a hidden name",
    ),
    (
        "vector-access",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[i + 1] = a[i + 1]; }",
        "not aligned",
    ),
    (
        "vector-access",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n - 1) { c[i] = a[i]; }",
        "no multiple of a group",
    ),
    (
        "vector-access",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { if (s > 0) c[i] = a[i]; }",
        "not reached each time",
    ),
    (
        "vector-access",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[i] = c[n - 1 - i]; }",
        "stored and read elsewhere",
    ),
    (
        "vector-access",
        "for (int j = 0; j < n; ++j) { c[j] = a[j]; if (s > 0) break; }",
        "it leaves early",
    ),
    (
        "vector-access",
        "for (int j = 0; j < n; ++j) { __syncthreads(); c[j] = a[j]; }",
        "a barrier",
    ),
    (
        "vector-access",
        "for (int j = 0; j < n; j += 2) { c[j] = a[j]; }",
        "not consecutive",
    ),
    (
        "narrow-integers",
        "c[0] = a[(size_t)n * n * n];",
        "too large",
    ),
    ("narrow-integers", "size_t i = s; c[0] = a[i];", "not known"),
    (
        "narrow-integers",
        "size_t i = threadIdx.x; size_t *p = &i; c[0] = a[i];",
        "its address is taken",
    ),
    (
        "vector-access",
        "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) { if (a[i] < 0) continue; c[i] = a[i]; }",
        "an element is left out",
    ),
    (
        "vector-access",
        "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) { c[i] = a[i] + threadIdx.x; }",
        "other threads would do the elements",
    ),
    (
        "vector-access",
        "int lane = threadIdx.x & 31; int other; other = lane + 1; for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) { c[i] = a[i] + other; }",
        "other threads would do the elements",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[threadIdx.x + blockIdx.x * blockDim.x] = a[i]; }",
        "the number of the block is another",
    ),
    (
        "grid-stride",
        "int block = blockIdx.x; float *at = c + block; int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { at[threadIdx.x] = a[i]; }",
        "the number of the block is another",
    ),
    (
        "grid-stride",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[i] = gridDim.x; }",
        "the number of blocks is another",
    ),
    (
        "narrow-integers",
        "int m = s; size_t i = threadIdx.x; if (i < m) c[i] = 0;",
        "a negative number is large in the comparison",
    ),
    (
        "narrow-integers",
        "int m = s; size_t i = threadIdx.x; if (m > i + 1) c[i] = 0;",
        "a negative number is large in the comparison",
    ),
    (
        "narrow-integers",
        "unsigned m = s; long long i = (int)threadIdx.x - 1; if (i < m) c[i + 1] = 0;",
        "a negative number would become large in the comparison",
    ),
    (
        "narrow-integers",
        "size_t i = (int)threadIdx.x - 1; if (i < n) c[i] = 0;",
        "a negative number became large",
    ),
    (
        "narrow-integers",
        "unsigned u = threadIdx.x - 1u; long long i = u; if (i < n) c[i] = 0;",
        "a difference wraps round",
    ),
    (
        "narrow-integers",
        "long long i = (unsigned)((int)threadIdx.x - 1); if (i < n) c[i] = 0;",
        "a cast wraps round",
    ),
    (
        "narrow-integers",
        "unsigned char u = threadIdx.x * 3; long long i = u - 300; if (i < 0u) c[-i] = 0;",
        "a narrow type wraps round",
    ),
    (
        "interchange",
        "for (int i = 0; i < n; ++i) { for (int j = i; j < n; ++j) { c[j] = a[i]; } }",
        "the heads depend",
    ),
    (
        "interchange",
        "for (int i = 0; i < 8; ++i) { for (int j = 0; j < 8; ++j) { c[i + j] += a[i]; } }",
        "elements of several iterations",
    ),
    (
        "interchange",
        "for (int i = 0; i < 8; ++i) { for (int j = 0; j < 8; ++j) { c[i * 8 + j] = c[i * 8 + j + 1]; } }",
        "a neighbour",
    ),
    (
        "interchange",
        "for (int i = 0; i < 8; ++i) { for (int j = 0; j < 8; ++j) { c[i * 8 + j] = 0; __syncthreads(); } }",
        "a barrier",
    ),
    (
        "interchange",
        "for (int i = 0; i < 8; ++i) { for (int j = 0; j < 8; ++j) { atomicAdd(&c[j], a[i]); } }",
        "atomics",
    ),
    (
        "interchange",
        "for (int i = 0; i < 8; ++i) { c[i] = 0; for (int j = 0; j < 8; ++j) { c[i * 8 + j] = 1; } }",
        "no perfect nest",
    ),
    (
        "fuse-loops",
        "for (int i = 0; i < n; ++i) { c[i] = 1; } for (int i = 0; i < n; ++i) { s += c[i + 1]; }",
        "a later iteration",
    ),
    (
        "fuse-loops",
        "for (int i = 0; i < n; ++i) { s += a[i]; } for (int i = 0; i < n; ++i) { c[i] = s; }",
        "a sum that is used",
    ),
    (
        "fuse-loops",
        "for (int i = 0; i < n; ++i) { c[i] = 1; } for (int i = 0; i < n - 1; ++i) { c[i] = 2; }",
        "other heads",
    ),
    (
        "fuse-loops",
        "for (int i = 0; i < n; ++i) { c[0] = i; } for (int i = 0; i < n; ++i) { c[i] = c[0]; }",
        "one element for all",
    ),
    (
        "fuse-loops",
        "for (int i = 0; i < n; ++i) { c[i] = 1; } __syncthreads(); for (int i = 0; i < n; ++i) { c[i] = 2; }",
        "a barrier",
    ),
    (
        "fuse-loops",
        "for (int i = 0; i < n; ++i) { if (s > 0) continue; c[i] = 1; } for (int i = 0; i < n; ++i) { c[i] = 2; }",
        "it leaves early",
    ),
    (
        "hold-in-register",
        "for (int i = 0; i < n; ++i) { c[0] += c[i]; }",
        "it may be the same element",
    ),
    (
        "hold-in-register",
        "for (int i = 0; i < n; ++i) { if (s > 0) c[0] += a[i]; }",
        "not written each time",
    ),
    (
        "hold-in-register",
        "for (int i = 0; i < n; ++i) { c[0] += a[i]; __syncthreads(); }",
        "a barrier",
    ),
    (
        "split-sums",
        "for (int i = 0; i < n; ++i) { s += a[i]; c[i] = s; }",
        "the sum is used",
    ),
    (
        "split-sums",
        "for (int i = 0; i < n; ++i) { c[i] += a[i]; }",
        "memory",
    ),
    (
        "read-only-loads",
        "c[0] = a[0]; float *p = const_cast<float *>(a); p[0] = 1;",
        "written through another pointer",
    ),
    (
        "read-only-loads",
        "asm volatile(\"st.global.f32 [%0], 0f00000000;\" :: \"l\"(a)); c[0] = a[0];",
        "assembly",
    ),
];

#[test]
fn what_is_not_safe_is_left_alone() {
    let mut wrong = Vec::new();
    for (operator, body, why) in NOT {
        let text = kernel(&format!("    {body}"));
        let done = does(operator, &text);
        if !done.is_empty() {
            wrong.push(format!("{operator}, {why}: {body}\n{done}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn elements_that_know_their_thread_and_other_axes_may_get_fewer_blocks() {
    for body in [
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[i] = a[i] + threadIdx.x; }",
        "int y = blockIdx.y; int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { c[y * n + i] = a[i] * gridDim.y; }",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { for (int j = 0; j < 4; ++j) { if (a[j] < 0) break; c[i] += a[j]; } }",
    ] {
        assert!(
            does("grid-stride", &kernel(body)).contains("grid=1/4"),
            "{body}"
        );
    }
}

#[test]
fn pointers_that_may_meet_what_is_not_known_stay_as_they_are() {
    let head = "struct S { float *at; };\n__device__ float *file;\n__device__ float table[64];\n\
                __device__ void helper() { file[0] = 1; }\n\
                __global__ void k(const float *a, const float *b, float *c, S s)";
    let restricted = |body: &str| {
        let done = does("restrict", &format!("{head} {{\n    {body}\n}}\n"));
        done.matches("__restrict__ a").count() * 10 + done.matches("__restrict__ c").count()
    };
    assert_eq!(restricted("c[0] = a[0] + table[1];"), 11);
    assert_eq!(restricted("c[0] = a[0]; table[0] = 1;"), 11);
    // What is only read meets no other reader; what is written meets all.
    assert_eq!(restricted("c[0] = a[0] + s.at[0];"), 10);
    assert_eq!(restricted("c[0] = a[0] + file[0];"), 10);
    assert_eq!(restricted("s.at[0] = 1; c[0] = a[0];"), 0);
    assert_eq!(restricted("*file = 1; c[0] = a[0];"), 0);
    assert_eq!(restricted("helper(); c[0] = a[0];"), 0);
}

#[test]
fn macros_are_not_looked_through() {
    for (operator, text) in [
        (
            "rsqrt",
            "#define sqrtf(x) other(x)\n__global__ void k(float *c, float s) { c[0] = s / sqrtf(s); }",
        ),
        (
            "power",
            "#define NEXT (*c++)\n__global__ void k(float *c) { c[0] = powf(NEXT, 2.0f); }",
        ),
        (
            "interchange",
            "#define STEP(x) x = x + c[0]\n__global__ void k(float *c) { for (int i = 0; i < 8; ++i) { for (int j = 0; j < 8; ++j) { STEP(c[i * 8 + j]); } } }",
        ),
        (
            "fuse-loops",
            "#define SYNC() __syncthreads()\n__global__ void k(float *c, int n) { for (int i = 0; i < n; ++i) { c[i] = 1; } for (int i = 0; i < n; ++i) { SYNC(); c[i] = 2; } }",
        ),
        (
            "hold-in-register",
            "__global__ void k(float *c, int n) { for (int i = 0; i < n; ++i) {\n#ifdef X\nc[1] = 2;\n#endif\nc[0] += 1; } }",
        ),
    ] {
        assert_eq!(does(operator, text), "", "{operator}: {text}");
    }
}

#[test]
fn volatile_memory_is_left_alone() {
    let text = "__global__ void k(volatile float *a, volatile float *b, volatile float *c, int n, float s) {
    for (int i = 0; i < n; ++i) {
        c[0] += a[i];
    }
    c[1] = powf(a[0], 2.0f);
}
";
    for operator in [
        "hold-in-register",
        "restrict",
        "read-only-loads",
        "vector-access",
        "power",
        "const",
    ] {
        assert_eq!(does(operator, text), "", "{operator}");
    }
}

#[test]
fn host_code_and_other_kernels_are_left_alone() {
    let text = "float host(float x) { return 1.0f / sqrtf(x); }
__global__ void other(float *c) { c[0] = 1.0f / sqrtf(c[1]); }
__global__ void k(float *c) { c[0] = 1.0f; }
";
    for operator in rewrite::all() {
        if !["launch-bounds", "restrict"].contains(&operator.name()) {
            assert_eq!(does(operator.name(), text), "", "{}", operator.name());
        }
    }
}
