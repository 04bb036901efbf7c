/*
 * softgpu/exec - executes kernels of PTX modules on the CPU, a warp at a time.
 *
 * Start at sg_image_new(): it links modules, lays out their variables, decodes every function and
 * refuses what cannot be executed, naming the instruction. Then sg_exec_run() runs one launch to
 * its end on the calling thread and, where a kernel's blocks cannot see each other, on helper
 * threads too. Blocks that fit the simulated device are resident together and their warps are
 * time-sliced; the order is drawn from the launch's seed.
 * How: exec/README.md.
 */
#ifndef SG_EXEC_EXEC_H
#define SG_EXEC_EXEC_H

#include "common/common.h"
#include "softgpu/mem/mem.h"
#include "softgpu/mem/touch.h"
#include "softgpu/ptx/ptx.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_image;  /* linked, decoded modules; belongs to a context */
struct sg_kernel; /* an entry function of an image; lives as long as it */

struct sg_image_env {
    struct sg_mem *mem;
    uint32_t arch; /* the device's, 80: PTX for newer targets is refused */
    uint32_t
        max_regs; /* a thread's, where a kernel has no launch bounds of its own; 0: any number */
    /* Memory for variables of .global and .const space, zero-filled, usable by the device; managed
     * variables for every device and the host. Freed by @free_var when the image is. */
    enum tb_status (*alloc_var)(void *arg, size_t size, size_t align, bool managed, uint64_t *addr,
                                struct tb_error *err);
    void (*free_var)(void *arg, uint64_t addr);
    uint32_t gap; /* bytes to leave behind each variable, for those who watch bounds */
    void *arg;
};

/**
 * sg_image_new - link and decode modules
 * @mods: @n modules, taken over in any case (freed with the image or on failure)
 * @path: message prefix for the user, e.g. the name the module was loaded from
 *
 * Symbols: .visible and .weak of one module satisfy .extern of another; two .visible definitions
 * are an error; vprintf, malloc, free, __assertfail are the device's own.
 * Returns: TB_OK; TB_ERR_UNSUPPORTED naming kernel, line and instruction; TB_ERR_NOTFOUND for an
 * undefined symbol; TB_ERR_EXISTS for one defined twice; TB_ERR_FORMAT; TB_ERR_NOMEM.
 */
TB_MUST_CHECK enum tb_status sg_image_new(struct sg_ptx_module **mods, size_t n, const char *path,
                                          const struct sg_image_env *env, struct sg_image **out,
                                          struct tb_error *err);
void sg_image_free(struct sg_image *image);

size_t sg_image_kernel_count(const struct sg_image *image);
struct sg_kernel *sg_image_kernel_at(const struct sg_image *image, size_t i);
struct sg_kernel *sg_image_kernel(const struct sg_image *image, const char *name); /* or NULL */
/** sg_image_var - address and size of a .global or .const variable that other modules may see */
TB_MUST_CHECK enum tb_status sg_image_var(const struct sg_image *image, const char *name,
                                          uint64_t *addr, size_t *size);

struct sg_kernel_info {
    const char *name;
    const struct sg_ptx_var *params; /* name, offset, size, align of each */
    uint32_t nparams;
    uint32_t param_bytes;
    uint32_t static_shared; /* bytes a block */
    uint32_t local_bytes;   /* a thread */
    uint32_t const_bytes;   /* of the image */
    uint32_t regs;          /* 32-bit registers a thread after allocation, 16..255 */
    uint32_t max_threads;   /* by .maxntid/.reqntid, else 1024 */
    uint32_t maxntid[3], reqntid[3];
    uint32_t reqcluster[3];
    uint32_t ptx_version, arch;
    bool communicates; /* blocks can see each other: executed by one thread, time-sliced */
};
const struct sg_kernel_info *sg_kernel_info(const struct sg_kernel *k);

/* Workers and the memory that runs reuse; one a process is enough. */
struct sg_machine;

struct sg_machine_options {
    unsigned workers; /* threads that execute, the caller's included; 0: one a core */
};
TB_MUST_CHECK enum tb_status sg_machine_new(const struct sg_machine_options *opt,
                                            struct sg_mem *mem, struct sg_machine **out,
                                            struct tb_error *err);
void sg_machine_free(struct sg_machine *m);

enum sg_fault_kind {
    SG_FAULT_NONE = 0,
    SG_FAULT_ADDRESS,     /* CUDA 700 */
    SG_FAULT_MISALIGNED,  /* 716 */
    SG_FAULT_ASSERT,      /* 710 */
    SG_FAULT_TRAP,        /* 719 */
    SG_FAULT_ILLEGAL,     /* 715: an indirect call or branch to nowhere */
    SG_FAULT_STACK,       /* 719: local memory or call depth exhausted */
    SG_FAULT_DEADLOCK,    /* 702: no thread can go on: barriers never complete */
    SG_FAULT_INSTRUCTION, /* 715 */
    SG_FAULT_MEMORY,      /* the host has no memory for the launch: 701 */
    SG_FAULT_TIMEOUT,     /* 702: more instructions than sg_launch.max_warp_insns */
};

struct sg_fault {
    enum sg_fault_kind kind;
    uint32_t line; /* of the PTX, 0: unknown */
    uint32_t block[3], thread[3];
    uint64_t address, size; /* size 0: not known */
    const char *access;     /* static: "read", "write", "atomic"; NULL: not known */
    const char *kernel;     /* lives as long as the image; NULL: not known */
    const char *file;       /* of .loc, and its line; NULL: not known */
    uint32_t src_line;
    bool told;      /* a watcher has reported it */
    char text[512]; /* one line for the user: what, kernel, PTX line, block, thread, address */
};

#define SG_MAX_WATCHERS 3
struct sg_watcher; /* watch.h: looks at, or changes, what single threads do */

struct sg_launch {
    const struct sg_kernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* 1,1,1 without clusters */
    uint32_t dynamic_shared;
    const void *params; /* the parameter block, param_bytes bytes, borrowed */
    bool cooperative;   /* all blocks are resident together */
    bool in_order;      /* blocks one after the other by index, warps too: the debugging order */
    uint32_t device;    /* ordinal: bit in struct sg_mem */
    uint32_t sms;       /* simulated SMs: %nsmid, %smid, and how many blocks are resident */
    uint64_t seed;      /* order of blocks and warps */
    uint64_t grid_id;
    uint64_t malloc_heap; /* bytes that kernels' malloc may use */
    uint32_t stack_limit; /* bytes of local memory a thread for calls, 0: default */
    /* Warp instructions that one worker may execute, rounded up to a slice; 0: any number. */
    uint64_t max_warp_insns;
    /* Text of printf, whole lines of one call at a time; called from any worker, one at a time. */
    void (*print)(void *arg, const char *text, size_t n);
    void *print_arg;
    /* What the launch reads and writes of global memory is added, where a watcher does that; NULL:
     * nobody asks. */
    struct sg_touch *touch;
    /* In this order, up to the first NULL; borrowed. Ten times slower with any. */
    const struct sg_watcher *watchers[SG_MAX_WATCHERS];
};

struct sg_run_stats {
    uint64_t warp_insns, thread_insns;
};

/**
 * sg_exec_run - run a launch to its end
 * @fault: filled when a thread did what it must not; the launch has stopped then
 * @stats: may be NULL
 *
 * Same image, launch and memory: same bits, whatever the number of workers; kernels whose blocks
 * race by plain stores are the exception (exec/README.md).
 * Returns: TB_OK; TB_ERR_CUDA with @fault filled; TB_ERR_NOMEM.
 * Threads: one run at a time for a machine; others wait.
 */
TB_MUST_CHECK enum tb_status sg_exec_run(struct sg_machine *m, const struct sg_launch *launch,
                                         struct sg_fault *fault, struct sg_run_stats *stats,
                                         struct tb_error *err);

#endif
