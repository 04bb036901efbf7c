/*
 * What was executed, when, and for whom: the seam where a stand-in for CUPTI's activity API
 * attaches (softgpu_tools.set_trace). seam.h tells of calls and objects, this of the work that
 * was queued, which somebody executes later.
 *
 * Who listens is asked when work is submitted, on the calling thread, and may leave a tag; tagged
 * work is reported once it has run. Without a listener an item costs one branch.
 */
#ifndef SG_DRIVER_TRACE_H
#define SG_DRIVER_TRACE_H

#include <cuda.h>

#include <stdbool.h>
#include <stdint.h>

enum softgpu_trace_kind {
    SOFTGPU_TRACE_NONE = 0,
    SOFTGPU_TRACE_KERNEL,
    SOFTGPU_TRACE_COPY,
    SOFTGPU_TRACE_FILL,
    SOFTGPU_TRACE_HOST,  /* a host function or stream callback */
    SOFTGPU_TRACE_EVENT, /* an event was reached: start and end are the same */
    SOFTGPU_TRACE_GRAPH, /* launch of an executable graph, from its first node to its last */
};

enum softgpu_trace_memory {
    SOFTGPU_MEMORY_PAGEABLE = 1,
    SOFTGPU_MEMORY_PINNED,
    SOFTGPU_MEMORY_DEVICE,
    SOFTGPU_MEMORY_MANAGED,
    SOFTGPU_MEMORY_STATIC, /* a variable of a module */
};

/* The listener's own, kept with the work from its submission on. */
struct softgpu_trace_tag {
    uint32_t correlation, thread;
    uint64_t time, want;
};

struct softgpu_trace_side { /* where bytes lie; pageable memory has no device and no context */
    enum softgpu_trace_memory memory;
    uint32_t device, context;
};

/* An event and its latest record; 0: it has none. */
struct softgpu_recorded {
    uint32_t id, context;
    uint64_t record; /* unique in the process */
};

/* Where a stream is. */
struct softgpu_place {
    uint32_t stream, context, device;
};

struct softgpu_trace_kernel {
    const char *name; /* mangled; as long as its module is loaded */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t static_shared, dynamic_shared; /* bytes a block */
    uint32_t regs, local_bytes;             /* a thread */
    uint64_t grid_id;                       /* ascending on a device */
    int cache_config, carveout, priority;   /* carveout: -1 or percent */
    int cluster_policy;
    bool cooperative, carveout_set, shared_optin;
};

struct softgpu_trace_work {
    enum softgpu_trace_kind kind;
    struct softgpu_trace_tag tag;
    uint64_t start, end; /* of the listener's clock, end >= start */
    CUresult result;
    uint32_t device, context;
    uint64_t stream;
    uint64_t graph, node; /* of an executable graph; 0: submitted to the stream itself */
    union {
        struct softgpu_trace_kernel kernel;
        struct {
            struct softgpu_trace_side src, dst;
            uint64_t bytes;
        } copy;
        struct {
            struct softgpu_trace_side dst;
            uint64_t bytes;
            uint32_t value;
        } fill;
        struct softgpu_recorded event;
    };
};

struct softgpu_trace_hooks {
    /* Work of this kind is being submitted: true if it shall be reported; @tag comes back then.
     * The queue's lock is held: must neither block nor call CUDA. */
    bool (*submit)(void *arg, enum softgpu_trace_kind kind, uint32_t context,
                   struct softgpu_trace_tag *tag);
    uint64_t (*now)(void *arg); /* without a lock */
    /* It has run. On the thread that executed it, without a lock; who waits for the work still
     * waits. @work is borrowed. */
    void (*done)(void *arg, const struct softgpu_trace_work *work);
    void *arg;
};

#endif
