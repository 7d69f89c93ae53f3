/* Opened with RTLD_DEEPBIND, this library's own dlsym is libc's, whatever is preloaded: the way to a
 * driver function past a hook. */
#include <dlfcn.h>

void *symbol_past_preloads(void *library, const char *name) {
    return dlsym(library, name);
}
