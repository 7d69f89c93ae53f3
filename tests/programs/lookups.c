/* cc: -rdynamic -ldl */
/* Symbol look-ups of every kind, with what they leave in dlerror() and errno. Prints names and
 * states, never addresses, so that a run with a preloaded library must print the same. Uses no
 * driver unless `lookups cuda` asks for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>

#define NO_CUDA_LINK
#include "common.h"

static void *early_resolver, *early_puts, *early_missing;

/* Before main, and before most constructors. */
static void first(void) {
    early_puts = dlsym(RTLD_DEFAULT, "puts");
    early_missing = dlsym(RTLD_NEXT, "a_name_that_nobody_has");
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = first;

/* While relocations are still being made: the resolver of an indirect function. */
static int chosen(void) { return 42; }
static int (*choose(void))(void) {
    early_resolver = dlsym(RTLD_DEFAULT, "puts");
    return chosen;
}
int indirect(void) __attribute__((ifunc("choose")));

int shadowed(void) { return 1; }

static void report(const char *what, void *found) {
    const char *error = dlerror();
    /* The text names the program, whose path is the same in both runs. */
    printf("%-28s %-5s errno %d, %s\n", what, found ? "found" : "null", errno, error ? error : "no error");
    errno = 0;
}

int main(int argc, char **argv) {
    void *self = dlopen(NULL, RTLD_NOW);
    printf("early %d %d %d, indirect %d\n", early_resolver != NULL, early_puts != NULL, early_missing != NULL, indirect());
    dlerror();
    errno = 0;

    report("puts by default", dlsym(RTLD_DEFAULT, "puts"));
    report("puts by next", dlsym(RTLD_NEXT, "puts"));
    report("main by handle", dlsym(self, "main"));
    report("main by next", dlsym(RTLD_NEXT, "main"));
    report("shadowed by default", dlsym(RTLD_DEFAULT, "shadowed"));
    report("shadowed by next", dlsym(RTLD_NEXT, "shadowed"));
    report("shadowed by next again", dlsym(RTLD_NEXT, "shadowed"));
    report("missing by default", dlsym(RTLD_DEFAULT, "a_name_that_nobody_has"));
    report("missing by next", dlsym(RTLD_NEXT, "a_name_that_nobody_has"));
    report("memcpy by version", dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14"));
    report("memcpy by wrong version", dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_9.9"));
    report("empty name", dlsym(RTLD_DEFAULT, ""));

    /* Names that only look like the driver's. */
    const char *others[] = {"cudnnCreate", "cublasCreate_v2", "cufftPlan1d", "curl_easy_init", "cudbgGetAPI", "cu", "nvrtc", "nvmlInit_v2"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        report(others[i], dlsym(RTLD_DEFAULT, others[i]));
        report(others[i], dlsym(self, others[i]));
    }
    /* The driver's names, while no driver is loaded. */
    report("cuInit without a driver", dlsym(RTLD_DEFAULT, "cuInit"));
    report("cuLaunchKernel, no driver", dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
    report("cuLaunchKernel by next", dlsym(RTLD_NEXT, "cuLaunchKernel"));
    report("cuLaunchKernel by handle", dlsym(self, "cuLaunchKernel"));
    report("cuLaunchKernel by version", dlvsym(RTLD_DEFAULT, "cuLaunchKernel", "GLIBC_2.2.5"));
    report("nvrtc without NVRTC", dlsym(RTLD_DEFAULT, "nvrtcCompileProgram"));

    /* An error that is pending stays pending until it is read, and a success clears nothing. */
    dlsym(RTLD_DEFAULT, "a_name_that_nobody_has");
    dlsym(RTLD_DEFAULT, "puts");
    report("pending after a success", NULL);
    errno = 77;
    dlsym(RTLD_DEFAULT, "puts");
    report("errno is kept", NULL);

    if (argc > 2) {
        void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
        REQUIRE(plugin);
        void *(*next)(const char *) = (void *(*)(const char *))dlsym(plugin, "plugin_next");
        REQUIRE(next);
        /* Seen from the library, main and its `shadowed` come before, not after. */
        report("library: main by next", next("main"));
        report("library: shadowed by next", next("shadowed"));
        report("library: puts by next", next("puts"));
    }
    if (mode_is(argc, argv, "cuda")) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        REQUIRE(driver);
        dlerror();
        errno = 0;
        const char *names[] = {"cuInit", "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAlloc_v2", "cuGetProcAddress_v2",
                               "cuGetProcAddress", "cuMemAlloc_v9", "cuLaunchKernel_v2", "cuda"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            report(names[i], dlsym(driver, names[i]));
            report(names[i], dlsym(RTLD_DEFAULT, names[i]));
            report(names[i], dlsym(RTLD_NEXT, names[i]));
            report(names[i], dlvsym(driver, names[i], "LIBCUDA_1"));
            REQUIRE(dlsym(driver, names[i]) == dlsym(driver, names[i]));
            dlerror();
            errno = 0;
        }
        /* A pending error survives a look-up that succeeds. */
        dlsym(driver, "a_name_that_nobody_has");
        dlsym(driver, "cuLaunchKernel");
        report("pending after cuLaunchKernel", NULL);
        errno = 78;
        dlsym(driver, "cuLaunchKernel");
        report("errno after cuLaunchKernel", NULL);
    }
    return 0;
}
