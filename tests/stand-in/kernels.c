/* What the kernels of programs/kernels.cu do, in C: the stand-in does not execute PTX. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "kernels.h"

/* Threads of the launch along x, which is all that these kernels use. */
static int threads(const struct launch *launch) { return (int)(launch->grid[0] * launch->block[0]); }
static int limit(const struct launch *launch, int n) {
    if (n < 0) return 0;
    return n < threads(launch) ? n : threads(launch);
}

/* Memory that the driver does not know, or that this device may not access, is a fault, which stays with the context, unless
 * STANDIN_ALL_HOST_MEMORY says that the device sees all memory of the host. */
static bool reachable(const struct launch *launch, const volatile void *memory, size_t bytes) {
    if (bytes == 0 || readable_memory((uintptr_t)memory, bytes, launch->context->device) || setting("STANDIN_ALL_HOST_MEMORY")) return true;
    launch->context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    return false;
}
#define NEEDS(memory, bytes) \
    if (!reachable(launch, memory, bytes)) return

static void nop(const struct launch *launch) { (void)launch; }

static void saxpy(const struct launch *launch) {
    float *y = ARGUMENT(launch, float *, 0);
    const float *x = ARGUMENT(launch, const float *, 1);
    float a = ARGUMENT(launch, float, 2);
    int n = limit(launch, ARGUMENT(launch, int, 3));
    NEEDS(y, (size_t)n * 4);
    NEEDS(x, (size_t)n * 4);
    for (int i = 0; i < n; i++) y[i] = __builtin_fmaf(a, x[i], y[i]);
}

static void fill(const struct launch *launch) {
    unsigned *out = ARGUMENT(launch, unsigned *, 0);
    unsigned value = ARGUMENT(launch, unsigned, 1);
    int n = limit(launch, ARGUMENT(launch, int, 2));
    NEEDS(out, (size_t)n * 4);
    for (int i = 0; i < n; i++) out[i] = value;
}

static void count(const struct launch *launch) { *(unsigned *)variable(launch->function->module, "counter") += 1; }

static void add_constants(const struct launch *launch) {
    float *y = ARGUMENT(launch, float *, 0);
    int n = limit(launch, ARGUMENT(launch, int, 1));
    const float *coefficients = variable(launch->function->module, "coefficients");
    const float *table = variable(launch->function->module, "table");
    NEEDS(y, (size_t)n * 4);
    for (int i = 0; i < n; i++) y[i] += coefficients[i % 4] + table[i % 4];
}

struct node { struct node *next; unsigned value, weight; };

static void walk(const struct launch *launch) {
    unsigned total = 0;
    for (struct node *at = ARGUMENT(launch, struct node *, 0); at; at = at->next) {
        NEEDS(at, sizeof *at);
        at->weight += 1;
        total += at->value;
    }
    NEEDS(ARGUMENT(launch, unsigned *, 1), 4);
    *ARGUMENT(launch, unsigned *, 1) = total;
}

struct arguments { float *out; int n; const float *in; signed char kind; };

static void by_value(const struct launch *launch) {
    struct arguments a = ARGUMENT(launch, struct arguments, 0);
    int n = limit(launch, a.n);
    NEEDS(a.out, (size_t)n * 4);
    NEEDS(a.in, (size_t)n * 4);
    for (int i = 0; i < n; i++) a.out[i] = a.in[i] + (float)a.kind;
}

static void spin(const struct launch *launch) {
    volatile unsigned *flag = ARGUMENT(launch, volatile unsigned *, 0);
    NEEDS(flag, 4);
    while (*flag == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* A kernel that faults leaves its error in the context: every later call returns it. */
static void fault(const struct launch *launch) { launch->context->sticky = CUDA_ERROR_LAUNCH_FAILED; }

static void scale(const struct launch *launch) {
    float *data = ARGUMENT(launch, float *, 0);
    float factor = ARGUMENT(launch, float, 1);
    int n = limit(launch, ARGUMENT(launch, int, 2));
    NEEDS(data, (size_t)n * 4);
    for (int i = 0; i < n; i++) data[i] *= factor;
}

static const struct { const char *name; kernel_body body; } BODIES[] = {
    {"nop", nop},   {"saxpy", saxpy},       {"fill", fill}, {"count", count}, {"add_constants", add_constants},
    {"walk", walk}, {"by_value", by_value}, {"spin", spin}, {"fault", fault}, {"_Z5scaleIfEvPT_S0_i", scale},
    {"compare_chunks", compare_chunks}, {"r3_fingerprint", fingerprint},
};

kernel_body find_body(const char *name) {
    for (size_t i = 0; i < sizeof BODIES / sizeof *BODIES; i++)
        if (strcmp(BODIES[i].name, name) == 0) return BODIES[i].body;
    return NULL;
}
