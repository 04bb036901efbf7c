/*
 * softgpu/exec/watch - the seam for whoever looks at, or changes, what single threads do: checks of
 * a strict device, faults of a broken one. sg_launch.watchers names them.
 *
 * A launch without watchers pays nothing. With watchers, warps run in a loop of their own (warp.c)
 * that calls enter() and exit() around each PTX instruction, and every access to global or shared
 * memory takes the way lane by lane, where access() is called before bytes are read or written.
 * Not seen: parameters of kernels, local memory, and warp-wide instructions that are executed for
 * lanes at different places at once (sg_isa.meet).
 *
 * For files of this folder: what a step holds is described in exec_internal.h.
 */
#ifndef SG_EXEC_WATCH_H
#define SG_EXEC_WATCH_H

#include "softgpu/exec/exec_internal.h"

enum sg_heap_event { SG_HEAP_MADE, SG_HEAP_ALLOC, SG_HEAP_FREE };

/* One PTX instruction that one warp executes. An instruction that has to wait for other lanes is
 * entered again when it is tried again, and left once; a barrier is left when the warp has arrived.
 * What ends a thread is not left. */
struct sg_step {
    struct sg_warp *warp; /* warp->block->run->launch: the launch */
    const struct sg_func *func;
    const struct sg_ptx_insn *ptx;
    uint32_t mask; /* lanes that execute it: their guard holds; 0 is possible */
    uint64_t
        serial; /* instructions that the warp entered before: the same in every run of a seed */
};

struct sg_access {
    enum sg_ptx_space space; /* SG_SPACE_GLOBAL or SG_SPACE_SHARED */
    unsigned lane;
    uint64_t addr;          /* global: address; shared: offset in the memory of @block */
    uint64_t n;             /* bytes */
    uint8_t *bytes;         /* where they are */
    struct sg_block *block; /* shared: whose memory it is (a cluster's blocks see each other's) */
    bool write;             /* also of atomics and mbarriers, which read too: step->ptx->op tells */
};

/*
 * Threads: workers of the machine call at once for different blocks; begin() and end() are called
 * by the launching thread alone. A callback may call sg_warp_fault() to end the launch; access()
 * then returns false.
 */
struct sg_watcher {
    void (*begin)(void *arg, const struct sg_launch *launch);
    void (*end)(void *arg, const struct sg_launch *launch, const struct sg_fault *fault);
    void (*block_start)(void *arg, struct sg_block *block);
    void (*block_end)(void *arg, struct sg_block *block);
    /* barrier @id of the block has opened */
    void (*barrier)(void *arg, struct sg_block *block, uint32_t id);
    void (*enter)(void *arg, const struct sg_step *step);
    void (*exit)(void *arg, const struct sg_step *step);
    bool (*access)(void *arg, const struct sg_step *step, const struct sg_access *access);
    /* memory is about to be written for lanes at different places at once: access() is not called
     */
    void (*unseen)(void *arg);
    /* The heap of kernels' malloc: made (all of it), a piece taken, a piece given back. */
    void (*heap)(void *arg, struct sg_warp *w, unsigned lane, enum sg_heap_event event,
                 uint64_t addr, uint64_t size);
    bool serial; /* all blocks are to be executed by the launching thread */
    void *arg;
};

/** sg_step_register - where the lanes of a register operand lie: 32 values of *@size bytes (4, 8),
 * or one mask of 32 bits for a predicate (*@size 0); NULL: @o is no register. In vectors, of one
 * element. Destinations may share their place with sources: read those in enter(). */
uint8_t *sg_step_register(const struct sg_step *step, const struct sg_ptx_opnd *o, unsigned *size);

#endif
