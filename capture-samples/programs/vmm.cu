// Virtual memory management: two physical pieces mapped side by side, and a kernel that works across the
// seam. Driver functions are asked for by cudaGetDriverEntryPointByVersion, as frameworks do.
#include "sample.h"

#include <cuda.h>

#define CHECK_DRIVER(call)                                                                        \
    do {                                                                                          \
        CUresult status_ = (call);                                                                \
        if (status_ != CUDA_SUCCESS) {                                                            \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call,                   \
                    static_cast<int>(status_));                                                   \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

template <typename Function>
Function entry_point(const char *name, Function) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status));
    if (status != cudaDriverEntryPointSuccess || found == nullptr) {
        fprintf(stderr, "vmm: the driver has no %s\n", name);
        exit(1);
    }
    return reinterpret_cast<Function>(found);
}
// decltype only: the program does not link against libcuda.
#define ENTRY_POINT(name) entry_point(#name, static_cast<decltype(&name)>(nullptr))

__global__ void reverse(const unsigned int *in, unsigned int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = in[n - 1 - i] + 1;
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 8000);
    CHECK(cudaFree(nullptr));  // makes the primary context current
    auto granularity_of = ENTRY_POINT(cuMemGetAllocationGranularity);
    auto reserve = ENTRY_POINT(cuMemAddressReserve);
    auto create = ENTRY_POINT(cuMemCreate);
    auto map = ENTRY_POINT(cuMemMap);
    auto set_access = ENTRY_POINT(cuMemSetAccess);
    auto unmap = ENTRY_POINT(cuMemUnmap);
    auto release = ENTRY_POINT(cuMemRelease);
    auto address_free = ENTRY_POINT(cuMemAddressFree);

    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 0;
    size_t granularity = 0;
    CHECK_DRIVER(granularity_of(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle pieces[2];
    CHECK_DRIVER(reserve(&base, 2 * granularity, 0, 0, 0));
    for (int i = 0; i < 2; ++i) {
        CHECK_DRIVER(create(&pieces[i], granularity, &properties, 0));
        CHECK_DRIVER(map(base + i * granularity, granularity, 0, pieces[i], 0));
    }
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_DRIVER(set_access(base, 2 * granularity, &access, 1));

    // Input at the start; output across the seam. The rest is zero.
    CHECK(cudaMemset(reinterpret_cast<void *>(base), 0, 2 * granularity));
    unsigned int *in = reinterpret_cast<unsigned int *>(base);
    unsigned int *out = reinterpret_cast<unsigned int *>(base + granularity) - n / 2;
    std::vector<unsigned int> values(n), want(n);
    for (int i = 0; i < n; ++i) {
        values[i] = mix32(i);
        want[n - 1 - i] = values[i] + 1;
    }
    CHECK(cudaMemcpy(in, values.data(), n * sizeof(unsigned int), cudaMemcpyHostToDevice));
    reverse<<<(n + 127) / 128, 128>>>(in, out, n);
    CHECK(cudaGetLastError());
    std::vector<unsigned int> got = host_copy(out, n);
    CHECK_DRIVER(unmap(base, 2 * granularity));
    for (CUmemGenericAllocationHandle piece : pieces) {
        CHECK_DRIVER(release(piece));
    }
    CHECK_DRIVER(address_free(base, 2 * granularity));
    return result("vmm", got == want, checksum(got));
}
