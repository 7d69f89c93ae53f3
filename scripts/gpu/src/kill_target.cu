// A program to be killed while it is recorded: many launches, each of which rewrites a buffer of random
// words, so that something is being written to the archive at almost every instant.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t status_ = (call);                                                             \
        if (status_ != cudaSuccess) {                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                         \
                    cudaGetErrorString(status_));                                                 \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

__global__ void churn(uint32_t *state, int n, uint32_t key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        uint32_t x = state[i] ^ key ^ static_cast<uint32_t>(i);
        x ^= x >> 16;
        x *= 0x7feb352du;
        x ^= x >> 15;
        x *= 0x846ca68bu;
        x ^= x >> 16;
        state[i] = x;
    }
}

int main(int argc, char **argv) {
    const int kib = argc > 1 ? atoi(argv[1]) : 512;
    const int launches = argc > 2 ? atoi(argv[2]) : 300;
    const int n = kib * 1024 / 4;
    uint32_t *state = nullptr;
    CHECK(cudaMalloc(&state, n * sizeof(uint32_t)));
    CHECK(cudaMemset(state, 0, n * sizeof(uint32_t)));
    for (int launch = 0; launch < launches; ++launch) {
        churn<<<(n + 255) / 256, 256>>>(state, n, launch + 1);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    uint32_t first = 0;
    CHECK(cudaMemcpy(&first, state, sizeof(first), cudaMemcpyDeviceToHost));
    printf("kill_target: ok first=%08x\n", first);
    return 0;
}
