// Max-pooling of a batch of images in which window, stride and sizes are arguments of the launch.
#include "data.h"

__global__ void maxpool(const float *in, float *out, int width, int height, int pooled_width, int pooled_height, int window_x,
                        int window_y, int stride_x, int stride_y) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int plane = blockIdx.z;
    if (x >= pooled_width || y >= pooled_height) {
        return;
    }
    const float *image = in + static_cast<size_t>(plane) * width * height;
    float highest = -INFINITY;
    for (int dy = 0; dy < window_y; ++dy) {
        for (int dx = 0; dx < window_x; ++dx) {
            int px = x * stride_x + dx, py = y * stride_y + dy;
            if (px < width && py < height) {
                highest = fmaxf(highest, image[py * width + px]);
            }
        }
    }
    out[(static_cast<size_t>(plane) * pooled_height + y) * pooled_width + x] = highest;
}

int main(int argc, char **argv) {
    const int width = argument(argc, argv, 1, 512), height = argument(argc, argv, 2, 512), planes = argument(argc, argv, 3, 64);
    const int launches = argument(argc, argv, 4, 4);
    const int pooled_width = (width - 3) / 2 + 1, pooled_height = (height - 3) / 2 + 1;
    std::vector<float> images = floats(static_cast<size_t>(width) * height * planes, 1, -1.0f, 1.0f);
    const size_t pooled = static_cast<size_t>(pooled_width) * pooled_height * planes;
    float *in = device_copy(images), *out = nullptr;
    CHECK(cudaMalloc(&out, pooled * sizeof(float)));
    CHECK(cudaMemset(out, 0, pooled * sizeof(float)));
    dim3 block(16, 16), grid((pooled_width + 15) / 16, (pooled_height + 15) / 16, planes);
    for (int i = 0; i < launches; ++i) {
        maxpool<<<grid, block>>>(in, out, width, height, pooled_width, pooled_height, 3, 3, 2, 2);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    return result("maxpool", true, checksum(host_copy(out, pooled)));
}
