// Pointers to device globals outside of the globals' own module data: the address of a `__device__`
// variable as a kernel argument, inside a buffer, and in another global (a relocation in the image).
#include "sample.h"

__device__ int table[512];
__device__ int *table_pointer = table;
__constant__ int weights[16];

struct View {
    const int *data;
    int count;
};

__global__ void gather(const int *argument, const View *views, int *out) {
    int i = threadIdx.x;
    out[i] = argument[i] + 2 * table_pointer[i + 256] + 3 * views[i & 1].data[i] * weights[i & 15];
}

int main() {
    std::vector<int> host_table(512), host_weights(16), want(128);
    for (int i = 0; i < 512; ++i) {
        host_table[i] = static_cast<int>(mix32(i) % 1000);
    }
    for (int i = 0; i < 16; ++i) {
        host_weights[i] = i * i - 7;
    }
    CHECK(cudaMemcpyToSymbol(table, host_table.data(), sizeof(table)));
    CHECK(cudaMemcpyToSymbol(weights, host_weights.data(), sizeof(weights)));
    void *address = nullptr;
    CHECK(cudaGetSymbolAddress(&address, table));
    const int *device_table = static_cast<const int *>(address);
    std::vector<View> views(2);
    memset(views.data(), 0, views.size() * sizeof(View));
    views[0].data = device_table + 64;
    views[1].data = device_table + 128;
    views[0].count = views[1].count = 128;
    View *device_views = device_copy(views);
    int *out = nullptr;
    CHECK(cudaMalloc(&out, 128 * sizeof(int)));
    CHECK(cudaMemset(out, 0, 128 * sizeof(int)));
    gather<<<1, 128>>>(device_table, device_views, out);
    CHECK(cudaGetLastError());
    std::vector<int> got = host_copy(out, 128);
    for (int i = 0; i < 128; ++i) {
        want[i] = host_table[i] + 2 * host_table[i + 256] +
                  3 * host_table[i + (i & 1 ? 128 : 64)] * host_weights[i & 15];
    }
    return result("global_pointers", got == want, checksum(got));
}
