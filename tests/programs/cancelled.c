/* cc: -lcuda */
/* Threads that are cancelled. With `pending`, the cancellation comes before a launch that contains no
 * cancellation point: the launch is made. With the name of a call that the driver makes slow, it
 * comes in the middle of that call. With `reading`, the driver waits for an image meanwhile. Afterwards the
 * program goes on. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

enum { N = 256 };

static CUcontext context;
static CUfunction saxpy;
static CUdeviceptr x, y;
static const char *mode;
static atomic_int may_start, begun, launched;

static void *cancelled_before(void *nothing) {
    CHECK(cuCtxSetCurrent(context));
    while (!may_start) continue;
    CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
    launched = 1;
    pthread_testcancel();
    return nothing;
}

static void *cancelled_inside(void *nothing) {
    CHECK(cuCtxSetCurrent(context));
    begun = 1;
    for (int i = 0; i < 100; i++) {
        CUdeviceptr address;
        if (strcmp(mode, "cuMemAlloc_v2") == 0) CHECK(cuMemAlloc_v2(&address, 64));
        else if (strcmp(mode, "cuMemFree_v2") == 0) cuMemFree_v2(4096);
        else if (strcmp(mode, "cuCtxSynchronize") == 0) CHECK(cuCtxSynchronize());
        else if (strcmp(mode, "cuLaunchKernel") == 0) CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
        else REQUIRE(!"a call that this program knows");
    }
    return nothing;
}

/* The image is in a pipe that nobody writes to yet. */
static void *cancelled_reading(void *nothing) {
    CUmodule module;
    CHECK(cuCtxSetCurrent(context));
    begun = 1;
    CHECK(cuModuleLoad(&module, "pipe"));
    launched = 1;
    pthread_testcancel();
    return nothing;
}

static void write_pipe(void) {
    FILE *pipe = fopen("pipe", "w");
    REQUIRE(pipe && fwrite(KERNELS_PTX, 1, sizeof KERNELS_PTX, pipe) == sizeof KERNELS_PTX);
    fclose(pipe);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    mode = argv[1];
    context = start();
    saxpy = kernel(load_kernels(), "saxpy");
    x = ramp(N, 0), y = ramp(N, 0);
    int before = strcmp(mode, "pending") == 0, reading = strcmp(mode, "reading") == 0;
    if (reading) REQUIRE(mkfifo("pipe", 0666) == 0);
    pthread_t thread;
    void *result;
    REQUIRE(pthread_create(&thread, NULL, before ? cancelled_before : reading ? cancelled_reading : cancelled_inside, NULL) == 0);
    if (before) {
        pthread_cancel(thread);
        may_start = 1;
    } else {
        while (!begun) continue;
        usleep(250000);
        pthread_cancel(thread);
        if (reading) write_pipe();
    }
    pthread_join(thread, &result);
    CHECK(cuCtxSynchronize());
    printf("%s: cancelled %d, launched %d\n", mode, result == PTHREAD_CANCELED, launched);
    CHECK(launch_saxpy(saxpy, NULL, x, x, 1, N));
    printf("then %.1f\n", sum(x, N));
    return 0;
}
