// y = a x + y with the coefficient in constant memory and two device globals: a table that the
// kernel reads and a counter that it changes. The constant changes between launches.
#include "sample.h"

__constant__ float coefficients[4];
__device__ float bias[256];
__device__ unsigned int elements_done;

__global__ void saxpy(int n, int which, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = coefficients[which] * x[i] + y[i] + bias[i & 255];
        atomicAdd(&elements_done, 1u);
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 10000);
    const int launches = argument(argc, argv, 2, 4);

    std::vector<float> x(n), y(n), table(256);
    for (int i = 0; i < n; ++i) {
        // Multiples of 1/64: every product and sum below is exact in float.
        x[i] = floorf(noise(i, 1) * 64.0f) / 64.0f;
        y[i] = floorf(noise(i, 2) * 64.0f) / 64.0f;
    }
    for (int i = 0; i < 256; ++i) {
        table[i] = floorf(noise(i, 3) * 64.0f) / 64.0f;
    }
    float *device_x = device_copy(x);
    float *device_y = device_copy(y);
    CHECK(cudaMemcpyToSymbol(bias, table.data(), sizeof(bias)));

    for (int launch = 0; launch < launches; ++launch) {
        float values[4] = {0.5f, 2.0f, -1.0f, static_cast<float>(launch)};
        CHECK(cudaMemcpyToSymbol(coefficients, values, sizeof(values)));
        saxpy<<<(n + 127) / 128, 128>>>(n, launch & 3, device_x, device_y);
        CHECK(cudaGetLastError());
        for (int i = 0; i < n; ++i) {
            y[i] = values[launch & 3] * x[i] + y[i] + table[i & 255];
        }
    }
    CHECK(cudaDeviceSynchronize());

    std::vector<float> got = host_copy(device_y, n);
    unsigned int done = 0;
    CHECK(cudaMemcpyFromSymbol(&done, elements_done, sizeof(done)));
    bool ok = got == y && done == static_cast<unsigned int>(n) * launches;
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(device_y));
    return result("saxpy", ok, checksum(&done, sizeof(done), checksum(got)));
}
