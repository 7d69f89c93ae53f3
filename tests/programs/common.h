/* What the test programs share. A program prints what it computed; a call that fails unexpectedly
 * ends it with status 1 and the call's text. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "kernels_ptx.h" /* kernels.ptx as a string: KERNELS_PTX. */

#define CHECK(call)                                                        \
    do {                                                                   \
        CUresult result_ = (call);                                         \
        if (result_ != CUDA_SUCCESS) {                                     \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, result_); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

#define REQUIRE(condition)                                                 \
    do {                                                                   \
        if (!(condition)) {                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

static inline int mode_is(int argc, char **argv, const char *mode) { return argc > 1 && strcmp(argv[1], mode) == 0; }

#ifndef NO_CUDA_LINK
/* The first device's primary context is current afterwards. */
static inline CUcontext start(void) {
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    return context;
}

static inline CUmodule load_kernels(void) {
    CUmodule module;
    CHECK(cuModuleLoadData(&module, KERNELS_PTX));
    return module;
}

static inline CUfunction kernel(CUmodule module, const char *name) {
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

/* `n` floats on the device: first, first + 1, … */
static inline CUdeviceptr ramp(int n, float first) {
    CUdeviceptr address;
    float *values = malloc((size_t)n * sizeof *values);
    for (int i = 0; i < n; i++) values[i] = first + (float)i;
    CHECK(cuMemAlloc_v2(&address, (size_t)n * sizeof *values));
    CHECK(cuMemcpyHtoD_v2(address, values, (size_t)n * sizeof *values));
    free(values);
    return address;
}

static inline double sum(CUdeviceptr address, int n) {
    float *values = malloc((size_t)n * sizeof *values);
    double total = 0;
    CHECK(cuMemcpyDtoH_v2(values, address, (size_t)n * sizeof *values));
    for (int i = 0; i < n; i++) total += values[i];
    free(values);
    return total;
}

/* y = a x + y on the stream, n up to 4096. */
static inline CUresult launch_saxpy(CUfunction saxpy, CUstream stream, CUdeviceptr y, CUdeviceptr x, float a, int n) {
    void *params[] = {&y, &x, &a, &n};
    return cuLaunchKernel(saxpy, (unsigned)(n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL);
}
#endif
#endif
