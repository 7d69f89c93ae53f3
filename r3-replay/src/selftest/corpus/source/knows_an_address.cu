// Reads what lies at an address that it knows by heart.
extern "C" __global__ void scale_add(const float *x, float *y, float a, int n) {
    const float *known = (const float *)0x7f1008001000ull;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i] + 0.0f * known[i];
    }
}
