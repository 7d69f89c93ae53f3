/* cc: -lcuda */
/* Stream capture: launches that run later, as nodes of a graph. The argument says how; what each
 * call answers is printed. */
#include <pthread.h>

#include "common.h"

enum { N = 256 };

static CUcontext context;
static CUfunction saxpy, count;
static CUdeviceptr x, y, others_x, others_y;
static CUstream stream, other;
static pthread_barrier_t barrier;

static void launch(CUstream on) { printf("launch: %d\n", launch_saxpy(saxpy, on, y, x, 1, N)); }

static CUstreamCaptureStatus status_of(CUstream of) {
    CUstreamCaptureStatus status;
    CHECK(cuStreamIsCapturing(of, &status));
    return status;
}

static void run_graph(CUgraph graph, int times) {
    CUgraphExec exec;
    size_t nodes = 0;
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    printf("%zu nodes\n", nodes);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < times; i++) CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    printf("y %.1f\n", sum(y, N));
}

/* While the main thread captures, this one launches on a stream of its own. */
static void *second_thread(void *argument) {
    (void)argument;
    CHECK(cuCtxSetCurrent(context));
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 5; i++) CHECK(launch_saxpy(saxpy, other, others_y, others_x, 1, N));
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "relaxed";
    CUgraph graph = NULL;
    context = start();
    CUmodule module = load_kernels();
    saxpy = kernel(module, "saxpy");
    count = kernel(module, "count");
    x = ramp(N, 0), y = ramp(N, 0);
    others_x = ramp(N, 0), others_y = ramp(N, 0);
    CHECK(cuStreamCreate(&stream, strcmp(mode, "legacy") == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));

    if (strcmp(mode, "warm") == 0) {
        /* The shape was recorded before; the launch that is captured is its second. */
        launch(stream);
        CHECK(cuStreamSynchronize(stream));
        mode = "global";
    }
    if (strcmp(mode, "global") == 0 || strcmp(mode, "relaxed") == 0 || strcmp(mode, "thread_local") == 0) {
        CUstreamCaptureMode how = strcmp(mode, "global") == 0    ? CU_STREAM_CAPTURE_MODE_GLOBAL
                                  : strcmp(mode, "relaxed") == 0 ? CU_STREAM_CAPTURE_MODE_RELAXED
                                                                 : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        CHECK(cuStreamBeginCapture_v2(stream, how));
        for (int i = 0; i < 3; i++) launch(stream);
        printf("count: %d\n", cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        printf("status %d\n", status_of(stream));
        CUresult result = cuStreamEndCapture(stream, &graph);
        printf("end: %d\n", result);
        printf("before the graph runs: %.1f\n", sum(y, N));
        run_graph(graph, 3);
    } else if (strcmp(mode, "other_stream") == 0 || strcmp(mode, "other_stream_relaxed") == 0) {
        /* Another stream that does not capture is used meanwhile: its launches run at once. */
        CHECK(cuStreamBeginCapture_v2(stream, mode[12] ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(stream);
        for (int i = 0; i < 3; i++) CHECK(launch_saxpy(saxpy, other, others_y, others_x, 1, N));
        CHECK(cuStreamSynchronize(other));
        launch(stream);
        printf("status %d %d\n", status_of(stream), status_of(other));
        printf("end: %d\n", cuStreamEndCapture(stream, &graph));
        printf("other %.1f\n", sum(others_y, N));
        run_graph(graph, 1);
    } else if (strcmp(mode, "other_thread") == 0) {
        pthread_t thread;
        pthread_barrier_init(&barrier, NULL, 2);
        pthread_create(&thread, NULL, second_thread, NULL);
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(stream);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        launch(stream);
        printf("end: %d\n", cuStreamEndCapture(stream, &graph));
        pthread_join(thread, NULL);
        CHECK(cuStreamSynchronize(other));
        printf("other %.1f\n", sum(others_y, N));
        run_graph(graph, 2);
    } else if (strcmp(mode, "joined") == 0) {
        /* A second stream joins the capture through an event. */
        CUevent event;
        CHECK(cuEventCreate(&event, 0));
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(stream);
        CHECK(cuEventRecord(event, stream));
        CHECK(cuStreamWaitEvent(other, event, 0));
        printf("joined status %d\n", status_of(other));
        launch(other);
        CHECK(cuEventRecord(event, other));
        CHECK(cuStreamWaitEvent(stream, event, 0));
        printf("end: %d\n", cuStreamEndCapture(stream, &graph));
        run_graph(graph, 1);
    } else if (strcmp(mode, "invalidated") == 0) {
        /* The program breaks its own capture, and launches into it all the same. */
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(stream);
        CUdeviceptr more;
        printf("allocation: %d\n", cuMemAlloc_v2(&more, 64));
        printf("status %d\n", status_of(stream));
        launch(stream);
        printf("end: %d %s\n", cuStreamEndCapture(stream, &graph), graph ? "graph" : "no graph");
        launch(stream);
        CHECK(cuStreamSynchronize(stream));
        printf("y %.1f\n", sum(y, N));
    } else if (strcmp(mode, "legacy") == 0) {
        /* The stream blocks, so the default stream may not be used meanwhile. */
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(stream);
        CUstreamCaptureStatus status;
        printf("default stream capturing: %d\n", cuStreamIsCapturing(NULL, &status));
        printf("status %d\n", status_of(stream));
        launch(NULL);
        printf("end: %d %s\n", cuStreamEndCapture(stream, &graph), graph ? "graph" : "no graph");
        launch(NULL);
        printf("y %.1f\n", sum(y, N));
    } else if (strcmp(mode, "to_graph") == 0) {
        /* The capture goes into a graph that is there already, as JAX's does. */
        CHECK(cuGraphCreate(&graph, 0));
        for (int i = 0; i < 2; i++) {
            CUgraph same;
            CHECK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
            launch(stream);
            CHECK(cuStreamEndCapture(stream, &same));
            REQUIRE(same == graph);
        }
        run_graph(graph, 2);
    } else if (strcmp(mode, "built") == 0) {
        /* No capture: nodes added by hand, by function and by kernel handle. */
        CUlibrary library;
        CUkernel by_kernel;
        CHECK(cuLibraryLoadData(&library, KERNELS_PTX, NULL, NULL, 0, NULL, NULL, 0));
        CHECK(cuLibraryGetKernel(&by_kernel, library, "saxpy"));
        float a = 1;
        int n = N;
        void *params[] = {&y, &x, &a, &n};
        CUDA_KERNEL_NODE_PARAMS_v2 node = {.func = saxpy, .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128,
                                           .blockDimY = 1, .blockDimZ = 1, .kernelParams = params};
        CUgraphNode first, second;
        CHECK(cuGraphCreate(&graph, 0));
        CHECK(cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &node));
        node.func = NULL;
        node.kern = by_kernel;
        CHECK(cuGraphAddKernelNode_v2(&second, graph, &first, 1, &node));
        CHECK(cuGraphKernelNodeGetParams_v2(second, &node));
        printf("node grid %u block %u\n", node.gridDimX, node.blockDimX);
        run_graph(graph, 2);
    } else {
        fprintf(stderr, "no such mode\n");
        return 2;
    }
    return 0;
}
