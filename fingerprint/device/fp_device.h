/*
 * fp_device.h - fingerprints of device memory, computed there; the values of fingerprint.h.
 *
 * Nothing here calls CUDA. Whoever can launch loads tb_fpd_image() as a module, fills a
 * struct tb_fpd_batch, calls tb_fpd_plan() and launches "twinbit_fp_few" or "twinbit_fp_batch" with
 * that struct as the only parameter; the results appear in a slot table (recorder/wire.h). Start at
 * struct tb_fpd_batch.
 */
#ifndef TB_FINGERPRINT_DEVICE_H
#define TB_FINGERPRINT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#define TB_FPD_THREADS 256u     /* threads a block, in one dimension */
#define TB_FPD_FEW 6u           /* jobs that "twinbit_fp_few" takes */
#define TB_FPD_MAX 100u         /* jobs that "twinbit_fp_batch" takes */
#define TB_FPD_SLOTS 65536u     /* slots that the module's own scratch is for */
#define TB_FPD_SCRATCH 32u      /* bytes of scratch a slot */
#define TB_FPD_STRIDED_DIMS 12u /* dimensions of "twinbit_fp_strided" */
#define TB_FPD_ALONE 16384u     /* up to so many bytes a job has one warp, above whole blocks */

/** struct tb_fpd_job - one buffer; 0 bytes are legal and give L(0): a stamp, behind earlier work */
struct tb_fpd_job {
    uint64_t src;         /* DEVICE address, any alignment */
    uint64_t bytes;       /* of the buffer */
    uint64_t ticket;      /* of the slot table */
    uint32_t first_block; /* filled by tb_fpd_plan(): number of its first warp in the launch */
    uint32_t rate; /* 0, 1: all leaves; n: one leaf of n, chosen by its index: TB_FP_SAMPLED */
};

/** struct tb_fpd_batch - parameter of the kernels; of "twinbit_fp_few" only the first 6 jobs */
struct tb_fpd_batch {
    uint64_t slots;   /* DEVICE address of slot 0, struct tb_wire_slot */
    uint64_t scratch; /* DEVICE address, TB_FPD_SCRATCH bytes a slot, zeroed once; left as found:
                       * the module's variable "twinbit_fp_scratch" for up to TB_FPD_SLOTS */
    uint64_t base; /* DEVICE address of a uint64_t: 0, or 1 more than what is added to every ticket;
                    * where it is 0 nothing is written. 0: no such word */
    uint32_t mask; /* slots less one: a power of two less one */
    uint32_t jobs;
    struct tb_fpd_job job[TB_FPD_MAX];
};
#define TB_FPD_FEW_BYTES                                                                           \
    (offsetof(struct tb_fpd_batch, job) + TB_FPD_FEW * sizeof(struct tb_fpd_job))

/** struct tb_fpd_alike - parameter of "twinbit_fp_alike", which takes any batch: as the others, but
 * byte[1] counts as if it were byte[0] wherever it is. So what differs in nothing but these two has
 * one fingerprint: memory that run --poison has filled, and that nobody wrote */
struct tb_fpd_alike {
    struct tb_fpd_batch batch;
    uint32_t byte[2]; /* 0 to 255 */
};

/** struct tb_fpd_strided - parameter of "twinbit_fp_strided": a view, as tb_fp_strided() has it */
struct tb_fpd_strided {
    uint64_t slots, scratch, base;
    uint32_t mask;
    uint32_t elem;  /* bytes an element, 1..16 */
    uint64_t src;   /* DEVICE address of element (0, 0, ...) */
    uint64_t bytes; /* of all elements, dimensions of stride 0 once; filled by the plan */
    uint64_t ticket;
    uint32_t ndim;  /* 0..TB_FPD_STRIDED_DIMS */
    uint32_t width; /* bytes a load, a power of two; filled by the plan */
    int64_t size[TB_FPD_STRIDED_DIMS];
    int64_t stride[TB_FPD_STRIDED_DIMS]; /* in elements; in bytes after the plan */
};

/**
 * struct tb_fpd_base - parameter of "twinbit_fp_base": @value at @address, in the order of the
 * stream
 *
 * How nodes of a graph get tickets: their `base` is a word of the module's "twinbit_fp_bases", set
 * before each launch of the graph to 1 more than the first ticket that was drawn for it, and to 0
 * behind it, so that a launch nobody knows of writes nothing.
 */
struct tb_fpd_base {
    uint64_t address, value;
};
/** struct tb_fpd_copy - parameter of "twinbit_fp_copy": @bytes from @src to @dst, any alignment */
struct tb_fpd_copy {
    uint64_t src, dst, bytes;
};
/** struct tb_fpd_fill - parameter of "twinbit_fp_fill": @bytes at @dst become @byte, 0 to 255 */
struct tb_fpd_fill {
    uint64_t dst, bytes;
    uint32_t byte;
};

#define TB_FPD_BASES 4096u

/**
 * tb_fpd_plan - deal blocks to the jobs of @b; fills first_block
 * @sms: multiprocessors of the device
 * Returns: blocks to launch, of TB_FPD_THREADS threads; 0 shared memory. 0: no job, launch nothing.
 * Any number of launches may run at once, on any streams, if their tickets differ.
 */
uint32_t tb_fpd_plan(struct tb_fpd_batch *b, uint32_t sms);
/**
 * tb_fpd_plan_strided - the same for a view, which it brings into a form of its own
 * Returns: 0 if @b is no view: an element size or number of dimensions out of range, a size below 0
 */
uint32_t tb_fpd_plan_strided(struct tb_fpd_strided *b, uint32_t sms);

/** tb_fpd_is_sampled - is leaf @index among one in @rate? The same on host and device */
int tb_fpd_is_sampled(uint64_t index, uint32_t rate);

/**
 * tb_fpd_image - the module: a fat binary or PTX, for cuModuleLoadData
 * tb_fpd_ptx - its PTX alone, for a driver that takes no machine code of this compiler
 * Both static; *@bytes is the size, a NUL follows.
 */
const void *tb_fpd_image(size_t *bytes);
const char *tb_fpd_ptx(size_t *bytes);

#endif
