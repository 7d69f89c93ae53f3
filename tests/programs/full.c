/* cc: -lcuda */
/* A kernel that runs until the host acts. Other launches are made meanwhile; with SOFTCUDA_FULL they
 * have to wait for it. */
#include "common.h"

int main(void) {
    start();
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy"), fill = kernel(module, "fill");
    CUstream endless, launching, also, acting;
    CHECK(cuStreamCreate(&endless, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&launching, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&also, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&acting, CU_STREAM_NON_BLOCKING));
    CUdeviceptr flag, memory, other;
    CHECK(cuMemAlloc_v2(&flag, sizeof(unsigned)));
    CHECK(cuMemAlloc_v2(&memory, 1 << 20));
    CHECK(cuMemAlloc_v2(&other, 1 << 20));
    CHECK(cuMemsetD8_v2(flag, 0, sizeof(unsigned)));
    CHECK(cuMemsetD8_v2(memory, 0, 1 << 20));
    CHECK(cuMemsetD8_v2(other, 0, 1 << 20));
    CHECK(cuCtxSynchronize()); /* These streams do not wait for the default stream. */
    void *spinning[] = {&flag};
    CHECK(cuLaunchKernel(kernel(module, "spin"), 1, 1, 1, 1, 1, 1, 0, endless, spinning, NULL));
    CHECK(launch_saxpy(saxpy, launching, memory, memory, 1, 256));
    unsigned value = 3, one = 1;
    int n = 256;
    void *filling[] = {&other, &value, &n};
    CHECK(cuLaunchKernel(fill, 2, 1, 1, 128, 1, 1, 0, also, filling, NULL));
    printf("the kernel runs: %d\n", cuStreamQuery(endless));
    CHECK(cuMemcpyHtoDAsync_v2(flag, &one, sizeof one, acting));
    CHECK(cuCtxSynchronize());
    CHECK(launch_saxpy(saxpy, also, other, other, 0, 256));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(&value, other, sizeof value));
    printf("done: %u\n", value);
    return 0;
}
