/* cc: -ldl */
/* A program that uses no GPU, as most processes of a job do: it must not be able to tell that
 * anything is preloaded. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_CUDA_LINK
#include "common.h"

static int entries(const char *path) {
    int count = 0;
    DIR *directory = opendir(path);
    REQUIRE(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

int main(void) {
    printf("threads %d, open files %d\n", entries("/proc/self/task") - 2, entries("/proc/self/fd") - 3);
    struct sigaction action;
    for (int signal = 1; signal < 32; signal++)
        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL) printf("signal %d is handled\n", signal);
    printf("dlsym works: %d\n", dlsym(RTLD_DEFAULT, "printf") != NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        puts("child");
        return 0;
    }
    int status;
    waitpid(child, &status, 0);
    printf("child ended with %d\n", status);
    return 0;
}
