// Managed memory that host and device write in turn, and a managed variable.
#include "sample.h"

__managed__ unsigned int rounds;

__global__ void advance(unsigned int *state, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        state[i] = mix32(state[i] + rounds);
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 8000);
    const int steps = 3;
    unsigned int *state = nullptr;
    CHECK(cudaMallocManaged(&state, n * sizeof(unsigned int)));
    std::vector<unsigned int> want(n);
    for (int i = 0; i < n; ++i) {
        state[i] = want[i] = i;
    }
    for (int s = 0; s < steps; ++s) {
        rounds = s + 1;
        advance<<<(n + 255) / 256, 256>>>(state, n);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        state[s] += 17;  // the host's turn
        for (int i = 0; i < n; ++i) {
            want[i] = mix32(want[i] + s + 1);
        }
        want[s] += 17;
    }
    bool ok = memcmp(state, want.data(), n * sizeof(unsigned int)) == 0;
    uint64_t hash = checksum(state, n * sizeof(unsigned int));
    CHECK(cudaFree(state));
    return result("managed", ok, hash);
}
