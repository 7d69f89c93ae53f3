// Heat spreads over a plate whose rim stays as it is: one step. Made into diffuse.ptx by
//   nvcc -ptx -arch=sm_80 diffuse.cu
// Sums are rounded one by one, so that every device gives the same bits.
extern "C" __global__ void diffuse(const float* now, float* next, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int at = y * width + x;
    float here = now[at];
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1) {
        float beside = __fadd_rn(now[at - 1], now[at + 1]);
        float above = __fadd_rn(now[at - width], now[at + width]);
        float change = __fmaf_rn(here, -4.0f, __fadd_rn(beside, above));
        here = __fmaf_rn(change, 0.125f, here);
    }
    next[at] = here;
}
