/* cc: -ldl */
/* Opens libplugin.so in the way its argument says: local, global, deepbind (which keeps a preloaded
 * dlsym out), or namespace (dlmopen). */
#define _GNU_SOURCE
#include <dlfcn.h>

#define NO_CUDA_LINK
#include "common.h"

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    const char *path = argv[2];
    void *plugin;
    if (mode_is(argc, argv, "deepbind")) plugin = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    else if (mode_is(argc, argv, "namespace")) plugin = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    else plugin = dlopen(path, RTLD_NOW | (mode_is(argc, argv, "global") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void (*run)(int) = (void (*)(int))dlsym(plugin, "plugin_saxpy");
    REQUIRE(run);
    fflush(stdout);
    run(2);
    fflush(NULL);
    return 0;
}
