/* Two devices: memory of the other one is out of reach until access is enabled. */
#include "driver.h"

int main(int argc, char **argv) {
    Handle contexts[2];
    CUdeviceptr memory;
    int devices, n = 4;
    char name[64];
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    CHECK(cuDeviceGetName(name, sizeof name, 1));
    printf("%d, %s\n", devices, name);
    for (int i = 0; i < 2; i++) CHECK(cuCtxCreate_v2(&contexts[i], 0, i));
    CHECK(cuMemAlloc_v2(&memory, 16));
    CHECK(cuMemsetD32_v2(memory, 1, 4));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(contexts[0]));
    Handle module = load_kernels();
    if (mode_is(argc, argv, "enabled")) CHECK(cuCtxEnablePeerAccess(contexts[1], 0));
    CHECK(cuLaunchKernel(kernel(module, "add_one"), 1, 1, 1, 32, 1, 1, 0, NULL, PARAMS(&memory, &n), NULL));
    printf("%d\n", cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(contexts[1]));
    printf("%u\n", word_at(memory));
    return 0;
}
