/* cc: -lcuda */
/* The same launches on memory that differs as memory of real programs does: `varying SKEW SEED WHEN`. SKEW bytes are
 * allocated first, so that addresses move; SEED decides the numbers that saxpy reads; WHEN is a time, in nanoseconds, in a
 * buffer that nothing reads. */
#include "common.h"

enum { COUNT = 4096, NODES = 8 };

struct node {
    CUdeviceptr next;
    unsigned value, weight;
};

static unsigned next_number(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 4);
    size_t skew = strtoul(argv[1], NULL, 0);
    unsigned state = (unsigned)strtoul(argv[2], NULL, 0) * 2654435761u + 1;
    unsigned long long when = strtoull(argv[3], NULL, 0);
    start();
    CUmodule module = load_kernels();
    CUdeviceptr first, list, sum;
    if (skew) CHECK(cuMemAlloc_v2(&first, skew));

    /* A list of pointers, which lies elsewhere when something was allocated first. The last node's value is behind a time. */
    struct node nodes[NODES];
    CHECK(cuMemAlloc_v2(&list, sizeof nodes + sizeof when));
    for (int i = 0; i < NODES; i++) {
        nodes[i].next = i + 1 < NODES ? list + (CUdeviceptr)(i + 1) * sizeof *nodes : 0;
        nodes[i].value = (unsigned)i;
        nodes[i].weight = 0;
    }
    CHECK(cuMemcpyHtoD_v2(list, nodes, sizeof nodes));
    CHECK(cuMemcpyHtoD_v2(list + sizeof nodes, &when, sizeof when));
    CHECK(cuMemAlloc_v2(&sum, sizeof(unsigned)));
    CHECK(cuMemsetD8_v2(sum, 0, sizeof(unsigned)));
    void *walk[] = {&list, &sum};
    CHECK(cuLaunchKernel(kernel(module, "walk"), 1, 1, 1, 32, 1, 1, 0, NULL, walk, NULL));

    unsigned bits[COUNT];
    for (int i = 0; i < COUNT; i++) bits[i] = next_number(&state);
    CUdeviceptr x, y = ramp(COUNT, 0.0f);
    CHECK(cuMemAlloc_v2(&x, sizeof bits));
    CHECK(cuMemcpyHtoD_v2(x, bits, sizeof bits));
    CHECK(launch_saxpy(kernel(module, "saxpy"), NULL, y, x, 0.5f, COUNT));
    CHECK(cuCtxSynchronize());
    return 0;
}
