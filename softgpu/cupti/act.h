/*
 * The activity API of CUPTI: records of calls and of executed work, in buffers that the client
 * gives. Start at sg_act_put().
 *
 * act_call.c   what the hooks of calls bring: API, synchronisation, event, correlation records
 * act_work.c   what the driver tells of executed work (driver/trace.h)
 * act_object.c devices, contexts and streams
 * act_kinds.c  what is enabled, for whom
 * act_buffer.c the buffers: requested when a record needs one, completed when one is full or
 *              flushed, by the thread that fills or flushes
 * act_misc.c   attributes, names, what is refused
 *
 * Locks: each file's own, leaves all of them; none is held while a function of the client runs.
 */
#ifndef SG_CUPTI_ACT_H
#define SG_CUPTI_ACT_H

#include "softgpu/cupti/cupti_internal.h"
#include "softgpu/driver/trace.h"

#define SG_ACT_BIT(kind) (UINT64_C(1) << (kind))
/* Recorded events are told with synchronisations too, which refer to them: torch's profiler enables
 * only those and reads both. */
#define SG_ACT_EVENT_KINDS                                                                         \
    (SG_ACT_BIT(CUPTI_ACTIVITY_KIND_CUDA_EVENT) | SG_ACT_BIT(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION))

/* ---- the newest form of each record -------------------------------------------------------------
 * Records grow at their end from one CUPTI to the next. Made are those of CUPTI 13.2 whatever the
 * headers are, so that clients of that and of older ones read what they were compiled for.
 */

#if CUPTI_API_VERSION >= 130000
#define SG_ACT_KERNEL_BASE CUpti_ActivityKernel10
#else
#define SG_ACT_KERNEL_BASE CUpti_ActivityKernel9
#endif

#if CUPTI_API_VERSION >= 130200
struct sg_act_kernel {
    CUpti_ActivityKernel11 k;
};
struct sg_act_context {
    CUpti_ActivityContext4 c;
};
struct sg_act_device {
    CUpti_ActivityDevice6 d;
};
#define SG_ACT_PRIORITY(r) ((r)->k.priority)
#define SG_ACT_PROCESS(r) ((r)->c.processId)
#else
struct sg_act_kernel {
    SG_ACT_KERNEL_BASE k;
#if CUPTI_API_VERSION < 130000
    uint8_t device_launched, unused[7];
#endif
    int32_t priority;
    uint32_t unused2;
};
struct sg_act_context {
    CUpti_ActivityContext3 c;
    uint64_t process;
};
struct sg_act_device {
    CUpti_ActivityDevice5 d;
    uint32_t tpcs, unused;
};
#define SG_ACT_PRIORITY(r) ((r)->priority)
#define SG_ACT_PROCESS(r) ((r)->process)
#endif

/* ---- act_buffer.c -------------------------------------------------------------------------------
 */

/**
 * sg_act_put - copy a record into the client's current buffer
 * @record: a whole one, @bytes a multiple of 8
 *
 * May call the client's functions: no lock may be held. Without a buffer of sufficient size the
 * record is dropped and counted. Any thread.
 */
void sg_act_put(const void *record, size_t bytes);
#define SG_ACT_PUT(record) sg_act_put((record), sizeof(*(record)))

bool sg_act_in_client(void); /* one of the client's functions for buffers runs on this thread */

/* ---- act_kinds.c --------------------------------------------------------------------------------
 */

/** sg_act_wants - which of these kinds (bits) are enabled for a context; 0: for no context. Takes
 * no lock that is held for long. */
uint64_t sg_act_wants(uint32_t context, uint64_t kinds);
/** sg_act_wants_call - is this function of the driver or the runtime recorded? */
bool sg_act_wants_call(bool runtime, uint32_t id);
size_t sg_act_record_size(CUpti_ActivityKind kind); /* 0: there are no such records */
void sg_act_kinds_clear(void);
void sg_act_kinds_forked(void); /* in the child: the same, whoever held the lock */

/* ---- act_call.c ---------------------------------------------------------------------------------
 */

extern const struct sg_cupti_listener sg_act_listener;

/* The call of this thread under way: a runtime call before the driver calls that implement it. */
struct sg_act_call {
    const char *name; /* NULL: none, or its start was not seen */
    uint32_t correlation;
    bool runtime;
    uint64_t start;
};
const struct sg_act_call *sg_act_call(void);

/* ---- act_object.c -------------------------------------------------------------------------------
 */

void sg_act_notice(const struct sg_notice *n);
/** sg_act_dump - records of what there is already, if the kind has such */
CUptiResult sg_act_dump(CUpti_ActivityKind kind);

/* ---- act_work.c ---------------------------------------------------------------------------------
 */

extern const struct softgpu_trace_hooks sg_act_trace;
#define SG_ACT_WORK_KINDS                                                                          \
    (SG_ACT_BIT(CUPTI_ACTIVITY_KIND_KERNEL) | SG_ACT_BIT(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) |  \
     SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMCPY) | SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMCPY2) |            \
     SG_ACT_BIT(CUPTI_ACTIVITY_KIND_MEMSET) | SG_ACT_EVENT_KINDS |                                 \
     SG_ACT_BIT(CUPTI_ACTIVITY_KIND_GRAPH_TRACE))

/* ---- act_misc.c ---------------------------------------------------------------------------------
 */

enum sg_act_option {
    SG_ACT_LATENCY,          /* times of queueing in kernel records */
    SG_ACT_PENDING_QUERIES,  /* records of queries that found work unfinished (on) */
    SG_ACT_EVENT_TIMESTAMPS, /* device times in event records */
    SG_ACT_OPTIONS
};
bool sg_act_option(enum sg_act_option option);
void sg_act_options_clear(void);
/** sg_act_name - a string of that text, which lasts as long as the process; NULL: no memory */
const char *sg_act_name(const char *text);
void sg_act_names_forked(void);

#endif
