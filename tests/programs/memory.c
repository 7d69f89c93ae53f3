/* cc: -lcuda */
/* A kernel that writes memory of each family of allocations: the argument says which. Prints what
 * came out, and what the driver answers about the pointer. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { N = 1024 };
static const size_t BYTES = N * sizeof(unsigned);

static CUfunction fill;

static void write_and_check(const char *family, CUdeviceptr out, CUstream stream) {
    unsigned value = 7, back[N];
    int n = N - 1; /* The last element stays as it was. */
    CHECK(cuMemsetD32Async(out, 1, N, stream));
    void *params[] = {&out, &value, &n};
    CHECK(cuLaunchKernel(fill, N / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(back, out, BYTES));
    unsigned managed = 9, type = 9;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[] = {&type, &managed};
    CHECK(cuPointerGetAttributes(2, attributes, data, out));
    printf("%s: %u %u, type %u managed %u\n", family, back[0], back[N - 1], type, managed);
}

static pid_t exporter;
static int from_exporter, to_exporter;

/* Another process, whose memory this one opens. */
static void start_exporter(void) {
    int handles[2], end[2];
    REQUIRE(pipe(handles) == 0 && pipe(end) == 0);
    exporter = fork();
    if (exporter != 0) {
        close(end[0]);
        from_exporter = handles[0], to_exporter = end[1];
        return;
    }
    CUdeviceptr before, origin;
    CUipcMemHandle handle;
    unsigned back[N];
    char nothing;
    close(end[1]);
    start();
    CHECK(cuMemAlloc_v2(&before, 100)); /* It need not be the first in its block. */
    CHECK(cuMemAlloc_v2(&origin, BYTES));
    CHECK(cuMemsetD32_v2(origin, 5, N));
    /* Memory of cuMemAlloc can be shared: R3 must not have put something else in its place. */
    CHECK(cuIpcGetMemHandle(&handle, origin));
    REQUIRE(cuIpcOpenMemHandle_v2(&before, handle, 1) == CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(write(handles[1], &handle, sizeof handle) == sizeof handle);
    REQUIRE(read(end[0], &nothing, 1) == 0);
    CHECK(cuMemcpyDtoH_v2(back, origin, BYTES));
    REQUIRE(back[0] == 7 && back[N - 1] == 1);
    CHECK(cuMemFree_v2(origin));
    exit(0);
}

int main(int argc, char **argv) {
    if (mode_is(argc, argv, "ipc")) start_exporter();
    start();
    CUmodule module = load_kernels();
    fill = kernel(module, "fill");
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const char *family = argc > 1 ? argv[1] : "device";
    CUdeviceptr out;
    size_t pitch;
    void *host;

    if (strcmp(family, "device") == 0) {
        CHECK(cuMemAlloc_v2(&out, BYTES));
        write_and_check(family, out, stream);
        CHECK(cuMemFree_v2(out));
    } else if (strcmp(family, "middle") == 0) {
        /* A pointer into the middle of an allocation. */
        CHECK(cuMemAlloc_v2(&out, 3 * BYTES));
        write_and_check(family, out + BYTES, stream);
        CHECK(cuMemFree_v2(out));
    } else if (strcmp(family, "pitched") == 0) {
        CHECK(cuMemAllocPitch_v2(&out, &pitch, 100, 64, 4));
        REQUIRE(pitch * 64 >= BYTES);
        write_and_check(family, out, stream);
        CHECK(cuMemFree_v2(out));
    } else if (strcmp(family, "managed") == 0) {
        CHECK(cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL));
        write_and_check(family, out, stream);
        CHECK(cuMemFree_v2(out));
    } else if (strcmp(family, "async") == 0) {
        CHECK(cuMemAllocAsync(&out, BYTES, stream));
        write_and_check(family, out, stream);
        CHECK(cuMemFreeAsync(out, stream));
        /* The same bytes again, from the pool's free memory. */
        CHECK(cuMemAllocAsync(&out, BYTES, stream));
        write_and_check(family, out, stream);
        CHECK(cuMemFreeAsync(out, stream));
        CHECK(cuStreamSynchronize(stream));
    } else if (strcmp(family, "pool") == 0) {
        CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        CUmemoryPool pool;
        CHECK(cuMemPoolCreate(&pool, &properties));
        CHECK(cuMemAllocFromPoolAsync(&out, BYTES, pool, stream));
        write_and_check(family, out, stream);
        CHECK(cuMemFreeAsync(out, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemPoolDestroy(pool));
    } else if (strcmp(family, "mixed_free") == 0) {
        /* Legal: memory of cuMemAlloc freed in stream order, and the other way round. */
        CUdeviceptr ordered;
        CHECK(cuMemAlloc_v2(&out, BYTES));
        CHECK(cuMemAllocAsync(&ordered, BYTES, stream));
        write_and_check("mixed_free device", out, stream);
        write_and_check("mixed_free ordered", ordered, stream);
        CHECK(cuMemFreeAsync(out, stream));
        CHECK(cuMemFree_v2(ordered));
        CHECK(cuStreamSynchronize(stream));
    } else if (strcmp(family, "mapped") == 0 || strcmp(family, "mapped_twice") == 0) {
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        prop.allocFlags.gpuDirectRDMACapable = 1;
        CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemGenericAllocationHandle handle;
        size_t granularity;
        CHECK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        CHECK(cuMemAddressReserve(&out, 2 * granularity, 0, 0, 0));
        CHECK(cuMemCreate(&handle, granularity, &prop, 0));
        CHECK(cuMemMap(out, granularity, 0, handle, 0));
        int twice = strcmp(family, "mapped_twice") == 0;
        if (twice) CHECK(cuMemMap(out + granularity, granularity, 0, handle, 0));
        CHECK(cuMemRelease(handle)); /* Mapped memory outlives its handle. */
        CHECK(cuMemSetAccess(out, (1 + (size_t)twice) * granularity, &access, 1));
        CUmemGenericAllocationHandle again;
        CUmemAllocationProp kept;
        CHECK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)out));
        CHECK(cuMemGetAllocationPropertiesFromHandle(&kept, again));
        REQUIRE(kept.allocFlags.gpuDirectRDMACapable == 1);
        CHECK(cuMemRelease(again));
        write_and_check(family, out, stream);
        if (twice) write_and_check("through the other mapping", out + granularity, stream);
        CHECK(cuMemUnmap(out, granularity));
        if (twice) CHECK(cuMemUnmap(out + granularity, granularity));
        CHECK(cuMemAddressFree(out, 2 * granularity));
    } else if (strcmp(family, "host") == 0 || strcmp(family, "host_alloc") == 0) {
        if (strcmp(family, "host") == 0) CHECK(cuMemAllocHost_v2(&host, BYTES));
        else CHECK(cuMemHostAlloc(&host, BYTES, 3));
        CHECK(cuMemHostGetDevicePointer_v2(&out, host, 0));
        write_and_check(family, out, stream);
        REQUIRE(((unsigned *)host)[0] == 7);
        CHECK(cuMemFreeHost(host));
    } else if (strcmp(family, "registered") == 0) {
        host = aligned_alloc(4096, BYTES);
        CHECK(cuMemHostRegister_v2(host, BYTES, 2));
        REQUIRE(cuMemHostRegister_v2(host, BYTES, 2) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        CHECK(cuMemHostGetDevicePointer_v2(&out, host, 0));
        write_and_check(family, out, stream);
        CHECK(cuMemHostUnregister(host));
        REQUIRE(cuMemHostUnregister(host) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        free(host);
    } else if (strcmp(family, "ipc") == 0) {
        CUipcMemHandle handle;
        int status;
        REQUIRE(read(from_exporter, &handle, sizeof handle) == sizeof handle);
        CHECK(cuIpcOpenMemHandle_v2(&out, handle, 1));
        write_and_check(family, out, stream);
        CHECK(cuIpcCloseMemHandle(out));
        REQUIRE(cuIpcCloseMemHandle(out) != CUDA_SUCCESS);
        close(to_exporter);
        REQUIRE(waitpid(exporter, &status, 0) == exporter);
        printf("the exporter ended with %d\n", status);
    } else if (strcmp(family, "reused") == 0) {
        /* The same address again and again, as another allocation, of another size too. */
        CUdeviceptr before[3] = {0};
        int same = 0;
        for (int i = 0; i < 20; i++) {
            CHECK(cuMemAlloc_v2(&out, BYTES + (size_t)(i % 3) * BYTES));
            same += out == before[i % 3];
            before[i % 3] = out;
            write_and_check(family, out, stream);
            CHECK(cuMemFree_v2(out));
        }
        printf("same address %d times\n", same);
    } else if (strcmp(family, "large") == 0) {
        /* Some MiB, of which the kernel changes 4 KiB. */
        CHECK(cuMemAlloc_v2(&out, 24 << 20));
        CHECK(cuMemsetD8_v2(out, 3, 12 << 20));
        CHECK(cuCtxSynchronize()); /* The other stream does not wait for the default stream. */
        write_and_check(family, out + (5 << 20), stream);
        write_and_check(family, out + (20 << 20), stream);
        CHECK(cuMemFree_v2(out));
    } else if (strcmp(family, "wrong") == 0) {
        /* Pointers that the driver does not know: its answers are what counts. */
        int local = 0;
        printf("free: %d\n", cuMemFree_v2((CUdeviceptr)(uintptr_t)&local));
        printf("free twice: ");
        CHECK(cuMemAlloc_v2(&out, BYTES));
        CHECK(cuMemFree_v2(out));
        printf("%d\n", cuMemFree_v2(out));
        printf("free in stream order: %d\n", cuMemFreeAsync((CUdeviceptr)(uintptr_t)&local, stream));
        printf("free of host memory: %d\n", cuMemFreeHost(&local));
        printf("unmap: %d\n", cuMemUnmap(1 << 21, 1 << 21));
        printf("close: %d\n", cuIpcCloseMemHandle(4096));
        printf("unregister: %d\n", cuMemHostUnregister(&local));
        printf("allocate nothing: %d\n", cuMemAlloc_v2(&out, 0));
        printf("allocate nowhere: %d\n", cuMemAlloc_v2(NULL, 64));
        printf("free nothing: %d\n", cuMemFree_v2(0));
        printf("range: %d\n", cuMemGetAddressRange_v2(NULL, NULL, (CUdeviceptr)(uintptr_t)&local));
        size_t total;
        printf("info without free: %d\n", cuMemGetInfo_v2(NULL, &total));
        CUmemGenericAllocationHandle handle;
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_HOST, 12345}};
        printf("create on the host: %d\n", cuMemCreate(&handle, 2 << 20, &prop, 0));
        prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        printf("create on device 12345: %d\n", cuMemCreate(&handle, 2 << 20, &prop, 0));
    } else if (strcmp(family, "untracked") == 0) {
        /* A kernel that writes memory of which the driver knows nothing (as on systems where the
         * device sees all host memory). */
        out = (CUdeviceptr)(uintptr_t)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned value = 7;
        int n = N;
        void *params[] = {&out, &value, &n};
        CHECK(cuLaunchKernel(fill, N / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
        CHECK(cuStreamSynchronize(stream));
        printf("%s: %u\n", family, ((unsigned *)(uintptr_t)out)[N - 1]);
    } else {
        fprintf(stderr, "no such family\n");
        return 2;
    }
    return 0;
}
