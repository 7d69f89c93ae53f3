/* The driver through pointers that the program looked up itself: API.cuInit(0) and so on. */
#ifndef API_H
#define API_H
#define NO_CUDA_LINK
#include "common.h"

#define API_FUNCTIONS(X)                                                                            \
    X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuModuleLoadData)     \
    X(cuModuleGetFunction) X(cuModuleUnload) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemcpyHtoD_v2)    \
    X(cuMemcpyDtoH_v2) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuCtxSynchronize)                    \
    X(cuDevicePrimaryCtxRelease_v2)

static struct {
#define X(name) __typeof__(&name) name;
    API_FUNCTIONS(X)
#undef X
} API;

enum { API_N = 256 };

/* Loads the kernels, launches saxpy `times` times, prints the result and frees what it took. */
static inline void api_saxpy(int times) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction saxpy;
    CUdeviceptr x, y;
    float values[API_N], a = 2;
    int n = API_N;
    CHECK(API.cuInit(0));
    CHECK(API.cuDeviceGet(&device, 0));
    CHECK(API.cuDevicePrimaryCtxRetain(&context, device));
    CHECK(API.cuCtxSetCurrent(context));
    CHECK(API.cuModuleLoadData(&module, KERNELS_PTX));
    CHECK(API.cuModuleGetFunction(&saxpy, module, "saxpy"));
    CHECK(API.cuMemAlloc_v2(&x, sizeof values));
    CHECK(API.cuMemAlloc_v2(&y, sizeof values));
    for (int i = 0; i < API_N; i++) values[i] = (float)i;
    CHECK(API.cuMemcpyHtoD_v2(x, values, sizeof values));
    CHECK(API.cuMemcpyHtoD_v2(y, values, sizeof values));
    void *params[] = {&y, &x, &a, &n};
    for (int i = 0; i < times; i++) CHECK(API.cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    CHECK(API.cuCtxSynchronize());
    CHECK(API.cuMemcpyDtoH_v2(values, y, sizeof values));
    double total = 0;
    for (int i = 0; i < API_N; i++) total += values[i];
    printf("saxpy x %d = %.1f\n", times, total);
    CHECK(API.cuMemFree_v2(x));
    CHECK(API.cuMemFree_v2(y));
    CHECK(API.cuModuleUnload(module));
    CHECK(API.cuDevicePrimaryCtxRelease_v2(device));
}
#endif
