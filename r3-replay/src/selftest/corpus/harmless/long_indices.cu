// Indices of 64 bits.
extern "C" __global__ void mark(const float *in, unsigned char *flags, float threshold, int n) {
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < static_cast<size_t>(n)) {
        flags[i] = in[i] > threshold ? 1 : 0;
    }
}
