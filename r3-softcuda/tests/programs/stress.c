/* Threads, streams, events and copies in random order; each thread knows what its memory must hold. Argument: seed. */
#include <pthread.h>

#include "driver.h"

enum { THREADS = 4, STREAMS = 3, CELLS = 6, STEPS = 250 };

static Handle context, module, add;

static unsigned random_below(unsigned *seed, unsigned n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static void *thread(void *given) {
    unsigned seed = *(unsigned *)given;
    CHECK(cuCtxSetCurrent(context));
    Handle streams[STREAMS], events[CELLS];
    CUdeviceptr cells[CELLS];
    unsigned expected[CELLS], *pinned;
    CHECK(cuMemHostAlloc((void **)&pinned, CELLS * 4, 0));
    for (int i = 0; i < STREAMS; i++) CHECK(cuStreamCreate(&streams[i], i != 0));
    for (int i = 0; i < CELLS; i++) {
        CHECK(cuEventCreate(&events[i], 2));
        CHECK(cuMemAllocAsync(&cells[i], 4, streams[0]));
        CHECK(cuMemsetD32Async(cells[i], i, 1, streams[0]));
        CHECK(cuEventRecord(events[i], streams[0]));
        expected[i] = i;
    }
    for (int step = 0; step < STEPS; step++) {
        int cell = random_below(&seed, CELLS), from = random_below(&seed, CELLS);
        Handle stream = streams[random_below(&seed, STREAMS)];
        unsigned n = random_below(&seed, 100), what = random_below(&seed, 8);
        /* The last users of both cells come first. */
        CHECK(cuStreamWaitEvent(stream, events[cell], 0));
        CHECK(cuStreamWaitEvent(stream, events[from], 0));
        switch (what) {
        case 0:
            CHECK(cuMemsetD32Async(cells[cell], n, 1, stream));
            expected[cell] = n;
            break;
        case 1:
            CHECK(cuMemcpyDtoDAsync_v2(cells[cell], cells[from], 4, stream));
            expected[cell] = expected[from];
            break;
        case 2:
            CHECK(cuMemcpyHtoDAsync_v2(cells[cell], &n, 4, stream));
            expected[cell] = n;
            break;
        case 3:
            CHECK(cuMemcpyDtoHAsync_v2(&pinned[cell], cells[cell], 4, stream));
            CHECK(cuStreamSynchronize(stream));
            REQUIRE(pinned[cell] == expected[cell]);
            break;
        case 4:
            CHECK(cuMemFreeAsync(cells[cell], stream));
            CHECK(cuMemAllocAsync(&cells[cell], 4, stream));
            CHECK(cuMemsetD32Async(cells[cell], n, 1, stream));
            expected[cell] = n;
            break;
        default:
            CHECK(cuLaunchKernel(add, 1 + n % 3, 1, 1, 32, 1, 1, 0, stream, PARAMS(&cells[cell], &n), NULL));
            expected[cell] += n * 32 * (1 + n % 3);
        }
        CHECK(cuEventRecord(events[cell], stream));
        if (from != cell) CHECK(cuEventRecord(events[from], stream));
    }
    for (int i = 0; i < STREAMS; i++) CHECK(cuStreamSynchronize(streams[i]));
    for (int i = 0; i < CELLS; i++) REQUIRE(word_at(cells[i]) == expected[i]);
    for (int i = 0; i < STREAMS; i++) CHECK(cuStreamDestroy_v2(streams[i]));
    return NULL;
}

int main(int argc, char **argv) {
    unsigned seeds[THREADS];
    pthread_t threads[THREADS];
    context = start();
    module = load_kernels();
    add = kernel(module, "add");
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = (argc > 1 ? atoi(argv[1]) : 1) * 1000 + i;
        pthread_create(&threads[i], NULL, thread, &seeds[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(cuCtxSynchronize());
    printf("as expected\n");
    return 0;
}
