/* cuGetProcAddress: from name, version and default-stream flag to one of the exported functions. */
#define _GNU_SOURCE
#include <string.h>

#include "standin.h"

/* The addresses are this library's own (it is linked with -Bsymbolic), whoever exports the same
 * names before it. */
static const struct point { const char *base; int version; const char *name; void *address; } POINTS[] = {
#define ENTRY(base, version, name) {#base, version, #name, (void *)name},
#include "entry_points.def"
#undef ENTRY
};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS };

static bool per_thread_form(const char *name) {
    size_t length = strlen(name);
    return length > 5 && (strcmp(name + length - 5, "_ptsz") == 0 || strcmp(name + length - 5, "_ptds") == 0);
}

/* Names that are not exported in this build, separated by commas: an older driver. */
#ifndef STANDIN_HIDDEN
#define STANDIN_HIDDEN ""
#endif

static bool hidden(const char *name) {
    static const char names[] = STANDIN_HIDDEN;
    size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += length)
        if ((at == names || at[-1] == ',') && (at[length] == ',' || !at[length])) return true;
    return false;
}

/* The newest form that `version` allows, per-thread if asked for and there is one. A name may also
 * be a full exported name with its suffix. */
static const struct point *find(const char *symbol, int version, bool per_thread, bool *too_old) {
    const struct point *best = NULL;
    *too_old = false;
    for (size_t i = 0; i < POINT_COUNT; i++) {
        const struct point *point = &POINTS[i];
        bool exact = per_thread_form(point->name) && strcmp(point->name, symbol) == 0;
        if (!exact && strcmp(point->base, symbol) != 0) continue;
        if ((!exact && per_thread_form(point->name) && !per_thread) || hidden(point->name)) continue;
        if (point->version > version) {
            *too_old = true;
            continue;
        }
        bool better_kind = best && per_thread_form(point->name) && !per_thread_form(best->name);
        bool worse_kind = best && !per_thread_form(point->name) && per_thread_form(best->name);
        if (!best || better_kind || (!worse_kind && point->version >= best->version)) best = point;
    }
    return best;
}

static CUresult look_up(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    if (!symbol || !function || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    if (version > setting_number("STANDIN_DRIVER_VERSION", 13000)) return CUDA_ERROR_INVALID_VALUE;
    bool too_old;
    const struct point *point = find(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &too_old);
    *function = point ? point->address : NULL;
    if (status)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
                  : too_old ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

/* The first form fails where the second one succeeds with a null pointer. */
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    ENTER_UNINITIALISED;
    CUresult result = look_up(symbol, function, version, flags, NULL);
    return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    ENTER_UNINITIALISED;
    return look_up(symbol, function, version, flags, status);
}
