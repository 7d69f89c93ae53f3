/* cc: -lcuda */
/* A launch on device 0 whose memory holds the address of memory that device 0 may not access. The
 * argument says which: `other` is of device 1, `mapped` is on device 0 and opened to device 1 only,
 * `pool` is from a pool of device 1. Needs two devices. */
#include "common.h"

static const size_t BYTES = 2 << 20;

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    CUcontext first, second;
    CUdeviceptr far, near;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&second, 0, 1));
    if (mode_is(argc, argv, "other")) CHECK(cuMemAlloc_v2(&far, BYTES));
    CHECK(cuCtxCreate_v2(&first, 0, 0));
    if (mode_is(argc, argv, "mapped")) {
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemGenericAllocationHandle handle;
        CHECK(cuMemAddressReserve(&far, BYTES, 0, 0, 0));
        CHECK(cuMemCreate(&handle, BYTES, &prop, 0));
        CHECK(cuMemMap(far, BYTES, 0, handle, 0));
        CHECK(cuMemSetAccess(far, BYTES, &access, 1));
    }
    if (mode_is(argc, argv, "pool")) {
        CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
        CUmemoryPool pool;
        CHECK(cuMemPoolCreate(&pool, &properties));
        CHECK(cuMemAllocFromPoolAsync(&far, BYTES, pool, NULL));
        CHECK(cuStreamSynchronize(NULL));
    }
    int flags = -1;
    CHECK(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, far));
    printf("access from device 0: %d\n", flags);
    CHECK(cuMemAlloc_v2(&near, BYTES));
    CHECK(cuMemsetD8_v2(near, 0, BYTES));
    CHECK(cuMemcpyHtoD_v2(near + BYTES / 2, &far, sizeof far));
    CUfunction saxpy = kernel(load_kernels(), "saxpy");
    CHECK(launch_saxpy(saxpy, NULL, near, near, 1, 256));
    CHECK(launch_saxpy(saxpy, NULL, near, near, 1, 256));
    CHECK(cuCtxSynchronize());
    printf("sum %.1f\n", sum(near, 256));
    return 0;
}
