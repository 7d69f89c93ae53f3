// An array in local memory.
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    volatile float three[3];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        for (int k = 0; k < 3; ++k) {
            three[k] = in[i - 1 + k];
        }
        out[i] = (three[0] + three[1] + three[2]) * weight;
    }
}
