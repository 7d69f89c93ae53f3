/* The launch entry points of the first CUDA versions: parameters and block shape are set in the
 * function, one call after the other. And the launch on several devices at once. */
#define _GNU_SOURCE
#include <string.h>

#include "standin.h"

enum { STATES = 8, PARAMETER_ROOM = 256 };

/* What was set for a function; a handful of functions is enough. */
static struct state {
    CUfunction function;
    int block[3];
    unsigned shared;
    unsigned bytes;
    unsigned char parameters[PARAMETER_ROOM];
} states[STATES];

static struct state *state_of(CUfunction function) {
    for (int i = 0; i < STATES; i++) {
        if (!states[i].function) states[i].function = function;
        if (states[i].function == function) return &states[i];
    }
    misuse("too many functions with legacy parameters");
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
    ENTER;
    memcpy(state_of(function)->block, (int[]){x, y, z}, sizeof(int[3]));
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
    ENTER;
    state_of(function)->shared = bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
    ENTER;
    if (bytes > PARAMETER_ROOM) return CUDA_ERROR_INVALID_VALUE;
    state_of(function)->bytes = bytes;
    return CUDA_SUCCESS;
}

static CUresult set_parameter(CUfunction function, int offset, const void *value, unsigned bytes) {
    if (offset < 0 || (unsigned)offset + bytes > PARAMETER_ROOM) return CUDA_ERROR_INVALID_VALUE;
    memcpy(state_of(function)->parameters + offset, value, bytes);
    return CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned bytes) { ENTER; return set_parameter(function, offset, value, bytes); }
CUresult cuParamSeti(CUfunction function, int offset, unsigned value) { ENTER; return set_parameter(function, offset, &value, sizeof value); }
CUresult cuParamSetf(CUfunction function, int offset, float value) { ENTER; return set_parameter(function, offset, &value, sizeof value); }

static CUresult launch(CUfunction function, int width, int height, CUstream handle) {
    CONTEXT(context);
    CUstream stream;
    CUresult result = resolve_stream(handle, false, &stream);
    if (result != CUDA_SUCCESS) return result;
    struct state *state = state_of(function);
    size_t bytes = state->bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, state->parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    unsigned dimensions[] = {(unsigned)width, (unsigned)height, 1, (unsigned)state->block[0], (unsigned)state->block[1],
                             (unsigned)state->block[2]};
    struct work *work;
    result = kernel_work(function, context, dimensions, state->shared, NULL, bytes ? extra : NULL, &work);
    return result == CUDA_SUCCESS ? submit(stream, work) : result;
}

CUresult cuLaunch(CUfunction function) { ENTER; return launch(function, 1, 1, NULL); }
CUresult cuLaunchGrid(CUfunction function, int width, int height) { ENTER; return launch(function, width, height, NULL); }
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    ENTER;
    return launch(function, width, height, stream);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags) {
    ENTER;
    (void)flags;
    CONTEXT(context);
    for (unsigned i = 0; i < count; i++) {
        CUstream stream;
        struct work *work;
        CUresult result = resolve_stream(list[i].hStream, false, &stream);
        unsigned dimensions[] = {list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ, list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ};
        if (result == CUDA_SUCCESS)
            result = kernel_work(list[i].function, context, dimensions, list[i].sharedMemBytes, list[i].kernelParams, NULL, &work);
        if (result == CUDA_SUCCESS) result = submit(stream, work);
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}
