// What the sample programs share: error checks, deterministic numbers, the result line.
//
// A sample prints one result line, "NAME: ok checksum=..." or "NAME: FAILED ...", and returns 0 or 1.
// Its stdout is the same in every run on the same GPU model, so that runs can be compared byte by byte.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        cudaError_t status_ = (call);                                                            \
        if (status_ != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                        \
                    cudaGetErrorString(status_));                                                \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

// A 32-bit mix (Wellons' "lowbias32" constants): the same numbers on host and device, no state.
__host__ __device__ inline uint32_t mix32(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

// A float in [-1, 1) that depends on `index` and `seed` alone.
__host__ __device__ inline float noise(uint32_t index, uint32_t seed) {
    uint32_t bits = mix32(index + seed * 0x9e3779b9u);
    return static_cast<float>(bits >> 8) * (2.0f / 16777216.0f) - 1.0f;
}

// FNV-1a, 64 bits.
inline uint64_t checksum(const void *data, size_t len, uint64_t hash = 0xcbf29ce484222325ull) {
    const unsigned char *bytes = static_cast<const unsigned char *>(data);
    for (size_t i = 0; i < len; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    }
    return hash;
}

template <typename T>
uint64_t checksum(const std::vector<T> &values, uint64_t hash = 0xcbf29ce484222325ull) {
    return checksum(values.data(), values.size() * sizeof(T), hash);
}

// Largest |got - want| over the scale of `want`; NaN counts as infinitely wrong.
inline double largest_error(const float *got, const float *want, size_t count) {
    double scale = 1e-30, worst = 0.0;
    for (size_t i = 0; i < count; ++i) {
        scale = std::fmax(scale, std::fabs(static_cast<double>(want[i])));
    }
    for (size_t i = 0; i < count; ++i) {
        double error = std::fabs(static_cast<double>(got[i]) - want[i]);
        if (!(error <= worst)) {
            worst = error == error ? error : INFINITY;
        }
    }
    return worst / scale;
}

// Positive integer from the command line, or the default.
inline int argument(int argc, char **argv, int index, int fallback) {
    if (argc <= index) {
        return fallback;
    }
    int value = atoi(argv[index]);
    if (value <= 0) {
        fprintf(stderr, "%s: argument %d must be a positive integer, got '%s'\n", argv[0], index,
                argv[index]);
        exit(1);
    }
    return value;
}

// Prints the result line and gives the exit code.
inline int result(const char *name, bool ok, uint64_t hash) {
    printf("%s: %s checksum=%016llx\n", name, ok ? "ok" : "FAILED",
           static_cast<unsigned long long>(hash));
    return ok ? 0 : 1;
}

template <typename T>
T *device_copy(const std::vector<T> &values) {
    T *pointer = nullptr;
    CHECK(cudaMalloc(&pointer, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return pointer;
}

template <typename T>
std::vector<T> host_copy(const T *pointer, size_t count) {
    std::vector<T> values(count);
    CHECK(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}
