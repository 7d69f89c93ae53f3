// Tiled matrix product in more dynamic shared memory than a kernel gets without asking (48 KiB).
// A class template in a namespace, so that the kernel's name is long when mangled.
#include "sample.h"

namespace linear {

template <typename T, int TILE, int DEPTH>
struct Tiles {
    T a[TILE][DEPTH];
    T b[DEPTH][TILE];
};

template <typename T, int TILE, int DEPTH>
__global__ void matmul(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c, int n) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto &tiles = *reinterpret_cast<Tiles<T, TILE, DEPTH> *>(shared);
    const int threads = blockDim.x * blockDim.y;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    constexpr int PER = 4;
    T sum[PER][PER] = {};

    for (int k0 = 0; k0 < n; k0 += DEPTH) {
        for (int i = thread; i < TILE * DEPTH; i += threads) {
            int row = i / DEPTH, k = i % DEPTH;
            bool inside = row0 + row < n && k0 + k < n;
            tiles.a[row][k] = inside ? a[(row0 + row) * n + k0 + k] : T(0);
        }
        for (int i = thread; i < TILE * DEPTH; i += threads) {
            int k = i / TILE, column = i % TILE;
            bool inside = column0 + column < n && k0 + k < n;
            tiles.b[k][column] = inside ? b[(k0 + k) * n + column0 + column] : T(0);
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k) {
            for (int i = 0; i < PER; ++i) {
                for (int j = 0; j < PER; ++j) {
                    sum[i][j] += tiles.a[threadIdx.y * PER + i][k] * tiles.b[k][threadIdx.x * PER + j];
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < PER; ++i) {
        for (int j = 0; j < PER; ++j) {
            int row = row0 + threadIdx.y * PER + i, column = column0 + threadIdx.x * PER + j;
            if (row < n && column < n) {
                c[row * n + column] = sum[i][j];
            }
        }
    }
}

}  // namespace linear

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 96);
    constexpr int TILE = 64, DEPTH = 128;
    auto kernel = linear::matmul<float, TILE, DEPTH>;
    const size_t shared = sizeof(linear::Tiles<float, TILE, DEPTH>);
    static_assert(sizeof(linear::Tiles<float, TILE, DEPTH>) > 48 * 1024, "meant to exceed the default");

    std::vector<float> a(n * n), b(n * n), want(n * n, 0.0f);
    for (int i = 0; i < n * n; ++i) {
        // Multiples of 1/16: products and sums are exact for n up to 4096.
        a[i] = floorf(noise(i, 1) * 16.0f) / 16.0f;
        b[i] = floorf(noise(i, 2) * 16.0f) / 16.0f;
    }
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < n; ++k) {
            for (int j = 0; j < n; ++j) {
                want[i * n + j] += a[i * n + k] * b[k * n + j];
            }
        }
    }
    float *device_a = device_copy(a), *device_b = device_copy(b), *device_c = nullptr;
    CHECK(cudaMalloc(&device_c, n * n * sizeof(float)));
    CHECK(cudaMemset(device_c, 0xff, n * n * sizeof(float)));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)));
    dim3 grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE), block(16, 16);
    kernel<<<grid, block, shared>>>(device_a, device_b, device_c, n);
    CHECK(cudaGetLastError());
    std::vector<float> got = host_copy(device_c, n * n);
    return result("matmul", got == want, checksum(got));
}
