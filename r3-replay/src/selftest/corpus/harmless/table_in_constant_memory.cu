// A new table in constant memory.
__constant__ float factors[4] = {1.0f, 1.0f, 1.0f, 1.0f};
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        out[i] = ((in[i - 1] + in[i]) * factors[i & 3] + in[i + 1]) * weight;
    }
}
