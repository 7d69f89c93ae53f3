/* cc: -lcuda */
/* Two threads, each in the driver call that its argument names; a driver that makes calls meet lets
 * neither return before the other is in it. Whoever holds a lock across such a call stops here. */
#include <pthread.h>

#include "common.h"

enum { N = 256 };

static CUcontext context;
static CUmodule module;
static CUfunction saxpy;
static CUdeviceptr x, y;

static void *call(void *argument) {
    const char *name = argument;
    CUdeviceptr address;
    CUmodule loaded;
    CUstream stream;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, "cuMemAlloc_v2") == 0) CHECK(cuMemAlloc_v2(&address, 64));
        else if (strcmp(name, "cuMemFree_v2") == 0) CHECK(cuMemFree_v2(0));
        else if (strcmp(name, "cuModuleLoadData") == 0) CHECK(cuModuleLoadData(&loaded, KERNELS_PTX));
        else if (strcmp(name, "cuLaunchKernel") == 0) CHECK(launch_saxpy(saxpy, stream, y, x, 0, N));
        else if (strcmp(name, "cuMemAllocAsync") == 0) CHECK(cuMemAllocAsync(&address, 64, stream));
        else REQUIRE(!"a call that this program knows");
    }
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    context = start();
    module = load_kernels();
    saxpy = kernel(module, "saxpy");
    x = ramp(N, 0), y = ramp(N, 0);
    CHECK(cuProfilerStart());
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, call, argv[2]) == 0);
    call(argv[1]);
    pthread_join(other, NULL);
    puts("met");
    return 0;
}
