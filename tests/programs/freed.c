/* cc: -lcuda */
/* Memory that a launch could reach is given back by another thread while the launch is under way,
 * which is legal as long as the launch does not use it: `ordered` frees it in stream order, `unmapped`
 * unmaps it. With `often`, a thread frees all the while. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common.h"

static const size_t BYTES = 2 << 20;

static CUcontext context;
static CUstream launching, freeing;
static CUdeviceptr reached, other;
static const char *mode;
static atomic_int over;

static void map_other(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemAddressReserve(&other, BYTES, 0, 0, 0));
    CHECK(cuMemCreate(&handle, BYTES, &prop, 0));
    CHECK(cuMemMap(other, BYTES, 0, handle, 0));
    CHECK(cuMemSetAccess(other, BYTES, &access, 1));
    CHECK(cuMemRelease(handle));
}

/* The kernel runs for certain when the stream has been busy for some time. */
static void wait_for_the_launch(void) {
    for (int busy = 0; busy < 50; usleep(1000)) busy = cuStreamQuery(launching) == CUDA_ERROR_NOT_READY ? busy + 1 : 0;
}

static void *frees(void *nothing) {
    CHECK(cuCtxSetCurrent(context));
    wait_for_the_launch();
    if (strcmp(mode, "unmapped") == 0) {
        CHECK(cuMemUnmap(other, BYTES));
    } else {
        CHECK(cuMemFreeAsync(other, freeing));
        CHECK(cuStreamSynchronize(freeing));
    }
    unsigned one = 1;
    CHECK(cuMemcpyHtoDAsync_v2(reached, &one, sizeof one, freeing));
    CHECK(cuStreamSynchronize(freeing));
    return nothing;
}

static void *frees_often(void *nothing) {
    CHECK(cuCtxSetCurrent(context));
    while (!over) {
        CHECK(cuMemAllocAsync(&other, BYTES, freeing));
        CHECK(cuMemcpyHtoDAsync_v2(reached + 8, &other, sizeof other, freeing));
        CHECK(cuMemFreeAsync(other, freeing));
        CHECK(cuStreamSynchronize(freeing));
    }
    return nothing;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    mode = argv[1];
    context = start();
    CUmodule module = load_kernels();
    CHECK(cuStreamCreate(&launching, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&freeing, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&reached, BYTES));
    CHECK(cuMemsetD8_v2(reached, 0, BYTES));
    CHECK(cuCtxSynchronize()); /* These streams do not wait for the default stream. */
    pthread_t thread;
    if (strcmp(mode, "often") == 0) {
        REQUIRE(pthread_create(&thread, NULL, frees_often, NULL) == 0);
        CUfunction fill = kernel(module, "fill");
        for (unsigned i = 0; i < 60; i++) {
            CUdeviceptr out = reached + (1 << 20);
            int n = 256;
            void *params[] = {&out, &i, &n};
            CHECK(cuLaunchKernel(fill, 1, 1, 1, 256, 1, 1, 0, launching, params, NULL));
        }
        over = 1;
    } else {
        if (strcmp(mode, "unmapped") == 0) map_other();
        else CHECK(cuMemAllocAsync(&other, BYTES, freeing));
        CHECK(cuStreamSynchronize(freeing));
        CHECK(cuMemcpyHtoD_v2(reached + 8, &other, sizeof other));
        REQUIRE(pthread_create(&thread, NULL, frees, NULL) == 0);
        void *params[] = {&reached};
        CHECK(cuLaunchKernel(kernel(module, "spin"), 1, 1, 1, 1, 1, 1, 0, launching, params, NULL));
    }
    pthread_join(thread, NULL);
    CHECK(cuCtxSynchronize());
    puts("no fault");
    return 0;
}
