/* The ends of things while others use them; the argument says which. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

static Handle context, module, count;
static CUdeviceptr flag, out;
static volatile int stop;
static volatile long answers[1000];

static void begin(void) {
    context = start();
    module = load_kernels();
    CHECK(cuMemAlloc_v2(&flag, 4));
    CHECK(cuMemAlloc_v2(&out, 4));
    CHECK(cuMemsetD32_v2(flag, 0, 1));
    CHECK(cuCtxSynchronize());
}

/* A kernel that runs until the flag is set. */
static void run_on(Handle stream) {
    CHECK(cuLaunchKernel(kernel(module, "wait_for"), 1, 1, 1, 1, 1, 1, 0, stream, PARAMS(&flag, &out), NULL));
}

static void *wait_in_thread(void *nothing) {
    cuCtxSetCurrent(context);
    cuCtxSynchronize();
    return nothing;
}

static void answer(CUresult result) { __sync_fetch_and_add(&answers[result], 1); }

static void *use(void *stream) {
    cuCtxSetCurrent(context);
    while (!stop) {
        CUdeviceptr memory;
        answer(cuLaunchKernel(count, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        answer(cuStreamSynchronize(stream));
        CUresult allocated = cuMemAlloc_v2(&memory, 64);
        answer(allocated);
        if (allocated == 0) cuMemFree_v2(memory);
    }
    return NULL;
}

/* Threads use a stream, or its context, that goes; they get errors and come back. */
static void taken_away(int whole_context) {
    for (int round = 0; round < 10; round++) {
        pthread_t threads[2];
        Handle stream;
        stop = 0;
        if (whole_context) CHECK(cuCtxCreate_v2(&context, 0, 0));
        if (whole_context) module = load_kernels();
        count = kernel(module, "count");
        CHECK(cuStreamCreate(&stream, 1));
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, use, stream);
        usleep(3000);
        CHECK(whole_context ? cuCtxDestroy_v2(context) : cuStreamDestroy_v2(stream));
        usleep(3000);
        stop = 1;
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 1000; i++) {
        if (answers[i] == 0 || i == 0 || i == 201 || i == 400 || i == 709) continue;
        fprintf(stderr, "%ld calls gave %d\n", answers[i], i);
        exit(1);
    }
    printf("came back\n");
}

int main(int argc, char **argv) {
    Handle stream;
    begin();
    if (mode_is(argc, argv, "exit")) {
        run_on(NULL);
        exit(3);
    }
    if (mode_is(argc, argv, "waiting")) {
        pthread_t thread;
        run_on(NULL);
        pthread_create(&thread, NULL, wait_in_thread, NULL);
        usleep(20000);
        return 4;
    }
    if (mode_is(argc, argv, "stream")) taken_away(0);
    if (mode_is(argc, argv, "context")) taken_away(1);
    if (mode_is(argc, argv, "fork")) {
        /* A child leaves the parent's running kernel alone, and may start anew as another program. */
        run_on(NULL);
        if (fork() == 0) exit(cuCtxSynchronize() == 3 ? 5 : 6);
        int status;
        wait(&status);
        REQUIRE(WEXITSTATUS(status) == 5);
        CHECK(cuStreamCreate(&stream, 1));
        CHECK(cuMemsetD32Async(flag, 1, 1, stream));
        CHECK(cuCtxSynchronize());
        printf("%u\n", word_at(out));
    }
    if (mode_is(argc, argv, "module")) {
        /* Work that is queued has its code, and memory that is freed waits for it. */
        CUdeviceptr memory;
        Handle add = kernel(module, "add");
        CHECK(cuLaunchKernel(kernel(module, "slow_fill"), 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&out, &(int){5}, &(int){1}, &(int){20000}), NULL));
        CHECK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, PARAMS(&out, &(int){1}), NULL));
        CHECK(cuModuleUnload(module));
        REQUIRE(word_at(out) == 37);
        module = load_kernels();
        CHECK(cuStreamCreate(&stream, 1));
        for (int i = 0; i < 100; i++) {
            CHECK(cuMemAlloc_v2(&memory, 4096));
            CHECK(cuMemsetD32Async(memory, i, 1024, stream));
            CHECK(cuLaunchKernel(kernel(module, "add"), 1, 1, 1, 32, 1, 1, 0, stream, PARAMS(&memory, &(int){1}), NULL));
            CHECK(cuMemFree_v2(memory));
        }
        printf("in order\n");
    }
    return 0;
}
