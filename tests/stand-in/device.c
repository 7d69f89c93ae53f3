/* Devices that look like an H200, and contexts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* CUdevice_attribute numbers with an H200's values; every other attribute is 0. */
static const int ATTRIBUTES[][2] = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {9, 65536}, {10, 32},
    {11, 2147483647}, {12, 65536}, {13, 1980000}, {14, 512}, {15, 1}, {16, 132}, {19, 1}, {31, 1}, {32, 1}, {34, 1},
    {36, 3201000}, {37, 6144}, {38, 62914560}, {39, 2048}, {40, 3}, {41, 1}, {75, 9}, {76, 0}, {78, 1}, {79, 1}, {80, 1},
    {81, 233472}, {82, 65536}, {83, 1}, {86, 1}, {87, 2}, {89, 1}, {90, 1}, {91, 1}, {95, 1}, {97, 232448}, {99, 1},
    {102, 1}, {103, 1}, {106, 32}, {108, 41943040}, {109, 134217728}, {110, 1}, {111, 1024}, {115, 1}, {116, 1}, {119, 1},
    {120, 1},
};

int device_count(void) {
    long count = setting_number("STANDIN_DEVICES", 1);
    return count < 0 ? 0 : count > MAX_DEVICES ? MAX_DEVICES : (int)count;
}

bool valid_device(CUdevice device) { return device >= 0 && device < device_count(); }

#define DEVICE(device) \
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE

CUresult cuDeviceGetCount(int *count) {
    ENTER;
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER;
    DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    ENTER;
    DEVICE(device);
    snprintf(name, (size_t)length, "Stand-in H200");
    return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid *uuid, CUdevice device) {
    DEVICE(device);
    memcpy(uuid->bytes, "stand-in device", 16);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { ENTER; return uuid_of(uuid, device); }
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { ENTER; return uuid_of(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    ENTER;
    DEVICE(device);
    *bytes = (size_t)141 << 30;
    return CUDA_SUCCESS;
}

/* STANDIN_COMPUTE=8.0 makes it another GPU. */
static int attribute(CUdevice_attribute attribute) {
    const char *compute = setting("STANDIN_COMPUTE");
    if (compute && attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) return atoi(compute);
    if (compute && attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        return strchr(compute, '.') ? atoi(strchr(compute, '.') + 1) : 0;
    for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++)
        if (ATTRIBUTES[i][0] == (int)attribute) return ATTRIBUTES[i][1];
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
    ENTER;
    DEVICE(device);
    if (!value || (int)which < 1 || (int)which > 160) return CUDA_ERROR_INVALID_VALUE;
    *value = attribute(which);
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    ENTER;
    DEVICE(device);
    *major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
    ENTER;
    DEVICE(device);
    snprintf(id, (size_t)length, "0000:%02X:00.0", device + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    ENTER;
    DEVICE(device);
    DEVICE(peer);
    *can = device != peer;
    return CUDA_SUCCESS;
}

/* ---- Contexts: a stack for each thread ---- */

enum { DEPTH = 16 };
static _Thread_local CUcontext stack[DEPTH];
static _Thread_local int depth; /* stack[depth - 1] is current; 0 means none. */

static struct {
    CUcontext context;
    int references;
    unsigned flags;
} primary[MAX_DEVICES];

static CUresult new_context(CUdevice device, unsigned flags, bool is_primary, CUcontext *context) {
    static unsigned long long ids;
    CUcontext made = tagged(sizeof *made, TAG_CONTEXT);
    made->device = device;
    made->flags = flags;
    made->primary = is_primary;
    made->id = ++ids;
    made->limits[CU_LIMIT_STACK_SIZE] = 1024;
    made->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20;
    made->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    CUresult result = new_stream(made, CU_STREAM_DEFAULT, 0, &made->legacy);
    *context = made;
    return result;
}

CUcontext current_context(CUresult *error) {
    CUcontext context = depth ? stack[depth - 1] : NULL;
    if (!context) return *error = CUDA_ERROR_INVALID_CONTEXT, NULL;
    if (context->destroyed) return *error = CUDA_ERROR_CONTEXT_IS_DESTROYED, NULL;
    if (context->sticky) return *error = (CUresult)context->sticky, NULL;
    return context;
}

static CUresult set_current(CUcontext context) {
    if (context && !has_tag(context, TAG_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == 0) depth = 1;
    stack[depth - 1] = context;
    if (depth == 1 && !context) depth = 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER;
    DEVICE(device);
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_SUCCESS;
    if (!primary[device].context || primary[device].context->destroyed)
        result = new_context(device, primary[device].flags, true, &primary[device].context);
    if (result == CUDA_SUCCESS) {
        primary[device].references++;
        *context = primary[device].context;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void destroy(CUcontext context) {
    wait_for_context(context);
    destroy_streams(context);
    unload_modules(context);
    context->destroyed = true;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER;
    DEVICE(device);
    pthread_mutex_lock(&lock);
    CUcontext context = primary[device].context;
    bool last = primary[device].references > 0 && --primary[device].references == 0;
    pthread_mutex_unlock(&lock);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (last) destroy(context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    ENTER;
    DEVICE(device);
    if (primary[device].context) destroy(primary[device].context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    ENTER;
    DEVICE(device);
    primary[device].flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    ENTER;
    DEVICE(device);
    if (flags) *flags = primary[device].flags;
    if (active) *active = primary[device].context && !primary[device].context->destroyed;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    ENTER;
    DEVICE(device);
    CUresult result = new_context(device, flags, false, context);
    if (result != CUDA_SUCCESS) return result;
    if (depth < DEPTH) stack[depth++] = *context;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    ENTER;
    if (!has_tag(context, TAG_CONTEXT) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    destroy(context);
    if (depth && stack[depth - 1] == context) depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    ENTER;
    if (!has_tag(context, TAG_CONTEXT) || depth == DEPTH) return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    ENTER;
    if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext top = stack[--depth];
    if (context) *context = top;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) { ENTER; return set_current(context); }

CUresult cuCtxGetCurrent(CUcontext *context) {
    ENTER;
    *context = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER;
    CONTEXT(context);
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *flags) {
    ENTER;
    CONTEXT(context);
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext given, unsigned long long *id) {
    ENTER;
    CONTEXT(current);
    *id = given ? given->id : current->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext given, unsigned *version) {
    ENTER;
    (void)given;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER;
    CONTEXT(context);
    (void)context;
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    ENTER;
    CONTEXT(context);
    return synchronise_context(context);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    ENTER;
    CONTEXT(context);
    if ((unsigned)limit >= LIMITS) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = context->limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    ENTER;
    CONTEXT(context);
    if ((unsigned)limit >= LIMITS) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    context->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
    ENTER;
    CONTEXT(context);
    *config = context->cache_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    ENTER;
    CONTEXT(context);
    context->cache_config = config;
    return CUDA_SUCCESS;
}
