/* cc: -lcuda */
/* A timer signal every 300 microseconds, whose handler does not restart system calls, while launches
 * are made and something is written and read. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "common.h"

enum { N = 4096 };

static volatile sig_atomic_t ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
}

int main(void) {
    start();
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 300}, {0, 300}}, NULL);
    for (int i = 0; i < 60; i++) {
        CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
        if (i % 10 == 0) usleep(2000);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    printf("y %.1f, interrupted: %s\n", sum(y, N), ticks > 0 ? "yes" : "no");
    return 0;
}
