// Kernels that sum, scan, sort and normalise.
#include "buffers.h"

__global__ void sum_blocks(const float *in, float *out, int n)
{
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

__global__ void dot_warps(const double *a, const double *b, double *out, int n)
{
    __shared__ double part[8];
    double sum = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += a[i] * b[i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 8; i++) sum += part[i];
        out[blockIdx.x] = sum;
    }
}

__global__ void scan_blocks(const float *in, float *out, int n)
{
    __shared__ float part[2][512];
    int t = threadIdx.x, i = blockIdx.x * 512 + t, side = 0;
    part[0][t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 512; step *= 2) {
        side ^= 1;
        part[side][t] = part[side ^ 1][t] + (t >= step ? part[side ^ 1][t - step] : 0.0f);
        __syncthreads();
    }
    if (i < n) out[i] = part[side][t];
}

__global__ void histogram_shared(const int *in, unsigned *bins, int n)
{
    __shared__ unsigned part[256];
    part[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&part[in[i] & 255], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], part[threadIdx.x]);
}

__global__ void histogram_global(const int *in, unsigned *bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[in[i] * 97 & 4095], 1u);
}

__global__ void argmax_rows(const float *in, int *out, int columns)
{
    __shared__ float best[256];
    __shared__ int where[256];
    float value = -1e30f;
    int at = 0;
    for (int i = threadIdx.x; i < columns; i += 256) {
        float here = in[blockIdx.x * columns + i];
        if (here > value) value = here, at = i;
    }
    best[threadIdx.x] = value, where[threadIdx.x] = at;
    __syncthreads();
    for (int step = 128; step; step /= 2) {
        if (threadIdx.x < step && best[threadIdx.x + step] > best[threadIdx.x])
            best[threadIdx.x] = best[threadIdx.x + step], where[threadIdx.x] = where[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = where[0];
}

__device__ float over_block(float value, float *part, bool largest)
{
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(~0u, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
    for (int i = 1; i < blockDim.x / 32; i++) value = largest ? fmaxf(value, part[i]) : value + part[i];
    __syncthreads();
    return value;
}

__global__ void softmax_rows(const float *in, float *out, int columns)
{
    __shared__ float part[32];
    const float *row = in + (size_t)blockIdx.x * columns;
    float most = -1e30f, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
    most = over_block(most, part, true);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
    sum = over_block(sum, part, false);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[(size_t)blockIdx.x * columns + i] = expf(row[i] - most) / sum;
}

__global__ void layer_norm(const float *in, const float *scale, const float *shift, float *out, int columns, float epsilon)
{
    __shared__ float part[32];
    const float *row = in + (size_t)blockIdx.x * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i], squares += row[i] * row[i];
    float mean = over_block(sum, part, false) / columns;
    float variance = over_block(squares, part, false) / columns - mean * mean;
    float factor = rsqrtf(variance + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[(size_t)blockIdx.x * columns + i] = (row[i] - mean) * factor * scale[i] + shift[i];
}

__global__ void attention_row(const float *q, const float *k, const float *v, float *out, int keys, int width)
{
    extern __shared__ float score[];
    __shared__ float part[32];
    const float *query = q + blockIdx.x * width;
    float most = -1e30f;
    for (int j = threadIdx.x; j < keys; j += blockDim.x) {
        float sum = 0.0f;
        for (int c = 0; c < width; c++) sum += query[c] * k[j * width + c];
        score[j] = sum * rsqrtf((float)width);
        most = fmaxf(most, score[j]);
    }
    most = over_block(most, part, true);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < keys; j += blockDim.x) sum += score[j] = __expf(score[j] - most);
    sum = over_block(sum, part, false);
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float value = 0.0f;
        for (int j = 0; j < keys; j++) value += score[j] * v[j * width + c];
        out[blockIdx.x * width + c] = value / sum;
    }
}

__global__ void bitonic_step(int *values, int distance, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ distance;
    if (other <= i) return;
    int a = values[i], b = values[other];
    if ((a > b) == ((i & length) == 0)) values[i] = b, values[other] = a;
}

__global__ void spmv_rows(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = starts[row]; i < starts[row + 1]; i++) sum += values[i] * x[columns[i]];
    y[row] = sum;
}

__global__ void gather_pairs(const int *index, const float2 *in, float2 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 value = in[index[i]];
    out[i] = make_float2(value.x * value.x - value.y, value.x + value.y);
}

__global__ void smith_waterman_row(const int *a, const int *b, int *best, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, row[33] = {}, most = 0;
    for (int j = 0; j < length; j++) {
        int before = 0, letter = b[(i * 7 + j) & 65535];
#pragma unroll
        for (int k = 1; k <= 32; k++) {
            int corner = row[k], value = before + (a[k] == letter ? 3 : -1);
            value = max(max(value, 0), max(row[k], row[k - 1]) - 2);
            before = corner, row[k] = value, most = max(most, value);
        }
    }
    best[i] = most;
}

int main()
{
    const int n = 1 << 21, rows = 1024;
    float *x = floats(n), *y = zeros<float>(n), *z = floats(n, 0, 1, 7);
    sum_blocks<<<512, 256>>>(x, y, n), done("sum_blocks");
    dot_warps<<<256, 256>>>((double *)x, (double *)z, (double *)y, n / 2), done("dot_warps");
    scan_blocks<<<n / 512, 512>>>(x, y, n), done("scan_blocks");
    int *keys = integers(n, 1 << 16);
    unsigned *bins = zeros<unsigned>(4096);
    histogram_shared<<<264, 256>>>(keys, bins, n), done("histogram_shared");
    histogram_global<<<n / 256, 256>>>(keys, bins, n), done("histogram_global");
    argmax_rows<<<rows, 256>>>(x, (int *)y, n / rows), done("argmax_rows");
    softmax_rows<<<rows, 256>>>(x, y, n / rows), done("softmax_rows");
    layer_norm<<<rows, 256>>>(x, z, z + 4096, y, n / rows, 1e-5f), done("layer_norm");
    attention_row<<<rows, 128, 1024 * sizeof(float)>>>(x, z, z + 65536, y, 1024, 64), done("attention_row");
    bitonic_step<<<n / 256, 256>>>(keys, 64, 1024), done("bitonic_step");
    std::vector<int> starts(rows * 64 + 1);
    for (size_t i = 0; i < starts.size(); i++) starts[i] = (int)(i * 16 + i % 7);
    int *begin = zeros<int>(starts.size());
    CHECK(cudaMemcpy(begin, starts.data(), starts.size() * sizeof(int), cudaMemcpyHostToDevice));
    spmv_rows<<<rows * 64 / 128, 128>>>(begin, keys, z, x, y, rows * 64), done("spmv_rows");
    gather_pairs<<<n / 2 / 256, 256>>>(keys, (float2 *)x, (float2 *)y, n / 2), done("gather_pairs");
    smith_waterman_row<<<256, 128>>>(integers(64, 4, 3), integers(65536, 4, 5), (int *)y, 512), done("smith_waterman_row");
    return 0;
}
