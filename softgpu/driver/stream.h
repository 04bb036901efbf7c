/*
 * The execution queue: streams, events, capture and graphs turn API calls into items of one graph
 * of dependencies for the whole process; waiters execute them.
 *
 * Start at struct sg_item and sg_engine_wait(). All work is deferred: submitting only links an item
 * behind what it must follow (its stream's last item, events, the legacy stream's rules). Who
 * waits, asks or synchronises executes ready items, the one with the smallest rank first. A rank is
 * drawn from the seed for (stream, position in stream), so the same calls give the same order.
 *
 * Locks: struct sg_engine's own lock guards all of this (items, streams, events, captures,
 * graphs). Nothing of other files is called with it held, except sg_current() and the like, which
 * take no lock. sg_driver.lock is never taken here.
 */
#ifndef SG_DRIVER_STREAM_H
#define SG_DRIVER_STREAM_H

#include "softgpu/driver/driver.h"
#include "softgpu/driver/order.h"
#include "softgpu/driver/trace.h"

#define SG_PRIORITY_LEAST 0
#define SG_PRIORITY_GREATEST (-5)

/* ---- handles: which pointers are ours (handle.c) ----------------- */

/** sg_handle_add - remember a handle; false if there is no memory for it. Any thread. */
bool sg_handle_add(const void *p, uint32_t magic);
void sg_handle_remove(const void *p);
/** sg_handle_is - is @p a living handle of that kind? Never reads through @p. Any thread. */
bool sg_handle_is(const void *p, uint32_t magic);
/** sg_handle_count - how many of a kind live and are @which, which must ask nothing of handles */
size_t sg_handle_count(uint32_t magic, bool (*which)(const void *p));
void sg_handle_fork_prepare(void);
void sg_handle_fork_done(bool child);

/* ---- work -------------------------------------------------------- */

/* Work that several nodes and items share: never changed once made. */
struct sg_wref {
    atomic_uint refs;
    struct sg_work w;
};

/** sg_wref_new - takes over what is in @w, on failure too (NULL: no memory) */
struct sg_wref *sg_wref_new(struct sg_work *w);
struct sg_wref *sg_wref_get(struct sg_wref *r);
void sg_wref_put(struct sg_wref *r); /* NULL is legal */

/* Links of a singly linked list whose memory belongs to the successor. */
struct sg_link {
    struct sg_item *to;
    struct sg_link *next;
};

enum sg_item_state {
    SG_ITEM_WAITING, /* for other items */
    SG_ITEM_READY,
    SG_ITEM_POLLED, /* memory operations: tried again and again */
    SG_ITEM_RUNNING,
    SG_ITEM_DONE,
};

/* What trace.c keeps of an item that somebody wants to hear of. */
struct sg_item_trace {
    enum softgpu_trace_kind kind; /* SOFTGPU_TRACE_NONE: nobody does */
    struct softgpu_trace_tag tag;
    uint64_t graph, node;
    uint64_t id;              /* of an event */
    uint64_t start;           /* of a graph launch, once its first item was reached */
    struct sg_item *first_of; /* this is that item, the launch's last one lives longer */
};

/* One step of execution. Lives while somebody holds a reference; pending ones are held by the
 * engine. */
struct sg_item {
    unsigned refs;
    enum sg_item_state state;
    uint64_t rank; /* ready items run by ascending rank */
    uint64_t seq;  /* submission order in the process */
    uint64_t done_ns;
    CUresult result;
    struct CUstream_st *stream;
    struct CUctx_st *ctx;
    struct sg_wref *work;        /* NULL: nothing to do, only an order */
    struct CUgraphExec_st *exec; /* last item of a graph launch: what it keeps alive */
    unsigned waits;              /* unfinished predecessors */
    unsigned batch_pos;          /* memory operations: how many are done */
    struct sg_item_trace trace;
    struct sg_clock clock;  /* strict mode: what is ordered before it */
    struct sg_epoch epoch;  /* and which work it is, once it runs */
    struct sg_guard *guard; /* host memory that must not be touched until it is done: guard.c */
    struct sg_link *followers;
    struct sg_item *prev, *next; /* pending items, ascending seq */
    unsigned nlinks, maxlinks;
    struct sg_link links[];
};

/* ---- streams ----------------------------------------------------- */

struct sg_node_set { /* nodes that the next captured one follows */
    CUgraphNode *nodes;
    CUgraphEdgeData *edges;
    size_t n, cap;
};

struct CUstream_st {
    uint32_t magic;
    unsigned refs; /* the handle, and every pending item */
    uint64_t id;
    struct CUctx_st *ctx;
    struct CUstream_st *next_in_ctx;
    unsigned flags;
    int priority;
    bool legacy, per_thread;
    bool dead;            /* destroyed, work may be pending */
    uint64_t submitted;   /* items so far: with @id, what ranks are drawn from */
    uint64_t queries;     /* cuStreamQuery calls that executed something */
    struct sg_item *last; /* newest pending item, or NULL */
    /* strict mode: what its finished items knew; NULL stream: what destroyed streams' did */
    struct sg_clock done, gone;
    uint32_t chain;       /* of its last work */
    CUresult async_error; /* of an item, not sticky; told once */
    CUaccessPolicyWindow access_window;
    CUsynchronizationPolicy sync_policy;
    CUlaunchMemSyncDomainMap domain_map;
    CUlaunchMemSyncDomain domain;
    struct sg_capture *capture; /* what it is captured into, or NULL */
    struct CUstream_st *next_in_capture;
    struct sg_node_set tail; /* in capture: what the next node follows */
};

struct CUevent_st {
    uint32_t magic;
    atomic_uint refs; /* the handle, and work of graphs */
    struct CUctx_st *ctx;
    unsigned flags;
    bool dead;
    uint64_t id, queries;
    struct sg_item *item;       /* the last record; NULL: never recorded */
    struct sg_capture *capture; /* last recorded in this capture; then @tail says where */
    struct sg_node_set tail;
    struct CUevent_st *prev, *next; /* all events of the process */
};

/* A capture sequence; kept by its streams and the events recorded in it. */
struct sg_capture {
    unsigned refs;
    uint64_t id;
    CUgraph graph;
    bool owns_graph; /* not cuStreamBeginCaptureToGraph */
    CUstreamCaptureMode mode;
    struct sg_tls *thread; /* that began it */
    struct CUstream_st *origin;
    struct CUstream_st *streams; /* linked by next_in_capture, the origin included */
    bool invalid, ended;
    struct sg_by by; /* strict mode: the call that began it */
    struct sg_capture *next;
};

/* ---- the engine -------------------------------------------------- */

struct sg_job { /* for the thread that calls host functions */
    struct sg_item *item;
    CUhostFn fn; /* destructor of a user object, if @item is NULL */
    void *arg;
    struct sg_job *next;
};

struct sg_engine {
    pthread_mutex_t lock;
    pthread_cond_t changed;      /* an item is done, or the executor is free */
    pthread_cond_t idle;         /* for the background thread */
    pthread_cond_t jobs;         /* for the thread that calls host functions */
    struct sg_item *head, *tail; /* pending, ascending seq */
    unsigned npending;
    struct sg_item **heap; /* ready, smallest rank first */
    unsigned nheap, heap_cap;
    struct sg_item **polled;
    unsigned npolled;
    bool busy;             /* somebody executes device work */
    uint64_t kernel_since; /* it is a kernel, begun then; else 0 */
    bool side;             /* somebody executes a copy or set beside a kernel that does not end */
    unsigned waiters;
    unsigned hosts;        /* host functions that run or wait for their thread */
    uint64_t grace_until;  /* while hosts > 0: others hold still until then */
    uint64_t last_call_ns; /* the background thread acts on silence */
    uint64_t seq, next_stream, next_event, next_capture, next_graph, next_node;
    bool has_host_thread;
    unsigned nidle;         /* background threads */
    unsigned idle_sleepers; /* background threads that sleep until they are told of work */
    unsigned asked;     /* items that a background thread is to run now, for somebody who asks */
    unsigned asked_now; /* those that are being run */
    bool asked_ran;     /* one of them was begun */
    struct sg_job *job_head, *job_tail;
    struct CUevent_st *events;
    struct sg_capture *captures; /* not ended */
    atomic_uint ncaptures;
    struct sg_order *order;      /* strict mode: order_item.c; else NULL */
    struct sg_clock host;        /* what the host has waited for */
    struct sg_memnode *memnodes; /* memory of graph allocation nodes: graph_mem.c */
    uint64_t memnode_used[SG_MAX_DEVICES], memnode_high[SG_MAX_DEVICES];
};

static inline struct sg_engine *sg_engine_lock(void)
{
    pthread_mutex_lock(&sg_driver.engine->lock);
    return sg_driver.engine;
}

static inline void sg_engine_unlock(void)
{
    pthread_mutex_unlock(&sg_driver.engine->lock);
}

/** sg_enter - what every call asks first: CUDA_ERROR_NOT_INITIALIZED, or NOT_PERMITTED inside a
 * host function */
CUresult sg_enter(void);
uint64_t sg_now_ns(void);

/* All of these with the lock held. */

/** sg_item_new - an item that may follow up to @deps others; takes a reference of @work. In no
 * list yet: sg_item_free() or sg_item_submit(). NULL: no memory. */
struct sg_item *sg_item_new(struct CUstream_st *s, struct CUctx_st *ctx, struct sg_wref *work,
                            unsigned deps);
void sg_item_free(struct sg_item *i);
/** sg_item_after - @i runs after @pred; NULL and finished ones are legal */
void sg_item_after(struct sg_item *i, struct sg_item *pred);
void sg_item_submit(struct sg_item *i);
void sg_item_get(struct sg_item *i);
void sg_item_put(struct sg_item *i); /* NULL is legal */

/** sg_heap_take - take a ready item; the one at 0 has the smallest rank, the others lie anyhow */
struct sg_item *sg_heap_take(struct sg_engine *e, unsigned at);

/** sg_stream_fanin - how many items the next one of a stream may have to follow */
unsigned sg_stream_fanin(const struct CUstream_st *s);
/** sg_stream_append - link an item behind its stream's work and submit it */
void sg_stream_append(struct CUstream_st *s, struct sg_item *i);
/** sg_stream_push - sg_item_new() and sg_stream_append(); it also follows @after. @out, if not
 * NULL, receives a reference. */
CUresult sg_stream_push(struct CUstream_st *s, struct CUctx_st *ctx, struct sg_wref *work,
                        struct sg_item *after, struct sg_item **out);

/** sg_engine_wait - execute until @i is done; the lock is released meanwhile. Borrowed. */
void sg_engine_wait(struct sg_item *i);
/** sg_engine_step - execute one ready item; false if there is none or somebody else executes */
bool sg_engine_step(struct sg_engine *e);
/** sg_engine_stuck - does a kernel run for so long that it may wait for something? */
bool sg_engine_stuck(const struct sg_engine *e, uint64_t now);
/** sg_engine_progress - what a query does: a few steps, their number drawn from the seed */
void sg_engine_progress(struct sg_engine *e, uint64_t id, uint64_t *queries, struct sg_item *until);
void sg_item_finish(struct sg_engine *e, struct sg_item *i, CUresult result);
/** sg_engine_push_job - call a function on the thread for host functions */
bool sg_engine_push_job(struct sg_engine *e, struct sg_item *item, CUhostFn fn, void *arg);
void sg_engine_need_idle_thread(struct sg_engine *e);
/* sg_engine_ask - let the idle thread run up to @steps items now; false: there is no such thread */
bool sg_engine_ask(struct sg_engine *e, unsigned steps);
void sg_engine_fork_init(void);

/** sg_memop_check - are these operations legal in that context? Without the lock. */
CUresult sg_memop_check(const CUstreamBatchMemOpParams *ops, unsigned n, unsigned flags,
                        const struct CUctx_st *ctx);
/** sg_memop_advance - carry on with the memory operations of an item; true when all are done, the
 * result in @i->result. With the lock held. */
bool sg_memop_advance(struct sg_item *i);

/** sg_stream_new - a stream of a context (green contexts use it too). Without the lock. */
CUresult sg_stream_new(struct CUctx_st *ctx, unsigned flags, int priority,
                       struct CUstream_st **out);
/** sg_stream_in - the stream a handle means in @ctx; @ptds: NULL is the per-thread one. Without
 * the lock. CUDA_ERROR_INVALID_HANDLE */
CUresult sg_stream_in(struct CUctx_st *ctx, CUstream given, bool ptds, struct CUstream_st **out);
void sg_stream_unref(struct CUstream_st *s);
/** sg_stream_result - the error a wait for a stream must return now: sticky, or told once */
CUresult sg_stream_result(struct CUstream_st *s);

/** sg_event_check - checks a handle, without the lock: CUDA_ERROR_INVALID_HANDLE */
CUresult sg_event_check(CUevent event);
/* References keep the memory, not the event; with or without the lock. */
struct CUevent_st *sg_event_ref(struct CUevent_st *ev);
void sg_event_unref(struct CUevent_st *ev);
/** sg_event_set - @item is what the event now stands for. With the lock; not for dead ones. */
void sg_event_set(struct CUevent_st *ev, struct sg_item *item);
void sg_events_destroy_ctx(struct CUctx_st *ctx);

/* ---- graphs, as the queue knows them: graph.h -------------------- */

/* With the lock. */
void sg_graph_exec_unref(struct CUgraphExec_st *exec);
/** sg_kernel_set_priority - the priority of a stream, which a captured kernel keeps; one that the
 * launch itself asked for stays */
CUresult sg_kernel_set_priority(struct sg_kernel_work *k, int priority);
/** sg_memnode_free - what cuMemFree and cuMemFreeAsync ask first, without the lock: is @addr memory
 * that a graph allocates? Then *@result says whether a launch has allocated it, as the calls go,
 * and it counts as free from here on. */
bool sg_memnode_free(uint64_t addr, CUresult *result);

/* ---- capture ----------------------------------------------------- */

void sg_node_set_clear(struct sg_node_set *set);
CUresult sg_node_set_add(struct sg_node_set *set, CUgraphNode node, const CUgraphEdgeData *edge);
CUresult sg_node_set_merge(struct sg_node_set *set, const struct sg_node_set *from);

void sg_capture_put(struct sg_capture *c);
void sg_capture_invalidate(struct sg_capture *c);
/** sg_capture_join - @s is captured into @c from now on */
void sg_capture_join(struct sg_capture *c, struct CUstream_st *s);
/** sg_capture_add - what submitting to a capturing stream does: a node. Takes over the reference.
 * @out: the node, may be NULL */
CUresult sg_capture_add(struct CUstream_st *s, struct sg_wref *work, CUgraphNode *out);
/** sg_capture_add_child - a node that the caller gives a child graph at once */
CUresult sg_capture_add_child(struct CUstream_st *s, CUgraphNode *out);
/** sg_capture_refuse - the error for what a stream must not do while it, or for the legacy stream
 * a blocking stream, is being captured; invalidates the captures. CUDA_SUCCESS if none is. */
CUresult sg_capture_refuse(struct CUstream_st *s);
/** sg_capture_implicit - CUDA_ERROR_STREAM_CAPTURE_IMPLICIT if @s is the legacy stream and a
 * blocking stream of its context is being captured */
CUresult sg_capture_implicit(struct CUstream_st *s, bool invalidate);
CUresult sg_capture_record(struct CUstream_st *s, struct CUevent_st *ev, unsigned flags);
CUresult sg_capture_wait(struct CUstream_st *s, struct CUevent_st *ev, unsigned flags);
/** sg_capture_end - take the capture off all its streams */
void sg_capture_end(struct sg_capture *c);
/** sg_capture_forbids_ctx - for cuCtxSynchronize and its like: STREAM_CAPTURE_UNSUPPORTED if a
 * stream of the context is being captured; invalidates it. Takes the lock. */
CUresult sg_capture_forbids_ctx(struct CUctx_st *ctx);

#endif
