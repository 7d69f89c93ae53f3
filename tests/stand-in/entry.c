/* What happens to every call before it does anything: the log, the refusals that a test asks for,
 * and the states in which a real driver refuses. Also start-up, error texts, and what fails always. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

static pid_t initialised_in;
static bool torn_down;

const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

long setting_number(const char *name, long otherwise) {
    const char *value = setting(name);
    return value ? strtol(value, NULL, 0) : otherwise;
}

_Noreturn void misuse(const char *what) {
    dprintf(STDERR_FILENO, "stand-in driver: %s\n", what);
    abort();
}

void *tagged(size_t bytes, enum tag tag) {
    enum tag *handle = calloc(1, bytes);
    if (!handle) misuse("out of host memory");
    *handle = tag;
    return handle;
}

bool has_tag(const void *handle, enum tag tag) {
    return handle && *(const enum tag *)handle == tag;
}

/* STANDIN_LOG=FILE: one line a call, "thread name". */
static void log_call(const char *name) {
    static atomic_int file = -2;
    if (file == -1) return;
    if (file == -2) {
        const char *path = setting("STANDIN_LOG");
        file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
        if (file == -1) return;
    }
    char line[128];
    int length = snprintf(line, sizeof line, "%ld %s\n", syscall(SYS_gettid), name);
    if (write(file, line, (size_t)length) < 0) return;
}

/* STANDIN_FAIL=NAME:N[+][:ERROR],…: the Nth call (with +, every call from the Nth on) fails. */
static CUresult asked_to_fail(const char *name, int call) {
    const char *at = setting("STANDIN_FAIL");
    size_t length = strlen(name);
    for (; at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        if (strncmp(at, name, length) != 0 || at[length] != ':') continue;
        char *end;
        long wanted = strtol(at + length + 1, &end, 10);
        bool onwards = *end == '+';
        if (onwards) end++;
        if (call != wanted && !(onwards && call > wanted)) continue;
        return *end == ':' ? (CUresult)strtol(end + 1, NULL, 10) : CUDA_ERROR_UNKNOWN;
    }
    return CUDA_SUCCESS;
}

/* STANDIN_MEET=A,B: after cuProfilerStart, the next call of A and the next call of B wait for each
 * other, so that they are under way at the same time. Calls that cannot meet end the process:
 * somebody holds a lock. */
static bool meeting;
static void meet(const char *name) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    static bool here[2];
    const char *names = setting("STANDIN_MEET");
    if (!names || !meeting) return;
    const char *comma = strchr(names, ',');
    size_t length = strlen(name);
    if (!comma) return;
    bool first = length == (size_t)(comma - names) && strncmp(names, name, length) == 0;
    if (!first && strcmp(comma + 1, name) != 0) return;
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 20;
    pthread_mutex_lock(&lock);
    here[!first] = true;
    pthread_cond_broadcast(&changed);
    while (!here[first])
        if (pthread_cond_timedwait(&changed, &lock, &limit) != 0) misuse("two calls did not meet: a lock is held across one of them");
    pthread_mutex_unlock(&lock);
}

CUresult enter(struct entry *entry, bool needs_init) {
    log_call(entry->name);
    const char *slow = setting("STANDIN_SLOW");
    if (slow && strcmp(slow, entry->name) == 0) nanosleep(&(struct timespec){0, 100000000}, NULL);
    if (torn_down) {
        /* STANDIN_TEARDOWN=abort: a call that comes this late ends the process. */
        const char *teardown = setting("STANDIN_TEARDOWN");
        if (teardown && strcmp(teardown, "abort") == 0) {
            char text[160];
            snprintf(text, sizeof text, "%s was called after the driver was shut down", entry->name);
            misuse(text);
        }
        return CUDA_ERROR_DEINITIALIZED;
    }
    meet(entry->name);
    CUresult failure = asked_to_fail(entry->name, ++entry->seen);
    if (failure != CUDA_SUCCESS) return failure;
    /* A child after fork has to start anew and cannot: that is what the real one says too. */
    if (needs_init && initialised_in != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
    return CUDA_SUCCESS;
}

static void tear_down(void) {
    if (initialised_in == getpid()) torn_down = true;
}

/* The real driver shuts down when the process unwinds: after the program's own handlers, or before
 * those that were registered before cuInit. STANDIN_TEARDOWN=atexit|abort chooses the second. */
__attribute__((destructor)) static void at_unload(void) { tear_down(); }

static const struct { CUresult code; const char *name, *text; } ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

/* Drivers look symbols up while they start, their own among them, with their own lock held. */
static void look_things_up(void) {
    static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&starting);
    int version;
    CUresult (*own)(int *) = (CUresult (*)(int *))dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
    if (own) own(&version);
    dlsym(RTLD_DEFAULT, "a_name_that_nobody_has");
    dlerror();
    pthread_mutex_unlock(&starting);
}

/* A process that uses a GPU holds /dev/nvidia-uvm open, by which one can tell. Here it is a file of
 * that name beside the library, if there is one. */
static void open_device(void) {
    Dl_info here;
    char path[4096];
    if (!dladdr((void *)ERRORS, &here) || !strrchr(here.dli_fname, '/')) return;
    int folder = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
    snprintf(path, sizeof path, "%.*s/nvidia-uvm", folder, here.dli_fname);
    int device = open(path, O_RDONLY | O_CLOEXEC);
    (void)device; /* Kept open to the end. */
}

CUresult cuInit(unsigned flags) {
    ENTER_UNINITIALISED;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (initialised_in && initialised_in != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!initialised_in) {
        initialised_in = getpid();
        look_things_up();
        open_device();
        if (setting("STANDIN_TEARDOWN")) atexit(tear_down);
    }
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    ENTER_UNINITIALISED;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = (int)setting_number("STANDIN_DRIVER_VERSION", 13000);
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    ENTER_UNINITIALISED;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == error) return *name = ERRORS[i].name, CUDA_SUCCESS;
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    ENTER_UNINITIALISED;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == error) return *text = ERRORS[i].text, CUDA_SUCCESS;
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

/* No private tables: programs on NVIDIA's runtime library cannot run here. */
CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    ENTER_UNINITIALISED;
    (void)id;
    if (table) *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuProfilerStart(void) {
    ENTER;
    meeting = true;
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void) { ENTER; return CUDA_SUCCESS; }
