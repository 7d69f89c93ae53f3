/* Copies and fills. A copy from ordinary host memory takes its bytes at the call, one to ordinary
 * host memory is complete when the call returns, and one with pinned memory is neither. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "standin.h"

struct copy_work { struct work work; void *to; const void *from; size_t bytes; void *staged; };

static void run_copy(struct work *work) {
    struct copy_work *copy = (struct copy_work *)work;
    memmove(copy->to, copy->staged ? copy->staged : copy->from, copy->bytes);
}

static void drop_copy(struct work *work) { free(((struct copy_work *)work)->staged); }

enum side { HOST, DEVICE, EITHER };

static CUresult copy(uintptr_t to, enum side to_side, uintptr_t from, enum side from_side, size_t bytes, CUstream handle,
                     bool per_thread, bool wait) {
    CUstream stream;
    CUresult result = resolve_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (wait) UNSAFE_CALL;
    if (to_side == DEVICE && !known_memory(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (from_side == DEVICE && !known_memory(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (!bytes) return CUDA_SUCCESS;
    struct copy_work *work = (void *)new_work(sizeof *work, CU_GRAPH_NODE_TYPE_MEMCPY, run_copy, drop_copy);
    work->to = (void *)to;
    work->from = (const void *)from;
    work->bytes = bytes;
    bool capturing = is_capturing(stream);
    if (!wait && !capturing && !pinned((void *)from)) {
        work->staged = malloc(bytes);
        if (!work->staged) misuse("out of host memory");
        memcpy(work->staged, work->from, bytes);
    }
    if (!capturing && !pinned((void *)to)) wait = true;
    return wait ? submit_and_wait(stream, &work->work) : submit(stream, &work->work);
}

TWINS(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, from, bytes) {
    return copy(to, EITHER, from, EITHER, bytes, NULL, per_thread, true);
}
TWINS(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t bytes), to, from, bytes) {
    return copy(to, DEVICE, (uintptr_t)from, HOST, bytes, NULL, per_thread, true);
}
TWINS(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t bytes), to, from, bytes) {
    return copy((uintptr_t)to, HOST, from, DEVICE, bytes, NULL, per_thread, true);
}
TWINS(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, from, bytes) {
    return copy(to, DEVICE, from, DEVICE, bytes, NULL, per_thread, true);
}
TWINS(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, from, bytes, stream) {
    return copy(to, EITHER, from, EITHER, bytes, stream, per_thread, false);
}
TWINS(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), to, from, bytes, stream) {
    return copy(to, DEVICE, (uintptr_t)from, HOST, bytes, stream, per_thread, false);
}
TWINS(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), to, from, bytes, stream) {
    return copy((uintptr_t)to, HOST, from, DEVICE, bytes, stream, per_thread, false);
}
TWINS(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, from, bytes, stream) {
    return copy(to, DEVICE, from, DEVICE, bytes, stream, per_thread, false);
}

struct fill_work { struct work work; unsigned char *to; unsigned value; unsigned width; size_t count; };

static void run_fill(struct work *work) {
    struct fill_work *fill = (struct fill_work *)work;
    for (size_t i = 0; i < fill->count; i++) memcpy(fill->to + i * fill->width, &fill->value, fill->width);
}

static CUresult fill(CUdeviceptr to, unsigned value, unsigned width, size_t count, CUstream handle, bool per_thread, bool wait) {
    CUstream stream;
    CUresult result = resolve_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (wait) UNSAFE_CALL;
    if (to % width || !known_memory(to, count * width)) return CUDA_ERROR_INVALID_VALUE;
    struct fill_work *work = (void *)new_work(sizeof *work, CU_GRAPH_NODE_TYPE_MEMSET, run_fill, NULL);
    work->to = (unsigned char *)(uintptr_t)to;
    work->value = value;
    work->width = width;
    work->count = count;
    return wait ? submit_and_wait(stream, &work->work) : submit(stream, &work->work);
}

TWINS(cuMemsetD8_v2, _ptds, (CUdeviceptr to, unsigned char value, size_t count), to, value, count) {
    return fill(to, value, 1, count, NULL, per_thread, true);
}
TWINS(cuMemsetD32_v2, _ptds, (CUdeviceptr to, unsigned value, size_t count), to, value, count) {
    return fill(to, value, 4, count, NULL, per_thread, true);
}
TWINS(cuMemsetD8Async, _ptsz, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), to, value, count, stream) {
    return fill(to, value, 1, count, stream, per_thread, false);
}
TWINS(cuMemsetD32Async, _ptsz, (CUdeviceptr to, unsigned value, size_t count, CUstream stream), to, value, count, stream) {
    return fill(to, value, 4, count, stream, per_thread, false);
}
