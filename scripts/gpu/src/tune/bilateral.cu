// A bilateral filter: weights by distance in space and in brightness, each divided by a variance that the caller gives.
#include "data.h"

template <int R>
__global__ void bilateral(const float *in, float *out, int width, int height, float normal, float variance_space,
                          float variance_value) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) {
        return;
    }
    float centre = in[y * width + x];
    float sum = 0.0f, weights = 0.0f;
    for (int dy = -R; dy <= R; ++dy) {
        for (int dx = -R; dx <= R; ++dx) {
            int px = min(max(x + dx, 0), width - 1);
            int py = min(max(y + dy, 0), height - 1);
            float value = in[py * width + px];
            float near = expf(-static_cast<float>(dx * dx + dy * dy) / variance_space * 0.5f);
            float alike = expf(-(value - centre) * (value - centre) / variance_value * 0.5f);
            float weight = normal * near * alike;
            weights += weight;
            sum += weight * value;
        }
    }
    out[y * width + x] = sum / weights;
}

int main(int argc, char **argv) {
    const int width = argument(argc, argv, 1, 1920), height = argument(argc, argv, 2, 1080);
    const int launches = argument(argc, argv, 3, 4);
    std::vector<float> image = floats(static_cast<size_t>(width) * height, 1, 0.0f, 1.0f);
    float *in = device_copy(image), *out = nullptr;
    CHECK(cudaMalloc(&out, image.size() * sizeof(float)));
    CHECK(cudaMemset(out, 0, image.size() * sizeof(float)));
    dim3 block(16, 16), grid((width + 15) / 16, (height + 15) / 16);
    for (int i = 0; i < launches; ++i) {
        bilateral<3><<<grid, block>>>(in, out, width, height, 1.0f, 2.0f, 0.5f);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    return result("bilateral", true, checksum(host_copy(out, image.size())));
}
