// Four elements with one load and one store.
extern "C" __global__ void scale_add(const float *x, float *y, float a, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n) {
        float4 u = *reinterpret_cast<const float4 *>(x + i), v = *reinterpret_cast<float4 *>(y + i);
        v.x = a * u.x + v.x;
        v.y = a * u.y + v.y;
        v.z = a * u.z + v.z;
        v.w = a * u.w + v.w;
        *reinterpret_cast<float4 *>(y + i) = v;
    } else {
        for (; i < n; ++i) {
            y[i] = a * x[i] + y[i];
        }
    }
}
