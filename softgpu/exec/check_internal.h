/* check_internal - what check.c, check_regs.c and check_race.c share. */
#ifndef SG_EXEC_CHECK_INTERNAL_H
#define SG_EXEC_CHECK_INTERNAL_H

#include "softgpu/exec/check.h"
#include "softgpu/exec/watch.h"

#define SG_CHECK_ORIGINS 63 /* of unwritten values that one warp tells apart */

/* Where an unwritten value came from: the load, and the last address of it. */
struct sg_origin {
    const struct sg_ptx_insn *ptx;
    const struct sg_func *func;
    uint64_t addr, n;
    unsigned lane;
    bool shared;
};

/* Bytes of a lane's value that nobody wrote, a bit each, and 1 + the index of their origin. */
struct sg_unwritten {
    uint16_t bytes;
    uint8_t origin;
    bool computed; /* not just copied: it came out of arithmetic */
};

/* The same of a predicate: lanes whose value rests on what nobody wrote. */
struct sg_unsure {
    uint32_t lanes;
    uint8_t origin;
};

struct sg_check_end { /* one side of a copy by cp */
    uint64_t addr, n;
    struct sg_block *block; /* NULL: global */
};

struct sg_check_warp {
    bool dirty;               /* some register holds, or held, an unwritten value */
    struct sg_unwritten *reg; /* of each 4 bytes of the register file */
    struct sg_unsure *pred;   /* the same */
    size_t cap;
    struct sg_origin origins[SG_CHECK_ORIGINS];
    unsigned norigins;
    /* of the instruction under way */
    bool has_result; /* @result goes into the destination */
    struct sg_unwritten result[SG_WARP];
    struct sg_unsure decision;
    uint32_t loaded; /* lanes whose load met unwritten bytes */
    uint64_t bytes[SG_WARP];
    struct sg_check_end from, to;
};

/* What is known of a block that runs. */
struct sg_check_block {
    struct sg_check_block *next; /* of all */
    bool used;
    uint64_t *written; /* shared memory, a bit a byte */
    uint64_t room;     /* bits in it */
    struct sg_check_warp warps[32];
    struct sg_race_block *race;
};

#define SG_CHECK_SEEN 1024

struct sg_check {
    struct sg_check_env env;
    struct sg_watcher watcher;
    struct sg_check_block *blocks;
    bool follow; /* this launch's unwritten values */
    /* findings of this launch: told once each */
    struct {
        const void *ptx, *other;
        unsigned rule;
    } seen[SG_CHECK_SEEN];
    struct sg_check_piece *pieces; /* of device malloc, a ring */
    size_t npieces;                /* so far */
    struct sg_race *race;
};

static inline struct sg_check_warp *sg_check_warp_of(const struct sg_warp *w)
{
    return &w->block->check->warps[w->index];
}

/** sg_check_tell - false: the launch ends, sg_warp_fault() has been called */
bool sg_check_tell(struct sg_check *c, struct sg_warp *w, unsigned lane, struct sg_check_report *r);
void sg_check_place_of(struct sg_check_place *p, const struct sg_func *f,
                       const struct sg_ptx_insn *ptx, const struct sg_warp *w, unsigned lane);

/* check_regs.c */
/** sg_check_regs_enter - report what the instruction does with unwritten values, and note what its
 * result is */
void sg_check_regs_enter(struct sg_check *c, const struct sg_step *s);
void sg_check_regs_exit(struct sg_check *c, const struct sg_step *s);
/** sg_check_loaded - a lane's load has met unwritten bytes: bit i of @bytes is the i-th */
void sg_check_loaded(const struct sg_step *s, const struct sg_access *a, uint64_t bytes);
/** sg_check_stored - which of the @a->n bytes that a lane stores are unwritten; @a->n is <= 64 */
uint64_t sg_check_stored(const struct sg_step *s, const struct sg_access *a);
/** sg_check_result - a lane stores into global memory: report it if the value was computed from
 * what nobody wrote; false: the launch ends */
bool sg_check_result(struct sg_check *c, const struct sg_step *s, const struct sg_access *a);

/* check_race.c */
struct sg_race *sg_race_new(void);
void sg_race_free(struct sg_race *r);
void sg_race_begin(struct sg_check *c, const struct sg_launch *l);
void sg_race_end(struct sg_check *c);
bool sg_race_block_start(struct sg_check *c, struct sg_block *b);
void sg_race_block_end(struct sg_check *c, struct sg_block *b);
void sg_race_barrier(struct sg_check *c, struct sg_block *b, uint32_t id);
void sg_race_enter(struct sg_check *c, const struct sg_step *s);
void sg_race_exit(struct sg_check *c, const struct sg_step *s);
bool sg_race_access(struct sg_check *c, const struct sg_step *s, const struct sg_access *a);
void sg_race_forget(struct sg_check *c, uint64_t addr, uint64_t n);
void sg_race_block_free(struct sg_race_block *b);

#endif
