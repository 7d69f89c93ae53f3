/* Heat spreads over a plate: a program on CUDA's driver API, as scripts/demo.sh records it. It knows nothing of R3.
 *
 *   diffuse FILE.ptx [STEPS]         compares the result with the same computation on the host
 *   diffuse FILE.ptx STEPS ROWS      a mistake: the kernel is told of ROWS rows, the buffers have 96
 *
 * The declarations are those of cuda.h, which is not on every machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
CUresult cuInit(unsigned);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoad(CUmodule *, const char *);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuGetErrorName(CUresult, const char **);

enum { WIDTH = 200, HEIGHT = 96 };
static float plate[2][WIDTH * HEIGHT];

static void check(CUresult result, const char *call) {
    const char *name = "unknown";
    if (result == 0) return;
    cuGetErrorName(result, &name);
    printf("%s: %s\n", call, name);
    exit(1);
}
#define CHECK(call) check(call, #call)

static void step(const float *now, float *next) {
    for (int at = 0; at < WIDTH * HEIGHT; at++) {
        int x = at % WIDTH, y = at / WIDTH;
        next[at] = now[at];
        if (x == 0 || x == WIDTH - 1 || y == 0 || y == HEIGHT - 1) continue;
        float around = (now[at - 1] + now[at + 1]) + (now[at - WIDTH] + now[at + WIDTH]);
        next[at] = fmaf(fmaf(now[at], -4.0f, around), 0.125f, now[at]);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE.ptx [STEPS [ROWS]]\n", argv[0]);
        return 2;
    }
    int steps = argc > 2 ? atoi(argv[2]) : 20, width = WIDTH, height = argc > 3 ? atoi(argv[3]) : HEIGHT;

    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction diffuse;
    CUdeviceptr now, next;
    char name[100];
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoad(&module, argv[1]));
    CHECK(cuModuleGetFunction(&diffuse, module, "diffuse"));
    CHECK(cuMemAlloc_v2(&now, sizeof plate[0]));
    CHECK(cuMemAlloc_v2(&next, sizeof plate[0]));

    for (int at = 0; at < WIDTH * HEIGHT; at++) plate[0][at] = (float)(at * 2654435761u >> 20);
    CHECK(cuMemcpyHtoD_v2(now, plate[0], sizeof plate[0]));
    for (int i = 0; i < steps; i++) {
        void *arguments[] = {&now, &next, &width, &height};
        CHECK(cuLaunchKernel(diffuse, (WIDTH + 31) / 32, (unsigned)(height + 7) / 8, 1, 32, 8, 1, 0, NULL, arguments, NULL));
        CHECK(cuCtxSynchronize());
        CUdeviceptr done = next;
        next = now;
        now = done;
    }
    static float result[WIDTH * HEIGHT];
    CHECK(cuMemcpyDtoH_v2(result, now, sizeof result));

    float largest = 0;
    int wrong = 0;
    for (int i = 0; i < steps; i++) step(plate[i % 2], plate[(i + 1) % 2]);
    for (int at = 0; at < WIDTH * HEIGHT; at++) {
        wrong += result[at] != plate[steps % 2][at];
        largest = fmaxf(largest, result[at]);
    }
    printf("%s: %d steps, hottest %.3f, %d of %d cells differ from the host's\n", name, steps, largest, wrong, WIDTH * HEIGHT);
    return wrong != 0;
}
