/* cc: -lcuda -ldl */
/* Two copies of the run-time compiler in one process, as different libraries bring their own: it opens
 * libraries that are linked to one each. With `global` these are open to all, with `first` one copy of
 * the compiler is, before anything else: the dynamic linker prefers it then. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "common.h"
typedef struct program *nvrtcProgram;
typedef int (*create_function)(nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *);
typedef int (*compile_function)(nvrtcProgram, int, const char *const *);
typedef int (*destroy_function)(nvrtcProgram *);

static void use(const char *library, int flags) {
    void *handle = dlopen(library, RTLD_NOW | flags);
    if (!handle) puts(dlerror());
    REQUIRE(handle);
    int (*compile)(void) = (int (*)(void))dlsym(handle, "compile");
    REQUIRE(compile);
    printf("%s: %d\n", library, compile());
}

/* As programs do that choose a compiler themselves. */
static void look_up(const char *library) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle);
    nvrtcProgram program;
    create_function create = (create_function)dlsym(handle, "nvrtcCreateProgram");
    compile_function compile = (compile_function)dlsym(handle, "nvrtcCompileProgram");
    destroy_function destroy = (destroy_function)dlsym(handle, "nvrtcDestroyProgram");
    int created = create(&program, "text", "name", 0, NULL, NULL), compiled = compile(program, 0, NULL);
    printf("%s: %d %d %d\n", library, created, compiled, destroy(&program));
}

int main(int argc, char **argv) {
    int flags = mode_is(argc, argv, "global") ? RTLD_GLOBAL : RTLD_LOCAL;
    CHECK(cuInit(0));
    if (mode_is(argc, argv, "first")) REQUIRE(dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_GLOBAL));
    for (int i = 0; i < 2; i++) {
        use("libnvrtc_user_eleven.so", flags);
        use("libnvrtc_user_twelve.so", flags);
        look_up("libnvrtc.so.11.2");
        look_up("libnvrtc.so.12");
    }
    return 0;
}
