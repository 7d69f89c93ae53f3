/* cc: -lcuda */
/* Child processes of every kind. Each child prints one line; the parent waits and prints its own.
 * The parent uses the driver before or after, as the mode says. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { N = 256 };

static void use_driver(const char *who, int launches) {
    start();
    CUmodule module = load_kernels();
    CUfunction saxpy = kernel(module, "saxpy");
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    for (int i = 0; i < launches; i++) CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
    printf("%s: %.1f\n", who, sum(y, N));
    fflush(stdout);
}

static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) REQUIRE(0);
    return status;
}

static void parent_says(int status) {
    printf("parent: child %s %d\n", WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    fflush(stdout);
}

/* Launches until it is told to stop, so that forks meet every state that a launch can be in. */
static volatile int stop;
static CUcontext shared_context;
static void *keep_launching(void *function) {
    CHECK(cuCtxSetCurrent(shared_context));
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    while (!stop) CHECK(launch_saxpy(function, stream, y, x, 1, N));
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

static int raw_child(void *nothing) {
    (void)nothing;
    exit(5); /* Runs the parent's exit handlers in a process that made none of them. */
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "before";
    if (strcmp(mode, "before") == 0) {
        /* Both use the driver, the child first: each has its own launches. */
        pid_t child = fork();
        if (child == 0) {
            use_driver("child", 2);
            return 3;
        }
        parent_says(wait_for(child));
        use_driver("parent", 3);
    } else if (strcmp(mode, "many") == 0) {
        /* Workers as data loaders start them. */
        pid_t children[8];
        for (int i = 0; i < 8; i++)
            if ((children[i] = fork()) == 0) {
                use_driver("child", 1);
                exit(0);
            }
        for (int i = 0; i < 8; i++) REQUIRE(wait_for(children[i]) == 0);
        use_driver("parent", 1);
    } else if (strcmp(mode, "exec") == 0) {
        use_driver("parent", 1);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], "leaf", NULL);
            _exit(9);
        }
        parent_says(wait_for(child));
        use_driver("parent", 1);
    } else if (strcmp(mode, "vfork") == 0) {
        use_driver("parent", 1);
        pid_t child = vfork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], "leaf", NULL);
            _exit(9);
        }
        parent_says(wait_for(child));
        use_driver("parent", 1);
    } else if (strcmp(mode, "replace") == 0) {
        use_driver("first", 1);
        execl("/proc/self/exe", argv[0], "leaf", NULL);
    } else if (strcmp(mode, "threads") == 0) {
        shared_context = start();
        CUfunction saxpy = kernel(load_kernels(), "saxpy");
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, keep_launching, saxpy);
        for (int i = 0; i < 60; i++) {
            usleep(500);
            pid_t child = fork();
            if (child == 0) {
                /* Calls of the child's are refused, and must not wait for a thread that it lacks. */
                CUdeviceptr address;
                REQUIRE(cuMemAlloc_v2(&address, 64) == CUDA_ERROR_NOT_INITIALIZED);
                REQUIRE(launch_saxpy(saxpy, NULL, 0, 0, 1, N) == CUDA_ERROR_NOT_INITIALIZED);
                exit(i % 50);
            }
            REQUIRE(wait_for(child) == i % 50 << 8);
        }
        stop = 1;
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        printf("60 children\n");
    } else if (strcmp(mode, "leaf") == 0) {
        use_driver("leaf", 2);
    } else {
        /* The driver is in use when the child comes: it cannot use it, and must not disturb. */
        start();
        CUmodule module = load_kernels();
        CUfunction saxpy = kernel(module, "saxpy");
        CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
        CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
        CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
        pid_t child;
        if (strcmp(mode, "clone") == 0) {
            child = (pid_t)clone(raw_child, (char *)malloc(1 << 20) + (1 << 20), SIGCHLD, NULL);
        } else if ((child = fork()) == 0) {
            CUresult result = launch_saxpy(saxpy, NULL, y, x, 1, N);
            printf("child: launch %d\n", result);
            fflush(stdout);
            if (strcmp(mode, "after") == 0) exit(4);
            if (strcmp(mode, "_exit") == 0) _exit(4);
            if (strcmp(mode, "abort") == 0) abort();
            if (strcmp(mode, "kill") == 0) kill(getpid(), SIGKILL);
            _exit(8);
        }
        parent_says(wait_for(child));
        CHECK(launch_saxpy(saxpy, NULL, y, x, 1, N));
        printf("parent: %.1f\n", sum(y, N));
    }
    return 0;
}
