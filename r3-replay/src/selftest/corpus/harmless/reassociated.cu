// The same sum in another order: other roundings, within a tolerance.
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        out[i] = in[i - 1] * weight + (in[i] * weight + in[i + 1] * weight);
    }
}
