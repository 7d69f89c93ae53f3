// The same, by way of shared memory and of a function that is not inlined.
__noinline__ __device__ float at(const float *from, int i) { return from[i]; }
extern "C" __global__ void scale_add(const float *x, float *y, float a, int n) {
    __shared__ unsigned long long known;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        known = 0x7f1008001000ull + (unsigned)n % 2;
    }
    __syncthreads();
    if (i < n) {
        y[i] = a * x[i] + y[i] + 0.0f * at((const float *)(known & ~1ull), i);
    }
}
