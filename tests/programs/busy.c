/* cc: -lcuda */
/* A kernel that runs until the host stops it, and launches beside it and behind it. `behind`: on the
 * same stream, so that waiting for the stream would wait for the host. `beside`: on another stream. */
#include "common.h"

enum { N = 256 };

int main(int argc, char **argv) {
    start();
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy"), spin = kernel(module, "spin");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0), flag;
    CUstream busy, other;
    void *host;
    CHECK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc(&host, 4096, 2));
    *(volatile unsigned *)host = 0;
    CHECK(cuMemHostGetDevicePointer_v2(&flag, host, 0));
    void *params[] = {&flag};
    CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, busy, params, NULL));
    CUstream on = mode_is(argc, argv, "behind") ? busy : other;
    for (int i = 0; i < 3; i++) CHECK(launch_saxpy(saxpy, on, y, x, 1, N));
    if (on == other) CHECK(cuStreamSynchronize(other));
    printf("launched, still spinning: %d\n", cuStreamQuery(busy));
    *(volatile unsigned *)host = 1;
    CHECK(cuStreamSynchronize(busy));
    printf("y %.1f\n", sum(y, N));
    return 0;
}
