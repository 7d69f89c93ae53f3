/* What the test programs use of the driver API, with the ABI of CUDA 13.0. Handles are opaque pointers. */
#ifndef DRIVER_H
#define DRIVER_H
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *Handle;

CUresult cuInit(unsigned);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
CUresult cuDevicePrimaryCtxRetain(Handle *, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);
CUresult cuCtxCreate_v2(Handle *, unsigned, CUdevice);
CUresult cuCtxDestroy_v2(Handle);
CUresult cuCtxSetCurrent(Handle);
CUresult cuCtxGetCurrent(Handle *);
CUresult cuCtxPushCurrent_v2(Handle);
CUresult cuCtxPopCurrent_v2(Handle *);
CUresult cuCtxSynchronize(void);
CUresult cuCtxEnablePeerAccess(Handle, unsigned);
CUresult cuModuleLoadData(Handle *, const void *);
CUresult cuModuleLoadDataEx(Handle *, const void *, unsigned, int *, void **);
CUresult cuModuleUnload(Handle);
CUresult cuModuleGetFunction(Handle *, Handle, const char *);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, Handle, const char *);
CUresult cuLibraryLoadData(Handle *, const void *, int *, void **, unsigned, int *, void **, unsigned);
CUresult cuLibraryGetKernel(Handle *, Handle, const char *);
CUresult cuLibraryGetManaged(CUdeviceptr *, size_t *, Handle, const char *);
CUresult cuLibraryUnload(Handle);
CUresult cuKernelGetParamInfo(Handle, size_t, size_t *, size_t *);
CUresult cuFuncGetAttribute(int *, int, Handle);
CUresult cuFuncSetAttribute(Handle, int, int);
CUresult cuLinkCreate_v2(unsigned, int *, void **, Handle *);
CUresult cuLinkAddData_v2(Handle, int, void *, size_t, const char *, unsigned, int *, void **);
CUresult cuLinkComplete(Handle, void **, size_t *);
CUresult cuLinkDestroy(Handle);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
CUresult cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemFreeHost(void *);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, Handle);
CUresult cuMemFreeAsync(CUdeviceptr, Handle);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuPointerGetAttribute(void *, int, CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, Handle);
CUresult cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, Handle);
CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
CUresult cuMemsetD16_v2(CUdeviceptr, unsigned short, size_t);
CUresult cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
CUresult cuMemsetD2D32_v2(CUdeviceptr, size_t, unsigned, size_t, size_t);
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, Handle);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, unsigned long long, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemRelease(unsigned long long);
CUresult cuStreamCreate(Handle *, unsigned);
CUresult cuStreamDestroy_v2(Handle);
CUresult cuStreamSynchronize(Handle);
CUresult cuStreamQuery(Handle);
CUresult cuStreamWaitEvent(Handle, Handle, unsigned);
CUresult cuStreamWaitValue32_v2(Handle, CUdeviceptr, unsigned, unsigned);
CUresult cuStreamWriteValue32_v2(Handle, CUdeviceptr, unsigned, unsigned);
CUresult cuStreamBeginCapture_v2(Handle, int);
CUresult cuStreamEndCapture(Handle, Handle *);
CUresult cuLaunchHostFunc(Handle, void (*)(void *), void *);
CUresult cuEventCreate(Handle *, unsigned);
CUresult cuEventRecord(Handle, Handle);
CUresult cuEventQuery(Handle);
CUresult cuEventSynchronize(Handle);
CUresult cuEventElapsedTime_v2(float *, Handle, Handle);
CUresult cuLaunchKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **);
CUresult cuLaunchKernel_ptsz(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **);
CUresult cuLaunchCooperativeKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **);
CUresult cuGraphCreate(Handle *, unsigned);
CUresult cuGraphDestroy(Handle);
CUresult cuGraphGetNodes(Handle, Handle *, size_t *);
CUresult cuGraphNodeGetType(Handle, int *);
CUresult cuGraphInstantiateWithFlags(Handle *, Handle, unsigned long long);
CUresult cuGraphLaunch(Handle, Handle);
CUresult cuGraphExecDestroy(Handle);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, Handle, int, size_t);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetErrorString(CUresult, const char **);
CUresult cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
CUresult cuArrayDestroy(Handle);
CUresult cuTexObjectDestroy(unsigned long long);
CUresult cuSurfObjectDestroy(unsigned long long);
CUresult cuGLInit(void);

typedef struct { int kind, id; } Location;
typedef struct { int kind, handle_types; Location location; void *metadata; unsigned char flags[8]; } AllocationProp;
typedef struct { Location location; int flags; } AccessDesc;
CUresult cuMemCreate(unsigned long long *, size_t, const AllocationProp *, unsigned long long);
CUresult cuMemAdvise_v2(CUdeviceptr, size_t, int, Location);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, Location, unsigned, Handle);
CUresult cuMemRangeGetAttribute(void *, size_t, int, CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const AccessDesc *, size_t);

typedef struct {
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    CUdeviceptr src_device;
    Handle src_array;
    size_t src_pitch, dst_x, dst_y;
    int dst_type;
    void *dst_host;
    CUdeviceptr dst_device;
    Handle dst_array;
    size_t dst_pitch, width, height;
} Memcpy2D;
CUresult cuMemcpy2D_v2(const Memcpy2D *);

typedef struct { size_t width, height; int format; unsigned channels; } ArrayDescriptor;
CUresult cuArrayCreate_v2(Handle *, const ArrayDescriptor *);
typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } Array3DDescriptor;
CUresult cuArray3DCreate_v2(Handle *, const Array3DDescriptor *);

typedef struct { int kind; Handle array; unsigned long long rest[15]; unsigned flags; } ResourceDesc;
typedef struct { int address[3], filter; unsigned flags, anisotropy; int mip_filter; float mip[3], border[4]; int reserved[12]; } TextureDesc;
CUresult cuTexObjectCreate(unsigned long long *, const ResourceDesc *, const TextureDesc *, const void *);
CUresult cuSurfObjectCreate(unsigned long long *, const ResourceDesc *);

typedef struct {
    Handle function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    Handle kernel, context;
} KernelNodeParams;
CUresult cuGraphAddKernelNode_v2(Handle *, Handle, const Handle *, size_t, const KernelNodeParams *);
CUresult cuGraphKernelNodeGetParams_v2(Handle, KernelNodeParams *);
CUresult cuGraphExecKernelNodeSetParams_v2(Handle, Handle, const KernelNodeParams *);

CUresult cuStreamAddCallback(Handle, void (*)(Handle, CUresult, void *), void *, unsigned);
CUresult cuEventDestroy_v2(Handle);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, Handle);
CUresult cuMemPoolGetAttribute(Handle, int, void *);
CUresult cuDeviceGetDefaultMemPool(Handle *, CUdevice);
CUresult cuFuncGetParamInfo(Handle, size_t, size_t *, size_t *);
CUresult cuGraphAddEmptyNode(Handle *, Handle, const Handle *, size_t);
CUresult cuGraphAddEventWaitNode(Handle *, Handle, const Handle *, size_t, Handle);
CUresult cuGraphAddDependencies(Handle, const Handle *, const Handle *, size_t);
CUresult cuGraphMemFreeNodeGetParams(Handle, CUdeviceptr *);
typedef struct { int result; Handle node, from; } UpdateResult;
CUresult cuGraphExecUpdate_v2(Handle, Handle, UpdateResult *);
CUresult cuUserObjectCreate(Handle *, void *, void (*)(void *), unsigned, unsigned);
CUresult cuUserObjectRelease(Handle, unsigned);
CUresult cuGraphRetainUserObject(Handle, Handle, unsigned, unsigned);
CUresult cuGraphReleaseUserObject(Handle, Handle, unsigned);

typedef struct { int id, padding; unsigned value[16]; } LaunchAttribute;
typedef struct { unsigned grid[3], block[3], shared; Handle stream; LaunchAttribute *attributes; unsigned count; } LaunchConfig;
CUresult cuLaunchKernelEx(const LaunchConfig *, Handle, void **, void **);

#define CHECK(call)                                                                 \
    do {                                                                            \
        CUresult result_ = (call);                                                  \
        if (result_ != 0) {                                                         \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, result_); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)
#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define EXPECT(call, code)                                                                    \
    do {                                                                                      \
        CUresult result_ = (call);                                                            \
        if (result_ != (code)) {                                                              \
            fprintf(stderr, "%s:%d: %s = %d, not %d\n", __FILE__, __LINE__, #call, result_, code); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)
#define PARAMS(...) ((void *[]){__VA_ARGS__})

static inline int mode_is(int argc, char **argv, const char *mode) { return argc > 1 && strcmp(argv[1], mode) == 0; }

static inline char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    REQUIRE(file);
    char *text = calloc(1, 1 << 20);
    REQUIRE(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* The PTX beside these programs. */
static inline char *kernels_text(void) { return read_file(getenv("KERNELS")); }

static inline Handle start(void) {
    Handle context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    return context;
}

static inline Handle load_kernels(void) {
    Handle module;
    char *text = kernels_text();
    CHECK(cuModuleLoadData(&module, text));
    free(text);
    return module;
}

static inline Handle kernel(Handle module, const char *name) {
    Handle function;
    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline unsigned word_at(CUdeviceptr address) {
    unsigned value;
    CHECK(cuMemcpyDtoH_v2(&value, address, 4));
    return value;
}
#endif
