/* cc: -lcuda */
/* The process changes what is around it, before, between and after launches. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

enum { N = 256 };

static void close_everything(void) {
    for (int file = 3; file < 1024; file++) close(file);
}

static void change(const char *what) {
    if (strcmp(what, "chdir") == 0) REQUIRE(chdir("/") == 0);
    if (strcmp(what, "clearenv") == 0) clearenv();
    if (strcmp(what, "close") == 0) close_everything();
    if (strcmp(what, "umask") == 0) umask(0777);
    if (strcmp(what, "nofile") == 0) setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3});
    if (strcmp(what, "fsize") == 0) setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
    if (strcmp(what, "memlock") == 0) setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, 0});
    if (strcmp(what, "nproc") == 0) setrlimit(RLIMIT_NPROC, &(struct rlimit){0, 0});
    if (strcmp(what, "memory") == 0) {
        /* Somewhat more address space than there is in use. */
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        REQUIRE(file && fscanf(file, "%lu", &pages) == 1);
        fclose(file);
        unsigned long limit = pages * 4096 + (64 << 20);
        setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
    }
    if (strcmp(what, "undumpable") == 0) prctl(PR_SET_DUMPABLE, 0);
    if (strcmp(what, "signals") == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        signal(SIGPIPE, SIG_IGN);
    }
    if (strcmp(what, "rename") == 0) prctl(PR_SET_NAME, "renamed");
    if (strcmp(what, "stderr") == 0) close(STDERR_FILENO);
    if (strcmp(what, "reopen") == 0) {
        /* Descriptors that the program believes to be its own now carry its data. */
        close_everything();
        for (int i = 0; i < 8; i++) REQUIRE(open("own-data", O_WRONLY | O_CREAT | O_APPEND, 0666) >= 0);
    }
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    int early = strcmp(argv[1], "early") == 0;
    if (early) change(argv[2]);
    start();
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    errno = 44;
    CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
    int first = errno;
    CHECK(cuCtxSynchronize());
    if (!early) change(argv[2]);
    errno = 55;
    CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
    int second = errno;
    CHECK(cuCtxSynchronize());
    CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
    struct stat about;
    long long written = stat("own-data", &about) == 0 ? (long long)about.st_size : 0;
    printf("%s: %.1f, errno %d %d, own data %lld\n", argv[2], sum(y, N), first, second, written);
    return 0;
}
