/* A CUDA program whose runtime library is chosen when it starts: `older_runtime LIBCUDART`.
 *
 * It registers its device code as the code that nvcc generates does, which all runtimes from 11 to 13 take. The runtime
 * before 12 loads that code through a private table of the driver, where no hook sees it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    unsigned x, y, z;
} Dim3;

typedef struct {
    int magic, version;
    const void *data;
    void *list;
} FatbinWrapper;

__asm__(".section .nv_fatbin, \"a\"\n"
        ".balign 8\n"
        "older_runtime_fatbin:\n"
        ".incbin \"" FATBIN "\"\n"
        ".previous\n");
extern const char older_runtime_fatbin[];

__attribute__((section(".nvFatBinSegment"), used)) static FatbinWrapper wrapper = {0x466243b1, 1, older_runtime_fatbin,
                                                                                   NULL};

/* Its address stands for the kernel, as the address of nvcc's host stub does. */
static void scale_stub(void) {}

static void *library;

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return found;
}

static void check(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "%s: CUDA runtime error %d\n", what, status);
        exit(1);
    }
}

int main(int argc, char **argv) {
    enum { COUNT = 5000, LAUNCHES = 3 };
    library = dlopen(argc > 1 ? argv[1] : "libcudart.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    void **(*register_fatbin)(void *) = symbol("__cudaRegisterFatBinary");
    void (*register_end)(void **) = symbol("__cudaRegisterFatBinaryEnd");
    void (*unregister)(void **) = symbol("__cudaUnregisterFatBinary");
    void (*register_function)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *) =
        symbol("__cudaRegisterFunction");
    int (*cuda_malloc)(void **, size_t) = symbol("cudaMalloc");
    int (*cuda_memcpy)(void *, const void *, size_t, int) = symbol("cudaMemcpy");
    int (*launch)(const void *, Dim3, Dim3, void **, size_t, void *) = symbol("cudaLaunchKernel");
    int (*synchronize)(void) = symbol("cudaDeviceSynchronize");
    int (*version)(int *) = symbol("cudaRuntimeGetVersion");

    void **module = register_fatbin(&wrapper);
    register_function(module, (const char *)scale_stub, (char *)"scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
    register_end(module);

    int runtime = 0;
    check(version(&runtime), "cudaRuntimeGetVersion");
    float *host = malloc(COUNT * sizeof *host);
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i / 16;
    void *in, *out;
    check(cuda_malloc(&in, COUNT * sizeof *host), "cudaMalloc");
    check(cuda_malloc(&out, COUNT * sizeof *host), "cudaMalloc");
    check(cuda_memcpy(in, host, COUNT * sizeof *host, 1), "cudaMemcpy");
    int count = COUNT;
    void *arguments[] = {&in, &out, &count};
    for (int i = 0; i < LAUNCHES; i++)
        check(launch((const void *)scale_stub, (Dim3){(COUNT + 127) / 128, 1, 1}, (Dim3){128, 1, 1}, arguments, 0, NULL),
              "cudaLaunchKernel");
    check(synchronize(), "cudaDeviceSynchronize");
    check(cuda_memcpy(host, out, COUNT * sizeof *host, 2), "cudaMemcpy");
    double sum = 0;
    for (int i = 0; i < COUNT; i++)
        sum += host[i];
    printf("runtime %d: sum %.1f\n", runtime, sum);
    unregister(module);
    return 0;
}
