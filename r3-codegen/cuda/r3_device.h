// What plain CUDA kernels use, for clang on a machine without a CUDA toolkit.
//
// clang brings built-in variables, warp and device functions and the mathematical ones as calls of NVIDIA's libdevice.
// Here are the rest: keywords, vector types, atomics; and those functions of libdevice that are one instruction, or
// nearly, so that kernels which use no others need no libdevice either. The others (exp, sin, pow and so on) stay calls,
// which R3 links when it finds a libdevice.
#ifndef R3_DEVICE_H
#define R3_DEVICE_H

#ifndef __CUDA__
#error "r3_device.h is for clang's CUDA mode"
#endif

#define CUDA_VERSION 12000
#define CUDART_VERSION 12000
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC__

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
// clang has no managed variables for CUDA; device code reads and writes them like others.
#define __managed__ __attribute__((device))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __inline_hint__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDA_CB
#if __has_attribute(grid_constant)
#define __grid_constant__ __attribute__((grid_constant))
#endif
#if __has_attribute(cluster_dims)
#define __cluster_dims__(...) __attribute__((cluster_dims(__VA_ARGS__)))
#endif

#include <stddef.h>

// Vector types. Two and four elements are aligned as one, up to 16 bytes; three are not.
#define R3_VECTOR(name, element, bytes)                                                                             \
    struct name##1 { element x; };                                                                                  \
    struct __attribute__((aligned(2 * bytes > 16 ? 16 : 2 * bytes))) name##2 { element x, y; };                     \
    struct name##3 { element x, y, z; };                                                                            \
    struct __attribute__((aligned(4 * bytes > 16 ? 16 : 4 * bytes))) name##4 { element x, y, z, w; };               \
    static __inline__ __host__ __device__ name##1 make_##name##1(element x) { return name##1{x}; }                  \
    static __inline__ __host__ __device__ name##2 make_##name##2(element x, element y) { return name##2{x, y}; }    \
    static __inline__ __host__ __device__ name##3 make_##name##3(element x, element y, element z) {                 \
        return name##3{x, y, z};                                                                                    \
    }                                                                                                               \
    static __inline__ __host__ __device__ name##4 make_##name##4(element x, element y, element z, element w) {      \
        return name##4{x, y, z, w};                                                                                 \
    }

R3_VECTOR(char, signed char, 1)
R3_VECTOR(uchar, unsigned char, 1)
R3_VECTOR(short, short, 2)
R3_VECTOR(ushort, unsigned short, 2)
R3_VECTOR(int, int, 4)
R3_VECTOR(uint, unsigned int, 4)
R3_VECTOR(long, long, 8)
R3_VECTOR(ulong, unsigned long, 8)
R3_VECTOR(longlong, long long, 8)
R3_VECTOR(ulonglong, unsigned long long, 8)
R3_VECTOR(float, float, 4)
R3_VECTOR(double, double, 8)
#undef R3_VECTOR

struct dim3 {
    unsigned int x, y, z;
    constexpr __host__ __device__ dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr __host__ __device__ dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr __host__ __device__ operator uint3() const { return uint3{x, y, z}; }
};

#include <__clang_cuda_builtin_vars.h>

#define R3_CONVERSIONS(type)                                                                   \
    __device__ inline type::operator dim3() const { return dim3(x, y, z); }                    \
    __device__ inline type::operator uint3() const { return uint3{x, y, z}; }
R3_CONVERSIONS(__cuda_builtin_threadIdx_t)
R3_CONVERSIONS(__cuda_builtin_blockIdx_t)
R3_CONVERSIONS(__cuda_builtin_blockDim_t)
R3_CONVERSIONS(__cuda_builtin_gridDim_t)
#undef R3_CONVERSIONS

// The functions for devices are declared before those of the host are included, which then do not hide them.
#include <__clang_cuda_math_forward_declares.h>
#include <limits.h>
#include <cmath>
#include <cstdlib>
#include <string.h>
#include <__clang_cuda_libdevice_declares.h>

// Functions of libdevice that are one instruction or a few. Their results are those of libdevice, to the last bit.
#define R3_SIMPLE inline __device__ __attribute__((always_inline))
extern "C" {
R3_SIMPLE int __nv_abs(int a) { return a < 0 ? -static_cast<unsigned>(a) : a; }
R3_SIMPLE long long __nv_llabs(long long a) { return a < 0 ? -static_cast<unsigned long long>(a) : a; }
R3_SIMPLE int __nv_min(int a, int b) { return a < b ? a : b; }
R3_SIMPLE int __nv_max(int a, int b) { return a > b ? a : b; }
R3_SIMPLE unsigned int __nv_umin(unsigned int a, unsigned int b) { return a < b ? a : b; }
R3_SIMPLE unsigned int __nv_umax(unsigned int a, unsigned int b) { return a > b ? a : b; }
R3_SIMPLE long long __nv_llmin(long long a, long long b) { return a < b ? a : b; }
R3_SIMPLE long long __nv_llmax(long long a, long long b) { return a > b ? a : b; }
R3_SIMPLE unsigned long long __nv_ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
R3_SIMPLE unsigned long long __nv_ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
R3_SIMPLE int __nv_popc(int a) { return __builtin_popcount(a); }
R3_SIMPLE int __nv_popcll(long long a) { return __builtin_popcountll(a); }
R3_SIMPLE int __nv_clz(int a) { return a == 0 ? 32 : __builtin_clz(a); }
R3_SIMPLE int __nv_clzll(long long a) { return a == 0 ? 64 : __builtin_clzll(a); }
R3_SIMPLE int __nv_ffs(int a) { return __builtin_ffs(a); }
R3_SIMPLE int __nv_ffsll(long long a) { return __builtin_ffsll(a); }
R3_SIMPLE int __nv_brev(int a) { return __builtin_bitreverse32(a); }
R3_SIMPLE long long __nv_brevll(long long a) { return __builtin_bitreverse64(a); }
R3_SIMPLE int __nv_byte_perm(int a, int b, int c) { return __nvvm_prmt(a, b, c); }
R3_SIMPLE int __nv_mulhi(int a, int b) { return (static_cast<long long>(a) * b) >> 32; }
R3_SIMPLE unsigned int __nv_umulhi(unsigned int a, unsigned int b) {
    return (static_cast<unsigned long long>(a) * b) >> 32;
}
R3_SIMPLE long long __nv_mul64hi(long long a, long long b) { return (static_cast<__int128>(a) * b) >> 64; }
R3_SIMPLE unsigned long long __nv_umul64hi(unsigned long long a, unsigned long long b) {
    return (static_cast<unsigned __int128>(a) * b) >> 64;
}
R3_SIMPLE float __nv_fabsf(float a) { return __builtin_fabsf(a); }
R3_SIMPLE double __nv_fabs(double a) { return __builtin_fabs(a); }
R3_SIMPLE float __nv_fminf(float a, float b) { return __builtin_fminf(a, b); }
R3_SIMPLE double __nv_fmin(double a, double b) { return __builtin_fmin(a, b); }
R3_SIMPLE float __nv_fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
R3_SIMPLE double __nv_fmax(double a, double b) { return __builtin_fmax(a, b); }
R3_SIMPLE float __nv_fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
R3_SIMPLE double __nv_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
R3_SIMPLE float __nv_sqrtf(float a) { return __builtin_sqrtf(a); }
R3_SIMPLE double __nv_sqrt(double a) { return __builtin_sqrt(a); }
R3_SIMPLE float __nv_rsqrtf(float a) { return __nvvm_rsqrt_approx_f(a); }
R3_SIMPLE float __nv_floorf(float a) { return __builtin_floorf(a); }
R3_SIMPLE double __nv_floor(double a) { return __builtin_floor(a); }
R3_SIMPLE float __nv_ceilf(float a) { return __builtin_ceilf(a); }
R3_SIMPLE double __nv_ceil(double a) { return __builtin_ceil(a); }
R3_SIMPLE float __nv_truncf(float a) { return __builtin_truncf(a); }
R3_SIMPLE double __nv_trunc(double a) { return __builtin_trunc(a); }
R3_SIMPLE float __nv_rintf(float a) { return __builtin_rintf(a); }
R3_SIMPLE double __nv_rint(double a) { return __builtin_rint(a); }
R3_SIMPLE float __nv_nearbyintf(float a) { return __builtin_rintf(a); }
R3_SIMPLE double __nv_nearbyint(double a) { return __builtin_rint(a); }
R3_SIMPLE float __nv_copysignf(float a, float b) { return __builtin_copysignf(a, b); }
R3_SIMPLE double __nv_copysign(double a, double b) { return __builtin_copysign(a, b); }
R3_SIMPLE float __nv_saturatef(float a) { return __nvvm_saturate_f(a); }
R3_SIMPLE int __nv_float_as_int(float a) { return __builtin_bit_cast(int, a); }
R3_SIMPLE unsigned int __nv_float_as_uint(float a) { return __builtin_bit_cast(unsigned int, a); }
R3_SIMPLE float __nv_int_as_float(int a) { return __builtin_bit_cast(float, a); }
R3_SIMPLE float __nv_uint_as_float(unsigned int a) { return __builtin_bit_cast(float, a); }
R3_SIMPLE decltype(__nv_double_as_longlong(0.0)) __nv_double_as_longlong(double a) { // its type has changed
    return __builtin_bit_cast(long long, a);
}
R3_SIMPLE double __nv_longlong_as_double(long long a) { return __builtin_bit_cast(double, a); }
R3_SIMPLE float __nv_fast_sinf(float a) { return __nvvm_sin_approx_f(a); }
R3_SIMPLE float __nv_fast_cosf(float a) { return __nvvm_cos_approx_f(a); }
R3_SIMPLE float __nv_fast_log2f(float a) { return __nvvm_lg2_approx_f(a); }
R3_SIMPLE float __nv_fast_fdividef(float a, float b) { return __nvvm_div_approx_f(a, b); }
R3_SIMPLE int __nv_isnanf(float a) { return __builtin_isnan(a); }
R3_SIMPLE int __nv_isnand(double a) { return __builtin_isnan(a); }
R3_SIMPLE int __nv_isinff(float a) { return __builtin_isinf(a); }
R3_SIMPLE int __nv_isinfd(double a) { return __builtin_isinf(a); }
R3_SIMPLE int __nv_finitef(float a) { return __builtin_isfinite(a); }
R3_SIMPLE int __nv_isfinited(double a) { return __builtin_isfinite(a); }
R3_SIMPLE int __nv_signbitf(float a) { return __builtin_bit_cast(unsigned int, a) >> 31; }
R3_SIMPLE int __nv_signbitd(double a) { return __builtin_bit_cast(unsigned long long, a) >> 63; }
}

// One rounding mode each: rn, rz, rm, rp are nearest, towards zero, down, up.
#define R3_ROUNDED(mode, name)                                                                                      \
    extern "C" R3_SIMPLE float __nv_fadd_##name(float a, float b) { return __nvvm_add_##mode##_f(a, b); }           \
    extern "C" R3_SIMPLE float __nv_fsub_##name(float a, float b) { return __nvvm_add_##mode##_f(a, -b); }          \
    extern "C" R3_SIMPLE float __nv_fmul_##name(float a, float b) { return __nvvm_mul_##mode##_f(a, b); }           \
    extern "C" R3_SIMPLE float __nv_fdiv_##name(float a, float b) { return __nvvm_div_##mode##_f(a, b); }           \
    extern "C" R3_SIMPLE float __nv_frcp_##name(float a) { return __nvvm_rcp_##mode##_f(a); }                       \
    extern "C" R3_SIMPLE float __nv_fsqrt_##name(float a) { return __nvvm_sqrt_##mode##_f(a); }                     \
    extern "C" R3_SIMPLE float __nv_fmaf_##name(float a, float b, float c) { return __nvvm_fma_##mode##_f(a, b, c); } \
    extern "C" R3_SIMPLE double __nv_dadd_##name(double a, double b) { return __nvvm_add_##mode##_d(a, b); }        \
    extern "C" R3_SIMPLE double __nv_dsub_##name(double a, double b) { return __nvvm_add_##mode##_d(a, -b); }       \
    extern "C" R3_SIMPLE double __nv_dmul_##name(double a, double b) { return __nvvm_mul_##mode##_d(a, b); }        \
    extern "C" R3_SIMPLE double __nv_ddiv_##name(double a, double b) { return __nvvm_div_##mode##_d(a, b); }        \
    extern "C" R3_SIMPLE double __nv_drcp_##name(double a) { return __nvvm_rcp_##mode##_d(a); }                     \
    extern "C" R3_SIMPLE double __nv_dsqrt_##name(double a) { return __nvvm_sqrt_##mode##_d(a); }                   \
    extern "C" R3_SIMPLE double __nv_fma_##name(double a, double b, double c) { return __nvvm_fma_##mode##_d(a, b, c); } \
    extern "C" R3_SIMPLE int __nv_float2int_##name(float a) { return __nvvm_f2i_##mode(a); }                        \
    extern "C" R3_SIMPLE unsigned int __nv_float2uint_##name(float a) { return __nvvm_f2ui_##mode(a); }             \
    extern "C" R3_SIMPLE long long __nv_float2ll_##name(float a) { return __nvvm_f2ll_##mode(a); }                  \
    extern "C" R3_SIMPLE unsigned long long __nv_float2ull_##name(float a) { return __nvvm_f2ull_##mode(a); }       \
    extern "C" R3_SIMPLE int __nv_double2int_##name(double a) { return __nvvm_d2i_##mode(a); }                      \
    extern "C" R3_SIMPLE unsigned int __nv_double2uint_##name(double a) { return __nvvm_d2ui_##mode(a); }           \
    extern "C" R3_SIMPLE long long __nv_double2ll_##name(double a) { return __nvvm_d2ll_##mode(a); }                \
    extern "C" R3_SIMPLE unsigned long long __nv_double2ull_##name(double a) { return __nvvm_d2ull_##mode(a); }     \
    extern "C" R3_SIMPLE float __nv_double2float_##name(double a) { return __nvvm_d2f_##mode(a); }                  \
    extern "C" R3_SIMPLE float __nv_int2float_##name(int a) { return __nvvm_i2f_##mode(a); }                        \
    extern "C" R3_SIMPLE float __nv_uint2float_##name(unsigned int a) { return __nvvm_ui2f_##mode(a); }             \
    extern "C" R3_SIMPLE float __nv_ll2float_##name(long long a) { return __nvvm_ll2f_##mode(a); }                  \
    extern "C" R3_SIMPLE float __nv_ull2float_##name(unsigned long long a) { return __nvvm_ull2f_##mode(a); }
R3_ROUNDED(rn, rn)
R3_ROUNDED(rz, rz)
R3_ROUNDED(rm, rd)
R3_ROUNDED(rp, ru)
#undef R3_ROUNDED
#undef R3_SIMPLE

#include <__clang_cuda_device_functions.h>
#include <__clang_cuda_math.h>

extern "C" {
__device__ int vprintf(const char *, const char *);
__device__ int printf(const char *, ...);
__device__ void free(void *) __attribute__((nothrow));
__device__ void *malloc(size_t) __attribute__((nothrow, malloc));
__device__ void __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t width);
static __inline__ __device__ void __assert_fail(const char *message, const char *file, unsigned line,
                                                const char *function) {
    __assertfail(message, file, line, function, sizeof(char));
}
// How `<<<…>>>` is compiled, for which host code is only checked.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, void *stream = 0);
int cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, void *stream = 0);
int cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream);
}

// What clang's header of intrinsics expects of NVIDIA's.
typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
static __inline__ __device__ size_t __cvta_generic_to_global(const void *at) {
    return (size_t)(__attribute__((address_space(1))) void *)at;
}
static __inline__ __device__ size_t __cvta_generic_to_shared(const void *at) {
    return (size_t)(__attribute__((address_space(3))) void *)at;
}
static __inline__ __device__ size_t __cvta_generic_to_local(const void *at) {
    return (size_t)(__attribute__((address_space(5))) void *)at;
}
static __inline__ __device__ unsigned __isGlobal(const void *at) { return __nvvm_isspacep_global(at); }
static __inline__ __device__ unsigned __isShared(const void *at) { return __nvvm_isspacep_shared(at); }
static __inline__ __device__ unsigned __isLocal(const void *at) { return __nvvm_isspacep_local(at); }
static __inline__ __device__ unsigned __isConstant(const void *at) { return __nvvm_isspacep_const(at); }

#include <__clang_cuda_cmath.h>
#include <__clang_cuda_intrinsics.h>

// Atomics: clang has the functions behind them.
#define R3_ATOMIC(name, type, behind)                                                                               \
    static __inline__ __device__ type atomic##name(type *at, type value) { return behind(at, value); }              \
    static __inline__ __device__ type atomic##name##_block(type *at, type value) { return behind##_block(at, value); } \
    static __inline__ __device__ type atomic##name##_system(type *at, type value) { return behind##_system(at, value); }
#define R3_ATOMIC_CAS(type, behind)                                                                                 \
    static __inline__ __device__ type atomicCAS(type *at, type compare, type value) { return behind(at, compare, value); } \
    static __inline__ __device__ type atomicCAS_block(type *at, type compare, type value) {                         \
        return behind##_block(at, compare, value);                                                                  \
    }                                                                                                               \
    static __inline__ __device__ type atomicCAS_system(type *at, type compare, type value) {                        \
        return behind##_system(at, compare, value);                                                                 \
    }
#define R3_ATOMIC_BITS(name)                                                                                        \
    R3_ATOMIC(name, int, __iAtomic##name)                                                                           \
    R3_ATOMIC(name, unsigned int, __uAtomic##name)                                                                  \
    R3_ATOMIC(name, unsigned long long, __ullAtomic##name)
R3_ATOMIC(Add, int, __iAtomicAdd)
R3_ATOMIC(Add, unsigned int, __uAtomicAdd)
R3_ATOMIC(Add, unsigned long long, __ullAtomicAdd)
R3_ATOMIC(Add, float, __fAtomicAdd)
R3_ATOMIC(Add, double, __dAtomicAdd)
R3_ATOMIC(Exch, int, __iAtomicExch)
R3_ATOMIC(Exch, unsigned int, __uAtomicExch)
R3_ATOMIC(Exch, unsigned long long, __ullAtomicExch)
R3_ATOMIC(Exch, float, __fAtomicExch)
R3_ATOMIC(Min, int, __iAtomicMin)
R3_ATOMIC(Min, unsigned int, __uAtomicMin)
R3_ATOMIC(Min, long long, __illAtomicMin)
R3_ATOMIC(Min, unsigned long long, __ullAtomicMin)
R3_ATOMIC(Max, int, __iAtomicMax)
R3_ATOMIC(Max, unsigned int, __uAtomicMax)
R3_ATOMIC(Max, long long, __illAtomicMax)
R3_ATOMIC(Max, unsigned long long, __ullAtomicMax)
R3_ATOMIC(Inc, unsigned int, __uAtomicInc)
R3_ATOMIC(Dec, unsigned int, __uAtomicDec)
R3_ATOMIC_BITS(And)
R3_ATOMIC_BITS(Or)
R3_ATOMIC_BITS(Xor)
R3_ATOMIC_CAS(int, __iAtomicCAS)
R3_ATOMIC_CAS(unsigned int, __uAtomicCAS)
R3_ATOMIC_CAS(unsigned long long, __ullAtomicCAS)
R3_ATOMIC_CAS(unsigned short, __usAtomicCAS)
#undef R3_ATOMIC
#undef R3_ATOMIC_BITS
#undef R3_ATOMIC_CAS
static __inline__ __device__ int atomicSub(int *at, int value) { return __iAtomicAdd(at, -value); }
static __inline__ __device__ unsigned int atomicSub(unsigned int *at, unsigned int value) {
    return __uAtomicAdd(at, -value);
}

// Overloads for every arithmetic type, as CUDA has them without a namespace.
#define R3_LEAST_AND_MOST(type)                                                                       \
    static __inline__ __device__ type min(type a, type b) { return a < b ? a : b; }                   \
    static __inline__ __device__ type max(type a, type b) { return a > b ? a : b; }
R3_LEAST_AND_MOST(unsigned int)
R3_LEAST_AND_MOST(long)
R3_LEAST_AND_MOST(unsigned long)
R3_LEAST_AND_MOST(long long)
R3_LEAST_AND_MOST(unsigned long long)
#undef R3_LEAST_AND_MOST

#endif
