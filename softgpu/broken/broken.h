/*
 * softgpu/broken - a device that is broken on demand: wrong results of its units, bad cells of its
 * memory, a bad line of its second-level cache, copies that damage what they move.
 *
 * Start at sg_broken_new(), which reads specifications ("unit=fma sm=1 bit=13 rate=1e-6; ...",
 * docs/softgpu.md has the words); then launches go through sg_broken_run() and copies are told to
 * sg_broken_copied(). Everything is drawn from a specification's seed and from where in the program
 * it happens, never from time or threads, so that the same program breaks in the same way.
 * Every fault is logged, and a log can be injected again (README.md).
 */
#ifndef SG_BROKEN_BROKEN_H
#define SG_BROKEN_BROKEN_H

#include "common/common.h"
#include "softgpu/exec/exec.h"

#define SG_BROKEN_MAX_SPECS 32

struct sg_broken;

/** sg_broken_check - are these specifications? TB_ERR_ARG names the word and what may stand there.
 * @devices, @sms: how many there are; a specification of another one would break nothing */
TB_MUST_CHECK enum tb_status sg_broken_check(const char *text, uint32_t devices, uint32_t sms,
                                             struct tb_error *err);

struct sg_broken_options; /* below */
/** sg_broken_check_replay - can the log @opt->replay be replayed by a program with the seed, order
 * and multiprocessors of @opt? TB_ERR_IO, TB_ERR_FORMAT with its line */
TB_MUST_CHECK enum tb_status sg_broken_check_replay(const struct sg_broken_options *opt,
                                                    struct tb_error *err);

struct sg_broken_options {
    const char *specs;     /* separated by ';'; NULL or empty: none */
    const char *log;       /* file; %p in it is the process; NULL: nothing is logged */
    const char *replay;    /* a log: inject what it holds, nothing else; NULL: draw */
    uint32_t devices, sms; /* of each */
    uint64_t seed; /* the program's: part of the log, and a replayed log must have the same */
    bool in_order;
    struct sg_mem *mem;
    /* Where allocation number @id lies, counted from 1; false: there is none (yet). */
    bool (*allocation)(void *arg, uint64_t id, uint64_t *addr, uint64_t *size);
    /* May the host see this byte while kernels run? NULL: it never may. */
    bool (*host_sees)(void *arg, uint64_t addr);
    /* One line for the user; NULL: nobody listens. */
    void (*say)(void *arg, const char *text);
    void *arg;
};

/**
 * sg_broken_new - read specifications and open the log
 * @opt: strings are copied; @mem and @arg are borrowed until sg_broken_free()
 *
 * Returns: TB_OK; TB_ERR_ARG as sg_broken_check(); TB_ERR_IO; TB_ERR_FORMAT for a log that cannot
 * be replayed, with its line; TB_ERR_NOMEM.
 */
TB_MUST_CHECK enum tb_status sg_broken_new(const struct sg_broken_options *opt,
                                           struct sg_broken **out, struct tb_error *err);
void sg_broken_free(struct sg_broken *b);

/**
 * sg_broken_run - sg_exec_run() on the broken device; @launch->grid_id is its number
 *
 * If faults were injected and are logged, the launch is executed once more without them, from the
 * same memory, to see whether its output differs; memory is then what the broken run left.
 * Threads: one run at a time, others wait.
 */
TB_MUST_CHECK enum tb_status sg_broken_run(struct sg_broken *b, struct sg_machine *m,
                                           const struct sg_launch *launch, struct sg_fault *fault,
                                           struct sg_run_stats *stats, struct tb_error *err);

enum sg_broken_way { SG_BROKEN_H2D, SG_BROKEN_D2H, SG_BROKEN_D2D };

struct sg_broken_move { /* a copy: rows of bytes, in slices */
    uint32_t device;
    enum sg_broken_way way;
    uint64_t src, dst, width, height, depth; /* bytes, rows, slices */
    uint64_t src_pitch, src_slice, dst_pitch, dst_slice;
};

/** sg_broken_before - call it before the device's memory is copied from or to, or set */
void sg_broken_before(struct sg_broken *b, uint32_t device);
/** sg_broken_copied - after a copy; damages what it wrote. Threads: any */
void sg_broken_copied(struct sg_broken *b, const struct sg_broken_move *move);
/** sg_broken_after - after a set; sg_broken_copied() does the same for copies */
void sg_broken_after(struct sg_broken *b, uint32_t device);

/** sg_broken_count - faults injected so far */
uint64_t sg_broken_count(const struct sg_broken *b);
/** sg_broken_end - at the end of the process: say if nothing broke, or not all of a replayed log */
void sg_broken_end(struct sg_broken *b);

#endif
