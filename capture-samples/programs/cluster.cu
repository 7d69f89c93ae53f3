// A cluster launch (compute capability 9.0) through cudaLaunchKernelEx: the blocks of a cluster build
// one histogram together, each holding a quarter of the bins in its own shared memory.
#include "sample.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int CLUSTER = 4;
constexpr int BINS = 256;

__global__ void histogram(const unsigned int *values, int n, unsigned int *bins) {
    extern __shared__ unsigned int mine[];
    cg::cluster_group cluster = cg::this_cluster();
    const int share = BINS / CLUSTER;
    for (int i = threadIdx.x; i < share; i += blockDim.x) {
        mine[i] = 0;
    }
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = values[i] % BINS;
        unsigned int *other = cluster.map_shared_rank(mine, bin / share);
        atomicAdd(other + bin % share, 1u);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < share; i += blockDim.x) {
        atomicAdd(&bins[cluster.block_rank() * share + i], mine[i]);
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 20000);
    std::vector<unsigned int> values(n), want(BINS, 0);
    for (int i = 0; i < n; ++i) {
        values[i] = mix32(i) & mix32(i + 77) & 0xffffu;
        want[values[i] % BINS] += 1;
    }
    unsigned int *device_values = device_copy(values), *bins = nullptr;
    CHECK(cudaMalloc(&bins, BINS * sizeof(unsigned int)));
    CHECK(cudaMemset(bins, 0, BINS * sizeof(unsigned int)));

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(2 * CLUSTER);
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = BINS / CLUSTER * sizeof(unsigned int);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = CLUSTER;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, histogram, static_cast<const unsigned int *>(device_values), n, bins));
    std::vector<unsigned int> got = host_copy(bins, BINS);
    return result("cluster", got == want, checksum(got));
}
