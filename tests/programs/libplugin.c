/* cc: -ldl */
/* A library that uses the driver on its own, as numerical libraries do. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "api.h"

void plugin_saxpy(int times) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
#define X(name)                                            \
    API.name = (__typeof__(API.name))dlsym(driver, #name); \
    REQUIRE(API.name);
    API_FUNCTIONS(X)
#undef X
    api_saxpy(times);
    fflush(stdout); /* In a namespace of its own it has its own stdio. */
}

/* Looks the next definition up, seen from this library. */
void *plugin_next(const char *name) { return dlsym(RTLD_NEXT, name); }

int shadowed(void) { return 2; }
