/* cc: -lcuda */
/* Standard error that nobody reads any more (`broken`), or whose descriptor is now a file with the
 * program's own data (`data`). What R3 has to say must not end the program, nor get into the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

enum { N = 256 };

int main(int argc, char **argv) {
    if (mode_is(argc, argv, "broken")) {
        /* It is so from the start of a program. */
        int ends[2];
        REQUIRE(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
        close(ends[0]);
        close(ends[1]);
        signal(SIGPIPE, SIG_DFL);
        execl("/proc/self/exe", argv[0], "run", (char *)NULL);
        return 3;
    }
    if (mode_is(argc, argv, "data")) {
        close(STDERR_FILENO);
        REQUIRE(open("data", O_WRONLY | O_CREAT | O_TRUNC, 0666) == STDERR_FILENO);
    }
    start();
    CUfunction saxpy = kernel(load_kernels(), "saxpy");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    for (int i = 0; i < 3; i++) CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
    sigset_t pending, blocked;
    sigpending(&pending);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    printf("y %.1f, SIGPIPE pending %d, blocked %d\n", sum(y, N), sigismember(&pending, SIGPIPE), sigismember(&blocked, SIGPIPE));
    return 0;
}
