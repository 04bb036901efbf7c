/*
 * exec_internal - what the files of softgpu/exec share. exec/README.md explains the whole.
 *
 * The files ops_*.c and decode.c are compiled once for each instruction set (base x86-64 and AVX2
 * with FMA); their external symbols are wrapped in SG_ISA(). Everything else is compiled once.
 */
#ifndef SG_EXEC_INTERNAL_H
#define SG_EXEC_INTERNAL_H

#include "softgpu/exec/exec.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#define SG_WARP 32
#define SG_BARRIERS 16      /* of a block */
#define SG_CLUSTER 16       /* blocks of a cluster at most */
#define SG_CLUSTER_SHIFT 24 /* the memory of rank r begins at (r + 1) << this */
/* Shared memory that the system keeps for itself, of each block: cooperative groups use it. */
#define SG_RESERVED_OFFSET 0x800000u
#define SG_RESERVED_BYTES 1024u
#define SG_FULL_MASK 0xffffffffu

#define SG_CAT2(a, b) a##b
#define SG_CAT(a, b) SG_CAT2(a, b)
#ifndef SG_ISA_SUFFIX /* only the files ops_*.c are compiled for one instruction set */
#define SG_ISA_SUFFIX _base
#endif
#define SG_ISA(name) SG_CAT(name, SG_ISA_SUFFIX)

struct sg_warp;
struct sg_insn;
struct sg_block;
struct sg_func;

/* Executes one instruction for the active lanes of a warp; returns the next instruction, or
 * w->stop = &sg_stop after it has told the scheduler why (warp.c). */
typedef const struct sg_insn *(*sg_handler)(struct sg_warp *w, const struct sg_insn *in);

/* One decoded instruction. Operands r[] are byte offsets: from the frame if >= 0, else from the end
 * of the image's constant pool. 32-bit registers are 32 lanes of 4 bytes (narrower types use the
 * low bits, the rest is undefined), 64-bit ones 32 lanes of 8, predicates one 32-bit mask. */
struct sg_insn {
    sg_handler fn;    /* what the loop calls: the operation, or sg_guarded() */
    sg_handler inner; /* the operation */
    union {
        uint64_t imm;
        const void *ptr;
    };
    int32_t r[7];                   /* by convention r[0] is the destination */
    int32_t guard;                  /* predicate's offset, if guarded */
    uint32_t guard_neg : 1, x : 31; /* x: what the operation wants */
    uint32_t y;
} __attribute__((aligned(64)));

extern const struct sg_insn sg_stop; /* never executed: ends the loop */

#define SG_NO_PTX UINT32_MAX /* what ends a function is none of its PTX instructions */

struct sg_callee_var { /* a parameter or return value of a function: in local memory */
    uint32_t offset, size;
};

struct sg_func {
    const struct sg_ptx_func *ptx;
    struct sg_image *image;
    uint32_t first, count; /* instructions: image->code[first] ... */
    uint32_t frame_bytes;  /* registers, header included */
    uint32_t local_bytes;  /* variables of .local and .param space of one activation */
    uint32_t var_base;     /* image->vars[var_base + i] is its i-th variable */
    uint32_t shared_end;   /* entries: bytes of all .shared variables, own and used */
    uint32_t *callees, ncallees, cap_callees; /* functions it may call, by index */
    bool indirect;        /* has calls through pointers: may call any function */
    uint32_t shared_used; /* end of the image-wide .shared variables that it names */
    bool communicates;    /* own instructions only */
    bool uses_dynamic;
    struct sg_callee_var *params, *rets;
    uint32_t *live_in; /* slots that may be read before they are written: zeroed */
    uint32_t nlive_in;
    uint32_t reg_units; /* 32-bit registers a thread */
    int32_t *slot;      /* frame offset of each PTX register; vectors: of element 0 */
};

struct sg_kernel {
    struct sg_func *func;
    struct sg_kernel_info info;
    struct sg_kernel *next;
};

struct sg_image {
    struct sg_ptx_module **mods;
    size_t nmods;
    struct sg_image_env env;
    char *path;
    struct sg_func *funcs;
    uint32_t nfuncs;
    struct sg_kernel *kernels; /* array */
    uint32_t nkernels;
    struct sg_insn *code;
    uint32_t *ptx_of; /* the PTX instruction that it is part of, by index in its function */
    uint32_t ncode, cap_code;
    uint8_t *pool_end; /* constants: 256 bytes each, downwards from here */
    uint8_t *pool;
    uint32_t npool, cap_pool;
    uint32_t *pool_hash;
    uint32_t pool_hash_cap;
    struct sg_var *vars;
    uint32_t nvars, cap_vars;
    void **owned; /* freed with the image: operand lists and tables */
    uint32_t nowned, cap_owned;
    uint64_t const_bytes;
    uint32_t shared_end;    /* of .shared variables outside entries: they have fixed offsets */
    uint32_t dynamic_align; /* of extern .shared arrays */
    uint32_t *mod_var_base; /* image->vars[mod_var_base[k] + i]: i-th variable of module k */
    struct sg_names *names; /* definitions that other modules may see */
    uint64_t region;        /* where .global and .const variables lie; 0: none */
};

/* Where a variable ended up. */
struct sg_var {
    const struct sg_ptx_var *ptx;
    const struct sg_ptx_module *module;
    uint64_t addr;     /* global, const: address; shared, local, param: offset */
    bool owner;        /* allocated here (not an extern that resolves to another) */
    bool dynamic;      /* extern shared: behind all static variables */
    bool device_space; /* global or const */
};

/* ---- threads ------------------------------------------------------------------------------- */

enum sg_split_state {
    SG_READY = 0,
    SG_WAIT_BAR, /* at a barrier of the block */
    SG_WAIT_CLUSTER,
    SG_WAIT_SYNC, /* wants lanes of its member mask at the same instruction; at least: sg_isa.meet
                   */
    SG_WAIT_WARP, /* bar.warp.sync: wants lanes of its member mask at any of them */
};

/* Lanes of a warp that are at the same instruction of the same activation. */
struct sg_split {
    const struct sg_insn *pc;
    uint32_t mask;
    uint32_t fp;    /* offset of its frame in the register file */
    uint32_t lp;    /* offset of its activation in each lane's local memory */
    uint16_t depth; /* calls */
    uint8_t state, bar;
    uint32_t members;           /* WAIT_SYNC, WAIT_WARP */
    const struct sg_insn *wait; /* WAIT_BAR: the barrier, for its result */
    const struct sg_func *func;
};

/* Head of a callee's frame: where each lane returns to. */
struct sg_frame_head {
    const struct sg_insn *ret[SG_WARP];
    uint32_t fp[SG_WARP], lp[SG_WARP];
    const struct sg_func *func[SG_WARP];
};

struct sg_warp {
    uint8_t *frame; /* registers of the running split's activation */
    const uint8_t *pool_end;
    const struct sg_insn *stop; /* the loop ends there: another split waits, or &sg_stop */
    uint32_t mask;              /* active lanes */
    bool full;                  /* all living lanes are active: results need no blending */
    bool resched;               /* why the loop stopped: choose a split again */
    uint32_t alive;
    uint32_t lm_mask;                                 /* what lm[] was made for */
    int32_t lm[SG_WARP] __attribute__((aligned(64))); /* -1 for active lanes, else 0 */

    struct sg_block *block;
    uint32_t index; /* in the block */
    uint32_t nsplits, cur;
    struct sg_split splits[SG_WARP];
    uint32_t fp, lp;
    uint16_t depth;
    const struct sg_func *func;

    uint8_t *regs;
    uint32_t regs_cap;
    uint8_t *local;                 /* lane-major: lane * local_cap */
    uint32_t local_cap, local_used; /* bytes a lane: allocated; of activations so far */
    uint32_t tid[3][SG_WARP] __attribute__((aligned(64)));
    uint32_t born;                     /* lanes that exist */
    uint32_t bar_arrived[SG_BARRIERS]; /* lanes at each barrier of the block */
    uint32_t cluster_arrived;          /* lanes at that of the cluster, until it opens */
    uint64_t insns, lane_insns;        /* executed so far */
    uint64_t entered;                  /* PTX instructions, if watched */
    uint32_t rotate;                   /* first lane of sequential operations: from the seed */
    bool starved;                      /* last slice ended by its budget: choose another split */
    bool queued;                       /* in the runnable list */
    uint32_t run_slot;
    bool clock_is_read; /* the split has stopped for %clock and may read it now */
    uint32_t cc;        /* carry flag of each lane */
};

struct sg_barrier {
    uint32_t arrived;  /* threads, counted in whole warps */
    uint32_t expected; /* of the first arrival that named a count, 0: all */
    uint32_t popc;
    bool any, all;
};

/* Blocks that run together and see each other's shared memory. */
struct sg_cluster {
    struct sg_block *blocks[SG_CLUSTER]; /* by rank */
    uint32_t nblocks, alive_blocks;
    uint32_t threads, arrived; /* at the barrier: living threads, and those that have arrived */
};

struct sg_block {
    struct sg_run *run;
    struct sg_check_block *check;    /* check.c: what it knows of the block */
    struct sg_cluster *cluster, own; /* own: of the block with rank 0 */
    uint8_t reserved[SG_RESERVED_BYTES] __attribute__((aligned(16)));
    bool reserved_used;
    uint32_t id[3];
    uint64_t linear;
    uint8_t *shared;
    uint32_t shared_bytes;
    uint32_t shared_limit; /* the same, but 0 if somebody watches: every access goes the slow way */
    struct sg_warp *warps;
    uint32_t nwarps, alive_warps;
    struct sg_barrier bar[SG_BARRIERS];
    struct sg_warp **runnable;
    uint32_t nrunnable;
    uint64_t rng;
    uint32_t smid;
    uint32_t slot;
};

/* One launch being executed by one worker. */
struct sg_run {
    const struct sg_launch *launch;
    const struct sg_kernel *kernel;
    struct sg_image *image;
    struct sg_machine *machine;
    struct sg_mem *mem;
    uint8_t *params; /* copy of the parameter block, readable by generic loads */
    uint64_t param_bytes;
    uint8_t device_bit; /* 0 if somebody watches: every access goes the slow way */
    uint8_t real_bit;
    bool watched;
    struct sg_step *step; /* being executed, if watched */
    bool parallel;        /* other workers execute blocks of the launch at the same time */
    struct sg_shared_run *all;
    uint64_t rng;
    uint64_t clock; /* %clock: warp instructions of this worker so far */
    uint64_t warp_insns, lane_insns;
    uint64_t shared_window, local_window;
    struct sg_fault *fault;
    uint32_t shared_total;
    uint32_t local_total;
    bool any_progress;
};

/* Heap of kernels' malloc, one a device, kept between launches. */
struct sg_heap;
uint64_t sg_heap_alloc(struct sg_machine *m, const struct sg_launch *l, uint64_t size);
/* @hold: the piece is not used again while there are others */
bool sg_heap_free_block(struct sg_machine *m, uint32_t device, uint64_t addr, bool hold);
/* where the heap of the launch lies; false: there is none yet */
bool sg_heap_range(const struct sg_machine *m, uint32_t device, uint64_t *addr, uint64_t *size);
void sg_heap_destroy(struct sg_heap *h);

struct sg_worker;
struct sg_machine {
    struct sg_mem *mem;
    unsigned nworkers;
    struct sg_worker *workers; /* [0] is the calling thread */
    pthread_mutex_t run_lock;  /* one run at a time */
    struct sg_heap *heaps[SG_MEM_MAX_DEVICES];
    uint64_t workspace[SG_MEM_MAX_DEVICES]; /* of cooperative launches; 0: none yet */
    bool threads_started;
    pthread_mutex_t lock; /* for job, generation, busy */
    pthread_cond_t wake, done;
    struct sg_shared_run *job;
    uint64_t generation;
    unsigned busy;
    bool quit;
};

/* What all workers of a launch share. */
struct sg_shared_run {
    const struct sg_launch *launch;
    uint64_t nblocks, chunk;
    _Atomic uint64_t next_block;
    _Atomic int failed; /* a fault happened: stop */
    _Atomic int no_memory;
    pthread_mutex_t lock; /* fault, printing */
    struct sg_fault fault;
    struct sg_run_stats stats;
    /* cooperative_groups/details/driver_abi.h: size and barrier of a cooperative launch's grid */
    uint32_t *workspace;
};

/* ---- warp.c ---------------------------------------------------------------------------------- */

enum sg_warp_state { SG_WARP_RUNNABLE, SG_WARP_BLOCKED, SG_WARP_DONE, SG_WARP_FAULT };

enum sg_warp_state sg_warp_run(struct sg_warp *w, uint32_t budget);
/* the running split goes on at @next when chosen again; ends the loop */
const struct sg_insn *sg_warp_resched(struct sg_warp *w, const struct sg_insn *next);
/* the running split has ended or waits (state set by the caller): ends the loop */
const struct sg_insn *sg_warp_leave(struct sg_warp *w);
/* divide the running split: lanes of @taken go to @target, the others to @other */
const struct sg_insn *sg_warp_diverge(struct sg_warp *w, uint32_t taken,
                                      const struct sg_insn *target, const struct sg_insn *other);
/* a split for @mask (taken from the running one, which the caller shrinks) */
void sg_warp_add(struct sg_warp *w, const struct sg_split *s);
const struct sg_insn *sg_warp_exit(struct sg_warp *w, uint32_t lanes, const struct sg_insn *next);
/* a fault of @lane; ends the loop */
const struct sg_insn *sg_warp_fault(struct sg_warp *w, const struct sg_insn *in,
                                    enum sg_fault_kind kind, unsigned lane, uint64_t addr,
                                    const char *what);
/* a fault of a memory access: misaligned if @addr is no multiple of @align, else illegal */
const struct sg_insn *sg_bad_address(struct sg_warp *w, const struct sg_insn *in, unsigned lane,
                                     uint64_t addr, uint32_t align, bool write);
/* true: all living lanes of @members are active; false: the split waits, return sg_warp_leave() */
bool sg_warp_converged(struct sg_warp *w, const struct sg_insn *in, uint32_t members);
/* Active lanes whose own members (one mask a lane) are all active; 0: all wait, return
 * sg_warp_leave(). If it is not all of them, the others wait in a split of their own and w->mask is
 * the result: return sg_warp_resched(w, in + 1). */
uint32_t sg_warp_ready(struct sg_warp *w, const struct sg_insn *in, const uint32_t *members);
void sg_warp_expand(struct sg_warp *w); /* lm[] for w->mask */
const struct sg_insn *sg_warp_barrier(struct sg_warp *w, const struct sg_insn *in, uint32_t id,
                                      uint32_t threads, bool wait, uint32_t pred, bool is_red);
/* the barrier of the cluster */
void sg_warp_cluster_arrive(struct sg_warp *w);
const struct sg_insn *sg_warp_cluster_wait(struct sg_warp *w, const struct sg_insn *in);
const struct sg_insn *sg_warp_bar_warp(struct sg_warp *w, const struct sg_insn *in,
                                       const uint32_t *members);
const struct sg_insn *sg_warp_call(struct sg_warp *w, const struct sg_insn *in,
                                   const struct sg_func *callee, uint32_t lanes);
const struct sg_insn *sg_warp_return(struct sg_warp *w, const struct sg_insn *in);
bool sg_warp_grow_local(struct sg_warp *w, uint64_t need);
void sg_warp_start(struct sg_warp *w, const struct sg_func *f);
/* a warp of the block has ended: barriers of all threads need one less */
void sg_block_warp_ended(struct sg_block *b);

/* ---- watch.c --------------------------------------------------------------------------------- */

void sg_warp_account(struct sg_warp *w, uint32_t n); /* warp.c: it has executed @n instructions */
/* As run_split() of warp.c, with calls of the watchers. */
uint32_t sg_watch_split(struct sg_warp *w, uint32_t budget);
void sg_watch_begin(const struct sg_launch *l);
void sg_watch_end(const struct sg_launch *l, const struct sg_fault *fault);
void sg_watch_block(struct sg_block *b, bool starts);
void sg_watch_barrier(struct sg_block *b, uint32_t id);
/* A launch with such a watcher is executed by one thread. */
bool sg_watch_serial(const struct sg_launch *l);
/* @event: enum sg_heap_event */
void sg_watch_heap(struct sg_warp *w, unsigned lane, int event, uint64_t addr, uint64_t size);
bool sg_watch_access(struct sg_warp *w, unsigned lane, struct sg_block *shared_of, uint64_t addr,
                     uint8_t *bytes, uint64_t n, bool write);

/* ---- libcalls.c ------------------------------------------------------------------------------ */

enum sg_builtin {
    SG_BUILTIN_NONE = 0,
    SG_BUILTIN_VPRINTF,
    SG_BUILTIN_MALLOC,
    SG_BUILTIN_FREE,
    SG_BUILTIN_ASSERTFAIL,
};
enum sg_builtin sg_builtin_find(const char *name);
struct sg_call_site; /* operands of a call */
const struct sg_insn *sg_builtin_call(struct sg_warp *w, const struct sg_insn *in);

/* Operands of a call: where arguments lie in the caller's local memory. */
struct sg_call_site {
    const struct sg_func *callee; /* NULL: indirect, address in r[1] */
    enum sg_builtin builtin;
    uint32_t nargs, nrets;
    struct sg_callee_var *args, *rets;
    bool *arg_is_reg, *ret_is_reg; /* .reg parameters: offset is a register's */
};

/* ---- memory ---------------------------------------------------------------------------------- */

static inline void *sg_opnd(const struct sg_warp *w, int32_t off)
{
    return (uint8_t *)(off >= 0 ? (uintptr_t)w->frame : (uintptr_t)w->pool_end) + off;
}

static inline uint32_t sg_pred(const struct sg_warp *w, int32_t off)
{
    uint32_t v;
    memcpy(&v, w->frame + off, sizeof(v));
    return v;
}

static inline void sg_pred_set(struct sg_warp *w, int32_t off, uint32_t bits)
{
    uint32_t *p = (uint32_t *)(void *)(w->frame + off);
    *p = (*p & ~w->mask) | (bits & w->mask);
}

/* Host address of @n bytes at a thread's address; NULL: a fault (sg_warp_fault() was not called).
 */
void *sg_lane_generic(struct sg_warp *w, unsigned lane, uint64_t addr, uint32_t n, bool write);

/* Behind the block's own: what is reserved, and at addresses of mapa what a living block of the
 * cluster has; all of it, if somebody watches. NULL: nothing of these. */
void *sg_far_shared(struct sg_warp *w, unsigned lane, uint64_t off, uint32_t n, bool write);
/* Where somebody watches: ask him. NULL: nobody may touch that. */
void *sg_watched_global(struct sg_warp *w, unsigned lane, uint64_t addr, uint64_t n, bool write);

static inline void *sg_lane_shared(struct sg_warp *w, unsigned lane, uint64_t off, uint32_t n,
                                   bool write)
{
    struct sg_block *b = w->block;

    off &= 0xffffffffu;
    if (off + n <= b->shared_limit)
        return b->shared + off;
    return off >= SG_RESERVED_OFFSET || b->shared_limit != b->shared_bytes
               ? sg_far_shared(w, lane, off, n, write)
               : NULL;
}

static inline void *sg_lane_local(struct sg_warp *w, unsigned lane, uint64_t off, uint32_t n)
{
    off &= 0xffffffffu;
    return off + n <= w->local_used ? w->local + (size_t)lane * w->local_cap + off : NULL;
}

static inline void *sg_lane_global(struct sg_warp *w, unsigned lane, uint64_t addr, uint32_t n,
                                   bool write)
{
    struct sg_run *r = w->block->run;

    if (sg_mem_ok(r->mem, addr, n, r->device_bit, write))
        return (void *)(uintptr_t)addr;
    return r->watched ? sg_watched_global(w, lane, addr, n, write) : NULL;
}

void *sg_lane_space(struct sg_warp *w, unsigned lane, enum sg_ptx_space space, uint64_t addr,
                    uint32_t n, bool write);

/* ---- decoding -------------------------------------------------------------------------------- */

/* Marks of instructions whose targets are not known yet (sg_insn.y). */
#define SG_FIX_BRANCH 0xb7a9c401u
#define SG_FIX_TABLE 0xb7a9c402u
#define SG_BRANCH_BIAS 0x20000000u /* x of a branch: distance + bias (31 bits) */

/* Values that only the running warp knows, beside enum sg_ptx_sreg (sg_insn.x of mov_sreg). */
enum { SG_RUNTIME_LOCAL = 0x1000, SG_RUNTIME_DYNAMIC, SG_RUNTIME_PARAM };

/* State of the decoding of one function. */
struct sg_dec {
    struct sg_image *image;
    struct sg_func *func;
    const struct sg_ptx_func *ptx;
    const struct sg_ptx_insn *insn; /* being decoded */
    int32_t *slot;                  /* frame offset of each register; vectors: of element 0 */
    uint32_t *at;                   /* decoded index of each PTX instruction, count + 1 entries */
    int32_t temp[8];                /* scratch registers of 256 bytes in the frame */
    unsigned temps_used;
    struct tb_error *err;
    enum tb_status status;
    const uint32_t *reads; /* how often each register is read in the function */
    struct {
        int32_t temp, reg;
        bool signext;
    } after[4]; /* widening of results that go through a temporary */
    unsigned nafter;
};

/* is @v one of the @n variables at @table? (which is NULL if there are none) */
static inline bool sg_var_in(const struct sg_ptx_var *v, const struct sg_ptx_var *table, uint32_t n)
{
    return n != 0 && v >= table && v < table + n;
}

/* refuse the current instruction; returns false */
bool sg_dec_refuse(struct sg_dec *d, const char *fmt, ...) TB_PRINTF(2, 3);
struct sg_insn *sg_dec_emit(struct sg_dec *d, sg_handler fn);
/* offset of a source operand read as @type (immediates are converted to it) */
int32_t sg_dec_src(struct sg_dec *d, const struct sg_ptx_opnd *o, enum sg_ptx_mod type);
int32_t sg_dec_dst(struct sg_dec *d, const struct sg_ptx_opnd *o, enum sg_ptx_mod type);
/* predicate: offset in the frame; @neg: a ! was written */
int32_t sg_dec_pred(struct sg_dec *d, const struct sg_ptx_opnd *o, bool *neg);
int32_t sg_dec_const(struct sg_dec *d, uint64_t bits, unsigned size); /* broadcast constant */
int32_t sg_dec_temp(struct sg_dec *d);
unsigned sg_dec_reg_size(const struct sg_dec *d, const struct sg_ptx_opnd *o); /* 4 or 8 */
void *sg_image_own(struct sg_image *image, size_t bytes); /* zeroed, freed with it; may be NULL */
/* the variable that a name means, externs resolved; NULL: refused already */
const struct sg_var *sg_dec_var(struct sg_dec *d, const struct sg_ptx_var *v);
/* a parameter or return value of the function being decoded? offset in local memory */
bool sg_dec_formal(const struct sg_dec *d, const struct sg_ptx_var *v, uint32_t *offset);
/* the function that a name means; NULL with @builtin set, or refused */
struct sg_func *sg_dec_func(struct sg_dec *d, const struct sg_ptx_func *f,
                            enum sg_builtin *builtin);

struct sg_isa {
    const char *name;
    bool (*decode)(struct sg_dec *d, const struct sg_ptx_insn *insn);
    sg_handler guarded;       /* runs the operation for the lanes whose guard holds */
    sg_handler guarded_ctrl;  /* divides the split first: calls, barriers, exits */
    sg_handler narrow, widen; /* 64-bit register to 32-bit temporary and back */
    /* No lane can go on: executes a .sync instruction whose members wait for it at different
     * places; false: there is none. */
    bool (*meet)(struct sg_warp *w);
    sg_handler mov_sreg;
    sg_handler end; /* behind the last instruction of a function */
};
extern const struct sg_isa sg_isa_base, sg_isa_avx2;
const struct sg_isa *sg_isa(void);

/* legal.c: false: refused, because the engine would ignore a modifier or operand of it */
bool sg_insn_legal(struct sg_dec *d, const struct sg_ptx_insn *p);
enum tb_status sg_decode_func(struct sg_image *image, struct sg_func *f, struct tb_error *err);

/* devicelib.c: adds the module of the device runtime, for which image->mods has room, if a name of
 * it is declared and has no body */
enum tb_status sg_devicelib_add(struct sg_image *image, struct tb_error *err);

/* link.c */
enum tb_status sg_link_image(struct sg_image *image, struct tb_error *err);
const struct sg_var *sg_link_var(const struct sg_image *image, const struct sg_ptx_module *mod,
                                 const struct sg_ptx_var *v);
struct sg_func *sg_link_func(const struct sg_image *image, const struct sg_ptx_func *f);
void sg_link_release(struct sg_image *image);
const struct sg_var *sg_link_var_named(const struct sg_image *image, const char *name);
enum tb_status sg_regalloc(const struct sg_ptx_func *f, uint32_t first_free, int32_t *slot,
                           uint32_t *frame_bytes, uint32_t *reads, uint32_t **live_in,
                           uint32_t *nlive_in, uint32_t *units, struct tb_error *err);

#endif
