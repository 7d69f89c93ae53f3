// More than 4 KiB of kernel parameters in one struct, with pointers at its end.
#include "sample.h"

constexpr int COEFFICIENTS = 2000;

struct Polynomials {
    float coefficient[COEFFICIENTS];
    int degree;
    const float *x;
    float *y;
};
static_assert(sizeof(Polynomials) > 4096, "meant to exceed the old limit");

__global__ void evaluate(const __grid_constant__ Polynomials p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int first = i * (p.degree + 1) % (COEFFICIENTS - p.degree);
        float value = 0.0f;
        for (int k = p.degree; k >= 0; --k) {
            value = value * p.x[i] + p.coefficient[first + k];
        }
        p.y[i] = value;
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 3000);
    static Polynomials p;
    std::vector<float> x(n), want(n);
    for (int i = 0; i < COEFFICIENTS; ++i) {
        p.coefficient[i] = static_cast<float>(mix32(i) % 16);
    }
    p.degree = 3;
    for (int i = 0; i < n; ++i) {
        x[i] = static_cast<float>(mix32(i) % 9) - 4.0f;  // small integers: exact
        int first = i * (p.degree + 1) % (COEFFICIENTS - p.degree);
        want[i] = 0.0f;
        for (int k = p.degree; k >= 0; --k) {
            want[i] = want[i] * x[i] + p.coefficient[first + k];
        }
    }
    float *device_x = device_copy(x), *device_y = nullptr;
    CHECK(cudaMalloc(&device_y, n * sizeof(float)));
    CHECK(cudaMemset(device_y, 0, n * sizeof(float)));
    p.x = device_x;
    p.y = device_y;
    evaluate<<<(n + 127) / 128, 128>>>(p, n);
    CHECK(cudaGetLastError());
    std::vector<float> got = host_copy(device_y, n);
    return result("large_params", got == want, checksum(got));
}
