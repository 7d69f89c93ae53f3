/* fork, contexts of threads, entry points that this driver lacks, the look-up. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

static void *thread(void *context) {
    Handle current = context;
    CHECK(cuCtxGetCurrent(&current));
    REQUIRE(current == NULL);
    CUdeviceptr memory;
    EXPECT(cuMemAlloc_v2(&memory, 4), 201);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc_v2(&memory, 4));
    return NULL;
}

static void look_up(void) {
    struct { const char *name; int version, flags, status; void *same; } cases[] = {
        {"cuMemAlloc", 13000, 0, 0, cuMemAlloc_v2},
        {"cuLaunchKernel", 4000, 0, 0, cuLaunchKernel},
        {"cuLaunchKernel", 7000, 2, 0, cuLaunchKernel_ptsz},
        {"cuLaunchKernel", 4000, 2, 0, cuLaunchKernel},
        {"cuLaunchKernel", 13000, 1, 0, cuLaunchKernel},
        {"cuLaunchKernel_ptsz", 13000, 0, 0, cuLaunchKernel_ptsz},
        {"cuGetProcAddress", 12000, 0, 0, cuGetProcAddress_v2},
        {"cuStreamQuery", 1000, 0, 2, NULL},
        {"cuNoSuchThing", 13000, 0, 1, NULL},
        {"", 0, 0, 1, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *found = &found;
        int status = -1;
        CHECK(cuGetProcAddress_v2(cases[i].name, &found, cases[i].version, cases[i].flags, &status));
        if (found != cases[i].same || status != cases[i].status) printf("%s: %p, %d\n", cases[i].name, found, status);
        CHECK(cuGetProcAddress_v2(cases[i].name, &found, cases[i].version, cases[i].flags, NULL));
    }
}

int main(void) {
    Handle created, popped, primary;
    CUdeviceptr memory;
    EXPECT(cuMemAlloc_v2(&memory, 4), 3);
    look_up();
    primary = start();
    pthread_t other;
    pthread_create(&other, NULL, thread, primary);
    pthread_join(other, NULL);

    CHECK(cuCtxCreate_v2(&created, 0, 0));
    CHECK(cuCtxPushCurrent_v2(primary));
    CHECK(cuCtxPopCurrent_v2(&popped));
    REQUIRE(popped == primary);
    CHECK(cuMemAlloc_v2(&memory, 4));
    CHECK(cuCtxDestroy_v2(created));
    CHECK(cuCtxGetCurrent(&popped));
    REQUIRE(popped == primary);
    EXPECT(cuMemFree_v2(memory), 1); /* It ended with its context. */
    EXPECT(cuCtxDestroy_v2(created), 201);

    EXPECT(cuGLInit(), 801);
    EXPECT(cuGLInit(), 801);

    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int devices;
        REQUIRE(cuInit(0) == 3 && cuMemAlloc_v2(&memory, 4) == 3 && cuDeviceGetCount(&devices) == 3);
        exit(7);
    }
    int status;
    waitpid(child, &status, 0);
    REQUIRE(WEXITSTATUS(status) == 7);
    CHECK(cuMemAlloc_v2(&memory, 4));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    unsigned flags;
    int active;
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    REQUIRE(active == 0);
    EXPECT(cuMemAlloc_v2(&memory, 4), 709);
    printf("all right\n");
    return 0;
}
