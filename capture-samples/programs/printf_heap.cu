// A kernel that prints and that uses the device heap: replays of it are flagged, since neither the printf
// buffer nor the heap is part of an archive. What it writes to ordinary memory is exact all the same.
#include "sample.h"

__global__ void scratch(int *out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < n) {
        int *numbers = static_cast<int *>(malloc(16 * sizeof(int)));
        if (numbers == nullptr) {
            out[thread] = -1;
            return;
        }
        for (int i = 0; i < 16; ++i) {
            numbers[i] = thread * i;
        }
        int sum = 0;
        for (int i = 0; i < 16; ++i) {
            sum += numbers[(i * 5) % 16];
        }
        out[thread] = sum;
        free(numbers);
    }
    if (thread == 0) {
        printf("hello from the device, %d threads\n", n);
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 256);
    int *out = nullptr;
    CHECK(cudaMalloc(&out, n * sizeof(int)));
    CHECK(cudaMemset(out, 0, n * sizeof(int)));
    scratch<<<(n + 63) / 64, 64>>>(out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::vector<int> got = host_copy(out, n);
    bool ok = true;
    for (int i = 0; i < n; ++i) {
        ok = ok && got[i] == 120 * i;
    }
    return result("printf_heap", ok, checksum(got));
}
