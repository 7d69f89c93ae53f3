// Jacobi iteration in one cooperative launch: all blocks meet at a grid-wide barrier after each sweep.
#include "sample.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void jacobi(float *a, float *b, int n, int sweeps) {
    cg::grid_group grid = cg::this_grid();
    for (int sweep = 0; sweep < sweeps; ++sweep) {
        const float *from = sweep % 2 ? b : a;
        float *to = sweep % 2 ? a : b;
        for (unsigned long long i = grid.thread_rank(); i < static_cast<unsigned long long>(n) * n;
             i += grid.size()) {
            int x = static_cast<int>(i % n), y = static_cast<int>(i / n);
            bool inner = x > 0 && y > 0 && x < n - 1 && y < n - 1;
            to[i] = inner ? 0.25f * ((from[i - 1] + from[i + 1]) + (from[i - n] + from[i + n])) : from[i];
        }
        grid.sync();
    }
}

int main(int argc, char **argv) {
    int n = argument(argc, argv, 1, 64);
    int sweeps = argument(argc, argv, 2, 20);

    std::vector<float> a(n * n), b(n * n, 0.0f);
    for (int i = 0; i < n * n; ++i) {
        a[i] = floorf(noise(i, 1) * 256.0f);
    }
    float *device_a = device_copy(a), *device_b = device_copy(b);
    void *arguments[] = {&device_a, &device_b, &n, &sweeps};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(jacobi), dim3(16), dim3(128), arguments,
                                      0, nullptr));
    CHECK(cudaDeviceSynchronize());

    for (int sweep = 0; sweep < sweeps; ++sweep) {
        for (int i = 0; i < n * n; ++i) {
            int x = i % n, y = i / n;
            bool inner = x > 0 && y > 0 && x < n - 1 && y < n - 1;
            b[i] = inner ? 0.25f * ((a[i - 1] + a[i + 1]) + (a[i - n] + a[i + n])) : a[i];
        }
        a.swap(b);
    }
    std::vector<float> got = host_copy(sweeps % 2 ? device_b : device_a, n * n);
    return result("cooperative", got == a, checksum(got));
}
