/* cc: -rdynamic -ldl */
/* A program with its own malloc, which finds the real one by dlsym and counts calls, as memory
 * profilers and allocators do. A look-up that allocates would call itself for ever, or count. */
#define _GNU_SOURCE
#include <dlfcn.h>

#define NO_CUDA_LINK
#include "common.h"

static int calls;
static char first[4096]; /* For what the linker itself allocates during the first look-up. */
static size_t first_used;

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

static void resolve(void) {
    static int looking;
    if (looking || next_free) return;
    looking = 1;
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    looking = 0;
}

void *malloc(size_t bytes) {
    calls++;
    if (!next_malloc) resolve();
    if (next_malloc) return next_malloc(bytes);
    void *given = first + first_used;
    first_used += (bytes + 15) / 16 * 16;
    return first_used <= sizeof first ? given : NULL;
}

void free(void *memory) {
    if ((char *)memory >= first && (char *)memory < first + sizeof first) return;
    if (!next_free) resolve();
    if (next_free) next_free(memory);
}

int main(int argc, char **argv) {
    char *text = malloc(100);
    strcpy(text, "works");
    const char *names[] = {"puts", "cudnnCreate", "memcpy", "omp_get_num_threads", "cuda", "nvtxMarkA"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) dlsym(RTLD_DEFAULT, names[i]); /* Errors allocate: once. */
    dlerror();
    int before = calls;
    for (int i = 0; i < 1000; i++) REQUIRE(dlsym(RTLD_DEFAULT, "puts") && dlsym(RTLD_NEXT, "puts") && dlsym(RTLD_DEFAULT, "main"));
    printf("malloc %s; %d calls in 3000 look-ups\n", text, calls - before);
    if (mode_is(argc, argv, "cuda")) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        REQUIRE(driver && dlsym(driver, "cuLaunchKernel"));
        before = calls;
        for (int i = 0; i < 1000; i++) REQUIRE(dlsym(driver, "cuLaunchKernel") && dlsym(driver, "cuInit"));
        printf("%d calls in 2000 look-ups of the driver's\n", calls - before);
    }
    free(text);
    return 0;
}
