/* cc: -ldl */
/* Opens the driver itself and takes every function by dlsym. `dlopened versioned` uses dlvsym,
 * `dlopened again` closes the driver, opens it again and goes on. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "api.h"

static void *open_driver(int argc, char **argv) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
#define X(name)                                                                                        \
    /* The driver's symbols carry no version, so a versioned look-up has to fail, and say why. */      \
    if (mode_is(argc, argv, "versioned")) REQUIRE(!dlvsym(driver, #name, "LIBCUDA_1") && dlerror());   \
    API.name = (__typeof__(API.name))dlsym(driver, #name);                                             \
    REQUIRE(API.name && !dlerror());
    API_FUNCTIONS(X)
#undef X
    return driver;
}

int main(int argc, char **argv) {
    void *driver = open_driver(argc, argv);
    api_saxpy(3);
    if (mode_is(argc, argv, "again")) {
        REQUIRE(dlclose(driver) == 0);
        driver = open_driver(argc, argv);
        api_saxpy(2);
        REQUIRE(dlclose(driver) == 0);
    }
    return 0;
}
