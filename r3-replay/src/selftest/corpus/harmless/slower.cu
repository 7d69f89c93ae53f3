// The same, with work that nobody needs: right, and slower.
extern "C" __global__ void scale_add(const float *x, float *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = a * x[i] + y[i];
        volatile float waste = value;
        for (int k = 0; k < 50; ++k) {
            waste = waste * 0.5f + 1.0f;
        }
        y[i] = waste < -1e30f ? waste : value;
    }
}
