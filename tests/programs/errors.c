/* cc: -lcuda */
/* Calls that fail, and what each answers. With `fault`, a kernel that faults: the error stays. */
#include "common.h"

enum { N = 256 };

int main(int argc, char **argv) {
    CUdeviceptr unused;
    printf("before cuInit: %d\n", cuMemAlloc_v2(&unused, 64));
    CHECK(cuInit(0));
    printf("without a context: %d\n", cuMemAlloc_v2(&unused, 64));
    CUmodule module = NULL;
    printf("module without a context: %d\n", cuModuleLoadData(&module, KERNELS_PTX));
    start();
    printf("no image: %d\n", cuModuleLoadData(&module, NULL));
    printf("odd image: %d\n", cuModuleLoadData(&module, "certainly not PTX, and no ELF file either"));
    printf("cubin: %d\n", cuModuleLoadData(&module, "\x7f" "ELF\2\1\1, then nothing that one could read"));
    printf("no file: %d\n", cuModuleLoad(&module, "/nonexistent/kernels.ptx"));
    module = load_kernels();
    CUfunction function = NULL;
    printf("no such kernel: %d\n", cuModuleGetFunction(&function, module, "missing"));
    CUdeviceptr address;
    printf("no such variable: %d\n", cuModuleGetGlobal_v2(&address, NULL, module, "missing"));

    CUfunction saxpy = kernel(module, "saxpy");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    float a = 1;
    int n = N;
    void *params[] = {&y, &x, &a, &n};
    printf("no arguments: %d\n", cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
    printf("no function: %d\n", cuLaunchKernel(NULL, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    printf("empty grid: %d\n", cuLaunchKernel(saxpy, 0, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    printf("large block: %d\n", cuLaunchKernel(saxpy, 2, 1, 1, 2048, 1, 1, 0, NULL, params, NULL));
    printf("much shared memory: %d\n", cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 1 << 20, NULL, params, NULL));
    size_t short_length = 4;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &short_length, CU_LAUNCH_PARAM_END};
    printf("short buffer: %d\n", cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
    printf("both kinds of arguments: %d\n", cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 0, NULL, params, extra));
    printf("no configuration: %d\n", cuLaunchKernelEx(NULL, saxpy, params, NULL));
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    CUlaunchConfig config = {2, 1, 1, 128, 1, 1, 0, NULL, &cluster, 1};
    printf("impossible cluster: %d\n", cuLaunchKernelEx(&config, saxpy, params, NULL));
    printf("attribute out of range: %d\n", cuFuncSetAttribute(saxpy, (CUfunction_attribute)99, 1));
    printf("a good one: %d\n", cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    printf("y %.1f\n", sum(y, N));
    if (mode_is(argc, argv, "fault")) {
        printf("fault: %d\n", cuLaunchKernel(kernel(module, "fault"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        /* Whether the launch or a later call says it is up to the driver; the stream says it. */
        printf("stream: %d\n", cuStreamSynchronize(NULL));
        printf("launch: %d\n", cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
        printf("copy: %d\n", cuMemcpyDtoH_v2(&a, y, sizeof a));
        printf("context: %d\n", cuCtxSynchronize());
    }
    return 0;
}
