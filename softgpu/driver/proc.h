/* The versions of every function, generated from cudaTypedefs.h, for cuGetProcAddress. */
#ifndef SG_DRIVER_PROC_H
#define SG_DRIVER_PROC_H

#include <stdbool.h>

struct sg_proc {
    const char *base; /* "cuMemAlloc" */
    int version;      /* CUDA version that introduced this form: 3020 */
    bool per_thread;  /* the form for the per-thread default stream */
    void *function;
};
extern const struct sg_proc sg_procs[]; /* by base, version, per_thread */
extern const unsigned sg_procs_count;

#endif
