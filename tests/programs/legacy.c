/* cc: -lcuda */
/* Every launch entry point that there ever was, each once, with a grid of its own so that counts tell
 * them apart: 1 block for cuLaunch, 2 for cuLaunchGrid, and so on. */
#include "common.h"

enum { N = 32 };

int main(void) {
    start();
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy"), count = kernel(module, "count");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    float a = 1;
    int n = N;
    void *params[] = {&y, &x, &a, &n};

    CHECK(cuFuncSetBlockShape(saxpy, N, 1, 1));
    CHECK(cuFuncSetSharedSize(saxpy, 16));
    CHECK(cuParamSetSize(saxpy, 24));
    CHECK(cuParamSetv(saxpy, 0, &y, sizeof y));
    CHECK(cuParamSetv(saxpy, 8, &x, sizeof x));
    CHECK(cuParamSetf(saxpy, 16, a));
    CHECK(cuParamSeti(saxpy, 20, N));
    CHECK(cuLaunch(saxpy));
    CHECK(cuLaunchGrid(saxpy, 2, 1));
    CHECK(cuLaunchGridAsync(saxpy, 3, 1, NULL));

    CHECK(cuLaunchKernel(saxpy, 4, 1, 1, N, 1, 1, 0, NULL, params, NULL));
    CHECK(cuLaunchKernel_ptsz(saxpy, 5, 1, 1, N, 1, 1, 0, CU_STREAM_LEGACY, params, NULL));
    CUlaunchConfig config = {6, 1, 1, N, 1, 1, 0, CU_STREAM_LEGACY, NULL, 0};
    CHECK(cuLaunchKernelEx(&config, saxpy, params, NULL));
    config.gridDimX = 7;
    CHECK(cuLaunchKernelEx_ptsz(&config, saxpy, params, NULL));
    CHECK(cuLaunchCooperativeKernel(saxpy, 8, 1, 1, N, 1, 1, 0, NULL, params));
    CHECK(cuLaunchCooperativeKernel_ptsz(saxpy, 9, 1, 1, N, 1, 1, 0, CU_STREAM_LEGACY, params));
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CUDA_LAUNCH_PARAMS several[] = {{.function = saxpy, .gridDimX = 10, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1,
                                     .blockDimZ = 1, .hStream = stream, .kernelParams = params}};
    CHECK(cuLaunchCooperativeKernelMultiDevice(several, 1, 0));
    CHECK(cuLaunchKernel(count, 1, 1, 1, N, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuCtxSynchronize());
    printf("ten launches: %.1f\n", sum(y, N));
    return 0;
}
