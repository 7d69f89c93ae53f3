/* A kernel that does what it may not; the argument says what. Prints what calls answer from then on. */
#include "driver.h"

int main(int argc, char **argv) {
    REQUIRE(argc > 1);
    start();
    Handle module = load_kernels();
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2(&memory, 256));
    if (mode_is(argc, argv, "host_reads_device_memory")) return *(volatile int *)memory;
    long offset = mode_is(argc, argv, "misaligned") ? 2 : 256;
    int n = 5;
    if (mode_is(argc, argv, "freed")) {
        CHECK(cuMemFree_v2(memory));
        offset = 0;
    }
    if (mode_is(argc, argv, "assert")) CHECK(cuLaunchKernel(kernel(module, "fails"), 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&n), NULL));
    else if (mode_is(argc, argv, "trap")) CHECK(cuLaunchKernel(kernel(module, "traps"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    else CHECK(cuLaunchKernel(kernel(module, "store_at"), 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&memory, &offset), NULL));
    CUresult said = cuCtxSynchronize();
    const char *name;
    CHECK(cuGetErrorName(said, &name));
    printf("%s\n", name);
    CUdeviceptr more;
    REQUIRE(cuMemAlloc_v2(&more, 4) == said);
    REQUIRE(cuMemcpyDtoH_v2(&more, memory, 4) == said);
    REQUIRE(cuStreamQuery(NULL) == said);
    /* The context is lost, and another one works. */
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    start();
    CHECK(cuMemAlloc_v2(&more, 256));
    CHECK(cuLaunchKernel(kernel(load_kernels(), "add_one"), 1, 1, 1, 32, 1, 1, 0, NULL, PARAMS(&more, &(int){0}), NULL));
    CHECK(cuCtxSynchronize());
    printf("a new context works\n");
    return 0;
}
