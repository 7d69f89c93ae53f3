/* Streams, events, stream capture and graphs. Each stream runs its work on a thread of its own, so
 * that a missing wait shows; STANDIN_DELAY_US=N lets each piece of work take up to N microseconds. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

struct queued { struct queued *next; struct work *work; };

struct capture {
    struct capture *next;
    unsigned long long id;
    CUstreamCaptureMode mode;
    bool invalidated;
    CUgraph graph;
    CUstream origin;
    pthread_t owner;
};

struct CUstream_st {
    enum tag tag;
    CUstream next; /* In the context's list. */
    CUcontext context;
    unsigned flags;
    int priority;
    unsigned long long id;
    bool destroyed;

    pthread_mutex_t lock; /* For what follows. */
    pthread_cond_t changed;
    bool started;
    struct queued *first, **last;
    uint64_t pushed, done;

    struct capture *capture; /* Under capture_lock. */
};

struct CUevent_st {
    enum tag tag;
    CUstream stream; /* Under event_lock: where it was recorded last, and how far that stream had come. */
    uint64_t position;
    struct capture *captured;
    double seconds;
};

struct CUgraphNode_st { enum tag tag; struct work *work; };
struct CUgraph_st { enum tag tag; CUgraphNode *nodes; size_t count, room; };
struct CUgraphExec_st { enum tag tag; struct work **works; size_t count; };

static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER; /* Order of work between streams. */
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t event_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- Work ---- */

struct work *new_work(size_t bytes, CUgraphNodeType type, void (*run)(struct work *), void (*drop)(struct work *)) {
    struct work *work = calloc(1, bytes);
    if (!work) misuse("out of host memory");
    work->references = 1;
    work->type = type;
    work->run = run;
    work->drop = drop;
    return work;
}

void drop_work(struct work *work) {
    if (--work->references > 0) return;
    if (work->drop) work->drop(work);
    free(work);
}

/* ---- Streams ---- */

CUresult new_stream(CUcontext context, unsigned flags, int priority, CUstream *stream) {
    static atomic_ullong ids;
    CUstream made = tagged(sizeof *made, TAG_STREAM);
    made->context = context;
    made->flags = flags;
    made->priority = priority;
    made->id = ++ids;
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    pthread_mutex_lock(&order_lock);
    made->next = context->streams;
    context->streams = made;
    pthread_mutex_unlock(&order_lock);
    *stream = made;
    return CUDA_SUCCESS;
}

static void *serve(void *argument) {
    CUstream stream = argument;
    long delay = setting_number("STANDIN_DELAY_US", 0);
    unsigned seed = (unsigned)stream->id;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->first) pthread_cond_wait(&stream->changed, &stream->lock);
        struct queued *queued = stream->first;
        stream->first = queued->next;
        if (!stream->first) stream->last = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        if (delay > 0) usleep((useconds_t)(rand_r(&seed) % delay));
        if (!stream->context->sticky) queued->work->run(queued->work);
        drop_work(queued->work);
        free(queued);
        pthread_mutex_lock(&stream->lock);
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
    }
    return NULL;
}

static uint64_t push(CUstream stream, struct work *work) {
    struct queued *queued = malloc(sizeof *queued);
    if (!queued) misuse("out of host memory");
    *queued = (struct queued){NULL, work};
    work->context = stream->context;
    pthread_mutex_lock(&stream->lock);
    if (!stream->started) {
        /* The program's signals are the program's. */
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, stream) != 0) misuse("cannot start a thread");
        pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        stream->started = true;
    }
    *stream->last = queued;
    stream->last = &queued->next;
    uint64_t position = ++stream->pushed;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return position;
}

static void wait_until(CUstream stream, uint64_t position) {
    pthread_mutex_lock(&stream->lock);
    while (stream->done < position) pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

static bool reached(CUstream stream, uint64_t position) {
    pthread_mutex_lock(&stream->lock);
    bool result = stream->done >= position;
    pthread_mutex_unlock(&stream->lock);
    return result;
}

struct wait_work { struct work work; CUstream stream; uint64_t position; };
static void run_wait(struct work *work) {
    struct wait_work *wait = (struct wait_work *)work;
    wait_until(wait->stream, wait->position);
}

static struct work *wait_for(CUstream stream, uint64_t position) {
    struct wait_work *wait = (void *)new_work(sizeof *wait, CU_GRAPH_NODE_TYPE_EMPTY, run_wait, NULL);
    wait->stream = stream;
    wait->position = position;
    return &wait->work;
}

static bool blocking(CUstream stream) { return !(stream->flags & CU_STREAM_NON_BLOCKING); }

/* The default stream and the blocking streams wait for each other. Under order_lock. */
static void order(CUstream stream) {
    CUcontext context = stream->context;
    if (stream == context->legacy) {
        for (CUstream other = context->streams; other; other = other->next)
            if (other != stream && blocking(other) && !reached(other, other->pushed)) push(stream, wait_for(other, other->pushed));
    } else if (blocking(stream) && !reached(context->legacy, context->legacy->pushed)) {
        push(stream, wait_for(context->legacy, context->legacy->pushed));
    }
}

CUresult resolve_stream(CUstream handle, bool per_thread, CUstream *stream) {
    static _Thread_local struct { CUcontext context; CUstream stream; } mine[8];
    CONTEXT(context);
    if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        if (!has_tag(handle, TAG_STREAM)) misuse("a stream handle that is none");
        if (handle->destroyed) return CUDA_ERROR_INVALID_HANDLE;
        *stream = handle;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_LEGACY || (!handle && !per_thread)) {
        *stream = context->legacy;
        return CUDA_SUCCESS;
    }
    for (int i = 0; i < 8; i++) {
        if (!mine[i].context) {
            mine[i].context = context;
            CUresult result = new_stream(context, CU_STREAM_DEFAULT, 0, &mine[i].stream);
            if (result != CUDA_SUCCESS) return result;
        }
        if (mine[i].context == context) return *stream = mine[i].stream, CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    ENTER;
    CONTEXT(context);
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    return new_stream(context, flags, priority, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    ENTER;
    CONTEXT(context);
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    return new_stream(context, flags, 0, stream);
}

/* The handle becomes invalid; work that is queued still runs. */
CUresult cuStreamDestroy_v2(CUstream stream) {
    ENTER;
    if (!has_tag(stream, TAG_STREAM) || stream->destroyed) return CUDA_ERROR_INVALID_HANDLE;
    stream->destroyed = true;
    return CUDA_SUCCESS;
}

CUresult wait_for_context(CUcontext context) {
    pthread_mutex_lock(&order_lock);
    CUstream stream = context->streams;
    pthread_mutex_unlock(&order_lock);
    for (; stream; stream = stream->next) wait_until(stream, stream->pushed);
    return (CUresult)context->sticky;
}

void destroy_streams(CUcontext context) {
    pthread_mutex_lock(&order_lock);
    for (CUstream stream = context->streams; stream; stream = stream->next) stream->destroyed = true;
    pthread_mutex_unlock(&order_lock);
}

/* ---- Capture: what is allowed ---- */

bool is_capturing(CUstream stream) { return stream->capture != NULL; }

CUresult unsafe_call(void) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    for (struct capture *capture = captures; capture; capture = capture->next) {
        if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
        bool mine = pthread_equal(capture->owner, pthread_self());
        bool global = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!mine && !global) continue;
        capture->invalidated = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

/* A call that a capture of this very stream cannot bear. */
static CUresult refuse_capturing(CUstream stream) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    if (stream->capture) {
        stream->capture->invalidated = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

/* The default stream may not be used while a blocking stream is captured. */
static CUresult refuse_implicit(CUstream stream, bool invalidate) {
    CUresult result = CUDA_SUCCESS;
    if (stream != stream->context->legacy) return result;
    pthread_mutex_lock(&capture_lock);
    for (CUstream other = stream->context->streams; other; other = other->next) {
        if (!other->capture || !blocking(other)) continue;
        if (invalidate) other->capture->invalidated = true;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

/* Queues work, or captures it; `position` is where it stands in the stream, 0 if captured. */
static CUresult submit_at(CUstream stream, struct work *work, uint64_t *position) {
    *position = 0;
    pthread_mutex_lock(&capture_lock);
    if (stream->capture) {
        CUresult result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (!stream->capture->invalidated) result = add_node(stream->capture->graph, work, NULL);
        else drop_work(work);
        pthread_mutex_unlock(&capture_lock);
        return result;
    }
    pthread_mutex_unlock(&capture_lock);
    CUresult implicit = refuse_implicit(stream, true);
    if (implicit != CUDA_SUCCESS) {
        drop_work(work);
        return implicit;
    }
    pthread_mutex_lock(&order_lock);
    order(stream);
    *position = push(stream, work);
    pthread_mutex_unlock(&order_lock);
    return CUDA_SUCCESS;
}

CUresult submit(CUstream stream, struct work *work) {
    uint64_t position;
    return submit_at(stream, work, &position);
}

CUresult submit_and_wait(CUstream stream, struct work *work) {
    uint64_t position;
    CUresult result = submit_at(stream, work, &position);
    if (result != CUDA_SUCCESS) return result;
    wait_until(stream, position);
    return (CUresult)stream->context->sticky;
}

CUresult synchronise_context(CUcontext context) {
    CUresult result = CUDA_SUCCESS;
    for (CUstream stream = context->streams; stream; stream = stream->next) {
        CUresult refused = refuse_capturing(stream);
        if (refused != CUDA_SUCCESS) result = refused;
    }
    return result != CUDA_SUCCESS ? result : wait_for_context(context);
}

#define STREAM(stream, handle)                                         \
    CUstream stream;                                                   \
    CUresult unresolved_ = resolve_stream(handle, per_thread, &stream); \
    if (unresolved_ != CUDA_SUCCESS) return unresolved_

TWINS(cuStreamSynchronize, _ptsz, (CUstream handle), handle) {
    STREAM(stream, handle);
    CUresult refused = refuse_capturing(stream);
    if (refused == CUDA_SUCCESS) refused = refuse_implicit(stream, true);
    if (refused != CUDA_SUCCESS) return refused;
    pthread_mutex_lock(&order_lock);
    order(stream);
    uint64_t position = stream->pushed;
    pthread_mutex_unlock(&order_lock);
    wait_until(stream, position);
    return (CUresult)stream->context->sticky;
}

TWINS(cuStreamQuery, _ptsz, (CUstream handle), handle) {
    STREAM(stream, handle);
    CUresult refused = refuse_capturing(stream);
    if (refused == CUDA_SUCCESS) refused = refuse_implicit(stream, true);
    if (refused != CUDA_SUCCESS) return refused;
    if (stream == stream->context->legacy) {
        pthread_mutex_lock(&order_lock);
        order(stream);
        pthread_mutex_unlock(&order_lock);
    }
    return reached(stream, stream->pushed) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

TWINS(cuStreamGetFlags, _ptsz, (CUstream handle, unsigned *flags), handle, flags) {
    STREAM(stream, handle);
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

TWINS(cuStreamGetPriority, _ptsz, (CUstream handle, int *priority), handle, priority) {
    STREAM(stream, handle);
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

TWINS(cuStreamGetId, _ptsz, (CUstream handle, unsigned long long *id), handle, id) {
    STREAM(stream, handle);
    *id = stream->id;
    return CUDA_SUCCESS;
}

TWINS(cuStreamGetCtx, _ptsz, (CUstream handle, CUcontext *context), handle, context) {
    STREAM(stream, handle);
    *context = stream->context;
    return CUDA_SUCCESS;
}

TWINS(cuStreamAttachMemAsync, _ptsz, (CUstream handle, CUdeviceptr address, size_t bytes, unsigned flags), handle, address, bytes,
      flags) {
    STREAM(stream, handle);
    (void)stream, (void)bytes, (void)flags;
    struct range range;
    return find_range(address, &range) && range.kind == MEMORY_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct host_work { struct work work; CUhostFn function; void *data; };
static void run_host(struct work *work) {
    struct host_work *host = (struct host_work *)work;
    host->function(host->data);
}

TWINS(cuLaunchHostFunc, _ptsz, (CUstream handle, CUhostFn function, void *data), handle, function, data) {
    STREAM(stream, handle);
    struct host_work *work = (void *)new_work(sizeof *work, CU_GRAPH_NODE_TYPE_HOST, run_host, NULL);
    work->function = function;
    work->data = data;
    return submit(stream, &work->work);
}

/* ---- Events ---- */

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    ENTER;
    CONTEXT(context);
    (void)context, (void)flags;
    *event = tagged(sizeof **event, TAG_EVENT);
    return CUDA_SUCCESS;
}

/* The memory stays: work that is queued may still write the time. */
CUresult cuEventDestroy_v2(CUevent event) {
    ENTER;
    return has_tag(event, TAG_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

struct stamp_work { struct work work; CUevent event; };
static void run_stamp(struct work *work) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ((struct stamp_work *)work)->event->seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static CUresult record(CUevent event, CUstream handle, bool per_thread) {
    STREAM(stream, handle);
    if (!has_tag(event, TAG_EVENT)) misuse("an event handle that is none");
    struct stamp_work *work = (void *)new_work(sizeof *work, CU_GRAPH_NODE_TYPE_EMPTY, run_stamp, NULL);
    work->event = event;
    struct capture *capture = stream->capture;
    uint64_t position;
    CUresult result = submit_at(stream, &work->work, &position);
    if (result != CUDA_SUCCESS) return result;
    pthread_mutex_lock(&event_lock);
    event->stream = stream;
    event->position = position;
    event->captured = capture;
    pthread_mutex_unlock(&event_lock);
    return CUDA_SUCCESS;
}

TWINS(cuEventRecord, _ptsz, (CUevent event, CUstream stream), event, stream) { return record(event, stream, per_thread); }
TWINS(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned flags), event, stream, flags) {
    (void)flags;
    return record(event, stream, per_thread);
}

/* Where the event stands; false if it was never recorded. */
static bool event_position(CUevent event, CUstream *stream, uint64_t *position, struct capture **captured) {
    if (!has_tag(event, TAG_EVENT)) misuse("an event handle that is none");
    pthread_mutex_lock(&event_lock);
    *stream = event->stream;
    *position = event->position;
    *captured = event->captured;
    pthread_mutex_unlock(&event_lock);
    return *stream != NULL;
}

CUresult cuEventQuery(CUevent event) {
    ENTER;
    CONTEXT(context);
    (void)context;
    CUstream stream;
    uint64_t position;
    struct capture *captured;
    if (!event_position(event, &stream, &position, &captured)) return CUDA_SUCCESS;
    if (captured) return CUDA_ERROR_CAPTURED_EVENT;
    return reached(stream, position) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
    ENTER;
    CONTEXT(context);
    CUstream stream;
    uint64_t position;
    struct capture *captured;
    if (!event_position(event, &stream, &position, &captured)) return CUDA_SUCCESS;
    if (captured) return CUDA_ERROR_CAPTURED_EVENT;
    wait_until(stream, position);
    return (CUresult)context->sticky;
}

static CUresult elapsed(float *ms, CUevent start, CUevent end) {
    CONTEXT(context);
    (void)context;
    CUevent events[2] = {start, end};
    for (int i = 0; i < 2; i++) {
        CUstream stream;
        uint64_t position;
        struct capture *captured;
        if (!event_position(events[i], &stream, &position, &captured)) return CUDA_ERROR_INVALID_HANDLE;
        if (captured) return CUDA_ERROR_CAPTURED_EVENT;
        if (!reached(stream, position)) return CUDA_ERROR_NOT_READY;
    }
    *ms = (float)(1e3 * (end->seconds - start->seconds));
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) { ENTER; return elapsed(ms, start, end); }
CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end) { ENTER; return elapsed(ms, start, end); }

TWINS(cuStreamWaitEvent, _ptsz, (CUstream handle, CUevent event, unsigned flags), handle, event, flags) {
    (void)flags;
    STREAM(stream, handle);
    CUstream target;
    uint64_t position;
    struct capture *captured;
    if (!event_position(event, &target, &position, &captured)) return CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    CUresult result = CUDA_SUCCESS;
    if (captured && !stream->capture) stream->capture = captured; /* It joins the capture. */
    else if (captured && stream->capture != captured) result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    else if (!captured && stream->capture) result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (result != CUDA_SUCCESS) stream->capture->invalidated = true;
    pthread_mutex_unlock(&capture_lock);
    if (result != CUDA_SUCCESS || captured) return result;
    return submit(stream, wait_for(target, position));
}

/* ---- Capture: begin and end ---- */

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER;
    CUstreamCaptureMode before = thread_mode;
    if ((unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUresult begin_capture(CUstream stream, CUgraph graph, CUstreamCaptureMode mode) {
    static unsigned long long ids;
    if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture) misuse("out of host memory");
    capture->mode = mode;
    capture->graph = graph ? graph : tagged(sizeof *graph, TAG_GRAPH);
    capture->origin = stream;
    capture->owner = pthread_self();
    pthread_mutex_lock(&capture_lock);
    capture->id = ++ids;
    capture->next = captures;
    captures = capture;
    stream->capture = capture;
    pthread_mutex_unlock(&capture_lock);
    return CUDA_SUCCESS;
}

TWINS(cuStreamBeginCapture_v2, _ptsz, (CUstream handle, CUstreamCaptureMode mode), handle, mode) {
    STREAM(stream, handle);
    return begin_capture(stream, NULL, mode);
}

TWINS(cuStreamBeginCaptureToGraph, _ptsz, (CUstream handle, CUgraph graph, const CUgraphNode *dependencies,
      const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode), handle, graph, dependencies, edges, count, mode) {
    (void)dependencies, (void)edges, (void)count;
    STREAM(stream, handle);
    return has_tag(graph, TAG_GRAPH) ? begin_capture(stream, graph, mode) : CUDA_ERROR_INVALID_VALUE;
}

TWINS(cuStreamEndCapture, _ptsz, (CUstream handle, CUgraph *graph), handle, graph) {
    STREAM(stream, handle);
    pthread_mutex_lock(&capture_lock);
    struct capture *capture = stream->capture;
    CUresult result = CUDA_SUCCESS;
    if (!capture) result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->origin != stream) result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->owner, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (result != CUDA_SUCCESS) {
        pthread_mutex_unlock(&capture_lock);
        return result;
    }
    for (CUstream other = stream->context->streams; other; other = other->next)
        if (other->capture == capture) other->capture = NULL;
    for (struct capture **at = &captures; *at; at = &(*at)->next)
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    pthread_mutex_unlock(&capture_lock);
    *graph = capture->invalidated ? NULL : capture->graph;
    return capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS; /* Events may still name it: not freed. */
}

static CUstreamCaptureStatus status_of(const struct capture *capture) {
    if (!capture) return CU_STREAM_CAPTURE_STATUS_NONE;
    return capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

TWINS(cuStreamIsCapturing, _ptsz, (CUstream handle, CUstreamCaptureStatus *status), handle, status) {
    STREAM(stream, handle);
    CUresult implicit = refuse_implicit(stream, false);
    if (implicit != CUDA_SUCCESS) return implicit;
    *status = status_of(stream->capture);
    return CUDA_SUCCESS;
}

TWINS(cuStreamGetCaptureInfo_v2, _ptsz, (CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
      const CUgraphNode **dependencies, size_t *count), handle, status, id, graph, dependencies, count) {
    STREAM(stream, handle);
    CUresult implicit = refuse_implicit(stream, false);
    if (implicit != CUDA_SUCCESS) return implicit;
    *status = status_of(stream->capture);
    if (id) *id = stream->capture ? stream->capture->id : 0;
    if (graph) *graph = stream->capture ? stream->capture->graph : NULL;
    if (dependencies) *dependencies = NULL;
    if (count) *count = 0;
    return CUDA_SUCCESS;
}

/* ---- Graphs: nodes in the order in which they were added ---- */

CUresult add_node(CUgraph graph, struct work *work, CUgraphNode *node) {
    if (graph->count == graph->room) {
        graph->room = graph->room ? 2 * graph->room : 8;
        graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
        if (!graph->nodes) misuse("out of host memory");
    }
    CUgraphNode made = tagged(sizeof *made, TAG_NODE);
    made->work = work;
    graph->nodes[graph->count++] = made;
    if (node) *node = made;
    return CUDA_SUCCESS;
}

struct work *node_work(CUgraphNode node) { return has_tag(node, TAG_NODE) ? node->work : NULL; }

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    ENTER;
    (void)flags;
    *graph = tagged(sizeof **graph, TAG_GRAPH);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    ENTER;
    if (!has_tag(graph, TAG_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < graph->count; i++) {
        drop_work(graph->nodes[i]->work);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
    free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    ENTER;
    if (!has_tag(graph, TAG_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes && i < *count; i++) nodes[i] = i < graph->count ? graph->nodes[i] : NULL;
    if (!nodes || *count > graph->count) *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    ENTER;
    if (!has_tag(node, TAG_NODE)) return CUDA_ERROR_INVALID_VALUE;
    *type = node->work->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    ENTER;
    (void)flags;
    if (!has_tag(graph, TAG_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec made = tagged(sizeof *made, TAG_EXEC);
    made->works = calloc(graph->count + 1, sizeof *made->works);
    if (!made->works) misuse("out of host memory");
    for (; made->count < graph->count; made->count++) {
        made->works[made->count] = graph->nodes[made->count]->work;
        made->works[made->count]->references++;
    }
    *exec = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    ENTER;
    if (!has_tag(exec, TAG_EXEC)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < exec->count; i++) drop_work(exec->works[i]);
    free(exec->works);
    free(exec);
    return CUDA_SUCCESS;
}

TWINS(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream handle), exec, handle) {
    STREAM(stream, handle);
    (void)stream;
    return has_tag(exec, TAG_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

TWINS(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream handle), exec, handle) {
    STREAM(stream, handle);
    if (!has_tag(exec, TAG_EXEC)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < exec->count; i++) {
        exec->works[i]->references++;
        CUresult result = submit(stream, exec->works[i]);
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}
