/* cc: -lcuda */
/* Images whose bytes can be had only once: `overwritten` reuses one static buffer for two images,
 * `fifo` reads one from a pipe, `large` has an image of 3 MB that cannot be compressed much. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/stat.h>

#include "common.h"

enum { N = 256 };
static char buffer[1 << 16];

static CUmodule load_buffer(const char *comment) {
    CUmodule module;
    REQUIRE(sizeof KERNELS_PTX + strlen(comment) < sizeof buffer);
    strcpy(buffer, KERNELS_PTX);
    strcat(buffer, comment);
    CHECK(cuModuleLoadData(&module, buffer));
    return module;
}

static void *write_pipe(void *path) {
    FILE *pipe = fopen(path, "w");
    REQUIRE(pipe && fwrite(KERNELS_PTX, 1, sizeof KERNELS_PTX, pipe) == sizeof KERNELS_PTX);
    fclose(pipe);
    return NULL;
}

static CUmodule load_pipe(void) {
    CUmodule module;
    pthread_t writer;
    REQUIRE(mkfifo("pipe", 0666) == 0);
    REQUIRE(pthread_create(&writer, NULL, write_pipe, "pipe") == 0);
    CHECK(cuModuleLoad(&module, "pipe"));
    pthread_join(writer, NULL);
    return module;
}

static CUmodule load_large(void) {
    enum { MORE = 3000000 };
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    CUmodule module;
    char *text = malloc(sizeof KERNELS_PTX + MORE + 8), *at = text + sizeof KERNELS_PTX - 1;
    memcpy(text, KERNELS_PTX, sizeof KERNELS_PTX);
    at = stpcpy(at, "\n// ");
    for (int i = 0; i < MORE; i++) *at++ = letters[random() & 63];
    strcpy(at, "\n");
    CHECK(cuModuleLoadData(&module, text));
    free(text);
    return module;
}

int main(int argc, char **argv) {
    start();
    CUmodule modules[2] = {0};
    if (mode_is(argc, argv, "overwritten")) {
        modules[0] = load_buffer("\n// the first\n");
        modules[1] = load_buffer("\n// the second\n");
        memset(buffer, 'x', sizeof buffer - 1);
    } else if (mode_is(argc, argv, "fifo")) {
        modules[0] = load_pipe();
    } else {
        modules[0] = load_large();
    }
    CUdeviceptr x = ramp(N, 0), y = ramp(N, 0);
    for (int i = 0; i < 2 && modules[i]; i++)
        for (int k = 0; k < 3; k++) CHECK(launch_saxpy(kernel(modules[i], "saxpy"), NULL, y, x, 1, N));
    printf("y %.1f\n", sum(y, N));
    return 0;
}
