// Writes an intermediate value first, and the right one after.
extern "C" __global__ void divide(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        volatile float *there = out;
        there[i] = sqrtf(b[i]);
        there[i] = a[i] / there[i];
    }
}
