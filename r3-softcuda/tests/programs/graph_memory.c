/* Memory of graphs, waits for events in them, their order, updates, objects that they keep. */
#include "driver.h"

enum { INVALID = 1, ALLOC = 10, FREE = 11 };

static Handle module, stream, other;
static CUdeviceptr out;

static void launch(Handle exec) {
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
}

/* What a captured stream allocates and frees is there in each launch. */
static void captured(void) {
    Handle graph, exec, nodes[8];
    CUdeviceptr memory, freed;
    size_t count = 8;
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuMemAllocAsync(&memory, 4096, stream));
    CHECK(cuMemsetD32Async(memory, 5, 1024, stream));
    CHECK(cuLaunchKernel(kernel(module, "add"), 1, 1, 1, 32, 1, 1, 0, stream, PARAMS(&memory, &(int){1}), NULL));
    CHECK(cuMemcpyDtoDAsync_v2(out, memory, 4, stream));
    CHECK(cuMemFreeAsync(memory, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    int first, last;
    CHECK(cuGraphNodeGetType(nodes[0], &first));
    CHECK(cuGraphNodeGetType(nodes[4], &last));
    REQUIRE(count == 5 && first == ALLOC && last == FREE);
    CHECK(cuGraphMemFreeNodeGetParams(nodes[4], &freed));
    REQUIRE(freed == memory);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        launch(exec);
        REQUIRE(word_at(out) == 37);
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    EXPECT(cuMemFree_v2(memory), INVALID);
}

/* What a graph does not free outlives it, and is freed once. */
static void left_allocated(void) {
    Handle graph, exec;
    CUdeviceptr memory;
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuMemAllocAsync(&memory, 256, stream));
    CHECK(cuMemsetD32Async(memory, 9, 4, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    EXPECT(cuGraphLaunch(exec, stream), INVALID);
    CHECK(cuMemFreeAsync(memory, stream));
    EXPECT(cuMemFreeAsync(memory, stream), INVALID);
    launch(exec);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    REQUIRE(word_at(memory) == 9);
    CHECK(cuMemFree_v2(memory));
    EXPECT(cuMemFree_v2(memory), INVALID);
}

/* A node waits for what was recorded when the graph was launched, not for what is recorded behind it. */
static void waiting(void) {
    Handle graph, exec, event, wait, add, updated, nodes[2];
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, event));
    int n = 1;
    KernelNodeParams params = {kernel(module, "add"), {1, 1, 1}, {32, 1, 1}, 0, PARAMS(&out, &n), NULL, NULL, NULL};
    CHECK(cuGraphAddKernelNode_v2(&add, graph, &wait, 1, &params));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuMemsetD32_v2(out, 0, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchKernel(kernel(module, "slow_fill"), 1, 1, 1, 1, 1, 1, 0, other, PARAMS(&out, &(int){10}, &(int){1}, &(int){20000}), NULL));
    CHECK(cuEventRecord(event, other));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(word_at(out) == 42);

    /* The same shape can take its place; another one cannot, and says why. */
    UpdateResult result;
    CHECK(cuGraphCreate(&updated, 0));
    CHECK(cuGraphAddEventWaitNode(&nodes[0], updated, NULL, 0, event));
    n = 7;
    CHECK(cuGraphAddKernelNode_v2(&nodes[1], updated, &nodes[0], 1, &params));
    CHECK(cuGraphExecUpdate_v2(exec, updated, &result));
    REQUIRE(result.result == 0);
    launch(exec);
    REQUIRE(word_at(out) == 42 + 7 * 32);
    CHECK(cuGraphAddEmptyNode(&wait, updated, NULL, 0));
    EXPECT(cuGraphExecUpdate_v2(exec, updated, &result), 910);
    REQUIRE(result.result == 2);
    CHECK(cuGraphDestroy(updated));
    CHECK(cuGraphCreate(&updated, 0));
    CHECK(cuGraphAddEmptyNode(&nodes[0], updated, NULL, 0));
    CHECK(cuGraphAddKernelNode_v2(&nodes[1], updated, &nodes[0], 1, &params));
    EXPECT(cuGraphExecUpdate_v2(exec, updated, &result), 910);
    REQUIRE(result.result == 3);
    CHECK(cuGraphAddDependencies(updated, &nodes[1], &nodes[0], 1));
    EXPECT(cuGraphInstantiateWithFlags(&exec, updated, 0), INVALID); /* A circle. */
}

/* Launches of one executable graph do not overlap, whatever their streams. */
static void in_turn(void) {
    Handle graph, exec;
    CHECK(cuMemsetD32_v2(out, 0, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuLaunchKernel(kernel(module, "add_slowly"), 1, 1, 1, 1, 1, 1, 0, stream, PARAMS(&out, &(int){3000}), NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 20; i++) CHECK(cuGraphLaunch(exec, i % 2 ? stream : other));
    CHECK(cuCtxSynchronize());
    REQUIRE(word_at(out) == 20);
}

static int ended;
static void end(void *data) {
    *(int *)data += 1;
    CUdeviceptr memory;
    EXPECT(cuMemAlloc_v2(&memory, 4), 800);
}

static void objects(void) {
    Handle graph, exec, object, node;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    CHECK(cuUserObjectCreate(&object, &ended, end, 1, 1));
    CHECK(cuGraphRetainUserObject(graph, object, 3, 0));
    CHECK(cuGraphReleaseUserObject(graph, object, 2));
    CHECK(cuUserObjectRelease(object, 1));
    REQUIRE(ended == 0);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
    REQUIRE(ended == 0);
    CHECK(cuGraphExecDestroy(exec));
    REQUIRE(ended == 1);
}

/* A capture whose stream is destroyed forbids nothing any more. */
static void abandoned(void) {
    Handle third;
    CUdeviceptr memory;
    CHECK(cuStreamCreate(&third, 1));
    CHECK(cuStreamBeginCapture_v2(third, 0));
    CHECK(cuStreamDestroy_v2(third));
    CHECK(cuMemAlloc_v2(&memory, 4));
}

int main(void) {
    start();
    module = load_kernels();
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuStreamCreate(&other, 1));
    CHECK(cuMemAlloc_v2(&out, 4));
    captured();
    left_allocated();
    waiting();
    in_turn();
    objects();
    abandoned();
    printf("graphs keep their memory\n");
    return 0;
}
