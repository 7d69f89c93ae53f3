/* cc: -lcuda */
/* Linked against the driver: every launch entry point and every way to give arguments, and what the
 * kernels of kernels.cu need: variables, constants, lists, structures. `direct library` loads
 * through cuLibrary*, `direct fatbin` from a fat binary. */
#include "common.h"
#include "fatbin.h"

enum { N = 300 };

static CUmodule module;
static CUlibrary library;
static int use_library;

static CUfunction find(const char *name) {
    if (!use_library) return kernel(module, name);
    CUkernel found;
    CHECK(cuLibraryGetKernel(&found, library, name));
    return (CUfunction)(void *)found; /* As CUDA's runtime launches it. */
}

static void set_variable(const char *name, const void *value, size_t bytes) {
    CUdeviceptr address;
    size_t length;
    if (use_library) CHECK(cuLibraryGetGlobal(&address, &length, library, name));
    else CHECK(cuModuleGetGlobal_v2(&address, &length, module, name));
    REQUIRE(length == bytes);
    CHECK(cuMemcpyHtoD_v2(address, value, bytes));
}

static unsigned counter_value(void) {
    CUdeviceptr address;
    unsigned value;
    if (use_library) CHECK(cuLibraryGetGlobal(&address, NULL, library, "counter"));
    else CHECK(cuModuleGetGlobal_v2(&address, NULL, module, "counter"));
    CHECK(cuMemcpyDtoH_v2(&value, address, sizeof value));
    return value;
}

struct node { CUdeviceptr next; unsigned value, weight; };
struct arguments { CUdeviceptr out; int n; CUdeviceptr in; char kind; };

int main(int argc, char **argv) {
    start();
    use_library = mode_is(argc, argv, "library");
    if (use_library) CHECK(cuLibraryLoadData(&library, KERNELS_PTX, NULL, NULL, 0, NULL, NULL, 0));
    else if (mode_is(argc, argv, "fatbin")) CHECK(cuModuleLoadFatBinary(&module, fatbin_wrapper(KERNELS_PTX)));
    else module = load_kernels();

    CUdeviceptr x = ramp(N, 1), y = ramp(N, 2);
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    /* kernelParams. */
    CHECK(launch_saxpy(find("saxpy"), stream, y, x, 2, N));
    CHECK(cuStreamSynchronize(stream));
    printf("saxpy %.1f\n", sum(y, N));

    /* One buffer in extra, and a structure by value with pointers inside. */
    struct arguments a = {y, N, x, 3};
    size_t bytes = sizeof a;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &a, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(find("by_value"), 3, 1, 1, 128, 1, 1, 0, stream, NULL, extra));
    CHECK(cuStreamSynchronize(stream));
    printf("by_value %.1f\n", sum(y, N));

    /* No arguments at all, and a variable of the module. */
    CHECK(cuLaunchKernel(find("count"), 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
    CHECK(cuStreamSynchronize(stream));
    printf("count %u\n", counter_value());

    /* cuLaunchKernelEx with an attribute, and a C++ name. */
    float factor = 0.5f;
    int n = N;
    void *scale[] = {&y, &factor, &n};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
    attribute.value.priority = -1;
    CUlaunchConfig config = {3, 1, 1, 128, 1, 1, 64, stream, &attribute, 1};
    CHECK(cuLaunchKernelEx(&config, find("_Z5scaleIfEvPT_S0_i"), scale, NULL));
    CHECK(cuStreamSynchronize(stream));
    printf("scale %.1f\n", sum(y, N));

    /* Constants, cooperatively. */
    float coefficients[4] = {10, 20, 30, 40};
    set_variable("coefficients", coefficients, sizeof coefficients);
    void *constants[] = {&y, &n};
    CHECK(cuLaunchCooperativeKernel(find("add_constants"), 3, 1, 1, 128, 1, 1, 0, stream, constants));
    CHECK(cuStreamSynchronize(stream));
    printf("add_constants %.1f\n", sum(y, N));

    /* A list whose nodes lie in allocations of their own: only memory points to them. */
    CUdeviceptr nodes[5], result;
    CHECK(cuMemAlloc_v2(&result, sizeof(unsigned)));
    for (int i = 4; i >= 0; i--) {
        struct node node = {i < 4 ? nodes[i + 1] : 0, (unsigned)(i + 1), 0};
        CHECK(cuMemAlloc_v2(&nodes[i], sizeof node));
        CHECK(cuMemcpyHtoD_v2(nodes[i], &node, sizeof node));
    }
    void *list[] = {&nodes[0], &result};
    CHECK(cuLaunchKernel(find("walk"), 1, 1, 1, 1, 1, 1, 0, stream, list, NULL));
    CHECK(cuStreamSynchronize(stream));
    unsigned total;
    CHECK(cuMemcpyDtoH_v2(&total, result, sizeof total));
    printf("walk %u\n", total);

    CHECK(cuStreamDestroy_v2(stream));
    return 0;
}
