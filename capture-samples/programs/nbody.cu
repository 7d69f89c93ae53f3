// All-pairs gravity with shared-memory tiles, leapfrog steps. Ten steps and more, so that the default
// selection takes launches 1, 2, 3 and 10.
#include "sample.h"

constexpr int TILE = 128;

__host__ __device__ inline void attract(const float4 &self, const float4 &other, float3 &force) {
    const float softening = 0.01f;
    float dx = other.x - self.x, dy = other.y - self.y, dz = other.z - self.z;
    float square = dx * dx + dy * dy + dz * dz + softening;
    float factor = other.w / (square * sqrtf(square));
    force.x += dx * factor;
    force.y += dy * factor;
    force.z += dz * factor;
}

__global__ void step(const float4 *positions, float4 *next, float4 *velocities, int n, float dt) {
    __shared__ float4 tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    float4 self = i < n ? positions[i] : make_float4(0, 0, 0, 0);
    float3 force = make_float3(0, 0, 0);
    for (int base = 0; base < n; base += TILE) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? positions[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            attract(self, tile[k], force);
        }
        __syncthreads();
    }
    if (i < n) {
        float4 velocity = velocities[i];
        velocity.x += force.x * dt;
        velocity.y += force.y * dt;
        velocity.z += force.z * dt;
        velocities[i] = velocity;
        next[i] = make_float4(self.x + velocity.x * dt, self.y + velocity.y * dt,
                              self.z + velocity.z * dt, self.w);
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 400);
    const int steps = argument(argc, argv, 2, 12);
    const float dt = 1.0f / 1024.0f;

    std::vector<float4> position(n), velocity(n, make_float4(0, 0, 0, 0)), moved(n);
    for (int i = 0; i < n; ++i) {
        position[i] = make_float4(noise(4 * i, 1), noise(4 * i + 1, 1), noise(4 * i + 2, 1),
                                  (noise(4 * i + 3, 1) + 1.5f) / n);
    }
    float4 *buffers[2] = {device_copy(position), nullptr};
    CHECK(cudaMalloc(&buffers[1], n * sizeof(float4)));
    CHECK(cudaMemset(buffers[1], 0, n * sizeof(float4)));
    float4 *velocities = device_copy(velocity);

    for (int s = 0; s < steps; ++s) {
        step<<<(n + TILE - 1) / TILE, TILE>>>(buffers[s % 2], buffers[(s + 1) % 2], velocities, n, dt);
        CHECK(cudaGetLastError());
        for (int i = 0; i < n; ++i) {
            float3 force = make_float3(0, 0, 0);
            for (int j = 0; j < n; ++j) {
                attract(position[i], position[j], force);
            }
            velocity[i].x += force.x * dt;
            velocity[i].y += force.y * dt;
            velocity[i].z += force.z * dt;
            moved[i] = make_float4(position[i].x + velocity[i].x * dt, position[i].y + velocity[i].y * dt,
                                   position[i].z + velocity[i].z * dt, position[i].w);
        }
        position.swap(moved);
    }
    std::vector<float4> got = host_copy(buffers[steps % 2], n);
    double error = largest_error(&got[0].x, &position[0].x, 4 * n);
    return result("nbody", error < 1e-4, checksum(got));
}
