// Kernels on grids and matrices: stencils, convolutions, products, transposition.
#include "buffers.h"

__global__ void stencil_1d(const float *in, float *out, int n)
{
    __shared__ float tile[256 + 14];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x + 7;
    tile[t] = i < n ? in[i] : 0.0f;
    if (threadIdx.x < 7) {
        tile[threadIdx.x] = i >= 7 ? in[i - 7] : 0.0f;
        tile[t + 256] = i + 256 < n ? in[i + 256] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int k = -7; k <= 7; k++) sum += tile[t + k];
    if (i < n) out[i] = sum;
}

__global__ void heat_2d(const float *in, float *out, int nx, int ny, float r)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= nx - 1 || y >= ny - 1) return;
    int i = y * nx + x;
    out[i] = in[i] + r * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] - 4.0f * in[i]);
}

__global__ void laplace_3d(const float *in, float *out, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= nx - 1 || y >= ny - 1) return;
    for (int z = 1; z < nz - 1; z++) {
        int i = (z * ny + y) * nx + x;
        out[i] = (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - nx * ny] + in[i + nx * ny]) * (1.0f / 6.0f);
    }
}

__global__ void wave_25_points(const float *now, float *before, const float *speed, int nx, int ny, int nz)
{
    const float c[5] = {-2.847222f, 1.6f, -0.2f, 0.025396f, -0.001785f};
    int x = blockIdx.x * blockDim.x + threadIdx.x + 4, y = blockIdx.y * blockDim.y + threadIdx.y + 4;
    if (x >= nx - 4 || y >= ny - 4) return;
    int plane = nx * ny;
    for (int z = 4; z < nz - 4; z++) {
        int i = z * plane + y * nx + x;
        float sum = 3.0f * c[0] * now[i];
        for (int k = 1; k <= 4; k++)
            sum += c[k] * (now[i - k] + now[i + k] + now[i - k * nx] + now[i + k * nx] + now[i - k * plane] + now[i + k * plane]);
        before[i] = 2.0f * now[i] - before[i] + speed[i] * sum;
    }
}

__global__ void jacobi(const float *a, const float *b, const float *x, float *next, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        if (k != row) sum += a[(size_t)k * n + row] * x[k];
    next[row] = (b[row] - sum) / (a[(size_t)row * n + row] + 4.0f);
}

__global__ void matmul_plain(const float *a, const float *b, float *c, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

template <int TILE> __global__ void matmul_tiled(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    float sum = 0.0f;
    for (int t = 0; t < n; t += TILE) {
        left[threadIdx.y][threadIdx.x] = a[y * n + t + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + x];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; k++) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// Each thread makes 4 by 4 results.
__global__ void __launch_bounds__(256) matmul_registers(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[16][65], right[16][64];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, bx = blockIdx.x * 64, by = blockIdx.y * 64;
    float sum[4][4] = {};
    for (int t = 0; t < n; t += 16) {
        for (int i = threadIdx.x; i < 1024; i += 256) {
            left[i % 16][i / 16] = a[(by + i / 16) * n + t + i % 16];
            right[i / 64][i % 64] = b[(t + i / 64) * n + bx + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[i][j] += left[k][ty * 4 + i] * right[k][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) c[(by + ty * 4 + i) * n + bx + tx * 4 + j] = sum[i][j];
}

__global__ void matvec_warps(const float *a, const float *x, float *y, int rows, int columns)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = lane; k < columns; k += 32) sum += a[(size_t)row * columns + k] * x[k];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}

__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

__constant__ float filter[25];

__global__ void convolution_5x5(const float *in, float *out, int nx, int ny)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    float sum = 0.0f;
    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++) {
            int u = min(max(x + i, 0), nx - 1), v = min(max(y + j, 0), ny - 1);
            sum += filter[(j + 2) * 5 + i + 2] * in[v * nx + u];
        }
    out[y * nx + x] = sum;
}

__global__ void convolution_layer(const float *in, const float *weights, float *out, int channels, int filters, int size)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, f = blockIdx.z;
    if (x >= size - 2 || y >= size - 2) return;
    float sum = 0.0f;
    for (int c = 0; c < channels; c++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 3; i++)
                sum += weights[((f * channels + c) * 3 + j) * 3 + i] * in[(c * size + y + j) * size + x + i];
    out[(f * (size - 2) + y) * (size - 2) + x] = fmaxf(sum, 0.0f);
}

__global__ void max_pool_3d(const float *in, float *out, int nx, int ny, int nz, int step)
{
    int ox = nx / step, oy = ny / step, oz = nz / step, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= ox * oy * oz) return;
    int x = i % ox, y = i / ox % oy, z = i / (ox * oy);
    float best = -1e30f;
    for (int c = 0; c < step; c++)
        for (int b = 0; b < step; b++)
            for (int a = 0; a < step; a++)
                best = fmaxf(best, in[((z * step + c) * ny + y * step + b) * nx + x * step + a]);
    out[i] = best;
}

__global__ void floyd_warshall(int *distance, int n, int k)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    int over = distance[y * n + k] + distance[k * n + x];
    if (over < distance[y * n + x]) distance[y * n + x] = over;
}

int main()
{
    const int n = 1 << 21, m = 1024, s = 128;
    float *x = floats(n), *y = zeros<float>(n), *z = floats(n, -1, 1, 7);
    dim3 block(32, 8), plane(m / 32, m / 8);
    stencil_1d<<<n / 256, 256>>>(x, y, n), done("stencil_1d");
    heat_2d<<<plane, block>>>(x, y, m, m, 0.2f), done("heat_2d");
    laplace_3d<<<dim3(s / 32, s / 8), block>>>(x, y, s, s, s), done("laplace_3d");
    wave_25_points<<<dim3(s / 32, s / 8), block>>>(x, y, z, s, s, s), done("wave_25_points");
    jacobi<<<m / 128, 128>>>(x, z, z + m, y, m), done("jacobi");
    matmul_plain<<<plane, block>>>(x, z, y, m), done("matmul_plain");
    matmul_tiled<16><<<dim3(m / 16, m / 16), dim3(16, 16)>>>(x, z, y, m), done("matmul_tiled<16>");
    matmul_tiled<32><<<dim3(m / 32, m / 32), dim3(32, 32)>>>(x, z, y, m), done("matmul_tiled<32>");
    matmul_registers<<<dim3(m / 64, m / 64), 256>>>(x, z, y, m), done("matmul_registers");
    matvec_warps<<<m / 8, 256>>>(x, z, y, m, m), done("matvec_warps");
    transpose<<<dim3(m / 32, m / 32), block>>>(x, y, m), done("transpose");
    float weights[25];
    for (int i = 0; i < 25; i++) weights[i] = 1.0f / (float)(3 + (i * 7) % 11);
    CHECK(cudaMemcpyToSymbol(filter, weights, sizeof weights));
    convolution_5x5<<<plane, block>>>(x, y, m, m), done("convolution_5x5");
    convolution_layer<<<dim3(2, 8, 64), block>>>(x, z, y, 32, 64, 64), done("convolution_layer");
    max_pool_3d<<<s * s * s / 8 / 256, 256>>>(x, y, s, s, s, 2), done("max_pool_3d");
    int *graph = integers(m * m, 1000);
    floyd_warshall<<<dim3(m / 256, m), 256>>>(graph, m, 17), done("floyd_warshall");
    return 0;
}
