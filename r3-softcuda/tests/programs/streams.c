/* The order of work in and across streams. */
#include <unistd.h>

#include "driver.h"

enum { N = 64 };

static Handle module;
static CUdeviceptr memory;

static void slow_fill(unsigned value, Handle stream) {
    int n = N, rounds = 20000;
    CHECK(cuLaunchKernel(kernel(module, "slow_fill"), 1, 1, 1, 1, 1, 1, 0, stream, PARAMS(&memory, &value, &n, &rounds), NULL));
}

static void add_one(Handle stream) {
    CHECK(cuLaunchKernel(kernel(module, "add_one"), 2, 1, 1, 32, 1, 1, 0, stream, PARAMS(&memory, &(int){N}), NULL));
}

static void remember(void *place) { *(unsigned *)place += 1; }

int main(void) {
    start();
    module = load_kernels();
    CHECK(cuMemAlloc_v2(&memory, N * 4));
    Handle blocking, other, loose, event, before;
    CHECK(cuStreamCreate(&blocking, 0));
    CHECK(cuStreamCreate(&other, 0));
    CHECK(cuStreamCreate(&loose, 1));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventCreate(&before, 0));

    /* The default stream follows blocking streams, and they follow it. */
    slow_fill(10, blocking);
    add_one(NULL);
    add_one(other);
    CHECK(cuStreamSynchronize(other));
    REQUIRE(word_at(memory + 4 * (N - 1)) == 12);

    /* An event orders streams that do not know each other. */
    CHECK(cuEventRecord(before, blocking));
    slow_fill(20, blocking);
    CHECK(cuEventRecord(event, blocking));
    CHECK(cuStreamWaitEvent(loose, event, 0));
    add_one(loose);
    unsigned *pinned;
    CHECK(cuMemHostAlloc((void **)&pinned, 4, 0));
    CHECK(cuMemcpyDtoHAsync_v2(pinned, memory, 4, loose));
    CHECK(cuStreamSynchronize(loose));
    REQUIRE(*pinned == 21);
    CHECK(cuEventQuery(event));
    float ms;
    CHECK(cuEventElapsedTime_v2(&ms, before, event));
    REQUIRE(ms >= 0);

    /* Other streams do not wait: this kernel runs until another stream lets it go on. */
    CUdeviceptr flag, out;
    CHECK(cuMemAlloc_v2(&flag, 4));
    CHECK(cuMemAlloc_v2(&out, 4));
    CHECK(cuMemsetD32_v2(flag, 0, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchKernel(kernel(module, "wait_for"), 1, 1, 1, 1, 1, 1, 0, blocking, PARAMS(&flag, &out), NULL));
    REQUIRE(cuStreamQuery(blocking) == 600);
    CHECK(cuMemsetD32Async(flag, 8, 1, loose));
    CHECK(cuStreamSynchronize(blocking));
    REQUIRE(word_at(out) == 9);

    /* A value that a stream waits for. */
    CHECK(cuMemsetD32_v2(flag, 0, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamWaitValue32_v2(loose, flag, 3, 0));
    CHECK(cuMemsetD32Async(out, 77, 1, loose));
    REQUIRE(cuStreamQuery(loose) == 600);
    CHECK(cuStreamWriteValue32_v2(other, flag, 4, 0));
    CHECK(cuStreamSynchronize(loose));
    REQUIRE(word_at(out) == 77);

    /* Host functions run in order; the source of a copy from ordinary memory may change after the call. */
    unsigned calls = 0, value = 5;
    CHECK(cuMemcpyHtoDAsync_v2(out, &value, 4, loose));
    value = 6;
    CHECK(cuLaunchHostFunc(loose, remember, &calls));
    CHECK(cuStreamSynchronize(loose));
    REQUIRE(calls == 1 && word_at(out) == 5);

    /* The per-thread default stream is another one than the default stream. */
    CHECK(cuMemsetD32_v2(flag, 0, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchKernel_ptsz(kernel(module, "wait_for"), 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&flag, &out), NULL));
    CHECK(cuMemsetD32Async(flag, 1, 1, loose));
    CHECK(cuStreamSynchronize((Handle)2));
    REQUIRE(word_at(out) == 2);

    /* A destroyed stream still runs what it has, and its handle is none any more. */
    slow_fill(30, other);
    CHECK(cuStreamDestroy_v2(other));
    REQUIRE(cuStreamQuery(other) == 400);
    CHECK(cuCtxSynchronize());
    REQUIRE(word_at(memory) == 30);
    printf("in order\n");
    return 0;
}
