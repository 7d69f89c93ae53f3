/* cc: -lcuda -lnvrtc -ldl */
/* Compiles its kernels at run time. With `looked_up`, the compiler's functions come from dlsym. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "common.h"

typedef struct program *nvrtcProgram;
int nvrtcCreateProgram(nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *);
int nvrtcCompileProgram(nvrtcProgram, int, const char *const *);
int nvrtcAddNameExpression(nvrtcProgram, const char *);
int nvrtcGetLoweredName(nvrtcProgram, const char *, const char **);
int nvrtcGetPTXSize(nvrtcProgram, size_t *);
int nvrtcGetPTX(nvrtcProgram, char *);
int nvrtcDestroyProgram(nvrtcProgram *);

static void *compiler;
#define LOOK_UP(name) (compiler ? (__typeof__(&name))dlsym(compiler, #name) : name)

enum { N = 256 };

int main(int argc, char **argv) {
    if (mode_is(argc, argv, "looked_up")) {
        compiler = dlopen("libnvrtc.so", RTLD_NOW);
        REQUIRE(compiler);
    }
    const char *source = "#include <scale.h>\n// as given to the compiler\n";
    const char *header = "template <typename T> __global__ void scale(T *data, T factor, int n);\n";
    const char *header_name = "scale.h", *options[] = {"-std=c++17", "--gpu-architecture=compute_75"}, *wrong = "--wrong", *lowered;
    nvrtcProgram program;
    size_t bytes;
    REQUIRE(LOOK_UP(nvrtcCreateProgram)(&program, NULL, "none.cu", 0, NULL, NULL) == 3);
    REQUIRE(LOOK_UP(nvrtcCreateProgram)(&program, source, "scale.cu", 1, &header, &header_name) == 0);
    REQUIRE(LOOK_UP(nvrtcAddNameExpression)(program, "scale<float>") == 0);
    REQUIRE(LOOK_UP(nvrtcCompileProgram)(program, 1, &wrong) == 5);
    REQUIRE(LOOK_UP(nvrtcCompileProgram)(program, 2, options) == 0);
    REQUIRE(LOOK_UP(nvrtcGetLoweredName)(program, "scale<float>", &lowered) == 0);
    REQUIRE(LOOK_UP(nvrtcGetPTXSize)(program, &bytes) == 0);
    char *ptx = malloc(bytes), *name = strdup(lowered);
    REQUIRE(LOOK_UP(nvrtcGetPTX)(program, ptx) == 0);
    REQUIRE(LOOK_UP(nvrtcDestroyProgram)(&program) == 0);

    start();
    CUmodule module;
    CHECK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    memset(ptx, 'x', bytes); /* The program need not keep it. */
    free(ptx);
    CUdeviceptr data = ramp(N, 1);
    float factor = 2;
    int n = N;
    void *params[] = {&data, &factor, &n};
    CHECK(cuLaunchKernel(kernel(module, name), 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    printf("%s: %.1f\n", name, sum(data, N));
    return 0;
}
