// A kernel that reads and writes host memory: pinned and mapped by cudaHostAlloc, and the program's own
// pages registered with cudaHostRegister.
#include "sample.h"

#include <sys/mman.h>

__global__ void exchange(const int *mapped, int *registered, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = mapped[i] - registered[i];
        registered[i] = mapped[n - 1 - i] ^ i;
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 4096);
    const size_t bytes = n * sizeof(int);
    int *mapped = nullptr, *mapped_device = nullptr, *registered_device = nullptr, *out = nullptr;
    CHECK(cudaHostAlloc(&mapped, bytes, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&mapped_device, mapped, 0));
    void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        perror("host_mapped: mmap");
        return 1;
    }
    int *registered = static_cast<int *>(pages);
    CHECK(cudaHostRegister(registered, bytes, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&registered_device, registered, 0));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemset(out, 0, bytes));

    std::vector<int> want(n), want_registered(n);
    for (int i = 0; i < n; ++i) {
        mapped[i] = static_cast<int>(mix32(i) & 0xfff);
        registered[i] = i * 3;
        want[i] = mapped[i] - registered[i];
    }
    for (int i = 0; i < n; ++i) {
        want_registered[i] = mapped[n - 1 - i] ^ i;
    }
    exchange<<<(n + 255) / 256, 256>>>(mapped_device, registered_device, out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::vector<int> got = host_copy(out, n);
    bool ok = got == want && memcmp(registered, want_registered.data(), bytes) == 0;
    uint64_t hash = checksum(registered, bytes, checksum(got));
    CHECK(cudaHostUnregister(registered));
    munmap(pages, bytes);
    CHECK(cudaFreeHost(mapped));
    CHECK(cudaFree(out));
    return result("host_mapped", ok, hash);
}
