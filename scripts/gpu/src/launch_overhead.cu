// What the shim adds to the launch of an empty kernel: the hooked and the driver's own cuLaunchKernel take turns in one
// process, because equal processes differ by far more than the hook costs. Without a shim both are the same function,
// which shows how far apart equal things come out.
//
// stream: batches back to back without waiting. The queue is full, so a batch takes the larger of the host's and the
//         GPU's time: what an application sees that only launches.
// issue:  bursts that the queue can hold, each from an idle GPU, with the wait outside of the clock: the host's time in
//         the call alone, where an added cost cannot hide behind the GPU.
//
// Prints a JSON object: nanoseconds per launch of each pair of batches, [hooked, bare].
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        int status_ = (int)(call);                                                                \
        if (status_ != 0) {                                                                       \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, status_);         \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

__global__ void empty() {}

using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                            void **, void **);
using Pairs = std::vector<std::pair<double, double>>;

static CUfunction function;

static double launches(Launch launch, int count) {
    using clock = std::chrono::steady_clock;
    auto start = clock::now();
    for (int i = 0; i < count; ++i) {
        CHECK(launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    }
    return std::chrono::duration<double, std::nano>(clock::now() - start).count() / count;
}

static Pairs measure(Launch hooked, Launch bare, int pairs, int count, bool wait) {
    Pairs result;
    for (int i = 0; i < pairs; ++i) {
        double ns[2];
        for (int turn = 0; turn < 2; ++turn) {
            // Each goes first every other time.
            int which = (turn + i) % 2;
            ns[which] = launches(which == 0 ? hooked : bare, count);
            if (wait) {
                CHECK(cudaDeviceSynchronize());
            }
        }
        result.push_back({ns[0], ns[1]});
    }
    CHECK(cudaDeviceSynchronize());
    return result;
}

static void print(const char *name, const Pairs &pairs) {
    printf("\"%s\": [", name);
    for (size_t i = 0; i < pairs.size(); ++i) {
        printf("%s[%.2f, %.2f]", i ? ", " : "", pairs[i].first, pairs[i].second);
    }
    printf("]");
}

int main(int argc, char **argv) {
    const int pairs = argc > 1 ? atoi(argv[1]) : 100;
    const int batch = argc > 2 ? atoi(argv[2]) : 2000;
    const int bursts = argc > 3 ? atoi(argv[3]) : 400;
    const int burst = argc > 4 ? atoi(argv[4]) : 250;

    CHECK(cudaFree(nullptr));
    CHECK(cudaGetFuncBySymbol(&function, (const void *)empty));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    std::string folder = argv[0];
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/') + 1);
    void *library = dlopen((folder + "libpast_preloads.so").c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!driver || !library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    auto past = (void *(*)(void *, const char *))dlsym(library, "symbol_past_preloads");
    auto hooked = (Launch)dlsym(driver, "cuLaunchKernel");
    auto bare = (Launch)past(driver, "cuLaunchKernel");

    launches(hooked, 20000);
    launches(bare, 20000);
    Pairs stream = measure(hooked, bare, pairs, batch, false);
    Pairs issue = measure(hooked, bare, bursts, burst, true);
    printf("{\"hooked\": %s, ", hooked == bare ? "false" : "true");
    print("stream", stream);
    printf(", ");
    print("issue", issue);
    printf("}\n");
    return 0;
}
