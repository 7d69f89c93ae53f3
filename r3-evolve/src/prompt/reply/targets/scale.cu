namespace app {

// r3: evolve begin
// Four times as many elements as threads.
// r3: launch grid=1/4
extern "C" __global__ void scale(float *x, float a, unsigned int n) {
    unsigned int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    for (unsigned int k = 0; k < 4; ++k) {
        if (i + k < n) {
            x[i + k] = a * x[i + k];
        }
    }
}
// r3: evolve end

}  // namespace app
