__global__ void rows(const float *a, float *sums, int width, int height) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= height) {
        return;
    }
    float sum = 0.0f;
    // r3: evolve begin
    for (int column = 0; column < width; ++column) {
        sum += a[row * width + column];
    }
    // r3: evolve end
    sums[row] = sum;
}
