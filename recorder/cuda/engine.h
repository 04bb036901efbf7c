/*
 * engine.h - private to recorder/cuda/: the state of the CUDA recorder and what its files ask of
 * each other.
 *
 * start.c and calls.def know which call is what; module.c, kernel.c, alloc.c, mapping.c, stream.c
 * and graph.c (graph.h) keep what the job has made; launch.c and copy.c turn calls into a struct
 * tb_cu_work; params.c reads arguments, access.c finds what they lead to, plan.c knows it of a
 * launch that was seen before; learn.c finds out what is written through them where no code tells;
 * split.c knows where streams use one allocation at once; work.c queues the hashes, arrival.c has
 * those of what reaches the host; event.c writes the event; context.c prepares a context for that.
 *
 * Tables change under tb_cu.lock, which is never held while CUDA, CUPTI or the runtime is called.
 */
#ifndef TB_RECORDER_CUDA_ENGINE_H
#define TB_RECORDER_CUDA_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/cuda_calls.h"

#include "fingerprint/device/fp_device.h"
#include "recorder/cuda/front.h"
#include "recorder/cuda/names.h"
#include "recorder/recorder.h"

/* the arguments of call @c; a handle as a key of the tables below */
#define PARAMS(name) const struct tb_##name##_params *p = c->params
#define HANDLE(x) ((uint64_t)(uintptr_t)(x))

#define tb_likely(x) __builtin_expect(!!(x), 1)
#define tb_unlikely(x) __builtin_expect(!!(x), 0)
#define tb_cold __attribute__((noinline, cold)) /* what it needs is not paid for by its caller */

/* ---------------------------------------------------------------- the driver */

/* What the engine calls itself, by exported name; one that is missing turns off what needs it. */
#define TB_CU_DRIVER(X)                                                                            \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxGetDevice)                                                                              \
    X(cuCtxPushCurrent_v2)                                                                         \
    X(cuCtxPopCurrent_v2)                                                                          \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDevicePrimaryCtxGetState)                                                                  \
    X(cuThreadExchangeStreamCaptureMode)                                                           \
    X(cuStreamIsCapturing)                                                                         \
    X(cuStreamIsCapturing_ptsz)                                                                    \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamDestroy_v2)                                                                          \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetGlobal_v2)                                                                        \
    X(cuLibraryGetGlobal)                                                                          \
    X(cuFuncGetName)                                                                               \
    X(cuKernelGetName)                                                                             \
    X(cuFuncGetModule)                                                                             \
    X(cuFuncGetParamInfo)                                                                          \
    X(cuKernelGetParamInfo)                                                                        \
    X(cuMemHostRegister_v2)                                                                        \
    X(cuMemHostUnregister)                                                                         \
    X(cuMemHostGetDevicePointer_v2)                                                                \
    X(cuMemGetAddressRange_v2)                                                                     \
    X(cuPointerGetAttribute)                                                                       \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernel_ptsz)                                                                         \
    X(cuGraphGetNodes)                                                                             \
    X(cuGraphNodeGetType)                                                                          \
    X(cuGraphKernelNodeGetParams_v2)                                                               \
    X(cuGraphMemcpyNodeGetParams)                                                                  \
    X(cuGraphMemsetNodeGetParams)                                                                  \
    X(cuGraphChildGraphNodeGetGraph)                                                               \
    X(cuGraphClone)                                                                                \
    X(cuGraphDestroy)                                                                              \
    X(cuGraphNodeFindInClone)                                                                      \
    X(cuGraphAddKernelNode_v2)                                                                     \
    X(cuGraphAddDependencies_v2)                                                                   \
    X(cuGraphNodeGetDependentNodes_v2)                                                             \
    X(cuGraphNodeGetDependencies_v2)                                                               \
    X(cuGraphMemAllocNodeGetParams)                                                                \
    X(cuGraphMemFreeNodeGetParams)                                                                 \
    X(cuGraphDestroyNode)                                                                          \
    X(cuGraphExecKernelNodeSetParams_v2)

struct tb_cu_driver {
#define TB_CU_MEMBER(name) __typeof__(name) *name;
    TB_CU_DRIVER(TB_CU_MEMBER)
#undef TB_CU_MEMBER
};

/* ---------------------------------------------------------------- tables */

/** struct tb_cu_map - 64-bit keys to pointers; open addressing, memory from the pool. Key 0: none
 */
struct tb_cu_map {
    struct tb_cu_slot {
        uint64_t key;
        void *value;
    } * slot;
    uint32_t capacity, count; /* with tombs */
};
void *tb_cu_map_get(const struct tb_cu_map *m, uint64_t key);
/** tb_cu_map_put - false: no memory. An earlier value is replaced */
bool tb_cu_map_put(struct tb_cu_map *m, uint64_t key, void *value);
void *tb_cu_map_take(struct tb_cu_map *m, uint64_t key);

/** tb_cu_small - zeroed memory for the life of the process, NULL: none; under the lock */
void *tb_cu_small(size_t bytes);
/** tb_cu_text - a copy of @text; "" if there is no memory; under the lock */
const char *tb_cu_text(const char *text);
/* The same of a name that the program made up: a line of a site, and safe to print */
const char *tb_cu_name(const char *text);

/* ---------------------------------------------------------------- what the job has made */

enum tb_cu_memory {
    TB_CU_DEVICE,     /* cuMemAlloc, pools, mappings */
    TB_CU_MANAGED,    /* the host may write it unseen */
    TB_CU_HOST,       /* pinned: the same */
    TB_CU_REGISTERED, /* the host's, pinned afterwards: the device may know it by another address */
    TB_CU_GLOBAL,     /* a variable of a module */
};
#define TB_CU_NO_DEVICE (-1) /* a mapping that no device may use yet */

#define TB_CU_BOUNDS 24u
#define TB_CU_USES 16u

/** struct tb_cu_uses - the last uses of an allocation, each of an extent */
struct tb_cu_uses {
    uint8_t n, next, last; /* last: where the last one was put */
    bool several;          /* streams have used it, or one whose order is not followed alone */
    bool unsaid;           /* an event's number is not known yet */
    uint32_t stream;       /* index of the only one */
    struct tb_cu_use {
        uint32_t stream; /* index in the clocks */
        uint32_t thread; /* that queued it, tb_cu_thread() */
        bool guessed;    /* the extent is all that a pointer may be for */
        bool pointed;    /* it goes up to the next pointer that was seen then */
        uint64_t clock;
        uint64_t seq; /* event */
        uint64_t from, bytes;
    } use[TB_CU_USES];
};

/** struct tb_cu_mark - who wrote it last, where work is no event (mark.c), and its last hash */
struct tb_cu_mark {
    struct tb_cu_stream *stream, *reader; /* NULL: nobody that is known */
    uint64_t clock, read_clock;
    uint64_t step;     /* of the last write */
    uint64_t read_seq; /* event with the hash */
    bool torn;         /* streams wrote it at once, in that step */
    bool meets;        /* another stream's work has met a hash of it */
};

/** struct tb_cu_alloc - an allocation, or a block of a caching allocator inside one */
struct tb_cu_alloc {
    struct tb_cu_alloc *next_free;
    uint64_t base, bytes;
    uint64_t ordinal; /* in the process, from 1; never used again; 0: it is gone */
    uint64_t maker; /* the thread, equal in equal runs; TB_CU_OTHER_THREAD: it is not known which */
    uint32_t tid;   /* of it */
    uint64_t lifted; /* its ordinal while the driver is asked to take it back */
    bool lifted_block;
    uint32_t version; /* grows when something changes by which an access to it may look different */
    int device;
    uint8_t kind;   /* enum tb_cu_memory */
    uint8_t dtype;  /* as twinbit.h said, TB_DT_UNKNOWN: not */
    bool part;      /* twinbit.h named it inside an allocation: pointers to it may be for that */
    bool has_parts; /* there are such in it */
    bool split;     /* streams use parts of it: extents end where other pointers begin */
    uint8_t splits; /* how often that began */
    bool places;    /* kernels got pointers to several places of it */
    bool unstable;  /* it may change in ways that no call tells: the host writes it, too */
    bool alias;     /* its memory is, or was, mapped elsewhere as well */
    bool starts;    /* a reserved range of addresses begins with it */
    uint64_t torn_from,
        torn_to;       /* what streams wrote at once, and nothing was hashed behind both */
    bool fresh;        /* run --poison: mapped for the first time, and not filled yet */
    uint64_t mapped;   /* cuMemMap: handle of the physical memory */
    CUcontext context; /* it ends with this one; NULL: not known */
    uint64_t code;     /* TB_CU_GLOBAL: the module or library that it ends with */
    uint64_t pointed;  /* the offset of the last one, plus 1; 0: none was seen */
    uint8_t bounds;
    uint64_t bound[TB_CU_BOUNDS];  /* offsets of pointers that were seen, ascending */
    const char *name;              /* as twinbit.h said, NULL: not */
    struct tb_cu_uses write, read; /* reads only where they are hashed */
    struct tb_cu_parting *parting; /* split.c; NULL: none yet */
    struct tb_cu_mark mark;
};

/** struct tb_cu_image - a module's code */
struct tb_cu_image {
    uint8_t hash[16];
    const struct tb_wire_kernels *info; /* NULL: nothing is known; without PTX it has no kernels */
};

/** struct tb_cu_code - a module or library as the driver gave it out */
struct tb_cu_code {
    uint64_t handle; /* CUmodule or CUlibrary */
    struct tb_cu_image *image;
    CUcontext context; /* a module ends with it; a library does not */
    bool library;
};

#define TB_CU_PARAM_BYTES 4096u
#define TB_CU_PARAM_ROOM (TB_CU_PARAM_BYTES + 16u) /* whole words are written */
#define TB_CU_PARAMS 512u

struct tb_cu_param {
    uint16_t offset, size;
};

/** struct tb_cu_global - a variable of its module that a kernel uses */
struct tb_cu_global {
    struct tb_cu_alloc *alloc;
    uint32_t flags; /* enum tb_wire_global_flags */
};

/** struct tb_cu_kernel - a CUfunction or CUkernel */
struct tb_cu_kernel {
    uint64_t handle;
    struct tb_cu_code *code; /* NULL: not known */
    const char *symbol;      /* mangled */
    const char *name;        /* short, what events are called */
    const char *extra;       /* what its framework says of it, "" if nothing */
    const struct tb_wire_kernel *info;
    const struct tb_wire_word *word;
    struct tb_cu_param *param;
    uint32_t params, param_bytes;
    uint64_t site_hash;
    uint64_t launches;
    struct tb_cu_learn *learn; /* what its launches were seen to write */
    struct tb_cu_plan **plan;  /* TB_CU_PLANS of launches, by their arguments; NULL: none yet */
    bool ready;                /* params were asked for */
    struct tb_cu_kernel *next_new;
    bool waits;     /* it is in that list */
    bool blind;     /* params could not be had */
    bool gaps;      /* there is padding between them */
    bool learns;    /* its launches must be looked at before they are queued */
    uint32_t words; /* so many of the first params are words of 8 bytes in a row */
    bool filtered;  /* the user wants none of it */
    bool told;      /* that it may use variables unseen; atomic */
    uint32_t globals;
    struct tb_cu_global *global;
    uint64_t asked; /* devices where its variables were asked for */
};

#define TB_CU_STREAMS                                                                              \
    64u /* whose order is followed; others count as unordered among themselves                     \
         */

/** struct tb_cu_clocks - of each stream, how far it is known to be done */
struct tb_cu_clocks {
    uint64_t at[TB_CU_STREAMS];
    uint64_t said[TB_CU_STREAMS]; /* by orders that are there in any run of the program (split.c) */
};

/** struct tb_cu_stream - a stream; index 0 is the legacy one of the first device */
struct tb_cu_stream {
    uint64_t handle; /* with thread and device in it for a thread's default stream */
    uint32_t ordinal;
    uint32_t index;            /* in the clocks */
    bool legacy;               /* it is its device's legacy one */
    bool blocking;             /* ordered with that */
    int device;                /* -1: not known */
    CUcontext context;         /* NULL: the one that is current, or not known */
    uint64_t bits;             /* what orders say of it (wire.h, mode q) */
    struct tb_cu_stream *next; /* legacy: of another device */
    uint64_t capture;          /* number of the capture that it takes part in, 0: none */
    uint64_t host_waits;       /* when `known` took in what the host had waited for */
    uint64_t said_waits;       /* and when what that says */
    struct tb_cu_clocks known;
};

/** struct tb_cu_event - a CUDA event */
struct tb_cu_event {
    uint64_t handle;
    uint32_t ordinal;
    bool recorded;
    uint64_t capture; /* it was recorded in a stream of this capture, 0: in none */
    uint32_t stream;  /* index of the stream it was recorded in */
    struct tb_cu_clocks at;
};

/* ---------------------------------------------------------------- contexts */

enum tb_cu_ctx_state { TB_CU_CTX_SETTING_UP = 1, TB_CU_CTX_READY, TB_CU_CTX_BROKEN };

#define TB_CU_SLOTS TB_FPD_SLOTS

struct tb_cu_ctx {
    struct tb_cu_ctx *next;
    CUcontext handle;
    uint32_t state; /* enum tb_cu_ctx_state; futex word */
    int device;
    uint32_t sms, table;
    CUmodule module;
    CUfunction few, batch, alike, strided, set_base, copy, fill;
    CUstream own;    /* run --poison: for what the program waits for; else NULL */
    CUmodule delays; /* run --stress; else NULL */
    CUfunction delay;
    struct tb_wire_slots *page;
    struct tb_wire_slot *slot;
    uint64_t ticket; /* next */
    bool gave_up;    /* the collector was waited for in vain */
    CUdeviceptr slots, scratch;
    CUdeviceptr bases; /* words for tickets of graphs, 0: there are none */
};

/** tb_cu_ctx - the current context, prepared if that is possible; NULL: none, or CUDA may not be
 * called, or it could not be prepared (told once) */
struct tb_cu_ctx *tb_cu_ctx(void);
/** struct tb_cu_visit - what this thread had before another context was made current for a while */
struct tb_cu_visit {
    bool pushed;
    int device;
    CUcontext context;
    struct tb_cu_ctx *ctx;
};
/** tb_cu_visit - @context (NULL: as it is) is current until tb_cu_return(@v), where CUDA may be
 * called. Without the lock */
void tb_cu_visit(CUcontext context, struct tb_cu_visit *v);
void tb_cu_return(const struct tb_cu_visit *v);
/** tb_cu_relax - this thread's calls must not make another one's global capture invalid; what it
 * was before, to be given back so */
CUstreamCaptureMode tb_cu_relax(CUstreamCaptureMode mode);
/** tb_cu_ctx_ready - of that handle, if it is prepared */
struct tb_cu_ctx *tb_cu_ctx_ready(CUcontext handle);
/** tb_cu_ctx_forget - @handle is about to end (NULL: all) */
void tb_cu_ctx_forget(CUcontext handle);
/** tb_cu_ctx_forget_device - the primary context of @device is about to end */
void tb_cu_ctx_forget_device(int device);
/** tb_cu_ctx_device - device of a context that was prepared, -1: none */
int tb_cu_ctx_device(CUcontext handle);
/** tb_cu_launch - a kernel of ours with one parameter, in blocks of one dimension. Without the lock
 */
bool tb_cu_launch(CUfunction f, uint32_t grid, uint32_t threads, CUstream stream, bool per_thread,
                  void *param);
/** tb_cu_launch_batch - the hashes of @b, planned here; true, too, if there is none. Under run
 * --poison both bytes count as one, for what nobody wrote has one or the other */
bool tb_cu_launch_batch(const struct tb_cu_ctx *c, CUstream stream, bool per_thread,
                        struct tb_fpd_batch *b);
/** tb_cu_launch_exact - the same, but the bytes count as they are */
bool tb_cu_launch_exact(const struct tb_cu_ctx *c, CUstream stream, bool per_thread,
                        struct tb_fpd_batch *b);
/** tb_cu_alike - the parameter of c->alike, but for its batch */
static inline void tb_cu_alike(struct tb_fpd_alike *a, uint32_t poison)
{
    a->byte[0] = TB_POISON_FIRST(poison);
    a->byte[1] = TB_POISON_SECOND(poison);
}
/** tb_cu_launch_job - one hash, exact */
bool tb_cu_launch_job(const struct tb_cu_ctx *c, CUstream stream, bool per_thread, uint64_t src,
                      uint64_t bytes, uint64_t ticket);
/** tb_cu_launch_view - one hash of a view with sizes */
bool tb_cu_launch_view(struct tb_cu_ctx *c, CUstream stream, bool per_thread,
                       const struct tb_rec_view *v, uint64_t ticket);
/** tb_cu_batch_begin - @b without jobs; what is not used of it stays as it is: it has 3 KB */
static inline void tb_cu_batch_begin(const struct tb_cu_ctx *c, struct tb_fpd_batch *b)
{
    b->slots = c->slots;
    b->scratch = c->scratch;
    b->base = 0;
    b->mask = TB_CU_SLOTS - 1;
    b->jobs = 0;
}
/** tb_cu_await_slots - before so many are drawn: wait for the collector, never for the device */
void tb_cu_await_slots(struct tb_cu_ctx *c, uint32_t n);
/** tb_cu_draw - tickets for @n hashes; false: so many are not free. Under the lock */
bool tb_cu_draw(struct tb_cu_ctx *c, uint32_t n, uint64_t *first);
/** tb_cu_undraw - no event will carry @ticket: its slot is not waited for */
void tb_cu_undraw(struct tb_cu_ctx *c, uint64_t ticket);

/* ---------------------------------------------------------------- work */

struct tb_cu_cuts;
#define TB_CU_ACCESSES 512u
#define TB_CU_WORK_SNAPS 64u
#define TB_CU_SNAPSHOTS 32u /* events that are wanted, at most */
struct tb_cu_snap;

/** struct tb_cu_shape - how many threads a launch has */
struct tb_cu_shape {
    uint32_t grid[3], block[3], shared;
};

enum tb_cu_access_flags {
    TB_CU_HASH = 1u << 0,     /* a fingerprint is wanted, behind the work */
    TB_CU_BEFORE = 1u << 1,   /* before it */
    TB_CU_ARRIVED = 1u << 2,  /* in memory of the host, at @twin, once the call is over */
    TB_CU_CHANGE = 1u << 3,   /* with HASH: before it, too */
    TB_CU_DOUBT = 1u << 4,    /* with CHANGE: it is believed to stay as it is */
    TB_CU_BELIEVED = 1u << 5, /* it is, and not looked at */
    TB_CU_ROWS = 1u << 6,     /* with these: of the rows of the work's box alone */
};

struct tb_cu_access {
    struct tb_cu_alloc *alloc; /* NULL: mode q */
    uint64_t ordinal, offset, bytes;
    uint64_t pointer; /* offset of the argument that leads there */
    uint64_t twin;    /* DEVICE address of the same bytes, where these may not be read; 0: none */
    uint64_t ticket;
    uint64_t before;  /* CHANGE: of the hash before the work; ARRIVED: the fingerprint is both */
    uint32_t version; /* of @alloc */
    uint32_t table;   /* 0: no fingerprint */
    uint32_t rate;    /* of sampling, 0: all */
    uint16_t word;    /* offset in the parameters; 0xffff: see @name */
    uint8_t mode, dtype, flags;
    bool by_pointer; /* what of the allocation @pointer is for */
    bool guessed;    /* the extent is all that a pointer may be for */
    bool by_code;    /* TB_CFG_LEARN: the code may write it */
    bool beside;     /* read only to tell what lay there before the launch wrote */
    const char *name;
};

/** struct tb_cu_rows - rows of @width bytes, @pitch apart; @count of them in each of @slices */
struct tb_cu_rows {
    uint64_t width, count, slices; /* width 0: not known */
    uint64_t pitch, slice;         /* bytes to the next row, the next slice */
};

#define TB_CU_PLANNED 32u /* accesses of a launch that has a plan, at most */

/** struct tb_cu_again - a launch by a plan, ready to be hashed and written */
struct tb_cu_again {
    struct tb_rec_thread *thread;
    uint32_t site; /* id on the thread's ring */
    uint32_t accesses;
    struct tb_wire_access wire[TB_CU_PLANNED + 1];
    struct tb_fpd_batch batch;                    /* the hashes */
    struct tb_wire_access *hashed[TB_CU_PLANNED]; /* the place of its ticket in @wire */
    struct tb_cu_alloc *alloc[TB_CU_PLANNED];
};

/** struct tb_cu_work - one event in the making */
struct tb_cu_work {
    struct tb_cu_work *next;
    struct tb_cu_ctx *ctx;
    CUstream stream;
    struct tb_cu_stream *order;
    const char *name; /* of the event */
    struct tb_cu_kernel *kernel;
    struct tb_cu_shape shape; /* of a launch */
    uint8_t kind;             /* enum tb_wire_event_kind */
    bool per_thread;          /* the call was a _ptsz form */
    bool again;               /* a launch by a plan: `plan_run` is in place of accesses */
    bool away;                /* and its stream is of another context than the current one */
    bool plain;               /* a copy of bytes in a row: behind it both ends are equal */
    bool waited;              /* the host goes on when it is done */
    bool unsure;              /* an argument is no address that we know, but could become one */
    bool beyond;              /* it may write memory of the host that no argument leads to */
    bool left_unhashed;       /* a graph's copy to the host has no fingerprint */
    bool fed;                 /* a graph's copy has brought bytes of the host, not hashed there */
    bool left_torn;           /* what it brings to the host may be written meanwhile, unseen */
    bool torn;                /* it met another stream's use of the same memory */
    bool exact;               /* run --poison: it was hashed as it is, by tb_cu_launch_exact() */
    bool leaves;              /* what a copy reads goes to the host: it is hashed, always */
    bool settles;             /* some of what it reads is hashed this once */
    bool torn_here;           /* its own fingerprints are: those of a graph's node */
    bool torn_state;          /* the same of a state */
    bool learns;              /* what it writes is not known from its code but learnt */
    bool not_before;          /* what the host may write could not be hashed before it */
    bool snapshot;            /* the user wants its bytes */
    uint32_t n, snaps;
    uint64_t args, open, seq;
    const struct tb_cu_cuts *cuts; /* extents end there, too; NULL: none do */
    const char *missing;           /* why fingerprints are missing, NULL: none is */
    struct tb_cu_plan *plan;       /* was made of it; NULL: none */
    struct tb_cu_learn *learn;     /* NULL: it does not learn, or cannot */
    uint64_t plan_stamp;
    uint64_t hashed;        /* bytes so far */
    uint64_t torn_seq;      /* event of that use */
    struct tb_cu_rows rows; /* of a copy with gaps: what it reads */
    struct tb_cu_rows to;   /* where that arrives, if there are gaps */
    char detail[96];        /* further "\tkey=value" of the site; what follows is not zeroed */
    union {
        struct tb_cu_access access[TB_CU_ACCESSES];
        struct tb_cu_again plan_run;
    };
    struct tb_cu_snap *snap[TB_CU_WORK_SNAPS];
    uint32_t snap_access[TB_CU_WORK_SNAPS];
};

/** tb_cu_work_new - an empty one, or NULL; tb_cu_work_drop gives back. tb_cu_work_take - the same
 * under the lock */
struct tb_cu_work *tb_cu_work_new(uint8_t kind, const char *name, CUstream stream, bool per_thread);
struct tb_cu_work *tb_cu_work_take(uint8_t kind, const char *name, CUstream stream,
                                   bool per_thread);
void tb_cu_work_drop(struct tb_cu_work *w);
/** tb_cu_add - one access to [@address, @address + @bytes) if that is memory we know; under the
 * lock
 * @bytes 0: not known, so the whole allocation, or what of it the pointer is for. Returns: is it?
 */
bool tb_cu_add(struct tb_cu_work *w, uint8_t mode, uint64_t address, uint64_t bytes, uint16_t word,
               uint8_t dtype, const char *name);
/** tb_cu_add_range - exactly those bytes, in as many accesses as blocks have a part in them */
void tb_cu_add_range(struct tb_cu_work *w, uint8_t mode, uint64_t address, uint64_t bytes,
                     const char *name);
void tb_cu_add_alloc(struct tb_cu_work *w, uint8_t mode, struct tb_cu_alloc *a, const char *name);
/** tb_cu_add_behind - a pointer as @like has one is for memory up to @address, where a mapping
 * ends: it may be for the mappings behind that, too */
tb_cold void tb_cu_add_behind(struct tb_cu_work *w, const struct tb_cu_access *like,
                              uint64_t address);
/* Instead of an access's pointer: that leads to memory before this one. */
#define TB_CU_BEFORE_IT UINT64_MAX
/** tb_cu_cut - what @pointer is for of the @bytes from @from on, in an allocation of that ordinal
 */
void tb_cu_cut(const struct tb_cu_cuts *c, uint64_t ordinal, uint64_t pointer, uint64_t *from,
               uint64_t *bytes);
/** tb_cu_add_part - one to @bytes of @a from @from on, in which a caching allocator has no block */
void tb_cu_add_part(struct tb_cu_work *w, uint8_t mode, struct tb_cu_alloc *a, uint64_t from,
                    uint64_t bytes, const char *name);
/** tb_cu_budget - beyond --launch-bytes of @w a part of @a is hashed */
void tb_cu_budget(struct tb_cu_work *w, struct tb_cu_access *a);
/** tb_cu_is_sole - no stream but @w's, whose order is followed, has used what @uses are of */
static inline bool tb_cu_is_sole(const struct tb_cu_work *w, const struct tb_cu_uses *uses)
{
    return !uses->several && (!uses->n || uses->stream == w->order->index);
}
/** tb_cu_unordered - does @a meet a use of the same bytes that nothing orders with @w? Under the
 * lock */
bool tb_cu_unordered(const struct tb_cu_work *w, const struct tb_cu_access *a);
/** tb_cu_shared - @w has @pointer to a place in @a: do other threads have others, by chance before
 * it, and extents are still whole? Under the lock */
bool tb_cu_shared(const struct tb_cu_work *w, const struct tb_cu_alloc *a, uint64_t pointer);
/** tb_cu_settle - of a launch: what it reads and streams wrote at once before, it is behind both:
 * that is hashed once. Under the lock */
void tb_cu_settle(struct tb_cu_work *w);
/** tb_cu_add_host_writes - of a launch: what the host may have left in memory that both write is
 * hashed before it, for nobody sees that being written. Under the lock */
void tb_cu_add_host_writes(struct tb_cu_work *w);
/** tb_cu_add_host_source - of a copy: so is managed memory that it takes from. Under the lock */
void tb_cu_add_host_source(struct tb_cu_work *w);
/** tb_cu_note_use - @w uses what @a says; under the lock */
void tb_cu_note_use(struct tb_cu_work *w, const struct tb_cu_access *a);
/** tb_cu_add_order - its stream as an access, always the last one */
void tb_cu_add_order(struct tb_cu_work *w);
/** tb_cu_pending - bits of a wire access's alloc whose fingerprint comes yet, sampled or not */
static inline uint64_t tb_cu_pending(uint32_t rate)
{
    return (uint64_t)(rate > 1 ? TB_FP_SAMPLED : TB_FP_BYTES) << 48 | TB_ACCESS_PENDING;
}
/** tb_cu_wire - an access as the ring has it */
struct tb_wire_access tb_cu_wire(const struct tb_cu_access *a);
/** tb_cu_event_write - its event, and coverage rows of what is missing; the site's id and ring into
 * its plan */
void tb_cu_event_write(struct tb_cu_work *w);
/** tb_cu_event_put - the same with site and accesses as they go to the ring */
void tb_cu_event_put(struct tb_cu_work *w, struct tb_rec_thread *t, uint32_t site,
                     const struct tb_wire_access *wire, uint32_t n);
/** tb_cu_work_before - queue the hashes of what is read (TB_CFG_INPUTS) */
void tb_cu_work_before(struct tb_cu_work *w);
/** tb_cu_work_end - the work is queued: hash what it wrote, write the event, now or when CUDA may
 * be called. Takes @w */
void tb_cu_work_end(struct tb_cu_work *w);
/** tb_cu_work_ordered - the event with its stream, of what is hashed already. Takes @w */
void tb_cu_work_ordered(struct tb_cu_work *w);
/** tb_cu_work_write - the event alone. Takes @w */
void tb_cu_work_write(struct tb_cu_work *w);
/** tb_cu_work_over - its event is written. Takes @w */
void tb_cu_work_over(struct tb_cu_work *w);
/** tb_cu_detail - "\tkey=value" for the site */
void tb_cu_detail(struct tb_cu_work *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** tb_cu_fault - @c failed: if that is the fault of work that ran before, a row says so; without
 * the lock */
void tb_cu_fault(const struct tb_cuda_call *c);

/* ---------------------------------------------------------------- the state */

#define TB_CU_FOUND 64u
#define TB_CU_DEVICES 64

/** struct tb_cu_found - where an address was found to lie, as long as nothing changes */
struct tb_cu_found {
    uint64_t address, changes;
    struct tb_cu_alloc *alloc;
};

/** struct tb_cu_state - of the step under way, where its work is no event */
struct tb_cu_state {
    struct tb_cu_stream *sole; /* in which work was queued first */
    bool several;              /* and ever in others */
    bool busy;                 /* a step ends; atomic */
    bool by_chance;            /* some of it is of threads that cannot be told apart */
    uint64_t step;             /* grows with each */
    uint32_t names;            /* given by twinbit.h; 0 again when none is left */
    uint32_t unsafe;           /* allocations that are not hashed */
    uint32_t n, room;          /* of the list */
    struct tb_cu_alloc **list; /* what is hashed at its end */
};

/*
 * The library's only state. `api`, `front`, `driver`, `config`, `at_enter` and `windowed` are
 * written once, by tb_cuda_start(); `on` last of all. The rest under `lock`.
 */
struct tb_cu {
    uint32_t on;             /* atomic */
    bool at_enter, windowed; /* tb_cu_at_enter(); not all steps are wanted */
    bool marks; /* steps whose work is no event have a state; not with PyTorch; atomic */
    uint32_t lock;
    const struct tb_rec_api *api;
    const struct tb_wire_config *config;
    const struct tb_cuda_front *front;
    struct tb_cu_driver driver;
    uint32_t generation; /* of the runtime: a forked child has no CUDA of its parent's */
    uint8_t *slab;
    size_t slab_left;
    struct tb_cu_ctx *contexts;
    uint32_t tables;
    struct tb_cu_alloc **alloc; /* by address */
    uint32_t allocs, alloc_capacity;
    struct tb_cu_alloc **block; /* of caching allocators, by address */
    uint32_t blocks, block_capacity;
    struct tb_cu_alloc *free_allocs;
    uint64_t alloc_changes; /* of either list */
    uint64_t versions;      /* how often an allocation's version has grown */
    struct tb_cu_found found[TB_CU_FOUND];
    struct tb_cu_map images, codes, kernels, streams, events, execs, links;
    struct tb_cu_link *free_links;
    struct tb_cu_map physical; /* handles of mapped memory, mapping.c */
    struct tb_cu_map reserved; /* where ranges of addresses begin */
    struct tb_cu_map fresh;    /* run --poison: handles of cuMemCreate that were not mapped yet */
    uint64_t kernel_changes;   /* handles that mean another kernel now, or none; atomic */
    uint32_t parts;            /* that twinbit.h ever named inside an allocation */
    uint32_t blocking_streams; /* beside the legacy one */
    uint32_t stream_ordinals, stream_indices, event_ordinals;
    uint32_t first_device;      /* plus 1, of those that contexts were current of; 0: none yet */
    bool devices;               /* there were several; atomic */
    bool one_legacy;            /* handle NULL is `legacy` in any case */
    struct tb_cu_stream legacy; /* and those of further devices behind it */
    struct tb_cu_clocks host;   /* what the host has waited for */
    uint64_t host_waits;        /* grows with it; from 0, as those of streams */
    uint64_t said_waits;
    struct tb_cu_clocks gone; /* what streams knew that were destroyed, of whatever device */
    bool split;               /* an allocation ever was */
    int fault;                /* the last error of a device that a call returned; 0: none */
    const char *last_kernel;  /* launched, of those that are recorded; atomic */
    uint64_t unsaid;          /* orders without an event, as in wire.h; read without the lock */
    struct tb_cu_work *free_works;
    uint32_t captures; /* under way; atomic */
    uint64_t capture_numbers;
    struct tb_cu_map unknown;
    struct tb_cu_kernel *new_kernels; /* not asked for yet; only with TB_CFG_DEFER */
    uint64_t plan_stamps;
    uint32_t learners; /* kernels whose launches must be looked at early; atomic */
    uint32_t shared;   /* there ever was memory that the host writes, too: the same; atomic */
    struct tb_cu_node *free_nodes;
    struct tb_cu_exec *free_execs;
    struct tb_cu_base *free_bases, **last_base; /* the oldest first */
    uint32_t bases;                             /* words that were ever in use */
    struct tb_cu_snap *snaps;
    struct tb_cu_state state;
    CUcontext primary[TB_CU_DEVICES]; /* of devices; NULL: its making was not seen */
    uint64_t peers[TB_CU_DEVICES];    /* device -> the devices whose memory it may use */
    bool on_exit;                     /* the handler for the end is registered */
    bool ended;                       /* it ran once */
    bool chosen;                      /* a kernel that --kernel lets in was seen */
    uint64_t delays;                  /* numbers that were drawn for them; atomic */
    bool unhashed;                    /* run --poison: a copy to the host was not; atomic */
    bool recycles;                    /* a caching allocator has taken a block back; atomic */
};
extern struct tb_cu tb_cu;

/** struct tb_cu_late - something to do where CUDA may be called; NULL: nothing */
struct tb_cu_late {
    void (*what)(uint64_t a, uint64_t b);
    uint64_t a, b;
};

#define TB_CU_SEEN 8u

enum tb_cu_thread { TB_CU_SOME_THREAD, TB_CU_MAIN_THREAD, TB_CU_OTHER_THREAD };

/* Written by its own thread only. Small: the loader has little room for what is found without a
 * call, and shares it with all that a job loads. */
struct tb_cu_tls {
    struct tb_cu_work *pending; /* waits for a place where CUDA may be called */
    uint32_t op_depth;          /* inside an operator of another tap */
    bool may_call;              /* CUDA may be called in this call of enter, exit or legal */
    uint8_t thread;             /* enum tb_cu_thread */
    int device;                 /* of the last context that was asked for */
    uint32_t tid;               /* tb_cu_thread(), 0: not asked for yet */
    CUcontext context;          /* that context */
    struct tb_cu_ctx *ctx;      /* of that context, NULL: not known */
    uint64_t kernel_changes;    /* when the kernels below were right */
    struct tb_cu_seen {
        uint64_t handle;
        struct tb_cu_kernel *kernel;
    } kernel[TB_CU_SEEN];   /* launched last, by their handles */
    struct tb_cu_late late; /* waits for the same */
    uint64_t seen_step;     /* plus 1: that the counts below are for */
    uint64_t *seen;         /* TB_CU_SNAPSHOTS, NULL: none was needed yet */
};
_Static_assert(sizeof(struct tb_cu_tls) <= 256, "see above");
extern _Thread_local struct tb_cu_tls tb_cu_tls;

/** tb_cu_at_enter - must work be looked at before it is queued? */
static inline bool tb_cu_at_enter(void)
{
    return tb_cu.at_enter;
}

/** tb_cu_marks - is what works write to be known although they are no events? */
static inline bool tb_cu_marks(void)
{
    return __atomic_load_n(&tb_cu.marks, __ATOMIC_RELAXED);
}

/** tb_cu_has_learners - are there kernels whose launches must be looked at early? */
static inline bool tb_cu_has_learners(void)
{
    return __atomic_load_n(&tb_cu.learners, __ATOMIC_RELAXED) != 0;
}

/** tb_cu_has_shared - may launches use memory that the host writes, too? */
static inline bool tb_cu_has_shared(void)
{
    return __atomic_load_n(&tb_cu.shared, __ATOMIC_RELAXED) != 0;
}

/* No memory is mapped below: such a number is none that becomes an address. */
#define TB_CU_LOWEST (1ull << 20)

/** tb_cu_unsure - what @w does with the argument @v depends on what memory there is */
static inline void tb_cu_unsure(struct tb_cu_work *w, uint64_t v)
{
    w->unsure = w->unsure || v >= TB_CU_LOWEST;
}

tb_cold void tb_cu_lock_slow(void);
tb_cold void tb_cu_unlock_slow(void);

/* 0 open, 1 held, 2 held and somebody may wait */
static inline void tb_cu_lock(void)
{
    uint32_t seen = 0;

    if (tb_unlikely(!__atomic_compare_exchange_n(&tb_cu.lock, &seen, 1, false, __ATOMIC_ACQUIRE,
                                                 __ATOMIC_RELAXED)))
        tb_cu_lock_slow();
}

static inline void tb_cu_unlock(void)
{
    if (tb_unlikely(__atomic_exchange_n(&tb_cu.lock, 0, __ATOMIC_RELEASE) == 2))
        tb_cu_unlock_slow();
}

/** tb_cu_recording - is work of this thread recorded at all now? */
bool tb_cu_recording(void);
/** tb_cu_cover - a coverage row; without the lock */
void tb_cu_cover(unsigned severity, uint64_t seq, const char *kind, const char *subject,
                 const char *detail);

static inline uint64_t tb_cu_mix(uint64_t h, uint64_t v)
{
    h ^= v * 0x9e3779b97f4a7c15ull;
    return (h << 29 | h >> 35) * 0xbf58476d1ce4e5b9ull;
}
uint64_t tb_cu_mix_text(uint64_t h, const char *text);
/** tb_cu_late - @what(@a, @b) now if CUDA may be called, else at the end of this call of the job's;
 * of a call that the shim does not see that end is never seen: a row of coverage. Without the lock
 */
void tb_cu_late(void (*what)(uint64_t a, uint64_t b), uint64_t a, uint64_t b);

/* ---------------------------------------------------------------- alloc.c (under the lock) */

struct tb_cu_alloc *tb_cu_alloc_at(uint64_t address);
/** tb_cu_run - bytes from @address on that are of one block, or of what lies between two; 0: none
 */
uint64_t tb_cu_run(uint64_t address);
/** tb_cu_alloc_around - the allocation itself, whatever blocks are in it */
struct tb_cu_alloc *tb_cu_alloc_around(uint64_t address);
void tb_cu_alloc_add(uint64_t base, uint64_t bytes, int device, uint8_t kind);
void tb_cu_alloc_remove(uint64_t base);
/** tb_cu_alloc_remove_of - all that end with @context, or with @code, or that are @device's; NULL,
 * 0 and -1: nothing of the kind */
void tb_cu_alloc_remove_of(CUcontext context, uint64_t code, int device);
/** tb_cu_alloc_lift - takes what begins at @base out, with its blocks, so that nobody finds it; the
 * chain for tb_cu_alloc_settle(), NULL: there is nothing */
struct tb_cu_alloc *tb_cu_alloc_lift(uint64_t base);
/** tb_cu_alloc_lift_range - all that begin in [@base, @base + @bytes) */
struct tb_cu_alloc *tb_cu_alloc_lift_range(uint64_t base, uint64_t bytes);
/** tb_cu_alloc_settle - @gone: given back, else they are as before */
void tb_cu_alloc_settle(struct tb_cu_alloc *chain, bool gone);
void tb_cu_block(int device, uint64_t base, uint64_t bytes);
/** struct tb_cu_piece - a block inside an allocation, or (NULL) what no block covers */
struct tb_cu_piece {
    struct tb_cu_alloc *block;
    uint64_t offset, bytes;
};
/** tb_cu_pieces - all of @a in order of address, a piece of its own for each block; 0: more than
 * @room */
uint32_t tb_cu_pieces(const struct tb_cu_alloc *a, struct tb_cu_piece *out, uint32_t room);
/** tb_cu_alloc_device - what begins in that range is @device's from now on */
void tb_cu_alloc_device(uint64_t base, uint64_t bytes, int device);
/** tb_cu_extent - what of @a a pointer at @offset is for */
void tb_cu_extent(struct tb_cu_alloc *a, uint64_t offset, uint64_t *from, uint64_t *bytes);
/** tb_cu_until_bound - of the @bytes at @offset, those before the first pointer that was seen there
 * or behind it, if streams use parts of @a */
uint64_t tb_cu_until_bound(const struct tb_cu_alloc *a, uint64_t offset, uint64_t bytes);
/** tb_cu_alloc_changed - accesses to it may look different now */
static inline void tb_cu_alloc_changed(struct tb_cu_alloc *a)
{
    a->version++;
    tb_cu.versions++;
}
/** tb_cu_alloc_changed_of - those of @device */
void tb_cu_alloc_changed_of(int device);
/** tb_cu_bound - something begins or ends at @offset of @a */
void tb_cu_bound(struct tb_cu_alloc *a, uint64_t offset);
struct tb_cu_alloc *tb_cu_alloc_new(uint64_t base, uint64_t bytes, int device, uint8_t kind);

/* ---------------------------------------------------------------- mapping.c (under the lock) */

/** tb_cu_mapped - what begins at @base is memory of that handle */
void tb_cu_mapped(uint64_t base, uint64_t handle);
/** tb_cu_goes_on - the mapping at @address, if a buffer may go on there that lies right before it
 * in one reserved range; NULL: it cannot */
struct tb_cu_alloc *tb_cu_goes_on(uint64_t address);
/** tb_cu_room_at - bytes from @address in @a to the end of it, or of the last mapping in which it
 * goes on */
uint64_t tb_cu_room_at(const struct tb_cu_alloc *a, uint64_t address);
/** tb_cu_mapping_enter, tb_cu_mapping_exit - a call that makes handles or ranges of addresses, or
 * takes them back. Without the lock */
void tb_cu_mapping_enter(const struct tb_cuda_call *c);
void tb_cu_mapping_exit(const struct tb_cuda_call *c);

/* ---------------------------------------------------------------- poison.c */

/** tb_cu_fills - is fresh memory to be filled (run --poison)? */
static inline bool tb_cu_fills(void)
{
    return tb_unlikely(tb_cu.config->poison != 0);
}
/** tb_cu_fill - the @bytes at @base of @device are fresh: fill them, and wait until that is done,
 * for any stream may use them at once. tb_cu_fill_in - queue that in @stream, where they are
 * allocated; nothing waits. Without the lock, where CUDA may be called */
void tb_cu_fill(uint64_t base, uint64_t bytes, int device);
void tb_cu_fill_in(uint64_t base, uint64_t bytes, CUstream stream, bool per_thread);
/** tb_cu_fill_host - the same of memory that the host may write; anywhere */
void tb_cu_fill_host(uint64_t base, uint64_t bytes);
/** tb_cu_fill_mapped - all in that range that is mapped for the first time */
void tb_cu_fill_mapped(uint64_t base, uint64_t bytes);
/** tb_cu_fill_none - a row, if it is to be filled and is not */
void tb_cu_fill_none(const char *what);
/** tb_cu_fill_unhashed - what a copy brings to the host is not hashed; tb_cu_fill_told - a row, if
 * that was so. The first anywhere, the second without the lock */
static inline void tb_cu_fill_unhashed(void)
{
    __atomic_store_n(&tb_cu.unhashed, true, __ATOMIC_RELAXED);
}
void tb_cu_fill_told(void);
/** tb_cu_created, tb_cu_released - a handle of cuMemCreate */
void tb_cu_created(const struct tb_cuda_call *c);
void tb_cu_released(const struct tb_cuda_call *c);

/* ---------------------------------------------------------------- delay.c */

/** tb_cu_stresses - are streams to be disturbed (run --stress)? */
static inline bool tb_cu_stresses(void)
{
    return tb_unlikely(tb_cu.config->stress != 0);
}
/** tb_cu_delay - the job queues something in @stream next: perhaps that has to wait a while.
 * Without the lock */
void tb_cu_delay(CUstream stream, bool per_thread);
/** tb_cu_delay_load - into the context that is current; tb_cu_delay_unload - gives back */
void tb_cu_delay_load(struct tb_cu_ctx *c);
void tb_cu_delay_unload(struct tb_cu_ctx *c);

/* ---------------------------------------------------------------- split.c (under the lock) */

/** tb_cu_split - streams use parts of @a */
void tb_cu_split(struct tb_cu_alloc *a);
/** tb_cu_split_used - the work of @s whose time it is now uses these; @launch: it is one, of which
 * those to come may see allocations whole again */
void tb_cu_split_used(const struct tb_cu_stream *s, const struct tb_cu_access *access, uint32_t n,
                      bool launch);
static inline void tb_cu_split_uses(const struct tb_cu_work *w, bool launch)
{
    if (tb_unlikely(tb_cu.split) && w->order)
        tb_cu_split_used(w->order, w->access, w->n, launch);
}
bool tb_cu_is_main_thread(void);
/** tb_cu_thread - a number of this thread that no other one has while it lives */
uint32_t tb_cu_thread(void);
/** tb_cu_by_chance - did another thread queue @use in another stream, and nothing but its own wait
 * orders it before what @s does? Then the next run may have it behind that. */
bool tb_cu_by_chance(const struct tb_cu_stream *s, const struct tb_cu_use *use);

/* ---------------------------------------------------------------- module.c, kernel.c */

/** tb_cu_code_add - a module or library was loaded from @image (NULL: a file); without the lock */
void tb_cu_code_add(uint64_t handle, const void *image, bool library);
/** tb_cu_code_linked - the driver has made machine code @image of what @info says; without the lock
 */
void tb_cu_code_linked(const void *image, const struct tb_wire_kernels *info);
void tb_cu_code_remove(uint64_t handle);
/** tb_cu_codes_forget - modules of @context end with it; under the lock */
void tb_cu_codes_forget(CUcontext context);
void tb_cu_kernel_add(uint64_t handle, uint64_t code, const char *name);
/** tb_cu_kernel - the kernel with this handle, its parameters known as far as they can be; may call
 * CUDA; NULL: no memory. Without the lock */
struct tb_cu_kernel *tb_cu_kernel_find(struct tb_cu_tls *tls, uint64_t handle);
/* What this thread has launched before is found without the lock. */
#define TB_CU_SEEN_AT(handle) (((handle) >> 4 ^ (handle) >> 8) % TB_CU_SEEN)
static inline struct tb_cu_kernel *tb_cu_kernel(uint64_t handle)
{
    struct tb_cu_tls *tls = &tb_cu_tls;
    const struct tb_cu_seen *s = &tls->kernel[TB_CU_SEEN_AT(handle)];

    if (tb_likely(s->handle == handle &&
                  tls->kernel_changes == __atomic_load_n(&tb_cu.kernel_changes, __ATOMIC_ACQUIRE)))
        return s->kernel;
    return tb_cu_kernel_find(tls, handle);
}
/** tb_cu_kernels_changed - a handle means another kernel, or one must be asked anew; under the lock
 */
static inline void tb_cu_kernels_changed(void)
{
    __atomic_fetch_add(&tb_cu.kernel_changes, 1, __ATOMIC_RELEASE);
}
/** tb_cu_kernels_ask - CUDA may be called: ask for the parameters of kernels that are new */
void tb_cu_kernels_ask(void);
/** tb_cu_kernel_globals - a library's kernel is to run on the current device, where it has
 * variables of its own */
void tb_cu_kernel_globals(struct tb_cu_kernel *k);
/** tb_cu_variable - the allocation of module variable @name of @code, made and named if it is new;
 * @flags: enum tb_wire_global_flags. Under the lock; NULL: no memory */
struct tb_cu_alloc *tb_cu_variable(uint64_t code, const char *name, uint32_t flags,
                                   CUdeviceptr address, size_t bytes);
/** tb_cu_global_flags - what the kernels of @c, which may be NULL, do with variable @name */
uint32_t tb_cu_global_flags(const struct tb_cu_code *c, const char *name);
/** tb_cu_kernels_forget - contexts ended: where variables lie must be asked again; under the lock
 */
void tb_cu_kernels_forget(void);

/* ---------------------------------------------------------------- params.c */

/** tb_cu_params - the arguments of a launch as one block, with zeros behind them up to a whole
 * word; bytes of it, 0: unknown */
uint32_t tb_cu_params(const struct tb_cu_kernel *k, void **params, void **extra,
                      uint8_t block[TB_CU_PARAM_ROOM]);
/** tb_cu_kernel_accesses - what a launch with that block may read and write; under the lock */
void tb_cu_kernel_accesses(struct tb_cu_work *w, struct tb_cu_kernel *k, const uint8_t *block,
                           uint32_t bytes);

/* ---------------------------------------------------------------- plan.c */

#define TB_CU_PLANS 64u

/** struct tb_cu_asked - what a launch was called with, and where */
struct tb_cu_asked {
    const uint8_t *block; /* its arguments */
    uint32_t bytes;
    bool early; /* it is not queued yet */
    struct tb_rec_thread *thread;
    uint32_t ring;         /* number of the thread's ring */
    struct tb_cu_ctx *ctx; /* NULL: by no plan */
};
/** tb_cu_plan_use - make @w, empty but for its launch and stream, ready as an equal launch before
 * it was; false: there was none, or what it led to has changed. Under the lock */
bool tb_cu_plan_use(struct tb_cu_work *w, const struct tb_cu_asked *asked);
/** tb_cu_plan_keep - the accesses of @w were found: so for launches like it. Under the lock */
void tb_cu_plan_keep(struct tb_cu_work *w, const struct tb_cu_asked *asked);
/** tb_cu_plan_site - the site of @w has that id on that ring; with the lock taken */
void tb_cu_plan_site(struct tb_cu_work *w, uint32_t ring, uint32_t site);
/** tb_cu_again_end - the launch is queued: hash what it wrote, write the event. Takes @w */
void tb_cu_again_end(struct tb_cu_work *w);
/** tb_cu_again_undraw - nothing will be hashed */
void tb_cu_again_undraw(struct tb_cu_work *w);

/* ---------------------------------------------------------------- learn.c (under the lock) */

/** tb_cu_learns - must launches of @k be looked at before they are queued, to learn from them? */
bool tb_cu_learns(const struct tb_cu_kernel *k); /* kept in k->learns */
/** tb_cu_learn_plan - which of @w's accesses to hash, before and after it; @block: its arguments */
void tb_cu_learn_plan(struct tb_cu_work *w, const uint8_t *block, uint32_t bytes);
/** tb_cu_learn_stable - version of what is known of such launches, if all is; 0: not yet.
 * tb_cu_learn_again - is that still so, and this launch none that looks again? Then it is counted
 */
uint32_t tb_cu_learn_stable(const struct tb_cu_work *w);
bool tb_cu_learn_again(const struct tb_cu_kernel *k, struct tb_cu_learn *l, uint32_t version);
/** tb_cu_learn_note - its hashes are queued: look at them later */
void tb_cu_learn_note(struct tb_cu_work *w);
/** tb_cu_learn_end - the process ends: what was learnt, as coverage rows, if the test mode wants it
 */
void tb_cu_learn_end(void);

/* ---------------------------------------------------------------- mark.c, state.c */

/* A work was queued, and what it writes: only where tb_cu_marks() says so; without the lock.
 * tb_cu_mark_stream - must what it writes be known? */
bool tb_cu_mark_stream(CUstream stream, bool per_thread);
void tb_cu_mark_launch(struct tb_cu_kernel *k, CUstream stream, bool per_thread, void **params,
                       void **extra);
void tb_cu_mark_write(CUstream stream, bool per_thread, uint64_t address, uint64_t bytes);
/** tb_cu_step_ends - twinbit.h: an event with what the step left; CUDA may be called */
void tb_cu_step_ends(void);
/** tb_cu_enter_device - a context of @device: the current one, or a known one that is current until
 * tb_cu_return(@v); NULL: none, and return all the same. In service.c */
struct tb_cu_ctx *tb_cu_enter_device(int device, struct tb_cu_visit *v);

/* ---------------------------------------------------------------- stream.c (under the lock) */

struct tb_cu_stream *tb_cu_stream_find(CUstream handle, bool per_thread);
static inline struct tb_cu_stream *tb_cu_stream(CUstream handle, bool per_thread)
{
    if (tb_likely(!handle && !per_thread && tb_cu.one_legacy))
        return &tb_cu.legacy;
    return tb_cu_stream_find(handle, per_thread);
}
void tb_cu_stream_new(CUstream handle, bool blocking);
/** tb_cu_stream_owner - it was made in this thread's context, which must have been asked for */
void tb_cu_stream_owner(CUstream handle);
void tb_cu_stream_gone(CUstream handle);
/** tb_cu_stream_tick - work is queued in @s: what is before it, and its own time */
uint64_t tb_cu_stream_join(struct tb_cu_stream *s);
static inline uint64_t tb_cu_stream_tick(struct tb_cu_stream *s)
{
    if (tb_likely(s == &tb_cu.legacy && !tb_cu.blocking_streams &&
                  s->host_waits == tb_cu.host_waits))
        return s->known.said[0] = ++s->known.at[0];
    return tb_cu_stream_join(s);
}
struct tb_cu_event *tb_cu_event(CUevent handle);
void tb_cu_event_record(struct tb_cu_event *e, struct tb_cu_stream *s);
void tb_cu_event_wait(struct tb_cu_stream *s, const struct tb_cu_event *e);
/** tb_cu_host_waited - the host goes on behind @c. Returns: did it not know that before? */
bool tb_cu_host_waited(const struct tb_cu_clocks *c);
/** tb_cu_host_found - the same, by asking */
bool tb_cu_host_found(const struct tb_cu_clocks *c);
/** tb_cu_host_waited_device - behind all streams that are of @device, or perhaps are; -1: all */
void tb_cu_host_waited_device(int device);
/** tb_cu_unsaid - @orders were made that no event tells of, the last by @last (wire.h, mode q);
 * 2 and 0: by anything */
void tb_cu_unsaid(uint32_t orders, uint64_t last);
/** tb_cu_host_function - one was queued: what it orders, nobody sees; without the lock */
void tb_cu_host_function(void);
/** tb_cu_order_bits - the offset of an access of mode q (wire.h); without the lock */
static inline uint64_t tb_cu_order_bits(const struct tb_cu_stream *s)
{
    return __atomic_load_n(&tb_cu.unsaid, __ATOMIC_RELAXED) | (s ? s->bits : 0);
}
/** tb_cu_capture_of - number of the capture that a stream takes part in, as far as calls told it */
uint64_t tb_cu_capture_of(CUstream stream, bool per_thread);
/** tb_cu_capture_lives - has it not ended? tb_cu_capture_end - it has */
bool tb_cu_capture_lives(uint64_t number);
void tb_cu_capture_end(uint64_t number);
/** tb_cu_meet - are uses of memory in streams @s and @use unordered? */
bool tb_cu_meet(const struct tb_cu_stream *s, const struct tb_cu_use *use);
/** tb_cu_capturing - is @stream being captured? Asks CUDA where that is allowed; without the lock
 */
bool tb_cu_is_capturing(CUstream stream, bool per_thread);
static inline bool tb_cu_capturing(CUstream stream, bool per_thread)
{
    return tb_unlikely(__atomic_load_n(&tb_cu.captures, __ATOMIC_RELAXED) != 0) &&
           tb_cu_is_capturing(stream, per_thread);
}

/* ---------------------------------------------------------------- handlers by kind of call */

/** tb_cu_here - device and context of this thread into tb_cu_tls, where CUDA may be called; without
 * the lock */
void tb_cu_here(void);
/** tb_cu_saw_device - a context of @device is current; without the lock */
void tb_cu_saw_device(int device);
/** tb_cu_where - before the lock is taken and streams are looked for: the default ones are those of
 * the current context's device */
static inline void tb_cu_where(void)
{
    if (tb_unlikely(__atomic_load_n(&tb_cu.devices, __ATOMIC_RELAXED)))
        tb_cu_here();
}
/** tb_cu_device_now - number of that device, -1: not known; under the lock */
static inline int tb_cu_device_now(void)
{
    return tb_cu.devices ? tb_cu_tls.device : (int)tb_cu.first_device - 1;
}

void tb_cu_launch_enter(struct tb_cuda_call *c);
void tb_cu_launch_exit(struct tb_cuda_call *c);
void tb_cu_copy_enter(struct tb_cuda_call *c);
void tb_cu_copy_exit(struct tb_cuda_call *c);
void tb_cu_memory_enter(struct tb_cuda_call *c);
void tb_cu_memory_exit(struct tb_cuda_call *c);
void tb_cu_module_exit(struct tb_cuda_call *c);
void tb_cu_module_enter(struct tb_cuda_call *c);
void tb_cu_link_enter(struct tb_cuda_call *c);
void tb_cu_link_exit(struct tb_cuda_call *c);
void tb_cu_stream_enter(struct tb_cuda_call *c);
void tb_cu_stream_exit(struct tb_cuda_call *c);
void tb_cu_graph_exit(struct tb_cuda_call *c);
void tb_cu_graph_enter(struct tb_cuda_call *c);
void tb_cu_context_enter(struct tb_cuda_call *c);
void tb_cu_context_exit(struct tb_cuda_call *c);

/** tb_cu_chosen - is this launch of @k to be recorded, by --kernel and --sample? Counts it, and
 * says so where it is not. Without the lock */
bool tb_cu_chosen(struct tb_cu_kernel *k);
/** tb_cu_graphs_hash - does an executable graph still launch kernels of @c's module? */
bool tb_cu_graphs_hash(const struct tb_cu_ctx *c);
/** tb_cu_graphs_release - at exit: the clones that hash in @c */
void tb_cu_graphs_release(const struct tb_cu_ctx *c);

/** tb_cu_add_copy - what a copy reads and writes, or a set with @src_bytes 0 writes; @rows: it does
 * not read all of these bytes but rows of them, NULL: it does. Under the lock */
void tb_cu_add_copy(struct tb_cu_work *w, uint64_t dst, uint64_t dst_bytes, uint64_t src,
                    uint64_t src_bytes, const struct tb_cu_rows *rows);
/** struct tb_cu_arrival - a copy: where to, and who is there */
struct tb_cu_arrival {
    uint64_t dst, dst_bytes, src;
    bool home;  /* @dst is an address of the host's, by what the call is */
    bool waits; /* the call does */
    bool rows;  /* with gaps between them, on one side at least: w->rows, w->to */
};
/** tb_cu_arrival_plan - of what a copy reads, in the accesses of @w from @from on: what to hash
 * where it arrives. Under the lock */
void tb_cu_arrival_plan(struct tb_cu_work *w, uint32_t from, const struct tb_cu_arrival *to);
/** tb_cu_arrival_rows - how the bytes of @a, which is hashed where they arrive, lie there; false:
 * one behind the other */
bool tb_cu_arrival_rows(const struct tb_cu_work *w, const struct tb_cu_access *a,
                        struct tb_cu_rows *rows);
/** tb_cu_arrival_hash - the call is over, and it has succeeded */
void tb_cu_arrival_hash(struct tb_cu_work *w);
/** tb_cu_box - where a copy of three dimensions goes to and comes from */
void tb_cu_box(const CUDA_MEMCPY3D *m, struct tb_cu_node *n);
/** tb_cu_snapshot_due - counts @w among those its name fits; is it one that the user wants? */
bool tb_cu_snapshot_due(const struct tb_cu_work *w);
/** tb_cu_snapshot_take - queue copies of its accesses of @mode; send: its number is known now */
void tb_cu_snapshot_take(struct tb_cu_work *w, uint8_t mode);
void tb_cu_snapshot_send(struct tb_cu_work *w);
void tb_cu_snapshots_release(const struct tb_cu_ctx *c);
/** tb_cu_may_look - may @c read @a? */
bool tb_cu_may_look(const struct tb_cu_ctx *c, const struct tb_cu_alloc *a);
bool tb_cu_snapshot(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                    uint64_t seq, uint32_t access);
/** tb_cu_service - what other taps may ask; static */
const struct tb_rec_cuda *tb_cu_service(void);

#endif
