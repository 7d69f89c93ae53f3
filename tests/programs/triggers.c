/* cc: -lcuda */
/* Launches before, between and after the marks that a trigger reacts to, with a grid of 1, 2 and 3
 * blocks so that an archive tells them apart. The argument says which marks: profiler, signal, or
 * the path of a file to create and remove. */
#include <signal.h>
#include <unistd.h>

#include "common.h"

enum { N = 64 };
static CUfunction nop;

static void launch(unsigned grid) {
    for (int i = 0; i < 2; i++) CHECK(cuLaunchKernel(nop, grid, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuCtxSynchronize());
}

static void mark(const char *how, int begin) {
    if (strcmp(how, "profiler") == 0) {
        CHECK(begin ? cuProfilerStart() : cuProfilerStop());
    } else if (strcmp(how, "signal") == 0) {
        raise(SIGUSR1);
    } else if (begin) {
        FILE *file = fopen(how, "w");
        REQUIRE(file);
        fclose(file);
    } else {
        unlink(how);
    }
}

int main(int argc, char **argv) {
    REQUIRE(argc > 1);
    start();
    nop = kernel(load_kernels(), "nop");
    launch(1);
    mark(argv[1], 1);
    launch(2);
    mark(argv[1], 0);
    launch(3);
    puts("done");
    return 0;
}
