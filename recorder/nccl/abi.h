/*
 * abi.h - what NCCL and a profiler plugin of it say to each other, versions 4, 5 and 6 (NCCL 2.27,
 * 2.28 and 2.29 on), as far as we take part: written from the layouts that its documentation and
 * headers give, in our own words. NCCL looks for ncclProfiler_v6 first, then for older ones.
 *
 * Of the descriptor of an event only the head and two kinds of body are declared; bodies lie at
 * offset 24 in all three versions. In version 4 the type is one byte, what follows it is not set.
 */
#ifndef TB_RECORDER_NCCL_ABI_H
#define TB_RECORDER_NCCL_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NCCL_EVENT_COLL = 1 << 1,     /* a collective, as its kernel is about to be launched */
    NCCL_EVENT_COLL_API = 1 << 9, /* from version 5: the job's call; comes along with COLL */
    NCCL_EVENT_CE_COLL = 1 << 12, /* version 6: one that copy engines do */
};

/** struct nccl_coll - strings are NCCL's, borrowed during the call */
struct nccl_coll {
    uint64_t seq; /* of this function in this communicator */
    const char *func;
    const void *send;
    void *recv;
    size_t count; /* of elements */
    int root;
    const char *datatype;
    uint8_t channels, warps;
    const char *algo, *proto;
};

struct nccl_ce_coll {
    uint64_t seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    const char *datatype;
};

struct nccl_coll_api {
    const char *func;
    size_t count;
    const char *datatype;
    int root;
};

struct nccl_event {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct nccl_coll coll;
        struct nccl_ce_coll ce;
        struct nccl_coll_api api;
    };
};
static_assert(offsetof(struct nccl_event, coll) == 24, "nccl: bodies of events");
static_assert(offsetof(struct nccl_coll, algo) == 64, "nccl: body of a collective");

/* Results: 0 is success. @log is NCCL's logger, which we do not use. */
typedef int nccl_init_v5(void **context, uint64_t comm, int *mask, const char *name, int nodes,
                         int ranks, int rank, void (*log)(void));
typedef int nccl_init_v4(void **context, int *mask, const char *name, uint64_t comm, int nodes,
                         int ranks, int rank, void (*log)(void));

struct nccl_profiler {
    const char *name;
    union {
        nccl_init_v4 *v4;
        nccl_init_v5 *v5; /* and 6 */
    } init;
    int (*start)(void *context, void **handle, const struct nccl_event *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, const void *args);
    int (*finalize)(void *context);
};

#endif
