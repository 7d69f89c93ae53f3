// The device code of the test programs: nvcc -ptx -arch=compute_80 -o kernels.ptx kernels.cu
#include <cassert>
#include <cooperative_groups.h>
#include <cstdio>

__device__ unsigned counter;
__device__ __managed__ int shared_with_host = 40;

extern "C" __global__ void add_one(unsigned *at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) at[i] += 1;
}

// Takes its time: the last value is there only at the end.
extern "C" __global__ void slow_fill(unsigned *at, unsigned value, int n, int rounds) {
    unsigned x = value;
    for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    for (int i = 0; i < n; i++) at[i] = x == 1u ? 0 : value;
}

extern "C" __global__ void wait_for(volatile unsigned *flag, unsigned *out) {
    while (*flag == 0) {}
    *out = *flag + 1;
}

extern "C" __global__ void count() { atomicAdd(&counter, 1); }
extern "C" __global__ void managed_plus(int n) { shared_with_host += n; }

extern "C" __global__ void hello(int n) {
    if (threadIdx.x == 0) printf("block %d of %d: %s %.2f\n", blockIdx.x, gridDim.x, "text", n * 0.5);
}

extern "C" __global__ void store_at(unsigned char *at, long offset) { *(unsigned *)(at + offset) = 7; }
extern "C" __global__ void fails(int n) { assert(n < 3); }
extern "C" __global__ void traps() { __trap(); }

extern "C" __global__ void reduce(const float *in, float *out, int n) {
    extern __shared__ float part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

// Each block sees what all blocks wrote before the barrier.
extern "C" __global__ void meet(unsigned *in, unsigned *out) {
    auto grid = cooperative_groups::this_grid();
    if (threadIdx.x == 0) in[blockIdx.x] = blockIdx.x + 1;
    grid.sync();
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; i++) sum += ((volatile unsigned *)in)[i];
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void sample(cudaTextureObject_t texture, float *out, int width, int height) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < width && y < height) out[y * width + x] = tex2D<float>(texture, x + 0.5f, y + 0.5f);
}

extern "C" __global__ void draw(cudaSurfaceObject_t surface, int width) {
    int x = threadIdx.x, y = threadIdx.y;
    surf2Dwrite((float)(10 * y + x), surface, x * 4, y);
}

extern "C" __global__ void add(unsigned *at, unsigned n) { atomicAdd(at, n); }
extern "C" __global__ void __launch_bounds__(128) bounded(unsigned *at) { at[threadIdx.x] = threadIdx.x; }

// Reads and writes one cell in two steps, so that two that run at once lose an addition.
extern "C" __global__ void add_slowly(volatile unsigned *at, int rounds) {
    unsigned before = *at, x = before;
    for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    *at = before + (x == 0xffffffffu ? 2 : 1);
}
