// An unrolled loop.
extern "C" __global__ void row_sums(const float *in, float *out, int columns) {
    __shared__ float part[256];
    float sum = 0.0f;
#pragma unroll 4
    for (int c = threadIdx.x; c < columns; c += 256) {
        sum += in[blockIdx.x * columns + c];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = part[0];
    }
}
