// Stream-ordered allocations from the default pool and from a pool of our own. Buffers are freed and
// allocated again between launches, so that later launches see the same addresses with other contents.
#include "sample.h"

__global__ void fill(unsigned int *out, int n, unsigned int seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = mix32(i ^ seed);
    }
}

__global__ void fold(const unsigned int *in, unsigned int *total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicXor(&total[i & 63], in[i] + static_cast<unsigned int>(i));
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 6000);
    const int rounds = 4;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));

    unsigned int *total = nullptr;
    CHECK(cudaMallocAsync(&total, 64 * sizeof(unsigned int), stream));
    CHECK(cudaMemsetAsync(total, 0, 64 * sizeof(unsigned int), stream));
    std::vector<unsigned int> want(64, 0), got(64);
    for (int round = 0; round < rounds; ++round) {
        unsigned int *buffer = nullptr;
        if (round % 2 == 0) {
            CHECK(cudaMallocAsync(&buffer, n * sizeof(unsigned int), stream));
        } else {
            CHECK(cudaMallocFromPoolAsync(&buffer, n * sizeof(unsigned int), pool, stream));
        }
        CHECK(cudaMemsetAsync(buffer, 0, n * sizeof(unsigned int), stream));
        fill<<<(n + 255) / 256, 256, 0, stream>>>(buffer, n, round);
        CHECK(cudaGetLastError());
        fold<<<(n + 255) / 256, 256, 0, stream>>>(buffer, total, n);
        CHECK(cudaGetLastError());
        CHECK(cudaFreeAsync(buffer, stream));
        for (int i = 0; i < n; ++i) {
            want[i & 63] ^= mix32(i ^ round) + static_cast<unsigned int>(i);
        }
    }
    CHECK(cudaMemcpyAsync(got.data(), total, 64 * sizeof(unsigned int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(total, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(stream));
    return result("async_alloc", got == want, checksum(got));
}
