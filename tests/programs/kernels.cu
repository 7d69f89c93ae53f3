// The device code of the test programs. The PTX beside this file is what they load:
//
//   nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

__device__ unsigned int counter;
__device__ unsigned int *counter_address = &counter;
__device__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__constant__ float coefficients[4];

struct node {
    node *next;
    unsigned int value;
    unsigned int weight;
};

struct arguments {
    float *out;
    int n;
    const float *in;
    char kind;
};

extern "C" __global__ void nop() {}

extern "C" __global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void fill(unsigned int *out, unsigned int value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}

// Adds one to a variable of the module, once for each launch.
extern "C" __global__ void count() {
    if (blockIdx.x == 0 && threadIdx.x == 0) counter += 1;
}

extern "C" __global__ void add_constants(float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += coefficients[i % 4] + table[i % 4];
}

// Follows a list: pointers in memory that only memory points to.
extern "C" __global__ void walk(node *head, unsigned int *sum) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    unsigned int total = 0;
    for (node *at = head; at; at = at->next) {
        at->weight += 1;
        total += at->value;
    }
    *sum = total;
}

// A structure by value, with pointers inside and a trailing char.
extern "C" __global__ void by_value(arguments a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n) a.out[i] = a.in[i] + a.kind;
}

// Runs until the host (or somebody) stores something other than 0.
extern "C" __global__ void spin(volatile unsigned int *flag) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    while (*flag == 0) {
    }
}

extern "C" __global__ void fault() { __trap(); }

template <typename T> __global__ void scale(T *data, T factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= factor;
}

template __global__ void scale<float>(float *, float, int);
