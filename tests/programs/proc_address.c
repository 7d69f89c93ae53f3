/* cc: -ldl */
/* Reaches the driver as CUDA's runtime does: one name by dlsym, everything else through the pointer
 * that the look-up of cuGetProcAddress itself returns. `v1` uses the form of CUDA 11. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include "api.h"

typedef CUresult (*get_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*get_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static get_v1 v1;
static get_v2 v2;

static void *get(const char *name, int version, cuuint64_t flags) {
    void *function = NULL;
    CHECK(v1 ? v1(name, &function, version, flags) : v2(name, &function, version, flags, NULL));
    REQUIRE(function);
    return function;
}

/* Where an address lies: the program must never be able to tell a hook from the driver by failing. */
static const char *answer(CUresult result, void *function, int status) {
    static char text[80];
    snprintf(text, sizeof text, "%d %s %d", result, function ? "found" : "null", status);
    return text;
}

int main(int argc, char **argv) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
    void *self = NULL;
    if (mode_is(argc, argv, "v1")) {
        v1 = (get_v1)dlsym(driver, "cuGetProcAddress");
        REQUIRE(v1);
        CHECK(v1("cuGetProcAddress", &self, 11030, 0));
        v1 = (get_v1)self;
    } else {
        v2 = (get_v2)dlsym(driver, "cuGetProcAddress_v2");
        REQUIRE(v2);
        /* An empty name is a question that the runtime really asks. */
        void *nothing = (void *)1;
        CUresult result = v2("", &nothing, 0, 0, NULL);
        printf("empty: %s\n", answer(result, nothing, 0));
        CHECK(v2("cuGetProcAddress", &self, 12000, 0, NULL));
        v2 = (get_v2)self;
    }
    REQUIRE(self);

    API.cuInit = (__typeof__(API.cuInit))get("cuInit", 2000, 0);
    API.cuDeviceGet = (__typeof__(API.cuDeviceGet))get("cuDeviceGet", 2000, 0);
    API.cuDevicePrimaryCtxRetain = (__typeof__(API.cuDevicePrimaryCtxRetain))get("cuDevicePrimaryCtxRetain", 7000, 0);
    API.cuDevicePrimaryCtxRelease_v2 = (__typeof__(API.cuDevicePrimaryCtxRelease_v2))get("cuDevicePrimaryCtxRelease", 11000, 0);
    API.cuCtxSetCurrent = (__typeof__(API.cuCtxSetCurrent))get("cuCtxSetCurrent", 4000, 0);
    API.cuCtxSynchronize = (__typeof__(API.cuCtxSynchronize))get("cuCtxSynchronize", 2000, 0);
    API.cuModuleLoadData = (__typeof__(API.cuModuleLoadData))get("cuModuleLoadData", 2000, 0);
    API.cuModuleGetFunction = (__typeof__(API.cuModuleGetFunction))get("cuModuleGetFunction", 2000, 0);
    API.cuModuleUnload = (__typeof__(API.cuModuleUnload))get("cuModuleUnload", 2000, 0);
    API.cuMemAlloc_v2 = (__typeof__(API.cuMemAlloc_v2))get("cuMemAlloc", 3020, 0);
    API.cuMemFree_v2 = (__typeof__(API.cuMemFree_v2))get("cuMemFree", 3020, 0);
    API.cuMemcpyHtoD_v2 = (__typeof__(API.cuMemcpyHtoD_v2))get("cuMemcpyHtoD", 3020, 0);
    API.cuMemcpyDtoH_v2 = (__typeof__(API.cuMemcpyDtoH_v2))get("cuMemcpyDtoH", 3020, 0);
    API.cuLaunchKernel = (__typeof__(API.cuLaunchKernel))get("cuLaunchKernel", 4000, 0);

    /* The two default streams are two functions. */
    void *legacy = get("cuLaunchKernel", 7000, 1), *per_thread = get("cuLaunchKernel", 7000, 2);
    REQUIRE(legacy == (void *)API.cuLaunchKernel && per_thread != legacy);
    REQUIRE(get("cuLaunchKernel_ptsz", 7000, 0) == per_thread);
    /* A function without a per-thread form answers both. */
    REQUIRE(get("cuMemAlloc", 3020, 2) == (void *)API.cuMemAlloc_v2);

    if (v2) {
        const struct { const char *name; int version; cuuint64_t flags; } questions[] = {
            {"cuLaunchKernelEx", 11050, 0}, {"cuLaunchKernelEx", 11060, 0}, {"cuNoSuchFunction", 12000, 0},
            {"cuLaunchKernel", 99000, 0},   {"cuLaunchKernel", 4000, 9},    {"cudnnCreate", 12000, 0},
        };
        for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
            void *function = (void *)1;
            CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)7;
            CUresult result = v2(questions[i].name, &function, questions[i].version, questions[i].flags, &status);
            printf("%s %d %d: %s\n", questions[i].name, questions[i].version, (int)questions[i].flags, answer(result, function, (int)status));
        }
    } else {
        void *function = (void *)1;
        CUresult result = v1("cuNoSuchFunction", &function, 11030, 0);
        printf("cuNoSuchFunction: %s\n", answer(result, function, 0));
    }
    api_saxpy(3);
    return 0;
}
