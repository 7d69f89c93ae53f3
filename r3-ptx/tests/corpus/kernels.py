#!/usr/bin/env python3
"""Writes CUDA sources of many kinds, and compiles them to PTX with nvcc.

    kernels.py FOLDER [NVCC]      FOLDER/NAME.cu and FOLDER/NAME-ARCH-FLAGS.ptx

What scripts/ptx-corpus.sh then reads, prints and assembles. More than 200 kernels.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

SOURCES = {}


def source(name, text, archs=("sm_80", "sm_90"), flags=("-O3",), extra=()):
    SOURCES[name] = (text, archs, flags, list(extra))


TYPES = ["char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long long",
         "unsigned long long", "float", "double"]


def ident(text):
    return text.replace(" ", "_")


# Element-wise arithmetic of every type.
body = "template <class T> __device__ T mix(T a, T b, int i) { return a * b + (T)i - (b ? a / (b + (T)1) : a); }\n"
for t in TYPES:
    body += f"""extern "C" __global__ void mix_{ident(t)}(const {t} *__restrict__ a, {t} *b, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] = mix<{t}>(a[i], b[i], i); }}\n"""
source("elementwise", body, archs=("sm_75", "sm_80", "sm_90", "sm_100"), flags=("-O3", "-G", "-lineinfo"))

# Conversions between all types.
body = ""
for a in TYPES:
    for b in TYPES:
        if a != b:
            body += f"""__device__ void cvt1(const {a} *x, {b} *y, int i) {{ y[i] = ({b})x[i]; }}\n"""
for a in TYPES:
    calls = "".join(f"cvt1(x, (({b}*)y) + n * {i}, i);" for i, b in enumerate(TYPES) if a != b)
    body += f"""extern "C" __global__ void convert_{ident(a)}(const {a} *x, void *y, int n) {{
  int i = threadIdx.x; if (i < n) {{ {calls} }} }}\n"""
source("convert", body)

# Bit operations and integer intrinsics.
body = ""
for k, e in enumerate(["__clz(x)", "__popc(x)", "__brev(x)", "__ffs(x)", "__byte_perm(x, y, 0x5140)", "__funnelshift_l(x, y, z)",
                       "__funnelshift_rc(x, y, z)", "__mulhi((int)x, (int)y)", "__umulhi(x, y)", "__mul24(x, y)", "__sad(x, y, z)",
                       "__usad(x, y, z)", "__rhadd(x, y)", "__uhadd(x, y)", "__vabsdiffs4(x, y)", "__vadd2(x, y)", "__vminu4(x, y)",
                       "__dp4a((int)x, (int)y, (int)z)", "__dp2a_lo((int)x, (int)y, (int)z)", "__bfind_(x)", "x << (y & 31)",
                       "(int)x >> (y & 31)", "__viaddmax_s32(x, y, z)", "__vimin3_u32(x, y, z)"]):
    if "bfind" in e:
        e = "bfind_(x)"
    body += f"""extern "C" __global__ void bits_{k}(unsigned *p, unsigned y, unsigned z) {{
  unsigned x = p[threadIdx.x]; p[threadIdx.x] = {e}; }}\n"""
body = """static __device__ unsigned bfind_(unsigned x) { unsigned r; asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(x)); return r; }\n""" + body
source("bits", body, archs=("sm_80", "sm_90", "sm_120"))

# Mathematics, exact and fast.
for suffix, flags in [("", ("-O3",)), ("_fast", ("-O3 --use_fast_math", "-O3 -fmad=false"))]:
    body = ""
    for t, s in [("float", "f"), ("double", "")]:
        for f in ["sin", "cos", "tan", "exp", "log", "sqrt", "rsqrt", "cbrt", "tanh", "erf", "lgamma", "asin", "exp2", "log2", "floor",
                  "round", "trunc", "rint", "fabs", "j0"]:
            body += f"""extern "C" __global__ void math_{f}{s}(const {t} *a, {t} *b) {{ b[threadIdx.x] = {f}{s}(a[threadIdx.x]); }}\n"""
    for f in ["__fadd_rz", "__fmul_rd", "__fdiv_ru", "__fdividef", "__powf", "fmodf", "remainderf", "atan2f", "copysignf", "fmaxf",
              "nextafterf", "__fsub_rn", "ldexp_"]:
        g = f if f != "ldexp_" else "powf"
        body += f"""extern "C" __global__ void math2_{f}(const float *a, float *b) {{ b[threadIdx.x] = {g}(a[threadIdx.x], b[threadIdx.x]); }}\n"""
    source("math" + suffix, body, archs=("sm_90",), flags=flags)

# Shared memory, reductions, barriers.
body = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern __shared__ char dynamic_[];
template <class T, int N> __global__ void reduce(const T *a, T *out) {
  __shared__ T s[N]; int t = threadIdx.x; s[t] = a[blockIdx.x * N + t]; __syncthreads();
  for (int k = N / 2; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
  if (!t) out[blockIdx.x] = s[0]; }
template <class T> __global__ void reduce_dynamic(const T *a, T *out, int n) {
  T *s = (T *)dynamic_; s[threadIdx.x] = a[threadIdx.x]; __syncthreads();
  T x = 0; for (int i = 0; i < n; i++) x += s[i]; out[threadIdx.x] = x; }
"""
for t in ["int", "float", "double", "unsigned long long"]:
    for n in (64, 256):
        body += f"template __global__ void reduce<{t}, {n}>(const {t} *, {t} *);\n"
    body += f"template __global__ void reduce_dynamic<{t}>(const {t} *, {t} *, int);\n"
body += """
extern "C" __global__ void groups(int *p) { auto b = cg::this_thread_block(); auto w = cg::tiled_partition<32>(b);
  auto q = cg::tiled_partition<4>(w); int x = p[b.thread_rank()]; x = w.shfl_down(x, 3) + q.shfl_xor(x, 1); w.sync();
  x += w.any(x > 3) + w.ballot(x & 1) + __popc(cg::coalesced_threads().size()); b.sync(); p[b.thread_rank()] = x; }
extern "C" __global__ void grid_sync(int *p) { auto g = cg::this_grid(); p[g.thread_rank()] = 1; g.sync();
  p[g.thread_rank()] += p[(g.thread_rank() + 1) % g.size()]; }
extern "C" __global__ void __launch_bounds__(128, 4) bounds(float *p) { p[threadIdx.x] *= 2; }
extern "C" __global__ void counts(int *p) { int x = p[threadIdx.x]; p[0] = __syncthreads_count(x); p[1] = __syncthreads_and(x);
  p[2] = __syncthreads_or(x); asm volatile("bar.arrive 3, 64;"); asm volatile("barrier.sync 4, 64;"); __threadfence(); __threadfence_block();
  __threadfence_system(); __nanosleep(20); }
"""
source("shared", body, archs=("sm_75", "sm_90"), flags=("-O3", "-G"))

# Atomics.
body = ""
for op in ["Add", "Sub", "Exch", "Min", "Max", "And", "Or", "Xor"]:
    for t in ["int", "unsigned", "unsigned long long"]:
        if op == "Sub" and t == "unsigned long long":
            continue
        for scope in ["", "_block", "_system"]:
            body += f"""extern "C" __global__ void atomic{op}{scope}_{ident(t)}({t} *p, {t} v) {{
  __shared__ {t} s[32]; atomic{op}{scope}(s + threadIdx.x % 32, v); __syncthreads();
  {t} old = atomic{op}{scope}(p + threadIdx.x % 7, s[threadIdx.x % 32]); p[threadIdx.x + 8] = old; }}\n"""
body += """extern "C" __global__ void atomic_more(unsigned *p, float *f, double *d, unsigned short *h) {
  atomicInc(p, 7); atomicDec(p + 1, 9); atomicCAS(p + 2, 3, 4); atomicCAS(h, (unsigned short)1, (unsigned short)2);
  atomicAdd(f, 1.5f); atomicAdd(d, 2.5); atomicExch(f + 1, 2.f); atomicAdd((float2 *)f + 2, make_float2(1, 2)); }
"""
source("atomics", body, archs=("sm_90",))
body = """#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/std/atomic>
"""
for i, order in enumerate(["relaxed", "acquire", "release", "acq_rel", "seq_cst"]):
    for scope in ["block", "device", "system"]:
        load = order if order in ("relaxed", "acquire", "seq_cst") else "relaxed"
        store = order if order in ("relaxed", "release", "seq_cst") else "relaxed"
        body += f"""extern "C" __global__ void order_{order}_{scope}(int *p, long long *q) {{
  cuda::atomic_ref<int, cuda::thread_scope_{scope}> a(*p); cuda::atomic_ref<long long, cuda::thread_scope_{scope}> b(*q);
  a.fetch_add(1, cuda::std::memory_order_{order}); b.store(a.load(cuda::std::memory_order_{load}), cuda::std::memory_order_{store});
  long long e = 3; b.compare_exchange_strong(e, 5, cuda::std::memory_order_{order}, cuda::std::memory_order_{load}); *q += e; 
  cuda::atomic_thread_fence(cuda::std::memory_order_{order}, cuda::thread_scope_{scope}); }}\n"""
body += """extern "C" __global__ void barrier_copy(const int *p, int *q) { __shared__ cuda::barrier<cuda::thread_scope_block> b; __shared__ int s[1024];
  if (!threadIdx.x) init(&b, blockDim.x); __syncthreads(); cuda::memcpy_async(s + threadIdx.x, p + threadIdx.x, sizeof(int), b);
  b.arrive_and_wait(); q[threadIdx.x] = s[threadIdx.x ^ 1]; }
"""
source("orders", body, archs=("sm_80", "sm_90"))

# Warps.
body = ""
for k, e in enumerate(["__shfl_sync(m, x, 3)", "__shfl_up_sync(m, x, 1, 16)", "__shfl_down_sync(m, x, 2)", "__shfl_xor_sync(m, x, 7, 8)",
                       "__ballot_sync(m, x)", "__any_sync(m, x)", "__all_sync(m, x)", "__match_any_sync(m, x)", "match_all(m, x)", "__activemask()",
                       "__reduce_add_sync(m, x)", "__reduce_max_sync(m, x)", "__reduce_xor_sync(m, (unsigned)x)", "(__syncwarp(m), x)",
                       "(int)__shfl_sync(m, (double)x, 3)", "__fns(m, x, 3)"]):
    body += f"""extern "C" __global__ void warp_{k}(int *p, unsigned m) {{ int x = p[threadIdx.x]; if (x > 3) x = {e}; p[threadIdx.x] = x; }}\n"""
body = """static __device__ int match_all(unsigned m, int x) { int p; return __match_all_sync(m, x, &p) + p; }\n""" + body
source("warp", body, archs=("sm_80", "sm_90"))

# Half, bfloat16, fp8.
body = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
for t, z in [("__half", "h"), ("__half2", "h2"), ("__nv_bfloat16", "b"), ("__nv_bfloat162", "b2")]:
    two = z.endswith("2")
    for f in ["__hadd(a, b)", "__hmul_sat(a, b)", "__hfma(a, b, a)", "__hfma_relu(a, b, a)", "__hdiv(a, b)", "__hmax(a, b)", "__hmin_nan(a, b)", "hsin(a)",
              "hexp(a)", "__habs(a)"]:
        name, rest = f.split("(")
        if two:
            name = {"hsin": "h2sin", "hexp": "h2exp", "__hdiv": "__h2div"}.get(name) or re.sub(r"^__h([a-z]+)", r"__h\g<1>2", name)
        body += f"""extern "C" __global__ void half_{z}_{name}({t} *p) {{ {t} a = p[threadIdx.x], b = p[threadIdx.x + 32]; p[threadIdx.x] = {name}({rest}; }}\n"""
body += """extern "C" __global__ void fp8(const float *a, __nv_fp8_e4m3 *b, __nv_fp8_e5m2 *c, float *d, __half2 *h) {
  int i = threadIdx.x; b[i] = __nv_fp8_e4m3(a[i]); c[i] = __nv_fp8_e5m2(a[i]); d[i] = float(b[i]) + float(c[i ^ 1]);
  atomicAdd(h, __floats2half2_rn(a[i], a[i + 1])); }
"""
source("half", body, archs=("sm_80", "sm_90", "sm_100"))

# Matrices.
body = "#include <mma.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda;\n"
for i, (m, n, k, a, acc, la, lb) in enumerate([
        (16, 16, 16, "half", "float", "row", "col"), (16, 16, 16, "half", "half", "col", "row"), (32, 8, 16, "half", "float", "row", "row"),
        (8, 32, 16, "signed char", "int", "row", "col"), (16, 16, 16, "__nv_bfloat16", "float", "row", "col"),
        (16, 16, 8, "wmma::precision::tf32", "float", "row", "col"), (8, 8, 4, "double", "double", "row", "col"),
        (16, 16, 16, "unsigned char", "int", "col", "col")]):
    st = "float" if "tf32" in a else a
    body += f"""extern "C" __global__ void wmma_{i}(const {st} *a, const {st} *b, {acc} *c) {{
  wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {a}, wmma::{la}_major> x; wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {a}, wmma::{lb}_major> y;
  wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {acc}> z; wmma::fill_fragment(z, ({acc})0); wmma::load_matrix_sync(x, a, 32);
  wmma::load_matrix_sync(y, b, 32); wmma::mma_sync(z, x, y, z); wmma::store_matrix_sync(c, z, 32, wmma::mem_row_major); }}\n"""
body += r"""extern "C" __global__ void mma_asm(unsigned *a, float *c) { __shared__ unsigned s[256]; s[threadIdx.x] = a[threadIdx.x]; __syncthreads();
  unsigned r0, r1, r2, r3, p = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 4);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(p));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(r0), "r"(r1), "r"(r2), "r"(r3), "r"(r1), "r"(r2));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16; // a comment\n\tcp.async.commit_group; /* another */ cp.async.wait_group 0;" :: "r"(p), "l"(a)); }
extern "C" __global__ void transpose_asm(unsigned *a) { unsigned x = a[threadIdx.x], y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x)); a[threadIdx.x] = y; }
"""
source("mma", body, archs=("sm_80", "sm_90"))

# Hopper.
source("hopper", r"""#include <cuda.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster(int *p) { __shared__ int s[32]; auto c = cg::this_cluster(); s[threadIdx.x] = p[threadIdx.x]; c.sync();
  p[threadIdx.x] = *c.map_shared_rank(s + threadIdx.x, c.block_rank() ^ 1); c.sync(); }
extern "C" __global__ void bulk(const __grid_constant__ CUtensorMap map, float *out, const float *in) {
  __shared__ alignas(128) float s[1024]; __shared__ unsigned long long bar; unsigned b = (unsigned)__cvta_generic_to_shared(&bar), d = (unsigned)__cvta_generic_to_shared(s);
  if (!threadIdx.x) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(1));
    asm volatile("fence.proxy.async;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(4096));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(d), "l"(&map), "r"(0), "r"(0), "r"(b) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(d), "l"(in), "r"(4096), "r"(b) : "memory"); }
  asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" :: "r"(b), "r"(0));
  out[threadIdx.x] = s[threadIdx.x];
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" :: "l"(&map), "r"(0), "r"(0), "r"(d));
  asm volatile("cp.async.bulk.commit_group;"); asm volatile("cp.async.bulk.wait_group.read 0;"); }
extern "C" __global__ void wgmma(float *o, unsigned long long a, unsigned long long b) { float d[4] = {o[0], o[1], o[2], o[3]};
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"(1));
  asm volatile("wgmma.commit_group.sync.aligned;"); asm volatile("wgmma.wait_group.sync.aligned 0;"); o[0] = d[0]; o[1] = d[1]; o[2] = d[2]; o[3] = d[3]; }
extern "C" __global__ void regs(int *p) { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); unsigned e;
  asm volatile("{ .reg .pred P; elect.sync _|P, 0xffffffff; selp.b32 %0, 1, 0, P; }" : "=r"(e)); p[threadIdx.x] = e;
  asm volatile("griddepcontrol.launch_dependents;"); asm volatile("griddepcontrol.wait;"); }
""", archs=("sm_90a",))

# Blackwell.
source("blackwell", r"""
extern "C" __global__ void tensor_memory(unsigned *p, unsigned long long da, unsigned long long db) { __shared__ unsigned a; __shared__ unsigned long long bar;
  unsigned d = (unsigned)__cvta_generic_to_shared(&a), b = (unsigned)__cvta_generic_to_shared(&bar); unsigned r0, r1;
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(d), "r"(32));
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %6, %7, %8}, p;\n}"
    :: "r"(a), "l"(da), "l"(db), "r"(0x8080490), "r"(1), "r"(0), "r"(0), "r"(0), "r"(0));
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(b));
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(a));
  asm volatile("tcgen05.wait::ld.sync.aligned;"); p[threadIdx.x] = r0 + r1;
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(a), "r"(32)); }
extern "C" __global__ void wide(const float *p, float *q) { float a, b, c, d, e, f, g, h;
  asm("ld.global.v8.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d), "=f"(e), "=f"(f), "=f"(g), "=f"(h) : "l"(p));
  *q = a + b + c + d + e + f + g + h; }
extern "C" __global__ void packed(float2 *p) { unsigned long long x = *(unsigned long long *)p;
  asm("fma.rn.f32x2 %0, %0, %0, %0;" : "+l"(x)); *(unsigned long long *)p = x; }
""", archs=("sm_100a",))

# Textures and surfaces.
body = ""
for t in ["float", "int4", "uchar4", "float2"]:
    for dim, args in [("1D", "x"), ("2D", "x, y"), ("3D", "x, y, z"), ("1DLayered", "x, 1"), ("2DLayered", "x, y, 1"), ("1DLod", "x, 2.f"), ("2DLod", "x, y, 2.f"),
                      ("2DGrad", "x, y, make_float2(1, 2), make_float2(3, 4)"), ("Cubemap", "x, y, z")]:
        if t == "float2" and dim == "2DGrad":
            continue
        body += f"""extern "C" __global__ void tex{dim}_{t}(cudaTextureObject_t o, {t} *p, float x, float y, float z) {{ p[threadIdx.x] = tex{dim}<{t}>(o, {args}); }}\n"""
body += """extern "C" __global__ void gather(cudaTextureObject_t o, float4 *p) { p[0] = tex2Dgather<float4>(o, 1.f, 2.f, 1); p[1] = tex2Dgather<float4>(o, 1.f, 2.f, 3); }
extern "C" __global__ void fetch(cudaTextureObject_t o, float4 *p) { p[0] = tex1Dfetch<float4>(o, 5); }
extern "C" __global__ void surface(cudaSurfaceObject_t o, float4 *p) { float4 v; surf2Dread(&v, o, 16, 3); surf2Dwrite(*p, o, 32, 4, cudaBoundaryModeClamp);
  int w; surf3Dread(&w, o, 4, 1, 2, cudaBoundaryModeZero); p->x += w; p->y = v.y; surf1Dwrite((short)w, o, 8); }
"""
source("textures", body, archs=("sm_75", "sm_90"))

# Calls: printf, malloc, function pointers, recursion, virtual functions, assertions, noinline.
source("calls", r"""#include <cstdio>
#include <cassert>
typedef float (*op)(float, float);
__device__ __noinline__ float add(float a, float b) { return a + b; }
__device__ __noinline__ float mul(float a, float b) { return a * b; }
__device__ op table[2] = {add, mul};
__constant__ op const_table[2] = {mul, add};
struct Big { int a[10]; double d; char c; };
__device__ __noinline__ Big big(Big b, int i) { b.a[i % 10] += i; b.c = 'x'; return b; }
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
struct Shape { __device__ virtual float area() const { return 0; } __device__ virtual ~Shape() {} };
struct Square : Shape { float s; __device__ Square(float s) : s(s) {} __device__ float area() const override { return s * s; } };
struct Disc : Shape { float r; __device__ Disc(float r) : r(r) {} __device__ float area() const override { return 3 * r * r; } };
extern "C" __global__ void pointers(float *p, int i) { p[threadIdx.x] = table[i](p[0], p[1]) + const_table[i](p[2], p[3]); }
extern "C" __global__ void structs(Big *p, Big v, int i) { p[i] = big(v, i); }
extern "C" __global__ void recursion(int *p) { p[threadIdx.x] = fib(p[threadIdx.x]); }
extern "C" __global__ void print(int *p, float f) { printf("%d %f %s %lld\n", p[0], f, "text with \"quotes\" and \\", 5LL); }
extern "C" __global__ void checked(int *p) { assert(p[threadIdx.x] > 0); if (p[0] == 7) __trap(); if (p[0] == 8) __brkpt(); }
extern "C" __global__ void heap(int **p, int n) { p[threadIdx.x] = (int *)malloc(n); free(p[threadIdx.x + 1]); p[0] = new int[3]; }
extern "C" __global__ void virtuals(float *p, int i) { Shape *s = i ? (Shape *)new Square(p[0]) : (Shape *)new Disc(p[1]); p[2] = s->area(); delete s; }
extern "C" __global__ void switches(int *p) { switch (p[threadIdx.x]) { case 0: p[0] = 5; break; case 1: p[1] ^= 7; break; case 2: p[2] += 9; break;
  case 3: p[3] *= 3; break; case 4: p[4] -= 2; break; case 5: p[5] = ~p[4]; break; case 6: p[6] = p[1]; break; default: p[7] = 1; } }
extern "C" __global__ void va(int *p) { int l[64]; for (int i = 0; i < 64; i++) l[i] = p[i]; for (int i = 0; i < 64; i++) p[i] = l[(p[i] + i) & 63]; 
  int *q = (int *)alloca(p[0] * 4); q[p[1]] = 5; p[2] = q[p[3]]; }
""", archs=("sm_75", "sm_90"), flags=("-O3", "-G", "-O0", "-rdc=true -lineinfo"))

# Variables of all kinds.
source("variables", r"""
struct S { char c; double d; int a[3]; };
__device__ int plain; __device__ int with = 42; __device__ float array[4] = {1, 2.5f, -3}; __device__ double d = -1e-300;
__constant__ S table[2] = {{'a', 1.5, {1, 2, 3}}, {'b', -2.5, {4, 5, 6}}}; __managed__ int managed_ = 7; __device__ const char *text = "abc\n\t\"x\"";
__device__ int *pointer = &plain; __device__ float *element = &array[2]; __device__ __align__(64) char aligned[100]; __device__ long long big = -9223372036854775807LL - 1;
__device__ volatile unsigned long long counter = 0xFFFFFFFFFFFFFFFFull; static __device__ short2 pair = {1, -1}; namespace n { __device__ int inside = 3; }
template <int N> __device__ int templated = N; __device__ void *const pointers[3] = {&plain, &with, &array[1]}; __device__ bool yes = true;
struct Mixed { const char *name; int n; const float *values; }; __constant__ Mixed mixed[2] = {{"one", 1, array}, {"two", 2, array + 1}};
struct Inner { char c; void *p; short s; }; __device__ Inner inner[2] = {{'x', &plain, 5}, {'y', (char *)&array + 3, 6}};
extern "C" __global__ void use(int *p, int i) { p[0] = plain + with + array[i] + table[i].a[2] + managed_ + text[i] + *pointer + *element + aligned[i] + counter + pair.x
  + n::inside + templated<5> + templated<6> + (long long)pointers[i] + yes + (int)d + (int)big + mixed[i].name[0] + (int)mixed[i].values[1] + inner[i].s + (long long)inner[i].p; }
template <class T, int... I> __global__ void pack(T *p) { ((p[I] = I), ...); }
template __global__ void pack<int, 1, 2, 3>(int *); template __global__ void pack<double, 4, 5>(double *);
""", archs=("sm_75", "sm_90"), flags=("-O3", "-G", "-rdc=true"))

# Inline assembly as people write it.
source("asm", r"""
extern "C" __global__ void scopes(unsigned *p) { unsigned x = p[threadIdx.x], y = 7;
  asm volatile("{\n\t.reg .u32 t1; // one\n\t.reg .pred q;\n\t mul.lo.u32 t1, %1, %1;\n\t{ .reg .u32 t1; mov .u32 t1, 5; add.u32 %0, t1, t1; }\n\t setp.gt.u32 q, t1, 10;\n\t@q add.u32 %0, %0, t1; @!q mov.u32 %0, 0x10U;}" : "+r"(x) : "r"(y));
  asm volatile("{ .reg .pred p<3>; .reg .b32 v<4>, w; setp.eq.u32 p0|p1, %0, 3; and.pred p2, p0, p1; mov.b32 v0, WARP_SZ; selp.u32 v1, 1, 2, !p2; add.u32 %0, v0, v1; mov.u32 w, (1 << 4) | 3; xor.b32 %0, %0, w; }" : "+r"(x));
  p[threadIdx.x] = x; }
extern "C" __global__ void carries(unsigned *p) { unsigned a = p[0], b = p[1], c = p[2], d = p[3];
  asm("add.cc.u32 %0, %0, %2; addc.cc.u32 %1, %1, %3; addc.u32 %2, 0, 0; mad.lo.cc.u32 %3, %0, %1, %2; madc.hi.u32 %0, %0, %1, 0;" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  p[0] = a; p[1] = b; p[2] = c; p[3] = d; }
extern "C" __global__ void specials(unsigned *p, unsigned long long *q) { unsigned r; unsigned long long s;
#define R(n, x) asm volatile("mov.u32 %0, " x ";" : "=r"(r)); p[n] = r;
  R(0, "%%laneid") R(1, "%%warpid") R(2, "%%nwarpid") R(3, "%%smid") R(4, "%%nsmid") R(5, "%%lanemask_lt") R(6, "%%clock") R(7, "%%clock_hi") R(8, "%%dynamic_smem_size")
  R(9, "%%total_smem_size") R(10, "%%envreg3") R(11, "%%pm0") R(12, "%%tid.z") R(13, "%%nctaid.y") R(14, "%%globaltimer_lo") R(15, "%%lanemask_ge")
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(s)); q[0] = s; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(s)); q[1] = s; asm volatile("mov.u64 %0, %%gridid;" : "=l"(s)); q[2] = s; }
extern "C" __global__ void video(unsigned *p) { unsigned a = p[0], b = p[1], c = p[2], r;
  asm("vadd.u32.u32.u32.sat.add %0, %1.b0, %2.h1, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); p[4] = r; asm("vmad.s32.s32.u32.shr7 %0, %1.h0, -%2.b3, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); p[5] = r;
  asm("vsub.s32.u32.u32 %0.b1, %1.h0, %2.b3, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); p[6] = r; asm("vset.u32.u32.gt %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); p[7] = r;
  asm("vadd4.u32.u32.u32 %0.b3210, %1.b7654, %2.b1234, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); p[8] = r; asm("vavrg2.u32.u32.u32 %0.h10, %1.h32, %2.h10, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); p[9] = r; }
extern "C" __global__ void misc(unsigned *p, unsigned long long *q, float *f) { unsigned a = p[0], b = p[1], r;
  asm("lop3.b32 %0, %1, %2, 0xff, 0b10010110;" : "=r"(r) : "r"(a), "r"(b)); p[2] = r; asm("prmt.b32.f4e %0, %1, %2, 3;" : "=r"(r) : "r"(a), "r"(b)); p[3] = r;
  asm("shf.l.wrap.b32 %0, %1, %2, 017;" : "=r"(r) : "r"(a), "r"(b)); p[4] = r; asm("bfe.s32 %0, %1, 3, 5;" : "=r"(r) : "r"(a)); p[5] = r; asm("bfi.b32 %0, %1, %2, 3, 5;" : "=r"(r) : "r"(a), "r"(b)); p[6] = r;
  asm("szext.wrap.u32 %0, %1, 7;" : "=r"(r) : "r"(a)); p[7] = r; asm("bmsk.clamp.b32 %0, %1, 7;" : "=r"(r) : "r"(a)); p[8] = r; asm("{ .reg .pred t; isspacep.shared t, %1; selp.u32 %0, 1, 0, t; }" : "=r"(r) : "l"(q)); p[9] = r;
  asm("{ .reg .pred t; testp.subnormal.f32 t, %1; selp.u32 %0, 1, 0, t; }" : "=r"(r) : "f"(*f)); p[10] = r; float g; asm("copysign.f32 %0, %1, 0fBF800000;" : "=f"(g) : "f"(*f)); f[1] = g;
  asm("slct.f32.s32 %0, %1, 1.5, %2;" : "=f"(g) : "f"(*f), "r"(a)); f[2] = g; asm("fma.rm.ftz.sat.f32 %0, %1, 0d3FF8000000000000, -2.5e-3;" : "=f"(g) : "f"(*f)); f[3] = g;
  asm("ld.global.L1::no_allocate.L2::128B.f32 %0, [%1+-4];" : "=f"(g) : "l"(f + 1)); f[4] = g; asm("prefetch.global.L2 [%0+128];" :: "l"(f)); asm volatile("discard.global.L2 [%0], 128;" :: "l"(f));
  asm volatile("{ .reg .b64 pol; createpolicy.fractional.L2::evict_last.b64 pol, 1.0; ld.global.L2::cache_hint.f32 %0, [%1], pol; }" : "=f"(g) : "l"(f)); f[5] = g; asm volatile("red.global.add.u32 [%0], 1;" :: "l"(p));
  asm volatile("pmevent 7;"); asm volatile("membar.gl;"); asm volatile("fence.acq_rel.cluster;"); asm volatile("nanosleep.u32 100;"); }
extern "C" __global__ void tables(unsigned *p) { unsigned i = p[0] & 3, r = 0;
  asm volatile("{\nts: .branchtargets L0, L1,\n L2, L3;\n brx.idx %1, ts;\nL0: mov.u32 %0, 10; bra.uni E;\nL1: mov.u32 %0, 20; bra E;\nL2:mov.u32 %0,30;bra E;\nL3 : mov.u32 %0, 40;\nE:\n}" : "=r"(r) : "r"(i)); p[1] = r; }
extern "C" __global__ void vectors(float4 *p, unsigned long long *q) { float a, b, c, d;
  asm("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(p)); asm("{ .reg .v4 .f32 v; mov.v4.f32 v, {%0, %1, %2, %3}; add.f32 %0, v.x, v.w; add.f32 %1, v.r, v.a; }" : "+f"(a), "+f"(b), "+f"(c), "+f"(d));
  p[1] = make_float4(a, b, c, d); unsigned lo; asm("mov.b64 {%0, _}, %1;" : "=r"(lo) : "l"(*q)); q[1] = lo; }
""", archs=("sm_90",), flags=("-O3", "-G"))

# Libraries in headers.
source("cub", """#include <cub/cub.cuh>
extern "C" __global__ void block_sort(int *p) { using S = cub::BlockRadixSort<int, 128, 4>; __shared__ typename S::TempStorage t; int k[4]; for (int i = 0; i < 4; i++) k[i] = p[threadIdx.x * 4 + i];
  S(t).Sort(k); for (int i = 0; i < 4; i++) p[threadIdx.x * 4 + i] = k[i]; }
extern "C" __global__ void block_scan(float *p) { using S = cub::BlockScan<float, 256>; __shared__ typename S::TempStorage t; float x = p[threadIdx.x], s; S(t).ExclusiveSum(x, x, s); p[threadIdx.x] = x + s; }
extern "C" __global__ void warp_reduce(double *p) { using S = cub::WarpReduce<double>; __shared__ typename S::TempStorage t; p[threadIdx.x] = S(t).Sum(p[threadIdx.x]); }
int host(int *p, int n) { size_t b; cub::DeviceRadixSort::SortKeys(nullptr, b, p, p, n); cub::DeviceScan::ExclusiveSum(nullptr, b, p, p, n); return cub::DeviceReduce::Sum(nullptr, b, p, p, n); }
""", archs=("sm_90",))
source("thrust", """#include <thrust/sort.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>
#include <thrust/device_vector.h>
void host(thrust::device_vector<float> &v, thrust::device_vector<int> &k) { thrust::sort_by_key(k.begin(), k.end(), v.begin()); v[0] = thrust::reduce(v.begin(), v.end());
  thrust::transform(v.begin(), v.end(), k.begin(), v.begin(), [] __device__(float a, int b) { return a * b; }); }
""", archs=("sm_90",), extra=["--extended-lambda"])

# Loops with pragmas, unrolled code, local arrays, 64-bit and 128-bit integers.
body = "".join(f"""extern "C" __global__ void loop_{n}(float *p, int m) {{ float s[{n}] = {{}};
#pragma unroll {n if n % 2 else 1}
  for (int i = 0; i < m; i++) s[i % {n}] += p[i] * {n}; for (int i = 0; i < {n}; i++) p[i] = s[i]; }}\n""" for n in (2, 3, 5, 8, 16, 31))
body += """extern "C" __global__ void wide(unsigned __int128 *p) { p[2] = p[0] * p[1] + p[0] / (p[1] | 1); }
extern "C" __global__ void __maxnreg__(40) limited(double *p) { p[threadIdx.x] = p[threadIdx.x] / 3; }
extern "C" __global__ void hints(float4 *a, int n) { float4 *b = (float4 *)__builtin_assume_aligned(a, 16); __builtin_assume(n > 0); for (int i = 0; i < n; i++) b[i].x += __ldg(&a[i + 1].y) + __ldcg(&a[i].z); __stcs(a, b[1]); }
"""
source("loops", body, flags=("-O3", "-lineinfo"))


def compile_one(job):
    nvcc, folder, name, arch, flags, extra = job
    label = flags.replace("-", "").replace("=", "_").replace(" ", "_")
    out = folder / f"{name}-{arch}-{label}.ptx"
    command = [nvcc, "-ptx", "-std=c++17", "-w", f"-arch={arch}", *flags.split(), *extra, str(folder / f"{name}.cu"), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{out.name}: {done.stderr.strip()[:600]}"
    return ""


def main():
    folder = pathlib.Path(sys.argv[1])
    nvcc = sys.argv[2] if len(sys.argv) > 2 else "nvcc"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for name, (text, archs, flags, extra) in SOURCES.items():
        (folder / f"{name}.cu").write_text(text)
        jobs += [(nvcc, folder, name, arch, flag, extra) for arch in archs for flag in flags]
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        failures = [message for message in pool.map(compile_one, jobs) if message]
    for message in failures:
        print(message)
    kernels = sum(text.count(".entry") for text in (p.read_text(errors="replace") for p in folder.glob("*.ptx")))
    print(f"{len(SOURCES)} sources, {len(jobs) - len(failures)} of {len(jobs)} modules, {kernels} kernels")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
