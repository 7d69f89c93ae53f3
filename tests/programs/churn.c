/* cc: -lcuda */
/* Threads that allocate, load, launch, check, unload and free at the same time, so that addresses and
 * handles change hands all the while. Arguments: threads and rounds; then `small` gives the threads
 * the smallest stacks that one sees in practice. */
#include <pthread.h>

#include "common.h"

enum { N = 700, MOST = 32 };

static CUcontext context;
static int rounds;

static void check(CUstream stream, CUdeviceptr memory, unsigned value) {
    unsigned back[N];
    CHECK(cuMemcpyDtoHAsync_v2(back, memory, sizeof back, stream));
    CHECK(cuStreamSynchronize(stream));
    for (int i = 0; i < N; i++) REQUIRE(back[i] == value);
}

static void *work(void *argument) {
    unsigned index = (unsigned)(size_t)argument;
    CHECK(cuCtxSetCurrent(context));
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < rounds; round++) {
        CUmodule module = load_kernels();
        CUfunction fill = kernel(module, "fill");
        CUdeviceptr memory, ordered;
        unsigned value = index * 1000003u + (unsigned)round;
        int n = N;
        CHECK(cuMemAlloc_v2(&memory, N * sizeof(unsigned) + 256 * (index % 4)));
        CHECK(cuMemAllocAsync(&ordered, N * sizeof(unsigned), stream));
        void *params[] = {&memory, &value, &n};
        CHECK(cuLaunchKernel(fill, 6, 1, 1, 128, 1, 1, 0, stream, params, NULL));
        check(stream, memory, value);
        params[0] = &ordered;
        CHECK(cuLaunchKernel(fill, 7, 1, 1, 128, 1, 1, 0, stream, params, NULL));
        check(stream, ordered, value);
        CHECK(cuMemFreeAsync(ordered, stream));
        CHECK(cuMemFree_v2(memory));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuModuleUnload(module));
    }
    CHECK(cuStreamDestroy_v2(stream));
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    rounds = argc > 2 ? atoi(argv[2]) : 10;
    REQUIRE(threads <= MOST);
    context = start();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (argc > 3) REQUIRE(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    pthread_t ids[MOST];
    for (int i = 0; i < threads; i++) REQUIRE(pthread_create(&ids[i], &attributes, work, (void *)(size_t)i) == 0);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("%d threads, %d rounds\n", threads, rounds);
    return 0;
}
