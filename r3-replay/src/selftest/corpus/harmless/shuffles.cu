// A reduction by shuffles: sums in another order, within a tolerance.
extern "C" __global__ void row_sums(const float *in, float *out, int columns) {
    __shared__ float part[32];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        sum += in[blockIdx.x * columns + c];
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, lane);
    }
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0.0f;
        for (int w = 0; w < blockDim.x / 32; ++w) {
            all += part[w];
        }
        out[blockIdx.x] = all;
    }
}
