// One step of the heat equation on a periodic plane; the position of a cell comes from its number by division.
#include "data.h"

__global__ void heat(const double *now, double *next, int nx, int ny, double dt, double kappa) {
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= nx * ny) {
        return;
    }
    int x = cell % nx, y = cell / nx;
    int left = (x + nx - 1) % nx, right = (x + 1) % nx, below = (y + ny - 1) % ny, above = (y + 1) % ny;
    double here = now[cell];
    double flux = now[y * nx + left] + now[y * nx + right] + now[below * nx + x] + now[above * nx + x] - 4.0 * here;
    next[cell] = here + dt * kappa * flux;
}

int main(int argc, char **argv) {
    const int nx = argument(argc, argv, 1, 4000), ny = argument(argc, argv, 2, 4000), steps = argument(argc, argv, 3, 4);
    std::vector<double> start(static_cast<size_t>(nx) * ny);
    for (size_t i = 0; i < start.size(); ++i) {
        start[i] = noise(static_cast<uint32_t>(i), 1);
    }
    double *planes[2] = {device_copy(start), nullptr};
    CHECK(cudaMalloc(&planes[1], start.size() * sizeof(double)));
    CHECK(cudaMemset(planes[1], 0, start.size() * sizeof(double)));
    const int cells = nx * ny;
    for (int s = 0; s < steps; ++s) {
        heat<<<(cells + 255) / 256, 256>>>(planes[s % 2], planes[(s + 1) % 2], nx, ny, 0.1, 0.5);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    return result("heat2d", true, checksum(host_copy(planes[steps % 2], start.size())));
}
