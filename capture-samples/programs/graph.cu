// Two kernels captured from a stream into a graph that is launched five times, after one ordinary launch.
// Launches that go into a graph are counted by R3 and not recorded; the program's output must not change.
#include "sample.h"

__global__ void twist(unsigned int *state, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        state[i] = mix32(state[i]);
    }
}

__global__ void drift(unsigned int *state, int n, unsigned int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        state[i] += by;
    }
}

int main(int argc, char **argv) {
    const int n = argument(argc, argv, 1, 5000);
    const int launches = 5;
    std::vector<unsigned int> want(n);
    for (int i = 0; i < n; ++i) {
        want[i] = 3 * i;
    }
    unsigned int *state = device_copy(want);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const dim3 grid((n + 255) / 256), block(256);
    drift<<<grid, block, 0, stream>>>(state, n, 5);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    twist<<<grid, block, 0, stream>>>(state, n);
    CHECK(cudaGetLastError());
    drift<<<grid, block, 0, stream>>>(state, n, 9);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int launch = 0; launch < launches; ++launch) {
        CHECK(cudaGraphLaunch(executable, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) {
        want[i] += 5;
        for (int launch = 0; launch < launches; ++launch) {
            want[i] = mix32(want[i]) + 9;
        }
    }
    std::vector<unsigned int> got = host_copy(state, n);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    return result("graph", got == want, checksum(got));
}
