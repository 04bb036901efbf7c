/*
 * A made-up CUDA program that writes traces through the store: four steps of copies, launches and
 * orders in stream 2, with an operator around one of the launches.
 */
#ifndef TB_TESTS_DIFF_GPU_H
#define TB_TESTS_DIFF_GPU_H

#include <stdbool.h>

/* What a made-up CUDA program does otherwise. */
struct gpu {
    const char *image, *grid; /* of gemm */
    const char *symbol;       /* of gemm: that of another instance of the template */
    bool launch;              /* gemm writes something else */
    unsigned graph;           /* one that writes, and reads what it wrote; 2: it writes otherwise */
    bool atomics;             /* so does the sum, which adds by atomics */
    bool batch;               /* the bytes that are copied to the device */
    bool in_step_1;           /* and all of the above in step 1 only */
    unsigned waits;           /* synchronisations after each launch */
    bool no_fp, sampled;      /* of what gemm writes */
    bool budget;              /* another number of bytes was to be hashed of a launch */
    bool fill_unhashed;       /* the fill before gemm has no fingerprint */
    bool snapshot;            /* of what gemm writes */
    bool late;                /* a fingerprint never arrived, in a row of the coverage */
    bool twice;               /* the result comes back to the host, and leads to other data */
    bool level_op;            /* recorded without its kernels: operators only */
    bool choose;              /* the operator runs another kernel */
    bool table;               /* the host writes other bytes to managed memory in step 1 */
    bool part;                /* a launch in step 1 that writes a part of a buffer */
    bool other;               /* one in step 2 that writes a part of it, and another buffer */
    bool hashed;              /* and what is read there is hashed */
    unsigned back;  /* reads of a copy to the host are hashed; in step 1 they are, with 2, other
                       bytes than were written, with 3, another buffer */
    unsigned count; /* instead of steps: a launch adds to a number, so many times */
    unsigned skip, skip_to; /* of them, not recorded: [skip, skip_to) */
    unsigned wrong;         /* from this one on the number is another; 0: never */
    const char *pause;      /* a row "paused" of the coverage with this subject */
    unsigned lost;          /* records */
    bool cut;               /* the recorder is killed after the last one */
    const char *ended;      /* status of the job */
    const char *left_out;   /* a row of the coverage of this kind: launches that were left out */
    const char *kernels;    /* --kernel, by which gemm is left out */
    bool no_launch;         /* only copies are recorded */
    enum {
        CODE_KNOWN,  /* of gemm: its only write is c */
        BELIEVED,    /* learnt: c, and b is believed to stay */
        LOOKED_AT,   /* b was hashed before and after */
        FOUND_OTHER, /* the same, and it is another */
        WRITTEN,     /* b was written, with what lay there */
        SURPRISE,    /* and that was found by chance */
    } learnt;
};

/** gpu_write - the trace of @g at @path; any failure fails the test */
void gpu_write(const struct gpu *g, const char *path);

#endif
