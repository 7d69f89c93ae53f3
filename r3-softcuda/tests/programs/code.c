/* Modules, libraries, the linker, attributes, printf, cooperative launches, handles. */
#include "driver.h"

static const char MAIN[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func (.param .b32 r) twice (.param .b32 x);\n"
    ".global .u32 own = 5;\n"
    ".visible .entry apply(.param .u64 out)\n{\n"
    ".reg .b32 %r<4>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [out];\nld.global.u32 %r1, [own];\n"
    "{\n.param .b32 x;\nst.param.b32 [x], %r1;\n.param .b32 r;\ncall.uni (r), twice, (x);\nld.param.b32 %r2, [r];\n}\n"
    "st.global.u32 [%rd1], %r2;\nret;\n}\n";
static const char HELPER[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".global .u32 own = 1000;\n"
    ".visible .func (.param .b32 r) twice (.param .b32 x)\n{\n"
    ".reg .b32 %r<4>;\nld.param.b32 %r1, [x];\nld.global.u32 %r2, [own];\nshl.b32 %r1, %r1, 1;\nadd.u32 %r1, %r1, %r2;\n"
    "st.param.b32 [r], %r1;\nret;\n}\n";

static void linker(void) {
    Handle link, module;
    void *image;
    size_t size;
    CUdeviceptr out;
    CHECK(cuMemAlloc_v2(&out, 4));
    CHECK(cuLinkCreate_v2(0, NULL, NULL, &link));
    CHECK(cuLinkAddData_v2(link, 1, (void *)MAIN, sizeof MAIN, "main", 0, NULL, NULL));
    CHECK(cuLinkAddData_v2(link, 1, (void *)HELPER, sizeof HELPER, "helper", 0, NULL, NULL));
    CHECK(cuLinkComplete(link, &image, &size));
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuLinkDestroy(link));
    CHECK(cuLaunchKernel(kernel(module, "apply"), 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&out), NULL));
    printf("linked: %u\n", word_at(out));
}

/* A grid's barrier, with the device runtime library as PTX compilers ask for it; of that library only names matter. */
static const char BARRIER[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func (.param .b64 h) cudaCGGetIntrinsicHandle (.param .b32 s);\n"
    ".extern .func (.param .b32 e) cudaCGSynchronize (.param .b64 h, .param .b32 f);\n"
    ".global .u32 arrived;\n"
    ".visible .entry gather(.param .u64 out)\n{\n"
    ".reg .b32 %r<4>;\n.reg .b64 %rd<5>;\n"
    "{\n.param .b32 s;\nst.param.b32 [s], 1;\n.param .b64 h;\ncall.uni (h), cudaCGGetIntrinsicHandle, (s);\nld.param.b64 %rd1, [h];\n}\n"
    "atom.global.add.u32 %r1, [arrived], 1;\n"
    "{\n.param .b64 h;\nst.param.b64 [h], %rd1;\n.param .b32 f;\nst.param.b32 [f], 0;\n.param .b32 e;\n"
    "call.uni (e), cudaCGSynchronize, (h, f);\n}\n"
    "ld.volatile.global.u32 %r2, [arrived];\nld.param.u64 %rd2, [out];\nmov.u32 %r3, %ctaid.x;\nmul.wide.u32 %rd3, %r3, 4;\n"
    "add.u64 %rd4, %rd2, %rd3;\nst.global.u32 [%rd4], %r2;\nret;\n}\n";

static void grid_barrier(void) {
    Handle link, module;
    void *image;
    size_t size;
    CUdeviceptr out;
    CHECK(cuMemAlloc_v2(&out, 64));
    CHECK(cuLinkCreate_v2(0, NULL, NULL, &link));
    CHECK(cuLinkAddData_v2(link, 1, (void *)BARRIER, sizeof BARRIER, "barrier", 0, NULL, NULL));
    CHECK(cuLinkAddData_v2(link, 4, "!<arch>\n", 8, "libcudadevrt.a", 0, NULL, NULL));
    CHECK(cuLinkComplete(link, &image, &size));
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuLinkDestroy(link));
    CHECK(cuLaunchCooperativeKernel(kernel(module, "gather"), 3, 1, 1, 4, 1, 1, 0, NULL, PARAMS(&out)));
    printf("grid met: %u %u\n", word_at(out), word_at(out + 8));
}

static void messages(void) {
    char log[512] = "";
    int options[] = {5, 6};
    void *values[] = {log, (void *)sizeof log};
    Handle module;
    EXPECT(cuModuleLoadDataEx(&module, ".version 7.0\n.target sm_70\n.entry k() { add.u32 %r1, 1, 2; }\n", 2, options, values), 218);
    REQUIRE(strlen(log) > 0 && (size_t)values[1] == strlen(log));
    EXPECT(cuModuleLoadDataEx(&module, "\177ELF\2\1\1\0", 2, (values[1] = (void *)sizeof log, options), values), 209);
    REQUIRE(strstr(log, "machine code"));
}

static void libraries(void) {
    Handle library, reduce, count;
    char *text = kernels_text();
    CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    free(text);
    CHECK(cuLibraryGetKernel(&reduce, library, "reduce"));
    EXPECT(cuLibraryGetKernel(&count, library, "no such kernel"), 500);
    size_t offset, size;
    CHECK(cuKernelGetParamInfo(reduce, 2, &offset, &size));
    REQUIRE(offset == 16 && size == 4);
    EXPECT(cuKernelGetParamInfo(reduce, 3, &offset, &size), 1);
    /* A CUkernel is launched as a CUfunction. */
    enum { N = 500 };
    float values[N], sums[4];
    for (int i = 0; i < N; i++) values[i] = i;
    CUdeviceptr in, out;
    int n = N;
    CHECK(cuMemAlloc_v2(&in, sizeof values));
    CHECK(cuMemAlloc_v2(&out, sizeof sums));
    CHECK(cuMemcpyHtoD_v2(in, values, sizeof values));
    CHECK(cuLaunchKernel(reduce, 4, 1, 1, 128, 1, 1, 128 * 4, NULL, PARAMS(&in, &out, &n), NULL));
    CHECK(cuMemcpyDtoH_v2(sums, out, sizeof sums));
    printf("sums: %.0f %.0f %.0f %.0f\n", sums[0], sums[1], sums[2], sums[3]);
    /* More shared memory than 48 KiB needs leave. */
    EXPECT(cuLaunchKernel(reduce, 4, 1, 1, 128, 1, 1, 60000, NULL, PARAMS(&in, &out, &n), NULL), 1);
    CHECK(cuFuncSetAttribute(reduce, 8, 60000));
    CHECK(cuLaunchKernel(reduce, 4, 1, 1, 128, 1, 1, 60000, NULL, PARAMS(&in, &out, &n), NULL));
    int blocks;
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reduce, 128, 60000));
    printf("blocks with 60000 bytes: %d\n", blocks);
    Handle managed;
    CUdeviceptr address;
    CHECK(cuLibraryGetManaged(&address, &size, library, "shared_with_host"));
    CHECK(cuLibraryGetKernel(&managed, library, "managed_plus"));
    CHECK(cuLaunchKernel(managed, 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&(int){2}), NULL));
    CHECK(cuCtxSynchronize());
    printf("managed: %d\n", *(int *)address);
    CHECK(cuLibraryUnload(library));
    EXPECT(cuLaunchKernel(reduce, 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS(&in, &out, &n), NULL), 400);
}

static void printing(Handle module) {
    printf("before\n");
    CHECK(cuLaunchKernel(kernel(module, "hello"), 2, 1, 1, 32, 1, 1, 0, NULL, PARAMS(&(int){3}), NULL));
    CHECK(cuCtxSynchronize());
    printf("after\n");
}

static void cooperative(Handle module) {
    enum { BLOCKS = 40 };
    CUdeviceptr in, out;
    CHECK(cuMemAlloc_v2(&in, BLOCKS * 4));
    CHECK(cuMemAlloc_v2(&out, BLOCKS * 4));
    CHECK(cuMemsetD32_v2(in, 0, BLOCKS));
    CHECK(cuLaunchCooperativeKernel(kernel(module, "meet"), BLOCKS, 1, 1, 64, 1, 1, 0, NULL, PARAMS(&in, &out)));
    printf("met: %u %u\n", word_at(out), word_at(out + 4 * (BLOCKS - 1)));
    EXPECT(cuLaunchCooperativeKernel(kernel(module, "meet"), 100000, 1, 1, 64, 1, 1, 0, NULL, PARAMS(&in, &out)), 720);
}

static void handles(Handle module) {
    Handle stream, function;
    CHECK(cuStreamCreate(&stream, 0));
    EXPECT(cuModuleGetFunction(&function, stream, "count"), 400);
    EXPECT(cuLaunchKernel(stream, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    EXPECT(cuStreamSynchronize(module), 400);
    EXPECT(cuCtxSetCurrent(module), 201);
    function = kernel(module, "count");
    CHECK(cuModuleUnload(module));
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    EXPECT(cuModuleUnload(module), 400);
    EXPECT(cuModuleUnload((Handle)12345), 400);
}

int main(void) {
    start();
    Handle module = load_kernels();
    linker();
    grid_barrier();
    messages();
    libraries();
    printing(module);
    cooperative(module);
    handles(module);
    return 0;
}
