#include <cuda_runtime.h>
#include <cstdio>

#define CHECK(call) do { if ((call) != cudaSuccess) std::abort(); } while (0)

__device__ inline float half_of(float x) { return 0.5f * x; }

// r3: evolve begin
// One over the distance, softened.
__device__ inline float inverse(float square) {
    return 1.0f / sqrtf(square + 1e-6f);
}

__device__ inline float3 pull(float4 me, float4 other) {
    float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
    float r = inverse(dx * dx + dy * dy + dz * dz);
    float s = other.w * r * r * r;
    return make_float3(s * dx, s * dy, s * dz);
}
// r3: evolve end

struct Statistics {
    int bodies;
};

// r3: evolve begin
// The forces of all bodies on each.
__global__ void forces(const float4 *bodies, float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    float4 me = bodies[i];
    float3 sum = make_float3(0.0f, 0.0f, 0.0f);
    for (int j = 0; j < n; ++j) {
        float3 f = pull(me, bodies[j]);
        sum.x += f.x;
        sum.y += f.y;
        sum.z += f.z;
    }
    out[i] = make_float4(sum.x, sum.y, sum.z, half_of(me.w));
}
// r3: evolve end

__global__ void clear(float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

int main() {
    float4 *bodies, *out;
    int n = 4096;
    CHECK(cudaMalloc(&bodies, n * sizeof(float4)));
    CHECK(cudaMalloc(&out, n * sizeof(float4)));
    clear<<<n / 256, 256>>>(out, n);
    forces<<<n / 256, 256>>>(bodies, out, n);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
