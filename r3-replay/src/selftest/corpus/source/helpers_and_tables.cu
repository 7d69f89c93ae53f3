// Helpers that are not inlined, a table, a structure by value, a pointer that is chosen.
struct View {
    const float *from;
    int n;
};
__constant__ int offsets[3] = {-1, 0, 1};
__noinline__ __device__ float at(View view, int i) { return i < view.n ? view.from[i] : 0.0f; }
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        View view = {weight > 2.0f ? out : in, n};
        float sum = 0.0f;
        for (int k = 0; k < 3; ++k) {
            sum += at(view, i + offsets[k]);
        }
        out[i] = sum * weight;
    }
}
