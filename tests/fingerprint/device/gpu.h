/*
 * gpu.h - a device with the hash kernels on it, by the driver API of a library that is looked up:
 * softgpu's here, a GPU's with no -l. For tests and benchmarks; what fails ends the program.
 */
#ifndef TB_TESTS_FINGERPRINT_DEVICE_GPU_H
#define TB_TESTS_FINGERPRINT_DEVICE_GPU_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include "fingerprint/device/fp_device.h"
#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"

#define GPU_SLOTS 1024u /* of the table */

void *gpu_symbol(const char *name);

#define CU_NAME_(name) #name
#define CU_NAME(name) CU_NAME_(name)
/* CU(cuMemAlloc)(&p, 16): macros of cuda.h turn the name into cuMemAlloc_v2 first */
#define CU(fn) ((__typeof__(&fn))gpu_symbol(CU_NAME(fn)))
/* NEED(cuMemAlloc, &p, 16): it must succeed */
#define NEED(fn, ...) gpu_need(CU_NAME(fn), CU(fn)(__VA_ARGS__))

struct gpu {
    CUcontext ctx;
    CUmodule module;
    CUfunction few, batch, alike, strided, fill;
    struct tb_wire_slot *slots; /* as the host sees them */
    CUdeviceptr slots_at, scratch;
    uint32_t sms;
    uint64_t ticket; /* the next one */
};

void gpu_need(const char *what, CUresult r);
/**
 * gpu_open - the first device of @library, NULL: libcuda.so.1; kernels of @image
 * Ends the program with status 77 if there is no such library or no device.
 */
void gpu_open(struct gpu *g, const char *library, const void *image);
void gpu_close(struct gpu *g);

/** gpu_begin - an empty batch with the table's addresses; gpu_add - a job with the next ticket */
void gpu_begin(struct gpu *g, struct tb_fpd_batch *b);
uint64_t gpu_add(struct gpu *g, struct tb_fpd_batch *b, CUdeviceptr src, uint64_t bytes,
                 uint32_t rate);
/** gpu_launch - plan for @sms multiprocessors and launch: few jobs by the kernel for few */
void gpu_launch(struct gpu *g, struct tb_fpd_batch *b, uint32_t sms, CUstream stream);
/** gpu_take - the value of a ticket that was stamped, which it is; the slot is free then */
struct tb_fp gpu_take(struct gpu *g, uint64_t ticket);
/** gpu_settled - is all scratch zero again? */
int gpu_settled(struct gpu *g);

#endif
