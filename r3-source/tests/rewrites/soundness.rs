//! Kernels made to mislead: each rewrite applies to a plain form, and must not to the same form with a trap in it.

use r3_source::rewrite::{self, Facts, Scene};
use r3_source::syntax::Unit;

use crate::samples;

fn facts() -> Facts {
    samples::facts([256, 1, 1], [16, 1, 1], &["p", "p", "p", "4096", "u"])
}

fn sites(operator: &str, text: &str) -> usize {
    sites_with(operator, text, &facts())
}

fn sites_with(operator: &str, text: &str, facts: &Facts) -> usize {
    samples::with_k(text, facts, |scene| {
        rewrite::sites(rewrite::operator(operator).unwrap(), scene).len()
    })
}

/// What stands above the kernel, and its body.
fn kernel(above: &str, body: &str) -> String {
    format!(
        "{above}\n__global__ void k(const float *a, const float *b, float *c, int n, float s) {{\n{body}\n}}\n"
    )
}

/// The operator applies to the first, and to none of the others.
fn applies_but_not(operator: &str, plain: (&str, &str), traps: &[(&str, &str)]) {
    let (above, body) = plain;
    assert!(
        sites(operator, &kernel(above, body)) > 0,
        "{operator}: {body}"
    );
    for (above, body) in traps {
        assert_eq!(
            sites(operator, &kernel(above, body)),
            0,
            "{operator}: {above}\n{body}"
        );
    }
}

const INDEX: &str = "int i = blockIdx.x * blockDim.x + threadIdx.x;";

#[test]
fn a_loop_over_a_thread_s_elements_finds_nothing_of_the_one_before() {
    let body = |before: &str, work: &str| format!("{before} {INDEX} if (i < n) {{ {work} }}");
    let plain = body("float v = s;", "c[i] = a[i] + v;");
    let traps = [
        body("float v = s;", "v += a[i]; c[i] = v;"),
        body("float v[2] = {s, s};", "v[0] += a[i]; c[i] = v[0];"),
        body("", "a += i; c[i] = a[0];"),
        body("float v = s; float *p = &v;", "*p += a[i]; c[i] = v;"),
        body("float v = s; float &r = v;", "r += a[i]; c[i] = v;"),
        body("int v = 0;", "c[i] = a[v++];"),
        body("float2 v = make_float2(s, s);", "v.x += a[i]; c[i] = v.x;"),
    ];
    let traps: Vec<_> = traps.iter().map(|body| ("", body.as_str())).collect();
    applies_but_not("grid-stride", ("", &plain), &traps);
}

#[test]
fn what_stands_in_front_of_the_work_is_the_same_for_all_blocks() {
    let body = |before: &str, work: &str| format!("{before} {INDEX} if (i < n) {{ {work} }}");
    let plains = [
        (
            "",
            body("float v = 0; if (s > 1) v = s;", "c[i] = a[i] + v;"),
        ),
        ("", body("if (n < 0) return;", "c[i] = a[i];")),
        (
            "",
            body(
                "__shared__ float t[256]; t[threadIdx.x] = b[threadIdx.x]; __syncthreads();",
                "c[i] = a[i] + t[0];",
            ),
        ),
        (
            "__device__ int half_of(int n) { return n / 2; }",
            body("int h = half_of(n);", "c[i] = a[h];"),
        ),
    ];
    for (above, plain) in &plains {
        assert!(sites("grid-stride", &kernel(above, plain)) > 0, "{plain}");
    }
    let number = "__device__ void number(int *p) { *p = blockIdx.x; }";
    let traps = [
        (
            "",
            body("float v = 0; if (blockIdx.x == 3) v = s;", "c[i] = v;"),
        ),
        (
            "",
            body("int v = 0; if (blockIdx.x == 3) v++;", "c[i] = a[v];"),
        ),
        (
            "",
            body("int v = 0; blockIdx.x == 3 && (v = 1);", "c[i] = a[v];"),
        ),
        (
            "",
            body(
                "__shared__ float t; if (threadIdx.x == 0) t = a[blockIdx.x]; __syncthreads();",
                "c[i] = t;",
            ),
        ),
        (
            "",
            body(
                "__shared__ float t[2]; int m = blockIdx.x & 1; t[m] = s; __syncthreads();",
                "c[i] = t[0];",
            ),
        ),
        (
            "#define BLOCK blockIdx.x",
            body("int v = BLOCK;", "c[i] = a[v];"),
        ),
        ("", body("n -= blockIdx.x;", "c[i] = a[i];")),
        ("", body("a += blockIdx.x;", "c[i] = a[i];")),
        ("", body("if (blockIdx.x > 3) return;", "c[i] = a[i];")),
        (
            "",
            body("int v = blockIdx.x; if (v > 3) return;", "c[i] = a[i];"),
        ),
        ("", body("c[n + blockIdx.x] = 0;", "c[i] = a[i];")),
        (
            "",
            body(
                "if (threadIdx.x == 0) atomicAdd(c + n, 1.0f);",
                "c[i] = a[i];",
            ),
        ),
        (
            "",
            body(
                "int v; asm(\"mov.u32 %0, %%ctaid.x;\" : \"=r\"(v));",
                "c[i] = a[v];",
            ),
        ),
        (number, body("int v; number(&v);", "c[i] = a[v];")),
        (
            "__device__ int runs; __device__ void count() { atomicAdd(&runs, 1); }",
            body("count();", "c[i] = a[i];"),
        ),
        (
            "",
            body(
                "int v = cooperative_groups::this_grid().thread_rank();",
                "c[i] = a[v];",
            ),
        ),
    ];
    let traps: Vec<_> = traps
        .iter()
        .map(|(above, body)| (*above, body.as_str()))
        .collect();
    let plain = body("float v = s;", "c[i] = a[i] + v;");
    applies_but_not("grid-stride", ("", &plain), &traps);
}

#[test]
fn elements_that_no_thread_was_there_for_stay_as_they_are() {
    let text = kernel("", &format!("{INDEX} if (i < n) c[i] = a[i];"));
    assert!(sites("grid-stride", &text) > 0);
    let mut few = facts();
    few.grid = Some([15, 1, 1]);
    assert_eq!(sites_with("grid-stride", &text, &few), 0);
    // A wide counter cannot leave its type, but what it is compared with must be known all the same.
    let wide = "size_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i];";
    assert!(sites("grid-stride", &kernel("", wide)) > 0);
    let mut unknown = facts();
    unknown.parameters.truncate(3);
    assert_eq!(sites_with("grid-stride", &kernel("", wide), &unknown), 0);
}

#[test]
fn what_ties_threads_together_is_seen_behind_macros() {
    let body = |end: &str| format!("{INDEX} if (i >= n) return; c[i] = a[i]; {end}");
    let early = body("");
    let (barrier, sync, helper) = (body("__syncthreads();"), body("SYNC;"), body("finish(s);"));
    applies_but_not(
        "grid-stride",
        ("", &early),
        &[
            ("", &barrier),
            ("#define SYNC __syncthreads()", &sync),
            ("#define SYNC asm volatile(\"bar.sync 0;\")", &sync),
            // Of a header.
            ("", &sync),
            (
                "#define SYNC __syncthreads()\n__device__ void finish(float x) { SYNC; }",
                &helper,
            ),
        ],
    );
}

#[test]
fn a_number_that_is_cut_is_not_the_thread_s_number() {
    applies_but_not(
        "grid-stride",
        (
            "",
            "int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); if (i < n) c[i] = a[i];",
        ),
        &[
            (
                "",
                "int i = (unsigned char)(blockIdx.x * blockDim.x + threadIdx.x); if (i < n) c[i] = a[i];",
            ),
            (
                "",
                "int i = (short)blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i];",
            ),
        ],
    );
}

#[test]
fn two_axes_become_two_loops_where_one_would() {
    let facts = samples::facts([16, 16, 1], [4, 4, 1], &["p", "p", "p", "64", "u"]);
    let count = |body: &str| sites_with("grid-stride", &kernel("", body), &facts);
    let x = "int x = blockIdx.x * blockDim.x + threadIdx.x;";
    let y = "int y = blockIdx.y * blockDim.y + threadIdx.y;";
    assert!(
        count(&format!(
            "{x} {y} if (x < n && y < n) c[y * n + x] = a[y * n + x];"
        )) > 0
    );
    assert!(
        count(&format!(
            "{y} {x} if (n > x && y < n) {{ c[y * n + x] = 1.0f; }}"
        )) > 0
    );
    assert!(
        count(&format!(
            "{x} {y} if (x >= n || y >= n) return; c[y * n + x] = a[x];"
        )) > 0
    );
    for trap in [
        // One bound depends on the other number; one axis twice; one is not tested; the wrong joint.
        format!("{x} {y} if (x < n && y < x) c[y * n + x] = 1.0f;"),
        format!(
            "{x} {} if (x < n && y < n) c[y * n + x] = 1.0f;",
            x.replace("int x", "int y")
        ),
        format!("{x} {y} if (x < n && x < 60) c[y * n + x] = 1.0f;"),
        format!("{x} {y} if (x < n || y < n) c[y * n + x] = 1.0f;"),
        format!("{x} {y} if (x >= n && y >= n) return; c[y * n + x] = 1.0f;"),
        // More elements than threads; a variable that is carried; blocks that are told apart along either axis.
        format!("{x} {y} if (x < 65 && y < n) c[y * n + x] = 1.0f;"),
        format!("float v = 0; {x} {y} if (x < n && y < n) {{ v += a[x]; c[y * n + x] = v; }}"),
        format!("{x} {y} if (x < n && y < n) c[y * n + x] = blockIdx.y;"),
        format!("{x} {y} if (x < n && y < n) c[y * n + x] = gridDim.x;"),
        format!("{x} {y} if (x < n && y < n) {{ c[y * n + x] = 1.0f; __syncthreads(); }}"),
    ] {
        assert_eq!(count(&trap), 0, "{trap}");
    }
}

#[test]
fn what_is_volatile_is_loaded_each_time() {
    let body = |read: &str| format!("for (int j = 0; j < n; ++j) {{ c[j] = {read}; }}");
    let plain = body("a[0]");
    let traps = [
        ("", body("((volatile const float *)a)[0]")),
        ("", body("((const volatile float *)a)[0]")),
        ("", body("reinterpret_cast<const volatile float *>(a)[0]")),
        (
            "typedef volatile float cell;",
            format!("const cell *p = a; {}", body("p[0]")),
        ),
        (
            "",
            format!("volatile const float *q = a; auto p = q; {}", body("p[0]")),
        ),
        (
            "struct Flag { volatile int set; };",
            "Flag *f = (Flag *)a; for (int j = 0; j < n; ++j) { c[j] = a[0] + f[0].set; }"
                .to_owned(),
        ),
    ];
    let traps: Vec<_> = traps
        .iter()
        .map(|(above, body)| (*above, body.as_str()))
        .collect();
    applies_but_not("hold-in-register", ("", &plain), &traps);
}

#[test]
fn macros_hide_nothing_from_what_is_written() {
    let body = |work: &str| format!("for (int j = 0; j < n; ++j) {{ c[j] = a[0]; {work} }}");
    let (plain, step) = (body(""), body("STEP;"));
    applies_but_not(
        "hold-in-register",
        ("#define SIZE 3", &plain),
        &[
            ("#define STEP ++j", &step),
            ("#define STEP j += 2", &step),
            ("#define STEP a++", &step),
            ("#define STEP bump(j)", &step),
        ],
    );
    let loads = "int i = threadIdx.x; c[i] = a[i]; STORE(i);";
    applies_but_not(
        "read-only-loads",
        ("__device__ void STORE(int i) {}", loads),
        &[
            ("#define STORE(i) ((float *)a)[i] = 0", loads),
            (
                "#define STORE(i) c[i] = 0; ((float *)a)[i] = ((float *)b)[i] = 0",
                loads,
            ),
        ],
    );
    let tile = "__shared__ float t[16][16]; t[threadIdx.y][threadIdx.x] = s; c[0] = t[1][0] + ROW;";
    applies_but_not(
        "pad-shared-memory",
        ("#define ROW 16", tile),
        &[("#define ROW (&t[0][0])[16]", tile)],
    );
}

#[test]
fn what_is_called_may_write() {
    let calls = "int i = threadIdx.x; c[i] = a[i]; op(i);";
    let with = |above: &str, name: &str| {
        format!("{above} __global__ void k(const float *a, float *c, {name}) {{ {calls} }}\n")
    };
    assert!(
        sites(
            "read-only-loads",
            &with("__device__ void op(int i) {}", "int n")
        ) > 0
    );
    // An object that is called, and a function of elsewhere.
    assert_eq!(
        sites("read-only-loads", &with("template <typename F>", "F op")),
        0
    );
    assert_eq!(sites("read-only-loads", &with("", "int n")), 0);
    let object = |above: &str| {
        format!(
            "{above} __global__ void k(const float *a, float *c, Sink sink) {{ int i = threadIdx.x; c[i] = a[i]; sink += i; }}\n"
        )
    };
    assert_eq!(
        sites(
            "read-only-loads",
            &object("struct Sink { float *p; __device__ void operator+=(int i) { p[i] = 0; } };")
        ),
        0
    );
}

#[test]
fn a_name_that_is_there_twice_has_no_value() {
    let body = "c[0] = a[0] / W; for (int j = 0; j < W; ++j) { c[j] += 1.0f; }";
    let wide = kernel(
        "const int W = 8;",
        "int i = W; for (int j = 0; j < n; ++j) c[j] = a[j];",
    );
    assert!(sites("unroll", &wide) > 0);
    // The number decides how often a loop can be written out.
    let ways = |above: &str| sites("unroll", &kernel(above, body));
    let known = ways("const int W = 4;");
    for twice in [
        "namespace p { const int W = 4; } namespace q { const int W = 4096; }",
        "#ifdef WIDE\nconst int W = 4096;\n#else\nconst int W = 4;\n#endif",
    ] {
        assert_ne!(ways(twice), known, "{twice}");
    }
    let inside = |declared: &str| sites("unroll", &kernel("", &format!("{declared}\n{body}")));
    assert_eq!(inside("const int W = 4;"), known);
    assert_ne!(
        inside("#ifdef WIDE\nconst int W = 4096;\n#else\nconst int W = 4;\n#endif"),
        known
    );
    // A field hides the variable of the file.
    let field = |field: &str| {
        let text = format!(
            "const int W = 4; struct S {{ {field} __device__ void f(float *c); }};
__device__ void S::f(float *c) {{ for (int j = 0; j < W; ++j) c[j] += 1.0f; }}
__device__ void f(float *c) {{ for (int j = 0; j < W; ++j) c[j] += 1.0f; }}
__global__ void k(float *c) {{ S s; s.f(c); f(c); }}\n"
        );
        sites("unroll", &text)
    };
    assert_ne!(field("int V;"), 2 * known);
}

#[test]
fn a_loop_that_does_not_run_touches_nothing() {
    let text = kernel("", "for (unsigned j = -1; j < n; ++j) { c[0] += a[j]; }");
    let (sites, done) = samples::with_k(&text, &facts(), |scene| {
        let sites = rewrite::sites(rewrite::operator("hold-in-register").unwrap(), scene);
        let done = rewrite::apply(scene, &sites[0]).unwrap();
        (sites, done)
    });
    assert_eq!(sites.len(), 1);
    // -1 is the largest number of the counter's type.
    assert!(
        done.text.contains("static_cast<unsigned int>(-1) < n"),
        "{}",
        done.text
    );
}

#[test]
fn what_a_lambda_or_a_member_function_changes_is_no_bound() {
    let body = |before: &str, bound: &str, work: &str| {
        format!("{before} for (int j = 0; j < {bound}; ++j) {{ c[0] += 1.0f; {work} }}")
    };
    applies_but_not(
        "hold-in-register",
        ("", &body("int m = n;", "m", "")),
        &[
            ("", &body("int m = n; auto less = [&] { m--; };", "m", "")),
            (
                "struct Count { int n; __device__ void less() { n--; } };",
                &body("Count m = {n};", "m.n", "m.less();"),
            ),
        ],
    );
}

#[test]
fn a_word_for_and_guards_what_is_right_of_it() {
    let body = |and: &str| {
        format!("for (int j = 0; j < n; ++j) {{ if (j > 5 {and} a[n] > 0.0f) c[j] = s; }}")
    };
    for and in ["&&", "and", "||", "or"] {
        assert_eq!(
            sites("hold-in-register", &kernel("", &body(and))),
            0,
            "{and}"
        );
    }
    assert!(sites("hold-in-register", &kernel("", &body("+ (int)"))) < 2);
    let plain = "for (int j = 0; j < n; ++j) { c[j] = s + a[n]; }";
    assert!(sites("hold-in-register", &kernel("", plain)) > 0);
}

#[test]
fn a_block_of_another_size_keeps_the_part_of_the_threads() {
    let done = |directive: &str, facts: &Facts| -> Vec<String> {
        let text = kernel("", &format!("{directive}\n{INDEX} if (i < n) c[i] = a[i];"));
        let unit = Unit::parse(&text).unwrap();
        let found = unit.kernel("k").unwrap();
        let whole = 0..text.len();
        let scene = Scene {
            unit: &unit,
            kernel: &found,
            spans: std::slice::from_ref(&whole),
            facts,
        };
        let operator = rewrite::operator("grid-stride").unwrap();
        rewrite::sites(operator, &scene)
            .iter()
            .filter_map(|site| rewrite::apply(&scene, site).unwrap().directive)
            .map(|directive| r3_source::directive::write(&directive))
            .collect()
    };
    let facts = facts();
    assert_eq!(done("", &facts)[0], "// r3: launch grid=1/2");
    // Recorded with 256 threads: half of the threads are twice as many blocks of 64.
    assert_eq!(
        done("// r3: launch block=64", &facts)[0],
        "// r3: launch block=64 grid=2/1"
    );
    assert_eq!(
        done("// r3: launch block=1024", &facts)[0],
        "// r3: launch block=1024 grid=1/8"
    );
}
