// Device code of older_runtime.c.
__constant__ float scale_by = 2.0f;
__device__ int launches_done;

extern "C" __global__ void scale(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = scale_by * in[i] + launches_done;
    if (i == 0)
        launches_done++;
}
