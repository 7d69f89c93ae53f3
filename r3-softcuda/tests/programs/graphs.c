/* Graphs: captured from streams that fork and join, and made of nodes; parameters are changed. */
#include "driver.h"

enum { N = 32 };

int main(void) {
    start();
    Handle module = load_kernels(), add_one = kernel(module, "add_one"), first, second, fork, join, graph, exec;
    CUdeviceptr memory, other;
    int n = N;
    CHECK(cuMemAlloc_v2(&memory, N * 4));
    CHECK(cuMemAlloc_v2(&other, N * 4));
    CHECK(cuMemsetD32_v2(memory, 0, N));
    CHECK(cuMemsetD32_v2(other, 0, N));
    CHECK(cuStreamCreate(&first, 1));
    CHECK(cuStreamCreate(&second, 1));
    CHECK(cuEventCreate(&fork, 2));
    CHECK(cuEventCreate(&join, 2));
    CHECK(cuCtxSynchronize());

    CHECK(cuStreamBeginCapture_v2(first, 0));
    CHECK(cuLaunchKernel(add_one, 1, 1, 1, N, 1, 1, 0, first, PARAMS(&memory, &n), NULL));
    CHECK(cuEventRecord(fork, first));
    CHECK(cuStreamWaitEvent(second, fork, 0));
    CHECK(cuLaunchKernel(add_one, 1, 1, 1, N, 1, 1, 0, second, PARAMS(&other, &n), NULL));
    EXPECT(cuEventQuery(fork), 907);
    CHECK(cuEventRecord(join, second));
    CHECK(cuStreamWaitEvent(first, join, 0));
    CHECK(cuMemsetD32Async(memory, 100, 1, first));
    CHECK(cuStreamEndCapture(first, &graph));
    size_t count = 0;
    CHECK(cuGraphGetNodes(graph, NULL, &count));
    REQUIRE(count == 3 && word_at(memory) == 0);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) CHECK(cuGraphLaunch(exec, first));
    CHECK(cuStreamSynchronize(first));
    REQUIRE(word_at(memory) == 100 && word_at(memory + 4) == 3 && word_at(other) == 3);

    /* A fork that is not joined. */
    CHECK(cuStreamBeginCapture_v2(first, 0));
    CHECK(cuEventRecord(fork, first));
    CHECK(cuStreamWaitEvent(second, fork, 0));
    CHECK(cuLaunchKernel(add_one, 1, 1, 1, N, 1, 1, 0, second, PARAMS(&other, &n), NULL));
    EXPECT(cuStreamEndCapture(first, &graph), 904);
    REQUIRE(graph == NULL);

    /* What a capture forbids ends it. */
    CHECK(cuStreamBeginCapture_v2(first, 0));
    CUdeviceptr none;
    EXPECT(cuMemAlloc_v2(&none, 4), 900);
    EXPECT(cuStreamEndCapture(first, &graph), 901);

    /* Nodes by hand. The arguments are those at the time of the call, and can be read back and changed. */
    Handle made, one, two;
    CHECK(cuGraphCreate(&made, 0));
    KernelNodeParams params = {.function = add_one, .grid = {1, 1, 1}, .block = {N, 1, 1}, .params = PARAMS(&memory, &n)};
    CHECK(cuGraphAddKernelNode_v2(&one, made, NULL, 0, &params));
    CHECK(cuGraphAddKernelNode_v2(&two, made, &one, 1, &params));
    KernelNodeParams back;
    CHECK(cuGraphKernelNodeGetParams_v2(two, &back));
    REQUIRE(back.function == add_one && *(CUdeviceptr *)back.params[0] == memory && *(int *)back.params[1] == N);
    CHECK(cuGraphInstantiateWithFlags(&exec, made, 0));
    params.params = PARAMS(&other, &n);
    CHECK(cuGraphExecKernelNodeSetParams_v2(exec, two, &params));
    CHECK(cuGraphLaunch(exec, first));
    CHECK(cuStreamSynchronize(first));
    REQUIRE(word_at(memory) == 101 && word_at(other) == 4);
    CHECK(cuGraphDestroy(made));
    CHECK(cuGraphLaunch(exec, first));
    CHECK(cuGraphExecDestroy(exec));
    EXPECT(cuGraphLaunch(exec, first), 1);
    CHECK(cuStreamSynchronize(first));
    REQUIRE(word_at(memory) == 102);
    printf("graphs run\n");
    return 0;
}
