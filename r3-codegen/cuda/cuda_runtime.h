// Stands for the CUDA runtime's header on a machine without a toolkit, so that files with host code in them can be
// compiled for the device: host code is checked, and never compiled. What is not here needs a toolkit.
#ifndef R3_CUDA_RUNTIME_H
#define R3_CUDA_RUNTIME_H

#include "r3_device.h"

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum : int { cudaSuccess = 0 };
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
enum : unsigned { cudaMemAttachGlobal = 1, cudaHostAllocMapped = 2, cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };

extern "C" {
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaMalloc(void **pointer, size_t size);
cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void **pointer, size_t size);
cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream);
cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags);
cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags);
cudaError_t cudaHostUnregister(void *pointer);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemset(void *to, int value, size_t size);
cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream = 0);
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice);
cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost);
cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol);
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);
}

// The forms with types, as C++ programs call them.
template <class T> cudaError_t cudaMalloc(T **pointer, size_t size) { return cudaMalloc((void **)pointer, size); }
template <class T> cudaError_t cudaMallocManaged(T **pointer, size_t size, unsigned flags = cudaMemAttachGlobal) {
    return cudaMallocManaged((void **)pointer, size, flags);
}
template <class T> cudaError_t cudaMallocHost(T **pointer, size_t size) { return cudaMallocHost((void **)pointer, size); }
template <class T> cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream) {
    return cudaMallocAsync((void **)pointer, size, stream);
}
template <class T> cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned flags) {
    return cudaHostAlloc((void **)pointer, size, flags);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t size, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return cudaMemcpyToSymbol((const void *)&symbol, from, size, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t size, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return cudaMemcpyFromSymbol(to, (const void *)&symbol, size, offset, kind);
}
template <class T> cudaError_t cudaGetSymbolAddress(void **pointer, const T &symbol) {
    return cudaGetSymbolAddress(pointer, (const void *)&symbol);
}
template <class T> cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}

#endif
