// One large buffer of random floats, a plain copy of it to pinned host memory, and launches that read it.
//
// Arguments: MiB of data, launches, and "change" to let each launch rewrite the data. Prints the times of
// the copy and of each launch (the call and the wait for it) and a checksum that does not depend on timing.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

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

constexpr int BLOCKS = 1024, THREADS = 256;

__host__ __device__ inline uint32_t mix32(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

__global__ void generate(float *data, size_t count) {
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
         i += static_cast<size_t>(gridDim.x) * blockDim.x) {
        data[i] = static_cast<float>(mix32(static_cast<uint32_t>(i)) >> 8) * (2.0f / 16777216.0f) - 1.0f;
    }
}

__global__ void touch(float *data, size_t count, unsigned int *folds, int change) {
    unsigned int fold = 0;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
         i += static_cast<size_t>(gridDim.x) * blockDim.x) {
        float value = data[i];
        fold ^= __float_as_uint(value) + static_cast<unsigned int>(i);
        if (change) {
            data[i] = -value;
        }
    }
    atomicXor(&folds[blockIdx.x], fold);
}

static double now_ms() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double, std::milli>(clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv) {
    const size_t bytes = (argc > 1 ? strtoull(argv[1], nullptr, 10) : 1024) << 20;
    const int launches = argc > 2 ? atoi(argv[2]) : 2;
    const int change = argc > 3 && strcmp(argv[3], "change") == 0;
    const size_t piece = 32 << 20, count = bytes / sizeof(float);

    float *data = nullptr;
    unsigned int *folds = nullptr;
    void *pinned[2] = {nullptr, nullptr};
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&data, bytes));
    CHECK(cudaMalloc(&folds, BLOCKS * sizeof(unsigned int)));
    CHECK(cudaMallocHost(&pinned[0], piece));
    CHECK(cudaMallocHost(&pinned[1], piece));
    CHECK(cudaMemsetAsync(folds, 0, BLOCKS * sizeof(unsigned int), stream));
    generate<<<BLOCKS, THREADS, 0, stream>>>(data, count);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));

    double copy_ms = 1e300;
    for (int repeat = 0; repeat < 3; ++repeat) {
        double start = now_ms();
        for (size_t at = 0, i = 0; at < bytes; at += piece, ++i) {
            size_t length = bytes - at < piece ? bytes - at : piece;
            CHECK(cudaMemcpyAsync(pinned[i % 2], reinterpret_cast<char *>(data) + at, length,
                                  cudaMemcpyDeviceToHost, stream));
        }
        CHECK(cudaStreamSynchronize(stream));
        double took = now_ms() - start;
        copy_ms = took < copy_ms ? took : copy_ms;
    }

    std::vector<double> launch_ms;
    for (int launch = 0; launch < launches; ++launch) {
        double start = now_ms();
        touch<<<BLOCKS, THREADS, 0, stream>>>(data, count, folds, change);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));
        launch_ms.push_back(now_ms() - start);
    }
    std::vector<unsigned int> host(BLOCKS);
    CHECK(cudaMemcpy(host.data(), folds, BLOCKS * sizeof(unsigned int), cudaMemcpyDeviceToHost));
    unsigned int all = 0;
    for (int i = 0; i < BLOCKS; ++i) {
        all = mix32(all ^ host[i]);
    }
    printf("{\"bytes\": %zu, \"copy_ms\": %.3f, \"launch_ms\": [", bytes, copy_ms);
    for (int i = 0; i < launches; ++i) {
        printf("%s%.3f", i ? ", " : "", launch_ms[i]);
    }
    printf("], \"checksum\": \"%08x\"}\n", all);
    return 0;
}
