/* A driver library between a program and the software driver. Every entry point passes `enter`, which
 * logs, delays or refuses the call as a test asked, and goes on to the driver's own function; a few
 * take a way of their own (the end of this file). README.md lists what can be asked for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cuda_driver.h"

typedef void *address;

/* ---- The entry points: entry_points.inc has a line ENTRY(number, name) for each ---- */

struct entry {
    const char *name;
    address here, real, there; /* The trampoline, the driver's function, and where the trampoline leads. */
    atomic_int calls;
    int refuse_from; /* LAYER_FAIL; 0: never. */
    bool refuse_on, hidden, slow;
    CUresult refusal;
};

/* A trampoline keeps the caller's stack and registers, so it serves every signature. */
#define ENTRY(number, symbol)                                                                      \
    __asm__(".pushsection .text\n.globl " #symbol "\n.type " #symbol ",@function\n.balign 16\n" #symbol \
            ":\n.cfi_startproc\nendbr64\nmov $" #number ", %r11d\njmp pass\n.cfi_endproc\n"      \
            ".size " #symbol ", .-" #symbol "\n.set here_" #symbol ", " #symbol "\n.popsection\n");
#include "entry_points.inc"
#undef ENTRY

#define ENTRY(number, symbol) extern char here_##symbol[] __attribute__((visibility("hidden")));
#include "entry_points.inc"
#undef ENTRY

static struct entry entries[] = {
#define ENTRY(number, symbol) {.name = #symbol, .here = here_##symbol},
#include "entry_points.inc"
#undef ENTRY
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* Asks `enter` whether to go on, with the argument registers kept; then jumps there, or returns the refusal. */
__asm__(".pushsection .text\n.type pass,@function\npass:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\n"
        "sub $16, %rsp\nmovsd %xmm0, (%rsp)\n"
        "mov %r11d, %edi\ncall enter\nmov %rax, %r11\nmov %edx, %eax\n"
        "movsd (%rsp), %xmm0\nadd $16, %rsp\n"
        "pop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"
        "pop %rbp\n.cfi_def_cfa %rsp, 8\n"
        "test %r11, %r11\njz 1f\njmp *%r11\n1: ret\n.cfi_endproc\n.size pass, .-pass\n.popsection\n");

static struct entry *entry_named(const char *name, size_t length) {
    for (size_t i = 0; i < ENTRIES; i++)
        if (strncmp(entries[i].name, name, length) == 0 && !entries[i].name[length]) return &entries[i];
    return NULL;
}

_Noreturn static void misuse(const char *name, const char *what) {
    dprintf(STDERR_FILENO, "layer: %s %s\n", name, what);
    abort();
}

/* ---- What every call passes ---- */

static int log_file = -1;

/* LAYER_LOG=FILE: one line a call, "thread name". */
static void log_call(const char *name) {
    char line[128];
    int length = snprintf(line, sizeof line, "%ld %s\n", syscall(SYS_gettid), name);
    if (write(log_file, line, (size_t)length) < 0) return;
}

/* LAYER_MEET=A,B: after cuProfilerStart, the next call of A and the next call of B wait for each other,
 * so that they are under way at the same time. Calls that cannot meet end the process: somebody holds a
 * lock. */
static struct entry *meeting[2];
static atomic_bool may_meet;

static void meet(const struct entry *entry) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    static bool here[2];
    if (!may_meet || (entry != meeting[0] && entry != meeting[1])) return;
    bool second = entry == meeting[1];
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 20;
    pthread_mutex_lock(&lock);
    here[second] = true;
    pthread_cond_broadcast(&changed);
    while (!here[!second])
        if (pthread_cond_timedwait(&changed, &lock, &limit) != 0) misuse(entry->name, "met nobody: a lock is held across one of the two calls");
    pthread_mutex_unlock(&lock);
}

static bool strict_end;
static atomic_bool ended;
static void end(void) { ended = true; }

struct way {
    address target; /* NULL: the call is refused. */
    uint64_t refusal;
};

__attribute__((used, visibility("hidden"))) struct way enter(unsigned number) {
    int before = errno;
    struct entry *entry = &entries[number];
    if (log_file >= 0) log_call(entry->name);
    if (entry->slow) nanosleep(&(struct timespec){0, 100000000}, NULL); /* Here its thread can be cancelled. */
    if (ended && strict_end) misuse(entry->name, "was called after the driver was shut down");
    meet(entry);
    int call = ++entry->calls;
    errno = before;
    bool refused = entry->refuse_from && (call == entry->refuse_from || (entry->refuse_on && call > entry->refuse_from));
    return (struct way){refused ? NULL : entry->there, entry->refusal};
}

/* ---- Entry points with a way of their own ---- */

static __typeof__(&cuInit) real_cuInit;
static __typeof__(&cuProfilerStart) real_cuProfilerStart;
static __typeof__(&cuGetProcAddress) real_cuGetProcAddress;
static __typeof__(&cuGetProcAddress_v2) real_cuGetProcAddress_v2, real_cuGetProcAddress_v2_ptsz;
static __typeof__(&cuLaunchKernel) real_cuLaunchKernel;
static const char *folder_of_library(void);

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

/* A process that uses a GPU holds /dev/nvidia-uvm open, by which one can tell. Here it is a file of that
 * name beside the library. */
static void open_device(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/nvidia-uvm", folder_of_library());
    int device = open(path, O_RDONLY | O_CLOEXEC);
    (void)device; /* Kept open to the end. */
}

static CUresult layer_cuInit(unsigned flags) {
    static atomic_bool begun;
    if (!atomic_exchange(&begun, true)) {
        look_things_up();
        open_device();
        /* LAYER_TEARDOWN=abort: before handlers that were registered earlier. */
        if (strict_end) atexit(end);
    }
    return real_cuInit(flags);
}

static CUresult layer_cuProfilerStart(void) {
    may_meet = true;
    return real_cuProfilerStart();
}

/* The driver's answer, as an entry point of this library; NULL if it is hidden. */
static address here(address real, bool *hidden) {
    for (size_t i = 0; i < ENTRIES; i++) {
        if (entries[i].real != real) continue;
        *hidden = entries[i].hidden;
        return *hidden ? NULL : entries[i].here;
    }
    return real;
}

static CUresult layer_cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    bool hidden = false;
    CUresult result = real_cuGetProcAddress(symbol, function, version, flags);
    if (result == CUDA_SUCCESS) *function = here(*function, &hidden);
    return hidden ? CUDA_ERROR_NOT_FOUND : result;
}

static CUresult second_form(__typeof__(real_cuGetProcAddress_v2) real, const char *symbol, void **function, int version,
                            cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    bool hidden = false;
    CUresult result = real(symbol, function, version, flags, status);
    if (result == CUDA_SUCCESS && *function) *function = here(*function, &hidden);
    if (hidden && status) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return result;
}

static CUresult layer_cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                          CUdriverProcAddressQueryResult *status) {
    return second_form(real_cuGetProcAddress_v2, symbol, function, version, flags, status);
}

static CUresult layer_cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, cuuint64_t flags,
                                               CUdriverProcAddressQueryResult *status) {
    return second_form(real_cuGetProcAddress_v2_ptsz, symbol, function, version, flags, status);
}

/* LAYER_RACE=KERNEL: just after the first launch of KERNEL, 64 KiB of the memory that its first argument
 * points to are overwritten, as another stream of the program could do. */
static const char *racing;

static CUresult layer_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                     unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
                                     void **extra) {
    static atomic_bool raced;
    CUresult result = real_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params, extra);
    const char *name;
    __typeof__(&cuFuncGetName) name_of = (__typeof__(&cuFuncGetName))entry_named("cuFuncGetName", 13)->real;
    if (!racing || !params || name_of(&name, function) != CUDA_SUCCESS || strcmp(name, racing) != 0) return result;
    if (atomic_exchange(&raced, true)) return result;
    __typeof__(&cuMemsetD8Async) set = (__typeof__(&cuMemsetD8Async))entry_named("cuMemsetD8Async", 15)->real;
    if (set(*(CUdeviceptr *)params[0], 0xbb, 1 << 16, stream) != CUDA_SUCCESS) misuse("cuMemsetD8Async", "failed");
    return result;
}

#define OWN(name) {#name, (address)layer_##name, (address *)&real_##name}
static const struct { const char *name; address own; address *real; } OWN_WAYS[] = {
    OWN(cuInit), OWN(cuProfilerStart), OWN(cuGetProcAddress), OWN(cuGetProcAddress_v2), OWN(cuGetProcAddress_v2_ptsz),
    OWN(cuLaunchKernel),
};

/* ---- Start ---- */

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *folder_of_library(void) {
    static char path[4096];
    Dl_info own;
    if (!*path && dladdr((void *)entries, &own) && strrchr(own.dli_fname, '/'))
        snprintf(path, sizeof path, "%.*s", (int)(strrchr(own.dli_fname, '/') - own.dli_fname), own.dli_fname);
    return path;
}

/* A symbol of this very library. (dlsym would be answered by a preloaded library.) */
static address find(const struct link_map *library, const char *name) {
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *table = NULL;
    for (const ElfW(Dyn) *at = library->l_ld; at->d_tag != DT_NULL; at++) {
        if (at->d_tag == DT_SYMTAB) symbols = (const void *)at->d_un.d_ptr;
        if (at->d_tag == DT_STRTAB) strings = (const void *)at->d_un.d_ptr;
        if (at->d_tag == DT_GNU_HASH) table = (const void *)at->d_un.d_ptr;
    }
    if (!symbols || !strings || !table) misuse(library->l_name, "has no symbol table");
    uint32_t buckets = table[0], first = table[1], filter = table[2], hash = 5381;
    for (const unsigned char *c = (const void *)name; *c; c++) hash = hash * 33 + *c;
    const uint32_t *bucket = table + 4 + 2 * filter, *chain = bucket + buckets;
    uint32_t i = bucket[hash % buckets];
    if (i < first) return NULL;
    for (;; i++) {
        uint32_t candidate = chain[i - first];
        if ((candidate | 1) == (hash | 1) && strcmp(strings + symbols[i].st_name, name) == 0)
            return (address)(library->l_addr + symbols[i].st_value);
        if (candidate & 1) return NULL;
    }
}

/* LAYER_FAIL=NAME:N[+][:ERROR],…: the Nth call (with +, every call from the Nth on) fails. */
static void read_refusals(const char *at) {
    for (; at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        const char *colon = strchr(at, ':');
        struct entry *entry = colon ? entry_named(at, (size_t)(colon - at)) : NULL;
        if (!entry) misuse(at, "is not NAME:N");
        char *rest;
        entry->refuse_from = (int)strtol(colon + 1, &rest, 10);
        entry->refuse_on = *rest == '+';
        rest += entry->refuse_on;
        entry->refusal = *rest == ':' ? (CUresult)strtol(rest + 1, NULL, 10) : CUDA_ERROR_UNKNOWN;
    }
}

/* The entries of a list of names. */
static size_t read_names(const char *at, struct entry *found[], size_t room) {
    size_t count = 0;
    while (at && *at && count < room) {
        size_t length = strcspn(at, ",");
        if (!(found[count++] = entry_named(at, length))) misuse(at, "is no entry point");
        at += length + (at[length] == ',');
    }
    return count;
}

__attribute__((constructor)) static void begin(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/driver/libcuda.so.1", folder_of_library());
    struct link_map *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver) misuse(path, "cannot be loaded: the software driver belongs there");
    for (size_t i = 0; i < ENTRIES; i++)
        if (!(entries[i].there = entries[i].real = find(driver, entries[i].name))) misuse(entries[i].name, "is not in the driver");
    for (size_t i = 0; i < sizeof OWN_WAYS / sizeof *OWN_WAYS; i++) {
        struct entry *entry = entry_named(OWN_WAYS[i].name, strlen(OWN_WAYS[i].name));
        *OWN_WAYS[i].real = entry->real;
        entry->there = OWN_WAYS[i].own;
    }

    struct entry *named[32];
    read_refusals(setting("LAYER_FAIL"));
    for (size_t i = read_names(setting("LAYER_HIDE"), named, 32); i-- > 0;) named[i]->hidden = true;
    for (size_t i = read_names(setting("LAYER_SLOW"), named, 32); i-- > 0;) named[i]->slow = true;
    read_names(setting("LAYER_MEET"), meeting, 2);
    racing = setting("LAYER_RACE") ? strdup(setting("LAYER_RACE")) : NULL;
    strict_end = setting("LAYER_STRICT_END");
    if (setting("LAYER_LOG")) log_file = open(setting("LAYER_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

__attribute__((destructor)) static void at_unload(void) { ended = true; }
