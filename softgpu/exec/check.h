/*
 * softgpu/exec/check - what a strict device looks for while kernels run, as a watcher of launches:
 *
 * - accesses to bytes of no allocation, to the byte (mem/shadow.h): behind an allocation that ends
 *   inside its granule, between variables of a module, in what device code freed or never had;
 * - uses of bytes that nobody wrote: a load alone is no finding, since structs are copied with
 * their padding; what was loaded is followed through registers and stores, and reported where it is
 *   computed with, decides a way, or is part of an address (check_regs.c);
 * - on demand, races: two accesses by different threads, one of them a write, that no barrier,
 *   atomic or strong access orders (check_race.c).
 *
 * Start at sg_check_new(). A launch that is checked runs on one thread.
 */
#ifndef SG_EXEC_CHECK_H
#define SG_EXEC_CHECK_H

#include "softgpu/exec/exec.h"
#include "softgpu/mem/shadow.h"

enum sg_check_rule {
    SG_CHECK_BOUNDS,
    SG_CHECK_FREED, /* of device malloc */
    SG_CHECK_UNINITIALISED,
    SG_CHECK_RACE,
};

/* A thread at an instruction. */
struct sg_check_place {
    const struct sg_ptx_insn *ptx; /* NULL: not known */
    const struct sg_func *func;
    uint32_t line; /* of the PTX */
    const char *file;
    uint32_t src_line; /* of .loc; @file NULL: not known */
    uint32_t block[3], thread[3];
    const char *access; /* static: "read", "write", "atomic" */
};

/* A piece of the heap of kernels' malloc. */
struct sg_check_piece {
    uint64_t addr, size; /* size 0: none */
    bool freed;
    struct sg_check_place made, released;
};

struct sg_check_report {
    enum sg_check_rule rule;
    bool shared; /* @address is an offset in shared memory */
    bool lower;  /* hardly wrong: worth a warning */
    const char *kernel, *function;
    struct sg_check_place at;
    struct sg_check_place
        other; /* races: the earlier access; uninitialised: the load; else ptx NULL */
    uint64_t address, size;
    struct sg_check_piece piece;
    /* the variable of the module that holds the address, or lies before it; NULL: none */
    const char *variable;
    uint64_t variable_addr, variable_size;
};

struct sg_check_env {
    struct sg_shadow *shadow;
    bool races;
    /* false: uses of unwritten memory by this launch are none; what it writes counts as written.
     * NULL: all launches are followed. */
    bool (*follow)(void *arg, const struct sg_launch *l);
    /* true: the launch is to end with a fault. Called with no lock but the machine's. */
    bool (*report)(void *arg, const struct sg_launch *l, const struct sg_check_report *r);
    void *arg;
};

struct sg_check;
TB_MUST_CHECK enum tb_status sg_check_new(const struct sg_check_env *env, struct sg_check **out,
                                          struct tb_error *err);
void sg_check_free(struct sg_check *c); /* NULL is legal */
/** sg_check_watcher - for sg_launch.watchers; lives as long as @c */
const struct sg_watcher *sg_check_watcher(const struct sg_check *c);

/** sg_check_image - enter the bounds of an image's variables; after its memory was entered */
void sg_check_image(struct sg_shadow *s, const struct sg_image *image);

#endif
