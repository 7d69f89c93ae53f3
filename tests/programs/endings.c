/* cc: -lcuda */
/* Three launches, then an end: the argument says which. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "common.h"

enum { N = 256 };

static CUcontext context;
static CUmodule module;
static CUfunction saxpy;
static CUdeviceptr x, y;
static const char *mode = "return";

static void launch(void) { CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N)); }

static void three_launches(void) {
    context = start();
    module = load_kernels();
    saxpy = kernel(module, "saxpy");
    x = ramp(N, 0);
    y = ramp(N, 0);
    for (int i = 0; i < 3; i++) launch();
    printf("%s: %.1f\n", mode, sum(y, N));
    fflush(stdout);
}

/* Before main: only when asked for by the environment, which is all that is known here. */
__attribute__((constructor)) static void early(void) {
    const char *when = getenv("ENDING");
    if (!when) return;
    mode = when;
    if (strcmp(when, "constructor") == 0) {
        three_launches();
        exit(7);
    }
    if (strcmp(when, "constructor_unused") == 0) exit(7);
}

static void late(void) {
    /* The driver may be shut down: any answer will do, but an answer. */
    CUresult result = launch_saxpy(saxpy, NULL, y, x, 1, N);
    printf("late launch: %d\n", result);
    CUdeviceptr more;
    result = cuMemAlloc_v2(&more, 64);
    printf("late allocation: %d\n", result);
    fflush(stdout);
}

__attribute__((destructor)) static void very_late(void) {
    if (strcmp(mode, "destructor") == 0) late();
}

static void *exits(void *nothing) {
    exit(nothing ? 1 : 6);
}

static void *sleeps(void *nothing) {
    for (;;) sleep(1);
    return nothing;
}

static void handler(int signal) {
    (void)signal;
    static const char text[] = "handled\n";
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) _exit(1);
    _exit(11);
}

int main(int argc, char **argv) {
    if (argc > 1) mode = argv[1];
    if (strcmp(mode, "atexit_before") == 0) atexit(late); /* Registered before cuInit: runs after its handlers. */
    three_launches();
    if (strcmp(mode, "atexit_after") == 0) atexit(late);
    if (strcmp(mode, "exit") == 0) exit(3);
    if (strcmp(mode, "_exit") == 0) _exit(3);
    if (strcmp(mode, "quick_exit") == 0) quick_exit(3);
    if (strcmp(mode, "abort") == 0) abort();
    if (strcmp(mode, "segfault") == 0) raise(SIGSEGV);
    if (strcmp(mode, "terminated") == 0) raise(SIGTERM);
    if (strcmp(mode, "killed") == 0) raise(SIGKILL);
    if (strcmp(mode, "handler") == 0) {
        signal(SIGTERM, handler);
        raise(SIGTERM);
    }
    if (strcmp(mode, "thread_exit") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, exits, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(mode, "threads_left") == 0) {
        pthread_t thread;
        for (int i = 0; i < 4; i++) pthread_create(&thread, NULL, sleeps, NULL);
    }
    if (strcmp(mode, "freed") == 0) {
        /* Everything is given back before the end, the context too. */
        CHECK(cuMemFree_v2(x));
        CHECK(cuMemFree_v2(y));
        CHECK(cuModuleUnload(module));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
    }
    if (strcmp(mode, "busy") == 0) {
        /* A kernel still runs when the program ends. */
        CUstream stream;
        CUdeviceptr flag;
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemAlloc_v2(&flag, 4));
        CHECK(cuMemsetD32_v2(flag, 0, 1));
        void *params[] = {&flag};
        CHECK(cuLaunchKernel(kernel(module, "spin"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
        exit(2);
    }
    return 0;
}
