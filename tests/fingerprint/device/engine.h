/*
 * engine.h - the hash kernels on softgpu's engine alone, with somebody who looks at every
 * instruction: what can be counted or must hold without a GPU. What fails ends the program.
 */
#ifndef TB_TESTS_FINGERPRINT_DEVICE_ENGINE_H
#define TB_TESTS_FINGERPRINT_DEVICE_ENGINE_H

#include "fingerprint/device/fp_device.h"
#include "softgpu/exec/watch.h"

#define ENGINE_SLOTS 256u

struct engine {
    struct sg_machine *machine;
    struct sg_image *image;
    uint64_t slots, scratch, data; /* addresses that host and kernels share */
    uint64_t ticket;
    uint32_t sms; /* the plan is for so many multiprocessors */
};

/** engine_open - @room: bytes at @e->data; engine_close - all of it is freed */
void engine_open(struct engine *e, uint32_t sms, size_t room);
void engine_close(struct engine *e);
/** engine_batch - hash @jobs buffers of @bytes that lie one after the other; warp instructions */
uint64_t engine_batch(struct engine *e, const struct sg_watcher *w, uint32_t jobs, uint64_t src,
                      uint64_t bytes, uint32_t rate);
/** engine_matrix - hash a matrix of f32 at @e->data; strides are in elements */
uint64_t engine_matrix(struct engine *e, const struct sg_watcher *w, const int64_t size[2],
                       const int64_t stride[2]);

#endif
