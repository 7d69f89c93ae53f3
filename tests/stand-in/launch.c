/* Launches: every entry point ends in the same work. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "standin.h"

struct kernel_work { struct work work; struct launch launch; bool full; };

static void run_kernel(struct work *work) {
    struct kernel_work *kernel = (struct kernel_work *)work;
    kernel->launch.context = work->context;
    /* STANDIN_FULL: the kernel spin leaves no room for another one. */
    static atomic_int spinning;
    bool spins = strcmp(kernel->launch.function->code->name, "spin") == 0;
    if (spins) spinning++;
    while (kernel->full && !spins && spinning) nanosleep(&(struct timespec){0, 1000000}, NULL);
    kernel->launch.function->code->body(&kernel->launch);
    if (spins) spinning--;
}

static void drop_kernel(struct work *work) { free(((struct kernel_work *)work)->launch.parameters); }

/* Parameters by pointer to each, or as one buffer in `extra`. */
static CUresult gather(const struct code *code, void **params, void **extra, unsigned char *into) {
    if (params && extra) return CUDA_ERROR_INVALID_VALUE;
    if (extra) {
        const void *buffer = NULL;
        const size_t *bytes = NULL;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
            else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = extra[1];
            else return CUDA_ERROR_INVALID_VALUE;
        }
        if (!buffer || !bytes || *bytes < code->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
        memcpy(into, buffer, code->parameter_bytes);
        return CUDA_SUCCESS;
    }
    if (code->parameters && !params) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < code->parameters; i++) memcpy(into + code->offsets[i], params[i], code->sizes[i]);
    return CUDA_SUCCESS;
}

CUresult kernel_work(CUfunction handle, CUcontext context, const unsigned dimensions[6], unsigned shared, void **params,
                     void **extra, struct work **work) {
    CUfunction function;
    if (!handle) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = resolve_function(handle, context, &function);
    if (result != CUDA_SUCCESS) return result;
    for (int i = 0; i < 6; i++)
        if (!dimensions[i]) return CUDA_ERROR_INVALID_VALUE;
    if ((uint64_t)dimensions[3] * dimensions[4] * dimensions[5] > 1024) return CUDA_ERROR_INVALID_VALUE;
    if (shared > (unsigned)function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]) return CUDA_ERROR_INVALID_VALUE;
    if (!function->code->body) {
        char text[256];
        snprintf(text, sizeof text, "it has no code for the kernel %s (kernels.c)", function->code->name);
        misuse(text);
    }
    struct kernel_work *made = (void *)new_work(sizeof *made, CU_GRAPH_NODE_TYPE_KERNEL, run_kernel, drop_kernel);
    made->launch.function = function;
    memcpy(made->launch.grid, dimensions, 12);
    memcpy(made->launch.block, dimensions + 3, 12);
    made->launch.shared = shared;
    made->launch.race = setting("STANDIN_RACE");
    made->full = setting("STANDIN_FULL");
    made->launch.parameters = calloc(1, function->code->parameter_bytes + 1);
    if (!made->launch.parameters) misuse("out of host memory");
    result = gather(function->code, params, extra, made->launch.parameters);
    if (result != CUDA_SUCCESS) return drop_work(&made->work), result;
    *work = &made->work;
    return CUDA_SUCCESS;
}

static CUresult launch(bool per_thread, CUfunction function, const unsigned dimensions[6], unsigned shared, CUstream handle,
                       void **params, void **extra) {
    CONTEXT(context);
    CUstream stream;
    CUresult result = resolve_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS) return result;
    struct work *work;
    result = kernel_work(function, context, dimensions, shared, params, extra, &work);
    return result == CUDA_SUCCESS ? submit(stream, work) : result;
}

TWINS(cuLaunchKernel, _ptsz, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
      unsigned shared, CUstream stream, void **params, void **extra), function, gx, gy, gz, bx, by, bz, shared, stream, params, extra) {
    return launch(per_thread, function, (unsigned[]){gx, gy, gz, bx, by, bz}, shared, stream, params, extra);
}

TWINS(cuLaunchCooperativeKernel, _ptsz, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
      unsigned bz, unsigned shared, CUstream stream, void **params), function, gx, gy, gz, bx, by, bz, shared, stream, params) {
    return launch(per_thread, function, (unsigned[]){gx, gy, gz, bx, by, bz}, shared, stream, params, NULL);
}

TWINS(cuLaunchKernelEx, _ptsz, (const CUlaunchConfig *config, CUfunction function, void **params, void **extra), config, function,
      params, extra) {
    if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            (!value->clusterDim.x || config->gridDimX % value->clusterDim.x))
            return CUDA_ERROR_INVALID_VALUE;
    }
    unsigned dimensions[] = {config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ};
    return launch(per_thread, function, dimensions, config->sharedMemBytes, config->hStream, params, extra);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    ENTER;
    CONTEXT(context);
    (void)dependencies, (void)count;
    if (!has_tag(graph, TAG_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    unsigned dimensions[] = {params->gridDimX, params->gridDimY, params->gridDimZ, params->blockDimX, params->blockDimY, params->blockDimZ};
    CUfunction function = params->func ? params->func : (CUfunction)(void *)params->kern;
    struct work *work;
    CUresult result = kernel_work(function, context, dimensions, params->sharedMemBytes, params->kernelParams, params->extra, &work);
    return result == CUDA_SUCCESS ? add_node(graph, work, node) : result;
}

/* The parameters stay the node's: no pointers to them are given out. */
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    ENTER;
    struct kernel_work *kernel = (struct kernel_work *)node_work(node);
    if (!kernel || kernel->work.type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
    const struct launch *launch = &kernel->launch;
    memset(params, 0, sizeof *params);
    params->func = (CUfunction)launch->function;
    params->gridDimX = launch->grid[0], params->gridDimY = launch->grid[1], params->gridDimZ = launch->grid[2];
    params->blockDimX = launch->block[0], params->blockDimY = launch->block[1], params->blockDimZ = launch->block[2];
    params->sharedMemBytes = launch->shared;
    return CUDA_SUCCESS;
}
