/*
 * A made-up training job that writes traces through the store: tests say what shall go wrong in it.
 *
 * Every buffer holds one number; what an operator writes is a hash of all that it read, of its
 * arguments and of its name. So what follows from a change differs by itself, as in a real job.
 */
#ifndef TB_TESTS_DIFF_JOB_H
#define TB_TESTS_DIFF_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "fingerprint/fingerprint.h"

enum job_fault {
    JOB_NONE,
    JOB_OUTPUT,        /* the second addmm of the step writes something else */
    JOB_UNSEEN,        /* what the first addmm wrote changes before it is read */
    JOB_BATCH,         /* the batch, made by the host */
    JOB_ARGS,          /* the scale that is given to mul */
    JOB_RNG,           /* the generator's state before dropout */
    JOB_EXTRA,         /* one more operator, the result is used */
    JOB_EXTRA_OFF,     /* one more operator, nobody uses its result */
    JOB_MISSING,       /* no gelu */
    JOB_ORDER,         /* the two addends of stack change places */
    JOB_INSIDE,        /* the sum runs other operators inside, with another result */
    JOB_INSIDE_ALWAYS, /* the same in every step, with another result in this one only */
    JOB_REDUCE,        /* the collective gives something else */
    JOB_HOST_RNG,      /* the generator of the host, and the batch that it draws */
    JOB_POOL,          /* the second of the two threads of the pool computes something else */
    JOB_ITEM, /* the number that leaves is read by the host: the next step's scale follows it */
};

struct job {
    uint64_t steps, first; /* recorded: first .. steps-1; what was before happened unrecorded */
    enum job_fault fault;
    uint64_t at;        /* in this step */
    uint64_t alloc_gap; /* added between numbers of allocations: other runs, other numbers */
    uint64_t seed;      /* order in which the two threads' events arrive */
    int32_t rank;       /* -1: none; with ranks there is a collective in every step */
    int pool;           /* threads "thread#0", "thread#1" beside: 0 none, 1 in order, 2 swapped */
    bool split;         /* the collective is two events, its issue and its end */
    int64_t
        peer_fault; /* step in which another rank gave the collective something else; -1: none */
    bool inputs;    /* reads are hashed */
    bool boundary;  /* only states and step marks */
    bool snapshot;  /* keep what the second addmm reads and writes */
    bool map;       /* what the second addmm writes is [64,512], with a map: parts 5 and 9 vary */
    bool cut;       /* the trace is not closed in order: killed before step `steps` ends */
    uint64_t lost;  /* records */
    const char *cover;       /* a row "not covered: <cover>" */
    const char *argv;        /* NULL: "python train.py" */
    const char *key, *value; /* one more pair of meta */
    const char *variable;    /* one more line of the environment */
    uint64_t max_size;
};

/** job_defaults - 6 steps, one process, nothing goes wrong */
struct job job_defaults(void);
/** job_write - the trace of @j at @path; any failure fails the test */
void job_write(const struct job *j, const char *path);
/** job_scratch - a file name in a folder that job_clean() removes; valid until then */
const char *job_scratch(const char *name);
void job_clean(void);

#endif
