// The kernels that the self-test's candidates stand for. Their memory is made, and their results computed, by the test.

// Reads and writes the same buffer.
extern "C" __global__ void scale_add(const float *x, float *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}

// Writes all of its output but both ends.
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        out[i] = (in[i - 1] + in[i] + in[i + 1]) * weight;
    }
}

// A block for each row.
extern "C" __global__ void row_sums(const float *in, float *out, int columns) {
    __shared__ float part[256];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        sum += in[blockIdx.x * columns + c];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = part[0];
    }
}

// Follows indices, which must never be perturbed.
extern "C" __global__ void gather(const int *index, const float *table, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = table[index[i]];
    }
}

// Changes very few bytes: most flags are what they were.
extern "C" __global__ void mark(const float *in, unsigned char *flags, float threshold, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        flags[i] = in[i] > threshold;
    }
}

// An exact division and an exact square root.
extern "C" __global__ void divide(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = a[i] / sqrtf(b[i]);
    }
}
