/* broken_internal - what the files of softgpu/broken share. Start at struct sg_spec. */
#ifndef SG_BROKEN_INTERNAL_H
#define SG_BROKEN_INTERNAL_H

#include "softgpu/broken/broken.h"
#include "softgpu/exec/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- specifications: spec.c ------------------------------------------------------------------ */

enum sg_unit {
    SG_UNIT_NONE, /* moves, branches, barriers: what no unit computes */
    SG_UNIT_INT,
    SG_UNIT_FMA,
    SG_UNIT_F64,
    SG_UNIT_SFU,
    SG_UNIT_TENSOR,
    SG_UNIT_LDST,
    SG_UNIT_COPY,
};

enum sg_spec_kind { SG_SPEC_OP = 1, SG_SPEC_CELL = 2, SG_SPEC_LINE = 4, SG_SPEC_COPY = 8 };

enum sg_model {
    SG_MODEL_FLIP,
    SG_MODEL_STUCK0,
    SG_MODEL_STUCK1,
    SG_MODEL_PREVIOUS,
    SG_MODEL_ULP,
    SG_MODEL_RANDOM,
};

enum sg_bits { SG_BITS_RANDOM, SG_BITS_LIST, SG_BITS_SIGN, SG_BITS_EXPONENT, SG_BITS_MANTISSA };

#define SG_RANGES 16
struct sg_ranges { /* n 0: everything */
    unsigned n;
    struct {
        uint64_t from, to;
    } r[SG_RANGES];
};

struct sg_when { /* on any source operand */
    enum { SG_WHEN_ALWAYS, SG_WHEN_VALUE, SG_WHEN_ABS, SG_WHEN_EXPONENT } what;
    enum { SG_LT, SG_LE, SG_GT, SG_GE, SG_EQ, SG_NE } is;
    double than;
};

struct sg_spec {
    uint32_t given; /* bit: place in the table of words */
    enum sg_spec_kind kind;
    enum sg_unit unit;
    struct sg_ranges device, sm, launch, warp, bit;
    enum sg_bits bits;
    enum sg_model model;
    char kernel[128], op[64]; /* "": any */
    uint32_t lanes;
    unsigned group; /* so many neighbouring lanes are hit together */
    bool address;   /* it is the address that is wrong */
    struct sg_when when;
    double rate;
    struct {
        double factor, period; /* rate * factor ^ (age / period); period 0: it does not age */
        bool seconds;          /* else launches */
    } ageing;
    struct {
        double n;
        bool seconds;
    } after;
    uint64_t seed;
    uint64_t alloc, addr; /* cell: allocation (0: none) and offset in it, or address */
    uint64_t line;
    unsigned ways; /* copy: bits of enum sg_broken_way */
    char text[256];
};

struct sg_specs {
    unsigned n;
    struct sg_spec s[SG_BROKEN_MAX_SPECS];
};

TB_MUST_CHECK enum tb_status sg_specs_parse(const char *text, uint32_t devices, uint32_t sms,
                                            struct sg_specs *out, struct tb_error *err);
bool sg_in_ranges(const struct sg_ranges *r, uint64_t x);
const char *sg_unit_name(enum sg_unit u);

/* ---- instructions: units.c ------------------------------------------------------------------- */

/* A value as an instruction sees it. */
struct sg_shape {
    enum sg_ptx_mod mod;
    unsigned width; /* bits, 1 to 64 */
    unsigned parts; /* values side by side: 2 in f16x2 */
    enum { SG_AS_BITS, SG_AS_SIGNED, SG_AS_FLOAT } as;
    unsigned mantissa, exponent; /* bits of a float of one part */
};

enum sg_unit sg_unit_of(const struct sg_ptx_insn *i);
void sg_insn_text(const struct sg_ptx_insn *i, char *out, size_t size); /* "fma.rn.f32" */
bool sg_op_matches(const char *pattern, const struct sg_ptx_insn *i);
/** sg_type_of_operand - as what operand @k is read or written, in a register of @reg_bits */
struct sg_shape sg_type_of_operand(const struct sg_ptx_insn *i, unsigned k, unsigned reg_bits);
/** sg_result - the operand that an instruction writes to; NULL: it writes no register */
const struct sg_ptx_opnd *sg_result(const struct sg_ptx_insn *i);
/** sg_address - the register of its address; NULL: it has none */
const struct sg_ptx_opnd *sg_address(const struct sg_ptx_insn *i);
bool sg_when_holds(const struct sg_when *w, const struct sg_shape *t, uint64_t value);

/* ---- values: value.c ------------------------------------------------------------------------- */

uint64_t sg_mix(uint64_t x);
/** sg_draw - the next number of a sequence */
uint64_t sg_draw(uint64_t *rng);
double sg_fraction(uint64_t x); /* 0 <= f < 1 */
uint64_t sg_bit_mask(unsigned width);
/** sg_candidates - bits of a value that the specification may touch; 0: none */
uint64_t sg_candidates(const struct sg_spec *s, const struct sg_shape *t);
/** sg_damage - what becomes of @value; @before: what was in the register before the instruction */
uint64_t sg_damage(const struct sg_spec *s, const struct sg_shape *t, uint64_t value,
                   uint64_t before, uint64_t *rng);

/* ---- faults and their log: log.c, replay.c --------------------------------------------------- */

enum sg_fault_place {
    SG_PLACE_LAUNCH, /* before a launch began, or when it had ended */
    SG_PLACE_STEP,
    SG_PLACE_COPY, /* before or after the copy or set with this number */
};

enum sg_fault_what {
    SG_WHAT_RESULT,
    SG_WHAT_ADDRESS,
    SG_WHAT_STORE,
    SG_WHAT_CELL,
    SG_WHAT_LINE, /* of the cache */
    SG_WHAT_COPY,
};

struct sg_injected {
    uint8_t place, what, spec, lane, elem, bits, way;
    bool late; /* cells: after the launch, copy or set */
    uint32_t device, warp, sm;
    uint64_t number; /* of the launch, or of the copy or set, from 1 */
    uint64_t block, serial;
    uint64_t at; /* store, cell: offset in the address space; copy: byte of those moved */
    uint64_t before, after;
    uint32_t block_id[3], thread[3], line;
    const struct sg_func *func; /* NULL: none */
    const struct sg_ptx_insn *ptx;
};

int sg_injected_order(const void *a, const void *b);

enum sg_masked { SG_MASKED_NO, SG_MASKED_YES, SG_MASKED_UNKNOWN };

struct sg_launch_line {
    const struct sg_launch *launch;
    uint64_t faults, logged, diverged;
    enum sg_masked masked;
    const char *why;   /* unknown: why */
    const char *error; /* how the launch ended; NULL: well */
};

struct sg_log;
TB_MUST_CHECK enum tb_status sg_log_open(const struct sg_broken_options *opt,
                                         const struct sg_specs *specs, struct sg_log **out,
                                         struct tb_error *err);
void sg_log_close(struct sg_log *log);
void sg_log_fault(struct sg_log *log, const struct sg_injected *f, const char *kernel,
                  const struct sg_spec *spec, const char *masked);
void sg_log_launch(struct sg_log *log, const struct sg_launch_line *l);
void sg_log_flush(struct sg_log *log);

/* Faults of a log, in the order of sg_injected_order(). */
struct sg_replay {
    struct sg_injected *f;
    size_t n;
};
TB_MUST_CHECK enum tb_status sg_replay_read(const struct sg_broken_options *opt,
                                            struct sg_replay *out, struct tb_error *err);
/** sg_replay_find - the faults at one place, and how many; NULL: none. Of a step: block, warp and
 * serial too */
const struct sg_injected *sg_replay_find(const struct sg_replay *r, const struct sg_injected *key,
                                         size_t *n);

/* ---- what a launch wrote: undo.c ------------------------------------------------------------- */

struct sg_undo;
struct sg_undo *sg_undo_new(void);
void sg_undo_free(struct sg_undo *u);
void sg_undo_clear(struct sg_undo *u);
/** sg_undo_keep - the bytes are about to be written: keep what they are. Any thread. false: there
 * was no memory, now or before */
bool sg_undo_keep(struct sg_undo *u, uint64_t addr, const uint8_t *bytes, uint64_t n);
/** sg_undo_swap - exchange what is kept with what is in memory now */
void sg_undo_swap(struct sg_undo *u);
/** sg_undo_same - @a holds what a first run left where it wrote, @b what was there before a second
 * run wrote: is memory now as the first run left it? */
bool sg_undo_same(const struct sg_undo *a, const struct sg_undo *b);
bool sg_undo_whole(const struct sg_undo *u); /* nothing was lost for want of memory */

/* ---- the device: broken.c -------------------------------------------------------------------- */

#define SG_LINE_BYTES 128u
#define SG_LINES (4u << 20 >> 7)  /* of the second-level cache: 4 MiB */
#define SG_PIECE 4096u            /* bytes of a copy that share one draw */
#define SG_MOST_FAULTS (1u << 20) /* of a launch, that are logged one by one */

struct sg_cell {
    uint64_t addr; /* 0: not found yet */
    bool done;     /* flipped already */
};

/* Of the launch that runs. */
struct sg_now {
    const struct sg_launch *launch;
    const struct sg_image *image;
    enum { SG_NOW_BROKEN, SG_NOW_CLEAN } mode;
    _Atomic(uint32_t *) *tables;                  /* of each function: specs of each instruction */
    uint32_t live;                                /* specs that this launch may meet */
    double any[SG_BROKEN_MAX_SPECS][SG_WARP + 1]; /* chance that one of n is hit */
    double rate[SG_BROKEN_MAX_SPECS];
    pthread_mutex_t lock; /* for what follows */
    struct sg_injected *faults;
    size_t nfaults, cap;
    uint64_t total, diverged;
    atomic_bool lost; /* no memory for something */
    struct sg_undo *undo;
    _Atomic(const char *) uncertain; /* why the launch cannot be judged */
    uint64_t printed;                /* hash of what it printed */
};

struct sg_broken {
    struct sg_specs specs;
    struct sg_broken_options opt; /* strings are not kept */
    bool replaying;
    struct sg_replay replay;
    struct sg_log *log;
    uint64_t born_ns;
    pthread_mutex_t run_lock; /* one launch at a time */
    pthread_mutex_t lock;     /* cells, numbers, log */
    struct sg_cell cells[SG_BROKEN_MAX_SPECS];
    uint64_t copies[SG_MEM_MAX_DEVICES], launches[SG_MEM_MAX_DEVICES];
    _Atomic uint64_t count;
    struct sg_undo *first, *second;
    struct sg_now now;
    struct sg_watcher watcher, clean;
};

double sg_spec_rate(const struct sg_broken *b, const struct sg_spec *s, uint64_t launches);
bool sg_spec_old_enough(const struct sg_broken *b, const struct sg_spec *s, uint64_t launches);
double sg_broken_seconds(const struct sg_broken *b);

/* ---- targets.c, inject.c --------------------------------------------------------------------- */

extern const struct sg_watcher sg_inject_watcher, sg_inject_clean_watcher;
/** sg_inject_prepare - set now up for a launch; false: nothing of it can be broken */
bool sg_inject_prepare(struct sg_broken *b, const struct sg_launch *launch);
void sg_inject_release(struct sg_broken *b);
/** sg_inject_table - specifications that may hit each instruction of @f, a bit each; NULL: no
 * memory */
const uint32_t *sg_inject_table(struct sg_broken *b, const struct sg_func *f);
/** sg_inject_doubt - the launch cannot be judged: a second execution may differ by itself */
void sg_inject_doubt(struct sg_now *now, const char *why);
/** sg_inject_note - keep a fault of the running launch for the log. Any thread */
void sg_inject_note(struct sg_broken *b, const struct sg_injected *f);

/* ---- cells.c --------------------------------------------------------------------------------- */

/** sg_cells_settle - make the bad cells of a device what they are; under b->lock. @f names the
 * place; what changes is given to @note */
typedef void sg_note(struct sg_broken *b, const struct sg_injected *f);
void sg_cells_settle(struct sg_broken *b, const struct sg_injected *f, sg_note *note);
bool sg_cells_any(const struct sg_broken *b, uint32_t device);

#endif
