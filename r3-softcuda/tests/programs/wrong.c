/* Calls that are wrong, each with the code that a driver gives; the context works on. */
#include "driver.h"

enum { INVALID = 1, MEMORY = 2, CONTEXT = 201, HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, CLUSTER = 912 };

static const char PAIRS[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry pairs(.param .u64 out) .explicitcluster .reqnctapercluster 2, 1, 1\n{\n"
    ".reg .b32 %r<3>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %cluster_ctarank;\n"
    "add.u32 %r2, %r2, 10;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r2;\nret;\n}\n"
    ".visible .entry rank(.param .u64 out)\n{\n"
    ".reg .b32 %r<3>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %cluster_nctarank;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r2;\nret;\n}\n";

static Handle module;
static CUdeviceptr out;

static void launches(void) {
    Handle add = kernel(module, "add"), stream;
    void **params = PARAMS(&out, &(int){1});
    struct { unsigned grid[3], block[3], shared; } shapes[] = {
        {{0, 1, 1}, {1, 1, 1}, 0}, {{1, 1, 1}, {1, 0, 1}, 0}, {{1, 65536, 1}, {1, 1, 1}, 0}, {{1, 1, 1}, {1025, 1, 1}, 0},
        {{1, 1, 1}, {1, 1, 65}, 0}, {{1, 1, 1}, {64, 32, 1}, 0}, {{1, 1, 1}, {1, 1, 1}, 49153}, {{0x80000000, 1, 1}, {1, 1, 1}, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        unsigned *grid = shapes[i].grid, *block = shapes[i].block;
        EXPECT(cuLaunchKernel(add, grid[0], grid[1], grid[2], block[0], block[1], block[2], shapes[i].shared, NULL, params, NULL), INVALID);
    }
    EXPECT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), INVALID);
    EXPECT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&out, NULL), NULL), INVALID);
    size_t size = 4;
    void *extra[] = {(void *)1, &out, (void *)2, &size, NULL};
    EXPECT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), INVALID);
    EXPECT(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), HANDLE);
    EXPECT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, &size, params, NULL), HANDLE);
    EXPECT(cuLaunchKernel(kernel(module, "bounded"), 1, 1, 1, 129, 1, 1, 0, NULL, params, NULL), INVALID);
    EXPECT(cuLaunchKernelEx(NULL, add, params, NULL), INVALID);
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuStreamDestroy_v2(stream));
    EXPECT(cuStreamDestroy_v2(stream), HANDLE);
    EXPECT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), HANDLE);
}

static void clusters(void) {
    Handle code, pairs;
    CHECK(cuModuleLoadData(&code, PAIRS));
    pairs = kernel(code, "pairs");
    CHECK(cuLaunchKernel(pairs, 4, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&out), NULL));
    REQUIRE(word_at(out + 8) == 10 && word_at(out + 12) == 11);
    /* The kernel's own clusters do not divide this grid. */
    EXPECT(cuLaunchKernel(pairs, 3, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&out), NULL), CLUSTER);
    LaunchAttribute attribute = {4, 0, {4, 1, 1}};
    LaunchConfig config = {{8, 1, 1}, {1, 1, 1}, 0, NULL, &attribute, 1};
    EXPECT(cuLaunchKernelEx(&config, pairs, PARAMS(&out), NULL), CLUSTER);
    Handle rank = kernel(code, "rank");
    CHECK(cuLaunchKernelEx(&config, rank, PARAMS(&out), NULL));
    REQUIRE(word_at(out) == 4);
    config.grid[0] = 6;
    EXPECT(cuLaunchKernelEx(&config, rank, PARAMS(&out), NULL), CLUSTER);
    /* Clusters that were set for the function. */
    CHECK(cuFuncSetAttribute(rank, 11, 2));
    EXPECT(cuLaunchKernel(rank, 4, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&out), NULL), CLUSTER);
    CHECK(cuFuncSetAttribute(rank, 12, 1));
    CHECK(cuFuncSetAttribute(rank, 13, 1));
    EXPECT(cuFuncSetAttribute(pairs, 11, 4), 800);
    CHECK(cuLaunchKernel(rank, 4, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&out), NULL));
    REQUIRE(word_at(out) == 2);
}

static void memory(void) {
    CUdeviceptr memory;
    void *pinned;
    int local;
    Handle stream, pool;
    EXPECT(cuMemAlloc_v2(&memory, 0), INVALID);
    EXPECT(cuMemAlloc_v2(NULL, 4), INVALID);
    EXPECT(cuMemAlloc_v2(&memory, (size_t)1 << 50), MEMORY);
    CHECK(cuMemAlloc_v2(&memory, 64));
    EXPECT(cuMemFree_v2(memory + 4), INVALID);
    CHECK(cuMemFree_v2(memory));
    EXPECT(cuMemFree_v2(memory), INVALID);
    CHECK(cuMemFree_v2(0));
    EXPECT(cuMemFree_v2((CUdeviceptr)&local), INVALID);
    CHECK(cuMemHostAlloc(&pinned, 64, 0));
    EXPECT(cuMemFree_v2((CUdeviceptr)pinned), INVALID);
    CHECK(cuMemFreeHost(pinned));
    EXPECT(cuMemFreeHost(pinned), INVALID);
    /* Freed in the order of a stream: freed from the call on. */
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuMemAllocAsync(&memory, 4096, stream));
    CHECK(cuLaunchKernel(kernel(module, "slow_fill"), 1, 1, 1, 1, 1, 1, 0, stream, PARAMS(&memory, &(int){3}, &(int){8}, &(int){20000}), NULL));
    CHECK(cuMemFreeAsync(memory, stream));
    EXPECT(cuMemFreeAsync(memory, stream), INVALID);
    EXPECT(cuMemFree_v2(memory), INVALID);
    CHECK(cuStreamSynchronize(stream));
    EXPECT(cuMemFreeAsync(memory, stream), INVALID);
    unsigned long long used = 1, high = 0;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cuMemPoolGetAttribute(pool, 7, &used));
    CHECK(cuMemPoolGetAttribute(pool, 8, &high));
    REQUIRE(used == 0 && high >= 4096);
}

static void events(void) {
    Handle first, second, context, stream, primary;
    float ms;
    CHECK(cuEventCreate(&first, 0));
    CHECK(cuEventCreate(&second, 2));
    EXPECT(cuEventElapsedTime_v2(&ms, first, first), HANDLE); /* Not recorded. */
    CHECK(cuEventRecord(first, NULL));
    CHECK(cuEventRecord(second, NULL));
    CHECK(cuCtxSynchronize());
    EXPECT(cuEventElapsedTime_v2(&ms, first, second), HANDLE); /* It does not measure time. */
    EXPECT(cuEventCreate(&stream, 4), INVALID);                /* For other processes, but with time. */
    EXPECT(cuEventCreate(&stream, 8), INVALID);
    CHECK(cuEventDestroy_v2(second));
    EXPECT(cuEventDestroy_v2(second), HANDLE);
    EXPECT(cuEventQuery(second), HANDLE);
    /* Events belong to their context. */
    CHECK(cuCtxGetCurrent(&primary));
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuEventCreate(&second, 0));
    EXPECT(cuEventRecord(second, stream), HANDLE);
    CHECK(cuCtxDestroy_v2(context));
    CHECK(cuCtxSetCurrent(primary));
}

static CUresult said[4];

static void host_function(void *data) {
    CUdeviceptr memory;
    const char *name;
    said[0] = cuMemAlloc_v2(&memory, 4);
    said[1] = cuCtxSynchronize();
    said[2] = cuGetErrorName(1, &name);
    *(int *)data += 1;
}

static void callback(Handle stream, CUresult status, void *data) {
    said[3] = status == 0 ? cuStreamSynchronize(stream) : -1;
    *(int *)data += 1;
}

/* The driver may not be called in functions that it calls. */
static void callbacks(void) {
    Handle stream;
    int calls = 0;
    CHECK(cuStreamCreate(&stream, 1));
    EXPECT(cuLaunchHostFunc(stream, NULL, NULL), INVALID);
    CHECK(cuLaunchHostFunc(stream, host_function, &calls));
    CHECK(cuStreamAddCallback(stream, callback, &calls, 0));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(calls == 2 && said[0] == 800 && said[1] == 800 && said[2] == 0 && said[3] == 800);
}

static void code(void) {
    Handle code, function;
    CUdeviceptr address;
    size_t size, offset;
    EXPECT(cuModuleLoadData(&code, NULL), INVALID);
    EXPECT(cuModuleLoadData(&code, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nfoo.bar %r1;\nret;\n}\n"), 218);
    EXPECT(cuModuleGetFunction(&function, module, "nothing"), NOT_FOUND);
    EXPECT(cuModuleGetFunction(NULL, module, "add"), INVALID);
    EXPECT(cuModuleGetFunction(&function, NULL, "add"), HANDLE);
    EXPECT(cuModuleGetGlobal_v2(&address, &size, module, "nothing"), NOT_FOUND);
    EXPECT(cuModuleGetGlobal_v2(&address, &size, module, NULL), INVALID);
    CHECK(cuModuleGetGlobal_v2(NULL, &size, module, "counter"));
    REQUIRE(size == 4);
    EXPECT(cuFuncGetParamInfo(kernel(module, "add"), 2, &offset, &size), INVALID);
    EXPECT(cuCtxSetCurrent((Handle)&size), CONTEXT);
}

int main(void) {
    start();
    module = load_kernels();
    CHECK(cuMemAlloc_v2(&out, 1024));
    launches();
    clusters();
    memory();
    events();
    callbacks();
    code();
    CHECK(cuMemsetD32_v2(out, 1, 1));
    CHECK(cuLaunchKernel(kernel(module, "add"), 1, 1, 1, 32, 1, 1, 0, NULL, PARAMS(&out, &(int){1}), NULL));
    REQUIRE(word_at(out) == 33);
    printf("the context works on\n");
    return 0;
}
