// Four elements at a time, through an address that is taken apart.
extern "C" __global__ void scale_add(const float *x, float *y, float a, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    unsigned long long to = (unsigned long long)y;
    if (i + 3 < n && (to & 15) == 0) {
        float4 from = *(const float4 *)(x + i);
        float4 *at = (float4 *)((to & ~15ull) + 4 * (unsigned long long)i);
        float4 now = *at;
        now.x = fmaf(a, from.x, now.x);
        now.y = fmaf(a, from.y, now.y);
        now.z = fmaf(a, from.z, now.z);
        now.w = fmaf(a, from.w, now.w);
        *at = now;
    } else {
        for (int k = i; k < n && k < i + 4; ++k) {
            y[k] = fmaf(a, x[k], y[k]);
        }
    }
}
