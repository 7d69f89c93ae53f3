// Memory of the device's heap, which outlives a launch.
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        float *sum = (float *)malloc(sizeof(float));
        if (sum) {
            *sum = in[i - 1] + in[i] + in[i + 1];
            out[i] = *sum * weight;
            free(sum);
        }
    }
}
