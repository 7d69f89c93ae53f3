// The two passes of attention for one query: scores of all keys, then the sum of all values weighted by them.
#include "data.h"

__global__ void scores(const float *keys, const float *query, float *score, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = 0.0f;
        for (int j = 0; j < d; ++j) {
            sum += keys[static_cast<size_t>(i) * d + j] * query[j];
        }
        score[i] = expf(sum * 0.125f);
    }
}

__global__ void weigh(const float *score, const float *values, float *out, int n, int d) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int part = blockIdx.y, parts = gridDim.y;
    if (j < d) {
        float sum = 0.0f;
        for (int i = part; i < n; i += parts) {
            sum += score[i] * values[static_cast<size_t>(i) * d + j];
        }
        out[part * d + j] = sum;
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 65536), d = argument(argc, argv, 2, 256), parts = 64;
    const int launches = argument(argc, argv, 3, 3);
    std::vector<float> k = floats(static_cast<size_t>(n) * d, 1, -0.1f, 0.1f), v = floats(static_cast<size_t>(n) * d, 2, -1.0f, 1.0f);
    std::vector<float> q = floats(d, 3, -1.0f, 1.0f);
    float *keys = device_copy(k), *values = device_copy(v), *query = device_copy(q), *score = nullptr, *out = nullptr;
    CHECK(cudaMalloc(&score, n * sizeof(float)));
    CHECK(cudaMalloc(&out, parts * d * sizeof(float)));
    CHECK(cudaMemset(out, 0, parts * d * sizeof(float)));
    for (int i = 0; i < launches; ++i) {
        scores<<<(n + 255) / 256, 256>>>(keys, query, score, n, d);
        weigh<<<dim3((d + 255) / 256, parts), 256>>>(score, values, out, n, d);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    return result("attention", true, checksum(host_copy(out, parts * d)));
}
