// A program that uses the driver API alone, in C, linked against libcuda: PTX text loaded at run time,
// arguments passed as one buffer (`extra`), a module global and a constant set by name.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        CUresult status_ = (call);                                                       \
        if (status_ != CUDA_SUCCESS) {                                                   \
            const char *text_ = "unknown error";                                         \
            cuGetErrorString(status_, &text_);                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_);        \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

// y[i] = a * x[i] + y[i] + offset[i % 4]; counter += 1 for each element.
static const char ptx[] =
    ".version 8.0\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counter;\n"
    ".visible .const .align 4 .b8 offset[16];\n"
    ".visible .entry scale_add(\n"
    "    .param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p;\n"
    "    .reg .f32 %f<5>;\n"
    "    .reg .b32 %r<9>;\n"
    "    .reg .b64 %d<9>;\n"
    "    ld.param.u64 %d0, [x];\n"
    "    ld.param.u64 %d1, [y];\n"
    "    ld.param.f32 %f0, [a];\n"
    "    ld.param.u32 %r0, [n];\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %ntid.x;\n"
    "    mov.u32 %r3, %tid.x;\n"
    "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    setp.ge.u32 %p, %r4, %r0;\n"
    "    @%p bra done;\n"
    "    cvta.to.global.u64 %d2, %d0;\n"
    "    cvta.to.global.u64 %d3, %d1;\n"
    "    mul.wide.u32 %d4, %r4, 4;\n"
    "    add.u64 %d5, %d2, %d4;\n"
    "    add.u64 %d6, %d3, %d4;\n"
    "    ld.global.f32 %f1, [%d5];\n"
    "    ld.global.f32 %f2, [%d6];\n"
    "    and.b32 %r5, %r4, 3;\n"
    "    mul.wide.u32 %d7, %r5, 4;\n"
    "    mov.u64 %d8, offset;\n"
    "    add.u64 %d8, %d8, %d7;\n"
    "    ld.const.f32 %f3, [%d8];\n"
    "    fma.rn.f32 %f2, %f0, %f1, %f2;\n"
    "    add.rn.f32 %f2, %f2, %f3;\n"
    "    st.global.f32 [%d6], %f2;\n"
    "    red.global.add.u32 [counter], 1;\n"
    "done:\n"
    "    ret;\n"
    "}\n";

static uint64_t fnv1a(const void *data, size_t len) {
    const unsigned char *bytes = data;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < len; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    }
    return hash;
}

int main(int argc, char **argv) {
    const uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 5000;
    const int launches = 3;

    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&kernel, module, "scale_add"));

    CUdeviceptr counter, offset;
    size_t counter_size, offset_size;
    const float offsets[4] = {0.25f, -0.5f, 1.0f, 2.0f};
    const uint32_t zero = 0;
    CHECK(cuModuleGetGlobal(&counter, &counter_size, module, "counter"));
    CHECK(cuModuleGetGlobal(&offset, &offset_size, module, "offset"));
    CHECK(cuMemcpyHtoD(counter, &zero, counter_size));
    CHECK(cuMemcpyHtoD(offset, offsets, offset_size));

    float *x = malloc(n * sizeof(float)), *y = malloc(n * sizeof(float)), *got = malloc(n * sizeof(float));
    if (x == NULL || y == NULL || got == NULL) {
        return 1;
    }
    for (uint32_t i = 0; i < n; ++i) {
        x[i] = (float)(i * 7 % 128) / 8.0f;
        y[i] = (float)(i * 13 % 64) / 4.0f;
    }
    CUdeviceptr device_x, device_y;
    CHECK(cuMemAlloc(&device_x, n * sizeof(float)));
    CHECK(cuMemAlloc(&device_y, n * sizeof(float)));
    CHECK(cuMemcpyHtoD(device_x, x, n * sizeof(float)));
    CHECK(cuMemcpyHtoD(device_y, y, n * sizeof(float)));

    for (int launch = 0; launch < launches; ++launch) {
        struct {
            CUdeviceptr x, y;
            float a;
            uint32_t n;
        } arguments = {device_x, device_y, (float)launch - 0.5f, n};
        size_t size = sizeof(arguments);
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         CU_LAUNCH_PARAM_END};
        CHECK(cuLaunchKernel(kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
        for (uint32_t i = 0; i < n; ++i) {
            y[i] = arguments.a * x[i] + y[i] + offsets[i & 3];
        }
    }
    CHECK(cuCtxSynchronize());

    uint32_t count = 0;
    CHECK(cuMemcpyDtoH(got, device_y, n * sizeof(float)));
    CHECK(cuMemcpyDtoH(&count, counter, sizeof(count)));
    int ok = memcmp(got, y, n * sizeof(float)) == 0 && count == n * launches;
    printf("driver_extra: %s checksum=%016llx\n", ok ? "ok" : "FAILED",
           (unsigned long long)fnv1a(got, n * sizeof(float)));
    CHECK(cuMemFree(device_x));
    CHECK(cuMemFree(device_y));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
    free(x);
    free(y);
    free(got);
    return ok ? 0 : 1;
}
