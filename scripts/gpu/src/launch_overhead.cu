// What one launch of an empty kernel costs, in nanoseconds of wall time, measured in this one process.
//
// stream: launches back to back without waiting. The queue is full after the warm-up, so this is the larger
//         of the host's and the GPU's time for a launch: what an application sees that only launches.
// issue:  bursts that the queue can hold, each from an idle GPU, with the wait outside of the clock: the
//         host's time in the launch call alone, where an added cost cannot hide behind the GPU.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t status_ = (call);                                                             \
        if (status_ != cudaSuccess) {                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                         \
                    cudaGetErrorString(status_));                                                 \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

__global__ void empty() {}

static double now_ns() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double, std::nano>(clock::now().time_since_epoch()).count();
}

static double launches(int count) {
    double start = now_ns();
    for (int i = 0; i < count; ++i) {
        empty<<<1, 1>>>();
    }
    return (now_ns() - start) / count;
}

static void print(const char *name, const std::vector<double> &values) {
    printf("\"%s\": [", name);
    for (size_t i = 0; i < values.size(); ++i) {
        printf("%s%.1f", i ? ", " : "", values[i]);
    }
    printf("]");
}

int main(int argc, char **argv) {
    const int batches = argc > 1 ? atoi(argv[1]) : 14;
    const int batch = argc > 2 ? atoi(argv[2]) : 5000;
    const int bursts = argc > 3 ? atoi(argv[3]) : 274;
    const int burst = argc > 4 ? atoi(argv[4]) : 256;
    const int warm_up = 20000;

    CHECK(cudaFree(nullptr));
    launches(warm_up);
    std::vector<double> stream, issue;
    for (int i = 0; i < batches; ++i) {
        stream.push_back(launches(batch));
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < bursts; ++i) {
        issue.push_back(launches(burst));
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaGetLastError());
    printf("{\"warm_up\": %d, \"batch\": %d, \"burst\": %d, ", warm_up, batch, burst);
    print("stream_ns", stream);
    printf(", ");
    print("issue_ns", issue);
    printf("}\n");
    return 0;
}
