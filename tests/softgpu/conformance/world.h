/*
 * What the lines of the lists may use. The program knows cuda.h only; functions are looked up in
 * libcuda.so.1 when they are called, under the name that cuda.h gives them.
 *
 * A line: CASE(name, expected result, "why: the manual's words, or (seen) on a GPU", call)
 */
#ifndef SG_TESTS_CONFORMANCE_WORLD_H
#define SG_TESTS_CONFORMANCE_WORLD_H

#include <cuda.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *cu_symbol(const char *name);

#define CU_NAME_(name) #name
#define CU_NAME(name) CU_NAME_(name)
/* CU(cuMemAlloc)(&p, 16): macros of cuda.h turn the name into cuMemAlloc_v2 first */
#define CU(fn) ((__typeof__(&fn))cu_symbol(CU_NAME(fn)))

#define MIB ((size_t)1 << 20)

struct world {
    CUdevice dev;
    CUcontext ctx, ctx2;      /* primary ones; ctx2 is NULL where there is no second device */
    CUstream stream, stream2; /* non-blocking */
    CUstream blocking;
    CUevent event, untimed, fresh; /* fresh: never recorded */
    CUdeviceptr mem;               /* 1 MiB */
    CUdeviceptr managed;           /* 64 KiB */
    void *pinned;                  /* 4 KiB */
    CUmodule module;
    CUfunction nothing, store; /* no parameters; a pointer */
    CUfunction bounded;        /* .reqntid 32 */
    CUlibrary library;
    CUgraph graph, graph2;
    CUgraphNode node, node2, far; /* node -> node2 in graph; far in graph2 */
    CUgraphExec exec;
    size_t grain; /* of cuMemCreate */
    CUmemAllocationProp prop;
    /* results that nobody looks at */
    CUdeviceptr p, q;
    void *ptr;
    size_t size, size2;
    int value, value2;
    unsigned flags;
    float ms;
    CUcontext out_ctx;
    CUstream out_stream;
    CUevent out_event;
    CUmodule out_module;
    CUfunction out_function;
    CUlibrary out_library;
    CUkernel out_kernel;
    CUgraph out_graph;
    CUgraphNode out_node;
    CUgraphExec out_exec;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
    CUstreamCaptureStatus status;
    const char *text;
    char bytes[4096];
    sem_t gate;
};

/* the first result that is not success; @b is not called after a failure */
#define THEN(a, b)                                                                                 \
    ({                                                                                             \
        CUresult first_ = (a);                                                                     \
        first_ == CUDA_SUCCESS ? (b) : first_;                                                     \
    })

typedef CUresult (*conformance_fn)(struct world *w);

/* helpers.c: things that take more than one call; each cleans up and returns the result asked for
 */

CUresult launch(struct world *w, CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                unsigned by, unsigned bz, unsigned shared);
/** fault - launch a kernel of ptx_faults */
CUresult fault(struct world *w, const char *kernel);
CUresult launch_cooperative(struct world *w, unsigned blocks, unsigned threads);
/** with_queue_held - the result of @fn while @w->stream cannot go on */
CUresult with_queue_held(struct world *w, conformance_fn fn);
/** in_capture - of @fn while @w->stream (@blocking: w->blocking) is captured in @mode; the capture
 * is ended in any case */
CUresult in_capture(struct world *w, CUstream stream, CUstreamCaptureMode mode, conformance_fn fn);
/** end_of_capture - what ending it says after @fn */
CUresult end_of_capture(struct world *w, CUstream stream, CUstreamCaptureMode mode,
                        conformance_fn fn);
/** without_context - of @fn with no current context */
CUresult without_context(struct world *w, conformance_fn fn);
/** in_other_thread - of @fn in a new thread, without a context there */
CUresult in_other_thread(struct world *w, conformance_fn fn);
/** mapped - of @fn with w->p reserved for four grains and the first two mapped */
CUresult mapped(struct world *w, conformance_fn fn);

/* what is done there */
CUresult do_stream_sync(struct world *w);
CUresult do_stream_query(struct world *w);
CUresult do_ctx_sync(struct world *w);
CUresult do_alloc(struct world *w);
CUresult do_event_query(struct world *w);
CUresult do_elapsed(struct world *w);
CUresult do_legacy_copy(struct world *w);
CUresult do_record_and_query(struct world *w);
CUresult do_fork(struct world *w);
CUresult do_wait_outside(struct world *w);
CUresult do_begin_again(struct world *w);
CUresult do_end_elsewhere(struct world *w);
CUresult do_end_in_thread(struct world *w);
CUresult do_get_device(struct world *w);
CUresult do_pop(struct world *w);
CUresult do_copy(struct world *w);
CUresult do_unmap_part(struct world *w);
CUresult do_map_again(struct world *w);
CUresult do_map_outside(struct world *w);
CUresult do_free_range(struct world *w);
CUresult do_access_part(struct world *w);
CUresult do_copy_without_access(struct world *w);
CUresult do_update_other_shape(struct world *w);
CUresult do_register_twice(struct world *w);
CUresult do_free_twice(struct world *w);
CUresult do_use_after_free(struct world *w);

extern const char *const ptx_good;      /* kernels nothing, store, bounded; variable counter */
extern const char *const ptx_malformed; /* an instruction that does not exist */
extern const char *const ptx_future;    /* .version 99.9 */
extern const char *const ptx_faults;    /* kernels nothing, wild, odd, die, claim */

#endif
