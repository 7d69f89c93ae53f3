//! Exact rewrites of kernels that tie no threads together, compiled for the host and run thread by thread: the same bytes.

use std::process::Command;

use r3_source::directive::GridWish;
use r3_source::rewrite;

use crate::compile::clang;
use crate::samples;

const KERNELS: &[&str] = &[
    "int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n - 3) {
        c[y * n + x] = a[y * n + x] / 4.0f + b[x];
    }",
    "int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y >= n || x >= n - 1) return;
    float sum = 0.0f;
    for (int j = 0; j < 8; ++j) { sum += a[y * n + j] * b[j]; }
    c[y * n + x] = sum;",
    "int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= n) return;
    for (int j = 0; j < n; ++j) { c[x * n + j] = a[x] * b[x] + a[j]; }
    for (int j = 0; j < n; ++j) { c[x * n + j] += b[j] / 2.0f; }",
];

fn program(kernels: &str, runs: &str) -> String {
    format!(
        "#include <cstdio>
#include <cstring>
#define __global__
#define __restrict__
#define __launch_bounds__(...)
#define __ldg(p) (*(p))
struct Size {{ unsigned x, y, z; }};
static Size threadIdx, blockIdx, blockDim, gridDim;
struct alignas(16) float4 {{ float x, y, z, w; }};
{kernels}
template <typename K> void launch(K kernel, Size grid, Size block, const float *a, const float *b, float *c) {{
    gridDim = grid; blockDim = block;
    for (unsigned by = 0; by < grid.y; ++by) for (unsigned bx = 0; bx < grid.x; ++bx)
    for (unsigned ty = 0; ty < block.y; ++ty) for (unsigned tx = 0; tx < block.x; ++tx) {{
        blockIdx = {{bx, by, 0}}; threadIdx = {{tx, ty, 0}};
        kernel(a, b, c, 64, 0.5f);
    }}
}}
alignas(256) static float a[8192], b[8192], first[8192], c[8192];
int main() {{
    for (int i = 0; i < 8192; ++i) {{ a[i] = i % 37 * 0.37f; b[i] = i % 11 - 4.9f; }}
{runs}
    return 0;
}}
"
    )
}

#[test]
fn exact_rewrites_leave_the_same_bytes_when_run_thread_by_thread() {
    let Some(clang) = clang() else {
        eprintln!("skipped: there is no clang 22 here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let facts = samples::facts([16, 16, 1], [4, 4, 1], &["p", "p", "p", "64", "u"]);
    let (mut kernels, mut runs, mut count) = (String::new(), String::new(), 0);
    for (number, body) in KERNELS.iter().enumerate() {
        let text = format!(
            "__global__ void k(const float *a, const float *b, float *c, int n, float s) {{\n    {body}\n}}\n"
        );
        kernels += &format!("namespace original{number} {{\n{text}}}\n");
        runs += &format!(
            "    memset(first, 0, sizeof first); launch(original{number}::k, {{4, 4, 1}}, {{16, 16, 1}}, a, b, first);\n"
        );
        let rewritten = samples::with_k(&text, &facts, |scene| {
            let mut exact = rewrite::all_sites(scene);
            exact.retain(|site| rewrite::operator(&site.operator).unwrap().exact());
            let done = exact
                .iter()
                .map(|site| rewrite::apply(scene, site).unwrap());
            let done: Vec<_> = done.collect();
            exact.into_iter().zip(done).collect::<Vec<_>>()
        });
        for (site, done) in rewritten {
            let wishes = done.directive.unwrap_or_default().grid;
            let grid: Vec<String> = wishes
                .iter()
                .take(2)
                .map(|wish| match wish {
                    GridWish::Scale(times, by) => (4 * times).div_ceil(*by).to_string(),
                    _ => "4".to_owned(),
                })
                .collect();
            kernels += &format!("namespace rewritten{count} {{\n{}}}\n", done.text);
            runs += &format!(
                "    memset(c, 0, sizeof c); launch(rewritten{count}::k, {{{}, 1}}, {{16, 16, 1}}, a, b, c);
    if (memcmp(first, c, sizeof c)) {{ puts(\"{} {} {number}\"); }}\n",
                grid.join(", "),
                site.operator,
                site.choice
            );
            count += 1;
        }
    }
    assert!(kernels.contains("y += blockDim.y * gridDim.y"), "two axes");
    assert!(count > 20, "{count}");
    let file = folder.path().join("all.cpp");
    let binary = folder.path().join("all");
    std::fs::write(&file, program(&kernels, &runs)).unwrap();
    let built = Command::new(clang)
        .args(["-std=c++17", "-w", "-O0", "-ffp-contract=off", "-o"])
        .arg(&binary)
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let ran = Command::new(&binary).output().unwrap();
    assert!(ran.status.success());
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "");
}
