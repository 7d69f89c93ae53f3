// Several host threads that launch at the same time, each on its own default stream (built with
// --default-stream per-thread, so that the _ptsz entry points are used) and on its own buffers.
#include "sample.h"

#include <thread>

__global__ void churn(unsigned int *state, int n, unsigned int key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        state[i] = mix32(state[i] ^ key);
    }
}

static void work(int id, int n, int launches, std::vector<unsigned int> *got) {
    std::vector<unsigned int> state(n);
    for (int i = 0; i < n; ++i) {
        state[i] = i * (id + 1);
    }
    unsigned int *device_state = device_copy(state);
    for (int launch = 0; launch < launches; ++launch) {
        churn<<<(n + 127) / 128, 128>>>(device_state, n, id * 1000 + launch);
        CHECK(cudaGetLastError());
    }
    *got = host_copy(device_state, n);
    CHECK(cudaFree(device_state));
}

int main(int argc, char **argv) {
    const int threads = argument(argc, argv, 1, 4);
    const int n = argument(argc, argv, 2, 3000);
    const int launches = argument(argc, argv, 3, 12);
    std::vector<std::vector<unsigned int>> got(threads);
    std::vector<std::thread> workers;
    for (int id = 0; id < threads; ++id) {
        workers.emplace_back(work, id, n, launches, &got[id]);
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    bool ok = true;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (int id = 0; id < threads; ++id) {
        for (int i = 0; i < n; ++i) {
            unsigned int want = i * (id + 1);
            for (int launch = 0; launch < launches; ++launch) {
                want = mix32(want ^ (id * 1000 + launch));
            }
            ok = ok && got[id][i] == want;
        }
        hash = checksum(got[id], hash);
    }
    return result("threads", ok, hash);
}
