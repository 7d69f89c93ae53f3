/* Memory. Device memory is host memory, so a device address is a host address; which ranges the
 * driver knows, and as what, is kept in one table. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "standin.h"

enum { BLOCK = 2 << 20, STEP = 256, SMALL = 1 << 20 };
static const uintptr_t RESERVE_STEP = 32 << 20;
static const uintptr_t POOL_ARENA = 0x302000000;
static const uintptr_t KEPT_FROM = 0x200000000, KEPT_TO = 0x302000000;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define LOCKED(statement)             \
    do {                              \
        pthread_mutex_lock(&lock);    \
        statement;                    \
        pthread_mutex_unlock(&lock);  \
    } while (0)

static const unsigned ALL_DEVICES = ~0u;

static uintptr_t round_up(uintptr_t value, uintptr_t step) { return (value + step - 1) / step * step; }

/* ---- The table of ranges ---- */

static struct range *ranges;
static size_t range_count, range_room;

static void add_range(struct range range) {
    static unsigned long long ids;
    if (range_count == range_room) {
        range_room = range_room ? 2 * range_room : 64;
        ranges = realloc(ranges, range_room * sizeof *ranges);
        if (!ranges) misuse("out of host memory");
    }
    range.id = ++ids;
    ranges[range_count++] = range;
}

static struct range *range_at(uintptr_t address) {
    for (size_t i = 0; i < range_count; i++)
        if (address >= ranges[i].base && address - ranges[i].base < ranges[i].bytes) return &ranges[i];
    return NULL;
}

static void remove_range(struct range *range) { *range = ranges[--range_count]; }

bool find_range(uintptr_t address, struct range *found) {
    struct range *range;
    LOCKED(range = range_at(address); if (range) *found = *range);
    return range != NULL;
}

bool known_memory(uintptr_t address, size_t bytes) {
    struct range range;
    for (uintptr_t end = address + bytes; address < end; address = range.base + range.bytes)
        if (!find_range(address, &range) || !range.accessible) return false;
    return true;
}

bool readable_memory(uintptr_t address, size_t bytes, CUdevice device) {
    struct range range;
    for (uintptr_t end = address + bytes; address < end; address = range.base + range.bytes)
        if (!find_range(address, &range) || !(range.readers & 1u << device)) return false;
    return true;
}

bool pinned(const void *pointer) {
    struct range range;
    return find_range((uintptr_t)pointer, &range);
}

/* ---- Addresses ---- */

/* Where device memory goes: somewhere else in each process, as with the real driver.
 * STANDIN_ARENA=ADDRESS puts it at a known place. */
static uintptr_t device_arena(void) {
    static uintptr_t next;
    if (!next) {
        uint64_t random = 0;
        if (getrandom(&random, sizeof random, 0) < 0) random = (uint64_t)getpid();
        next = (uintptr_t)setting_number("STANDIN_ARENA", 0);
        if (!next) next = 0x100000000000 + random % 0x3f0000000000 / BLOCK * BLOCK;
    }
    return next;
}

static void *map_at(uintptr_t address, size_t bytes, int protection) {
    void *mapped = mmap((void *)address, bytes, protection,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped == MAP_FAILED) return NULL;
    if ((uintptr_t)mapped != address) { /* A kernel that does not know the flag. */
        munmap(mapped, bytes);
        return NULL;
    }
    return mapped;
}

/* The lowest free place at or above `*next`, which moves behind it. */
static uintptr_t map_next(uintptr_t *next, size_t bytes) {
    for (int tries = 0; tries < 4096; tries++) {
        uintptr_t address = *next;
        *next = address + round_up(bytes, BLOCK);
        if (map_at(address, bytes, PROT_READ | PROT_WRITE)) return address;
    }
    return 0;
}

struct hole { struct hole *next; uintptr_t address; size_t bytes; };
struct arena { uintptr_t next, block, block_used; struct hole *holes; };
static struct arena arenas[2];

/* Small allocations share blocks and are reused by size; large ones have their own mapping. */
static uintptr_t take(struct arena *arena, size_t bytes) {
    if (bytes > SMALL) return map_next(&arena->next, round_up(bytes, BLOCK));
    for (struct hole **at = &arena->holes; *at; at = &(*at)->next) {
        if ((*at)->bytes != bytes) continue;
        struct hole *hole = *at;
        uintptr_t address = hole->address;
        *at = hole->next;
        free(hole);
        return address;
    }
    if (!arena->block || arena->block_used + bytes > BLOCK) {
        arena->block = map_next(&arena->next, BLOCK);
        arena->block_used = 0;
        if (!arena->block) return 0;
    }
    uintptr_t address = arena->block + arena->block_used;
    arena->block_used += bytes;
    return address;
}

static void give(struct arena *arena, uintptr_t address, size_t bytes) {
    if (bytes > SMALL) {
        munmap((void *)address, round_up(bytes, BLOCK));
        return;
    }
    struct hole *hole = malloc(sizeof *hole);
    if (!hole) misuse("out of host memory");
    *hole = (struct hole){arena->holes, address, bytes};
    arena->holes = hole;
}

static struct arena *arena_of(enum memory_kind kind) {
    struct arena *arena = &arenas[kind == MEMORY_POOL];
    if (!arena->next) arena->next = kind == MEMORY_POOL ? POOL_ARENA : device_arena();
    return arena;
}

CUdeviceptr allocate(size_t bytes, enum memory_kind kind, CUcontext context) {
    uintptr_t address;
    pthread_mutex_lock(&lock);
    address = take(arena_of(kind), round_up(bytes, STEP));
    if (address)
        add_range((struct range){.base = address, .bytes = bytes, .kind = kind, .device = context->device,
                                 .context = context, .accessible = true,
                                 .readers = kind == MEMORY_MANAGED ? ALL_DEVICES : 1u << context->device});
    pthread_mutex_unlock(&lock);
    return address;
}

CUresult release(CUdeviceptr address, enum memory_kind kind, enum memory_kind or_kind) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct range *range = range_at(address);
    if (range && range->base == address && (range->kind == kind || range->kind == or_kind)) {
        give(arena_of(range->kind), range->base, round_up(range->bytes, STEP));
        remove_range(range);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- Plain allocations ---- */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    ENTER;
    CONTEXT(context);
    (void)context;
    if (free_bytes) *free_bytes = (size_t)140 << 30;
    if (total) *total = (size_t)141 << 30;
    return CUDA_SUCCESS;
}

static CUresult allocate_into(CUdeviceptr *address, size_t bytes, enum memory_kind kind) {
    CONTEXT(context);
    UNSAFE_CALL;
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    *address = allocate(bytes, kind, context);
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    ENTER;
    return allocate_into(address, bytes, MEMORY_DEVICE);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    ENTER;
    if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
    *pitch = round_up(width, 512);
    return allocate_into(address, *pitch * height, MEMORY_DEVICE);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    ENTER;
    if (flags != 1 && flags != 2) return CUDA_ERROR_INVALID_VALUE;
    return allocate_into(address, bytes, MEMORY_MANAGED);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    ENTER;
    CONTEXT(context);
    UNSAFE_CALL;
    if (!address) return CUDA_SUCCESS;
    struct range range;
    if (!find_range(address, &range)) return CUDA_ERROR_INVALID_VALUE;
    wait_for_context(context);
    if (release(address, MEMORY_DEVICE, MEMORY_MANAGED) == CUDA_SUCCESS) return CUDA_SUCCESS;
    return release(address, MEMORY_POOL, MEMORY_POOL);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    ENTER;
    CONTEXT(context);
    (void)context;
    struct range range;
    if (!find_range(address, &range)) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = range.base;
    if (bytes) *bytes = range.bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
    ENTER;
    (void)advice, (void)device;
    return known_memory(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Stream-ordered allocations and pools ---- */

struct CUmemPoolHandle_st { enum tag tag; CUdevice device; uint64_t attributes[16]; };
static CUmemoryPool default_pools[MAX_DEVICES], current_pools[MAX_DEVICES];

static CUmemoryPool default_pool(CUdevice device) {
    CUmemoryPool pool;
    LOCKED(if (!default_pools[device]) {
        default_pools[device] = tagged(sizeof *pool, TAG_POOL);
        default_pools[device]->device = device;
    } pool = default_pools[device]);
    return pool;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    ENTER;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = default_pool(device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    ENTER;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = current_pools[device] ? current_pools[device] : default_pool(device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    ENTER;
    if (!valid_device(device) || !has_tag(pool, TAG_POOL)) return CUDA_ERROR_INVALID_VALUE;
    current_pools[device] = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    ENTER;
    if (!valid_device(properties->location.id)) return CUDA_ERROR_INVALID_VALUE;
    *pool = tagged(sizeof **pool, TAG_POOL);
    (*pool)->device = properties->location.id;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    ENTER;
    return has_tag(pool, TAG_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    ENTER;
    if (!has_tag(pool, TAG_POOL) || (unsigned)attribute >= 16) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&pool->attributes[attribute], value, 8);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    ENTER;
    if (!has_tag(pool, TAG_POOL) || (unsigned)attribute >= 16) return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, &pool->attributes[attribute], 8);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    ENTER;
    (void)keep;
    return has_tag(pool, TAG_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count) {
    ENTER;
    (void)access, (void)count;
    return has_tag(pool, TAG_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct empty_work { struct work work; };
static void run_nothing(struct work *work) { (void)work; }

static CUresult allocate_async(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream handle, bool per_thread) {
    CONTEXT(context);
    CUstream stream;
    CUresult result = resolve_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (is_capturing(stream)) return CUDA_ERROR_NOT_SUPPORTED; /* Memory nodes are beyond the stand-in. */
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    *address = allocate(bytes, MEMORY_POOL, context);
    if (!*address) return CUDA_ERROR_OUT_OF_MEMORY;
    /* The memory is on the pool's device; to others it must be opened (cuMemPoolSetAccess is not done). */
    LOCKED(struct range *range = range_at(*address); range->pool = pool ? pool : current_pools[context->device];
           if (range->pool) { range->device = range->pool->device; range->readers = 1u << range->device; });
    return submit(stream, new_work(sizeof(struct empty_work), CU_GRAPH_NODE_TYPE_EMPTY, run_nothing, NULL));
}

TWINS(cuMemAllocAsync, _ptsz, (CUdeviceptr *address, size_t bytes, CUstream stream), address, bytes, stream) {
    return allocate_async(address, bytes, NULL, stream, per_thread);
}

TWINS(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream), address, bytes, pool,
      stream) {
    if (!has_tag(pool, TAG_POOL)) return CUDA_ERROR_INVALID_VALUE;
    return allocate_async(address, bytes, pool, stream, per_thread);
}

struct free_work { struct work work; CUdeviceptr address; };
static void run_free(struct work *work) {
    CUdeviceptr address = ((struct free_work *)work)->address;
    if (release(address, MEMORY_POOL, MEMORY_POOL) != CUDA_SUCCESS) release(address, MEMORY_DEVICE, MEMORY_DEVICE);
}

TWINS(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream handle), address, handle) {
    CUstream stream;
    CUresult result = resolve_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS) return result;
    struct range range;
    if (!find_range(address, &range) || range.base != address) return CUDA_ERROR_INVALID_VALUE;
    if (range.kind != MEMORY_POOL && range.kind != MEMORY_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    struct free_work *work = (void *)new_work(sizeof *work, CU_GRAPH_NODE_TYPE_EMPTY, run_free, NULL);
    work->address = address;
    return submit(stream, &work->work);
}

/* ---- Host memory ---- */

static CUresult allocate_host(void **pointer, size_t bytes, unsigned flags) {
    CONTEXT(context);
    UNSAFE_CALL;
    if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    LOCKED(add_range((struct range){.base = (uintptr_t)mapped, .bytes = bytes, .kind = MEMORY_HOST, .device = context->device,
                                    .context = context, .flags = flags, .accessible = true, .readers = ALL_DEVICES}));
    *pointer = mapped;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) { ENTER; return allocate_host(pointer, bytes, 2); }

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    ENTER;
    return flags > 7 ? CUDA_ERROR_INVALID_VALUE : allocate_host(pointer, bytes, flags);
}

CUresult cuMemFreeHost(void *pointer) {
    ENTER;
    CONTEXT(context);
    UNSAFE_CALL;
    wait_for_context(context);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct range *range = range_at((uintptr_t)pointer);
    if (range && range->base == (uintptr_t)pointer && range->kind == MEMORY_HOST) {
        munmap(pointer, range->bytes);
        remove_range(range);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned flags) {
    ENTER;
    CONTEXT(context);
    (void)context;
    struct range range;
    if (flags || !find_range((uintptr_t)pointer, &range)) return CUDA_ERROR_INVALID_VALUE;
    if (range.kind != MEMORY_HOST && range.kind != MEMORY_REGISTERED) return CUDA_ERROR_INVALID_VALUE;
    *address = (uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) {
    ENTER;
    struct range range;
    if (!find_range((uintptr_t)pointer, &range) || range.kind != MEMORY_HOST) return CUDA_ERROR_INVALID_VALUE;
    *flags = range.flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    ENTER;
    CONTEXT(context);
    UNSAFE_CALL;
    if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    uintptr_t base = (uintptr_t)pointer;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < range_count; i++)
        if (ranges[i].base < base + bytes && base < ranges[i].base + ranges[i].bytes)
            result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (result == CUDA_SUCCESS)
        add_range((struct range){.base = base, .bytes = bytes, .kind = MEMORY_REGISTERED, .device = context->device,
                                 .context = context, .flags = flags, .accessible = true, .readers = ALL_DEVICES});
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemHostUnregister(void *pointer) {
    ENTER;
    CONTEXT(context);
    wait_for_context(context);
    CUresult result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    pthread_mutex_lock(&lock);
    struct range *range = range_at((uintptr_t)pointer);
    if (range && range->base == (uintptr_t)pointer && range->kind == MEMORY_REGISTERED) {
        remove_range(range);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- IPC: only for memory of cuMemAlloc, as with the real driver; the opened range is a copy ---- */

struct ipc_handle { pid_t process; uintptr_t address; size_t bytes; };

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    ENTER;
    struct range range;
    if (!find_range(address, &range) || range.kind != MEMORY_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    struct ipc_handle inside = {getpid(), range.base, range.bytes};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &inside, sizeof inside);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags) {
    ENTER;
    CONTEXT(context);
    (void)flags;
    struct ipc_handle inside;
    memcpy(&inside, &handle, sizeof inside);
    if (!inside.bytes) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr opened = allocate(inside.bytes, MEMORY_IPC, context);
    if (!opened) return CUDA_ERROR_OUT_OF_MEMORY;
    struct iovec to = {(void *)(uintptr_t)opened, inside.bytes}, from = {(void *)inside.address, inside.bytes};
    if (process_vm_readv(inside.process, &to, 1, &from, 1, 0) < 0) {
        release(opened, MEMORY_IPC, MEMORY_IPC);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = opened;
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    ENTER;
    CONTEXT(context);
    wait_for_context(context);
    return release(address, MEMORY_IPC, MEMORY_IPC);
}

/* ---- Virtual memory: reservations, physical handles, mappings ---- */

struct reservation { struct reservation *next; uintptr_t base; size_t bytes; };
static struct reservation *reservations;

struct physical { int file; size_t bytes; int references; CUmemAllocationProp prop; };
struct mapping { struct mapping *next; uintptr_t base; size_t bytes; struct physical *physical; };
static struct mapping *mappings;

static void *reserve_at(uintptr_t address, size_t bytes) { return map_at(address, bytes, PROT_NONE); }

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    ENTER;
    (void)option;
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    *granularity = BLOCK;
    return CUDA_SUCCESS;
}

/* A hint is taken when it is 32 MiB-aligned, free, and outside of what the driver keeps; otherwise
 * the range moves up or goes elsewhere. STANDIN_RESERVE=elsewhere never takes it. */
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
    ENTER;
    if (!bytes || bytes % BLOCK || flags || (alignment & (alignment - 1))) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t step = alignment > RESERVE_STEP ? alignment : RESERVE_STEP;
    uintptr_t wanted = hint ? round_up(hint, step) : 0;
    if (wanted < KEPT_TO && wanted + bytes > KEPT_FROM) wanted = 0;
    if (setting("STANDIN_RESERVE")) wanted = 0;
    void *reserved = wanted ? reserve_at(wanted, bytes) : NULL;
    if (!reserved) {
        static uintptr_t next = 0x510000000000;
        pthread_mutex_lock(&lock);
        for (int tries = 0; !reserved && tries < 4096; tries++) {
            next = round_up(next, step);
            reserved = reserve_at(next, bytes);
            next += bytes;
        }
        pthread_mutex_unlock(&lock);
    }
    if (!reserved) return CUDA_ERROR_OUT_OF_MEMORY;
    struct reservation *reservation = malloc(sizeof *reservation);
    if (!reservation) misuse("out of host memory");
    LOCKED(*reservation = ((struct reservation){reservations, (uintptr_t)reserved, bytes}); reservations = reservation);
    *address = (uintptr_t)reserved;
    return CUDA_SUCCESS;
}

static bool mapped_inside(uintptr_t base, size_t bytes) {
    for (struct mapping *at = mappings; at; at = at->next)
        if (at->base < base + bytes && base < at->base + at->bytes) return true;
    return false;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    ENTER;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct reservation **at = &reservations; *at; at = &(*at)->next) {
        if ((*at)->base != address || (*at)->bytes != bytes) continue;
        if (mapped_inside(address, bytes)) break;
        struct reservation *gone = *at;
        *at = gone->next;
        munmap((void *)gone->base, gone->bytes);
        free(gone);
        result = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags) {
    ENTER;
    if (!bytes || bytes % BLOCK || !prop || flags) return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !valid_device(prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical) misuse("out of host memory");
    physical->file = memfd_create("stand-in", MFD_CLOEXEC);
    if (physical->file < 0 || ftruncate(physical->file, (off_t)bytes) < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    physical->bytes = bytes;
    physical->references = 1;
    physical->prop = *prop;
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

static void drop_physical(struct physical *physical) {
    if (--physical->references > 0) return;
    close(physical->file);
    free(physical);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    ENTER;
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    LOCKED(drop_physical((struct physical *)(uintptr_t)handle));
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    ENTER;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct mapping *at = mappings; at; at = at->next)
        if ((uintptr_t)address >= at->base && (uintptr_t)address - at->base < at->bytes) {
            at->physical->references++;
            *handle = (uintptr_t)at->physical;
            result = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    ENTER;
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    *prop = ((struct physical *)(uintptr_t)handle)->prop;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    ENTER;
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    if (!physical || flags || offset || bytes % BLOCK || bytes > physical->bytes) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct reservation *at = reservations; at; at = at->next) {
        if (address < at->base || address + bytes > at->base + at->bytes || mapped_inside(address, bytes)) continue;
        void *mapped = mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0);
        struct mapping *mapping = malloc(sizeof *mapping);
        if (mapped == MAP_FAILED || !mapping) misuse("cannot map");
        physical->references++;
        *mapping = (struct mapping){mappings, address, bytes, physical};
        mappings = mapping;
        CUdevice device = physical->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? physical->prop.location.id : -1;
        add_range((struct range){.base = address, .bytes = bytes, .kind = MEMORY_MAPPED, .device = device});
        result = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    ENTER;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    bool writable = count && access[count - 1].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].kind != MEMORY_MAPPED || ranges[i].base < address || ranges[i].base + ranges[i].bytes > address + bytes) continue;
        for (size_t k = 0; k < count; k++) {
            if (access[k].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !valid_device(access[k].location.id)) continue;
            unsigned bit = 1u << access[k].location.id;
            ranges[i].readers = access[k].flags ? ranges[i].readers | bit : ranges[i].readers & ~bit;
        }
        ranges[i].accessible = writable || ranges[i].readers;
        mprotect((void *)ranges[i].base, ranges[i].bytes, ranges[i].accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    ENTER;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct mapping **at = &mappings; *at;) {
        struct mapping *mapping = *at;
        if (mapping->base < address || mapping->base + mapping->bytes > address + bytes) {
            at = &mapping->next;
            continue;
        }
        mmap((void *)mapping->base, mapping->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        struct range *range = range_at(mapping->base);
        if (range) remove_range(range);
        *at = mapping->next;
        drop_physical(mapping->physical);
        free(mapping);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- What is at an address? ---- */

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute, const struct range *range, CUdeviceptr address) {
    bool host = range->kind == MEMORY_HOST || range->kind == MEMORY_REGISTERED;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = range->context; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = address; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && range->kind != MEMORY_MANAGED) return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = range->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = range->kind == MEMORY_MANAGED; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = range->device; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)data = range->kind == MEMORY_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = range->base; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = range->bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = range->accessible; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
        CONTEXT(context);
        *(int *)data = range->readers & 1u << context->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
        break;
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)data = range->pool; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER;
    struct range range;
    if (!find_range(address, &range)) return CUDA_ERROR_INVALID_VALUE;
    return pointer_attribute(data, attribute, &range, address);
}

/* Unlike the call for one attribute, this one succeeds for a foreign pointer and stores zeros. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address) {
    ENTER;
    struct range range = {.device = -2};
    bool found = find_range(address, &range);
    for (unsigned i = 0; i < count; i++) {
        switch ((int)attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)data[i] = 0; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data[i] = -2; break;
        default: *(uint64_t *)data[i] = 0;
        }
        if (found) pointer_attribute(data[i], attributes[i], &range, address);
    }
    return CUDA_SUCCESS;
}
