/* cc: -lcuda */
/* Several threads, each with the per-thread default stream (compiled as with
 * CUDA_API_PER_THREAD_DEFAULT_STREAM), its own memory and the same kernels. Arguments: threads and
 * launches for each; then `streams` gives every thread a stream of its own instead. */
#include <pthread.h>

#include "common.h"

enum { N = 500, MOST = 64 };

static CUcontext context;
static CUfunction saxpy, count;
static int launches, own_streams;
static double results[MOST];

static void *work(void *argument) {
    int index = (int)(size_t)argument;
    CUstream stream = NULL;
    CHECK(cuCtxSetCurrent(context));
    if (own_streams) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr x = ramp(N, (float)index), y = ramp(N, 1);
    float a = 1;
    int n = N;
    void *params[] = {&y, &x, &a, &n};
    for (int i = 0; i < launches; i++) {
        if (own_streams) CHECK(cuLaunchKernel(saxpy, 4, 1, 1, 128, 1, 1, 0, stream, params, NULL));
        else CHECK(cuLaunchKernel_ptsz(saxpy, 4, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    }
    if (own_streams) CHECK(cuStreamSynchronize(stream));
    else CHECK(cuStreamSynchronize_ptsz(NULL));
    CUcontext after;
    CHECK(cuCtxGetCurrent(&after));
    REQUIRE(after == context);
    results[index] = sum(y, N);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    launches = argc > 2 ? atoi(argv[2]) : 20;
    own_streams = argc > 3;
    REQUIRE(threads <= MOST);
    context = start();
    CUmodule module = load_kernels();
    saxpy = kernel(module, "saxpy");
    count = kernel(module, "count");
    pthread_t ids[MOST];
    for (int i = 0; i < threads; i++) REQUIRE(pthread_create(&ids[i], NULL, work, (void *)(size_t)i) == 0);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < threads; i++) {
        /* y = 1 + i + launches * (index + i), summed over i. */
        double ramp_sum = N * (N - 1) / 2.0;
        REQUIRE(results[i] == N + ramp_sum + launches * (N * i + ramp_sum));
    }
    printf("%d threads, %d launches each\n", threads, launches);
    return 0;
}
