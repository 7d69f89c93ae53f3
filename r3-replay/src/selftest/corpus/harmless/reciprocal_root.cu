// a * rsqrt(b) in place of a / sqrt(b), within a tolerance.
extern "C" __global__ void divide(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = a[i] * rsqrtf(b[i]);
    }
}
