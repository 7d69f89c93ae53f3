// A table of constants in the module: new, and never written.
__device__ const float thirds[4] = {0.0f, 1.0f, 1.0f, 1.0f};
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        float sum = 0.0f;
        for (int k = 0; k < 3; ++k) {
            sum += in[i - 1 + k] * thirds[k + 1];
        }
        out[i] = sum * weight;
    }
}
