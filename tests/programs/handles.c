/* cc: -lcuda */
/* What handles stand for. `two`: one kernel through the handles of two contexts. `reused`: a handle
 * that is another kernel's after its context ended (with SOFTCUDA_REUSE). `refused`: launches that the
 * driver refuses before ones that it accepts. `again N`: one image after the other, N times; prints how
 * many KiB of memory the last three quarters of them took. */
#include "common.h"

enum { N = 256 };

static CUcontext new_context(void) {
    CUcontext context;
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    return context;
}

static void two(void) {
    CUcontext contexts[2];
    CUfunction saxpy[2];
    CUdeviceptr x[2], y[2];
    for (int i = 0; i < 2; i++) {
        contexts[i] = new_context();
        saxpy[i] = kernel(load_kernels(), "saxpy");
        x[i] = ramp(N, 0), y[i] = ramp(N, 0);
    }
    for (int k = 0; k < 40; k++) {
        CHECK(cuCtxSetCurrent(contexts[k % 2]));
        CHECK(launch_saxpy(saxpy[k % 2], NULL, y[k % 2], x[k % 2], 1, N));
    }
    CHECK(cuCtxSynchronize());
    printf("%.1f\n", sum(y[1], N));
}

/* The image without its first kernel: each handle is the one of the kernel before. */
static CUmodule load_without_first(void) {
    CUmodule module;
    char *text = strdup(KERNELS_PTX), *first = strstr(text, ".visible .entry"), *second = strstr(first + 1, ".visible .entry");
    memmove(first, second, strlen(second) + 1);
    CHECK(cuModuleLoadData(&module, text));
    free(text);
    return module;
}

static void reused(void) {
    CUcontext context = new_context();
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0), out;
    CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
    printf("%.1f\n", sum(y, N));
    CHECK(cuCtxDestroy_v2(context));
    context = new_context();
    CUfunction fill = kernel(load_without_first(), "fill");
    unsigned value = 7;
    int n = N;
    void *params[] = {&out, &value, &n};
    CHECK(cuMemAlloc_v2(&out, N * sizeof value));
    CHECK(cuMemsetD8_v2(out, 0, N * sizeof value));
    CHECK(cuLaunchKernel(fill, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    CHECK(cuMemcpyDtoH_v2(&value, out, sizeof value));
    printf("%u, the same handle: %d\n", value, fill == saxpy);
}

static void refused(void) {
    CUfunction saxpy = kernel((start(), load_kernels()), "saxpy");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    float a = 1;
    int n = N, count = 0;
    void *params[] = {&y, &x, &a, &n};
    for (int i = 0; i < 40; i++) count += cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 1 << 20, NULL, params, NULL) != CUDA_SUCCESS;
    for (int i = 0; i < 3; i++) CHECK(cuLaunchKernel(saxpy, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    printf("refused %d, %.1f\n", count, sum(y, N));
}

static long resident_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * 4;
}

static void again(int times) {
    start();
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    char *text = malloc(sizeof KERNELS_PTX + 64);
    long first = 0;
    for (int i = 0; i < times; i++) {
        CUmodule module;
        if (i == times / 4) first = resident_kib();
        sprintf(text, "%s\n// %d\n", KERNELS_PTX, i);
        CHECK(cuModuleLoadData(&module, text));
        if (i % 100 == 0) CHECK(launch_saxpy(kernel(module, "saxpy"), NULL, y, x, 1, N));
        CHECK(cuModuleUnload(module));
    }
    printf("%ld\n", resident_kib() - first);
}

int main(int argc, char **argv) {
    CHECK(cuInit(0));
    if (mode_is(argc, argv, "two")) two();
    else if (mode_is(argc, argv, "reused")) reused();
    else if (mode_is(argc, argv, "refused")) refused();
    else again(atoi(argv[argc - 1]));
    return 0;
}
