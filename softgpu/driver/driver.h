/*
 * softgpu/driver - the CUDA driver API on software devices: what its .c files share.
 *
 * Every function of cuda.h is exported by a generated trampoline (gen_driver.py) that calls
 * sg_<name>() if some file here defines it, and otherwise answers CUDA_ERROR_NOT_SUPPORTED with one
 * log line. So: define `CUresult sg_cuMemAlloc_v2(CUdeviceptr *, size_t)` to implement
 * cuMemAlloc_v2; call sg_ functions, never cu ones, inside. Variants ending in _ptsz and _ptds
 * call the plain implementation with sg_tls()->ptds set.
 *
 * Start at struct sg_driver (the one global state), then struct CUctx_st, struct sg_work (what
 * streams and graphs are made of) and sg_submit().
 *
 * Locks: sg_driver.lock guards tables, contexts, streams, queues. It is never held while work runs,
 * while user code is called or while memory is allocated from the operating system for long.
 */
#ifndef SG_DRIVER_DRIVER_H
#define SG_DRIVER_DRIVER_H

/* all versions of the API are declared and none is renamed by a macro */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>

/* prototypes of sg_<name>() for every function of cuda.h, written by gen_driver.py into the build
 */
#if __has_include("softgpu/driver/api_gen.h")
#include "softgpu/driver/api_gen.h"
#endif

#include "common/common.h"
#include "softgpu/driver/identity.h"
#include "softgpu/driver/options.h"
#include "softgpu/driver/seam.h"
#include "softgpu/exec/exec.h"
#include "softgpu/mem/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every handle begins with a magic number; a handle that does not is refused, not followed. */
enum sg_magic {
    SG_MAGIC_CTX = 0x53474354,
    SG_MAGIC_STREAM = 0x53475354,
    SG_MAGIC_EVENT = 0x53474556,
    SG_MAGIC_MODULE = 0x53474d4f,
    SG_MAGIC_FUNC = 0x5347464e,
    SG_MAGIC_LIBRARY = 0x53474c49,
    SG_MAGIC_KERNEL = 0x53474b45,
    SG_MAGIC_LINK = 0x53474c4b,
    SG_MAGIC_GRAPH = 0x53474752,
    SG_MAGIC_NODE = 0x53474e4f,
    SG_MAGIC_GEXEC = 0x53474758,
    SG_MAGIC_POOL = 0x5347504f,
    SG_MAGIC_GREEN = 0x53474743,
    SG_MAGIC_DEAD = 0x44454144,
};

struct sg_pool;
struct sg_engine;
struct sg_broken;

struct sg_device {
    int ordinal; /* among the visible ones; position in sg_driver.devices */
    int physical;
    char name[SG_DEVICE_NAME];
    CUuuid uuid;
    uint32_t arch;              /* 80 */
    uint32_t sms_reported, sms; /* what attributes say; what is simulated */
    uint64_t memory;            /* bytes */
    uint64_t used;              /* bytes allocated; under the lock in sg_driver.memory */
    _Atomic uint64_t launches;  /* kernels started so far: seeds are drawn from it */
    uint8_t bit;                /* 1 << ordinal, in struct sg_mem */
    struct CUctx_st *primary;   /* made once, kept for ever; active while primary_refs > 0 */
    unsigned primary_refs;
    unsigned primary_flags;
    CUmemoryPool default_pool, current_pool;
};

struct CUctx_st {
    uint32_t magic;
    unsigned id;          /* unique in the process */
    _Atomic uint32_t uid; /* for tools: ascending as contexts start, another one after a reset */
    struct sg_device *dev;
    unsigned flags;
    bool is_primary;
    atomic_bool active;          /* read without a lock by every call */
    _Atomic int sticky;          /* CUresult that killed this context, 0: alive */
    struct CUstream_st *legacy;  /* the NULL stream; made with the context */
    struct CUstream_st *streams; /* all others, linked by next_in_ctx, per-thread ones included */
    struct CUmod_st *modules;    /* linked by next_in_ctx */
    struct CUctx_st *next;       /* of all contexts */
    uint8_t peers;               /* bit d: peer access to device d is enabled */
    size_t limits[CU_LIMIT_MAX];
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    struct CUgreenCtx_st *green; /* made from a green context: its SMs */
    unsigned api_version;
    atomic_uint attached;  /* cuCtxAttach: uses beyond the first */
    struct sg_item *fence; /* cuCtxWaitEvent: all later work follows it; engine's lock */
};

/* A kernel as a context knows it (CUfunction). */
struct CUfunc_st {
    uint32_t magic;
    struct CUmod_st *module;
    const struct sg_kernel *kernel;
    const struct sg_kernel_info *info;
    int max_dynamic_shared; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    int carveout, cluster_policy, nonportable_cluster;
    int cluster[3];
    int cache_config;
    unsigned attrs_set; /* bit: CUfunction_attribute that cuFuncSetAttribute set */
    uint64_t launches;
    bool tools;                      /* one of SOFTGPU_TOOL_KERNELS */
    struct sg_legacy_launch *legacy; /* legacy.c: what cuLaunch uses; owned */
    struct CUfunc_st *next;
};

/* ---- work: what a stream executes and a graph's node holds --------------------------------- */

enum sg_work_kind {
    SG_WORK_EMPTY = 0,
    SG_WORK_KERNEL,
    SG_WORK_COPY,
    SG_WORK_FILL,
    SG_WORK_HOST,
    SG_WORK_EVENT_RECORD,
    SG_WORK_EVENT_WAIT,
    SG_WORK_GRAPH,     /* launch of an executable graph, or a child graph */
    SG_WORK_MEM_ALLOC, /* graph allocation nodes: address known, becomes usable */
    SG_WORK_MEM_FREE,  /* cuMemFreeAsync */
    SG_WORK_WRITE_VALUE,
    SG_WORK_WAIT_VALUE,
    SG_WORK_BATCH_MEM_OP,
};

struct sg_kernel_work {
    struct CUfunc_st *func;
    CUkernel kernel; /* as the caller gave it, if it gave a CUkernel; else NULL */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_bytes;
    bool cooperative;
    void *params;             /* param_bytes bytes, owned by the work */
    CUlaunchAttribute *attrs; /* copies, owned */
    unsigned nattrs;
};

/* Any copy: up to three dimensions, in bytes. Host addresses are addresses. */
struct sg_copy_work {
    uint64_t src, dst;             /* address of the first byte (arrays are refused) */
    uint64_t width, height, depth; /* bytes, rows, slices; a plain copy is n, 1, 1 */
    uint64_t src_pitch, src_slice, dst_pitch, dst_slice;
    CUmemorytype src_type, dst_type;    /* as given; UNIFIED: looked up when it runs */
    struct CUctx_st *src_ctx, *dst_ctx; /* peer copies; NULL: the stream's */
    CUDA_MEMCPY3D given; /* what the caller's descriptor said: graph node getters return it */
    bool staged; /* source was pageable host memory that was copied into @stage when submitted */
    void *stage;
};

struct sg_fill_work {
    uint64_t dst, pitch, width, height; /* width in elements */
    uint32_t value;
    uint32_t elem; /* bytes: 1, 2, 4 */
};

/* A call of the API: which, and from where. Known in strict mode only. */
struct sg_by {
    const char *call; /* static: "cuMemAlloc_v2"; NULL: none, or not known */
    uint64_t number;  /* of the call in the process, from 1 */
    uintptr_t site;   /* address in the caller outside softgpu, 0: not known */
};

struct sg_work {
    enum sg_work_kind kind;
    struct CUctx_st *ctx;
    struct sg_by by; /* who submitted it, or made the node */
    union {
        struct sg_kernel_work kernel;
        struct sg_copy_work copy;
        struct sg_fill_work fill;
        struct {
            CUhostFn fn;
            void *arg;
            CUstreamCallback callback; /* cuStreamAddCallback: called instead of fn */
            CUstream stream;
        } host;
        struct {
            CUevent event;
            unsigned flags;
        } event;
        struct {
            struct CUgraphExec_st *exec; /* launch */
            CUgraph child;               /* child node, owned clone */
        } graph;
        struct {
            uint64_t addr;
            size_t size;
            CUDA_MEM_ALLOC_NODE_PARAMS_v2 params;
        } mem;
        struct {
            uint64_t addr;
            uint64_t value;
            bool is64;
            unsigned flags;
        } value;
        struct {
            CUstreamBatchMemOpParams *ops; /* owned */
            unsigned n, flags;
        } batch;
    };
};

/** sg_work_copy / sg_work_release - deep copy; free what a work owns */
CUresult sg_work_clone(const struct sg_work *w, struct sg_work *out);
void sg_work_release(struct sg_work *w);

/* Executors, called by the engine without the lock. They return what went wrong; a fault of a
 * kernel makes the context's sticky error, which the engine sets. */
CUresult sg_kernel_run(const struct sg_kernel_work *k, struct CUctx_st *ctx); /* launch.c */
CUresult sg_copy_run(const struct sg_copy_work *c, struct CUctx_st *ctx);     /* copy.c */
CUresult sg_fill_run(const struct sg_fill_work *f, struct CUctx_st *ctx);     /* copy.c */
CUresult sg_mem_free_run(uint64_t addr, struct CUctx_st *ctx);                /* pool.c */
CUresult sg_mem_alloc_run(uint64_t addr, struct CUctx_st *ctx); /* pool.c; graph nodes only */

/**
 * sg_submit - append work to a stream, or to the graph that the stream is being captured into
 * @stream: as the user gave it: NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle
 * @w:      moved: the callee owns what is in it from now on, on failure too
 *
 * Work is queued, not run: it runs when somebody waits, asks, or after a short idle time
 * (engine.c). With CUDA_LAUNCH_BLOCKING=1 kernels have run when this returns.
 */
CUresult sg_submit(CUstream stream, struct sg_work *w);

/** sg_submit_sync - submit and wait for it: the synchronous copies and sets. Refused with
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED/IMPLICIT where capture forbids it. */
CUresult sg_submit_sync(CUstream stream, struct sg_work *w);

/** sg_engine_drain_ctx - run and wait for all work of a context (cuCtxSynchronize, cuMemFree,
 * module unload) */
CUresult sg_engine_drain_ctx(struct CUctx_st *ctx);

/** sg_stream_of - the stream a handle means in the current context and thread; takes
 * CU_STREAM_PER_THREAD, per-thread default and NULL into account. CUDA_ERROR_INVALID_HANDLE,
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult sg_stream_of(CUstream given, struct CUstream_st **out);
bool sg_stream_is_capturing(CUstream given);
/** sg_capture_forbids - the error that a call which "could be unsafe" must return while some thread
 * captures in global mode (cuMemAlloc and the like), or CUDA_SUCCESS */
CUresult sg_capture_forbids(void);

/* called when a context is made, and when it ends */
CUresult sg_streams_init_ctx(struct CUctx_st *ctx); /* stream.c: the NULL stream */
void sg_streams_destroy_ctx(struct CUctx_st *ctx);  /* drains and frees streams and events */
void sg_memory_destroy_ctx(struct CUctx_st *ctx);   /* memory.c: frees what it still holds */
void sg_modules_destroy_ctx(struct CUctx_st *ctx);  /* module.c */
CUresult sg_memory_init(void);                      /* memory.c: at cuInit, mem exists */
CUresult sg_engine_init(void);                      /* engine.c: at cuInit; starts no thread */

/* ---- memory ---------------------------------------------------------------------------------- */

enum sg_alloc_kind {
    SG_ALLOC_DEVICE,
    SG_ALLOC_POOL,
    SG_ALLOC_MANAGED,
    SG_ALLOC_HOST,       /* cuMemHostAlloc, cuMemAllocHost: in the range */
    SG_ALLOC_REGISTERED, /* cuMemHostRegister */
    SG_ALLOC_VMM,        /* mapped by cuMemMap */
    SG_ALLOC_MODULE,     /* a variable of a module */
};

struct sg_alloc {
    uint64_t addr;
    size_t size; /* as asked for */
    enum sg_alloc_kind kind;
    struct sg_device *dev; /* NULL: host */
    struct CUctx_st *ctx;
    uint64_t id; /* CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process */
    unsigned flags;
    CUmemoryPool pool;
};

/** sg_alloc_find - the allocation that holds @addr; a copy, true if there is one. Any thread. */
bool sg_alloc_find(uint64_t addr, struct sg_alloc *out);
/** sg_alloc_new - internal allocation (module variables and the like); zero-filled */
CUresult sg_alloc_new(struct CUctx_st *ctx, size_t size, size_t align, enum sg_alloc_kind kind,
                      uint64_t *addr);
CUresult sg_alloc_free(uint64_t addr);

/* ---- state ----------------------------------------------------------------------------------- */

struct sg_driver {
    pthread_mutex_t lock;
    _Atomic int initialized; /* 1 after a successful cuInit */
    struct sg_options opt;
    struct sg_mem *mem;
    struct sg_machine *machine;
    struct sg_device devices[SG_MAX_DEVICES];
    int ndevices; /* after CUDA_VISIBLE_DEVICES */
    struct CUctx_st *contexts;
    struct sg_engine *engine;
    struct sg_memory *memory;
    struct sg_broken *broken; /* NULL: nothing is */
    atomic_uint next_id, next_uid;
    uint32_t modules; /* loaded so far */
};
extern struct sg_driver sg_driver; /* init.c */

#define SG_CTX_STACK 64
#define SG_STRICT_FRAMES 4
struct sg_tls {
    struct CUctx_st *stack[SG_CTX_STACK];
    unsigned depth;
    bool ptds;        /* this call came through a _ptsz/_ptds name */
    bool in_callback; /* a host function or stream callback runs on this thread */
    struct sg_strict_tls {
        struct sg_strict_frame { /* exported functions under way: tools make some inside others */
            const char *name;
            uint64_t number;
            CUresult verdict; /* of a finding: what the call is to return */
        } frames[SG_STRICT_FRAMES];
        unsigned depth;             /* may be more than there are frames */
        unsigned in_tool;           /* hooks of a tool under way */
        const struct sg_item *item; /* what this thread executes */
        CUresult item_verdict;      /* of a finding: what it is to end with */
    } strict;                       /* strict.c */
    CUstreamCaptureMode capture_mode;
    struct softgpu_thread tool; /* seam.h: the call under way, as tools number it */
    struct sg_notice *notices;  /* hooks.c: to be told when no lock is held; owned */
    unsigned nnotices, notices_cap;
    struct CUstream_st *per_thread[SG_MAX_DEVICES * 8]; /* stream.c manages it */
};
struct sg_tls *sg_tls(void);

/** sg_current - the calling thread's context; NULL in *@out never: CUDA_ERROR_NOT_INITIALIZED,
 * CUDA_ERROR_INVALID_CONTEXT, or the context's sticky error */
CUresult sg_current(struct CUctx_st **out);

/** sg_log - one line on stderr, "softgpu: " before it, if SOFTGPU_LOG >= level */
void sg_log(int level, const char *fmt, ...) TB_PRINTF(2, 3);
/** sg_fault_set - remember the text of a context's fatal fault, log it, set sticky */
CUresult sg_fault_set(struct CUctx_st *ctx, const struct sg_fault *fault);

#endif
