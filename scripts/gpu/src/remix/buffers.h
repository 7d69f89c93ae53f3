// What the programs of this folder share: buffers with values that are the same in every run, and checked calls.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        cudaError_t error_ = (call);                                                             \
        if (error_ != cudaSuccess) {                                                             \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                   \
                         cudaGetErrorString(error_));                                            \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

inline uint32_t next_random(uint32_t &state)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/// Floats from `low` up to `high`. The same seed gives the same ones.
inline float *floats(size_t n, float low = -1.0f, float high = 1.0f, uint32_t seed = 1)
{
    std::vector<float> host(n);
    uint32_t state = seed * 2654435761u + 1u;
    for (float &value : host) value = low + (high - low) * (float)(next_random(state) >> 8) / 16777216.0f;
    float *device;
    CHECK(cudaMalloc(&device, n * sizeof(float)));
    CHECK(cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return device;
}

/// Integers below `below`.
inline int *integers(size_t n, uint32_t below, uint32_t seed = 1)
{
    std::vector<int> host(n);
    uint32_t state = seed * 2654435761u + 1u;
    for (int &value : host) value = (int)(next_random(state) % below);
    int *device;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    CHECK(cudaMemcpy(device, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    return device;
}

/// Zeros.
template <class T> T *zeros(size_t n)
{
    T *device;
    CHECK(cudaMalloc(&device, n * sizeof(T)));
    CHECK(cudaMemset(device, 0, n * sizeof(T)));
    return device;
}

/// Waits, and ends the program when a launch failed.
inline void done(const char *what)
{
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::printf("%s\n", what);
}
