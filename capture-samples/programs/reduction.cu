// Two ways to sum: warp shuffles with one partial sum per block, and float atomics into few buckets.
//
// The order of float atomics differs from run to run, so the buckets' last bits do too: a replay of
// `scatter` agrees within its own run-to-run spread, not bit for bit. `block_sums` is exact. Only what
// is reproducible goes into the printed checksum.
#include "sample.h"

constexpr int BUCKETS = 64;

__global__ void block_sums(const float *x, float *partial, int n) {
    __shared__ float warps[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += x[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.0f;
        for (int offset = 16; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        }
        if (threadIdx.x == 0) {
            partial[blockIdx.x] = sum;
        }
    }
}

__global__ void scatter(const float *x, float *buckets, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&buckets[mix32(i) % BUCKETS], x[i]);
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 30000);
    const int blocks = 64;
    std::vector<float> x(n);
    std::vector<double> want(BUCKETS, 0.0);
    double total = 0.0;
    for (int i = 0; i < n; ++i) {
        x[i] = noise(i, 1) + 1.0f;
        want[mix32(i) % BUCKETS] += x[i];
        total += x[i];
    }
    float *device_x = device_copy(x), *partial = nullptr, *buckets = nullptr;
    CHECK(cudaMalloc(&partial, blocks * sizeof(float)));
    CHECK(cudaMalloc(&buckets, BUCKETS * sizeof(float)));
    CHECK(cudaMemset(partial, 0, blocks * sizeof(float)));
    CHECK(cudaMemset(buckets, 0, BUCKETS * sizeof(float)));
    block_sums<<<blocks, 256>>>(device_x, partial, n);
    CHECK(cudaGetLastError());
    scatter<<<blocks, 256>>>(device_x, buckets, n);
    CHECK(cudaGetLastError());

    std::vector<float> sums = host_copy(partial, blocks);
    std::vector<float> scattered = host_copy(buckets, BUCKETS);
    double got = 0.0;
    for (float sum : sums) {
        got += sum;
    }
    bool ok = fabs(got - total) <= 1e-5 * total;
    for (int i = 0; i < BUCKETS; ++i) {
        ok = ok && fabs(scattered[i] - want[i]) <= 1e-4 * want[i];
    }
    return result("reduction", ok, checksum(sums));
}
