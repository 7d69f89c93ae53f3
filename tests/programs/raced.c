/* cc: -lcuda */
/* Memory holds the same bytes (0xaa) at two launches; on a driver that races, another stream
 * writes to it while it is recorded for the first one. */
#include "common.h"

enum { BYTES = 1 << 20, CHUNK = 1 << 16 };

int main(void) {
    start();
    CUfunction fill = kernel(load_kernels(), "fill");
    CUdeviceptr memory;
    unsigned value = 0xaaaaaaaa;
    int n = 1;
    void *params[] = {&memory, &value, &n};
    CHECK(cuMemAlloc_v2(&memory, BYTES));
    CHECK(cuMemsetD8_v2(memory, 0, BYTES));
    for (int i = 0; i < 2; i++) {
        CHECK(cuMemsetD8_v2(memory, 0xaa, CHUNK));
        CHECK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        CHECK(cuCtxSynchronize());
    }
    puts("two launches");
    return 0;
}
