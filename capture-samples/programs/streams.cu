// Kernels on four streams of one thread, ordered by events: two producers, a consumer of both, and work
// that runs beside them.
#include "sample.h"

__global__ void produce(float *out, int n, unsigned int seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = noise(i, seed);
    }
}

__global__ void combine(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = fmaxf(a[i], b[n - 1 - i]);
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 5000);
    cudaStream_t streams[4];
    cudaEvent_t done[2];
    float *buffers[4];
    for (int i = 0; i < 4; ++i) {
        CHECK(cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking, i % 2 ? -1 : 0));
        CHECK(cudaMalloc(&buffers[i], n * sizeof(float)));
        CHECK(cudaMemsetAsync(buffers[i], 0, n * sizeof(float), streams[i]));
    }
    const dim3 grid((n + 255) / 256), block(256);
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
        produce<<<grid, block, 0, streams[i]>>>(buffers[i], n, i + 1);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(done[i], streams[i]));
        CHECK(cudaStreamWaitEvent(streams[2], done[i], 0));
    }
    combine<<<grid, block, 0, streams[2]>>>(buffers[0], buffers[1], buffers[2], n);
    CHECK(cudaGetLastError());
    produce<<<grid, block, 0, streams[3]>>>(buffers[3], n, 9);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::vector<float> combined = host_copy(buffers[2], n), beside = host_copy(buffers[3], n);
    bool ok = true;
    for (int i = 0; i < n; ++i) {
        ok = ok && combined[i] == fmaxf(noise(i, 1), noise(n - 1 - i, 2)) && beside[i] == noise(i, 9);
    }
    return result("streams", ok, checksum(beside, checksum(combined)));
}
