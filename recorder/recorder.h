/*
 * recorder - the runtime inside the job: rings, attach, fork, loss policy; and what a tap may ask
 * of it.
 *
 * A tap is a shared object that the runtime loads once the library it taps is in the process. It
 * gets one struct tb_rec_api and exports `int twinbit_tap_init(const struct tb_rec_api *)` (0:
 * recording). The tap calls nothing else of twinbit. Start at tb_rec_api.self and .event.
 *
 * Rules for every function here: never throws, exits, aborts, prints; keeps errno; allocates
 * nothing on the path of an event (a thread's first event maps its ring); after any internal
 * failure recording is off and self() returns NULL.
 */
#ifndef TB_RECORDER_RECORDER_H
#define TB_RECORDER_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_REC_API_VERSION 3u
#define TB_REC_NO_SEQ UINT64_MAX

/* A thread's ring and tables; owned by the runtime, used by its own thread only. */
struct tb_rec_thread;

/** struct tb_rec_view - a tensor in device memory */
struct tb_rec_view {
    uint64_t address; /* DEVICE, of element (0, 0, ...) */
    uint64_t bytes;   /* of all elements in row-major order, dimensions of stride 0 once */
    uint32_t elem;    /* bytes an element */
    int32_t ndim;     /* 0 with @sizes NULL: contiguous */
    const int64_t *sizes, *strides; /* in elements; NULL: contiguous */
};

/** struct tb_rec_code - the code of a module; pieces 0: it is none that we know, the rest is 0 */
struct tb_rec_code {
    struct tb_fp_leaf hash; /* of its bytes; of several pieces, of their hashes in turn */
    uint32_t pieces;
    bool ptx; /* there is PTX in it: its kernels can be known */
    uint64_t bytes;
};

/**
 * struct tb_rec_cuda - what the CUDA recorder does for other taps of the same process
 *
 * Functions may be called where CUDA may be called, by any thread; none waits for the device.
 */
struct tb_rec_cuda {
    uint32_t size;
    /**
     * hash - queue the fingerprint of @v in @stream, behind what is queued there
     * @device: ordinal in the process. @stream: CUstream, NULL for the legacy one
     * Fills fp_kind, PENDING and the ticket of @out, keeps its alloc and offset. False: it cannot
     * be (a capturing stream, no room, no device hash): the access stays without fingerprint, and a
     * coverage row was written.
     */
    bool (*hash)(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                 struct tb_wire_access *out);
    /**
     * snapshot - queue a copy of @v's elements, row-major, for access @access of event @seq, which
     * is written next or was just written; behind what is queued in @stream
     */
    bool (*snapshot)(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                     uint64_t seq, uint32_t access);
    /** op_begin, op_end - this thread is inside an operator, whose tap hashes what it writes */
    void (*op_begin)(void);
    void (*op_end)(void);
    /** block - a caching allocator gave out (@bytes > 0) or took back (0) the block at @address */
    void (*block)(int device, uint64_t address, uint64_t bytes);
    /** tensor - twinbit.h: @bytes at @address hold elements of @dtype ("f32") and are called @name
     */
    void (*tensor)(uint64_t address, uint64_t bytes, const char *dtype, const char *name);
    /** name - what kernels with this CUfunction or CUkernel are called: "triton:softmax BLOCK=64"
     */
    void (*name)(void *function, const char *name);
    /**
     * alloc - number of the allocation or block that @address lies in, as events have it; 0: not
     * known
     * @offset: of @address in it; @bytes: of the allocation or block
     */
    uint64_t (*alloc)(uint64_t address, uint64_t *offset, uint64_t *bytes);
    /** step_ends - twinbit.h: the state of device memory as an event, where work is none */
    void (*step_ends)(void);
};

struct tb_rec_api {
    uint32_t version, size;

    /** config - constant after attach */
    const struct tb_wire_config *config;

    /**
     * self - this thread's recorder; NULL: off, inside the recorder already, or no ring to be had
     *
     * In a forked child the first call attaches the child anew (new nonce, new rings, seq from 0).
     */
    struct tb_rec_thread *(*self)(void);
    /** ring - number of its ring, from 1: what site_find and range_find say holds for all threads
     * that write to it, as long as the process lives */
    uint32_t (*ring)(struct tb_rec_thread *t);
    /** generation - grows in each forked child that attached: a tap drops what it cached per ring
     */
    uint32_t (*generation)(void);

    /** count - how often this thread has called it with @key before: no other thread has a part in
     * it, and so no chance */
    uint32_t (*count)(struct tb_rec_thread *t, uint64_t key);

    /**
     * enter/leave - recursion guard of this thread; enter returns false if it is taken. Between
     * enter and leave the runtime's own hooks, and a tap that asks, see nothing.
     */
    bool (*enter)(void);
    void (*leave)(void);

    /** seq - value of the process's event counter: number that the next event will get */
    uint64_t (*seq)(void);

    /**
     * site_find - local id of the site with @key on this thread's ring; 0: not defined there yet
     * site_define - define it, @text as in wire.h; 0 on failure (recording is off, or the ring was
     *   full and TB_CFG_DROP is set): the event is not to be written
     */
    uint32_t (*site_find)(struct tb_rec_thread *t, uint64_t key);
    uint32_t (*site_define)(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n);
    /** range_find, range_define - the same for "phase\tmodule-path\tuser" */
    uint32_t (*range_find)(struct tb_rec_thread *t, uint64_t key);
    uint32_t (*range_define)(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n);

    /**
     * event - write one event and its accesses; fills rec, seq, and time_ns if that is 0
     * @head:   copied; @head->accesses of them follow, at most TB_STORE_MAX_ACCESSES (65536)
     * @access: copied
     *
     * Returns: the event's seq; TB_REC_NO_SEQ if it was lost or recording is off.
     */
    uint64_t (*event)(struct tb_rec_thread *t, struct tb_wire_event *head,
                      const struct tb_wire_access *access);
    /** map - coarse map of access @access of the event that this thread writes next */
    void (*map)(struct tb_rec_thread *t, uint32_t access, uint64_t bytes, const struct tb_fp *sums,
                uint32_t parts);
    /** stack - source lines "file:line function\n..." of @seq, which this thread has just written
     */
    void (*stack)(struct tb_rec_thread *t, uint64_t seq, const char *text, size_t n);
    /** cover - a coverage row; @seq TB_REC_NO_SEQ: of no event. Equal rows are counted together */
    void (*cover)(struct tb_rec_thread *t, unsigned severity, uint64_t seq, const char *kind,
                  const char *subject, const char *detail, uint64_t count);
    /** meta - key and value for the trace, prefixed with the process by the collector */
    void (*meta)(struct tb_rec_thread *t, const char *key, const char *value);
    /**
     * snapshot_open - room for @bytes in a new memfd, or NULL; *@handle goes to snapshot_send
     * snapshot_send - hand it to the collector as access @access of event @seq, unmap it
     */
    void *(*snapshot_open)(struct tb_rec_thread *t, uint64_t bytes, void **handle);
    void (*snapshot_send)(struct tb_rec_thread *t, void *handle, uint64_t seq, uint32_t access);
    /** snapshot_fd - hand over a memfd that begins with struct tb_wire_snapshot; @fd stays the
     * caller's */
    bool (*snapshot_fd)(int fd);
    /** log - one line for the user, shown by twinbit after the job (at most 16 a process) */
    void (*log)(const char *text);
    /** stop - recording is over in this process, for good; @why: to the footer; verdict unknown */
    void (*stop)(const char *why);
    /** pool - zeroed pages that live as long as the process; NULL: none to be had */
    void *(*pool)(size_t bytes);
    /** unpool - gives pages back, with the size they were asked for */
    void (*unpool)(void *p, size_t bytes);
    /** cuda - the CUDA recorder of this process, NULL: none (yet). cuda_is - it says it is there */
    const struct tb_rec_cuda *(*cuda)(void);
    void (*cuda_is)(const struct tb_rec_cuda *cuda);
    /**
     * step - steps ended before, for events of taps that do not know; step_is - the tap that does
     * says so. range - local id of the range this thread is in: what range_is said last, else the
     * ranges of user_range(); @name is borrowed until the next call. user_range - twinbit.h, NVTX:
     * @push text, or pop if NULL
     */
    uint64_t (*step)(void);
    void (*step_is)(uint64_t step);
    uint32_t (*range)(struct tb_rec_thread *t);
    void (*range_is)(struct tb_rec_thread *t, uint32_t id, const char *name);
    /** range_name - "phase:module-path" of it, as event names have it; "forward:" if nobody said */
    const char *(*range_name)(struct tb_rec_thread *t);
    void (*user_range)(const char *push);
    /** alloc_new - a number for an allocation, from 1; all taps of a process draw from one counter
     */
    uint64_t (*alloc_new)(void);
    /** maker - the calling thread as libtwinbit_pins.so knows it, which does not depend on who runs
     * first (preload/log.h); 0: that library is not there */
    uint64_t (*maker)(void);
    /** paused - the user wants nothing recorded now (a signal to twinbit, twinbit.h) */
    bool (*paused)(void);
    /** slots - hand the memfd of a slot table (wire.h) to the collector; @fd stays the caller's */
    bool (*slots)(uint32_t table, int fd);
    /**
     * image - ask what the kernels of a module do; mapped read-only for good, *@bytes
     * @image: code as it is given to the driver, a fat binary's wrapper too
     * @n:     its bytes; SIZE_MAX: it says itself where it ends
     * Blocks: while the collector looks into it, at most twice TB_WIRE_IMAGE_MS. NULL: not known;
     * then *@bytes is 0 if that was the answer, SIZE_MAX if there was none.
     */
    const struct tb_wire_kernels *(*image)(const void *image, size_t n, size_t *bytes);
    /** code - what is to be known of code as it is given to the driver, without asking anybody */
    struct tb_rec_code (*code)(const void *image);
    /** nonce - of this process image, as slot tables and snapshots carry it */
    uint64_t (*nonce)(void);
    /** memfd - a descriptor of @bytes allocated bytes, to be closed by the caller; -1 */
    int (*memfd)(const char *name, uint64_t bytes);

    /* fingerprint/, as its header says */
    struct tb_fp (*fp_host_pool)(const void *src, size_t n, uint64_t base,
                                 const struct tb_fp_pool *pool);
    struct tb_fp (*fp_strided)(const void *base, const struct tb_fp_layout *l,
                               const struct tb_fp_pool *pool);
    unsigned (*fp_map)(const void *src, size_t n, struct tb_fp out[TB_FP_MAP_MAX]);
    struct tb_fp_leaf (*xxh128)(const void *src, size_t n); /* any n, plain XXH3-128, seed 0 */
};

/**
 * twinbit_runtime - the recorder of this process, for the other libraries that run in the job:
 * dlsym() it from libtwinbit.so. The first call attaches. NULL: not under twinbit, or off.
 */
__attribute__((visibility("default"))) const struct tb_rec_api *twinbit_runtime(void);

#ifdef __cplusplus
}
#endif

#endif
