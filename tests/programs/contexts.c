/* cc: -lcuda */
/* Contexts that come and go, two devices, modules that are loaded again. Needs two devices. */
#include "common.h"

enum { N = 256 };

static void use(const char *what, int launches) {
    CUcontext before, after;
    CHECK(cuCtxGetCurrent(&before));
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy"), count = kernel(module, "count");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0), counter;
    unsigned value;
    for (int i = 0; i < launches; i++) {
        CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
        CHECK(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    }
    CHECK(cuModuleGetGlobal_v2(&counter, NULL, module, "counter"));
    CHECK(cuMemcpyDtoH_v2(&value, counter, sizeof value));
    printf("%s: %.1f, count %u\n", what, sum(y, N), value);
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFree_v2(y));
    CHECK(cuModuleUnload(module));
    CHECK(cuCtxGetCurrent(&after));
    REQUIRE(before == after);
}

int main(void) {
    CUcontext primary, second, third, popped;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&second, 0, 1));
    use("a context of its own on device 1", 2);
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxPushCurrent_v2(primary));
    use("primary context of device 0", 2);
    use("the same again", 2);
    CHECK(cuCtxPopCurrent_v2(&popped));
    REQUIRE(popped == primary);
    use("back on device 1", 1);
    CHECK(cuCtxDestroy_v2(second));
    CHECK(cuCtxSetCurrent(NULL));
    CUdeviceptr unused;
    printf("no context: %d\n", cuMemAlloc_v2(&unused, 64));
    CHECK(cuCtxCreate_v2(&third, 0, 0));
    use("another context on device 0", 3);
    CHECK(cuCtxDestroy_v2(third));
    CHECK(cuDevicePrimaryCtxRelease_v2(0)); /* The last reference: the context is gone. */
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    use("primary context anew", 2);
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    return 0;
}
