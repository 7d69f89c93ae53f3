// A 1-D convolution in double precision whose author launched it with blocks of 32 threads.
#include "data.h"

__constant__ double mask[16];

__global__ void convolution(const double *in, double *out, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    double sum = 0.0;
    int start = i - width / 2;
    for (int j = 0; j < width; ++j) {
        if (start + j >= 0 && start + j < n) {
            sum += in[start + j] * mask[j];
        }
    }
    out[i] = sum;
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 1 << 24), launches = argument(argc, argv, 2, 4), width = 9;
    std::vector<double> signal(n), weights(16);
    for (int i = 0; i < n; ++i) {
        signal[i] = noise(i, 1);
    }
    for (int i = 0; i < 16; ++i) {
        weights[i] = noise(i, 2);
    }
    CHECK(cudaMemcpyToSymbol(mask, weights.data(), 16 * sizeof(double)));
    double *in = device_copy(signal), *out = nullptr;
    CHECK(cudaMalloc(&out, n * sizeof(double)));
    CHECK(cudaMemset(out, 0, n * sizeof(double)));
    for (int i = 0; i < launches; ++i) {
        convolution<<<(n + 31) / 32, 32>>>(in, out, n, width);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    return result("convolution", true, checksum(host_copy(out, n)));
}
