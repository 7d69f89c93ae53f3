// Memory of the device's heap, which outlives a launch.
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    __shared__ float *sums;
    if (threadIdx.x == 0) {
        sums = (float *)malloc(blockDim.x * sizeof(float));
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (sums && i > 0 && i < n - 1) {
        sums[threadIdx.x] = in[i - 1] + in[i] + in[i + 1];
        out[i] = sums[threadIdx.x] * weight;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        free(sums);
    }
}
