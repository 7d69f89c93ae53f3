// Checks what it takes for granted.
#include <cassert>
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(n > 0);
    if (i > 0 && i < n - 1) {
        out[i] = (in[i - 1] + in[i] + in[i + 1]) * weight;
    }
}
