/* What the parts of the stand-in share. */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

/* Only the driver API is visible outside (stand-in.map names it too). */
#pragma GCC visibility push(hidden)

/* ---- entry.c: every call passes here first ---- */

struct entry {
    const char *name;
    atomic_int seen; /* Calls so far; used by STANDIN_FAIL. */
};

/* Logs the call, and says whether it may go on. */
CUresult enter(struct entry *entry, bool needs_init);

#define ENTER_(needs_init)                              \
    do {                                                \
        static struct entry entry_ = {__func__, 0};     \
        CUresult refused_ = enter(&entry_, needs_init); \
        if (refused_ != CUDA_SUCCESS) return refused_;  \
    } while (0)
/* At the top of each entry point; the second form for those that work before cuInit. */
#define ENTER ENTER_(true)
#define ENTER_UNINITIALISED ENTER_(false)

/* Defines `name` and its twin for the per-thread default stream. The body sees `per_thread`. */
#define TWINS(name, suffix, parameters, ...)                                  \
    static CUresult name##_on(bool per_thread, ARGUMENTS_OF parameters);      \
    CUresult name parameters { ENTER; return name##_on(false, __VA_ARGS__); } \
    CUresult name##suffix parameters { ENTER; return name##_on(true, __VA_ARGS__); } \
    static CUresult name##_on(bool per_thread, ARGUMENTS_OF parameters)
#define ARGUMENTS_OF(...) __VA_ARGS__

const char *setting(const char *name);      /* A STANDIN_ variable, or NULL. */
long setting_number(const char *name, long otherwise);
_Noreturn void misuse(const char *what);    /* What a real driver would crash on. */

/* Handles start with a tag, so that a handle of another kind is noticed. */
enum tag { TAG_CONTEXT = 0x57000001, TAG_MODULE, TAG_LIBRARY, TAG_FUNCTION, TAG_KERNEL, TAG_STREAM, TAG_EVENT, TAG_POOL,
    TAG_GRAPH, TAG_NODE, TAG_EXEC };
void *tagged(size_t bytes, enum tag tag);
bool has_tag(const void *handle, enum tag tag);

/* ---- device.c ---- */

enum { MAX_DEVICES = 4, LIMITS = 9 };

struct CUctx_st {
    enum tag tag;
    CUdevice device;
    unsigned flags;
    bool primary, destroyed;
    unsigned long long id;
    size_t limits[LIMITS];
    CUfunc_cache cache_config;
    atomic_int sticky; /* The error that a kernel left; every later call returns it. */
    CUstream legacy;   /* The default stream. */
    CUstream streams;  /* All others. */
};

int device_count(void);
bool valid_device(CUdevice device);
/* The current context; NULL (and the error) without one. */
CUcontext current_context(CUresult *error);
#define CONTEXT(variable)                                 \
    CUresult no_context_ = CUDA_SUCCESS;                  \
    CUcontext variable = current_context(&no_context_);   \
    if (!variable) return no_context_

/* ---- memory.c ---- */

enum memory_kind { MEMORY_DEVICE, MEMORY_POOL, MEMORY_MANAGED, MEMORY_MAPPED, MEMORY_HOST, MEMORY_REGISTERED, MEMORY_IPC,
    MEMORY_GLOBAL };

struct range {
    uintptr_t base;
    size_t bytes;
    enum memory_kind kind;
    CUdevice device;
    CUcontext context;
    CUmemoryPool pool;
    unsigned flags;
    unsigned long long id;
    bool accessible;
    unsigned readers; /* The devices that may access it, a bit each. */
};

bool find_range(uintptr_t address, struct range *found);
/* Is every byte in memory that the driver knows? */
bool known_memory(uintptr_t address, size_t bytes);
/* And may kernels on the device access it? */
bool readable_memory(uintptr_t address, size_t bytes, CUdevice device);
bool pinned(const void *pointer);
CUdeviceptr allocate(size_t bytes, enum memory_kind kind, CUcontext context);
CUresult release(CUdeviceptr address, enum memory_kind kind, enum memory_kind or_kind);

/* ---- stream.c: work runs on one thread for each stream ---- */

/* A closure. Graphs keep it and run it often, so running must not consume it. */
struct work {
    atomic_int references;
    CUgraphNodeType type;
    void (*run)(struct work *);
    void (*drop)(struct work *); /* Frees what the closure owns; may be NULL. */
    CUcontext context;
};
struct work *new_work(size_t bytes, CUgraphNodeType type, void (*run)(struct work *), void (*drop)(struct work *));
void drop_work(struct work *work);

CUresult resolve_stream(CUstream handle, bool per_thread, CUstream *stream);
/* Queues the work, or adds it to the graph that the stream is captured into. Takes the reference. */
CUresult submit(CUstream stream, struct work *work);
CUresult submit_and_wait(CUstream stream, struct work *work);
bool is_capturing(CUstream stream);
CUresult wait_for_context(CUcontext context);
/* The same for the program: refused while a stream of the context is captured. */
CUresult synchronise_context(CUcontext context);
void destroy_streams(CUcontext context);
CUresult new_stream(CUcontext context, unsigned flags, int priority, CUstream *stream);
/* Potentially unsafe calls are refused while a capture forbids them, which also invalidates it. */
CUresult unsafe_call(void);
#define UNSAFE_CALL                                           \
    do {                                                      \
        CUresult forbidden_ = unsafe_call();                  \
        if (forbidden_ != CUDA_SUCCESS) return forbidden_;    \
    } while (0)
CUresult add_node(CUgraph graph, struct work *work, CUgraphNode *node);
struct work *node_work(CUgraphNode node);

/* ---- module.c ---- */

enum { MAX_PARAMETERS = 32, FUNCTION_ATTRIBUTES = 17 };

struct launch;
typedef void (*kernel_body)(const struct launch *);

struct code { /* One entry function of one image. */
    char *name;
    unsigned parameters, parameter_bytes;
    unsigned offsets[MAX_PARAMETERS], sizes[MAX_PARAMETERS];
    kernel_body body;
};

struct CUfunc_st {
    enum tag tag;
    const struct code *code;
    CUmodule module;
    int attributes[FUNCTION_ATTRIBUTES];
};

/* The function behind a CUfunction, or behind a CUkernel in the current context. */
CUresult resolve_function(CUfunction handle, CUcontext context, CUfunction *function);
/* A variable of the module, for the kernels. */
void *variable(CUmodule module, const char *name);
/* The modules of a context end with it. */
void unload_modules(CUcontext context);

/* ---- kernels.c and launch.c ---- */

struct launch {
    const struct CUfunc_st *function;
    unsigned grid[3], block[3], shared;
    unsigned char *parameters;
    CUcontext context;
    bool race; /* STANDIN_RACE. */
};
kernel_body find_body(const char *name);
CUresult kernel_work(CUfunction handle, CUcontext context, const unsigned dimensions[6], unsigned shared, void **params,
                     void **extra, struct work **work);

#pragma GCC visibility pop
#endif
