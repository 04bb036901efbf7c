/*
 * What NCCL calls of a profiler plugin. Collectives are read as their kernels are about to be
 * launched, and the job's calls of them counted; all events are declined by a handle of NULL, with
 * which NCCL goes on as without a plugin. In a process without twinbit no event is asked for.
 */
#include "recorder/nccl/abi.h"
#include "recorder/nccl/nccl_internal.h"

#include <errno.h>

#define EXPORTED __attribute__((visibility("default")))

extern const struct nccl_profiler ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6;

static int begin(void **context, int *mask, int events, const char *name, int nodes, int ranks,
                 int rank)
{
    int saved = errno;

    *context = nccl_comm_new(name, nodes, ranks, rank);
    *mask = *context ? events : 0;
    errno = saved;
    return 0;
}

static int init_v4(void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks,
                   int rank, void (*log)(void))
{
    (void)comm; /* another number in each run */
    (void)log;
    return begin(context, mask, NCCL_EVENT_COLL, name, nodes, ranks, rank);
}

static int init_v5(void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks,
                   int rank, void (*log)(void))
{
    (void)comm;
    (void)log;
    return begin(context, mask, NCCL_EVENT_COLL, name, nodes, ranks, rank);
}

static int init_v6(void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks,
                   int rank, void (*log)(void))
{
    (void)comm;
    (void)log;
    return begin(context, mask, NCCL_EVENT_COLL | NCCL_EVENT_CE_COLL, name, nodes, ranks, rank);
}

static const char *text(const char *s)
{
    return s ? s : "Unknown";
}

static int start(void *context, void **handle, uint64_t type, const struct nccl_event *e)
{
    struct nccl_call call = {.algo = "CE", .proto = "CE"};
    int saved = errno;

    if (handle)
        *handle = NULL;
    if (context && type == NCCL_EVENT_COLL_API)
        nccl_comm_asked(text(e->api.func));
    if (!context || (type != NCCL_EVENT_COLL && type != NCCL_EVENT_CE_COLL))
        goto out;
    call.func = text(e->coll.func); /* both begin in the same way */
    call.datatype = text(e->coll.datatype);
    call.seq = e->coll.seq;
    call.count = e->coll.count;
    call.root = e->coll.root;
    if (type == NCCL_EVENT_COLL) {
        call.algo = text(e->coll.algo);
        call.proto = text(e->coll.proto);
        call.channels = e->coll.channels;
        call.warps = e->coll.warps;
    }
    nccl_comm_call(context, &call);
out:
    errno = saved;
    return 0;
}

static int start_v4(void *context, void **handle, const struct nccl_event *e)
{
    return start(context, handle, (uint8_t)e->type, e);
}

static int start_v5(void *context, void **handle, const struct nccl_event *e)
{
    return start(context, handle, e->type, e);
}

static int stop(void *handle)
{
    (void)handle;
    return 0;
}

static int state(void *handle, int which, const void *args)
{
    (void)handle;
    (void)which;
    (void)args;
    return 0;
}

static int finalize(void *context)
{
    int saved = errno;

    if (context)
        nccl_comm_end(context);
    errno = saved;
    return 0;
}

EXPORTED const struct nccl_profiler ncclProfiler_v4 = {"twinbit", {.v4 = init_v4}, start_v4,
                                                       stop,      state,           finalize};
EXPORTED const struct nccl_profiler ncclProfiler_v5 = {"twinbit", {.v5 = init_v5}, start_v5,
                                                       stop,      state,           finalize};
EXPORTED const struct nccl_profiler ncclProfiler_v6 = {"twinbit", {.v5 = init_v6}, start_v5,
                                                       stop,      state,           finalize};
