/* cc: -lcuda */
/* Launches until somebody ends it, with memory that is different each time, and says so on standard
 * output after the tenth launch. An argument limits the number of launches. */
#include "common.h"

enum { N = 4096 };

int main(int argc, char **argv) {
    long most = argc > 1 ? atol(argv[1]) : -1;
    start();
    CUmodule module = load_kernels();
    CUfunction fill = kernel(module, "fill");
    CUdeviceptr out;
    CHECK(cuMemAlloc_v2(&out, 64 * N * sizeof(unsigned)));
    for (unsigned i = 0; most < 0 || i < most; i++) {
        unsigned value = i * 2654435761u;
        int n = N;
        CUdeviceptr part = out + (i % 64) * N * sizeof(unsigned);
        void *params[] = {&part, &value, &n};
        CHECK(cuLaunchKernel(fill, N / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
        if (i == 10) {
            puts("running");
            fflush(stdout);
        }
    }
    CHECK(cuCtxSynchronize());
    printf("%ld launches\n", most);
    return 0;
}
